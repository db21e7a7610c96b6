"""What delayed actuators and sensors remember, as rows of torch tensors: `history.py` says how a buffer lies."""

from __future__ import annotations

from typing import Any

import torch


def sent_before(host: Any, history: torch.Tensor, ctrl: torch.Tensor) -> torch.Tensor:
    """The one history row for every row of `ctrl`, with the actuators' buffers full of it."""
    history = history.expand(len(ctrl), -1).clone()
    for actuator in range(len(host.actuator_history)):
        count = int(host.actuator_history[actuator, 0])
        if count:
            first, width = int(host.actuator_ctrladr[actuator]), int(host.actuator_ctrlnum[actuator])
            begin = int(host.actuator_historyadr[actuator]) + 2 + count
            history[:, begin : begin + count * width] = ctrl[:, first : first + width].repeat(1, count)
    return history


def sensed_before(host: Any, history: torch.Tensor, fresh: torch.Tensor, sensed: torch.Tensor) -> torch.Tensor:
    """The history with the sensors' buffers as `fresh` begins them, full of what they read now."""
    history = history.clone()
    for sensor in range(host.nsensor):
        count = int(host.sensor_history[sensor, 0])
        if count:
            first, width = int(host.sensor_adr[sensor]), int(host.sensor_dim[sensor])
            address = int(host.sensor_historyadr[sensor])
            end = address + 2 + count * (1 + width)
            history[:, address : address + 2 + count] = fresh[:, address : address + 2 + count]
            history[:, end - count * width : end] = sensed[:, first : first + width].repeat(1, count)
    return history
