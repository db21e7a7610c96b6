"""Parquet as LeRobot uses it: some rows of a file in bounded memory, and its lists as plain arrays."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from twinproof.nouns.errors import RecordingError

BATCH_ROWS = 4096


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """What damaged bytes make a Parquet or JSON library raise becomes one error that names the file."""
    import pyarrow as pa

    if not path.is_file():
        raise RecordingError(f"{path} is missing. Restore it from the source, or record the dataset again.")
    if path.stat().st_size == 0:
        raise RecordingError(f"{path} is empty (0 bytes). Restore it from the source.")
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, KeyError, OverflowError, MemoryError, RecursionError) as problem:
        text = str(problem).splitlines()[0][:200] if str(problem) else type(problem).__name__
        raise RecordingError(f"{path} cannot be read ({text}). Restore it from the source.") from None


def row_count(path: Path) -> int:
    """The rows of a Parquet file, by its own footer."""
    import pyarrow.parquet as pq

    with reading(path), pq.ParquetFile(path) as file:
        return int(file.metadata.num_rows)


def column_names(path: Path) -> list[str]:
    """The top-level columns of a Parquet file."""
    import pyarrow.parquet as pq

    with reading(path), pq.ParquetFile(path) as file:
        return [str(name) for name in file.schema_arrow.names]


def read_small(path: Path, columns: Sequence[str]) -> Any:
    """Some columns of a small table, whole; a missing one is an error."""
    import pyarrow.parquet as pq

    lacking = [name for name in columns if column_names(path).count(name) != 1]
    if lacking:
        raise RecordingError(f"{path} has no column {lacking[0]!r}. Restore it from the source.")
    with reading(path), pq.ParquetFile(path, page_checksum_verification=True) as file:
        return file.read(columns=list(columns))


def batches(path: Path, first: int, count: int, columns: Sequence[str], rows: int = BATCH_ROWS) -> Iterator[Any]:
    """Rows first .. first+count as record batches; row groups outside the span are not touched."""
    import pyarrow.parquet as pq

    with reading(path), pq.ParquetFile(path, page_checksum_verification=True, pre_buffer=False) as file:
        groups, position, start = [], -1, 0
        for group in range(file.num_row_groups):
            size = file.metadata.row_group(group).num_rows
            if start < first + count and start + size > first:
                groups.append(group)
                position = start if position < 0 else position
            start += size
        for batch in file.iter_batches(rows, row_groups=groups, columns=list(columns)):
            low, high = max(first, position), min(first + count, position + batch.num_rows)
            if low < high:
                yield batch.slice(low - position, high - low)
            position += batch.num_rows


def read_rows(path: Path, first: int, count: int, columns: Sequence[str]) -> Any:
    """Rows first .. first+count as one table; fewer rows than asked for is an error."""
    import pyarrow as pa

    kept = list(batches(path, first, count, columns))
    found = sum(batch.num_rows for batch in kept)
    if found != count:
        raise RecordingError(f"{path} gave {found} rows from row {first} on, {count} are needed. Restore the file.")
    with reading(path):
        table = pa.Table.from_batches(kept)
        for name in columns:
            if table.column_names.count(name) != 1:
                raise RecordingError(f"{path} has no column {name!r}, which meta/info.json lists. Restore the file.")
        return table


def whole_numbers(table: Any, name: str, path: Path) -> np.ndarray:
    """An integer column; a null in it is an error."""
    import pyarrow as pa

    with reading(path):
        column = table[name].combine_chunks()
        if column.null_count or not pa.types.is_integer(column.type):
            found = f"{column.null_count} nulls" if column.null_count else str(column.type)
            raise RecordingError(f"{path}: column {name!r} must hold whole numbers, found {found}. Mend it.")
        values: np.ndarray = column.cast(pa.int64()).to_numpy()
        return values


def texts(table: Any, name: str, path: Path) -> list[str | None]:
    """A text column; scalars and lists of one are both read."""
    with reading(path):
        values = [item[0] if isinstance(item, list) and item else item for item in table[name].to_pylist()]
        if not all(value is None or isinstance(value, str) for value in values):
            raise RecordingError(f"{path}: column {name!r} must hold texts. Mend its dtype in meta/info.json.")
        return values


def numbers(table: Any, name: str, shape: tuple[int, ...], path: Path) -> tuple[np.ndarray, np.ndarray | None]:
    """A column of scalars or (nested) lists as (T, D) float64, with a mark for every null; NaN is left alone."""
    with reading(path):
        column = table[name].combine_chunks()
        value, missing = _flat(column, shape, f"{path}: feature {name!r}")
    width = math.prod(shape)
    value, missing = value.reshape(len(column), width), missing.reshape(len(column), width)
    return value, missing if missing.any() else None


def _flat(column: Any, shape: tuple[int, ...], where: str) -> tuple[np.ndarray, np.ndarray]:
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    kind = column.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        valid = ~column.is_null().to_numpy(zero_copy_only=False)
        sizes = pc.list_value_length(column.drop_null()).to_numpy(zero_copy_only=False)
        needed = shape[0] if shape else 1
        if len(sizes) and (sizes != needed).any():
            row = int(np.flatnonzero(valid)[np.argmax(sizes != needed)])
            raise RecordingError(
                f"{where} has {int(sizes[sizes != needed][0])} numbers at row {row}, its shape in meta/info.json says "
                f"{needed}. Mend the shape, or record the episode again."
            )
        inner = shape[1:] if shape else ()
        width = needed * math.prod(inner)
        value, missing = np.full((len(column), width), np.nan), np.ones((len(column), width), dtype=bool)
        below, below_missing = _flat(column.drop_null().flatten(), inner, where)
        value[valid], missing[valid] = below.reshape(-1, width), below_missing.reshape(-1, width)
        return value, missing
    if math.prod(shape) != 1:
        raise RecordingError(
            f"{where} has single numbers, its shape in meta/info.json says {list(shape)}. Mend the shape."
        )
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise RecordingError(f"{where} holds {kind}, not numbers. Mend its dtype in meta/info.json.")
    missing = column.is_null().to_numpy(zero_copy_only=False)
    value = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return value, missing
