"""The gaps of `shooting.py` on a GPU: thousands of particles (values of the parameters) × windows at once, in float32.

            ┌──────────────── one CUDA graph, launched once a sample ────────────────┐
commands ──>│ control of this step ─> mujoco_warp step ─> … ─> write qpos, qvel down │──> samples (S + 1, worlds, …)
            └────────────────────────────────────────────────────────────────────────┘        │ the tables of Shooting
                                                                                gaps (L, M) <─┘
A world is one window under one particle. Importing this module needs torch, warp and mujoco_warp.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import mujoco_warp as mjw
import numpy as np
import torch
import warp as wp

from twinproof.nouns.errors import SimError
from twinproof.nouns.theta import Theta
from twinproof.sim.compare_gpu import Compared, DeviceControls, passages
from twinproof.sim.divergence import Limits
from twinproof.sim.fields_gpu import DeviceFields, all_rows
from twinproof.sim.shooting import Shooting, beside
from twinproof.sim.shooting_kernels import copy_row, take_control, tick
from twinproof.sim.worlds_kernels import check_supported

if TYPE_CHECKING:
    from jaxtyping import Float

LATE = ("qfrc_actuator", "sensordata")  # what a step leaves behind of the state before it
WORLDS = 1 << 17
BYTES = 8 << 30  # of samples at once


class GpuShooting:
    """Rolls out a Shooting's windows under many particles. Starts are the Shooting's own unless others are given.

    `particles` is about how many are asked for at a time; no more than fit into so many `worlds` run at once.
    `contacts` and `constraints` are how many of each one world may have on average and at most.
    """

    def __init__(
        self,
        shooting: Shooting,
        particles: int,
        *,
        device: str = "cuda:0",
        worlds: int = WORLDS,
        contacts: int | None = None,
        constraints: int | None = None,
    ) -> None:
        self.shooting, self.host = shooting, shooting.model
        scenes = {each.scene for each in shooting.experiments}
        if len(scenes) > 1:
            raise SimError(
                f"the experiments happen in {len(scenes)} scenes, and a GPU rolls out one at a time. Make a "
                "GpuShooting for the experiments of each."
            )
        check_supported(self.host)
        self.scene = shooting.experiments[0].scene
        self.samples = -(-int(shooting.length.max()) // shooting.substeps)
        wanted = {table.reading.output for table in shooting.tables}
        self._late = tuple(name for name in LATE if name in wanted)
        width = self.host.nq + self.host.nv + sum(self._size(name) for name in self._late)
        room = max(1, min(worlds, BYTES // (4 * width * (self.samples + 2))) // shooting.windows)
        self.at_once = -(-particles // -(-particles // room))  # turns of equal size
        self.count = self.at_once * shooting.windows
        self.device = wp.get_device(device)
        with wp.ScopedDevice(self.device):
            self.model = mjw.put_model(self.host)
            self.model.opt.warn_overflow = 0  # it would print from the device; we ask for it
            self.data = mjw.make_data(self.host, nworld=self.count, nconmax=contacts, njmax=constraints)
            self._graph: Any = None
            self._fields = DeviceFields(self.host, self.model, self.count, self._forget)
            self._prepare()
        self._compared = Compared(shooting, self._motion.device)
        self._controls = DeviceControls(shooting, self.samples * shooting.substeps, self._motion.device)

    def _size(self, name: str) -> int:
        return int(self.host.nsensordata if name == "sensordata" else self.host.nv)

    def _forget(self) -> None:
        self._graph = None

    def _prepare(self) -> None:
        d, nq = self.data, int(self.host.nq)
        shape = (self.samples + 2, self.count)
        self._arrays = {
            name: wp.zeros((*shape, size), dtype=wp.float32)
            for name, size in (("qpos", nq), ("qvel", self.host.nv), *((n, self._size(n)) for n in self._late))
        }
        self._written = {name: wp.to_torch(array) for name, array in self._arrays.items()}
        self._motion = self._written["qpos"]
        self._step = wp.zeros(1, dtype=wp.int32)
        self._row = wp.zeros(self.count, dtype=wp.int32)
        self._table = wp.zeros((1, 1, max(1, self.host.nu)), dtype=wp.float32)
        self._allowed = torch.as_tensor(Limits().row(self.host), dtype=torch.float32, device=self._motion.device)
        self._state = {
            name: wp.to_torch(getattr(d, name)) for name in ("time", "qpos", "qvel", "act", "qacc_warmstart", "ctrl")
        }

    def gaps(self, values: Float[np.ndarray, "L groups P"]) -> Float[torch.Tensor, "L M"]:
        """Measured minus simulated for every particle, in the Shooting's order; NaN from a divergence on."""
        return torch.cat([part for _, part in self._parts(values)])

    def cost(
        self,
        values: Float[np.ndarray, "L groups P"],
        sd: Float[np.ndarray, "E"],
        robust: float = np.inf,
        lost: float = 50.0,
    ) -> Float[np.ndarray, "L"]:
        """Minus the log likelihood of every particle up to a constant: Huber beyond `robust` sd; `lost` for NaN."""
        found = np.empty(len(values))
        device = self._motion.device
        scale = torch.as_tensor(np.asarray(sd)[self.shooting.entry], dtype=torch.float32, device=device)
        bend = torch.tensor(min(robust, 1e18), dtype=torch.float32, device=device)
        for some, gap in self._parts(values):
            size = torch.nan_to_num(gap.abs().div_(scale), nan=lost)
            cut = torch.minimum(size, bend)
            found[some] = (cut * (size - 0.5 * cut)).sum(dim=1, dtype=torch.float64).cpu().numpy()
        return found

    def _parts(self, values: np.ndarray) -> Iterator[tuple[slice, torch.Tensor]]:
        values = np.asarray(values, dtype=np.float64)
        wanted = (self.shooting.groups, len(self.shooting.ids))
        if values.ndim != 3 or values.shape[1:] != wanted or not len(values):
            raise SimError(
                f"the particles have the shape {values.shape}; {wanted[0]} groups and {wanted[1]} parameters need "
                f"(particles, {wanted[0]}, {wanted[1]})."
            )
        for begin in range(0, len(values), self.at_once):
            some = slice(begin, min(begin + self.at_once, len(values)))
            # the last part is filled up: worlds and graph have one size
            idle = np.repeat(values[-1:], self.at_once - (some.stop - begin), axis=0)
            self._roll(np.concatenate([values[some], idle]))
            samples = {name: array[: self.samples + 1] for name, array in self._written.items()}
            yield some, self._compared.gaps(samples, values[some])

    def _roll(self, values: np.ndarray) -> None:
        """Fills the samples of all worlds; world = particle × windows + window."""
        flat = values.reshape(-1, values.shape[-1])
        with wp.ScopedDevice(self.device):
            self._write_fields(flat)
            self._send(flat)
            self._begin(flat)
            cycles = self.samples + (1 if self._late else 0)
            for _ in range(cycles):
                self._launch()
        for name in self._late:  # forces are known from the first control on
            self._written[name][0] = self._written[name][1]
        self._check_room()
        self._mark_diverged()

    def _numbers(self) -> torch.Tensor:
        """For each world the row of its particle and group."""
        shooting, device = self.shooting, self._motion.device
        group = torch.as_tensor(shooting.group, device=device)
        particle = torch.arange(self.at_once, device=device)[:, None]
        return (particle * shooting.groups + group).reshape(-1)

    def _write_fields(self, flat: np.ndarray) -> None:
        shooting = self.shooting
        fixed = {id: value for id, value in shooting.fixed.items() if not beside(id)}
        inside = [p for p, id in enumerate(shooting.ids) if not beside(id)]
        # groups of one particle mostly have the same values: each is worked out once
        unique, index = np.unique(flat[:, inside], axis=0, return_inverse=True)
        ids = [shooting.ids[p] for p in inside]
        thetas = [Theta({**fixed, **dict(zip(ids, row, strict=True))}) for row in unique.tolist()]
        rows = all_rows(self.scene, thetas)
        if rows:
            self._fields.fill_bank(rows, thetas)
            device = self._motion.device
            everywhere = torch.ones(self.count, dtype=torch.bool, device=device)
            self._fields.draw(everywhere, torch.as_tensor(index.reshape(-1), device=device)[self._numbers()])

    def _send(self, flat: np.ndarray) -> None:
        """Puts the commands of every distinct passage on the device; each world gets the number of its own."""
        if not self.host.nu:
            return
        shooting = self.shooting
        ways, number = passages(shooting, flat)
        table = self._controls.table(*ways)
        mine = torch.as_tensor(number, device=table.device)[self._numbers()].reshape(self.at_once, -1)
        row = mine * shooting.windows + torch.arange(shooting.windows, device=table.device)
        if tuple(self._table.shape) == tuple(table.shape):
            wp.to_torch(self._table).copy_(table)
        else:
            self._table = wp.clone(wp.from_torch(table, dtype=wp.float32))
            self._forget()
        wp.to_torch(self._row).copy_(row.reshape(-1))

    def _begin(self, flat: np.ndarray) -> None:
        for view in self._state.values():
            view.zero_()
        self._step.zero_()
        wp.to_torch(self.data.overflow).zero_()
        shooting, device = self.shooting, self._motion.device
        qpos, qvel = shooting.starts
        begun = np.repeat(qpos[None], self.at_once, axis=0)
        for e, each in enumerate(shooting.experiments):
            mine = np.flatnonzero(shooting.episode == e)
            for id, place in (*shooting.offset_places, *each.frames):  # starts are as sensors show them
                if id in shooting.ids:
                    column = flat[:, shooting.ids.index(id)].reshape(self.at_once, shooting.groups)
                    begun[:, mine, place] -= column[:, shooting.group[mine]]
                else:
                    begun[:, mine, place] -= shooting.fixed.get(id, 0.0)
        begin = torch.as_tensor(begun, dtype=torch.float32, device=device).reshape(self.count, -1)
        speed = torch.as_tensor(qvel, dtype=torch.float32, device=device).repeat(self.at_once, 1)
        for name, value in (("qpos", begin), ("qvel", speed)):
            self._state[name].copy_(value)
            self._written[name][0] = value

    def _cycle(self) -> None:
        """From one sample to the next."""
        m, d, late = self.model, self.data, self._late
        substeps = self.shooting.substeps
        for k in range(substeps):
            if self.host.nu:
                wp.launch(take_control, (self.count, self.host.nu), [self._table, self._row, self._step], [d.ctrl])
            mjw.step(m, d)
            # after the first step lies what the forces were at the sample before it
            for name in late if k == 0 else ():
                target = self._arrays[name]
                wp.launch(copy_row, target.shape[1:], [getattr(d, name), self._step, substeps], [target])
            wp.launch(tick, 1, [], [self._step])
        for name in ("qpos", "qvel"):
            target = self._arrays[name]
            wp.launch(copy_row, target.shape[1:], [getattr(d, name), self._step, substeps], [target])

    def _launch(self) -> None:
        if not self.device.is_cuda:
            self._cycle()
            return
        if self._graph is not None:
            wp.capture_launch(self._graph)
            return
        self._cycle()  # the first time it runs as it is, which loads the kernels; then it is captured, not run
        with wp.ScopedCapture(device=self.device) as capture:
            self._cycle()
        self._graph = capture.graph

    def _check_room(self) -> None:
        short = int((wp.to_torch(self.data.overflow) & 0xFF != 0).sum())
        if short:
            raise SimError(
                f"{short} of {self.count} worlds had no room for all their contacts or constraints. Give more "
                "`contacts` and `constraints`."
            )

    def _mark_diverged(self) -> None:
        """Samples from a divergence on are no numbers."""
        nq = self.host.nq
        bad = ~(self._written["qpos"].abs() <= self._allowed[:nq]).all(dim=-1)
        bad |= ~(self._written["qvel"].abs() <= self._allowed[nq:]).all(dim=-1)
        if bool(bad[: self.samples + 1].any()):
            gone = bad.int().cummax(dim=0).values.bool()
            for array in self._written.values():
                array[gone] = torch.nan
