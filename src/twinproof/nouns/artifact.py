"""What every noun that has a folder of its own shares: a content hash, equality, `save` and `load`.

NAME.json   format, hash, the noun's fields, the hash of every file beside it, and a seal over all of that; written last
the parts   arrays, meshes, tables: whatever is too large for JSON
"""

from __future__ import annotations

import dataclasses
import zipfile
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from twinproof.nouns.errors import TwinproofError
from twinproof.nouns.files import check_files, file_hashes, new_folder, read_sealed, sealed_bytes
from twinproof.nouns.hashing import Json, content_hash
from twinproof.nouns.strict import build, plain

FRAME = ("format", "hash", "files")  # what the JSON holds beside the noun's own fields


class Artifact:
    """A noun in a folder. A frozen dataclass (with eq=False) becomes one by naming itself and its parts.

    Every field that is not in PARTS goes into the JSON. Two artifacts are equal when their hashes are.
    """

    NAME: ClassVar[str]
    ERROR: ClassVar[type[TwinproofError]]
    PARTS: ClassVar[tuple[str, ...]] = ()

    def head(self) -> dict[str, Json]:
        """The fields that stand in the JSON, as plain data."""
        fields = [field for field in dataclasses.fields(self) if field.init]  # type: ignore[arg-type]
        values = {field.name: getattr(self, field.name) for field in fields if field.name not in self.PARTS}
        return {name: plain(value) for name, value in values.items() if value is not None}

    def part_hashes(self) -> dict[str, str]:
        """The hash of the content of each part."""
        return {}

    def write_parts(self, folder: Path) -> None:
        """Writes the parts into a folder."""

    @classmethod
    def read_parts(cls, folder: Path, head: Mapping[str, Json]) -> dict[str, Any]:
        """The fields that cannot be built from the JSON alone."""
        return {}

    @cached_property
    def hash(self) -> str:
        """Names the whole content, parents and ledger head included."""
        return content_hash([_format(self.NAME), self.head(), self.part_hashes()])

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, Artifact) and self.hash == other.hash

    def __hash__(self) -> int:
        return hash(self.hash)

    def save(self, folder: Path) -> None:
        """Writes everything into a folder that does not exist yet, the JSON last."""
        with new_folder(folder) as scratch:
            self.write(scratch)

    def write(self, folder: Path) -> None:
        """Writes everything into an empty folder, the JSON last; whoever made the folder makes it durable."""
        self.write_parts(folder)
        head = {"format": _format(self.NAME), "hash": self.hash, **self.head(), "files": file_hashes(folder)}
        (folder / f"{self.NAME}.json").write_bytes(sealed_bytes(head))

    @classmethod
    def load(cls, folder: Path) -> Self:
        """What lies in a folder; every byte is checked against what was written."""
        path, error = folder / f"{cls.NAME}.json", cls.ERROR
        head = read_sealed(path, _format(cls.NAME), error)
        fields = {name: value for name, value in head.items() if name not in FRAME}
        try:
            check_files(folder, head["files"], error)
            made = cls.read_parts(folder, fields)
        except (KeyError, TypeError, AttributeError) as problem:
            raise error(f"{path} does not fit its files ({problem!r}). Make {folder} again.") from None
        fields = {name: value for name, value in fields.items() if name not in made}
        thing = build(cls, fields, str(path), error, made)
        if thing.hash != head.get("hash"):
            raise error(
                f"{folder}: its content has the hash {thing.hash[:16]}, {path.name} states "
                f"{str(head.get('hash'))[:16]}. It was changed: make it again."
            )
        return thing


def _format(name: str) -> str:
    return f"twinproof/{name}/1"


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes an NPZ, uncompressed and without pickle."""
    np.savez(path, allow_pickle=False, **dict(arrays))


def read_arrays(path: Path, error: type[TwinproofError]) -> dict[str, np.ndarray]:
    """The arrays of an NPZ; compressed ones are refused, as what we write never unpacks to more than its size."""
    try:
        with zipfile.ZipFile(path) as archive:
            packed = [entry.filename for entry in archive.infolist() if entry.compress_type != zipfile.ZIP_STORED]
        if packed:
            raise error(f"{path} holds {packed[0]} compressed; twinproof writes it plain. Make it again.")
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, MemoryError, zipfile.BadZipFile) as problem:
        raise error(f"{path} is not a readable NPZ ({problem}). Restore it, or make it again.") from None
