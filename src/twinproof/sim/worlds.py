"""N worlds of one scene, each with its own Theta, stepped together on all cores.

worlds = Worlds(scene, thetas, touch=[("cube", "table")])
worlds.step(ctrl, nstep=10)         ctrl (N, nu); every view below is live, (N, …), and describes the same instant
worlds.qpos, worlds.sensordata, worlds.xpos, worlds.contacts()
worlds.reset(worlds.diverged, thetas=fresh)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

import mujoco
import numpy as np
from mujoco.batch import DATA_FIELDS, SimulationError

from twinproof.nouns.errors import SimError
from twinproof.nouns.theta import Theta
from twinproof.nouns.twin import Twin
from twinproof.sim.asked import given_state, one_each, refuse_other_tick, whole, world_number, world_rows
from twinproof.sim.channels import ControlChannel, SensorChannel
from twinproof.sim.divergence import Divergence, Limits, explain, quiet, warned
from twinproof.sim.history import delays_sensors, write_past, write_sensed
from twinproof.sim.parameters.base import nearest
from twinproof.sim.passage import has_channel
from twinproof.sim.population import Population, control_names, unpokable
from twinproof.sim.scene import Scene
from twinproof.sim.touch import Contacts, TouchSensors, with_touch
from twinproof.sim.worlds_driven import Driver

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

_VELOCITY = mujoco.mjtStage.mjSTAGE_VEL.value
_NOTHING = mujoco.mjtStage.mjSTAGE_NONE.value
_UNTOLD = (
    "the state left its limits; a replay on one core does not show why",
    "the state left its limits with the drive's force law in the loop",
)


class Worlds:
    """Worlds on the CPU. A world that diverges is flagged, explained by `why`, and stays at its last good state; the
    others go on exactly as they would have without it.

    Without `current`, poses and sensors are left as MuJoCo leaves them, one physics step behind the state: half a
    physics step cheaper at every call, and the same motion.
    """

    def __init__(
        self,
        scene: Scene | Twin,
        thetas: Sequence[Theta] | SupportsIndex,
        *,
        touch: Sequence[tuple[str, str]] = (),
        substeps: int = 1,
        current: bool = True,
        limits: Limits | None = None,
        nthread: int = 0,
        seed: int = 0,
    ) -> None:
        scene = Scene.of(scene) if isinstance(scene, Twin) else scene
        self.thetas: list[Theta] = one_each(thetas)
        self._bank: list[Theta] = []
        self.substeps, self._seed = whole(substeps, "substeps", 1), whole(seed, "the seed", 0)
        self.scene = with_touch(scene, touch)
        self.limits = limits or Limits()
        slow = unpokable(self.scene.nominal(), self.thetas)
        self._population = Population(self.scene, len(self.thetas), nthread, compiled=bool(slow))
        self.model: Any = self._population.nominal
        self._batch = self._population.batch
        self._names = control_names(self.model)
        self._touch = TouchSensors(self.model, touch)
        self._stage = _VELOCITY if current else _NOTHING
        self._control: ControlChannel | None = None
        self._sensors: SensorChannel | None = None
        drive = self.scene.drive
        self._driver = None if drive is None else Driver(self.model, drive, len(self.thetas))
        self._bind()
        self._apply(np.arange(len(self.thetas), dtype=np.int32), self.thetas)
        self._make_channel(self.thetas)
        self.reset()

    def _bind(self) -> None:
        batch, count = self._batch, len(self.thetas)
        self._bound = {"sensordata", "xpos", "xquat"}
        for name in self._bound:
            batch.bind(name)
        self._ctrl: np.ndarray = batch.bind("ctrl")
        begin = mujoco.mj_stateSize(self.model, mujoco.mjtState.mjSTATE_TIME)
        self._moving = batch.state[:, begin : begin + self.model.nq + self.model.nv]  # qpos and qvel
        self._allowed = self.limits.row(self.model)
        self._before = batch.state.copy()
        self._diverged = np.zeros(count, dtype=bool)
        self._resting = np.zeros(count, dtype=bool)
        self._live: np.ndarray | None = None  # ids of the worlds that still run; None is all
        self._age = np.zeros(count, dtype=np.int64)  # physics steps since the reset
        self._tried = np.zeros(count, dtype=np.int64)  # physics steps of the call in which a world diverged
        self._told: dict[int, Divergence] = {}

    @property
    def count(self) -> int:
        """How many worlds there are."""
        return len(self.thetas)

    @property
    def diverged(self) -> Bool[np.ndarray, "N"]:
        """Which worlds stand still because they diverged."""
        return self._diverged.copy()

    @property
    def steps(self) -> Int[np.ndarray, "N"]:
        """Physics steps of each world since its reset."""
        return self._age.copy()

    def view(self, name: str) -> np.ndarray:
        """The live array (N, …) of any MjData field. State (qpos, qvel, …) may be written between steps."""
        if name not in DATA_FIELDS:
            raise SimError(f"{name!r} is nothing that MuJoCo computes. {nearest(name, DATA_FIELDS)}")
        found: np.ndarray = self._batch.bind(name)
        if name in self._bound:
            return found
        self._bound.add(name)
        if not np.shares_memory(found, self._batch.state):  # a derived field is zero until something computes it
            self.refresh()
        return found

    @property
    def qpos(self) -> Float[np.ndarray, "N nq"]:
        """Positions, live and writable."""
        return self.view("qpos")

    @property
    def qvel(self) -> Float[np.ndarray, "N nv"]:
        """Velocities, live and writable."""
        return self.view("qvel")

    @property
    def ctrl(self) -> Float[np.ndarray, "N nu"]:
        """What the actuators were last sent, live."""
        return self._ctrl

    @property
    def time(self) -> Float[np.ndarray, "N"]:
        """Seconds since each world's reset, live."""
        return self.view("time")

    @property
    def sensordata(self) -> Float[np.ndarray, "N ns"]:
        """What the sensors read, without noise, live."""
        return self.view("sensordata")

    @property
    def xpos(self) -> Float[np.ndarray, "N nbody 3"]:
        """Positions of body frames in the world, live."""
        return self.view("xpos")

    @property
    def xquat(self) -> Float[np.ndarray, "N nbody 4"]:
        """Orientations (wxyz) of body frames in the world, live."""
        return self.view("xquat")

    def measure(self) -> Float[np.ndarray, "N ns"]:
        """What the robot would report: sensordata with bias, joint offset, noise, quantisation. One call, one tick."""
        if self._sensors is None:
            self._sensors = SensorChannel(self.model, self.thetas, self._seed)
        return self._sensors(self.sensordata)

    def step(self, ctrl: Float[np.ndarray, "N nu"], nstep: int | None = None) -> None:
        """Advances every world by `nstep` physics steps (default `substeps`); what diverged stands still.

        The controls pass through backlash, jitter and joint offsets where Thetas have them, one tick a call.
        """
        ctrl, nstep = self._checked(ctrl), self.substeps if nstep is None else whole(nstep, "nstep", 1)
        if self._control is not None:
            if nstep != self.substeps and self._control.jitter.any():
                refuse_other_tick(nstep, self.substeps)
            ctrl = self._control(ctrl)
        np.copyto(self._before, self._batch.state)
        failed = self._advance(ctrl, nstep)
        self._age += nstep if self._live is None else nstep * ~(self._diverged | self._resting)
        bad = ~(np.abs(self._moving) <= self._allowed).all(axis=1) | warned(self._batch.warning)
        bad[failed] = True
        if bad.any():
            self._freeze(bad & ~self._diverged, nstep)

    def _advance(self, ctrl: np.ndarray, nstep: int) -> np.ndarray:
        """The physics of one tick, a step at a time where the scene has a drive; the worlds that the engine gave up."""
        failed: set[int] = set()
        driver, stages = self._driver, [self._stage]
        if driver is not None:
            qpos, qvel, force = (self._batch.bind(name) for name in ("qpos", "qvel", "qfrc_applied"))
            stages, nstep = [_NOTHING] * (nstep - 1) + [self._stage], 1
        with quiet():
            for stage in stages:
                self._ctrl[...] = ctrl
                if driver is not None:
                    gone = ~(np.abs(self._moving) <= self._allowed).all(axis=1)
                    action = driver.act(ctrl, qpos, qvel, gone)
                    self._ctrl[...], force[...] = action.ctrl, action.torque
                try:
                    self._batch.step(self._live, nstep, stage)
                except SimulationError as problem:
                    failed.update(problem.ids.tolist())
        return np.array(sorted(failed), dtype=np.int64)

    def reset(
        self,
        indices: np.ndarray | Sequence[int] | None = None,
        *,
        thetas: Sequence[Theta] | None = None,
        bank: np.ndarray | None = None,
        keyframe: str | int | None = None,
        qpos: np.ndarray | None = None,
        qvel: np.ndarray | None = None,
        ctrl: np.ndarray | None = None,
    ) -> None:
        """Starts some worlds (all where None) afresh: at the model's defaults, a keyframe, or the state given.

        New `thetas`, one for each, are applied to the nominal; or `bank`, numbers of Thetas that `fill_bank` took in.
        `ctrl` is what delayed actuators were sent before.
        """
        rows, order = self._rows(indices)
        if bank is not None:
            thetas = [self._bank[k] for k in bank]
        if thetas is not None and len(thetas) != len(rows):
            raise SimError(f"{len(rows)} worlds were given {len(thetas)} Thetas. Give one each.")
        if not len(rows):
            return
        model, key = self.model, self._keyframe(keyframe)
        asked = (("qpos", qpos, model.nq), ("qvel", qvel, model.nv), ("ctrl", ctrl, model.nu))
        given = {name: given_state(name, value, len(rows), width) for name, value, width in asked if value is not None}
        if thetas is not None:
            self._give(rows, [thetas[k] for k in order], None if bank is None else bank[order])
        batch = self._batch
        batch.reset(rows, key, stage=_NOTHING)
        for name, state in given.items():
            batch.bind(name)[rows] = state[order] if state.ndim > 1 else state
        history = batch.bind("history")
        if history.shape[1]:
            past = history[rows]
            write_past(self.model, past, self._ctrl[rows][:, None], self.time[rows])
            history[rows] = past
            if delays_sensors(self.model):
                write_sensed(self.model, past, self._population.sensed_now(rows), self.time[rows])
                history[rows] = past
        if self._control is not None:
            self._control.reset(rows)
        if self._driver is not None:
            self._driver.restart(rows, batch.bind("qpos"), batch.bind("qvel"), self._ctrl)
        self._diverged[rows] = self._resting[rows] = False
        self._age[rows] = 0
        for row in rows:
            self._told.pop(int(row), None)
        self._find_live()
        batch.forward(rows)

    def rest(self, indices: np.ndarray | Sequence[int]) -> None:
        """Some worlds stand still until their next reset: nobody looks at them, and they cost no physics."""
        rows, _ = self._rows(indices)
        self._resting[rows] = True
        self._find_live()

    def _find_live(self) -> None:
        still = self._diverged | self._resting
        self._live = np.flatnonzero(~still).astype(np.int32) if still.any() else None

    def set_thetas(self, indices: np.ndarray | Sequence[int], thetas: Sequence[Theta]) -> None:
        """Gives some worlds other parameters, applied to the nominal, without a reset."""
        rows, order = self._rows(indices)
        if len(thetas) != len(rows):
            raise SimError(f"{len(rows)} worlds were given {len(thetas)} Thetas. Give one each.")
        self._give(rows, [thetas[k] for k in order], None)

    def fill_bank(self, thetas: Sequence[Theta]) -> None:
        """The Thetas that resets can draw from by number, worked out once."""
        self._bank = list(thetas)
        if self._driver is None and not self._population.compiled:
            self._population.keep(self._bank)

    def _give(self, rows: np.ndarray, chosen: Sequence[Theta], numbers: np.ndarray | None) -> None:
        for row in rows[self._diverged[rows]]:
            self.why(int(row))  # while the parameters with which it diverged are still there
        if numbers is None or self._driver is not None or self._population.compiled:
            self._apply(rows, chosen)
        else:
            self._population.apply_kept(numbers, rows)
        for row, theta in zip(rows, chosen, strict=True):
            self.thetas[row] = theta
        if self._sensors is not None:
            self._sensors.set_thetas(rows, chosen)
        if self._control is not None:
            self._control.set_thetas(rows, chosen)
        else:
            self._make_channel(chosen)

    def _apply(self, rows: np.ndarray, thetas: Sequence[Theta]) -> None:
        self._population.apply(thetas if self._driver is None else self._driver.take(rows, thetas), rows)

    def refresh(self) -> None:
        """Makes poses and sensors describe a state that was written, without a step."""
        kept = self._batch.state.copy()
        self._batch.forward(self._live)
        self._batch.state[...] = kept

    def contacts(self) -> Contacts:
        """Whether and how hard the pairs of `touch` press on each other, (N, pairs)."""
        return self._touch.read(self.sensordata)

    def why(self, world: int) -> Divergence | None:
        """The step, the time and the likely cause of a world's divergence; None while it runs."""
        world = world_number(world, self.count)
        if not self._diverged[world]:
            return None
        if world not in self._told:
            controls = np.repeat(self._ctrl[world][None], self._tried[world], axis=0)
            found = (
                None
                if self._driver is not None
                else explain(
                    self._population.model(world),
                    self._batch.state[world],
                    controls,
                    self.limits,
                    int(self._age[world]),
                )
            )
            # an error of the engine, such as a full arena, does not show in the replay's numbers
            said = self._batch.error(world) or _UNTOLD[self._driver is not None]
            self._told[world] = found or Divergence(int(self._age[world]), float(self.time[world]), said)
        return self._told[world]

    def _make_channel(self, thetas: Sequence[Theta]) -> None:
        if has_channel(thetas, "control"):
            self._control = ControlChannel(self.model, self.thetas, self.substeps * self.model.opt.timestep, self._seed)

    def _checked(self, ctrl: np.ndarray) -> np.ndarray:
        ctrl = np.asarray(ctrl, dtype=np.float64)
        if ctrl.shape != self._ctrl.shape:
            raise SimError(
                f"the controls have the shape {ctrl.shape}; {self.count} worlds with {len(self._names)} controls "
                f"({', '.join(self._names) or 'none'}) need {self._ctrl.shape}."
            )
        if not np.isfinite(ctrl).all():
            world, control = np.argwhere(~np.isfinite(ctrl))[0]
            raise SimError(
                f"the control of actuator {self._names[control]!r} in world {world} is {ctrl[world, control]}. "
                "A control is a finite number."
            )
        return ctrl

    def _freeze(self, new: np.ndarray, nstep: int) -> None:
        if not new.any():
            return
        rows = np.flatnonzero(new).astype(np.int32)
        sent = self._ctrl[rows].copy()
        self._batch.state[rows] = self._before[rows]
        self._ctrl[rows] = sent
        self._diverged |= new
        self._age[rows] -= nstep
        self._tried[rows] = nstep
        self._find_live()
        with quiet():
            self._batch.forward(rows)  # views describe the last good state, not the wreck

    def _rows(self, indices: np.ndarray | Sequence[int] | None) -> tuple[np.ndarray, np.ndarray]:
        """Sorted rows, and where in the caller's order each of them stood."""
        if indices is None:
            everything = np.arange(self.count, dtype=np.int32)
            return everything, everything
        chosen = world_rows(indices, self.count)
        order = np.argsort(chosen, kind="stable")
        rows = chosen[order]
        if rows.size and (rows[0] < 0 or rows[-1] >= self.count or (np.diff(rows) == 0).any()):
            raise SimError(f"{chosen.tolist()[:10]} does not name worlds of 0 … {self.count - 1}, each once.")
        return rows.astype(np.int32), order

    def _keyframe(self, keyframe: str | int | None) -> int:
        known = [self.model.key(k).name for k in range(self.model.nkey)]
        if keyframe is None:
            return -1
        if isinstance(keyframe, str):
            if keyframe not in known:
                raise SimError(f"the model has no keyframe {keyframe!r}. {nearest(keyframe, known)}")
            return known.index(keyframe)
        if not 0 <= keyframe < len(known):
            raise SimError(f"the model has no keyframe number {keyframe}; it has {len(known)}.")
        return keyframe
