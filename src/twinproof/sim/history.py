"""What delayed actuators and sensors remember, written into the state: a world does not begin with a past of zeros.

one buffer: [user, cursor, times (n), values (n × width)], oldest first, cursor at the newest
"""

from __future__ import annotations

from typing import Any

import numpy as np


def write_past(model: Any, history: np.ndarray, past: np.ndarray, time_s: np.ndarray | float = 0.0) -> None:
    """Fills the actuators' buffers in `history` (rows, nhistory) with the commands `past` (rows, steps, nu) sent before
    `time_s`, one a physics step, newest last. Where there are too few, the oldest counts as having held before."""
    for actuator in range(len(model.actuator_history)):
        count, first = int(model.actuator_history[actuator, 0]), int(model.actuator_ctrladr[actuator])
        if count:
            entries = past[:, _last(past.shape[1], count), first : first + int(model.actuator_ctrlnum[actuator])]
            _write(history, int(model.actuator_historyadr[actuator]), entries, time_s, float(model.opt.timestep))


def write_sensed(model: Any, history: np.ndarray, sensed: np.ndarray, time_s: np.ndarray | float = 0.0) -> None:
    """Fills the sensors' buffers as if each had read `sensed` (rows, nsensordata) all along."""
    for sensor in range(model.nsensor):
        count, first = int(model.sensor_history[sensor, 0]), int(model.sensor_adr[sensor])
        if count:
            entries = np.repeat(sensed[:, np.newaxis, first : first + int(model.sensor_dim[sensor])], count, axis=1)
            _write(history, int(model.sensor_historyadr[sensor]), entries, time_s, float(model.opt.timestep))


def delays_sensors(model: Any) -> bool:
    """Whether any sensor has a buffer."""
    return bool(model.nsensor and (model.sensor_history[:, 0] > 0).any())


def _last(have: int, want: int) -> np.ndarray:
    """The last `want` of `have` places, the first one repeated where there are fewer."""
    return np.maximum(np.arange(have - want, have), 0)


def _write(history: np.ndarray, address: int, entries: np.ndarray, time_s: np.ndarray | float, step_s: float) -> None:
    rows, count, width = entries.shape
    begin = address + 2
    history[:, address + 1] = count - 1
    history[:, begin : begin + count] = np.reshape(time_s, (-1, 1)) + step_s * np.arange(-count, 0)
    history[:, begin + count : begin + count * (1 + width)] = entries.reshape(rows, count * width)
