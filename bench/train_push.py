"""Where the time of `push` on a GPU goes, and what faster physics would cost in accuracy.

`python -m bench.train_push [RESULT.json]`         4,096 worlds on cuda: environment steps a second of each variant
`python -m bench.train_push --kernels [RESULT.json]`   which kernels a tick's time goes to
`python -m bench.train_push --learned [RESULT.json]`   what policies learned in a variant do in the scene as it is
`python -m bench.train_push --cpu [RESULT.json]`   a few worlds on the CPU: the accuracy alone, and that it runs

Names of variants after the file choose some of them. A variant changes the engine's options alone: how often the
contact solver may try, how long a physics step is; or how it is launched: ticks replayed as CUDA graphs, chains of
kernels side by side. Accuracy: the expert's own commands of 48 pushes, played into worlds of the
variant and of the scene as it is, on the CPU in float64; how far apart joints and the cube are after two seconds and
after the whole push.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from bench.arm_and_cube import text
from bench.sections import run_sections
from bench.train_gpu import PUSH, wait
from bench.train_scene import DRAWS, HOME, thetas

from twinproof.policies.load import actor_of
from twinproof.sim.scene import Scene
from twinproof.sim.worlds import Worlds
from twinproof.tasks import push
from twinproof.tasks.arena import Arena, Play
from twinproof.tasks.experts import expert_of
from twinproof.train.judge import judge
from twinproof.train.ppo import PpoLearner
from twinproof.train.torch_extra import check_device, quiet_torch, seed_torch
from twinproof.train.vec_env import VecEnv
from twinproof.train.written import Origin, policy_of

CONTROL_S, STEP_S = 0.02, 0.002
REPEATS, ITERATIONS, PUSHES, JUDGED = 3, 4, 48, 200
LEARNED = 12_000_000 if "--cpu" not in sys.argv else 2_000


@dataclass(frozen=True)
class Variant:
    """Options of the engine; None leaves them as they are."""

    iterations: int | None = None
    line_search: int | None = None
    tolerance: float | None = None
    step_s: float = STEP_S
    coarse: int = 1  # as `twinproof train --coarse` has it
    graphs: bool = True
    lanes: bool = True  # chains of kernels side by side (sim/lanes_gpu.py)

    def scene(self) -> Scene:
        """The bench's scene with these options."""
        options = f'timestep="{self.step_s:g}"'
        options += f' iterations="{self.iterations}"' if self.iterations else ""
        options += f' ls_iterations="{self.line_search}"' if self.line_search else ""
        options += f' tolerance="{self.tolerance:g}"' if self.tolerance else ""
        return Scene(text().replace(f'timestep="{STEP_S:g}"', options), control_delay_s=0.01).coarser(self.coarse)

    @property
    def substeps(self) -> int:
        """Physics steps of one control."""
        return round(CONTROL_S / self.step_s / self.coarse)


VARIANTS = {
    "as it is": Variant(),
    "as it is, one chain": Variant(lanes=False),
    "as it is, kernel by kernel": Variant(graphs=False),
    "solver 10, line search 10": Variant(10, 10),
    "solver 6, line search 10": Variant(6, 10),
    "solver 4, line search 6": Variant(4, 6),
    "4 ms a step": Variant(step_s=0.004),
    "coarse 2": Variant(coarse=2),
    "solver 4, line search 6, 4 ms a step": Variant(4, 6, step_s=0.004),
    "solver 4, line search 6, 5 ms a step": Variant(4, 6, step_s=0.005),
}


def arena(variant: Variant, worlds: int, device: str, anew: bool = True) -> Arena:
    scene = variant.scene()
    task = push.of(scene, home=HOME, tip="hand", body="cube", rate_hz=1 / CONTROL_S, relative=True)
    play = Play(auto_reset=anew, bank=DRAWS * 16 if anew else worlds)
    found = Arena(scene, task, worlds, draws=thetas(DRAWS), play=play, device=device)
    if device != "cpu" and not variant.lanes:
        found.backing.worlds._lanes = None  # no step is recorded yet
    return found


