"""Every way to learn, side by side in the lab's reality: `python -m bench.algorithms RUN OUT [--workers N] [--tiny]`.

RUN is the folder of a finished `twinproof run` of the pendulum (twin, split, randomization). Each way trains SEEDS
policies with the settings below, then drives the practice robot through the same TRIALS starts and goals, drawn from
seeds of their own that no training sees. Nothing was chosen by these scores. No holdout is opened: a trial needs none.

OUT/algorithms.json    a row a way: success in reality and in the twin, with 90 % intervals; seeds are the units
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from twinproof.cli_robot import place_of
from twinproof.evaluate.command import home_of
from twinproof.evaluate.deploy import begins, real_run
from twinproof.nouns.actor import Actor
from twinproof.nouns.files import write_json
from twinproof.nouns.hashing import content_key
from twinproof.nouns.interval import mean_interval
from twinproof.nouns.panel import Cell, Condition, Domain
from twinproof.nouns.policy import Policy
from twinproof.nouns.progress import bar
from twinproof.nouns.randomization import Randomization
from twinproof.nouns.randomness import stream
from twinproof.nouns.split import Split
from twinproof.nouns.store import Store
from twinproof.nouns.theta import Theta
from twinproof.nouns.twin import Twin
from twinproof.policies.load import actor_of
from twinproof.tasks.arena import Arena
from twinproof.tasks.experts import expert_of
from twinproof.tasks.mppi import Planner
from twinproof.tasks.named import task_named
from twinproof.tasks.task import TaskSpec
from twinproof.train import command
from twinproof.train.ground import Asked
from twinproof.train.judge import judge
from twinproof.train.torch_extra import quiet_torch

TASK, ROBOT, SEEDS, TRIALS, IN_TWIN = "reach", "lab:pendulum?plant=0", 3, 20, 40
PLANNED = 10  # episodes in the twin of a planner, which tries 64 futures in each
REWARD = {"worlds": 256, "steps": 400_000}  # as the transfer study has it
LABELS = {"worlds": 64, "steps": 96_000}  # rounds of 150 ticks
# way -> what is trained, the last of it scored; each later one stands on the one before
WAYS: dict[str, tuple[dict[str, Any], ...]] = {
    "ppo": ({"algo": "ppo", **REWARD},),
    "fasttd3": ({"algo": "fasttd3", **REWARD},),
    "fastsac": ({"algo": "fastsac", **REWARD},),
    "progressive": ({"algo": "progressive", **REWARD},),
    "rma": ({"algo": "rma", "history": 16, **REWARD},),
    "student": ({"algo": "teacher", **REWARD}, {"algo": "student", "history": 4, **LABELS}),
    "dagger": ({"algo": "dagger", **LABELS},),
    "clone": ({"algo": "clone", **LABELS},),
    "residual": ({"algo": "clone", **LABELS}, {"algo": "residual", **REWARD}),
    "mppi": (),  # plans on the twin at the point of its ranges
    "expert": (),  # the task's script, told the point of its ranges: what clone, dagger and residual learn from
}
LONG = ("mppi", "fasttd3", "fastsac", "student", "residual")
STANDS_ON = {"student": "teacher", "residual": "base"}


def score(folder: Path, run: str, way: str, seed: int, tiny: bool) -> None:
    """One policy of one way, as a piece of work: trained, judged in the twin and in reality."""
    home = Path(run)
    twin, split, ranges = (kind.load(home / name) for kind, name in KINDS)
    task = task_named(TASK, twin, home=home_of((), TASK, twin, split), relative=True)
    told: dict[str, Any] = {"way": way, "seed": seed}
    with quiet_torch():
        actor = _made(folder, home, way, seed, tiny, told) or _planned(way, task, ranges)
        episodes = 4 if tiny else PLANNED if way == "mppi" else IN_TWIN
        arena = Arena(twin, task, episodes, draws=ranges, seed=77_000 + seed)
        told["twin"] = judge(arena, actor, 0).success
        told["real"] = float(np.mean(driven(actor, task, twin, split, 2 if tiny else TRIALS, seed)))
    used = resource.getrusage(resource.RUSAGE_SELF)
    told["cpu_s_of_process"] = used.ru_utime + used.ru_stime
    write_json(folder / "score.json", told)


KINDS: tuple[tuple[Any, str], ...] = ((Twin, "twin"), (Split, "split"), (Randomization, "randomization"))


def _made(folder: Path, home: Path, way: str, seed: int, tiny: bool, told: dict[str, Any]) -> Actor | None:
    """The actor that was trained; None for a way that trains nothing."""
    before: Path | None = None
    for k, settings in enumerate(WAYS[way]):
        more = dict(settings) | ({"worlds": 8, "steps": 8 * 150} if tiny else {})
        if before is not None:
            more[STANDS_ON[more["algo"]]] = before
        out = folder / f"policy{k}"
        asked = Asked(home / "twin", home / "randomization", TASK, out=out, seed=seed, probe=False, **more)
        (made,) = command.run(asked)
        told.setdefault("trained", []).append(
            {"algo": asked.algo, "steps": made.outcome.steps, "wall_s": made.outcome.wall_s,
             "judged": made.judged.success, "stage": made.policy.training.get("stage", "")}
        )  # fmt: skip
        before = out
    return None if before is None else actor_of(Policy.load(before))


def _planned(way: str, task: TaskSpec, ranges: Randomization) -> Actor:
    point = Theta({entry.id: entry.point for entry in ranges.ranges if entry.gap == "dynamics"})
    return Planner(task, theta=point) if way == "mppi" else expert_of(task, point)


class Luck:
    """An actor whose own draws are those of another seed: a planner's, as its trials begin alike for all seeds."""

    def __init__(self, actor: Actor, luck: int) -> None:
        self.contract, self.act, self._actor, self._luck = actor.contract, actor.act, actor, luck

    def reset(self, count: int, seed: int, which: np.ndarray | None = None) -> None:
        """Forgets."""
        self._actor.reset(count, seed + self._luck, which)


