"""What a file that a job names stands for in a key: its content, and that of the files that it reads in turn."""

from __future__ import annotations

import glob
import os
import re
import tomllib
from pathlib import Path

from twinproof.nouns.errors import SimError
from twinproof.nouns.files import file_hashes
from twinproof.nouns.hashing import Json, hash_file
from twinproof.nouns.own_code import neighbours
from twinproof.sim.references import pulled_in

PLACE = re.compile(r"\{(\w+)\}")


def content_of(path: Path) -> Json:
    """The hash of a file and of those that it reads, or of each in a folder or under a pattern; the path where nothing
    is."""
    if path.is_file():
        return _with_reads(path)
    if path.is_dir():
        return file_hashes(path)
    fixed, *more = (glob.escape(words) for words in PLACE.split(str(path.relative_to(path.anchor)))[::2])
    found = sorted(Path(path.anchor).glob("*".join([fixed, *more]))) if more else []
    start = len(str(path).partition("{")[0])
    return {str(each)[start:]: _with_reads(each) for each in found} or str(path)


def _with_reads(path: Path) -> Json:
    """A file's hash; with those of the files that it reads, by name, where there are any."""
    inner = {os.path.relpath(each, path.parent): each for each in reads(path)}
    if not inner:
        return hash_file(path)
    return [hash_file(path), {name: hash_file(each) if each.is_file() else "" for name, each in sorted(inner.items())}]


def reads(path: Path) -> tuple[Path, ...]:
    """The files that a file reads in turn: the modules beside a Python file, what a model names, the model of a rig.

    A file that cannot be understood reads nothing: the stage that uses it says what is wrong.
    """
    match path.suffix.lower():
        case ".py":
            return neighbours(path)
        case ".xml" | ".urdf" | ".mjcf":
            return _of_model(path)
        case ".toml":
            return _of_rig(path)
        case _:
            return ()


def _of_model(path: Path) -> tuple[Path, ...]:
    try:
        return pulled_in(path)
    except SimError:
        return ()


def _of_rig(path: Path) -> tuple[Path, ...]:
    """The robot's model that a rig names beside it, and what that reads."""
    try:
        model = tomllib.loads(path.read_text(encoding="utf-8")).get("model")
    except (OSError, ValueError):
        return ()
    name = model.get("path") if isinstance(model, dict) else None
    if not isinstance(name, str) or not (path.parent / name).is_file():
        return ()
    return (path.parent / name, *_of_model(path.parent / name))
