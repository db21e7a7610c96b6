"""Large arrays lie in files: what was let go of is read again, unchanged, and no longer counts as memory."""

from __future__ import annotations

import errno
import mmap
import os
from pathlib import Path

import numpy as np
import pytest

from twinproof.nouns.errors import StoreError
from twinproof.sim import shelf

LARGE = 4 * shelf.SMALL


def held_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def on_file(array: np.ndarray) -> bool:
    held: object = array
    while isinstance(held, np.ndarray):
        held = held.base
    return isinstance(held.obj if isinstance(held, memoryview) else held, mmap.mmap)


def test_small_arrays_stay_in_memory_and_large_ones_go_to_a_file() -> None:
    assert not on_file(shelf.empty((3, 4)))
    found = shelf.empty((LARGE // 8, 2), np.int32)
    assert on_file(found[5:])
    assert (found.shape, found.dtype) == ((LARGE // 8, 2), np.int32)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="what a process holds is read from /proc")
def test_what_is_forgotten_leaves_memory_and_comes_back_as_it_was() -> None:
    found = shelf.empty((64 << 17,))  # 64 MB
    found[:] = np.arange(len(found))
    full = held_bytes()
    shelf.forget(found[10:20], None, np.zeros(3))
    assert held_bytes() < full - (48 << 20)
    assert found[-1] == len(found) - 1
    assert found[1234567] == 1234567


def test_chunks_lie_one_behind_the_other() -> None:
    chunks = [
        (np.arange(3.0), np.full((2, 2), 1)),
        (np.arange(2.0), np.empty((0, 2), int)),
        (np.ones(1), np.eye(2, dtype=int)),
    ]
    times, table = shelf.stacked(iter(chunks))
    np.testing.assert_array_equal(times, [0, 1, 2, 0, 1, 1])
    np.testing.assert_array_equal(table, [[1, 1], [1, 1], [1, 0], [0, 1]])
    assert table.dtype == np.int64
    nothing, some = shelf.stacked(iter([(np.empty((0, 7)), np.ones(1))] * 2))
    assert nothing.shape == (0, 7)
    np.testing.assert_array_equal(some, [1, 1])
    alone = np.arange(4.0)
    assert shelf.stacked(iter([(alone,)]))[0] is alone


def test_a_full_disk_is_said_before_anything_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(StoreError, match=r"has no room for 4 MB of a long recording's .* set TMPDIR"):
        shelf.empty((LARGE // 8,))
