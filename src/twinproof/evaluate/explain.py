"""What a failed trial's own commands tell: played again in twins that each believe one thing otherwise.

commands, joints, object of a real trial ─> the twin as believed, and one guess a world ─> whose motion is the robot's?
    as believed it is      the world is right, the commands were not: the policy was shown something else   perception
    under guesses of one factor alone it is      that factor; beyond the range that was drawn from, the range
    under several, or none                       nothing is told

It needs no truth, only a trace. What it can tell is what the guesses span: one thing wrong at a time, and largely.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from twinproof.evaluate.closed_loop import Job, Stage
from twinproof.evaluate.swaps import factor_of
from twinproof.nouns.failure import Failure
from twinproof.nouns.randomization import Randomization
from twinproof.nouns.theta import Theta
from twinproof.nouns.trace import Trace
from twinproof.sim.parameters.base import index
from twinproof.sim.parameters.resolve import parameter
from twinproof.tasks.arena import Arena, Play
from twinproof.tasks.task import TaskSpec

LABELS = {
    "contact": Failure.CONTACT,
    "physics": Failure.PHYSICS,
    "geometry": Failure.RECONSTRUCTION,
    "embodiment": Failure.EMBODIMENT,
    "perception": Failure.PERCEPTION,
}
JOINT_RAD, OBJECT_M = 0.02, 0.01  # differences that count as one; m for joints that slide
MOST = 100.0  # of one tick's cost: what has come apart says no more
SAME = 1.0  # mean cost below which two motions are the same
APART = 2.0  # times the best cost, at least, of the best guess of any other factor
ROUNDS, KEPT = 2, 3  # how often the best guesses are refined, and those of how many factors
NEARER = (0.7, 0.85, 1.15, 1.3)  # of a guess's distance from what is believed
MASSES, FRICTIONS, SIZES = (
    (0.1, 0.3, 3.0, 10.0, 30.0, 100.0, 300.0),
    (0.15, 0.4, 2.5, 6.0, 12.0),
    (0.6, 0.8, 1.25, 1.5, 2.0),
)
STRENGTHS, GAINS, DELAYS_S = (0.02, 0.06, 0.15, 0.4), (0.03, 0.07, 0.15, 0.3, 0.6), (0.06, 0.12, 0.25)
LINKS, DAMPINGS = (0.6, 1.5, 2.5), (0.2, 4.0, 10.0)
OFFSETS_RAD = (-0.24, -0.12, 0.0, 0.12, 0.24)


@dataclass(frozen=True)
class Guess:
    """One thing that may be otherwise: its factor, in words, and the parameters that say so."""

    factor: str
    name: str
    theta: Theta


@dataclass(frozen=True)
class Explained:
    """The best guess of each factor with its cost, beside the cost of the twin as believed."""

    believed: float
    costs: Mapping[str, tuple[float, Guess]]
    succeeds: bool  # the commands, played in the twin as believed, succeed


def guesses(task: TaskSpec, believed: Theta) -> tuple[Guess, ...]:
    """All guesses about a task's robot and object, from what the twin believes of them."""
    model: Any = task.machine.scene.nominal()

    def scaled(ids: Sequence[str], times: float) -> Theta:
        found = {}
        for id in ids:
            value = believed.get(id, parameter(id).read(model)) * times
            low, high = parameter(id).limits
            if value > 0:
                found[id] = float(np.clip(value, low, high))
        return Theta(found)

    joints = task.machine.joints
    links = [f"body.{model.body(int(model.jnt_bodyid[model.joint(name).id])).name}.mass" for name in joints]
    motors, made = [f"actuator.{name}" for name in joints], list[Guess]()

    def add(name: str, ids: Sequence[str], times: Sequence[float]) -> None:
        made.extend(Guess(factor_of(ids[0]), f"{name} × {k:g}", scaled(ids, k)) for k in times)

    if task.place:
        body = index(model, "body", task.place)
        own = [g for g in range(model.ngeom) if model.geom_bodyid[g] == body]
        touching = [g for g in own if model.geom_contype[g] or model.geom_conaffinity[g]]  # lean worlds have no others
        geoms = [f"geom.{model.geom(g).name}.friction_slide" for g in touching]
        add("the object's mass", [f"body.{task.place}.mass"], MASSES)
        add("the object's friction", geoms, FRICTIONS)
        add("the object's size", [f"body.{task.place}.scale"], SIZES)
    if not task.machine.torque_driven:
        add("the motors' strength", [f"{name}.force_limit" for name in motors], STRENGTHS)
    add("the motors' gains", [f"{name}.gain" for name in motors], GAINS)
    late = (Theta({f"{name}.delay": by for name in motors}) for by in DELAYS_S)
    made.extend(Guess("embodiment", f"commands {by:g} s late", theta) for by, theta in zip(DELAYS_S, late, strict=True))
    add("the links' mass", links, LINKS)
    add("the joints' damping", [f"joint.{name}.damping" for name in joints], DAMPINGS)
    for first in OFFSETS_RAD:
        for second in OFFSETS_RAD if len(joints) > 1 else (0.0,):
            if first or second:
                off = {f"joint.{joints[0]}.offset": first, f"joint.{joints[min(1, len(joints) - 1)]}.offset": second}
                made.append(Guess("perception", _encoders(Theta(off)), Theta(off)))
    return tuple(each for each in made if each.theta)


