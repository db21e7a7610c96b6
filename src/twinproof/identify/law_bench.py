"""Where laws beside the parameters are fitted and judged: runs on the physics clock, and rollouts on validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from twinproof.identify.actuator_fit import Labels, Matching, Run, Windowed
from twinproof.identify.problem import Problem
from twinproof.identify.residual_dynamics import Verdict, adopt
from twinproof.nouns.drive import Drive
from twinproof.nouns.errors import ConfigError, RecordingError
from twinproof.nouns.theta import Theta
from twinproof.sim.drive import law_of
from twinproof.sim.driven import Driven
from twinproof.sim.experiment import Experiment, Passage, passage
from twinproof.sim.instantiate import instantiate
from twinproof.sim.law import Chain, Law, Plant
from twinproof.sim.parameters.base import names
from twinproof.sim.shooting import beside
from twinproof.sim.smooth import states_at

LOOK_S, APART_S, PAST_S = 0.5, 0.1, 0.1  # windows, how far apart, commands before
KNOT_S = 0.01  # smoothed states are found so far apart, and drawn between


@dataclass(frozen=True, eq=False)
class Bench:
    """Calibration and validation on the physics clock, each run under the parameters that were found."""

    driven: Driven
    calibration: tuple[Run, ...]
    validation: tuple[Run, ...]
    theta: Theta  # without what is applied beside the model, but for offsets and slack
    measured: tuple[tuple[Experiment, ...], tuple[Experiment, ...]]  # what the runs were made of

    @property
    def matching(self) -> Matching:
        """Windows of half a second, or a third of the shortest run."""
        step_s = self.driven.plant.step_s
        shortest = min(len(run.seen) for run in (*self.calibration, *self.validation))
        length = max(10, min(round(LOOK_S / step_s), shortest // 3))
        return Matching(length, max(1, round(APART_S / step_s)), self.past, max(1, length // 10))

    @property
    def past(self) -> int:
        """Samples at a run's beginning whose commands are still under way."""
        return max(1, round(PAST_S / self.driven.plant.step_s))

    @cached_property
    def motors(self) -> dict[str, int]:
        """Torque motors that drive a single joint, by name: their place in ctrl. Servos are none."""
        model, plant = self.driven.model, self.driven.plant
        known, found = names(model, "actuator"), {}
        for i, name in enumerate(plant.actuators):
            a = known.index(name) if name in known else -1
            if a >= 0 and plant.dof[i] >= 0 and not (model.actuator_gaintype[a] or model.actuator_biastype[a]):
                found[name] = i
        return found

    @cached_property
    def felt(self) -> Plant:
        """The plant, its gears with the motors' gains: torque on the joint for a command of one."""
        model = instantiate(self.driven.scene, Theta({id: v for id, v in self.theta.items() if id.endswith(".gain")}))
        gear, known = np.array(self.driven.plant.gear), names(model, "actuator")
        for name, i in self.motors.items():
            gear[i] *= float(model.actuator_gainprm[known.index(name), 0])
        return replace(self.driven.plant, gear=gear)

    def labels(self) -> tuple[tuple[Labels, ...], tuple[Labels, ...]] | None:
        """Measured torques of calibration and validation; None where some torque motor's joint has none in a run."""
        dofs = [int(self.driven.plant.dof[i]) for i in self.motors.values()]
        found = []
        for runs, experiments in zip((self.calibration, self.validation), self.measured, strict=True):
            told = [_labels(run, each, dofs) for run, each in zip(runs, experiments, strict=True)]
            found.append(tuple(each for each in told if each is not None))
        whole = dofs and all(len(a) == len(b) for a, b in zip(found, self.measured, strict=True))
        return (found[0], found[1]) if whole else None


def bench(problem: Problem, unseen: Problem | None, unknowns: np.ndarray) -> Bench:
    """The runs of a fitted problem and of validation. Hinges and slides only, all of them measured."""
    if problem.own:
        raise ConfigError("laws are fitted where all parameters are shared. Leave --differ out.")
    if unseen is None:
        raise ConfigError("a law is judged on validation, and the split has none. Make one with validation episodes.")
    first = problem.experiments[0]
    model = first.scene.nominal()
    if model.nq != model.nv:
        raise ConfigError("laws act on hinges and slides, and this scene has bodies that move freely. Leave them out.")
    values = dict(zip(problem.ids, problem.values(unknowns)[0].tolist(), strict=True)) | dict(problem.fixed)
    kept = {id: v for id, v in values.items() if not beside(id) or id.endswith((".offset", ".backlash"))}
    theta = Theta({id: v for id, v in kept.items() if not id.startswith("signal.")})
    late_s = passage(model, values).delay_s
    both = (problem.experiments, unseen.experiments)
    runs = [tuple(_run(each, late_s) for each in part) for part in both]
    return Bench(Driven(first.scene), runs[0], runs[1], theta, both)


def _run(each: Experiment, late_s: np.ndarray) -> Run:
    """An experiment on the physics clock: smoothed states, what encoders showed, and commands as they arrive."""
    from scipy.interpolate import CubicHermiteSpline

    model = each.scene.nominal()
    time_s = each.begin_s + np.arange(each.steps) * each.step_s
    knots = np.r_[np.arange(time_s[0], time_s[-1], max(KNOT_S, each.step_s)), time_s[-1]]
    found = states_at(each.readings, model, knots)
    if not found.measured.all():
        joint = names(model, "joint")[int(model.dof_jntid[int(np.argmin(found.measured))])]
        raise RecordingError(
            f"episode {each.id}: no signal says where joint {joint!r} is, and a law needs all joints. Record it too."
        )
    smooth = CubicHermiteSpline(knots, found.qpos, found.qvel)
    none = np.zeros(model.nu)
    sent = each.controls(Passage(late_s, none, none))
    qpos, qvel = smooth(time_s), smooth(time_s, 1)
    return Run(each.id, qpos, qpos, qvel, sent)


def _labels(run: Run, each: Experiment, dofs: Sequence[int]) -> Labels | None:
    """What was measured of the joints' torques, each at the physics step that ended at its stamp."""
    torque = np.full((len(run.seen), run.qvel.shape[1]), np.nan)
    for reading in (reading for reading in each.readings if reading.kind == "torque"):
        step = np.round((reading.time_s - each.begin_s) / each.step_s).astype(np.int64) - 1
        inside = (step >= 0) & (step < len(torque))
        torque[np.ix_(step[inside], reading.place)] = reading.value[inside]
    at = np.flatnonzero(np.isfinite(torque[:, dofs]).all(axis=1))
    return Labels(run.commands, run.qvel, np.nan_to_num(torque), at) if len(at) else None


def moved(made: Bench, drive: Drive | None) -> tuple[Theta, Law]:
    """The parameters and the law of a drive on a bench; of none, the parameters that were found."""
    return (made.theta, Chain(())) if drive is None else (drive.applied(made.theta), law_of(drive))


def judged(made: Bench, before: Drive | None, after: Drive, inside: float = 1.0) -> Verdict:
    """Whether a drive helps: positions half way and at the end of validation's windows, without and with it."""
    windows = Windowed(made.driven, made.validation, made.matching)
    ends = []
    for theta, law in (moved(made, before), moved(made, after)):
        gap = windows.gaps([[theta] * len(made.validation)], [law])[0]
        ends.append([np.square(gap[:, k]).sum(axis=1) for k in (gap.shape[1] // 2, gap.shape[1] - 1)])
    return adopt(ends[0], ends[1], share_inside=inside)
