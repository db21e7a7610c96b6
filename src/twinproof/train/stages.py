"""Progressive transfer: PPO in worlds that come closer to what the calibration says, a stage at a time.

sim only        the nominal model, before any data: no dynamics drawn
wide            the ranges of dynamics stretched about their point
mixed           half of the episodes wide, half drawn as the calibration's ranges say
real-weighted   nine in ten as the ranges say

A stage is left when the lower confidence bound of its success, in fresh episodes of its own and without exploration,
reaches what is wanted. Reality itself is never trained on: its weight is that of what the calibration says of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from twinproof.nouns.hashing import Json
from twinproof.nouns.interval import clopper_pearson
from twinproof.nouns.policy import Contract
from twinproof.nouns.randomization import Randomization
from twinproof.nouns.randomness import stream
from twinproof.nouns.theta import Theta
from twinproof.policies.load import actor_of
from twinproof.sim.parameters.resolve import nominal_value, parameter
from twinproof.tasks.arena import Arena
from twinproof.tasks.task import TaskSpec
from twinproof.train.judge import judge
from twinproof.train.ppo import Ppo, PpoLearner
from twinproof.train.vec_env import VecEnv
from twinproof.train.written import Origin, Trained, policy_of

NAMES = ("sim only", "wide", "mixed", "real-weighted")
TOLD = (None, 0.0, 0.5, 0.9)  # the share of episodes as the ranges say; None: the nominal model


@dataclass(frozen=True)
class Stages:
    """When a stage is left, and what it draws."""

    bound: float = 0.7  # the success that a stage must surely have
    level: float = 0.95  # how surely: one-sided
    judged: int = 50  # episodes of one judgement, new ones each time
    stretch: float = 3.0  # how much wider than the ranges the wide ones are
    thetas: int = 1024  # that the worlds of a stage take in turn


def stage_thetas(ranges: Randomization, task: TaskSpec, stages: Stages, seed: int) -> tuple[list[Theta], ...]:
    """What the worlds of each stage are. All name the same parameters; noise and starts are drawn in every stage."""
    wider, model = ranges.at(stages.stretch), task.machine.scene.nominal()
    dynamics = [entry.id for entry in ranges.ranges if entry.gap == "dynamics"]
    nominal = {id: 0.0 if id.endswith(".delay") else nominal_value(model, parameter(id)) for id in dynamics}
    found: tuple[list[Theta], ...] = tuple([] for _ in NAMES)
    for k in range(stages.thetas):
        rng = stream(seed, "train", "stages", str(k))
        told, wide, chance = ranges.draw(rng), wider.draw(rng), rng.uniform()
        far = Theta({**told, **{id: wide[id] for id in dynamics}})
        for thetas, share in zip(found, TOLD, strict=True):
            thetas.append(Theta({**told, **nominal}) if share is None else told if chance < share else far)
    return found


class StagedLearner:
    """PPO with a list of environments, one a stage; the networks go on from one to the next."""

    def __init__(
        self, envs: Sequence[VecEnv], panels: Sequence[Arena], contract: Contract, stages: Stages, ppo: Ppo, seed: int
    ) -> None:
        self._envs, self._panels, self._contract, self._stages = envs, panels, contract, stages
        self._ppo = PpoLearner(envs[0], ppo, seed)
        self._stage, self._judgements, self._iterations, self._low = 0, 0, 0, 0.0

    @property
    def steps(self) -> int:
        """Environment steps of one iteration."""
        return self._ppo.steps

    @property
    def env(self) -> VecEnv:
        """That of the stage."""
        return self._ppo.env

    @property
    def stage(self) -> str:
        """The stage's name."""
        return NAMES[self._stage]

    def restart(self, episode: int) -> None:
        """Judges what the stage has brought, goes on to the next one if it is enough, and begins its worlds anew."""
        if self._iterations:
            self._look()
        self._ppo.env = self._envs[self._stage]
        self._ppo.restart(episode)

    def _look(self) -> None:
        actor = actor_of(policy_of(self.trained(), self._contract, Origin({})))
        judged = judge(self._panels[self._stage], actor, self._judgements)
        sure = 2 * self._stages.level - 1  # the interval whose lower end alone has this level
        self._low = clopper_pearson(judged.succeeded, judged.episodes, sure).low
        self._judgements += 1
        if self._low >= self._stages.bound and self._stage < len(NAMES) - 1:
            self._stage, self._iterations = self._stage + 1, 0

    def iterate(self) -> dict[str, float]:
        """One iteration of PPO in the stage's worlds; the stage's number from 0, and the bound last found."""
        told = self._ppo.iterate()
        self._iterations += 1
        return {**told, "stage": float(self._stage), "stage_bound": self._low}

    def trained(self) -> Trained:
        """The actor as it stands."""
        return self._ppo.trained()

    def arrays(self) -> dict[str, np.ndarray]:
        """PPO's."""
        return self._ppo.arrays()

    def told(self) -> dict[str, Json]:
        """PPO's counters and the stage's."""
        mine = {"stage": self._stage, "judgements": self._judgements, "in_stage": self._iterations, "low": self._low}
        return {**self._ppo.told(), **mine}

    def restore(self, arrays: Mapping[str, np.ndarray], told: Mapping[str, Json]) -> None:
        """The inverse of `arrays` and `told`."""
        self._ppo.restore(arrays, told)
        self._stage, self._judgements = int(told["stage"]), int(told["judgements"])
        self._iterations, self._low = int(told["in_stage"]), float(told["low"])