def throughput(variant: Variant, device: str, worlds: int) -> dict[str, Any]:
    """Training steps a second, and where a tick's time goes."""
    env = VecEnv(arena(variant, worlds, device), device, graphs=variant.graphs)
    mine = PpoLearner(env, PUSH, seed=0)
    mine.restart(0)
    mine.iterate()
    mine.iterate()
    rates, told = [], {"collect_s": 0.0, "learn_s": 0.0}
    for _ in range(REPEATS):
        before = wait(device)
        for _ in range(ITERATIONS):
            one = mine.iterate()
            told = {name: told[name] + one[name] for name in told}
        rates.append(ITERATIONS * mine.steps / (wait(device) - before))
    counted, ticks = mine.env.counted(), REPEATS * ITERATIONS * PUSH.rollout
    found = {"env_steps_per_s": float(np.median(rates)), "of": [round(rate) for rate in rates]}
    found |= {"collect_ms_a_tick": 1e3 * told["collect_s"] / ticks, "learn_ms_a_tick": 1e3 * told["learn_s"] / ticks}
    found |= {"ended": counted["ended"], "diverged": counted["diverged"]}
    return found | _parts(mine, device)


def kernels(variant: Variant, device: str, worlds: int, ticks: int = 8) -> dict[str, Any]:
    """What runs on the device in some ticks of physics alone: µs and launches a tick by kernel, longest first."""
    import torch

    env = VecEnv(arena(variant, worlds, device), device)
    zero, backing = torch.zeros(env.num_envs, env.num_actions, device=device), env.arena.backing
    for _ in range(24):
        env.step(zero)
    ctrl = backing.view("ctrl") + 0
    wait(device)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        for _ in range(ticks):
            backing.step(ctrl)
        wait(device)
    rows = sorted(seen.key_averages(), key=lambda row: -row.device_time_total)
    told = {row.key: [round(row.device_time_total / ticks, 1), round(row.count / ticks, 1)] for row in rows[:60]}
    whole = {"us_a_tick": sum(r.device_time_total for r in rows), "launches": sum(r.count for r in rows)}
    return {name: value / ticks for name, value in whole.items()} | told


def learned(variant: Variant, device: str, worlds: int, seeds: int = 2, most: int = LEARNED) -> dict[str, Any]:
    """What policies that learn in a variant do in the scene as it is: episodes without exploration, on the CPU."""
    env, panel = VecEnv(arena(variant, worlds, device), device), arena(Variant(), JUDGED, "cpu")
    found: dict[str, Any] = {"steps": most}
    for seed in range(1, seeds + 1):
        mine = PpoLearner(env, PUSH, seed)
        seed_torch(seed, "bench", "push")
        mine.restart(seed)
        begun, steps = wait(device), 0
        while steps < most:
            mine.iterate()
            steps += mine.steps
        took, exploring = wait(device) - begun, env.counted()
        actor = actor_of(policy_of(mine.trained(), env.arena.task.deployable, Origin({})))
        success = judge(panel, actor, 0).success
        found[f"seed {seed}"] = {"success in the scene as it is": success, "wall_s": took, "steps": steps}
        found[f"seed {seed}"] |= {"exploring": exploring["succeeded"] / max(1.0, exploring["ended"])}
    return found


def _parts(mine: PpoLearner, device: str) -> dict[str, Any]:
    """Milliseconds of a tick's parts, each alone, the device waited for."""
    import torch

    env, backing = mine.env, mine.env.arena.backing
    ctrl = backing.view("ctrl") + 0  # the worlds keep what they were told last
    seen, zero = env.get_observations(), torch.zeros(env.num_envs, env.num_actions, device=device)
    mine.algorithm.storage.step = 1  # at the first tick of a rollout the noise of all is drawn
    with torch.no_grad():
        found = {
            "policy_ms": timed(lambda: mine.rule.act(seen), device),
            "env_step_ms": timed(lambda: env.step(zero), device),
            "physics_ms": timed(lambda: backing.step(ctrl), device),
        }
    mine.algorithm.storage.clear()
    if device != "cpu":
        tried = backing.view("solver_niter").float()
        found |= {"solver_mean": float(tried.mean()), "solver_most": float(tried.max())}
        found |= {"rows_most": float(backing.view("nefc").max()), "overflow": float(backing.worlds.overflow.max())}
    return found


