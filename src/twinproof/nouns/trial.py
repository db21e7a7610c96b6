"""A trial: one policy in one condition of one domain, and how it ended. A table of trials is one Parquet file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twinproof.nouns.errors import TraceError
from twinproof.nouns.failure import Failure
from twinproof.nouns.frozen import Frozen, settle
from twinproof.nouns.hashing import content_hash

TEXTS = ("policy", "condition", "domain", "failure", "trace", "note")
NUMBERS = ("seed", "repeat")
METRIC = "metric/"  # the prefix of a metric's column


@dataclass(frozen=True)
class Trial:
    """One run of a policy. A failure carries its label, a success carries none; a metric that is not known is absent.

    `policy`, `condition` and `domain` are names in the panel and the evidence; `repeat` counts trials of one cell;
    `trace` is the hash of the trace.
    """

    policy: str
    condition: str
    domain: str
    seed: int
    success: bool
    failure: Failure | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    trace: str | None = None
    repeat: int = 0
    note: str = ""  # what the trace shows, in a sentence

    def __post_init__(self) -> None:
        if not (self.policy and self.condition and self.domain):
            raise TraceError(f"{self.where}: a trial names its policy, its condition and its domain.")
        if not 0 <= self.seed < 2**63 or self.repeat < 0:
            raise TraceError(f"{self.where}: seed {self.seed} or repeat {self.repeat} is out of range (0 to 2^63).")
        if self.success and self.failure is not None:
            raise TraceError(f"{self.where}: a success carries the failure label {self.failure.label!r}. Keep one.")
        if not self.success and self.failure is None:
            raise TraceError(
                f"{self.where}: a failure without a label. Where the trace does not tell, say 'undecided'."
            )
        for name, value in self.metrics.items():
            if not math.isfinite(value):
                raise TraceError(f"{self.where}: the metric {name!r} is {value}. Leave out what is not known.")
        settle(self, metrics=Frozen({name: float(value) for name, value in self.metrics.items()}))

    @property
    def where(self) -> str:
        """The trial in words."""
        return f"trial {self.repeat} of policy {self.policy!r} in condition {self.condition!r}, domain {self.domain!r}"


def trials_hash(trials: Iterable[Trial]) -> str:
    """Names the outcome of all trials, in their order."""
    return content_hash([{**_row(trial), METRIC: dict(trial.metrics)} for trial in trials])


def _row(trial: Trial) -> dict[str, Any]:
    names = ("policy", "condition", "domain", "seed", "repeat", "success", "trace", "note")
    return {**{name: getattr(trial, name) for name in names}, "failure": trial.failure and trial.failure.label}


def write_trials(path: Path, trials: Iterable[Trial]) -> None:
    """Writes one row per trial, and one column per metric, null where a trial has none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = list(trials)
    metrics = sorted({name for trial in rows for name in trial.metrics})
    kinds = {**dict.fromkeys(TEXTS, pa.string()), **dict.fromkeys(NUMBERS, pa.int64()), "success": pa.bool_()}
    plain = [_row(trial) for trial in rows]
    columns = {name: pa.array([row[name] for row in plain], kind) for name, kind in kinds.items()}
    for name in metrics:
        columns[METRIC + name] = pa.array([trial.metrics.get(name) for trial in rows], pa.float64())
    pq.write_table(pa.table(columns), path, compression="zstd", write_page_checksum=True)


def read_trials(path: Path) -> tuple[Trial, ...]:
    """The trials in a Parquet file, in their order."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path, page_checksum_verification=True)
    except (pa.ArrowException, OSError) as problem:
        raise TraceError(f"{path} is no readable table of trials ({problem}). Restore it, or make it again.") from None
    lacking = {*TEXTS, *NUMBERS, "success"} - set(table.column_names)
    if lacking:
        raise TraceError(f"{path} lacks the columns {', '.join(sorted(lacking))} of a table of trials. Make it again.")
    return tuple(_trial(row) for row in table.to_pylist())


def _trial(row: dict[str, Any]) -> Trial:
    found = ((name, value) for name, value in row.items() if name.startswith(METRIC) and value is not None)
    metrics = {name.removeprefix(METRIC): value for name, value in found}
    failure = None if row["failure"] is None else Failure.of(row["failure"])
    fields = ("policy", "condition", "domain", "seed", "success", "trace", "repeat", "note")
    return Trial(failure=failure, metrics=metrics, **{name: row[name] for name in fields})
