"""Recorded commands sent to many worlds at once: Thetas × windows in, what each would have done out.

thetas (P) × windows (W) ──rows──> one Batch of P·W simulations ──> outputs (P, W, samples, …)

state      0 ── s physics steps ── 1 ── … ── 2      s = `substeps`, command i holds from sample i to i+1
outputs                            1         2      outputs describe the samples after each command
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
from mujoco.batch import DATA_FIELDS

from twinproof.nouns.errors import SimError
from twinproof.nouns.theta import Theta
from twinproof.sim.asked import whole, world_number
from twinproof.sim.divergence import Divergence, Limits, explain, quiet
from twinproof.sim.drive import law_of
from twinproof.sim.history import delays_sensors, write_past, write_sensed
from twinproof.sim.law import Law, Moment, finite, plant, without_delays
from twinproof.sim.parameters.base import nearest
from twinproof.sim.passage import as_measured, from_encoders, through_control
from twinproof.sim.population import Population, control_names, unpokable
from twinproof.sim.recorder import Recorder
from twinproof.sim.windows import Commands, Held, Start, arriving, past_of

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from twinproof.sim.scene import Scene

MEASURED = "measured"
_KEPT = 8  # populations of different sizes that are kept between calls


@dataclass(frozen=True, eq=False)
class Rolled:
    """What happened. Samples from the divergence on are NaN, and `diverged_at` (P, W) names the first; -1 is none."""

    outputs: Mapping[str, np.ndarray]
    diverged_at: Int[np.ndarray, "thetas windows"]
    explain: Callable[[int, int], Divergence | None] = field(repr=False)

    def __getitem__(self, name: str) -> Float[np.ndarray, "thetas windows samples *rest"]:
        return self.outputs[name]

    @property
    def diverged(self) -> np.ndarray:
        """Which rows diverged."""
        return self.diverged_at >= 0

    def why(self, theta: int, window: int) -> Divergence | None:
        """The physics step, time and likely cause of a row's divergence; None where it did not diverge."""
        thetas, windows = self.diverged_at.shape
        theta, window = world_number(theta, thetas, "Theta"), world_number(window, windows, "window")
        return self.explain(theta, window) if self.diverged_at[theta, window] >= 0 else None


