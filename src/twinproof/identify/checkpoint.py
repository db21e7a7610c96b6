"""Long fits that were stopped go on where they were: finished stages are kept until the posterior is written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from twinproof.nouns.artifact import read_arrays, write_arrays
from twinproof.nouns.errors import PosteriorError, TwinproofError
from twinproof.nouns.files import read_json, remove_tree, write_json

FORMAT = "twinproof/fit-checkpoint/2"


@dataclass(frozen=True)
class Checkpoint:
    """A folder of finished stages. The key is made of all that decides the answer: another key starts afresh."""

    folder: Path
    key: str

    def load(self, stage: int) -> dict[str, np.ndarray] | None:
        """What a stage left, or None where it did not finish, was damaged, or belongs to another question."""
        path = self.folder / f"stage{stage}.npz"
        try:
            stated = read_json(self.folder / "key.json", FORMAT, PosteriorError)["key"]
            return read_arrays(path, PosteriorError) if stated == self.key and path.is_file() else None
        except (TwinproofError, KeyError):
            return None

    def save(self, stage: int, arrays: dict[str, np.ndarray]) -> None:
        """Keeps a stage: whole, or not at all."""
        if self.load_key() != self.key:
            remove_tree(self.folder)
            self.folder.mkdir(parents=True)
            write_json(self.folder / "key.json", {"format": FORMAT, "key": self.key})
        scratch = self.folder / f".stage{stage}.npz"
        write_arrays(scratch, arrays)
        scratch.replace(self.folder / f"stage{stage}.npz")

    def load_key(self) -> str | None:
        """The key that the folder was begun with."""
        try:
            return str(read_json(self.folder / "key.json", FORMAT, PosteriorError)["key"])
        except (TwinproofError, KeyError):
            return None

    def clear(self) -> None:
        """Removes the folder: the answer is written."""
        remove_tree(self.folder)
