"""Who takes part in `bench/identify.py`: the same windows, starts, bounds and weights, each in its own best setting.

ours        `twinproof.identify.fit.fit`, one stage, starts as measured
sysid       `mujoco.sysid`, normalisation off; its three optimisers, and two ways to hand it the windows
the loop    scipy's `least_squares` over `mj_step` in Python, fields written in place
"""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import mujoco
import numpy as np
from scipy.optimize import least_squares

from twinproof.identify.fit import Fit, GaussNewton, fit
from twinproof.identify.problem import Problem
from twinproof.nouns.theta import Theta
from twinproof.sim.experiment import passage
from twinproof.sim.instantiate import poke_worlds
from twinproof.sim.parameters.resolve import parameter
from twinproof.sim.shooting import Shooting, Variant

NEAR = 1e-4  # of the cost: what every tolerance is set to, and about what friction leaves rough


@dataclass(frozen=True, eq=False)
class Window:
    """One window as every contender gets it: start, controls, and what was read after which physics steps."""

    qpos: np.ndarray
    qvel: np.ndarray
    ctrl: np.ndarray  # (steps, nu)
    step: np.ndarray  # (n,) the readings' places among the states after each step
    read: np.ndarray  # (n, nq + nv)


@dataclass(frozen=True, eq=False)
class Task:
    """One fit. `sd` (nq + nv) weighs positions and velocities; `best` are the best unknowns that are known."""

    name: str
    problem: Problem
    horizon_s: float
    sd: np.ndarray
    windows: tuple[Window, ...] = field(repr=False)
    shooting: Shooting = field(repr=False)
    best: np.ndarray | None = None

    @property
    def model(self) -> Any:
        """The nominal model that all share."""
        return self.shooting.model

    def thetas(self, unknowns: np.ndarray) -> Theta:
        """The parameters that are written into the model, fixed ones too."""
        values = self.problem.values(unknowns)[0]
        found = {**self.problem.fixed, **dict(zip(self.problem.ids, values.tolist(), strict=True))}
        return Theta({id: value for id, value in found.items() if not id.endswith(".delay")})

    def cost(self, unknowns: np.ndarray) -> float:
        """Half the sum of squared gaps, in sd: computed by the same function for everyone."""
        rolled = self.shooting.roll([Variant(self.problem.values(unknowns), *self.shooting.starts)])
        gap = rolled.gap[0] / self.sd[self.shooting.entry]
        return 0.5 * float(gap @ gap)


def task(name: str, problem: Problem, horizon_s: float) -> Task:
    """Cuts the windows; the weights are what the readings show by themselves until others are known."""
    shooting = problem.shooting(horizon_s)
    model = shooting.model
    qpos, qvel = shooting.starts
    way = passage(model, problem.fixed)
    sent = [each.controls(way) for each in problem.experiments]
    windows = []
    for w, e in enumerate(shooting.episode):
        first, length = int(shooting.first[w]), int(shooting.length[w])
        last = w not in shooting.seams
        where, value = {r.kind: r for r in problem.experiments[e].readings}, []
        since = (where["position"].time_s - shooting.begin_s[w]) / shooting.step_s
        # a reading at the end of a window is the next one's beginning
        kept = (since > 0.5) & (since < length + (0.5 if last else -0.5))
        kept &= np.isfinite(where["position"].value).all(axis=1)
        step = np.rint(since[kept]).astype(np.int64)
        assert np.abs(since[kept] - step).max() < 1e-3, "the readings are on the physics clock"
        for kind in ("position", "velocity"):
            assert (where[kind].place == np.arange(model.nv)).all()
            value.append(where[kind].value[kept])
        windows.append(
            Window(qpos[w], qvel[w], sent[e][first : first + length], step - 1, np.concatenate(value, axis=1))
        )
    sd, _ = shooting.noise
    return Task(name, problem, horizon_s, sd, tuple(windows), shooting)


@dataclass(eq=False)
class Run:
    """One contender's run: where it ended, what it cost, and how the cost fell while it ran."""

    unknowns: np.ndarray
    wall_s: float
    cpu_s: float
    evaluations: float  # of the whole residual, finite differences counted
    reached_wall_s: float = np.nan  # until the cost was within NEAR of the best
    reached_cpu_s: float = np.nan


class Watch:
    """Counts evaluations, and notes when the cost first came near the best."""

    def __init__(self, task: Task, windows: Sequence[Window] | None = None) -> None:
        self.target, self.count = -np.inf, 0
        if task.best is not None:
            model = task.shooting.experiments[0].scene.compile()
            gaps = residual(task, windows or task.windows, model, mujoco.MjData(model), task.best)
            self.target = (1 + NEAR) * 0.5 * float(gaps @ gaps)
        self.wall_s, self.cpu_s = np.nan, np.nan
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def saw(self, residual: np.ndarray, columns: int) -> None:
        self.count += columns
        if columns == 1 and np.isnan(self.wall_s) and 0.5 * float(np.square(residual).sum()) <= self.target:
            self.wall_s, self.cpu_s = self.clock()

    def clock(self) -> tuple[float, float]:
        return time.perf_counter() - self._wall, time.process_time() - self._cpu

    def run(self, unknowns: np.ndarray) -> Run:
        return Run(unknowns, *self.clock(), self.count, self.wall_s, self.cpu_s)


def ours(task: Task, method: GaussNewton) -> tuple[Run, Fit]:
    """Our fit from the nominal start. It has no hook into its costs: all of its time counts as needed."""
    watch = Watch(replace(task, best=None))
    found = fit(task.problem, method)
    run = watch.run(found.unknowns)
    rolled = found.rollouts / np.mean([stage.shooting.windows for stage in found.stages])
    return replace(run, evaluations=rolled, reached_wall_s=run.wall_s, reached_cpu_s=run.cpu_s), found


