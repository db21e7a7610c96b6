"""What is fitted beside the parameters, on top of a finished fit: friction of the motors, and what the model misses.

calibration ─ trajectories ─> friction of every motor (bristles, Stribeck, load) ─┐
calibration ─ short windows ─> missing torque, with a validity domain ────────────┤
validation  ─ rollouts without and with it ─> adopted, or not, and why  <─────────┘
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console

from twinproof.identify.actuator_drift import wander
from twinproof.identify.actuator_fit import LAW, Free, Matched, Matching, Run, Windowed, match
from twinproof.identify.actuators import Actuator, ActuatorLaw, Friction
from twinproof.identify.problem import Problem
from twinproof.identify.residual_dynamics import RandomFeatures, ResidualDynamics, Verdict, adopt, labels
from twinproof.nouns.errors import ConfigError, RecordingError
from twinproof.nouns.files import write_json
from twinproof.nouns.hashing import content_hash
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.randomness import stream
from twinproof.nouns.strict import plain
from twinproof.nouns.theta import Theta
from twinproof.sim.driven import Chain, Driven, Law
from twinproof.sim.experiment import Experiment, Passage
from twinproof.sim.parameters.base import names
from twinproof.sim.shooting import beside
from twinproof.sim.smooth import states_at
from twinproof.sim.windows import Commands, Start

if TYPE_CHECKING:
    from twinproof.identify.infer import Found

FORMAT, VERDICT = "twinproof/actuators/1", "twinproof/residual-verdict/1"
LONGEST_DELAY_S = 0.2
LOOK_S, APART_S, SHORT_S, PAST_S = 0.5, 0.1, 0.04, 0.1  # windows, how far apart, windows of labels, commands before
KNOT_S = 0.01  # smoothed states are found so far apart, and drawn between
FRICTION = {"coulomb": 1.0, "stribeck": 1.0, "load": 0.3}  # upper limits, times the torque that moves a joint
FEWEST_LEVELS = 5  # windows that a walk is read from
DEAD = 0.5  # of the largest command: the most that a deadband may be
SHARE = 0.25  # of the inertia, that bristles at their limit may add in one step; the law itself refuses more than half


@dataclass(frozen=True, eq=False)
class Bench:
    """Calibration and validation on the physics clock, each run under the parameters that were found."""

    driven: Driven
    calibration: tuple[Run, ...]
    validation: tuple[Run, ...]
    theta: Theta  # without what is applied beside the model, but for delays and offsets

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
    kept = {id: v for id, v in values.items() if not beside(id) or id.endswith((".delay", ".offset", ".backlash"))}
    theta = Theta({id: v for id, v in kept.items() if not id.startswith("signal.")})
    driven = Driven(first.scene.reserving(control_delay_s=LONGEST_DELAY_S))
    return Bench(driven, tuple(map(_run, problem.experiments)), tuple(map(_run, unseen.experiments)), theta)


def _run(each: Experiment) -> Run:
    """An experiment on the physics clock: smoothed states, what encoders showed, and commands as they were sent."""
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
    sent = each.controls(Passage(none, none, none))
    qpos, qvel = smooth(time_s), smooth(time_s, 1)
    return Run(each.id, qpos, qpos, qvel, sent)


def friction_of(made: Bench) -> tuple[ActuatorLaw, Matched, Verdict]:
    """A friction law of every motor that drives a joint, fitted on calibration and judged on validation."""
    law, free = _free(made)
    return _fitted(made, law, free, (made.theta, law))


def _free(made: Bench) -> tuple[ActuatorLaw, list[Free]]:
    """Motors without friction, and the numbers of a friction law that are to be found.

    Damping and friction of the joints are found anew beside it: part of them moves into the law.
    """
    plant, model = made.driven.plant, made.driven.model
    driven = [(plant.actuators[i], int(dof)) for i, dof in enumerate(plant.dof) if dof >= 0]
    if not driven:
        raise ConfigError("no motor of this scene drives a single joint, so that none has a friction law.")
    joints = names(model, "joint")
    rates = np.concatenate([np.diff(run.qvel, axis=0) for run in made.calibration]) / plant.step_s
    usual = plant.inertia * np.sqrt(np.mean(np.square(rates), axis=0))  # the torque that moves a joint, about
    free: list[Free] = []
    motors: dict[str, Actuator] = {}
    for name, dof in driven:
        joint, size = joints[int(model.dof_jntid[dof])], max(float(usual[dof]), 1e-3)
        motors[name], stiffest = _bristles(size, float(plant.inertia[dof]), plant.step_s)
        limits = {**FRICTION, "viscous": stiffest / size}
        free += [
            Free(f"{LAW}{name}.{what}", 0.0, 0.0, most * size, 0.05 * most * size) for what, most in limits.items()
        ]
        for what, field in (("damping", model.dof_damping), ("frictionloss", model.dof_frictionloss)):
            id = f"joint.{joint}.{what}"
            now = float(made.theta.get(id, np.ravel(field[dof])[0]))
            free.append(Free(id, now, 0.0, 3 * now + 0.1 * size, 0.1 * now + 0.01 * size))
    return ActuatorLaw(motors), free


def deadband_of(made: Bench, found: Matched, before: tuple[Theta, Law]) -> tuple[ActuatorLaw, Matched, Verdict] | None:
    """A friction law fitted anew with a deadband of every motor, judged against what was best `before`.

    None where only servos drive the robot: around which command one would be dead is not known.
    """
    model, plant = made.driven.model, made.driven.plant
    law, free = _free(made)
    free = [replace(each, start=min(max(found.values[each.name], each.low), each.high)) for each in free]
    sent = np.max([np.abs(run.commands).max(axis=0) for run in made.calibration], axis=0)
    count = len(free)
    for i, name in enumerate(plant.actuators):
        a = names(model, "actuator").index(name)
        motor = model.actuator_gaintype[a] == 0 and model.actuator_biastype[a] == 0
        if motor and name in law.actuators and sent[i] > 0:
            most = DEAD * float(sent[i])
            free.append(Free(f"{LAW}{name}.deadband", 0.05 * most, 0.0, most, 0.05 * most))
    return _fitted(made, law, free, before) if len(free) > count else None


def _fitted(
    made: Bench, law: ActuatorLaw, free: list[Free], before: tuple[Theta, Law]
) -> tuple[ActuatorLaw, Matched, Verdict]:
    found = match(made.driven, made.calibration, free, law, made.matching, made.theta)
    assert isinstance(found.law, ActuatorLaw)
    return found.law, found, judged(made, before, (made.theta | found.theta(), found.law))


@dataclass(frozen=True)
class Drift:
    """A motor's Coulomb level as a random walk: its pace, and what it gains in log likelihood over standing still."""

    drift: float  # N m/√s
    gain: float
    gain_on_validation: float  # of the same pace
    adopted: bool


