"""CSV and Parquet tables with a time column."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from twinproof.ingest.raw import RawSignal
from twinproof.nouns.errors import RecordingError

TABLES = (".csv", ".parquet")
# The time column is the first of these that the table has; the factor takes it to nanoseconds.
TIME_COLUMNS = {
    "time_ns": 1,
    "stamp_ns": 1,
    "timestamp_ns": 1,
    "time_us": 1_000,
    "time_ms": 1_000_000,
    "time_s": 1_000_000_000,
    "time": 1_000_000_000,
    "timestamp": 1_000_000_000,
    "t": 1_000_000_000,
}
EPOCH_NS = 10**15  # a later stamp counts from 1970, an earlier one from the start of the recording


@dataclass(frozen=True)
class Table:
    """Columns of numbers, columns of text, and a time for every row, as exact nanoseconds."""

    path: Path
    time_ns: np.ndarray  # float64 below EPOCH_NS keeps sub-nanosecond fractions out; int64 otherwise
    numbers: dict[str, np.ndarray]
    missing: dict[str, np.ndarray]
    texts: dict[str, list[str]]

    @property
    def names(self) -> list[str]:
        """All columns but the time."""
        return [*self.numbers, *self.texts]

    @property
    def start_ns(self) -> int:
        """Where time 0 of an episode may lie: the first stamp if it counts from 1970, else 0."""
        first = int(self.time_ns[0])
        return first if first > EPOCH_NS else 0

    @property
    def constants(self) -> dict[str, str]:
        """Text columns that say one thing throughout: labels."""
        return {name: values[0] for name, values in self.texts.items() if len(set(values)) == 1}

    def signal(self, name: str, start_ns: int) -> RawSignal:
        """The numbers as one signal, on the episode's clock."""
        if not self.numbers:
            raise RecordingError(f"{self.path} has a time column and no numbers. Add columns, or remove the file.")
        value = np.stack(list(self.numbers.values()), axis=1)
        missing = np.stack(list(self.missing.values()), axis=1)
        time_s = (self.time_ns - start_ns) / 1e9
        return RawSignal(name, tuple(self.numbers), time_s, value, missing if missing.any() else None)


def read_table(path: Path) -> Table:
    """A table with its time column found and its columns sorted into numbers and texts."""
    columns = _read_columns(path)
    time_name = next((name for name in TIME_COLUMNS if name in columns), None)
    if time_name is None:
        raise RecordingError(
            f"{path} has no time column; it has {', '.join(columns) or 'no columns'}. "
            f"Call one of them {', '.join(TIME_COLUMNS)}."
        )
    times = columns.pop(time_name)
    if len(times) == 0:
        raise RecordingError(f"{path} has no rows. Remove it, or record the episode again.")
    stamp, gap = _stamps(times, path, time_name)
    if gap.any():
        raise RecordingError(f"{path}: row {int(np.argmax(gap))} has no {time_name}. Every row needs a time.")
    if not np.isfinite(stamp).all():
        raise RecordingError(f"{path}: row {int(np.argmin(np.isfinite(stamp)))} has a {time_name} that is not finite.")
    if _is_number(times):
        _check_unit(stamp, path, time_name)
    numbers, missing, texts = {}, {}, {}
    for name, column in columns.items():
        if _is_number(column):
            numbers[name], missing[name] = _numbers(column, path, name)
        else:
            texts[name] = [str(value) for value in column.to_pylist()]
            _check_text(texts[name], path, name)
    return Table(path, _nanoseconds(times, stamp, TIME_COLUMNS[time_name]), numbers, missing, texts)


