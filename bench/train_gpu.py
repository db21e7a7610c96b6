"""Training on one GPU: `python -m bench.train --device cuda [RESULT.json]`. Nothing here waits for the host but PPO.

push     4,096 worlds from state: environment steps a second of physics, observations, reward, resets and learning
reach    wall time to 95 % success of the newest episodes, after compilation
judged   the same with PPO, FastSAC and FastTD3, by the success of the policy without exploration
pictures push from 128 × 128 pictures drawn from splats (bench/train_images.py)
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bench import train_images
from bench.sections import run_sections
from bench.train_scene import DRAWS, HIDDEN, push_task, reach_task, scene, thetas

from twinproof.policies.load import actor_of
from twinproof.tasks.arena import Arena, Play
from twinproof.tasks.task import TaskSpec
from twinproof.train.actors import FastSac, FastTd3
from twinproof.train.judge import judge
from twinproof.train.loop import Learner
from twinproof.train.offpolicy import OffPolicy, OffPolicyLearner
from twinproof.train.ppo import Ppo, PpoLearner
from twinproof.train.tally import Tally
from twinproof.train.torch_extra import check_device, quiet_torch, seed_torch
from twinproof.train.vec_env import VecEnv
from twinproof.train.written import Origin, policy_of

PICTURE_WORLDS = 2048
WORLDS, REPEATS, ITERATIONS, TARGET, LONGEST_S = 4096, 3, 8, 0.95, 120.0
SEEDS = 3
PUSH = Ppo(rollout=24, kl=0.0, epochs=3, minibatches=4, hidden=HIDDEN)
REACH = Ppo(rollout=24, epochs=5, minibatches=4, hidden=HIDDEN)  # at a fixed rate one seed in three did not learn

OFF_POLICY = OffPolicy(rollout=24, updates=2, share=4, kept=2**20, hidden=(256, 256))


def learner(task: TaskSpec, ppo: Ppo, device: str, worlds: int = WORLDS) -> PpoLearner:
    arena = Arena(scene(), task, worlds, draws=thetas(DRAWS), play=Play(bank=DRAWS * 16), device=device)
    return PpoLearner(VecEnv(arena, device), ppo, seed=0)


def wait(device: str) -> float:
    """The time, when the device has done all that it was given."""
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter()


def throughput(device: str, worlds: int = WORLDS) -> dict[str, Any]:
    """Median over repeats of some iterations of PPO on push, and where the time goes."""
    begun = wait(device)
    mine = learner(push_task(), PUSH, device, worlds)
    mine.restart(0)
    mine.iterate()
    mine.iterate()  # graphs are captured by now
    ready = wait(device)
    rates, collect, learn = [], 0.0, 0.0
    for _ in range(REPEATS):
        before = wait(device)
        for _ in range(ITERATIONS):
            told = mine.iterate()
            collect, learn = collect + told["collect_s"], learn + told["learn_s"]
        rates.append(ITERATIONS * mine.steps / (wait(device) - before))
    counted = mine.env.counted()
    return {
        "worlds": worlds,
        "substeps": mine.env.arena.task.machine.substeps,
        "env_steps_per_s": float(np.median(rates)),
        "of": [round(rate) for rate in rates],
        "bar": 500_000,
        "collecting_share": collect / (collect + learn),
        "seconds_to_first_iterations": ready - begun,
        "ended": counted["ended"],
        "diverged": counted["diverged"],
    }


def time_to_target(device: str, worlds: int = WORLDS, longest_s: float = LONGEST_S) -> dict[str, Any]:
    """Wall seconds of training until 95 % of the newest episodes succeed, exploration included: the median of seeds."""
    mine = learner(reach_task(), REACH, device, worlds)
    mine.restart(0)
    mine.iterate()
    runs = [_to_target(mine.env, seed, device, longest_s) for seed in range(1, SEEDS + 1)]
    median = sorted(runs, key=lambda run: float(run["wall_s"]))[len(runs) // 2]
    return {"worlds": worlds, "bar_s": 60.0, **median, "all_s": [run["wall_s"] for run in runs]}


def _to_target(env: VecEnv, seed: int, device: str, longest_s: float) -> dict[str, Any]:
    mine = PpoLearner(env, REACH, seed)  # networks anew; what was compiled stays
    seed_torch(seed, "bench", "reach")
    mine.restart(seed)
    tally, steps, begun, curve = Tally(), 0, wait(device), []
    while (took := wait(device) - begun) < longest_s:
        mine.iterate()
        steps += mine.steps
        counted = mine.env.counted()
        tally.close(round(counted["ended"]), round(counted["succeeded"]))
        curve.append((round(wait(device) - begun, 2), tally.success))
        if tally.episodes >= 200 and (tally.success or 0.0) >= TARGET:
            break
    took = wait(device) - begun
    return {
        "wall_s": took,
        "steps": steps,
        "env_steps_per_s": steps / took,
        "success": tally.success,
        "reached": (tally.success or 0.0) >= TARGET,
        "curve": curve[:: max(1, len(curve) // 12)],
    }


def ways(env: VecEnv) -> dict[str, Callable[[int], Learner]]:
    """Learners by name, given a seed."""
    return {
        "ppo": lambda seed: PpoLearner(env, REACH, seed),
        "fastsac": lambda seed: OffPolicyLearner(env, FastSac(), OFF_POLICY, seed),
        "fasttd3": lambda seed: OffPolicyLearner(env, FastTd3(), OFF_POLICY, seed),
    }


def time_to_judged(way: str, device: str, worlds: int, longest_s: float) -> dict[str, Any]:
    """The same by what the policy does without exploring: 100 fresh episodes on the CPU after every four iterations,
    the clock stopped."""
    task = reach_task()
    arena = Arena(scene(), task, worlds, draws=thetas(DRAWS), play=Play(bank=DRAWS * 16), device=device)
    env, panel = VecEnv(arena, device), Arena(scene(), task, min(100, worlds), draws=thetas(DRAWS), seed=99)
    make, took, steps, curve = ways(env)[way], 0.0, 0, [(0.0, 0.0)]
    warm = make(0)
    warm.restart(0)
    warm.iterate()
    mine = make(1)  # networks anew; what was compiled stays
    seed_torch(1, "bench", "reach")
    mine.restart(1)
    while took < longest_s and curve[-1][1] < TARGET:
        begun = wait(device)
        for _ in range(4):
            told = mine.iterate()
            steps += mine.steps
        took += wait(device) - begun
        actor = actor_of(policy_of(mine.trained(), task.deployable, Origin({})))
        curve.append((round(took, 2), judge(panel, actor, 0).success))
    found = {"wall_s": took, "steps": steps, "success": curve[-1][1], "env_steps_per_s": steps / took, **told}
    return found | {"curve": curve[:: max(1, len(curve) // 12)]}


def main(
    device: str, path: Path | None, only: tuple[str, ...] = (), worlds: int = WORLDS, longest_s: float = LONGEST_S
) -> None:
    check_device(device)
    result: dict[str, Any] = {"device": torch.cuda.get_device_name() if device != "cpu" else "cpu"}
    with quiet_torch():
        sections: dict[str, Callable[[], dict[str, Any]]] = {
            "push": lambda: throughput(device, worlds),
            "reach": lambda: time_to_target(device, worlds, longest_s),
            "pictures": lambda: train_images.pictures(device, PICTURE_WORLDS, 128),
            "judged ppo": lambda: time_to_judged("ppo", device, worlds, longest_s / 3),
            "judged fastsac": lambda: time_to_judged("fastsac", device, worlds, longest_s / 3),
            "judged fasttd3": lambda: time_to_judged("fasttd3", device, worlds, longest_s / 3),
        }
        run_sections(result, {name: work for name, work in sections.items() if not only or name.startswith(only)}, path)


if __name__ == "__main__":  # python -m bench.train_gpu RESULT.json SECTION…; --cpu: a few worlds, to see that it runs
    given = [each for each in sys.argv[1:] if not each.startswith("--")]
    few = (8, 2.0) if "--cpu" in sys.argv else (WORLDS, LONGEST_S)
    main("cpu" if "--cpu" in sys.argv else "cuda", Path(given[0]), tuple(given[1:]), *few)
