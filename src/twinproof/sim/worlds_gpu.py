"""The worlds of `worlds.py` on a GPU: mujoco_warp in float32, with torch tensors that share its memory.

save state ─> n physics steps ─> guard: flag what diverged, put it back ─> poses, velocities, sensors of the new state
└──────────────────────────── one CUDA graph, captured once for each n ────────────────────────────────────────────┘

Nothing here waits for the GPU except `why` and the host's own reading of a tensor. Importing this module needs torch,
warp and mujoco_warp; nobody imports it who was not asked to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

import mujoco
import mujoco_warp as mjw
import numpy as np
import torch
import warp as wp

from twinproof.nouns.errors import SimError
from twinproof.nouns.theta import Theta
from twinproof.nouns.twin import Twin
from twinproof.sim.asked import one_each, refuse_other_tick, whole, world_number
from twinproof.sim.divergence import Divergence, Limits, explain
from twinproof.sim.fields_gpu import CONTROL, SENSOR, DeviceChannels, DeviceFields, all_rows, put
from twinproof.sim.history import delays_sensors
from twinproof.sim.history_gpu import sensed_before, sent_before
from twinproof.sim.lanes_gpu import Lanes, describe, integrate, loosens
from twinproof.sim.parameters.base import nearest
from twinproof.sim.population import Population, control_names
from twinproof.sim.scene import Scene
from twinproof.sim.touch import TouchSensors, with_touch
from twinproof.sim.worlds_kernels import check_supported, guard, keep_columns, rows_for, sensing

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

    from twinproof.sim.replayed import DeviceTape

# what a reset writes; everything else derives from it
STATE = (
    "time", "qpos", "qvel", "act", "history", "qacc_warmstart", "ctrl", "qfrc_applied", "xfrc_applied", "mocap_pos",
    "mocap_quat",
)  # fmt: skip
SAVED = ("time", "qpos", "qvel", "act", "history", "qacc_warmstart")  # what a step changes and a divergence puts back


class GpuWorlds:
    """Worlds on one device. Tensors are live and in float32; a world that diverges stays at its last good state.

    `contacts` and `constraints` are how many of each one world may have on average and at most; `overflow` tells where
    they were not enough.
    """

    def __init__(
        self,
        scene: Scene | Twin,
        thetas: Sequence[Theta] | SupportsIndex,
        *,
        touch: Sequence[tuple[str, str]] = (),
        substeps: int = 1,
        limits: Limits | None = None,
        seed: int = 0,
        device: str = "cuda:0",
        contacts: int | None = None,
        constraints: int | None = None,
    ) -> None:
        scene = Scene.of(scene) if isinstance(scene, Twin) else scene
        if scene.drive is not None:
            raise SimError(
                f"worlds on {device!r} do not run a drive, and what was identified has one ({scene.drive.told}). Use "
                "worlds on the CPU, or leave it out: twinproof train --no-drive."
            )
        self.thetas: list[Theta] = one_each(thetas)
        self.substeps, seed = whole(substeps, "substeps", 1), whole(seed, "the seed", 0)
        self.scene, self.limits = with_touch(scene, touch), limits or Limits()
        self.host: Any = self.scene.nominal()
        check_supported(self.host)
        self.device = wp.get_device(device)
        with wp.ScopedDevice(self.device):
            self.model = mjw.put_model(self.host)
            self.model.opt.warn_overflow = 0  # it would print from the device; `overflow` has it
            rows = constraints or rows_for(self.host)
            self.data = mjw.make_data(self.host, nworld=self.count, nconmax=contacts, njmax=rows)
            self._names = control_names(self.host)
            self._touch = TouchSensors(self.host, touch)
            self.tape: DeviceTape | None = None  # what records a tick that these worlds are part of
            self._graphs: dict[int | str, Any] = {}
            self._views: dict[str, torch.Tensor] = {}
            self._prepare()
            self._fields = DeviceFields(self.host, self.model, self.count, self._graphs.clear)
            period_s = self.substeps * float(self.host.opt.timestep)
            self._channels = DeviceChannels(self._fields, (self.count, int(self.host.nu)), period_s, seed)
            self._write(all_rows(self.scene, self.thetas), None)
            self.reset()

    def _prepare(self) -> None:
        d, host = self.data, self.host
        self._lanes = Lanes(self.device) if loosens(host) else None
        self._saved = {name: wp.clone(getattr(d, name)) for name in SAVED}
        self._sensed = wp.clone(d.sensordata)
        late = np.flatnonzero(host.sensor_needstage == mujoco.mjtStage.mjSTAGE_ACC)
        columns = [c for s in late for c in range(host.sensor_adr[s], host.sensor_adr[s] + host.sensor_dim[s])]
        self._late_columns = wp.array(np.array(columns, dtype=np.int32), dtype=wp.int32)
        self._allowed = wp.array(self.limits.row(host).astype(np.float32), dtype=wp.float32)
        self._flag = wp.zeros(self.count, dtype=wp.int32)
        self._age = wp.zeros(self.count, dtype=wp.int32)
        self._flag_view, self._age_view = wp.to_torch(self._flag), wp.to_torch(self._age)
        self._touched = torch.as_tensor(self._touch.address, device=self._flag_view.device)
        data = mujoco.MjData(host)
        self._fresh = {name: self._tensor(np.atleast_1d(getattr(data, name)), name) for name in STATE}

    @property
    def count(self) -> int:
        """How many worlds there are."""
        return len(self.thetas)

    @property
    def generators(self) -> tuple[torch.Generator, ...]:
        """What the worlds draw from."""
        return (self._channels.random,)

    @property
    def diverged(self) -> Bool[torch.Tensor, "N"]:
        """Which worlds stand still because they diverged."""
        return self._flag_view != 0

    @property
    def steps(self) -> Int[torch.Tensor, "N"]:
        """Physics steps of each world since its reset."""
        return self._age_view.clone()

    @property
    def overflow(self) -> Int[torch.Tensor, "N"]:
        """mujoco_warp's OverflowType bits: worlds with more contacts or constraints than there was room for. A solver
        that was stopped at the limit which the scene sets is no overflow."""
        return self.view("overflow") & ~int(mjw.OverflowType.ITERATIONS | mjw.OverflowType.LS_ITERATIONS)

    def view(self, name: str) -> torch.Tensor:
        """The live tensor (N, …) of any array of mujoco_warp's Data."""
        if name not in self._views:
            array = getattr(self.data, name, None)
            if not isinstance(array, wp.array) or array.shape[:1] != (self.count,):
                known = [key for key, value in vars(self.data).items() if isinstance(value, wp.array)]
                raise SimError(f"{name!r} is nothing that mujoco_warp keeps for each world. {nearest(name, known)}")
            self._views[name] = wp.to_torch(array)
        return self._views[name]

    @property
    def qpos(self) -> Float[torch.Tensor, "N nq"]:
        """Positions, live. Call `refresh` after writing them."""
        return self.view("qpos")

    @property
    def qvel(self) -> Float[torch.Tensor, "N nv"]:
        """Velocities, live. Call `refresh` after writing them."""
        return self.view("qvel")

    @property
    def ctrl(self) -> Float[torch.Tensor, "N nu"]:
        """What the actuators were last sent, live."""
        return self.view("ctrl")

    @property
    def time(self) -> Float[torch.Tensor, "N"]:
        """Seconds since each world's reset, live."""
        return self.view("time")

    @property
    def sensordata(self) -> Float[torch.Tensor, "N ns"]:
        """What the sensors read, without noise, live."""
        return self.view("sensordata")

    @property
    def xpos(self) -> Float[torch.Tensor, "N nbody 3"]:
        """Positions of body frames in the world, live."""
        return self.view("xpos")

    @property
    def xquat(self) -> Float[torch.Tensor, "N nbody 4"]:
        """Orientations (wxyz) of body frames in the world, live."""
        return self.view("xquat")

    def measure(self) -> Float[torch.Tensor, "N ns"]:
        """What the robot would report: sensordata with bias, joint offset, noise and quantisation."""
        if SENSOR[0] not in self._fields.wide:
            self._fields.widen(SENSOR)
        return self._channels.measure(self.sensordata)

    def step(self, ctrl: torch.Tensor, nstep: int | None = None) -> None:
        """Advances every world by `nstep` physics steps (default `substeps`). A world whose control is not finite is
        flagged and stays; the controls pass through backlash, jitter and joint offsets where Thetas have them."""
        if tuple(ctrl.shape) != tuple(self.ctrl.shape):
            raise SimError(
                f"the controls have the shape {tuple(ctrl.shape)}; {self.count} worlds with {len(self._names)} "
                f"controls ({', '.join(self._names) or 'none'}) need {tuple(self.ctrl.shape)}."
            )
        nstep = self.substeps if nstep is None else whole(nstep, "nstep", 1)
        if nstep != self.substeps and self._channels.jitters:
            refuse_other_tick(nstep, self.substeps)
        self.ctrl.copy_(self._channels.control(ctrl))
        self._launch(nstep, lambda: self._step(nstep))

    def refresh(self) -> None:
        """Makes poses, velocities and sensors describe a state that was written."""
        self._launch("refresh", self._describe)

    def reset(
        self,
        indices: torch.Tensor | Sequence[int] | None = None,
        *,
        thetas: Sequence[Theta] | None = None,
        bank: torch.Tensor | None = None,
        keyframe: str | None = None,
        qpos: torch.Tensor | None = None,
        qvel: torch.Tensor | None = None,
        ctrl: torch.Tensor | None = None,
    ) -> None:
        """Starts the worlds of a mask (N,) or of indices afresh. A mask that lies on the device costs no waiting.

        `qpos`, `qvel` and `ctrl` are (N, …) or one row for all. New parameters: `thetas`, one for each index, from the
        host; or `bank`, for every world the number of a Theta that `fill_bank` put on the device.
        """
        mask = self._mask(indices)
        if thetas is not None:
            self.set_thetas(range(self.count) if indices is None else indices, thetas)
        if bank is not None:
            self._fields.draw(mask, bank)
        for name, value in self._fresh_state(keyframe, qpos, qvel, ctrl).items():
            put(self.view(name), mask, value)
        self._channels.reset(mask)
        self._flag_view.masked_fill_(mask, 0)
        self._age_view.masked_fill_(mask, 0)
        self._remember(mask)
        self.refresh()

    def set_thetas(self, indices: torch.Tensor | Sequence[int] | np.ndarray, thetas: Sequence[Theta]) -> None:
        """Gives some worlds other parameters, applied to the nominal on the host and sent over."""
        rows = indices.cpu().numpy() if isinstance(indices, torch.Tensor) else np.asarray(indices)
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows.astype(np.int64)
        if len(rows) != len(thetas):
            raise SimError(f"{len(rows)} worlds were given {len(thetas)} Thetas. Give one each.")
        self._write(all_rows(self.scene, thetas), rows)
        for row, theta in zip(rows, thetas, strict=True):
            self.thetas[int(row)] = theta

    def fill_bank(self, thetas: Sequence[Theta]) -> None:
        """Puts the fields of many Thetas on the device, so that a reset can give worlds new ones without the host."""
        rows = all_rows(self.scene, thetas)
        self._fields.fill_bank(rows, thetas)
        self._make_room(rows)

    def contacts(self) -> tuple[Bool[torch.Tensor, "N pairs"], Float[torch.Tensor, "N pairs"]]:
        """Whether the pairs of `touch` touch, and the size of the force between them over the last step."""
        address = self._touched
        force = self.sensordata[:, address[:, None] + torch.arange(1, 4, device=address.device)]
        return self.sensordata[:, address] > 0, torch.linalg.vector_norm(force, dim=-1)

    def why(self, world: int) -> Divergence | None:
        """The step, the time and the likely cause of a world's divergence; None while it runs. Waits for the device."""
        world = world_number(world, self.count)
        flag = int(self._flag_view[world])
        if not flag:
            return None
        age, nstep = int(self._age_view[world]), max(1, flag >> 4)
        if flag & 1:
            return Divergence(age, float(self.time[world]), "a control that it was sent is not a finite number")
        single = Population(self.scene, 1, 1)
        single.apply([self._fields.drawn(world) or self.thetas[world]])
        state = self._host_state(world)
        controls = np.repeat(self.ctrl[world].cpu().numpy().astype(np.float64)[None], nstep, axis=0)
        found = explain(single.model(0), state, controls, self.limits, age)
        text = "the state left its limits on the device; the same steps in float64 on the host stay inside"
        return found or Divergence(age, float(self.time[world]), text)

    def _step(self, nstep: int) -> None:
        m, d = self.model, self.data
        for name, kept in self._saved.items():
            if kept.size:
                wp.copy(kept, getattr(d, name))
        # positions and velocities of this state are known from the last call: begin with the forces
        wp.launch(
            keep_columns, (self.count, self._late_columns.size), [self._late_columns, self._sensed, 0], [d.sensordata]
        )
        always = delays_sensors(self.host)  # sensors that remember what they read before
        for k in range(nstep):
            with sensing(m, always or k == nstep - 1) as read:
                if k and self._lanes is None:
                    mjw.step(m, d)
                    continue
                if k:
                    describe(m, d, self._lanes, read)
                integrate(m, d, read)
        state = [getattr(d, name) for name in SAVED]
        wp.launch(
            guard, self.count, [self._allowed, d.ctrl, nstep, *self._saved.values()], [*state, self._flag, self._age]
        )
        self._describe()

    def _describe(self) -> None:
        """Everything that follows from positions and velocities; what follows from forces stays as it was."""
        m, d = self.model, self.data
        wp.copy(self._sensed, d.sensordata)
        describe(m, d, self._lanes, read=True)
        wp.launch(
            keep_columns, (self.count, self._late_columns.size), [self._late_columns, self._sensed, 1], [d.sensordata]
        )

    def _launch(self, key: int | str, work: Callable[[], None]) -> None:
        if self.tape is not None:
            self.tape.cut(lambda: self._launch(key, work))
            return
        with wp.ScopedDevice(self.device):
            if not self.device.is_cuda:
                work()
                return
            # warp's own stream and torch's default one wait for each other; any other stream of torch's is used itself
            current = torch.cuda.current_stream(wp.device_to_torch(self.device))
            stream = wp.stream_from_torch(current) if current.cuda_stream else self.device.stream
            if key in self._graphs:
                wp.capture_launch(self._graphs[key], stream=stream)
                return
            with wp.ScopedStream(stream):
                work()  # the first time it runs as it is, which loads the kernels; then it is captured, not run
            with wp.ScopedCapture(device=self.device) as capture:
                work()
            self._graphs[key] = capture.graph

    def _write(self, rows: dict[str, np.ndarray], worlds: np.ndarray | None) -> None:
        self._fields.write(rows, worlds)
        self._make_room(rows)

    def _make_room(self, rows: dict[str, np.ndarray]) -> None:
        if CONTROL[2] in rows and rows[CONTROL[2]].any():
            self._channels.make_room(float(rows[CONTROL[2]].max()))

    def _mask(self, indices: torch.Tensor | Sequence[int] | np.ndarray | None) -> torch.Tensor:
        device = self._flag_view.device
        if indices is None:
            return torch.ones(self.count, dtype=torch.bool, device=device)
        chosen = torch.as_tensor(indices, device=device)
        if chosen.dtype == torch.bool:
            if chosen.shape != (self.count,):
                raise SimError(f"the mask of worlds has the shape {tuple(chosen.shape)}; it needs ({self.count},).")
            return chosen
        return torch.zeros(self.count, dtype=torch.bool, device=device).index_fill_(0, chosen.long(), True)

    def _tensor(self, value: np.ndarray, name: str) -> torch.Tensor:
        """A host array as one row of the view of this name."""
        view = self.view(name)
        return torch.as_tensor(np.array(value), device=view.device).to(view.dtype).reshape(1, *view.shape[1:])

    def _fresh_state(
        self, keyframe: str | None, qpos: torch.Tensor | None, qvel: torch.Tensor | None, ctrl: torch.Tensor | None
    ) -> dict[str, torch.Tensor]:
        fresh = dict(self._fresh)
        if keyframe is None:
            fresh["qpos"] = wp.to_torch(self.model.qpos0)
        else:
            known = [self.host.key(k).name for k in range(self.host.nkey)]
            if keyframe not in known:
                raise SimError(f"the model has no keyframe {keyframe!r}. {nearest(keyframe, known)}")
            data = mujoco.MjData(self.host)
            mujoco.mj_resetDataKeyframe(self.host, data, known.index(keyframe))
            fresh |= {name: self._tensor(np.atleast_1d(getattr(data, name)), name) for name in STATE}
        for name, value in (("qpos", qpos), ("qvel", qvel), ("ctrl", ctrl)):
            if value is not None:
                fresh[name] = value.to(self.qpos.device).reshape(-1, *self.view(name).shape[1:])
        fresh["history"] = sent_before(self.host, fresh["history"], fresh["ctrl"])
        return fresh

    def _remember(self, mask: torch.Tensor) -> None:
        """Fills the delayed sensors' buffers with what they would read now without a delay."""
        if not delays_sensors(self.host):
            return
        kept, self.model.sensor_delay = self.model.sensor_delay, wp.zeros_like(self.model.sensor_delay)
        self.model.sensor_delay._is_batched = True
        with wp.ScopedDevice(self.device):
            self._describe()
        self.model.sensor_delay = kept
        history = sensed_before(self.host, self.view("history"), self._fresh["history"], self.sensordata)
        put(self.view("history"), mask, history)

    def _host_state(self, world: int) -> np.ndarray:
        data = mujoco.MjData(self.host)
        for name in STATE:
            value = self.view(name)[world].cpu().numpy()
            if name == "time":
                data.time = float(value)
            else:
                getattr(data, name)[...] = value.reshape(np.shape(getattr(data, name)))
        state = np.empty(mujoco.mj_stateSize(self.host, mujoco.mjtState.mjSTATE_INTEGRATION))
        mujoco.mj_getState(self.host, data, state, mujoco.mjtState.mjSTATE_INTEGRATION)
        return state
