"""How fast a windowed fit is, beside `mujoco.sysid` and scipy over `mj_step`: `python -m bench.identify [RESULT.json]`.

All have the same recording of the lab's pendulum (60 windows of 0.5 s, measured starts), model, start, bounds, weights
and tolerance, and end at the same optimum. They take turns, so that a busy machine slows all, and the best of each
counts. CPU-seconds are of all threads. `mujoco.sysid` needs `pip install "mujoco[sysid]"`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from bench.identify_contenders import NEAR, Run, Task, loop, ours, sysid, task
from bench.identify_scene import pendulum

from twinproof.identify.fit import GaussNewton
from twinproof.nouns.theta import Theta

EPISODES, HORIZON_S, ROUNDS = 6, 0.5, 3
TUNED_ON, SCORED = 3, (11, 12, 13)
OURS = GaussNewton(((HORIZON_S,),), tolerance=NEAR, robust=1e9, free_starts=False, process_noise=False, central=False)
# Chosen on plant TUNED_ON, never on one that is scored: for mujoco.sysid the best of its three back ends at x_scale
# "jac", for it and for scipy the better of difference steps of 1.5e-8 (the default) and 1e-5; our own step rules too.
SCIPY: dict[str, Any] = {"x_scale": "jac", "ftol": NEAR}
FIRST = "twinproof"
Contender = Callable[[Task], Run]
CONTENDERS: dict[str, Contender] = {
    FIRST: lambda task: ours(task, replace(OURS, noise=dict(zip(task.shooting.entries, task.sd, strict=True))))[0],
    "mujoco.sysid, best of its back ends": lambda task: sysid(task, {"optimizer": "scipy_parallel_fd", **SCIPY}),
    "mujoco.sysid, windows as chunks (undocumented)": lambda task: sysid(
        task, {"optimizer": "scipy", **SCIPY}, chunks=True
    ),
    "least_squares over mj_step": lambda task: loop(task, SCIPY),
}
ONCE: dict[str, Contender] = {
    "mujoco.sysid, its default back end": lambda task: sysid(task, {"optimizer": "mujoco", "x_scale": "jac"}),
    "least_squares over mj_step, default tolerances": lambda task: loop(task, {"x_scale": "jac"}),
    "twinproof, default method (free starts, noise and process noise estimated)": lambda task: ours(
        task, GaussNewton()
    )[0],
}


def prepared(plant: int) -> tuple[Task, Theta]:
    """The task with the weights and the optimum that a slow, careful fit of ours ends with."""
    problem, truth = pendulum(EPISODES, plant)
    made = task("pendulum", problem, HORIZON_S)
    noise = replace(OURS, tolerance=1e-6, noise=None)
    _, found = ours(made, noise)
    made = replace(made, sd=found.stages[-1].sd)
    careful = replace(noise, noise=dict(zip(made.shooting.entries, made.sd, strict=True)))
    return replace(made, best=ours(made, careful)[1].unknowns), truth


def better(one: Run, other: Run | None) -> Run:
    """The smaller of each time; both runs do the same."""
    if other is None:
        return one
    names = ("wall_s", "cpu_s", "reached_wall_s", "reached_cpu_s")
    return replace(one, **{name: min(getattr(one, name), getattr(other, name)) for name in names})


def told(task: Task, truth: Theta, run: Run, first: Run) -> dict[str, Any]:
    """A contender's line: times, ratios to ours, and how near it came."""
    values = task.problem.values(run.unknowns)[0]
    error = [abs(v / truth[id] - 1) for v, id in zip(values, task.problem.ids, strict=True) if "tilt" not in id]
    assert task.best is not None
    found = {name: value for name, value in asdict(run).items() if name != "unknowns"}
    return found | {
        "cost above the best, relative": task.cost(run.unknowns) / task.cost(task.best) - 1,
        "median error against the truth": float(np.median(error)),
        "wall / ours": run.wall_s / first.wall_s,
        "CPU / ours": run.cpu_s / first.cpu_s,
        "wall until near / ours": run.reached_wall_s / first.wall_s,
        "CPU until near / ours": run.reached_cpu_s / first.cpu_s,
    }


def scored(plant: int, once: bool) -> dict[str, Any]:
    """All contenders on one plant; the best cost is the lowest that any of them or the careful fit found."""
    made, truth = prepared(plant)
    best: dict[str, Run | None] = dict.fromkeys([*CONTENDERS, *(ONCE if once else ())])
    for turn in range(ROUNDS):
        for name, contender in {**CONTENDERS, **(ONCE if once and turn == 0 else {})}.items():
            best[name] = better(contender(made), best[name])
    first = best[FIRST]
    assert first is not None
    ends = [run.unknowns for run in best.values() if run is not None]
    made = replace(made, best=min([*ends, made.best], key=made.cost))
    return {name: told(made, truth, run, first) for name, run in best.items() if run is not None}


def main() -> None:
    print(f"mujoco {mujoco.__version__}, {os.cpu_count()} cores")
    result: dict[str, Any] = {}
    for plant in SCORED:
        result[f"plant {plant}"] = scored(plant, once=plant == SCORED[0])
        print(f"== plant {plant}, load {os.getloadavg()[0]:.1f}")
        for name, line in result[f"plant {plant}"].items():
            print(name)
            print("   " + ", ".join(f"{key} {value:.4g}" for key, value in line.items()), flush=True)
        if len(sys.argv) > 1:
            Path(sys.argv[1]).write_text(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
