"""Hand tracks to robot motions: `python -m bench.retarget [--seeds 3] [--only tracks|policy] [RESULT.json]`.

tracks   six kinds of motion that a person shows (three with contact), tracked with noise, gaps, a frame and a unit of
         its own (lab/hands.py); each is retargeted for the arm of the push bench, which then follows it in simulation.
         The error is against what the person really did, seen from the object's own axes: as planned, as driven.
policy   for a push and a pick: a network learns to follow the motion (DAgger from the follower by numbers) with the
         object up to 2 cm and 0.2 rad elsewhere at first, judged in fresh episodes beside the follower and beside the
         bare commands of the motion.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from twinproof.lab.benches import bench
from twinproof.lab.hands import KINDS, Shown, human_track
from twinproof.lab.models import textures
from twinproof.nouns.episode import Episode
from twinproof.policies.load import actor_of
from twinproof.sim.scene import Scene
from twinproof.tasks import track
from twinproof.tasks.arena import Arena, Play
from twinproof.tasks.experts import expert_of
from twinproof.tasks.machine import Machine
from twinproof.tasks.task import Setup, TaskSpec
from twinproof.tasks.things import thing_of
from twinproof.train.imitate import Dagger, DaggerLearner, Fit
from twinproof.train.judge import judge
from twinproof.train.retarget import Motion, recording_of, retarget
from twinproof.train.torch_extra import quiet_torch
from twinproof.train.vec_env import VecEnv
from twinproof.train.written import Origin, policy_of

JUDGED, WORLDS, ROUNDS = 60, 16, 8
POLICIES = ("push", "pick")


def machine_in(folder: Path) -> Machine:
    """The arm of the lab's push bench over its table."""
    named = bench("push")
    for file, data in textures.assets().items():
        (folder / file).write_bytes(data)
    return Machine.of(Scene(named.nominal_scene(None, named.plant(0)), folder), home=dict(named.home))


def own_axes(points: np.ndarray, pose: np.ndarray) -> np.ndarray:
    """Points (T, 3) in the axes of an object at poses (T, 7)."""
    w, x, y, z = pose[:, 3:].T
    rows = (
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )
    turns = np.stack([np.stack(row, axis=1) for row in rows], axis=1)
    found: np.ndarray = np.einsum("tij,ti->tj", turns, points - pose[:, :3])
    return found


def task_of(machine: Machine, motion: Motion, kind: str) -> tuple[TaskSpec, Episode]:
    episode = recording_of(motion, machine, kind).episodes[0]
    home = dict(zip(machine.joints, machine.home.tolist(), strict=True))
    return track.of(machine.scene, episode, home=home, relative=True), episode


def driven(machine: Machine, motion: Motion, kind: str) -> tuple[np.ndarray, np.ndarray, bool]:
    """Tip (T, 3) and object (T, 7) while the follower drives, the object where the motion has it; and success."""
    task, _ = task_of(machine, motion, kind)
    name = task.tracked[0]
    arena = Arena(machine.scene, task, 1, play=Play(bank=1, nthread=1, auto_reset=False, stop_at_success=False))
    first = dict(zip(machine.joints, motion.joints[0].tolist(), strict=True))
    facing = float(track.yaw(motion.object_pose[:1, 3:], np)[0])
    seen = arena.reset(setups=[Setup((0.0,), tuple(motion.object_pose[0, :2].tolist()), facing, first)])
    expert = expert_of(task)
    expert.reset(1, 0)
    tips, poses, done = [], [], False
    for _ in range(task.ticks):
        step = arena.step(expert.act(seen)[:, 0])
        seen, done = step.observations, bool(step.succeeded[0])
        tips.append(arena.situation.tips[machine.arm().tip][0].copy())
        poses.append(arena.situation.objects[name][0].copy())
    return np.array(tips), np.array(poses), done


