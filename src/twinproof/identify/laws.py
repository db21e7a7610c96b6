"""What is found beside the parameters, on top of a finished fit: models of the motors, and of what is missed.

trajectories of calibration ─> friction ─ deadband ─ saturation ─ slack ─ drift of each motor
measured torques            ─> the way from command to torque ─ a history network where what is left is no noise
short windows               ─> missing torque, with a validity domain
validation ─ rollouts without and with each ─> used, or not, and why; the next one stands on the best so far
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from twinproof.identify.actuator_drift import wander
from twinproof.identify.actuator_fit import LAW, Free, Labels, Matched, Windowed, match, regress
from twinproof.identify.actuator_net import FEWEST, HistoryNet, structure
from twinproof.identify.checkpoint import Checkpoint, packed, unpacked
from twinproof.identify.law_bench import Bench, judged, moved
from twinproof.identify.residual_dynamics import RandomFeatures, Verdict, labels
from twinproof.nouns.drive import NETWORK, RESIDUAL, Drive
from twinproof.nouns.errors import ConfigError, PosteriorError
from twinproof.nouns.hashing import Json
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.randomness import stream
from twinproof.nouns.strict import build, plain
from twinproof.sim.actuator_law import Actuator, ActuatorLaw, Friction
from twinproof.sim.actuator_net import ActuatorNet
from twinproof.sim.law import Chain, Plant
from twinproof.sim.parameters.base import names
from twinproof.sim.windows import Commands, Start

SHORT_S = 0.04  # windows of labels
FRICTION = {"coulomb": 1.0, "stribeck": 1.0, "load": 0.3}  # upper limits, times the torque that moves a joint
FEWEST_LEVELS = 5  # windows that a walk is read from
SHARE = 0.25  # of the inertia, that bristles at their limit may add in one step; the law itself refuses more than half
# of the largest command: where a number begins, and its limits. What a servo hears is a position: it has slack, and no
# deadband around zero
BEGIN = {"deadband": (0.025, 0.0, 0.5), "saturation": (0.9, 0.2, 1.0), "backlash": (0.02, 0.0, 0.3)}
OF_MOTORS, OF_SERVOS = ("deadband", "saturation"), ("backlash",)


@dataclass(frozen=True)
class Tried:
    """A model that was tried: whether it is used and why, and positions on validation, rms, without and with it.

    The errors are half way and at the end of windows of half a second, without it and with it; empty where it was not
    rolled out.
    """

    name: str
    adopted: bool
    reason: str
    before: tuple[float, ...] = ()
    after: tuple[float, ...] = ()

    def __str__(self) -> str:
        pairs = zip(("half way", "at the end"), self.before, self.after, strict=False)
        errors = ", ".join(f"{where} {before:.4g} -> {after:.4g}" for where, before, after in pairs)
        return f"{self.name}: {self.reason}" + (f" Positions on validation, rms: {errors}" if errors else "")


class Search:
    """Models tried one after the other; `best` is what validation has adopted so far. What was tried is kept."""

    def __init__(self, made: Bench, progress: Progress = quiet, keep: Checkpoint | None = None) -> None:
        self.made, self.tried = made, list[Tried]()
        self.best: Drive | None = None
        self._progress, self._keep = progress, None if keep is None else keep.within("law")

    def offer(self, name: str, make: Callable[[], tuple[Drive, float]]) -> Drive:
        """A model with the share of validation inside its domain: it is made, judged against the best, and told."""
        self._progress(0, f"trying {name}", None)
        found = self._kept(name)
        if found is None:
            drive, inside = make()
            found = drive, judged(self.made, self.best, drive, inside)
            self._save(name, *found)
        drive, verdict = found
        self.tried.append(Tried(name, verdict.adopted, verdict.reason, verdict.before, verdict.after))
        if verdict.adopted:
            self.best = drive
        return drive

    def say(self, name: str, adopted: bool, reason: str) -> None:
        """What needed no rollout to be judged."""
        self.tried.append(Tried(name, adopted, reason))

    def _file(self, name: str) -> str:
        """Named by what it is tried on top of, too."""
        on = "nothing" if self.best is None else self.best.hash[:16]
        return "".join(c if c.isalnum() else "_" for c in f"{name}-{on}")

    def _kept(self, name: str) -> tuple[Drive, Verdict] | None:
        arrays = None if self._keep is None else self._keep.load(self._file(name))
        if arrays is None:
            return None
        told = unpacked(arrays.pop("told"))
        head = told["drive"]
        drive = Drive(head["motors"], head["parameters"], head[NETWORK], head[RESIDUAL], _named(arrays, "|", "/"))
        return drive, build(Verdict, told["verdict"], name, PosteriorError)

    def _save(self, name: str, drive: Drive, verdict: Verdict) -> None:
        if self._keep is not None:
            told = packed({"drive": drive.head(), "verdict": plain(verdict)})
            self._keep.save(self._file(name), {"told": told, **_named(drive.arrays, "/", "|")})


def _named(arrays: object, old: str, new: str) -> dict[str, np.ndarray]:
    return {name.replace(old, new): value for name, value in dict(arrays).items()}  # type: ignore[call-overload]


def search_actuators(search: Search, seed: int) -> None:
    """Models of the motors: from trajectories alone, or from measured torques and trajectories."""
    made = search.made
    law, free = friction_free(made)
    first = search.offer("friction", lambda: (_matched(made, law, free), 1.0))
    known = made.labels()
    if known is None:
        _search_commands(search, law, free, first)
        why = "measured torques of every torque motor in every episode" if made.motors else "torque motors"
        search.say("torque labels", False, f"not tried: there are no {why}.")
    else:
        _search_labels(search, law, free, known[0], seed)
    if search.best is not None and not search.best.network:  # which has no level that could wander
        _search_drift(search, search.best)


def _search_drift(search: Search, best: Drive) -> None:
    for motor, drift in drifts_of(search.made, best):
        search.say(f"drift of {motor}", drift.adopted, str(drift))
        if drift.adopted:
            best = replace(best, motors=told(motors_of(best).having({f"{motor}.drift": drift.drift})))
    search.best = best


def _search_commands(search: Search, law: ActuatorLaw, free: list[Free], first: Drive) -> None:
    """What motors do to commands, one number of each at a time, with friction found anew beside it."""
    for what in BEGIN:
        more = list(extra_free(search.made, what))
        if more:
            start = _from(search.best or first, [*free, *more])
            search.offer(what, partial(_of_trajectories, search.made, law, start))
            free = [*free, *more] if search.tried[-1].adopted else free


def _of_trajectories(made: Bench, law: ActuatorLaw, free: list[Free]) -> tuple[Drive, float]:
    return _matched(made, law, free), 1.0


def _search_labels(search: Search, law: ActuatorLaw, free: list[Free], logs: tuple[Labels, ...], seed: int) -> None:
    """How a command becomes torque, where that was measured: numbers first, a network where they leave structure.

    Friction and damping of the joints are found anew beside either, from trajectories.
    """
    made = search.made
    regressed = regress(*labels_free(made, logs))
    path = ActuatorLaw({**law.actuators, **_paths(made, regressed.law, law, logs)})
    search.offer("torque labels", lambda: (_matched(made, path, free), 1.0))
    fewest, name = min(len(log.rows) for log in logs), "history network"
    if fewest < 2 * FEWEST:
        search.say(name, False, f"not tried: an episode has {fewest} labels; {2 * FEWEST} are needed.")
        return
    failing = [test for test in structure(regressed, made.felt, logs) if not test.white()]
    if not failing:
        search.say(name, False, "not tried: the parametric actuators leave white residuals of the torque.")
    elif importlib.util.find_spec("torch") is None:
        search.say(name, False, f"not tried: {failing[0]}, and a network needs torch (extra learn).")
    else:

        def network() -> tuple[Drive, float]:
            net = HistoryNet().fit(made.felt, logs, list(made.motors), seed)
            return _matched(made, law, free, net), 1.0

        search.offer(f"{name} ({failing[0]})", network)


def search_residual(search: Search, seed: int) -> None:
    """A correction of joint torques on top of the best so far."""
    search.offer(
        "residual dynamics", lambda: residual_of(search.made, search.best, stream(seed, "identify", "residual"))
    )


def friction_free(made: Bench) -> tuple[ActuatorLaw, list[Free]]:
    """Motors without friction, and the numbers of a friction law that are to be found.

    Damping and friction of the joints are found anew beside it: part of them moves into the law.
    """
    plant, model = made.driven.plant, made.driven.model
    driven = [(plant.actuators[i], int(dof)) for i, dof in enumerate(plant.dof) if dof >= 0]
    if not driven:
        raise ConfigError("no motor of this scene drives a single joint, so that none has a friction law.")
    joints = names(model, "joint")
    usual = _usual(made)
    free: list[Free] = []
    motors: dict[str, Actuator] = {}
    for name, dof in driven:
        joint, size = joints[int(model.dof_jntid[dof])], max(float(usual[dof]), 1e-3)
        motors[name], stiffest = _bristles(size, float(plant.inertia[dof]), plant.step_s)
        limits = {**FRICTION, "viscous": stiffest / size}
        free += [
            Free(f"{LAW}{name}.{what}", 0.0, 0.0, most * size, 0.05 * most * size) for what, most in limits.items()
        ]
        for what in ("damping", "frictionloss"):
            id = f"joint.{joint}.{what}"
            now = _now(made, id)
            free.append(Free(id, now, 0.0, 3 * now + 0.1 * size, 0.1 * now + 0.01 * size))
    return ActuatorLaw(motors), free


def _usual(made: Bench) -> np.ndarray:
    """The torque that moves each joint, about."""
    rates = np.concatenate([np.diff(run.qvel, axis=0) for run in made.calibration]) / made.driven.plant.step_s
    found: np.ndarray = made.driven.plant.inertia * np.sqrt(np.mean(np.square(rates), axis=0))
    return found


def _now(made: Bench, id: str) -> float:
    """Damping or friction of a joint as it was found, or as the scene has it."""
    _, joint, what = id.split(".")
    model = made.driven.model
    field = model.dof_damping if what == "damping" else model.dof_frictionloss
    dof = int(model.jnt_dofadr[names(model, "joint").index(joint)])
    return float(made.theta.get(id, np.ravel(field[dof])[0]))


def _bristles(size: float, inertia: float, step_s: float) -> tuple[Actuator, float]:
    """A motor whose bristles stay soft enough for the time step up to the limits, and the most viscous it may get."""
    usual = Friction()
    room = SHARE * inertia / step_s
    bend = 2 * FRICTION["coulomb"] * size * (step_s + usual.bristle_s) / room
    return Actuator(friction=replace(usual, presliding_rad=max(usual.presliding_rad, bend))), min(size, room / 2)


def extra_free(made: Bench, what: str) -> Iterator[Free]:
    """One more number of every motor that may have it: none where only servos, or none, drive the robot."""
    plant = made.driven.plant
    sent = [run.commands for run in made.calibration]
    span = np.max(
        [np.ptp(each, axis=0) / 2 if what in OF_SERVOS else np.abs(each).max(axis=0) for each in sent], axis=0
    )
    start, low, high = BEGIN[what]
    for i, name in enumerate(plant.actuators):
        fits = (name in made.motors) == (what in OF_MOTORS)
        if plant.dof[i] >= 0 and fits and span[i] > 0:
            most = float(span[i])
            yield Free(f"{LAW}{name}.{what}", start * most, low * most, high * most, 0.025 * most)


def _from(drive: Drive, free: list[Free]) -> list[Free]:
    """The same numbers, begun where a drive has them."""
    law, found = motors_of(drive), list[Free]()
    for each in free:
        own = each.name.startswith(LAW)
        now = law.value(each.name[len(LAW) :]) if own else drive.parameters[each.name][1]
        began = each.start if own and each.name.rpartition(".")[2] in BEGIN and now in (0.0, math.inf) else now
        found.append(replace(each, start=min(max(began, each.low), each.high)))
    return found


def _matched(made: Bench, law: ActuatorLaw, free: list[Free], net: ActuatorNet | None = None) -> Drive:
    """The drive that trajectories ask for; with a network, it says what motors make of commands."""
    whole = law if net is None else Chain((net, law))
    found = match(made.driven, made.calibration, free, whole, made.matching, made.theta)
    motors = found.law.laws[-1] if isinstance(found.law, Chain) else found.law
    assert isinstance(motors, ActuatorLaw)
    about, arrays = ({}, {}) if net is None else net.packed()
    parameters = {id: (_now(made, id), value) for id, value in found.theta().items()}
    return Drive(told(motors), parameters, about, arrays={f"{NETWORK}/{name}": a for name, a in arrays.items()})


def told(law: ActuatorLaw) -> dict[str, Json]:
    """The numbers of motors, for a drive."""
    return {name: plain(each) for name, each in law.actuators.items()}


def motors_of(drive: Drive) -> ActuatorLaw:
    """The motors of a drive."""
    return ActuatorLaw({name: build(Actuator, each, name, PosteriorError) for name, each in drive.motors.items()})


def labels_free(made: Bench, logs: tuple[Labels, ...]) -> tuple[ActuatorLaw, Plant, tuple[Labels, ...], list[Free]]:
    """What a fit to measured torques takes: friction beside the rest, as a sensor may sit before or behind it."""
    plant, usual = made.felt, _usual(made)
    sent = np.max([np.abs(log.command).max(axis=0) for log in logs], axis=0)
    free: list[Free] = []
    for name, i in made.motors.items():
        most, size = max(float(sent[i]), 1e-9), max(float(usual[plant.dof[i]]), 1e-3)
        free += [
            Free(f"{name}.gain", 1.0, 0.2, 5.0, 0.05),
            Free(f"{name}.delay_s", 0.5 * plant.step_s, 0.0, 0.05, plant.step_s),
            Free(f"{name}.deadband", 0.02 * most, 0.0, 0.5 * most, 0.02 * most),
            Free(f"{name}.saturation", 0.9 * most, 0.1 * most, 5.0 * most, 0.05 * most),
            Free(f"{name}.coulomb", 0.0, 0.0, size, 0.05 * size),
            Free(f"{name}.viscous", 0.0, 0.0, size, 0.05 * size),
        ]
    return ActuatorLaw({name: Actuator() for name in made.motors}), plant, logs, free


def _paths(made: Bench, found: ActuatorLaw, law: ActuatorLaw, logs: tuple[Labels, ...]) -> dict[str, Actuator]:
    """The way from command to torque as labels tell it, with the bristles of a law; no end where none was met."""
    paths = {}
    for name, each in found.actuators.items():
        most = each.gain * max(float(np.abs(log.command[:, made.motors[name]]).max()) for log in logs)
        met = each.saturation is not None and each.saturation < most
        friction = law.actuators[name].friction
        paths[name] = replace(each, saturation=each.saturation if met else None, friction=friction)
    return paths


@dataclass(frozen=True)
class Drift:
    """A motor's Coulomb level as a random walk: its pace, and what it gains in log likelihood over standing still."""

    drift: float  # N m/√s
    gain: float
    gain_on_validation: float  # of the same pace
    adopted: bool

    def __str__(self) -> str:
        word = "adopted" if self.adopted else "not adopted"
        return (
            f"{word}: a walk of {self.drift:.3g} N m/√s gains {self.gain:.1f} in log likelihood on calibration, "
            f"{self.gain_on_validation:.1f} on validation."
        )