def drifts_of(made: Bench, found: Matched) -> dict[str, Drift]:
    """How the Coulomb level of every motor that has one wandered on calibration, and whether validation agrees."""
    law, seen = found.law, Windowed(made.driven, made.calibration, made.matching)
    unseen = Windowed(made.driven, made.validation, made.matching)
    assert isinstance(law, ActuatorLaw)
    drifts: dict[str, Drift] = {}
    for motor in law.actuators:
        if law.value(f"{motor}.coulomb") > 0 and min(len(seen.first), len(unseen.first)) >= FEWEST_LEVELS:
            told = wander(seen, found, motor, made.theta)
            again = wander(unseen, found, motor, made.theta, told.drift)
            drifts[motor] = Drift(told.drift, told.gain, again.gain, told.found and again.gain > 0)
    return drifts


def _bristles(size: float, inertia: float, step_s: float) -> tuple[Actuator, float]:
    """A motor whose bristles stay soft enough for the time step up to the limits, and the most viscous it may get."""
    usual = Friction()
    room = SHARE * inertia / step_s
    bend = 2 * FRICTION["coulomb"] * size * (step_s + usual.bristle_s) / room
    return Actuator(friction=replace(usual, presliding_rad=max(usual.presliding_rad, bend))), min(size, room / 2)