def _stamps(times: Any, path: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    import pyarrow as pa
    import pyarrow.types as kinds

    return _numbers(times.cast(pa.int64()) if kinds.is_timestamp(times.type) else times, path, name)


def _check_unit(stamp: np.ndarray, path: Path, name: str) -> None:
    """Seconds since 1970 have ten digits today; thirteen are milliseconds, and so on."""
    if TIME_COLUMNS[name] == 1_000_000_000 and len(stamp) > 1 and stamp[0] > 1e11:
        digits = len(str(int(stamp[0])))
        right = {13: "time_ms", 16: "time_us", 19: "time_ns"}.get(digits, "time_ms, time_us or time_ns")
        raise RecordingError(
            f"{path}: {name} starts at {stamp[0]:.0f}, which is no time in seconds. Call the column {right}."
        )


def _check_text(values: list[str], path: Path, name: str) -> None:
    """A column of numbers with a stray word in it is no column of text."""
    bad = [row for row, value in enumerate(values) if not _parses(value)]
    if 0 < len(bad) < 0.5 * len(values):
        raise RecordingError(
            f"{path}: row {bad[0]} of the column {name!r} holds {values[bad[0]]!r}, not a number. Mend it."
        )


def _parses(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


def _nanoseconds(times: Any, stamp: np.ndarray, factor: int) -> np.ndarray:
    import pyarrow as pa
    import pyarrow.types as kinds

    if kinds.is_timestamp(times.type):
        exact_ns: np.ndarray = times.cast(pa.timestamp("ns", times.type.tz)).cast(pa.int64()).to_numpy()
        return exact_ns
    if kinds.is_integer(times.type):  # exact, also beyond 2**53
        exact: np.ndarray = times.to_numpy().astype(np.int64) * factor
        return exact
    return stamp * factor


def _read_columns(path: Path) -> dict[str, Any]:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    if path.stat().st_size == 0:
        raise RecordingError(f"{path} is empty (0 bytes). Restore it, or remove it.")
    try:
        if path.suffix.lower() == ".parquet":
            table = pq.read_table(path, page_checksum_verification=True)
        else:
            # Only an empty cell is missing; "nan" stays NaN, to be judged by name.
            convert = pyarrow.csv.ConvertOptions(null_values=[""], strings_can_be_null=False)
            table = pyarrow.csv.read_csv(path, convert_options=convert)
        names = list(table.column_names)  # decoded only now: a damaged heading shows here
    except (pa.ArrowException, OSError, ValueError) as problem:
        reason = str(problem).splitlines()[0]
        raise RecordingError(f"{path} cannot be read as a table ({reason}). Restore or mend it.") from None
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise RecordingError(f"{path}: two columns are called {twice!r}. Rename one.")
    flat: dict[str, Any] = {}
    for name, column in zip(names, table.columns, strict=True):
        flat.update(_flat(name, column.combine_chunks(), path))
    return flat


def _flat(name: str, column: Any, path: Path) -> dict[str, Any]:
    """A list column of fixed width as one column a number: `state` -> `state_0`, `state_1`, …"""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as kinds

    if not (kinds.is_list(column.type) or kinds.is_fixed_size_list(column.type)):
        return {name: column}
    lengths = pc.list_value_length(column)
    widths = set(lengths.to_pylist())
    if len(widths) != 1 or None in widths:
        raise RecordingError(f"{path}: the lists in {name!r} have different lengths. Give every row the same.")
    (width,) = widths
    values = pc.list_flatten(column)
    return {f"{name}_{i}": values.take(pa.array(np.arange(i, len(values), width))) for i in range(width)}


def _is_number(column: Any) -> bool:
    import pyarrow.types as kinds

    kind = column.type
    return bool(kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_boolean(kind) or kinds.is_null(kind))


def _numbers(column: Any, path: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not _is_number(column):
        raise RecordingError(f"{path}: the column {name!r} holds text where numbers are needed. Mend it.")
    missing: np.ndarray = column.is_null().to_numpy(zero_copy_only=False)
    values: np.ndarray = pc.fill_null(column.cast(pa.float64(), safe=False), 0.0).to_numpy(zero_copy_only=False)
    return values, missing