def loop(task: Task, settings: dict[str, Any]) -> Run:
    """scipy over `mj_step`: one model whose fields are written anew, one data, no recompilation."""
    model, problem = task.shooting.experiments[0].scene.compile(), task.problem
    data = mujoco.MjData(model)
    watch = Watch(task)

    def gaps(unknowns: np.ndarray) -> np.ndarray:
        found = residual(task, task.windows, model, data, unknowns)
        watch.saw(found, 1)
        return found

    return watch.run(least_squares(gaps, problem.nominal, bounds=problem.span, **settings).x)


def residual(task: Task, windows: Sequence[Window], model: Any, data: Any, unknowns: np.ndarray) -> np.ndarray:
    """All gaps in sd, window by window."""
    write(task, model, unknowns)
    found = []
    for window in windows:
        mujoco.mj_resetData(model, data)
        data.qpos[:], data.qvel[:] = window.qpos, window.qvel
        found.append((window.read - played(model, data, window)) / task.sd)
    return np.concatenate(found).reshape(-1)


def write(task: Task, model: Any, unknowns: np.ndarray) -> None:
    """The fields of these unknowns into a model, and what derives from them."""
    poke_worlds(task.model, [task.thetas(unknowns)]).into_model(model)
    mujoco.mj_setConst(model, mujoco.MjData(model))


def played(model: Any, data: Any, window: Window) -> np.ndarray:
    """The states of one window at its readings (n, nq + nv): a plain Python loop."""
    step, ctrl, qpos, qvel, nq = mujoco.mj_step, data.ctrl, data.qpos, data.qvel, model.nq
    states = np.empty((len(window.ctrl), nq + model.nv))
    for k, sent in enumerate(window.ctrl):
        ctrl[:] = sent
        step(model, data)
        states[k, :nq] = qpos
        states[k, nq:] = qvel
    return states[window.step]


def sysid(task: Task, settings: dict[str, Any], *, chunks: bool = False) -> Run:
    """`mujoco.sysid` with `settings` for its optimiser.

    It hands sequences to its rollout one by one, and compiles for each. `chunks` makes the windows chunks of one
    sequence, which its inner function allows but no documented call does; it then compiles once for all windows. Its
    batched finite differences mix the chunks up, so that works with scipy's alone.
    """
    import absl.logging
    from mujoco import sysid as peer

    absl.logging.set_verbosity(absl.logging.ERROR)
    spec = peer.remove_visuals(task.shooting.experiments[0].scene.spec())
    for sensor in list(spec.sensors):
        spec.delete(sensor)  # states are compared: sensors would only cost it time
    problem = task.problem
    for id, value in task.thetas(problem.nominal).items():
        if id in problem.fixed:
            parameter(id).write(spec, value)
    params = peer.ParameterDict()
    low, high = problem.span
    for k, belief in enumerate(problem.beliefs):
        params.add(
            peer.Parameter(belief.id, problem.nominal[k], low[k], high[k], modifier=_modifier(belief.id, belief.info))
        )
    fewest = min(len(window.step) for window in task.windows)
    windows = [replace(w, step=w.step[:fewest], read=w.read[:fewest]) for w in task.windows] if chunks else task.windows
    sequences = _sequences(task.name, windows, spec, peer)
    if chunks:  # of equal length: the last window of an episode does without its last reading
        sequences.measured_rollout = [sequences.measured_rollout]
    weight = 1 / task.sd

    def compare(params: Any, predicted: Any, measured: Any, model: Any, everything: bool, state: Any, **_: Any) -> Any:
        at = np.rint(measured.times / model.opt.timestep).astype(np.int64) - 1
        shown = peer.TimeSeries(measured.times, state[at, 1:], measured.signal_mapping)
        return (measured.data - shown.data) * weight, shown, measured

    # controls are given for every physics step: there is nothing to resample
    inner = peer.build_residual_fn(models_sequences=[sequences], modify_residual=compare, resample_true=False)
    watch = Watch(task, windows)

    def counted(x: np.ndarray, params: Any) -> Any:
        found = inner(x, params)
        watch.saw(np.concatenate(found[0]), 1 if x.ndim == 1 else x.shape[1])
        return found

    with contextlib.redirect_stdout(io.StringIO()):  # its back ends print tables
        found, _ = peer.optimize(params, counted, verbose=False, **settings)
    return watch.run(found.as_vector())


def _modifier(id: str, info: Any) -> Callable[[Any, Any], None]:
    written = parameter(id)
    return lambda spec, param: written.write(spec, float(info.from_scale(param.value[0])))


def _sequences(name: str, windows: Sequence[Window], spec: Any, peer: Any) -> Any:
    model = spec.compile()
    names, starts, controls, readings = [], [], [], []
    width = model.nq + model.nv
    signals = [(f"state{k}", 1, peer.SignalType.CustomObs) for k in range(width)]
    for k, window in enumerate(windows):
        names.append(f"window{k}")
        starts.append(peer.create_initial_state(model, window.qpos, window.qvel))
        # its last control is dropped
        sent = np.concatenate([window.ctrl, window.ctrl[-1:]])
        controls.append(peer.TimeSeries.from_control_names(np.arange(len(sent)) * model.opt.timestep, sent, model))
        times = (window.step + 1) * model.opt.timestep
        readings.append(peer.TimeSeries.from_custom_map(times, window.read, signals))
    return peer.ModelSequences(name, spec, names, starts, controls, readings, allow_missing_sensors=True)
