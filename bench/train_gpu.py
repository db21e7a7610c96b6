"""Training on one GPU: `python -m bench.train --device cuda [RESULT.json]`. Nothing here waits for the host but PPO.

push     4,096 worlds from state: environment steps a second of physics, observations, reward, resets and learning
reach    wall time to 95 % success of the newest episodes, after compilation
pictures push from 128 × 128 pictures drawn from splats (bench/train_images.py)
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bench import train_images
from bench.sections import run_sections
from bench.train_scene import DRAWS, HIDDEN, push_task, reach_task, scene, thetas

from twinproof.tasks.arena import Arena, Play
from twinproof.tasks.task import TaskSpec
from twinproof.train.ppo import Ppo, PpoLearner
from twinproof.train.tally import Tally
from twinproof.train.torch_extra import check_device, quiet_torch, seed_torch
from twinproof.train.vec_env import VecEnv

PICTURE_WORLDS = 2048
WORLDS, REPEATS, ITERATIONS, TARGET, LONGEST_S = 4096, 3, 8, 0.95, 120.0
PUSH = Ppo(rollout=24, kl=0.0, epochs=3, minibatches=4, hidden=HIDDEN)
REACH = Ppo(rollout=24, kl=0.0, epochs=5, minibatches=4, hidden=HIDDEN)


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
    """Wall seconds of training until 95 % of the newest episodes succeed, exploration included."""
    mine = learner(reach_task(), REACH, device, worlds)
    mine.restart(0)
    mine.iterate()
    mine = PpoLearner(mine.env, REACH, seed=1)  # networks anew; what was compiled stays
    seed_torch(1, "bench", "reach")
    mine.restart(1)
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
        "worlds": worlds,
        "wall_s": took,
        "bar_s": 60.0,
        "steps": steps,
        "env_steps_per_s": steps / took,
        "success": tally.success,
        "reached": (tally.success or 0.0) >= TARGET,
        "curve": curve[:: max(1, len(curve) // 12)],
    }


def main(device: str, path: Path | None) -> None:
    check_device(device)
    result: dict[str, Any] = {"device": torch.cuda.get_device_name() if device != "cpu" else "cpu"}
    with quiet_torch():
        sections = {
            "push": lambda: throughput(device),
            "reach": lambda: time_to_target(device),
            "pictures": lambda: train_images.pictures(device, PICTURE_WORLDS, 128),
        }
        run_sections(result, sections, path)
