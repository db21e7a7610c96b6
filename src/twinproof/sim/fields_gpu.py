"""What differs between worlds on a GPU: model fields and channels with a row for each world, written by the host or
gathered on the device from a bank of Thetas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import warp as wp

from twinproof.nouns.errors import SimError
from twinproof.sim.channels import ControlChannel, SensorChannel
from twinproof.sim.fields import field
from twinproof.sim.passage import has_channel
from twinproof.sim.population import field_rows

if TYPE_CHECKING:
    from twinproof.nouns.theta import Theta
    from twinproof.sim.scene import Scene

# hints of the C engine about where to save work, and a number that only channels read
UNREAD = (
    "body_sameframe",
    "geom_sameframe",
    "site_sameframe",
    "body_simple",
    "dof_simplenum",
    "bvh_aabb",
    "sensor_noise",
)
CONTROL = ("control.shift", "control.slack", "control.jitter")
SENSOR = ("sensor.bias", "sensor.noise", "sensor.quantum")


def all_rows(scene: Scene, thetas: Sequence[Theta]) -> dict[str, np.ndarray]:
    """Every model field and every channel that the Thetas change, with one row a Theta."""
    host = scene.nominal()
    rows = field_rows(scene, thetas) if any(thetas) else {}
    if has_channel(thetas, "control"):
        control = ControlChannel(host, thetas, 1.0, 0)
        rows |= dict(zip(CONTROL, (control.shift, control.slack, control.jitter), strict=True))
    if has_channel(thetas, "sensor"):
        sensor = SensorChannel(host, thetas, 0)
        rows |= dict(zip(SENSOR, (sensor.bias, sensor.noise, sensor.quantum), strict=True))
    return rows


class DeviceFields:
    """Tensors (worlds, …) that share memory with mujoco_warp's Model. `changed` is called when an array is replaced."""

    def __init__(self, host: Any, model: Any, count: int, changed: Any) -> None:
        self._host, self._model, self._count, self._changed = host, model, count, changed
        self.device = wp.to_torch(model.qpos0).device
        self.wide: dict[str, torch.Tensor] = {}
        self.bank: dict[str, torch.Tensor] = {}
        self._banked: list[Theta] = []
        self._number = torch.full((count,), -1, dtype=torch.long, device=self.device)  # of the bank's row, where drawn

    def write(self, rows: dict[str, np.ndarray], worlds: np.ndarray | None) -> None:
        """Gives some worlds (all where None) these rows; what they do not name becomes nominal there."""
        self._widen(rows)
        count = self._count if worlds is None else len(worlds)
        for name, wide in self.wide.items():
            where: Any = slice(None) if worlds is None else torch.as_tensor(worlds, device=wide.device)
            wide[where] = self._like(wide, self._values(name, rows, count))
        self._number[slice(None) if worlds is None else torch.as_tensor(worlds, device=self.device)] = -1

    def fill_bank(self, rows: dict[str, np.ndarray], thetas: Sequence[Theta]) -> None:
        """Keeps the rows of these Thetas on the device for `draw`."""
        self._widen(rows)
        count, self._banked = len(thetas), list(thetas)
        self.bank = {name: self._like(wide, self._values(name, rows, count)) for name, wide in self.wide.items()}

    def draw(self, mask: torch.Tensor, numbers: torch.Tensor) -> None:
        """Gives every world of the mask the bank's row of its number."""
        if not self._banked:
            raise SimError("the bank is empty. Fill it with the Thetas to draw from before a reset draws from it.")
        numbers = numbers.to(self.device).long()
        for name, rows in self.bank.items():
            put(self.wide[name], mask, rows[numbers])
        put(self._number, mask, numbers)

    def drawn(self, world: int) -> Theta | None:
        """The Theta that a world drew from the bank, if it did. Waits for the device."""
        number = int(self._number[world])
        return self._banked[number] if number >= 0 else None

    def _values(self, name: str, rows: dict[str, np.ndarray], count: int) -> np.ndarray:
        return rows[name] if name in rows else np.repeat(self._nominal(name)[None], count, axis=0)

    def _nominal(self, name: str) -> np.ndarray:
        host = self._host
        if name in CONTROL:
            return np.zeros(host.nu)
        if name in SENSOR:
            noise = np.repeat(host.sensor_noise, host.sensor_dim)
            return noise if name == "sensor.noise" else np.zeros(host.nsensordata)
        return field(host, name)

    def widen(self, names: Sequence[str]) -> None:
        """Gives channels a row for each world, the nominal one until something is written."""
        for name in names:
            one = torch.as_tensor(self._nominal(name), dtype=torch.float32, device=self.device)[None]
            self.wide[name] = one.repeat(self._count, 1)

    def _widen(self, rows: dict[str, np.ndarray]) -> None:
        """Gives fields a row for each world, where they have one row for all."""
        for name in sorted({*rows} - {*self.wide} - {*UNREAD}):
            if name in CONTROL or name in SENSOR:
                self.widen([name])
                continue
            owner, _, last = name.rpartition(".")
            holder = self._model.opt if owner == "opt" else self._model
            array: Any = getattr(holder, last, None)
            if not getattr(array, "_is_batched", False):
                if (rows[name] == self._nominal(name)).all():
                    continue
                raise SimError(
                    f"{name} cannot differ between worlds on the GPU: leave out the parameters that change it, or use "
                    "worlds on the CPU."
                )
            one = wp.to_torch(array)
            self.wide[name] = one.expand(self._count, *one.shape[1:]).contiguous()
            fresh = wp.from_torch(self.wide[name], dtype=array.dtype)
            fresh._is_batched = True
            setattr(holder, last, fresh)
            self._changed()

    def _like(self, wide: torch.Tensor, values: np.ndarray) -> torch.Tensor:
        """Host rows in the type and shape of a field on the device."""
        return torch.as_tensor(values.reshape(len(values), *wide.shape[1:])).to(wide.device, wide.dtype)