def drifts_of(made: Bench, drive: Drive) -> Iterator[tuple[str, Drift]]:
    """How the Coulomb level of every motor that has one wandered on calibration, and whether validation agrees."""
    law, seen = motors_of(drive), Windowed(made.driven, made.calibration, made.matching)
    unseen = Windowed(made.driven, made.validation, made.matching)
    found = Matched({id: after for id, (_, after) in drive.parameters.items()}, {}, law, 0.0, 0, 0)
    for motor in law.actuators:
        if law.value(f"{motor}.coulomb") > 0 and min(len(seen.first), len(unseen.first)) >= FEWEST_LEVELS:
            walk = wander(seen, found, motor, made.theta)
            again = wander(unseen, found, motor, made.theta, walk.drift)
            yield motor, Drift(walk.drift, walk.gain, again.gain, walk.found and again.gain > 0)


def residual_of(made: Bench, best: Drive | None, rng: np.random.Generator) -> tuple[Drive, float]:
    """A correction of joint torques on top of a drive, from calibration; and the share of validation in its domain."""
    theta, law = moved(made, best)
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
    about, own = found.packed()
    arrays = {f"{RESIDUAL}/{name}": array for name, array in own.items()}
    drive = (
        Drive(residual=about, arrays=arrays)
        if best is None
        else replace(best, residual=about, arrays={**best.arrays, **arrays})
    )
    return drive, float(np.mean(found.domain.weight(inside)))
