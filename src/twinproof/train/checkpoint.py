"""Checkpoints of a training run: networks, optimiser and counters, in safetensors, whole or not at all.

RUN/run.json                what decides the curve: settings, parents, seed, contract
RUN/metrics.jsonl           a line an iteration
RUN/checkpoint_000040/      state.safetensors, state.json (iteration, steps, counters); the newest two are kept

A run is cut into segments. At the begin of each, all worlds and all random streams start anew from (seed, segment), so
what decides the rest of the curve is in the file, and a killed run goes on to the same curve.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from twinproof.nouns.errors import PolicyError
from twinproof.nouns.files import new_folder, read_json, remove_tree, sweep, write_json, write_whole
from twinproof.nouns.hashing import Json
from twinproof.nouns.policy import Contract, read_weights, require_same
from twinproof.nouns.strict import build, plain

FORMAT = "twinproof/training/1"
STATE = "state.safetensors"


@dataclass(frozen=True, eq=False)
class State:
    """Where a run stands at the end of a segment."""

    arrays: Mapping[str, np.ndarray]
    iteration: int
    told: Mapping[str, Json]  # counters that the algorithm wants back


@dataclass(frozen=True)
class Run:
    """The folder of one run."""

    folder: Path

    def begin(self, contract: Contract, decides: Mapping[str, Json]) -> State | None:
        """The newest checkpoint, or None for a new run. A folder of another contract or settings is refused."""
        path = self.folder / "run.json"
        if not path.is_file():
            self.folder.mkdir(parents=True, exist_ok=True)
            write_json(path, {"format": FORMAT, "contract": plain(contract), "decides": dict(decides)})
            return None
        stated = read_json(path, FORMAT, PolicyError)
        require_same(contract, build(Contract, stated.get("contract"), f"{path}: contract", PolicyError), str(path))
        _require_equal(path, stated.get("decides", {}), json.loads(json.dumps(decides)))
        return self._newest()

    def save(self, state: State) -> None:
        """Keeps a checkpoint, and the one before it."""
        from safetensors.numpy import save

        with new_folder(self.folder / f"checkpoint_{state.iteration:06d}") as scratch:
            whole = {name: np.ascontiguousarray(array) for name, array in state.arrays.items()}
            (scratch / STATE).write_bytes(save(whole))
            write_json(
                scratch / "state.json", {"format": FORMAT, "iteration": state.iteration, "told": dict(state.told)}
            )
        for old in self._folders()[:-2]:
            remove_tree(old)

    def lines(self) -> list[dict[str, Any]]:
        """The metrics so far."""
        path = self.folder / "metrics.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []

    def rewind(self, iteration: int) -> None:
        """Forgets metrics of iterations that no checkpoint holds: they are made again. A torn last line too."""
        path = self.folder / "metrics.jsonl"
        if path.is_file():
            whole = [line for line in path.read_text().splitlines(keepends=True) if line.endswith("}\n")]
            kept = [line for line in whole if json.loads(line)["iteration"] < iteration]
            write_whole(path, "".join(kept).encode())

    def tell(self, line: Mapping[str, Json]) -> None:
        """Adds a line to the metrics."""
        with (self.folder / "metrics.jsonl").open("a", encoding="utf-8") as handle:
            handle.write(json.dumps(dict(line), allow_nan=False) + "\n")

    def clear(self) -> None:
        """Removes the folder: the policy is written."""
        remove_tree(self.folder)

    def _folders(self) -> list[Path]:
        return sorted(path for path in self.folder.glob("checkpoint_*") if (path / "state.json").is_file())

    def _newest(self) -> State | None:
        for path in self.folder.glob("checkpoint_*"):
            sweep(path)
        folders = self._folders()
        if not folders:
            return None
        told = read_json(folders[-1] / "state.json", FORMAT, PolicyError)
        return State(read_weights(folders[-1] / STATE), int(told["iteration"]), told["told"])


def _require_equal(path: Path, stated: Mapping[str, Json], asked: Mapping[str, Json]) -> None:
    different = [name for name in sorted({*stated, *asked}) if stated.get(name) != asked.get(name)]
    if different:
        told = "; ".join(f"{name} was {stated.get(name)}, now {asked.get(name)}" for name in different)
        raise PolicyError(
            f"{path} belongs to a run that was stopped and had other settings: {told}. Start it with those to go on, "
            f"or remove {path.parent} to begin anew."
        )
