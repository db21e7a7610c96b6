"""Closed-loop trials in the twin: all at once against one at a time in a process pool: `python -m bench.evaluate`.

A network of two layers of 128 acts in every trial and never succeeds, so that every trial runs to its horizon. Side by
side:

batched    evaluate.closed_loop.run_jobs: all trials in one arena, threads inside MuJoCo
pool       a process for each core, one world in each, trial after trial through the same code
lean pool  a process for each core; a trial is a loop over mj_step written by hand for this task: its own observation,
           three matrix products, no noise, no delays, no trace but lists. The best that one at a time can be
script     the task's script, whose trials end when they succeed: batched, and in the pool

CPU seconds of the pools are those of their trials; starting processes and compiling are left out. Wall has both.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from twinproof.evaluate.closed_loop import Batch, Job, run_jobs
from twinproof.evaluate.deploy import begins
from twinproof.lab.benches import bench
from twinproof.nouns.panel import Cell, Condition, Domain, trial_seed
from twinproof.nouns.policy import Policy
from twinproof.nouns.randomness import stream
from twinproof.nouns.theta import Theta
from twinproof.policies.load import actor_of
from twinproof.sim.scene import Scene
from twinproof.tasks import push, reach
from twinproof.tasks.experts import expert_of
from twinproof.tasks.task import TaskSpec

HIDDEN = 128


def task_on(name: str) -> TaskSpec:
    """Reach on the pendulum (two joints, 100 Hz) or push on the arm (an object, contacts, 20 Hz)."""
    named = bench("pendulum" if name == "reach" else "push")
    if name == "reach":
        return reach.of(Scene(named.robot_text()))
    from twinproof.lab.models import textures

    folder = Path(tempfile.gettempdir()) / "twinproof-bench-evaluate"
    folder.mkdir(exist_ok=True)
    for file, data in textures.assets().items():
        (folder / file).write_bytes(data)
    return push.of(Scene(named.nominal_scene(None, named.plant(0)), folder), home=named.home)


def network(task: TaskSpec) -> Policy:
    """Random weights, small outputs."""
    rng = stream(0, "bench", "evaluate")
    wide = sum(int(np.prod(channel.shape)) for channel in task.deployable.observations)
    layers = [wide, HIDDEN, HIDDEN, len(task.contract.actions)]
    weights: dict[str, np.ndarray] = {}
    for k, (a, b) in enumerate(itertools.pairwise(layers)):
        weights[f"layers.{k}.weight"] = (rng.normal(size=(b, a)) * 0.3 / np.sqrt(a)).astype(np.float32)
        weights[f"layers.{k}.bias"] = np.zeros(b, np.float32)
    architecture = {"layers": layers, "activation": "elu", "output": "limits"}
    return Policy("mlp", task.deployable, {}, architecture, weights)


def jobs_of(task: TaskSpec, count: int) -> list[Job]:
    """Trials with seeds and parameters of their own."""
    found = []
    body = "lower_link" if task.name == "reach" else task.tracked[0]
    for k in range(count):
        condition = Condition(f"h{k:04d}", f"e{k}", k)
        cell = Cell("net", condition, Domain("draws", "draws", 1), 0, trial_seed(condition, 0))
        nominal = 0.46 if task.name == "reach" else 0.15
        theta = Theta({f"body.{body}.mass": nominal * float(stream(k, "mass").uniform(0.9, 1.1))})
        found.append(Job(cell, theta, begins(task, cell)))
    return found


def _alone(asked: tuple[str, int, int], scripted: bool = False) -> tuple[int, float]:
    """A share of the trials through the same code, one at a time; the CPU seconds that they took."""
    name, first, count = asked
    task = task_on(name)
    actor = expert_of(task) if scripted else actor_of(network(task))
    jobs, how = jobs_of(task, first + count)[first:], Batch(nthread=1, worlds=1)
    run_jobs(task.machine.scene, task, actor, jobs[:1], how)
    begun = time.process_time()
    count = len(run_jobs(task.machine.scene, task, actor, jobs, how))
    return count, time.process_time() - begun


def _alone_scripted(asked: tuple[str, int, int]) -> tuple[int, float]:
    return _alone(asked, scripted=True)


def _lean(asked: tuple[str, int, int]) -> tuple[int, float]:
    """A share of the trials by hand; the CPU seconds that they took."""
    import mujoco

    name, first, count = asked
    task = task_on(name)
    jobs = jobs_of(task, first + count)[first:]
    policy = network(task)
    w = [policy.weights[f"layers.{k}.weight"].T.copy() for k in range(3)]
    machine = task.machine
    model = machine.scene.leaner().compile()
    data = mujoco.MjData(model)
    at, dof = machine.qpos_at, machine.qvel_at
    middle = np.array([(c.low + c.high) / 2 for c in task.contract.actions])
    half = np.array([(c.high - c.low) / 2 for c in task.contract.actions])
    thing = None if not task.tracked else model.body(task.tracked[0]).id
    body = model.body("lower_link" if thing is None else task.tracked[0]).id
    mass, inertia = float(model.body_mass[body]), model.body_inertia[body].copy()
    step = machine.limits.speed / machine.rate_hz
    wide = w[0].shape[0]
    begun = time.process_time()
    for job in jobs:
        mujoco.mj_resetData(model, data)
        kg = next(iter(job.theta.values()))
        model.body_mass[body], model.body_inertia[body] = kg, inertia * kg / mass
        mujoco.mj_setConst(model, data)
        data.qpos[at] = machine.home
        goal = np.array(job.setup.goal)
        if thing is not None and job.setup.at_m is not None:
            place = int(model.jnt_qposadr[model.body_jntadr[thing]])
            data.qpos[place : place + 2] = job.setup.at_m
        mujoco.mj_forward(model, data)
        last = np.zeros(len(at)) if machine.torque_driven else machine.home.copy()
        rows = []
        for _ in range(task.ticks):
            q, v = data.qpos[at], data.qvel[dof]
            parts = [q, v, last, np.sin(q), np.cos(q), goal]
            if thing is not None:
                parts = [q, v, last, data.xpos[thing], data.xmat[thing][:6], goal]
            x = np.zeros(wide, np.float32)
            flat = np.concatenate(parts)[:wide]
            x[: len(flat)] = flat
            for k in range(2):
                x = x @ w[k]
                x = np.where(x > 0, x, np.expm1(np.minimum(x, 0)))
            told = np.clip(middle + half * (x @ w[2]), machine.limits.low, machine.limits.high)
            told = np.clip(told, last - step, last + step)
            data.ctrl[:] = last = told
            mujoco.mj_step(model, data, machine.substeps)
            error = np.abs(goal[: len(at)] - data.qpos[at][: len(goal)]).max()
            rows.append((q.copy(), v.copy(), told, error))
        assert len(rows) == task.ticks
    return len(jobs), time.process_time() - begun


def timed(work: Callable[[], int | tuple[int, float]]) -> dict[str, float]:
    """Wall and CPU seconds of all processes, and trials a second of each; CPU as the work says, where it does."""
    before, begun = _cpu(), time.perf_counter()
    found = work()
    wall = time.perf_counter() - begun
    count, cpu = (found, _cpu() - before) if isinstance(found, int) else found
    return {"trials": count, "wall_s": wall, "cpu_s": cpu, "per_wall_s": count / wall, "per_cpu_s": count / cpu}


def _cpu() -> float:
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


def pooled(
    work: Callable[[tuple[str, int, int]], tuple[int, float]], name: str, trials: int, cores: int
) -> tuple[int, float]:
    """Shares of the trials in a process each; trials and CPU seconds of all."""
    each = trials // cores
    with ProcessPoolExecutor(cores) as pool:
        found = list(pool.map(work, [(name, k * each, each) for k in range(cores)]))
    return sum(count for count, _ in found), sum(cpu for _, cpu in found)


def side_by_side(name: str, trials: int, few: int, cores: int) -> dict[str, Any]:
    """The three contenders, one after the other, the batch once before and once after; ratios of trials a second."""
    task = task_on(name)
    actor, jobs = actor_of(network(task)), jobs_of(task, trials)
    run_jobs(task.machine.scene, task, actor, jobs[:2])  # what is compiled once is compiled now
    scene = task.machine.scene
    first = timed(lambda: len(run_jobs(scene, task, actor, jobs, Batch(nthread=cores))))
    lean = timed(lambda: pooled(_lean, name, trials, cores))
    pool = timed(lambda: pooled(_alone, name, few, cores))
    again = timed(lambda: len(run_jobs(scene, task, actor, jobs, Batch(nthread=cores))))
    found: dict[str, Any] = {"batched": first, "lean pool": lean, "pool": pool, "batched again": again}
    ends = timed(lambda: len(run_jobs(scene, task, expert_of(task), jobs, Batch(nthread=cores))))
    alone = timed(lambda: pooled(_alone_scripted, name, few, cores))
    found |= {"script, batched": ends, "script, pool": alone}
    found["script, ratio to pool, per_cpu_s"] = ends["per_cpu_s"] / alone["per_cpu_s"]
    for kind in ("per_wall_s", "per_cpu_s"):
        batch = (first[kind] + again[kind]) / 2
        found[f"ratio to lean pool, {kind}"] = batch / lean[kind]
        found[f"ratio to pool, {kind}"] = batch / pool[kind]
    return found


def main() -> None:
    """Prints a table and writes a JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=["reach", "push"])
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--few", type=int, default=40, help="trials of the pool that runs the same code")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    found = {}
    for name in asked.tasks:
        found[name] = side_by_side(name, asked.trials, asked.few, asked.cores)
        print(f"== {name}, {asked.trials} trials, {asked.cores} cores")
        for who, told in found[name].items():
            shown = told if isinstance(told, float) else {k: round(v, 2) for k, v in told.items()}
            print(f"   {who}: {shown}", flush=True)
    if asked.out:
        asked.out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
