"""What delayed actuators and sensors remember, written into the state: a world does not begin with a past of zeros.

one buffer: [user, cursor, times (n), values (n × width)], oldest first, cursor at the newest
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Buffers:
    """Where the buffers of some things lie in the history, all of them side by side."""

    cursor: np.ndarray  # columns of the cursors
    newest: np.ndarray  # what these say
    time: np.ndarray  # columns of the times
    ago: np.ndarray  # how many steps before now each is
    value: np.ndarray  # columns of the values
    value_ago: np.ndarray  # how many steps before now each is
    source: np.ndarray  # which number each shows


def write_past(model: Any, history: np.ndarray, past: np.ndarray, time_s: np.ndarray | float = 0.0) -> None:
    """Fills the actuators' buffers in `history` (rows, nhistory) with the commands `past` (rows, steps, nu) sent before
    `time_s`, one a physics step, newest last. Where there are too few, the oldest counts as having held before."""
    counts = model.actuator_history[:, 0]
    where = _buffers(*_told(counts, model.actuator_historyadr, model.actuator_ctrladr, model.actuator_ctrlnum))
    steps = np.maximum(past.shape[1] - where.value_ago, 0)
    _write(history, where, past[:, steps, where.source], time_s, float(model.opt.timestep))


def write_sensed(model: Any, history: np.ndarray, sensed: np.ndarray, time_s: np.ndarray | float = 0.0) -> None:
    """Fills the sensors' buffers as if each had read `sensed` (rows, nsensordata) all along."""
    counts = model.sensor_history[:, 0]
    where = _buffers(*_told(counts, model.sensor_historyadr, model.sensor_adr, model.sensor_dim))
    _write(history, where, sensed[:, where.source], time_s, float(model.opt.timestep))


def delays_sensors(model: Any) -> bool:
    """Whether any sensor has a buffer."""
    return bool(model.nsensor and (model.sensor_history[:, 0] > 0).any())


def _told(*columns: np.ndarray) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(column.tolist()) for column in columns)


@functools.lru_cache(maxsize=64)
def _buffers(counts: Sequence[int], addresses: Sequence[int], firsts: Sequence[int], widths: Sequence[int]) -> Buffers:
    """The buffers of things that keep so many entries of some numbers, from the first on; those that keep none have
    no buffer."""
    kept = [each for each in zip(counts, addresses, firsts, widths, strict=True) if each[0]]
    rows: list[list[int]] = [[] for _ in range(7)]
    for count, address, first, width in kept:
        rows[0].append(address + 1)
        rows[1].append(count - 1)
        for k in range(count):
            rows[2].append(address + 2 + k)
            rows[3].append(count - k)
            for number in range(width):
                rows[4].append(address + 2 + count + k * width + number)
                rows[5].append(count - k)
                rows[6].append(first + number)
    columns = [np.array(row, dtype=np.int64) for row in rows]
    for column in columns:
        column.setflags(write=False)  # shared by all who ask
    return Buffers(*columns)


def _write(history: np.ndarray, where: Buffers, values: np.ndarray, time_s: np.ndarray | float, step_s: float) -> None:
    history[:, where.cursor] = where.newest
    history[:, where.time] = np.reshape(time_s, (-1, 1)) - step_s * where.ago
    history[:, where.value] = values