def one_track(machine: Machine, kind: str, seed: int) -> dict[str, Any]:
    """Errors of one track, mm."""
    shown: Shown = human_track(kind, thing_of(machine.scene).half_m, seed)
    begun = time.process_time()
    motion = retarget(shown.track, machine)
    took = time.process_time() - begun
    tips, poses, done = driven(machine, motion, kind)

    def truth(time_s: np.ndarray) -> np.ndarray:
        ticks = time_s / motion.slowed + shown.time_s[0]
        return np.stack([np.interp(ticks, shown.time_s, column) for column in shown.relative_m.T], axis=1)

    planned = own_axes(motion.tip_m, motion.object_pose) - truth(motion.time_s)
    real = own_axes(tips, poses) - truth(motion.time_s[1 : len(tips) + 1])
    planned_mm, real_mm = (1e3 * np.linalg.norm(each, axis=1) for each in (planned, real))
    return {
        "kind": kind,
        "seed": seed,
        "contact": shown.touches,
        "planned_median_mm": float(np.median(planned_mm)),
        "driven_median_mm": float(np.median(real_mm)),
        "driven_p95_mm": float(np.percentile(real_mm, 95)),
        "object_moved_mm": float(1e3 * np.linalg.norm(poses[-1, :3] - poses[0, :3])),
        "object_should_mm": float(1e3 * np.linalg.norm(shown.object_m[-1] - shown.object_m[0])),
        "success": done,
        "slowed": motion.slowed,
        "retarget_cpu_s": took,
    }


class Bare:
    """Sends the motion's own joints, wherever the object lies."""

    def __init__(self, task: TaskSpec) -> None:
        self.contract, self._expert = task.deployable, expert_of(task)

    def reset(self, count: int, seed: int, which: np.ndarray | None = None) -> None:
        self._expert.reset(count, seed, which)

    def act(self, seen: Any) -> np.ndarray:
        return self._expert.act({**seen, "object_off": 0 * np.asarray(seen["object_off"])})


def tracking_policy(machine: Machine, kind: str, seed: int = 0) -> dict[str, Any]:
    """Successes of bare replay, follower and learned policy in the same fresh episodes."""
    motion = retarget(human_track(kind, thing_of(machine.scene).half_m, seed).track, machine)
    task, _ = task_of(machine, motion, kind)
    begun = time.process_time()
    with quiet_torch():
        env = VecEnv(Arena(machine.scene, task, WORLDS, seed=seed))
        mine = DaggerLearner(env, expert_of(task), Dagger(Fit(hidden=(128, 128), noise=0.0)), seed)
        for k in range(ROUNDS):
            mine.restart(k)
            told = mine.iterate()
    policy = policy_of(mine.trained(), task.deployable, Origin({}))
    took = time.process_time() - begun
    found: dict[str, Any] = {"kind": kind, "seed": seed, "ticks": task.ticks, "loss": told["loss/imitation"]}
    for name, actor in (("bare", Bare(task)), ("follower", expert_of(task)), ("policy", actor_of(policy))):
        arena = Arena(machine.scene, task, JUDGED, seed=seed + 1000)
        judged = judge(arena, actor, 0)
        found[f"{name}_successes"] = f"{judged.succeeded} of {judged.episodes}"
    arena = Arena(
        machine.scene, task, 20, seed=seed + 2000, play=Play(bank=20, auto_reset=False, stop_at_success=False)
    )
    actor, seen = actor_of(policy), arena.reset()
    actor.reset(20, 0)
    for _ in range(task.ticks):
        seen = arena.step(actor.act(seen)[:, 0]).observations
    found["policy_mean_error_mm"] = float(1e3 * np.median(task.error(arena.situation)))
    return {**found, "train_cpu_s": took}


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("result", nargs="?", type=Path)
    asked.add_argument("--seeds", type=int, default=3)
    asked.add_argument("--only", choices=("tracks", "policy"))
    chosen = asked.parse_args()
    result: dict[str, Any] = {}
    with TemporaryDirectory() as folder:
        machine = machine_in(Path(folder))
        if chosen.only != "policy":
            rows = [one_track(machine, kind, seed) for kind in KINDS for seed in range(chosen.seeds)]
            result["tracks"] = rows
            for row in rows:
                print({k: round(v, 1) if isinstance(v, float) else v for k, v in row.items()}, flush=True)
        if chosen.only != "tracks":
            result["policies"] = []
            for kind in POLICIES:
                result["policies"].append(tracking_policy(machine, kind))
                print(json.dumps(result["policies"][-1], indent=1), flush=True)
    if chosen.result:
        chosen.result.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
