"""Long fits that were stopped go on where they were: what was finished is kept until the posterior is written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from twinproof.nouns.artifact import read_arrays, write_arrays
from twinproof.nouns.errors import PosteriorError, TwinproofError
from twinproof.nouns.files import read_json, remove_tree, write_json
from twinproof.nouns.hashing import Json

FORMAT = "twinproof/fit-checkpoint/3"


@dataclass(frozen=True)
class Checkpoint:
    """A folder of finished pieces. The key is made of all that decides the answer: another key starts afresh."""

    folder: Path
    key: str
    part: str = ""  # what the names of this part of the work begin with

    def within(self, part: str) -> Checkpoint:
        """The same folder for one part of the work, whose names are its own."""
        return replace(self, part=f"{self.part}{part}-")

    def load(self, name: str) -> dict[str, np.ndarray] | None:
        """What a piece left, or None where it did not finish, was damaged, or belongs to another question."""
        path = self.folder / f"{self.part}{name}.npz"
        try:
            stated = read_json(self.folder / "key.json", FORMAT, PosteriorError)["key"]
            return read_arrays(path, PosteriorError) if stated == self.key and path.is_file() else None
        except (TwinproofError, KeyError):
            return None

    def save(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Keeps a piece: whole, or not at all; what had its name before is replaced."""
        if self.load_key() != self.key:
            remove_tree(self.folder)
            self.folder.mkdir(parents=True)
            write_json(self.folder / "key.json", {"format": FORMAT, "key": self.key})
        scratch = self.folder / f".{self.part}{name}.npz"
        write_arrays(scratch, arrays)
        scratch.replace(self.folder / f"{self.part}{name}.npz")

    def load_key(self) -> str | None:
        """The key that the folder was begun with."""
        try:
            return str(read_json(self.folder / "key.json", FORMAT, PosteriorError)["key"])
        except (TwinproofError, KeyError):
            return None

    def clear(self) -> None:
        """Removes the folder: the answer is written."""
        remove_tree(self.folder)


def packed(value: Json) -> np.ndarray:
    """Plain data as an array of bytes."""
    return np.frombuffer(json.dumps(value).encode(), dtype=np.uint8)


def unpacked(array: np.ndarray) -> Json:
    """The data again."""
    found: Json = json.loads(array.tobytes())
    return found


def chance(rng: np.random.Generator) -> np.ndarray:
    """Where a generator stands, as an array."""
    return packed(rng.bit_generator.state)


def resume(rng: np.random.Generator, stood: np.ndarray) -> None:
    """Puts a generator where it stood."""
    rng.bit_generator.state = unpacked(stood)