class Rollouts:
    """Rolls out commands of one scene. It keeps its simulations between calls: identification asks thousands of times.

    outputs    names of MjData fields: qpos, qvel, sensordata, xpos, … all at the samples; what depends on forces
               (accelerometers, contact) uses the command that follows the sample. "measured" is sensordata with the
               Theta's biases and joint offsets, without noise
    substeps   physics steps for one control sample
    seed       of the jitter of commands, where a Theta has one
    """

    def __init__(
        self,
        scene: Scene,
        outputs: Sequence[str] = ("qpos", "qvel"),
        substeps: int = 1,
        limits: Limits | None = None,
        nthread: int = 0,
        seed: int = 0,
    ) -> None:
        for name in outputs:
            if name not in DATA_FIELDS and name != MEASURED:
                raise SimError(f"{name!r} is nothing that MuJoCo computes. {nearest(name, (*DATA_FIELDS, MEASURED))}")
        if substeps < 1:
            raise SimError(f"a control sample takes {substeps} physics steps. Give one or more.")
        self.scene = scene
        self.model: Any = scene.nominal()
        self.outputs = tuple(outputs)
        self.substeps = substeps
        self.limits = limits or Limits()
        self._nthread, self._seed = nthread, whole(seed, "the seed", 0)
        self._kept: dict[tuple[int, bool], Population] = {}
        self._applied: dict[tuple[int, bool], tuple[tuple[Theta, ...], bytes] | None] = {}

    @property
    def sample_s(self) -> float:
        """Seconds between control samples."""
        return float(self.substeps * self.model.opt.timestep)

    def roll(self, thetas: Sequence[Theta], start: Start, controls: np.ndarray | Held, samples: int = 0) -> Rolled:
        """Every window under every Theta.

        `controls` are (W, T, nu), (P, W, T, nu), or `Held` on their own clock, which needs the number of `samples`.
        """
        count = len(thetas)
        if not count:
            raise SimError("no Thetas were given to roll out. Give one or more; Theta() is the nominal.")
        commands = self.commands(controls, samples, count)
        windows = len(commands.row) // count
        which = np.repeat(np.arange(count), windows)
        rolled = self.roll_rows(thetas, which, start.rows(count, windows), commands)
        outputs = {name: value.reshape(count, windows, *value.shape[1:]) for name, value in rolled.outputs.items()}
        return Rolled(
            MappingProxyType(outputs),
            rolled.diverged_at.reshape(count, windows),
            lambda p, w: rolled.explain(0, p * windows + w),
        )

    def roll_rows(
        self,
        thetas: Sequence[Theta],
        which: np.ndarray,
        start: Start,
        commands: Commands,
        laws: Sequence[Law] | None = None,
    ) -> Rolled:
        """Rows, each with Theta number `which` (R,), its start and its commands; the outputs are (R, samples, …).

        Force laws act where they are given (one for each Theta, or one for all), or where the scene has a drive.
        """
        if laws is None and self.scene.drive is not None:
            thetas, laws = [self.scene.drive.applied(theta) for theta in thetas], [law_of(self.scene.drive)]
        start.check(self.model)
        commands.check(control_names(self.model))
        start = from_encoders(self.model, thetas, which, start)
        start, commands = through_control(self.model, thetas, which, start, commands, self.sample_s, self._seed)
        inside = thetas
        if laws is not None:
            inside, late_s = without_delays(self.model, thetas)
            start, commands = arriving(start, commands, late_s[which] / self.model.opt.timestep)
        population = self.population(inside, which)
        begun = begin(population, start, commands)
        if laws is None:
            outputs, diverged_at = self._run(population, commands)
        else:
            own = which if len(laws) > 1 else np.zeros_like(which)
            outputs, diverged_at = self._run_laws(population, laws, own, start, commands)
        if MEASURED in self.outputs:
            outputs[MEASURED] = as_measured(self.model, thetas, which, outputs["sensordata"])
            outputs = {name: outputs[name] for name in self.outputs}

        def why(_: int, row: int) -> Divergence | None:
            if laws is not None:
                step = int(diverged_at[row]) * self.substeps
                told = "it left its limits with a force law in the loop"
                return Divergence(step, step * float(self.model.opt.timestep), told)
            single = Population(self.scene, 1, 1, compiled=population.compiled)
            single.apply([thetas[int(which[row])]])
            sent = commands.between(np.array([row]), 0, commands.step.shape[-1])[0]
            return explain(single.model(0), begun[row], sent, self.limits)

        return Rolled(MappingProxyType(outputs), diverged_at, why)

    def commands(self, controls: np.ndarray | Held, samples: int, thetas: int) -> Commands:
        if isinstance(controls, Held):
            if samples < 1:
                raise SimError("held commands have a clock but no end: say how many control samples to roll out.")
            step = controls.steps(np.arange(samples * self.substeps) * self.model.opt.timestep)
            value = np.asarray(controls.value, dtype=np.float64)
            value = value if value.ndim == 3 else value[np.newaxis]
        else:
            value = np.asarray(controls, dtype=np.float64)
            if value.ndim not in (3, 4) or (value.ndim == 4 and len(value) != thetas) or not value.shape[-2]:
                raise SimError(
                    f"controls have the shape {value.shape}; needed are (windows, samples, {self.model.nu}), or the "
                    f"same with {thetas} Thetas in front."
                )
            step = np.repeat(np.arange(value.shape[-2]), self.substeps)
        if value.ndim == 4:
            value = value.reshape(-1, *value.shape[2:])
            return Commands(value, np.arange(len(value)), step)
        return Commands(value, np.tile(np.arange(len(value)), thetas), step)

    def population(self, thetas: Sequence[Theta], which: np.ndarray) -> Population:
        """The kept simulations of this number, with these Thetas; poking is skipped where they have them already."""
        key = (len(which), bool(unpokable(self.model, thetas)))
        if key not in self._kept:
            if len(self._kept) >= _KEPT:
                oldest = next(iter(self._kept))
                del self._kept[oldest], self._applied[oldest]
            sensed = bool({"sensordata", MEASURED} & set(self.outputs))
            self._kept[key] = Population(self.scene, len(which), self._nthread, compiled=key[1], sensors=sensed)
            self._applied[key] = None
        asked = (tuple(thetas), which.tobytes())
        if self._applied[key] != asked:
            self._kept[key].apply(thetas, which=which)
            self._applied[key] = asked
        return self._kept[key]

    def _recorder(self, population: Population, commands: Commands) -> Recorder:
        samples = commands.step.shape[-1] // self.substeps
        recorded = tuple(dict.fromkeys("sensordata" if name == MEASURED else name for name in self.outputs))
        return Recorder(population, recorded, samples, self.substeps, self.limits)

    def _run(self, population: Population, commands: Commands) -> tuple[dict[str, np.ndarray], np.ndarray]:
        recorder = self._recorder(population, commands)
        with quiet():
            for begin, end in recorder.chunks():
                live = np.flatnonzero(recorder.diverged_at < 0)
                if not live.size:
                    break
                recorder.advance(live, commands.between(live, begin, end), begin)
        return recorder.finish(), recorder.diverged_at

    def _run_laws(
        self, population: Population, laws: Sequence[Law], which: np.ndarray, start: Start, commands: Commands
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """The same, a physics step at a time, with the laws' controls and torques."""
        batch, known = population.batch, plant(self.model)
        rows = np.arange(batch.nsim)
        recorder = self._recorder(population, commands)
        qpos, qvel, force = (batch.bind(name) for name in ("qpos", "qvel", "qfrc_applied"))
        memory = max(law.memory(known.step_s) for law in laws)
        past = past_of(start, commands, memory)
        first = np.concatenate([past, commands.between(rows, 0, 1)], axis=1)
        running = type(laws[0]).running(laws, which, known, Moment(qpos.copy(), qvel.copy(), first))
        with quiet():
            for begin, end in recorder.chunks():
                line = np.concatenate([past, commands.between(rows, begin, end)], axis=1)
                for step in range(begin, end):
                    live = np.flatnonzero(recorder.diverged_at < 0)
                    if not live.size:
                        break
                    sent = line[:, step - begin : step - begin + memory + 1]
                    action = running.act(Moment(*finite(qpos, qvel, recorder.diverged_at >= 0), sent))
                    force[live] = action.torque[live]
                    recorder.advance(live, np.ascontiguousarray(action.ctrl[live][:, np.newaxis]), step)
                past = line[:, line.shape[1] - memory :]
        force[...] = 0.0  # the simulations are kept, and others may roll them without a law
        return recorder.finish(), recorder.diverged_at


def begin(population: Population, start: Start, commands: Commands) -> np.ndarray:
    """Sets the rows to their starts, with the past that delayed actuators and sensors need; returns the states."""
    batch, model = population.batch, population.nominal
    batch.reset(stage=mujoco.mjtStage.mjSTAGE_NONE.value)
    batch.bind("qpos")[...], batch.bind("qvel")[...] = start.qpos, start.qvel
    if start.act is not None:
        batch.bind("act")[...] = start.act
    first = commands.between(np.arange(batch.nsim), 0, 1)
    batch.bind("ctrl")[...] = first[:, 0]
    history = batch.bind("history")
    before = first if commands.before is None else first[commands.before]
    write_past(model, history, before if start.past is None else start.past)
    if delays_sensors(model):
        write_sensed(model, history, population.sensed_now(None))
    begun: np.ndarray = batch.state.copy()
    return begun
