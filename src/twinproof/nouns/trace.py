"""A trace: what happened in one trial, real or simulated, in one type.

trace.json    domain, engine, events, parameters, columns
signals.npz   NAME/time_s, NAME/value [, NAME/missing, NAME/log_time_s]
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from twinproof.nouns.artifact import Artifact, read_arrays, write_arrays
from twinproof.nouns.errors import TraceError
from twinproof.nouns.files import SAFE_NAME
from twinproof.nouns.frozen import Frozen, settle
from twinproof.nouns.hashing import Json
from twinproof.nouns.signal import Column, Signal
from twinproof.nouns.strict import build
from twinproof.nouns.theta import Theta

ARRAYS = ("time_s", "value", "missing", "log_time_s")


@dataclass(frozen=True)
class Event:
    """Something that happened at a moment: grasp, lift, contact, release, place, home."""

    name: str
    time_s: float


@dataclass(frozen=True, eq=False)
class Trace(Artifact):
    """Signals and events of one trial. Events are in order of time; signals obey the laws of Signal.

    `domain` is "real", or the panel's name of a simulated one; a simulated trace names its engine and version, and
    the parameters that its world had.
    """

    NAME: ClassVar = "trace"
    ERROR: ClassVar = TraceError
    PARTS: ClassVar = ("signals",)

    domain: str
    signals: Mapping[str, Signal]
    events: tuple[Event, ...] = ()
    engine: str = ""  # "mujoco 3.17.0"; empty where nothing was simulated
    theta: Theta = field(default_factory=Theta)
    notes: tuple[str, ...] = ()  # in sentences: "world diverged at step 210"

    def __post_init__(self) -> None:
        if not self.domain:
            raise TraceError("a trace lacks its domain. Say 'real', or the name of the simulated domain.")
        if not self.signals:
            raise TraceError(f"a trace of domain {self.domain!r} has no signals: it does not say what happened.")
        for name, signal in self.signals.items():
            if not SAFE_NAME.fullmatch(name) or name != signal.name:
                raise TraceError(f"a trace holds the signal {signal.name!r} under {name!r}. Use the signal's own name.")
        for event in self.events:
            if not event.name or not math.isfinite(event.time_s):
                raise TraceError(f"the event {event.name!r} is at {event.time_s} s; give it a name and a time.")
        ordered = tuple(sorted(self.events, key=lambda event: (event.time_s, event.name)))
        settle(self, signals=Frozen(self.signals), events=ordered)

    def head(self) -> dict[str, Json]:
        columns = {
            name: {"kind": signal.kind, "columns": [[c.name, c.unit, c.frame] for c in signal.columns]}
            for name, signal in self.signals.items()
        }
        return {**super().head(), "signals": columns}

    def part_hashes(self) -> dict[str, str]:
        return {name: signal.hash for name, signal in self.signals.items()}

    def write_parts(self, folder: Path) -> None:
        pairs = ((signal, array) for signal in self.signals.values() for array in ARRAYS)
        arrays = {f"{signal.name}/{array}": getattr(signal, array) for signal, array in pairs}
        write_arrays(folder / "signals.npz", {name: array for name, array in arrays.items() if array is not None})

    @classmethod
    def read_parts(cls, folder: Path, head: Mapping[str, Json]) -> dict[str, Any]:
        return signals_from(head, read_arrays(folder / "signals.npz", TraceError))

    @property
    def span_s(self) -> tuple[float, float]:
        """First and last time of any signal."""
        times = [signal.time_s for signal in self.signals.values()]
        return min(float(t[0]) for t in times), max(float(t[-1]) for t in times)


def signals_from(head: Mapping[str, Json], arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The fields of a trace that its head does not hold whole: its signals, and its parameters as a Theta."""
    signals = {}
    for name, entry in head["signals"].items():
        columns = tuple(Column(*column) for column in entry["columns"])
        found = [arrays.get(f"{name}/{array}") for array in ARRAYS[2:]]
        signals[name] = Signal(name, entry["kind"], columns, arrays[f"{name}/time_s"], arrays[f"{name}/value"], *found)
    return {"signals": signals, "theta": Theta(head["theta"])}


def trace_from(head: Mapping[str, Json], arrays: Mapping[str, np.ndarray], where: str) -> Trace:
    """A trace from what `head` gave and its arrays, for files that hold many."""
    made = signals_from(head, arrays)
    return build(Trace, {name: value for name, value in head.items() if name not in made}, where, TraceError, made)
