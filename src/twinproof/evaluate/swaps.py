"""Factors that can be swapped in a simulated reality, so that `attribution` can tell which one made trials fail.

The reality is an oracle twin: a scene and a Theta that only the scoring side of a lab knows. Swapping a factor puts the
twin's belief, or something trusted, in its place; a trial that then succeeds was lost to that factor.

contact       friction and softness as the twin believes      geometry     sizes and places as the twin believes
physics       masses, joints and contact likewise             embodiment   motors and their delays likewise
range         every value brought inside the ranges           perception   encoders, trackers and clocks without error
draw          masses, joints and contact as draws of a        appearance   pictures as the twin draws them, of the
              belief instead of its point                                  same states
policy        the task's script instead of the policy
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from twinproof.evaluate.attribution import FACTORS, Factor
from twinproof.evaluate.cameras import TwinEyes
from twinproof.evaluate.closed_loop import Batch, Job, run_jobs
from twinproof.nouns.actor import Actor
from twinproof.nouns.errors import ConfigError
from twinproof.nouns.panel import Cell
from twinproof.nouns.randomization import Randomization
from twinproof.nouns.randomness import stream
from twinproof.nouns.theta import Theta
from twinproof.sim.scene import Scene
from twinproof.tasks.task import Setup, TaskSpec

GEOMETRY = ("size", "size_x", "size_y", "size_z", "radius", "length", "scale", "x", "y", "z", "height")
DRAWS = 5  # worlds of a trial whose parameters are drawn: one lucky draw mends nothing, all have to succeed
SEEN = ("sensor.", "signal.", "tracker.", "proprioception.", "camera.", "image.", "depth.")
SEEN_OF_JOINTS = ("offset", "position_noise", "velocity_noise", "torque_noise")


@dataclass(frozen=True, eq=False)
class Setting:
    """Everything that decides a trial, beside its seed."""

    scene: Scene
    theta: Theta
    actor: Actor
    eyes: TwinEyes | None = None  # what shows pictures to a policy that sees them
    drawn: Callable[[int], Theta] | None = None  # values that a trial's seed draws, in the place of those of theta

    def theta_of(self, seed: int) -> Theta:
        """The parameters of one trial's world."""
        return self.theta if self.drawn is None else self.theta | self.drawn(seed)


Swap = Callable[[Setting], Setting]


def factor_of(id: str) -> str:
    """Which factor a parameter belongs to."""
    kind, name = id.partition(".")[0], id.rpartition(".")[2]
    if id.startswith(SEEN) or (kind == "joint" and name in SEEN_OF_JOINTS):
        return "perception"
    if kind in ("actuator", "action"):
        return "embodiment"
    if kind in ("geom", "body") and name in GEOMETRY:
        return "geometry"
    return "contact" if kind in ("geom", "pair") else "physics"


def believed(belief: Theta, *factors: str) -> Swap:
    """Parameters of these factors as the twin believes them; what it has no value for becomes nominal."""

    def swap(setting: Setting) -> Setting:
        kept = {id: value for id, value in setting.theta.items() if factor_of(id) not in factors}
        mine = {id: value for id, value in belief.items() if factor_of(id) in factors}
        return replace(setting, theta=Theta({**kept, **mine}))

    return swap


def drawn(draw: Callable[[np.random.Generator], Theta], *factors: str) -> Swap:
    """Parameters of these factors as draws of a belief (a posterior's, or ranges'), several for every trial."""

    def swap(setting: Setting) -> Setting:
        def of(seed: int) -> Theta:
            made = draw(stream(seed, "evaluate", "swap"))
            return Theta({id: value for id, value in made.items() if factor_of(id) in factors})

        kept = Theta({id: value for id, value in setting.theta.items() if factor_of(id) not in factors})
        return replace(setting, theta=kept, drawn=of)

    return swap


def shown_by(eyes: TwinEyes) -> Swap:
    """Pictures of the same states through other eyes: the twin's instead of a camera's."""
    return lambda setting: replace(setting, eyes=eyes)


