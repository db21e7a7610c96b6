"""How fast policies are trained, beside Stable-Baselines3: `python -m bench.train [RESULT.json]`, two CPU cores.

Both do the same: PPO at reach with an arm over a cube, ten physics steps an action, other physics in every episode, the
same network, batch and epochs; poses are read a physics step behind, as MuJoCo leaves them. `--device cuda` measures
training on a GPU instead (bench/train_gpu.py), without Stable-Baselines3.

1. environment steps a second and per CPU-second of physics, observations, reward and learning, the contenders in turns;
   Stable-Baselines3 with every worker count below, the best counts; MuJoCo as its package leaves it, then without its
   clock as well, which is ours to take out
2. seconds and CPU-seconds until 95 % of the newest 400 episodes succeed, exploration included: medians of three seeds,
   each contender with the settings that were its best in bench/train_sweep.py, on other seeds
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
from bench.train_scene import DRAWS, HIDDEN, reach_task, scene, thetas

from twinproof.tasks.arena import Arena, Play
from twinproof.train.ppo import Ppo, PpoLearner
from twinproof.train.tally import Tally
from twinproof.train.torch_extra import quiet_torch, seed_torch
from twinproof.train.vec_env import VecEnv

if TYPE_CHECKING:
    from bench import train_sb3

WORLDS, TARGET, LONGEST_CPU_S, ROUND_CPU_S, ROUNDS = 128, 0.95, 170.0, 3.0, 2
OURS = Ppo(rollout=32, kl=0.0, hidden=HIDDEN)  # 4,096 samples a batch, as Stable-Baselines3 has
QUICK = replace(OURS, rollout=16, discount=0.95, spread=1.0)  # of what train_sweep.py tried, the fewest steps
SEEDS = (0, 1, 2)
WORKERS = (  # and threads of its torch
    ("Dummy", 8, 1), ("Dummy", 32, 1), ("Dummy", 128, 1), ("Dummy", 128, 2), ("Subproc", 2, 1), ("Subproc", 8, 1)
)  # fmt: skip
UNCLOCKED = "without MuJoCo's clock"  # which twinproof takes out (sim/untimed.py), and nobody else we know of


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def ours(seed: int, ppo: Ppo = OURS, worlds: int = WORLDS, nthread: int = 2) -> PpoLearner:
    """128 worlds on two threads."""
    play = Play(nthread=nthread, current=False)
    arena = Arena(scene(), reach_task(), worlds, draws=thetas(DRAWS), seed=seed, play=play)
    learner = PpoLearner(VecEnv(arena), ppo, seed)
    seed_torch(seed, "bench", "train")
    learner.restart(seed)
    return learner


def our_round(learner: PpoLearner) -> dict[str, float]:
    """Some iterations of ours."""
    begun, wall, steps = cpu_s(), time.perf_counter(), 0
    while cpu_s() - begun < ROUND_CPU_S:
        learner.iterate()
        steps += learner.steps
    return {"steps": steps, "cpu_s": cpu_s() - begun, "wall_s": time.perf_counter() - wall}


def rates(found: list[dict[str, float]]) -> dict[str, float]:
    """The best of the rounds, as a busy machine only ever slows."""
    return {
        "per_s": max(each["steps"] / each["wall_s"] for each in found),
        "per_cpu_s": max(each["steps"] / each["cpu_s"] for each in found),
    }


def speed() -> dict[str, Any]:
    """Every contender in turns, a few CPU-seconds each."""
    from bench import train_sb3

    mine, found = ours(0), {"ours": list[dict[str, float]]()}
    mine.iterate()
    for _ in range(ROUNDS):
        with quiet_torch():
            found["ours"].append(our_round(mine))
        for clock in (True, False):
            for kind, workers, threads in WORKERS:
                settings = replace(train_sb3.PLAIN, threads=threads)
                told = train_sb3.train(
                    kind, workers, 0, lambda steps, used, success: used > ROUND_CPU_S, settings, clock
                )
                more = ("" if threads == 1 else f" torch {threads}") + ("" if clock else f" {UNCLOCKED}")
                found.setdefault(f"sb3 {kind} {workers}{more}", []).append(told)
    table = {name: rates(each) for name, each in found.items()}
    ratios = {}
    for key in ("per_s", "per_cpu_s"):
        for more in ("", UNCLOCKED):
            others = {n: each[key] for n, each in table.items() if n != "ours" and n.endswith(UNCLOCKED) == bool(more)}
            best = max(others, key=others.__getitem__)
            ratios[f"ratio {key} {more}".strip()] = {"best": best, "ratio": table["ours"][key] / others[best]}
    return table | ratios


def our_time(seed: int, ppo: Ppo = OURS, worlds: int = WORLDS, nthread: int = 2) -> dict[str, Any]:
    with quiet_torch():
        learner, tally, steps = ours(seed, ppo, worlds, nthread), Tally(), 0
        begun, wall = cpu_s(), time.perf_counter()
        while cpu_s() - begun < LONGEST_CPU_S and not (tally.episodes >= 200 and (tally.success or 0.0) >= TARGET):
            learner.iterate()
            counted = learner.env.counted()
            tally.close(round(counted["ended"]), round(counted["succeeded"]))
            steps += learner.steps
        told = {"steps": steps, "cpu_s": cpu_s() - begun, "wall_s": time.perf_counter() - wall}
    return {**told, "success": tally.success, "reached": (tally.success or 0.0) >= TARGET}


def their_time(
    kind: str, workers: int, seed: int, settings: train_sb3.Settings | None = None, clock: bool = True
) -> dict[str, Any]:
    from bench import train_sb3

    def done(steps: int, used: float, success: float | None) -> bool:
        return used > LONGEST_CPU_S or (success or 0.0) >= TARGET

    told = train_sb3.train(kind, workers, seed, done, settings or train_sb3.PLAIN, clock)
    return {**told, "reached": told["success"] >= TARGET}


def times(seeds: Sequence[int]) -> dict[str, Any]:
    """Both contenders in turns, and what ours takes as a share of theirs: medians over the seeds."""
    from bench.train_sb3 import QUICK as THEIRS

    found: dict[str, list[dict[str, Any]]] = {"ours": [], "sb3": [], "sb3 unclocked": []}
    for seed in seeds:
        found["ours"].append(our_time(seed, QUICK))
        print(json.dumps({"ours": found["ours"][-1], "seed": seed}, default=_plain), flush=True)
        found["sb3"].append(their_time("Dummy", 32, seed, THEIRS))
        print(json.dumps({"sb3": found["sb3"][-1], "seed": seed}, default=_plain), flush=True)
        found["sb3 unclocked"].append(their_time("Dummy", 32, seed, THEIRS, clock=False))
        print(json.dumps({"sb3 unclocked": found["sb3 unclocked"][-1], "seed": seed}, default=_plain), flush=True)
    told: dict[str, Any] = {"seeds": list(seeds), "settings": {"ours": vars(QUICK), "sb3": vars(THEIRS)}, **found}
    for key in ("steps", "cpu_s", "wall_s"):
        middle = {who: statistics.median(float(each[key]) for each in rows) for who, rows in found.items()}
        ratios = {f"ratio to {who}": middle["ours"] / value for who, value in middle.items() if who != "ours"}
        told[f"median {key}"] = middle | ratios
    return told


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("result", nargs="?", type=Path)
    asked.add_argument("--device", default="cpu")
    asked.add_argument("--only", choices=("speed", "time"))
    asked.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    chosen = asked.parse_args()
    if chosen.device != "cpu":
        from bench import train_gpu

        train_gpu.main(chosen.device, chosen.result)
        return
    result: dict[str, Any] = {"mujoco": mujoco.__version__, "worlds": WORLDS, "ppo": vars(OURS)}
    if chosen.only != "time":
        result["speed"] = speed()
        print(json.dumps(result["speed"], indent=1), flush=True)
    if chosen.only != "speed":
        result["time"] = times(chosen.seeds)
        print(json.dumps(result["time"], indent=1, default=_plain), flush=True)
    if chosen.result:
        chosen.result.write_text(json.dumps(result, indent=1, default=_plain))


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, np.generic) else str(value)


if __name__ == "__main__":
    main()
