"""What `shooting.py` does around its rollouts, on a device for many particles at once: commands before, gaps after."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from twinproof.nouns.errors import SimError
from twinproof.sim.comparison import PLAIN
from twinproof.sim.experiment import passage
from twinproof.sim.shooting import Shooting

if TYPE_CHECKING:
    from jaxtyping import Float

    from twinproof.sim.readings import Reading


def passages(shooting: Shooting, flat: np.ndarray) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """The distinct passages of some rows of values, as delays and shifts (D, nu), and for each row which is its own."""
    base = passage(shooting.model, {id: value for id, value in shooting.fixed.items() if id not in shooting.ids})
    parts = [np.tile(each, (len(flat), 1)) for each in (base.delay_s, base.shift, base.slack)]
    for p, id in enumerate(shooting.ids):
        if id.endswith((".delay", ".offset", ".backlash")):
            unit = passage(shooting.model, {id: 1.0})  # all three are proportional to the parameter
            for part, each in zip(parts, (unit.delay_s, unit.shift, unit.slack), strict=True):
                part += flat[:, p, None] * each
    if parts[2].any():
        raise SimError(
            "backlash is felt from an episode's beginning on, and windows on the GPU begin in its middle. Leave the "
            "backlash out of the parameters, or roll out on the CPU."
        )
    found, number = np.unique(np.concatenate(parts[:2], axis=1), axis=0, return_inverse=True)
    return (found[:, : shooting.model.nu], found[:, shooting.model.nu :]), number.reshape(-1)


class DeviceControls:
    """The commands of all windows under any delays, made on the device: an integral of what was held, interpolated."""

    def __init__(self, shooting: Shooting, steps: int, device: Any) -> None:
        self._step_s, self._device = shooting.step_s, device
        self._windows: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]] = []
        edges = np.arange(steps + 1) * shooting.step_s
        for e, each in enumerate(shooting.experiments):
            times = np.r_[each.command_time_s, each.command_time_s[-1] + 1.0]
            area = np.concatenate(
                [np.zeros((1, each.command.shape[1])), np.cumsum(each.command * np.diff(times)[:, None], axis=0)]
            )
            begin = shooting.begin_s[shooting.episode == e]
            parts = (begin[:, None] + edges, times, area, each.command)
            edge, time, whole, held = (self._put(part) for part in parts)
            self._windows.append((edge, time, whole, held))

    def _put(self, array: np.ndarray) -> torch.Tensor:
        return torch.as_tensor(np.ascontiguousarray(array), dtype=torch.float64, device=self._device)

    def table(self, delay_s: np.ndarray, shifts: np.ndarray) -> Float[torch.Tensor, "sequences steps nu"]:
        """Controls for each passage (rows of both arguments) and window: sequence = passage × windows + window."""
        delay, shift = self._put(delay_s), self._put(shifts)
        parts = []
        for edges, times, area, command in self._windows:
            sent = []
            for k in range(command.shape[1]):
                at = edges[None] - delay[:, k, None, None]
                inside = at.clamp(float(times[0]), float(times[-1]))
                low = (torch.searchsorted(times, inside, right=True) - 1).clamp(0, len(times) - 2)
                whole = area[:, k][low] + (inside - times[low]) * command[:, k][low]
                # before the first command the first holds, after the last the last
                whole += (at - times[0]).clamp(max=0.0) * command[0, k] + (at - times[-1]).clamp(min=0.0) * command[
                    -1, k
                ]
                sent.append(whole.diff(dim=-1) / self._step_s - shift[:, k, None, None])
            parts.append(torch.stack(sent, dim=-1))
        found = torch.cat(parts, dim=1)
        return found.reshape(-1, *found.shape[2:]).to(torch.float32).contiguous()


class Compared:
    """The tables of a Shooting on a device."""

    def __init__(self, shooting: Shooting, device: Any) -> None:
        self._shooting, self._device = shooting, device
        self._tables = [
            (
                table.reading,
                torch.as_tensor(table.window, device=device),
                torch.as_tensor(table.time_s, dtype=torch.float64, device=device),
                torch.as_tensor(table.value, dtype=torch.float32, device=device),
                torch.as_tensor(table.rows, device=device),
                torch.as_tensor(table.order, device=device),
                torch.as_tensor(table.reading.place, device=device),
            )
            for table in shooting.tables
        ]
        self._group = torch.as_tensor(shooting.group, device=device)
        self._episode = torch.as_tensor(shooting.episode, device=device)
        self._span = torch.as_tensor(shooting.length * shooting.step_s, dtype=torch.float64, device=device)

    def gaps(self, samples: Mapping[str, torch.Tensor], values: np.ndarray) -> Float[torch.Tensor, "L M"]:
        """The gaps of the first particles of `samples` (S + 1, worlds, …), one for each row of `values`."""
        shooting, count = self._shooting, len(values)
        known = torch.as_tensor(values, dtype=torch.float64, device=self._device)
        found = torch.full((count, len(shooting.window)), torch.nan, device=self._device)
        span = shooting.substeps * shooting.step_s
        particle = torch.arange(count, device=self._device)[:, None, None]
        for reading, window, time_s, value, rows, order, place in self._tables:
            whole = samples[reading.output]
            whole = whole.reshape(len(whole), -1, shooting.windows, whole.shape[-1])
            lag = shooting.step_s if reading.kind == "torque" else 0.0
            at = (time_s - lag)[None] - self._value(f"signal.{reading.name}.delay", known, window)
            within = window.expand(at.shape)
            if reading.kind not in PLAIN or f"signal.{reading.name}.delay" in shooting.ids:
                at, within = self._neighbour(at, within)
            u = at / span  # at an episode's ends drawn straight on
            low = u.floor().long().clamp(0, len(whole) - 2)
            share = (u - low).to(torch.float32)[..., None]
            low, one = low[..., None], within[..., None]
            shown = whole[low, particle, one, place] * (1 - share) + whole[low + 1, particle, one, place] * share
            gap = self._gap(reading, self._as_read(reading, shown, known, window), value)
            found[:, order] = gap.reshape(count, -1)[:, rows]
        return found

    def _neighbour(self, at: torch.Tensor, window: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """As in `comparison`: a late signal shows at a window's beginning what happened in the window before."""
        for side in (-1, 1):
            other = (window + side).clamp(0, len(self._span) - 1)
            beyond = at < 0 if side < 0 else at > self._span[window]
            there = beyond & (self._episode[other] == self._episode[window]) & (other != window)
            at = torch.where(there, at + self._span[other] if side < 0 else at - self._span[window], at)
            window = torch.where(there, other, window)
        return at, window

    def _value(self, id: str, known: torch.Tensor, window: torch.Tensor) -> Any:
        """A parameter at each reading (L, n), or one number where it does not vary."""
        shooting = self._shooting
        if id in shooting.ids:
            return known[:, :, shooting.ids.index(id)][:, self._group[window]]
        return float(shooting.fixed.get(id, 0.0))

    def _as_read(
        self, reading: Reading, shown: torch.Tensor, known: torch.Tensor, window: torch.Tensor
    ) -> torch.Tensor:
        joints = self._shooting.offset_places if reading.kind in ("position", "pose") else []
        for id, at in joints:
            for column in np.flatnonzero(reading.place == at):
                shown[..., column] += self._value(id, known, window)
        if reading.kind == "pose":
            for k, axis in enumerate("xyz"):
                shown[..., k] += self._value(f"signal.{reading.name}.offset_{axis}", known, window)
            shown[..., 3:] /= torch.linalg.vector_norm(shown[..., 3:], dim=-1, keepdim=True)
        if reading.kind == "sensor":
            for k, entry in enumerate(reading.entries):
                shown[..., k] += self._value(f"sensor.{entry.rpartition('.')[2]}.bias", known, window)
        return shown

    def _gap(self, reading: Reading, shown: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        if reading.kind != "pose":
            return value - shown
        turn = between_quaternions(shown[..., 3:], value[..., 3:].expand(*shown.shape[:-1], 4))
        return torch.cat([value[..., :3] - shown[..., :3], turn], dim=-1)


def between_quaternions(start: torch.Tensor, end: torch.Tensor) -> torch.Tensor:
    """The rotation vector (…, 3), in the start's own frame, that turns `start` (…, 4) into `end`: as in `tangent`."""
    a, b, c, d = start.unbind(-1)
    w, x, y, z = end.unbind(-1)
    real = a * w + b * x + c * y + d * z
    rest = torch.stack(
        [a * x - b * w - c * z + d * y, a * y + b * z - c * w - d * x, a * z - b * y + c * x - d * w], dim=-1
    )
    norm = torch.linalg.vector_norm(rest, dim=-1)
    angle = 2 * torch.atan2(norm, real)
    angle = torch.where(angle > torch.pi, angle - 2 * torch.pi, angle)
    return rest * torch.where(norm > 0, angle / norm, 2.0)[..., None]