def timed(work: Callable[[], object], device: str, times: int = 20) -> float:
    """Milliseconds of one call."""
    work()
    before = wait(device)
    for _ in range(times):
        work()
    return 1e3 * (wait(device) - before) / times


def pushes(count: int) -> tuple[list[Any], np.ndarray, np.ndarray]:
    """Thetas, starts (N, nq) and commands (T, N, nu) of the expert's pushes."""
    own = arena(Variant(), count, "cpu", anew=False)
    expert = expert_of(own.task)
    seen, given = own.restart(0), thetas(DRAWS)[:count]
    expert.reset(count, 0)
    start, sent = np.array(own.backing.worlds.qpos), []
    for _ in range(own.task.ticks - 1):
        step = own.step(np.asarray(expert.act(seen))[:, 0])
        sent.append(np.array(own.backing.view("ctrl")))
        seen = step.observations
    return given, start, np.array(sent)


def accuracy(count: int) -> dict[str, Any]:
    """How far each variant's worlds are from those of the scene as it is, given the same commands."""
    given, start, sent = pushes(count)
    begun, ends = time.process_time(), {}
    for name, variant in VARIANTS.items():
        if not (variant.graphs and variant.lanes):
            continue
        worlds = Worlds(variant.scene().leaner(), given, substeps=variant.substeps)
        worlds.reset(qpos=start, ctrl=sent[0])
        path = []
        for ctrl in sent:
            worlds.step(ctrl)
            path.append(np.array(worlds.qpos))
        ends[name] = np.array(path)
    joints, cube = slice(0, 8), slice(8, 10)
    moved = np.linalg.norm(ends["as it is"][-1][:, cube] - start[:, cube], axis=1)
    found: dict[str, Any] = {"pushes": count, "moved_m": float(np.median(moved)), "cpu_s": time.process_time() - begun}
    for name, path in ends.items():
        off = path - ends["as it is"]
        rows = {}
        for when, tick in (("2 s", 100), ("end", len(off) - 1)):
            far = np.linalg.norm(off[min(tick, len(off) - 1)][:, cube], axis=1)
            turned = np.abs(off[min(tick, len(off) - 1)][:, joints]).max(axis=1)
            rows[when] = {"cube_m": _spread(far), "joint_rad": _spread(turned)}
        found[name] = rows
    return found


def _spread(values: np.ndarray) -> list[float]:
    """Median, nine in ten, most."""
    return [float(f"{v:.3g}") for v in (np.median(values), np.quantile(values, 0.9), values.max())]


def main(device: str, path: Path | None, worlds: int, only: Sequence[str] = ()) -> None:
    check_device(device)
    result: dict[str, Any] = {"worlds": worlds, "device": device, "bar": 500_000}
    sections: dict[str, Callable[[], Any]] = {}
    if not only:
        sections["accuracy"] = lambda: accuracy(PUSHES)
    chosen = VARIANTS if device != "cpu" else {"as it is": VARIANTS["as it is"]}
    work = kernels if "--kernels" in sys.argv else learned if "--learned" in sys.argv else throughput
    for name, variant in {k: v for k, v in chosen.items() if not only or k in only}.items():
        sections[name] = lambda variant=variant: work(variant, device, worlds)  # type: ignore[misc]
    with quiet_torch():
        run_sections(result, sections, path)


if __name__ == "__main__":
    cpu = "--cpu" in sys.argv
    plain = [each for each in sys.argv[1:] if not each.startswith("--")]
    main("cpu" if cpu else "cuda", Path(plain[0]) if plain else None, 16 if cpu else 4096, plain[1:])