def put(view: torch.Tensor, mask: torch.Tensor, value: torch.Tensor) -> None:
    """Writes rows of `value` (N or 1, …) where the mask holds; no row is looked up, so the host need not wait."""
    shaped = mask.reshape(-1, *[1] * (view.ndim - 1))
    view.copy_(torch.where(shaped, value.to(view.dtype), view))


class DeviceChannels:
    """The channels of `channels.py` on the device: the same laws, other random numbers."""

    def __init__(self, fields: DeviceFields, shape: tuple[int, int], period_s: float, seed: int) -> None:
        self._wide, self._period_s, device = fields.wide, period_s, fields.device
        self._tick = torch.zeros((), dtype=torch.long, device=device)
        self.random = torch.Generator(device=device).manual_seed(seed)
        self._fresh = torch.ones(shape[0], dtype=torch.bool, device=device)
        self._held = torch.zeros(shape, device=device)
        self._past = torch.zeros((1, *shape), device=device)  # commands, the newest first
        self._arrival = torch.zeros((1, *shape), dtype=torch.long, device=device)

    def make_room(self, jitter_s: float) -> None:
        """Keeps enough commands for a jitter this long."""
        more = int(jitter_s / self._period_s + 1) + 1 - len(self._past)
        if more > 0:
            self._past = torch.cat([self._past, self._past[-1:].repeat(more, 1, 1)])
            self._arrival = torch.cat([self._arrival, self._arrival[-1:].repeat(more, 1, 1)])

    @property
    def jitters(self) -> bool:
        """Whether any world was ever given a jitter; the host knows without asking the device."""
        return len(self._past) > 1

    def reset(self, mask: torch.Tensor) -> None:
        """Forgets what was commanded: the next command arrives at once, in the middle of the backlash."""
        self._fresh |= mask

    def control(self, command: torch.Tensor) -> torch.Tensor:
        """What arrives of the commands: with the joint offset, late and slack."""
        if CONTROL[0] not in self._wide:
            return command
        shift, slack, jitter = (self._wide[name] for name in CONTROL)
        wanted = command.to(shift.device, shift.dtype) - shift
        fresh = self._fresh[:, None]
        self._held = torch.where(fresh, wanted, self._held)
        self._past = torch.where(fresh, wanted, self._past)
        self._arrival = torch.where(fresh, self._tick, self._arrival)
        arrived = self._late(wanted, jitter) if self.jitters else wanted
        arrived = torch.where(fresh, wanted, arrived)
        self._held = torch.minimum(torch.maximum(self._held, arrived - slack), arrived + slack)
        self._fresh.zero_()
        self._tick += 1
        return self._held

    def _late(self, wanted: torch.Tensor, jitter: torch.Tensor) -> torch.Tensor:
        draws = torch.rand((2, *wanted.shape), generator=self.random, device=wanted.device)
        steps = torch.where(jitter > 0, torch.floor(draws[0] * jitter / self._period_s + draws[1]), 0.0).long()
        newest = torch.maximum(self._tick + steps, self._arrival[0])  # no command overtakes the one before
        self._past = torch.cat([wanted[None], self._past[:-1]])
        self._arrival = torch.cat([newest[None], self._arrival[:-1]])
        first = (self._arrival <= self._tick).int().argmax(dim=0)
        return torch.gather(self._past, 0, first[None])[0]

    def measure(self, sensordata: torch.Tensor) -> torch.Tensor:
        """What the robot would report."""
        bias, noise, quantum = (self._wide[name] for name in SENSOR)
        draws = torch.randn(sensordata.shape, generator=self.random, device=sensordata.device)
        measured = sensordata + bias + noise * draws
        coarse = quantum > 0
        step = torch.where(coarse, quantum, 1.0)
        return torch.where(coarse, torch.round(measured / step) * step, measured)
