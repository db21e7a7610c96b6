"""Foreign models are scanned, then compiled in a process with limits, before this process touches them.

A model from elsewhere can read any file (mesh paths), eat all memory (textures, replicas), run native code (plugins)
or crash MuJoCo outright (a height field of 100,000 × 100,000).
"""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twinproof.nouns.errors import SimError
from twinproof.sim.references import expand, file_references, inside_root, parse_xml
from twinproof.sim.scene import Scene, engine

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


@dataclass(frozen=True)
class Limits:
    """What a foreign model may use."""

    file_bytes: int = 256 << 20
    all_bytes: int = 1 << 30
    pixels: int = 1 << 26  # of one texture, or cells of one height field
    copies: int = 100_000  # of what <replicate>, <composite> and <flexcomp> multiply, nested ones together
    memory_bytes: int = 4 << 30
    cpu_s: int = 60
    wall_s: float = 120.0


@dataclass(frozen=True)
class Checked:
    """A scene that may be used here: it lies inside its root, and compiled and stepped within the limits."""

    scene: Scene
    engine: str
    files: tuple[str, ...]
    bodies: tuple[str, ...]
    joints: tuple[str, ...]


def check_foreign(path: Path, root: Path | None = None, limits: Limits | None = None) -> Checked:
    """The model in an MJCF or URDF file, after a scan and a trial in a process of its own. The root holds its files."""
    limits = limits or Limits()
    root = path.parent if root is None else root
    if not path.resolve().is_relative_to(root.resolve()):
        raise SimError(f"the model {path} is not inside its root {root}. Name a folder that holds both.")
    xml = expand(path, root)
    files = scan(parse_xml(xml.encode(), str(path)), path, root, limits)
    found = compile_apart(xml, path.parent, str(path), limits)
    return Checked(Scene(xml, path.parent), engine(), files, tuple(found["bodies"]), tuple(found["joints"]))


def scan(tree: Element, path: Path, root: Path, limits: Limits) -> tuple[str, ...]:
    """The files a model names, after nothing dangerous was found in its text."""
    if tree.tag not in ("mujoco", "robot"):
        raise SimError(f"{path} is a <{tree.tag}>. A model is a <mujoco> (MJCF) or a <robot> (URDF).")
    for element in tree.iter():
        if element.tag in ("extension", "plugin") or "plugin" in element.attrib:
            raise SimError(f"{path} uses a plugin (<{element.tag}>), which runs native code. Remove it.")
        for key, value in element.attrib.items():
            _check_numbers(path, element.tag, key, value)
        _check_size(path, element, limits)
    _check_copies(path, tree, 1, limits)
    return _check_files(tree, path, root, limits)


def _check_numbers(path: Path, tag: str, key: str, value: str) -> None:
    if key.endswith("name") or key in ("class", "childclass"):
        return
    for word in value.replace(",", " ").split():
        number = _number(word)
        if number is not None and not math.isfinite(number):
            raise SimError(f"{path}: {key} of <{tag}> holds {word!r}. Every number must be finite: mend it.")


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


def _check_size(path: Path, element: Element, limits: Limits) -> None:
    """Height fields and made-up textures state their size; MuJoCo allocates it without a question."""
    wide, high = {"hfield": ("ncol", "nrow"), "texture": ("width", "height")}.get(element.tag, ("", ""))
    if not wide:
        return
    sizes = [_number(element.get(key, "0")) or 0 for key in (wide, high)]
    faces = 6 if element.get("type", "cube") != "2d" else 1
    if max(sizes) * max(1, min(sizes)) * (faces if element.tag == "texture" else 1) > limits.pixels or min(sizes) < 0:
        raise SimError(
            f"{path}: <{element.tag} name={element.get('name', '')!r}> is {sizes[0]:.0f} × {sizes[1]:.0f}, more than "
            f"{limits.pixels} in all. Make it smaller."
        )


def _check_copies(path: Path, element: Element, outer: float, limits: Limits) -> None:
    copies = outer
    if element.tag in ("replicate", "composite", "flexcomp"):
        for word in element.get("count", "1").split():
            copies *= max(1.0, _number(word) or 1.0)
    if copies > limits.copies:
        raise SimError(f"{path}: <{element.tag}> makes {copies:.0f} copies, {limits.copies} are allowed. Make fewer.")
    for child in element:
        _check_copies(path, child, copies, limits)


def _check_files(tree: Element, path: Path, root: Path, limits: Limits) -> tuple[str, ...]:
    names, total = list[str](), 0
    for element, name in file_references(tree):
        file = inside_root(path.parent, name, root, str(path))
        if not file.is_file():
            raise SimError(f"{path} names {name!r}, which does not exist. Put it beside the model, or mend the name.")
        size = file.stat().st_size
        total += size
        if size > limits.file_bytes or total > limits.all_bytes:
            raise SimError(
                f"{path} names {name!r} of {size >> 20} MB; one file may have {limits.file_bytes >> 20} MB, all "
                f"together {limits.all_bytes >> 20} MB. Simplify it."
            )
        wide, high = _stated_size(file, element.tag)
        if wide * high > limits.pixels:
            raise SimError(f"{path} names {name!r}, which says it is {wide} × {high}. Make it smaller.")
        names.append(name)
    return tuple(sorted(set(names)))


def _stated_size(file: Path, tag: str) -> tuple[int, int]:
    """Columns and rows that a PNG or a binary height field states in its first bytes; decoders believe them."""
    with file.open("rb") as handle:
        head = handle.read(24)
    if head.startswith(b"\x89PNG"):
        return int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")
    if tag == "hfield":
        return int.from_bytes(head[4:8], "little"), int.from_bytes(head[:4], "little")
    return 0, 0


def compile_apart(xml: str, folder: Path, where: str, limits: Limits) -> dict[str, list[str]]:
    """Compiles and steps a model in a process with limits on memory and time; names of its bodies and joints."""
    order = {"xml": xml, "root": str(folder.absolute()), "memory": limits.memory_bytes, "cpu": limits.cpu_s}
    with tempfile.TemporaryDirectory() as scratch:
        try:
            done = subprocess.run(
                [sys.executable, "-m", "twinproof.sim.trial"],
                input=json.dumps(order),
                capture_output=True,
                text=True,
                timeout=limits.wall_s,
                cwd=scratch,  # MuJoCo writes its log where it stands
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise SimError(f"{where} did not compile within {limits.wall_s:g} s. Simplify its meshes.") from None
    return answer_of(done, where, limits)


def answer_of(done: subprocess.CompletedProcess[str], where: str, limits: Limits) -> dict[str, list[str]]:
    """What a trial said before it ended, or an error that says how it ended."""
    if done.returncode == -signal.SIGXCPU:
        raise SimError(f"{where} did not compile within {limits.cpu_s} s of CPU time. Simplify its meshes.")
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        raise SimError(f"{where} crashes MuJoCo ({name}) while it compiles. Look for absurd sizes or a broken mesh.")
    lines = done.stdout.splitlines()
    answer: dict[str, Any] = (
        json.loads(lines[-1]) if lines and lines[-1].startswith("{") else {"error": _last_line(done.stderr)}
    )
    if "error" in answer:
        raise SimError(f"{where} cannot be used: {answer['error']}")
    return answer


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["the process ended without a word."])[-1]