def residual_of(made: Bench, theta: Theta, law: Law, rng: np.random.Generator) -> tuple[ResidualDynamics, Verdict]:
    """A correction of joint torques on top of a law, fitted on calibration and judged on validation."""
    inputs, torque, run = [], [], []
    short = max(2, round(SHORT_S / made.driven.plant.step_s))
    for r, each in enumerate(made.calibration):
        first = np.arange(made.past, len(each.seen) - short, max(1, short // 4))
        sent = each.commands[first[:, None] + np.arange(short)]
        before = each.commands[first[:, None] + np.arange(-made.past, 0)]
        start = Start(each.qpos[first], each.qvel[first], past=before, encoders=True)
        commands = Commands(sent, np.arange(len(first)), np.arange(short))
        which = np.zeros(len(first), dtype=np.int64)
        x, y = labels(made.driven, [theta], which, start, commands, each.qvel[first + short], law)
        inputs.append(x)
        torque.append(y)
        run.append(np.full(len(x), r))
    x, y, number = np.concatenate(inputs), np.concatenate(torque), np.concatenate(run)
    method = RandomFeatures()
    found = replace(method, features=min(method.features, max(8, len(x) // 4))).fit(x, y, number, rng)
    inside = np.concatenate([np.c_[each.qpos, each.qvel, each.commands] for each in made.validation])
    share = float(np.mean(found.domain.weight(inside)))
    return found, judged(made, (theta, law), (theta, Chain((law, found))), share)


def judged(made: Bench, before: tuple[Theta, Law], after: tuple[Theta, Law], inside: float = 1.0) -> Verdict:
    """Whether a law helps: positions half way and at the end of validation's windows, without and with it."""
    windows = Windowed(made.driven, made.validation, made.matching)
    ends = []
    for theta, law in (before, after):
        gap = windows.gaps([[theta] * len(made.validation)], [law])[0]
        ends.append([np.square(gap[:, k]).sum(axis=1) for k in (gap.shape[1] // 2, gap.shape[1] - 1)])
    return adopt(ends[0], ends[1], share_inside=inside)


def write_friction(
    path: Path,
    law: ActuatorLaw,
    found: Matched,
    verdict: Verdict,
    posterior: str,
    deadband: Verdict | None = None,
    drift: Mapping[str, Drift] | None = None,
) -> str:
    """A law as JSON, with the verdicts and the parameters that go with it; its content hash comes back."""
    about = {
        "format": FORMAT,
        "posterior": posterior,
        "verdict": plain(verdict),
        "deadband": None if deadband is None else plain(deadband),
        "drift": {motor: plain(each) for motor, each in (drift or {}).items()},
        "actuators": {name: plain(actuator) for name, actuator in law.actuators.items()},
        "parameters": dict(found.theta()),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, about)
    return content_hash(about)


def add_laws(
    found: Found,
    unseen: Problem | None,
    posterior: str,
    out: tuple[Path | None, Path | None],
    seed: int,
    progress: Progress = quiet,
) -> dict[str, str]:
    """Fits what was asked for (a file for the motors' friction, a folder for a residual model), writes it, says so.

    What comes back are names and content hashes for the ledger. A residual model is built on an adopted friction law;
    one that is not adopted is not kept, but for the verdict.
    """
    made, hashes = bench(found.problem, unseen, found.fitted.unknowns), dict[str, str]()
    theta, law = made.theta, ActuatorLaw({name: Actuator() for name in made.driven.plant.actuators})
    friction, residual = out
    if friction is not None:
        progress(0, "friction of the motors", None)
        fitted, matched, verdict = friction_of(made)
        say("actuators", friction, verdict)
        progress(0, "deadbands of the motors", None)
        before = (made.theta | matched.theta(), fitted) if verdict.adopted else (theta, law)
        dead = deadband_of(made, matched, before)
        if dead is not None:
            say("deadband", friction, dead[2])
            if dead[2].adopted:
                fitted, matched = dead[:2]
                verdict = judged(made, (theta, law), (made.theta | matched.theta(), fitted))
        drifts = drifts_of(made, matched) if verdict.adopted else {}
        fitted = fitted.having({f"{motor}.drift": each.drift for motor, each in drifts.items() if each.adopted})
        judgement = None if dead is None else dead[2]
        hashes["identify actuators"] = write_friction(friction, fitted, matched, verdict, posterior, judgement, drifts)
        if verdict.adopted:
            theta, law = made.theta | matched.theta(), fitted
    if residual is not None:
        progress(0, "what the model misses", None)
        learnt, verdict = residual_of(made, theta, law, stream(seed, "identify", "residual"))
        if verdict.adopted:
            learnt.save(residual)
        residual.mkdir(parents=True, exist_ok=True)
        about = {"format": VERDICT, "posterior": posterior, "verdict": plain(verdict)}
        write_json(residual / "verdict.json", about)
        hashes["identify residual"] = content_hash(about)
        say("residual", residual, verdict)
    return hashes


def say(kind: str, path: Path, verdict: Verdict) -> None:
    """Two lines for a person."""
    pairs = zip(("half way", "at the end"), verdict.before, verdict.after, strict=True)
    errors = ", ".join(f"{where} {before:.4g} -> {after:.4g}" for where, before, after in pairs)
    Console(highlight=False, soft_wrap=True, width=140).print(
        f"{kind}: {verdict.reason} Positions on validation, rms: {errors} ({path})"
    )
