"""Recorded commands and simulated sensors taken through the channels of many rows: slack, offsets and biases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.sim.channels import ControlChannel, SensorChannel
from twinproof.sim.parameters.resolve import parameter
from twinproof.sim.windows import Commands, Start

if TYPE_CHECKING:
    from twinproof.nouns.theta import Theta


def has_channel(thetas: Iterable[Theta], channel: str) -> bool:
    """Whether any of the Thetas holds a parameter that acts there; an offset of a joint acts on both sides."""
    ids = {id for theta in thetas for id in theta}
    return any(parameter(id).channel == channel or _is_offset(id) for id in ids)


def _is_offset(id: str) -> bool:
    return id.startswith("joint.") and id.endswith(".offset")


def through_control(
    model: Any, thetas: Sequence[Theta], which: np.ndarray, start: Start, commands: Commands, period_s: float, seed: int
) -> tuple[Start, Commands]:
    """What arrives of each row's commands, and of those in its past; one recorded command is one tick."""
    if not has_channel(thetas, "control"):
        return start, commands
    channel = ControlChannel(model, [thetas[k] for k in which], period_s, seed)
    past = np.empty((len(which), 0, model.nu)) if start.past is None else start.past
    sent = np.concatenate([past, commands.value[commands.row]], axis=1)
    for k in range(sent.shape[1]):
        sent[:, k] = channel(sent[:, k])
    step = commands.step if commands.step.ndim == 1 else commands.step[commands.row]
    arrived = Commands(sent[:, past.shape[1] :], np.arange(len(which)), step, commands.before)
    return replace(start, past=None if start.past is None else sent[:, : past.shape[1]]), arrived


def from_encoders(model: Any, thetas: Sequence[Theta], which: np.ndarray, start: Start) -> Start:
    """The start with the true positions, where it was given as the encoders show it."""
    if not start.encoders:
        return start
    offset = SensorChannel(model, thetas, 0).offset[which]
    return replace(start, qpos=start.qpos - offset, encoders=False)


def as_measured(model: Any, thetas: Sequence[Theta], which: np.ndarray, sensordata: np.ndarray) -> np.ndarray:
    """Sensor data (rows, samples, ns) with each Theta's biases and joint offsets, without noise and rounding."""
    bias = SensorChannel(model, thetas, 0).bias[which]
    measured: np.ndarray = sensordata + bias[:, np.newaxis]
    return measured
