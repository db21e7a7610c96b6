"""The training loop: segments that can be taken up again, a line of metrics an iteration, an early end at a target."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from twinproof.nouns.hashing import Json
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.randomness import stream
from twinproof.train.checkpoint import Run, State
from twinproof.train.tally import Tally
from twinproof.train.torch_extra import seed_torch
from twinproof.train.written import Trained

FEWEST = 200  # ended episodes before their success says anything


class Learner(Protocol):
    """What the loop drives: an algorithm with its environment."""

    @property
    def steps(self) -> int: ...

    @property
    def env(self) -> Any: ...

    def restart(self, episode: int) -> None: ...

    def iterate(self) -> dict[str, float]: ...

    def trained(self) -> Trained: ...

    def arrays(self) -> dict[str, np.ndarray]: ...

    def told(self) -> dict[str, Json]: ...

    def restore(self, arrays: Mapping[str, np.ndarray], told: Mapping[str, Json]) -> None: ...


@dataclass(frozen=True)
class Budget:
    """How long to train: so many environment steps, or until success reaches a target.

    Success is that of the newest 400 episodes of training, of which there must be 200; with a judge it is the judged
    one. Exploring policies tremble: at a task that asks to hold still, the one may be 0 % and the other 100 %.
    """

    steps: int
    target: float | None = None
    segment: int = 20  # iterations between two checkpoints


@dataclass(frozen=True)
class Outcome:
    """What a run ended with."""

    trained: Trained
    iterations: int
    steps: int
    success: float | None
    episodes: int  # that the success is taken over
    wall_s: float
    reached_target: bool


@dataclass(frozen=True)
class Watch:
    """Who looks on: a bar, somebody who sees every line of metrics, a judge of the policy as it stands."""

    progress: Progress = quiet
    tell: Callable[[Mapping[str, Json]], None] | None = None
    judge: Callable[[Trained], float] | None = None  # the share of fresh episodes that succeed; once a segment


def train(
    learner: Learner, budget: Budget, run: Run, begun: State | None, seed: int, watch: Watch | None = None
) -> Outcome:
    """Trains from the newest checkpoint (or the beginning) to the end of the budget."""
    watch, tally, iteration, before_s, reached = watch or Watch(), Tally(), 0, 0.0, False
    if begun is not None:
        learner.restore(begun.arrays, begun.told)
        tally, iteration, before_s = Tally.of(begun.told["recent"]), begun.iteration, float(begun.told["wall_s"])
        reached = bool(begun.told["reached"])
    run.rewind(iteration)
    total, started = -(-budget.steps // learner.steps), time.perf_counter()
    while iteration < total and not reached:
        segment = iteration // budget.segment
        seed_torch(seed, "train", f"segment{segment}")
        learner.restart(int(stream(seed, "train", "worlds", f"segment{segment}").integers(2**20)))
        last = min(iteration + budget.segment, total)
        while iteration < last and not reached:
            line = _iterate(learner, tally, iteration)
            iteration += 1
            if watch.judge is None:
                reached = tally.episodes >= FEWEST and _reached(tally.success, budget)
            elif iteration == last:
                line["judged"] = watch.judge(learner.trained())
                reached = _reached(line["judged"], budget)
            line["wall_s"] = before_s + time.perf_counter() - started
            run.tell(line)
            if watch.tell is not None:
                watch.tell(line)
            watch.progress(iteration * learner.steps, _shown(line), total * learner.steps)
        wall_s = before_s + time.perf_counter() - started
        told = {**learner.told(), "recent": tally.told(), "wall_s": wall_s, "reached": reached}
        run.save(State(learner.arrays(), iteration, told))
    wall_s = before_s + time.perf_counter() - started
    return Outcome(
        learner.trained(), iteration, iteration * learner.steps, tally.success, tally.episodes, wall_s, reached
    )


def _iterate(learner: Learner, tally: Tally, iteration: int) -> dict[str, Json]:
    begun = time.perf_counter()
    told = learner.iterate()
    counted = learner.env.counted()
    tally.close(round(counted["ended"]), round(counted["succeeded"]))
    line: dict[str, Json] = {"iteration": iteration, "steps": (iteration + 1) * learner.steps}
    line |= {"success": tally.success, **counted, **told}
    line["steps_per_s"] = learner.steps / (time.perf_counter() - begun)
    return line


def _reached(success: float | None, budget: Budget) -> bool:
    return budget.target is not None and success is not None and success >= budget.target


def _shown(line: Mapping[str, Json]) -> str:
    success = line.get("judged", line["success"])
    rate = f"{line['steps_per_s']:,.0f} steps/s"
    return f"{rate}, no episode has ended" if success is None else f"success {success:.0%}, {rate}"
