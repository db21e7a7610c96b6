"""Arrays as long as a recording: small ones in memory, large ones in files without a name that nobody else sees.

What is read or written of an array on a file counts as memory until `forget` is called: whoever goes through a long
recording piece by piece forgets each piece, and so holds one at a time. The numbers stay in the file.
"""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from twinproof.nouns.errors import StoreError

SMALL = 1 << 20  # bytes of an array that stays in memory


def empty(shape: Sequence[int], dtype: Any = np.float64) -> np.ndarray:
    """An array to be filled, in memory where it is small."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    if size <= SMALL:
        return np.empty(shape, dtype)
    with tempfile.TemporaryFile() as file:
        _reserve(file.fileno(), size)
        held = mmap.mmap(file.fileno(), size)
    return np.frombuffer(held, dtype).reshape(shape)


def stacked(chunks: Iterator[Sequence[np.ndarray]]) -> tuple[np.ndarray, ...]:
    """Chunks of several arrays, each array one behind the other; a single chunk is given back as it is."""
    first = tuple(next(chunks))
    after = next(chunks, None)
    if after is None:
        return first
    files = [tempfile.TemporaryFile() for _ in first]  # noqa: SIM115 - closed below, when they are mapped
    rows = np.zeros(len(first), dtype=np.int64)
    chunk: Sequence[np.ndarray] | None = first
    while chunk is not None:
        for k, (file, part) in enumerate(zip(files, chunk, strict=True)):
            _reserve(file.fileno(), file.tell() + part.nbytes)
            part.tofile(file)
            rows[k] += len(part)
        chunk, after = after, next(chunks, None)
    found = []
    for file, count, like in zip(files, rows.tolist(), first, strict=True):
        file.flush()
        shape = (count, *like.shape[1:])
        size = os.fstat(file.fileno()).st_size
        whole = np.empty(shape, like.dtype)
        if size:
            whole = np.frombuffer(mmap.mmap(file.fileno(), size), like.dtype).reshape(shape)
        file.close()
        found.append(whole)
    return tuple(found)


def forget(*arrays: np.ndarray | None) -> None:
    """Lets go of the memory that arrays on files take; their numbers are read again when they are asked for."""
    for array in arrays:
        held: Any = array
        while isinstance(held, np.ndarray):
            held = held.base
        held = held.obj if isinstance(held, memoryview) else held
        if isinstance(held, mmap.mmap) and hasattr(held, "madvise"):
            held.madvise(mmap.MADV_DONTNEED)


def _reserve(file: int, size: int) -> None:
    """Takes the room on the disk now: a mapped page that finds none would end the process."""
    if not size:
        return
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file, 0, size)
        else:
            os.ftruncate(file, size)
    except OSError as problem:
        if problem.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        raise StoreError(
            f"{tempfile.gettempdir()} has no room for {size / 1e6:.0f} MB of a long recording's intermediate numbers. "
            "Free some there, or set TMPDIR to a folder on a larger disk."
        ) from None