def inside(ranges: Randomization) -> Swap:
    """Every randomised parameter brought to the nearest value inside its range."""

    def swap(setting: Setting) -> Setting:
        moved = {
            each.id: min(max(setting.theta[each.id], each.low), each.high)
            for each in ranges.ranges
            if each.id in setting.theta
        }
        return replace(setting, theta=setting.theta | moved)

    return swap


def scripted(expert: Actor) -> Swap:
    """Another policy, which is trusted."""
    return lambda setting: replace(setting, actor=expert)


def drawn_with(scene: Scene) -> Swap:
    """Another scene: the shapes as they really are."""
    return lambda setting: replace(setting, scene=scene)


def swaps_of(
    belief: Theta,
    ranges: Randomization | None = None,
    expert: Actor | None = None,
    draw: Callable[[np.random.Generator], Theta] | None = None,
    eyes: TwinEyes | None = None,
) -> dict[str, Swap]:
    """The swaps that a belief with its draws, ranges, an expert and the twin's eyes give; factors that nobody can swap
    are left out. Where there are pictures, what is seen without error is also seen as the twin draws it."""
    found: dict[str, Swap] = {
        "contact": believed(belief, "contact"),
        "physics": believed(belief, "physics", "contact"),
        "geometry": believed(belief, "geometry"),
        "embodiment": believed(belief, "embodiment"),
        "perception": believed(Theta(), "perception"),
    }
    if draw is not None:
        found["draw"] = drawn(draw, "physics", "contact")
    if eyes is not None:
        right, look = found["perception"], shown_by(eyes)
        found["appearance"], found["perception"] = look, lambda setting: look(right(setting))
    if ranges is not None:
        found["range"] = inside(ranges)
    if expert is not None:
        found["policy"] = scripted(expert)
    return found


def factors_of(swaps: Mapping[str, Swap]) -> tuple[Factor, ...]:
    """The factors of these names, in the order of the taxonomy."""
    unknown = sorted(set(swaps) - {factor.name for factor in FACTORS})
    if unknown:
        raise ConfigError(f"{', '.join(unknown)} can be swapped, and is no factor. Use {_names()}.")
    return tuple(factor for factor in FACTORS if factor.name in swaps)


def _names() -> str:
    return ", ".join(factor.name for factor in FACTORS)


class Trying:
    """Runs trials with factors swapped, all seeds of a swap at once; a `Runner` for `attribution`."""

    def __init__(
        self,
        task: TaskSpec,
        setting: Setting,
        swaps: Mapping[str, Swap],
        trials: Sequence[tuple[Cell, Setup]],
    ) -> None:
        """`trials` are cells with their beginnings; repeats of a seed are cells with that seed, in order."""
        self._task, self._setting, self._swaps = task, setting, dict(swaps)
        self._trials: dict[int, list[tuple[Cell, Setup]]] = {}
        for cell, setup in trials:
            self._trials.setdefault(cell.seed, []).append((cell, setup))
        self._known: dict[frozenset[str], dict[tuple[int, int], bool]] = {}

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of the trials."""
        return tuple(self._trials)

    def __call__(self, swapped: frozenset[str], seed: int, repeat: int) -> bool:
        """Whether a trial succeeds with these factors swapped."""
        if swapped not in self._known:
            self._known[swapped] = self._run(swapped)
        return self._known[swapped][seed, repeat]

    def _run(self, swapped: frozenset[str]) -> dict[tuple[int, int], bool]:
        setting = self._setting
        for name in sorted(swapped):
            setting = self._swaps[name](setting)
        draws = 1 if setting.drawn is None else DRAWS
        keys = [(seed, k) for seed, mine in self._trials.items() for k in range(len(mine)) for _ in range(draws)]
        jobs = []
        for place, (seed, k) in enumerate(keys):
            cell, setup = self._trials[seed][k]
            jobs.append(Job(cell, setting.theta_of(cell.seed + place % draws), setup))
        runs = run_jobs(setting.scene, self._task, setting.actor, jobs, Batch(eyes=setting.eyes))
        failed = {key for key, run in zip(keys, runs, strict=True) if not run.success}
        return {key: key not in failed for key in keys}
