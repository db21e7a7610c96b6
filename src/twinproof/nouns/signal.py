"""One sensor's samples on one clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import RecordingError
from twinproof.nouns.hashing import content_hash, hash_array

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

KINDS = (
    "joint_position",
    "joint_velocity",
    "joint_torque",
    "joint_command",
    "gripper",
    "pose",
    "wrench",
    "imu",
    "event",
    "other",
)


@dataclass(frozen=True)
class Column:
    """One number of a signal: its name, its SI unit, and the frame it is expressed in ('' where none applies)."""

    name: str
    unit: str
    frame: str = ""


@dataclass(frozen=True, eq=False)
class Signal:
    """Samples of some columns on one clock. Times increase; values are finite or marked missing; arrays are frozen.

    `time_s` counts from the episode's start; `log_time_s` is when the recorder received each sample, where known.
    """

    name: str
    kind: str
    columns: tuple[Column, ...]
    time_s: Float[np.ndarray, "T"]
    value: Float[np.ndarray, "T D"]
    missing: Bool[np.ndarray, "T D"] | None = None  # None: every value was measured
    log_time_s: Float[np.ndarray, "T"] | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise RecordingError(f"{self.name}: kind {self.kind!r} is unknown. Use one of {', '.join(KINDS)}.")
        self._freeze("time_s", np.float64)
        self._freeze("value", np.float64)
        if self.missing is not None:
            self._freeze("missing", np.bool_)
            if not self.missing.any():
                object.__setattr__(self, "missing", None)
        if self.log_time_s is not None:
            self._freeze("log_time_s", np.float64)
        self._check_shapes()
        self._check_times()
        self._check_values()

    def _freeze(self, field: str, dtype: type) -> None:
        array: np.ndarray = np.array(getattr(self, field), dtype=dtype)
        array.setflags(write=False)
        object.__setattr__(self, field, array)  # a frozen dataclass does not freeze its arrays

    def _check_shapes(self) -> None:
        samples, width = len(self.time_s), len(self.columns)
        if samples == 0:
            raise RecordingError(f"{self.name}: no samples. Leave the signal out of the rig, or record it again.")
        names = [column.name for column in self.columns]
        if len(set(names)) != width:
            twice = next(name for name in names if names.count(name) > 1)
            raise RecordingError(f"{self.name}: two columns are called {twice!r}. Give each its own name in the rig.")
        for field in ("value", "missing"):
            array = getattr(self, field)
            if array is not None and array.shape != (samples, width):
                raise RecordingError(
                    f"{self.name}: {field} has shape {array.shape}, but {samples} times and {width} columns "
                    f"need {(samples, width)}."
                )
        if self.log_time_s is not None and self.log_time_s.shape != (samples,):
            raise RecordingError(f"{self.name}: {len(self.log_time_s)} log times for {samples} samples.")

    def _check_times(self) -> None:
        times = [("time", self.time_s)] + ([("log time", self.log_time_s)] if self.log_time_s is not None else [])
        for label, values in times:
            if not np.isfinite(values).all():
                i = int(np.argmin(np.isfinite(values)))
                raise RecordingError(f"{self.name}: the {label} of sample {i} is {values[i]}. Re-stamp it.")
        step = np.diff(self.time_s)
        if (step <= 0).any():
            i = int(np.argmax(step <= 0))
            raise RecordingError(
                f"{self.name}: sample {i + 1} is at {self.time_s[i + 1]:.6f} s, not after sample {i} "
                f"at {self.time_s[i]:.6f} s ({int((step <= 0).sum())} such samples). Drop or re-stamp it in the "
                "source file; in a bag, the rig may say time = 'log' for this topic."
            )

    def _check_values(self) -> None:
        broken = ~np.isfinite(self.value)
        if self.missing is not None:
            marked = np.where(self.missing, np.nan, self.value)
            marked.setflags(write=False)
            object.__setattr__(self, "value", marked)
            broken = broken & ~self.missing
        if broken.any():
            i, j = (int(k) for k in np.argwhere(broken)[0])
            cure = "Mend the source, or leave the signal out of the rig."
            if np.isnan(self.value[i, j]):
                cure = "If NaN means 'no reading', ingest with --nan-is-missing; otherwise mend the source."
            raise RecordingError(
                f"{self.name}: {self.columns[j].name} is {self.value[i, j]} at sample {i} ({self.time_s[i]:.6f} s; "
                f"{int(broken.sum())} such values). {cure}"
            )

    @property
    def hash(self) -> str:
        """Names the signal's content: columns, times and values, and nothing else."""
        missing = None if self.missing is None else hash_array(self.missing)
        log_time = None if self.log_time_s is None else hash_array(self.log_time_s)
        columns = [[column.name, column.unit, column.frame] for column in self.columns]
        value = self.value if self.missing is None else np.where(self.missing, 0.0, self.value)
        arrays = [hash_array(self.time_s), hash_array(value), missing, log_time]
        return content_hash([self.name, self.kind, columns, *arrays])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Signal) and self.hash == other.hash

    def __hash__(self) -> int:
        return hash(self.hash)

    def column(self, name: str) -> Float[np.ndarray, "T"]:
        """The values of one column; missing ones are NaN."""
        names = [column.name for column in self.columns]
        if name not in names:
            raise RecordingError(f"{self.name} has no column {name!r}; it has {', '.join(names)}.")
        column: np.ndarray = self.value[:, names.index(name)]
        return column

    def window(self, start_s: float, end_s: float) -> Signal:
        """The samples with start_s <= time < end_s, times unchanged."""
        keep = slice(*np.searchsorted(self.time_s, [start_s, end_s], side="left"))
        return Signal(
            self.name,
            self.kind,
            self.columns,
            self.time_s[keep],
            self.value[keep],
            None if self.missing is None else self.missing[keep],
            None if self.log_time_s is None else self.log_time_s[keep],
        )