def driven(actor: Actor, task: TaskSpec, twin: Twin, split: Split, trials: int, luck: int) -> list[bool]:
    """Which trials on the practice robot succeed: the same starts and goals for every policy."""
    place = place_of(ROBOT, task, "", twin, split)
    assert place is not None
    found = []
    try:
        for k in range(trials):
            seed = int(stream(2026, "bench", "algorithms", str(k)).integers(2**31))
            cell = Cell("it", Condition(f"start {k}", "", seed), Domain("real", "real", 1), 0, seed)
            found.append(real_run(place, task, Luck(actor, luck), cell, begins(task, cell))[0].success)
    finally:
        place.robot.close()
    return found


def over_seeds(rates: list[float]) -> tuple[float, float, float]:
    """Mean, and a 90 % interval cut at 0 and 1; one seed says nothing of others."""
    if len(rates) < 2:
        return rates[0], 0.0, 1.0
    found = mean_interval(rates, 0.9)
    return found.value, max(0.0, found.low), min(1.0, found.high)


def table(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row a way."""
    found = []
    for way in WAYS:
        mine = [row for row in rows if row["way"] == way]
        if mine:
            figures = {name: over_seeds([row[name] for row in mine]) for name in ("real", "twin")}
            found.append({"way": way, "seeds": len(mine), **figures, **_costs(mine)})
    return found


def _costs(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What training took, and what it stood on."""
    chains = [row.get("trained", []) for row in rows]
    last = [chain[-1] for chain in chains if chain]
    return {
        "steps": int(np.mean([each["steps"] for each in last])) if last else 0,
        "train_s": float(np.mean([sum(each["wall_s"] for each in chain) for chain in chains])),
        "stages": [each["stage"] for each in last],
        "stood_on": [chain[0]["judged"] for chain in chains if len(chain) > 1],
    }


def shown(rows: list[dict[str, Any]]) -> str:
    """The table as Markdown."""
    lines = ["| way | seeds | real | twin | steps | seconds |", "|---|---|---|---|---|---|"]
    for row in rows:
        real, twin = (f"{100 * m:.0f} % ({100 * a:.0f}–{100 * b:.0f})" for m, a, b in (row["real"], row["twin"]))
        lines.append(f"| {row['way']} | {row['seeds']} | {real} | {twin} | {row['steps']:,} | {row['train_s']:.0f} |")
    return "\n".join(lines)


def pinned(cores: Any) -> None:
    """A worker has one core of its own: worlds use as many threads as they may."""
    os.sched_setaffinity(0, {cores.get()})


def piece(out: str, run: str, way: str, seed: int, tiny: bool) -> dict[str, Any]:
    """The score of one policy; one that is in the store is not made again."""
    twin, ranges = Twin.load(Path(run) / "twin"), Randomization.load(Path(run) / "randomization")
    key = content_key("algorithms", twin.hash, ranges.hash, list(WAYS[way]), way, seed, TRIALS, tiny)
    folder = Store(Path(out) / "store").once_folder(key, lambda folder: score(folder, run, way, seed, tiny))
    told: dict[str, Any] = json.loads((folder / "score.json").read_text())
    return told


def main(run: Path, out: Path, workers: int, tiny: bool, ways: list[str]) -> None:
    wanted = [(way, seed) for way in ways for seed in range(1 if tiny else SEEDS)]
    wanted.sort(key=lambda each: each[0] not in LONG)  # what takes longest first
    context, rows, begun = get_context("spawn"), [], time.perf_counter()
    cores = context.Queue()
    for core in sorted(os.sched_getaffinity(0))[:workers]:
        cores.put(core)
    with ProcessPoolExecutor(workers, context, pinned, (cores,)) as pool, bar("algorithms") as progress:
        asked = [pool.submit(piece, str(out), str(run.absolute()), way, seed, tiny) for way, seed in wanted]
        for done in as_completed(asked):
            rows.append(done.result())
            progress(len(rows), f"{rows[-1]['way']} {rows[-1]['real']:.0%} in reality", len(asked))
            told = {"rows": table(rows), "each": rows, "robot": ROBOT, "trials": 2 if tiny else TRIALS}
            write_json(out / "algorithms.json", told | {"wall_s": time.perf_counter() - begun, "workers": workers})
    sys.stdout.write(shown(table(rows)) + "\n")


if __name__ == "__main__":
    plain = [each for each in sys.argv[1:] if not each.startswith("--")]
    options = dict(each.removeprefix("--").partition("=")[::2] for each in sys.argv[1:] if each.startswith("--"))
    chosen = options["ways"].split(",") if "ways" in options else list(WAYS)
    main(Path(plain[0]), Path(plain[1]), int(options.get("workers", 2)), "tiny" in options, chosen)