def refined(guess: Guess, task: TaskSpec, believed: Theta) -> tuple[Guess, ...]:
    """Guesses around one: farther from what is believed, and nearer to it; of two encoders, each alone."""
    model: Any = task.machine.scene.nominal()

    def moved(id: str, value: float, by: float) -> float:
        info, was = parameter(id), believed.get(id, parameter(id).read(model))
        new = was * (value / was) ** by if was > 0 and value > 0 else was + (value - was) * by
        return float(np.clip(new, *info.limits))

    if guess.factor == "perception":
        steps = [(a, b) for a in (-0.05, 0.0, 0.05) for b in (-0.05, 0.0, 0.05) if a or b]
        ids = list(guess.theta)
        shifts = [dict(zip(ids, step, strict=False)) for step in steps]
        found = [Theta({id: guess.theta[id] + shift[id] for id in ids}) for shift in shifts]
        return tuple(Guess("perception", _encoders(theta), theta) for theta in found)
    name = guess.name.partition(" ≈ ")[0]
    return tuple(
        Guess(guess.factor, f"{name} ≈ {by:g}", Theta({id: moved(id, v, by) for id, v in guess.theta.items()}))
        for by in NEARER
    )


def _encoders(theta: Theta) -> str:
    return f"encoders off by {' and '.join(f'{value:.2f}' for value in theta.values())} rad"


def explain(stage: Stage, job: Job, trace: Trace) -> Explained:
    """Plays a trial's commands in the twin as believed and under every guess, and then around the best of them."""
    task = stage.task
    believed, succeeds, best = 0.0, False, dict[str, tuple[float, Guess]]()
    made = guesses(task, job.theta)
    for number in range(1 + ROUNDS):
        costs, success = _costs(stage, job, trace, made)
        if number == 0:
            believed, succeeds = costs[0], success
        for guess, value in zip(made, costs[1:], strict=True):
            if guess.factor not in best or value < best[guess.factor][0]:
                best[guess.factor] = (value, guess)
        if believed < SAME:
            break
        nearest = sorted(best.values(), key=lambda each: each[0])[:KEPT]
        made = tuple(new for _, guess in nearest for new in refined(guess, task, job.theta))
    return Explained(believed, best, succeeds)


def _costs(stage: Stage, job: Job, trace: Trace, made: Sequence[Guess]) -> tuple[list[float], bool]:
    """How far the motion is from the trial's: as believed, then under each guess; and whether the first succeeds."""
    task = stage.task
    thetas = [job.theta, *(Theta({**job.theta, **guess.theta}) for guess in made)]
    play = Play(auto_reset=False, stop_at_success=False, privileged=False, bank=len(thetas), nthread=stage.how.nthread)
    arena = Arena(stage.scene, task, len(thetas), draws=thetas, play=play)
    arena.reset(seeds=[job.cell.seed] * len(thetas), setups=[job.setup] * len(thetas), thetas=thetas)
    commands = trace.signals["command"].value
    cost, succeeded = np.zeros(len(thetas)), False
    for tick, command in enumerate(commands):
        step = arena.step(task.action(arena.sensed, np.tile(command, (len(thetas), 1))))
        succeeded = succeeded or bool(step.succeeded[0])
        cost += _apart(task, arena, trace, tick + 1)
    return [float(each) for each in cost / len(commands)], succeeded


def _apart(task: TaskSpec, arena: Arena, trace: Trace, tick: int) -> np.ndarray:
    """How far each world is from the trace at a tick: joints, and objects where they were tracked."""
    off = (np.asarray(arena.sensed.position) - trace.signals["state"].value[tick]) / JOINT_RAD
    cost: np.ndarray = np.minimum(np.square(off).mean(axis=1), MOST)
    for name in task.tracked:
        pose = trace.signals[f"{name}_pose"].value[tick]
        away = np.linalg.norm(np.asarray(arena.situation.objects[name])[:, :3] - pose[:3], axis=1) / OBJECT_M
        cost = cost + np.minimum(np.square(away), MOST)
    return cost


def decided(found: Explained, ranges: Randomization | None = None) -> tuple[Failure, str]:
    """The label that the guesses give, and why."""
    if found.believed < SAME:
        if found.succeeds:
            return Failure.UNDECIDED, "its commands make the same motion in the twin, and succeed there"
        return Failure.PERCEPTION, "its commands make the same motion in the twin: the policy was shown something else"
    order = sorted(found.costs.items(), key=lambda item: item[1][0])
    (factor, (cost, guess)), rest = order[0], order[1:]
    told = f"a replay is {cost / found.believed:.2f} times as far off with {guess.name}"
    if cost > SAME:
        return Failure.UNDECIDED, f"no single guess explains the motion: {told}"
    if rest and rest[0][1][0] < max(APART * cost, SAME):
        return Failure.UNDECIDED, f"{told}, and nearly so with {rest[0][1][1].name}"
    beyond = _beyond(guess, ranges)
    if beyond:
        return Failure.RESIDUAL_RANGE, f"{told}, and {beyond}"
    return LABELS[factor], told


def _beyond(guess: Guess, ranges: Randomization | None) -> str:
    """Which parameter of a guess lies outside the range that was drawn from, in words."""
    for each in () if ranges is None else ranges.ranges:
        value = guess.theta.get(each.id)
        if value is not None and not each.low <= value <= each.high:
            return f"{each.id} was drawn from {each.low:.3g} to {each.high:.3g}"
    return ""
