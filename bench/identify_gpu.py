"""How many particles a second a GPU compares with a recording, beside the CPU, and how far the two are apart.

    python -m bench.identify_gpu RESULT.json

A particle is a value for each of ten parameters of the lab's pendulum; it costs 30 windows of 0.5 s, 7,500 physics
steps, and ends as one number, its cost. Needs torch, warp-lang and mujoco_warp; without CUDA it runs a few particles on
warp's CPU device, which shows that it works and nothing about speed.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import torch
import warp as wp
from bench.identify_scene import pendulum
from bench.sections import run_sections

from twinproof.nouns.randomness import stream
from twinproof.sim.shooting import Shooting, Variant
from twinproof.sim.shooting_gpu import GpuShooting

DEVICE = "cuda:0" if wp.is_cuda_available() else "cpu"
COUNTS = (4096, 16384) if DEVICE != "cpu" else (2, 4)
WORLDS = (1 << 16, 1 << 17, 1 << 19) if DEVICE != "cpu" else (64,)
ON_CPU = 256 if DEVICE != "cpu" else 4  # particles for each timing on the CPU
HORIZON_S, SPREAD, ROBUST, ROUNDS = 0.5, 0.1, 4.0, 3
PROBLEM, _ = pendulum(3)
SHOOTING = PROBLEM.shooting(HORIZON_S)


def particles(count: int) -> np.ndarray:
    """Values (count, groups, P) around the nominal ones, a tenth of the prior's range wide."""
    low, high = PROBLEM.span
    drawn = stream(0, "bench", "particles").normal(0, SPREAD, (count, len(low))) * (high - low)
    return np.stack([PROBLEM.values(np.clip(PROBLEM.nominal + each, low, high)) for each in drawn])


def cpu_cost(shooting: Shooting, values: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """The same number as `GpuShooting.cost`, by the reference."""
    rolled = shooting.roll([Variant(each, *shooting.starts) for each in values])
    size = np.nan_to_num(np.abs(rolled.gap) / sd[shooting.entry], nan=50.0)
    cut = np.minimum(size, ROBUST)
    found: np.ndarray = (cut * (size - 0.5 * cut)).sum(axis=1)
    return found


def timed(run: Callable[[], Any]) -> tuple[float, float]:
    """Wall and CPU seconds of the best of some rounds; the first round only warms up."""
    run()
    best = (np.inf, np.inf)
    for _ in range(ROUNDS):
        wall, cpu = time.perf_counter(), time.process_time()
        run()
        best = min(best, (time.perf_counter() - wall, time.process_time() - cpu))
    return best


def agreement() -> dict[str, Any]:
    """The largest difference between the gaps of CPU (float64) and GPU (float32), and of the costs."""
    values, sd = particles(4 if DEVICE == "cpu" else 64), SHOOTING.noise[0]
    gpu = GpuShooting(SHOOTING, len(values), device=DEVICE)
    here = SHOOTING.roll([Variant(each, *SHOOTING.starts) for each in values]).gap
    there = gpu.gaps(values).cpu().numpy()
    found: dict[str, Any] = {"particles": len(values), "windows": SHOOTING.windows}
    for k, entry in enumerate(SHOOTING.entries):
        mine = SHOOTING.entry == k
        found[f"largest difference of {entry}, {SHOOTING.units[k]}"] = float(np.abs(here - there)[:, mine].max())
        found[f"noise of {entry}"] = float(sd[k])
    cost, reference = gpu.cost(values, sd, ROBUST), cpu_cost(SHOOTING, values, sd)
    found["largest relative difference of the cost"] = float(np.abs(cost / reference - 1).max())
    return found


def on_the_cpu() -> dict[str, Any]:
    """Particles a second of `Shooting` on all cores and on one."""
    found: dict[str, Any] = {"cores": os.cpu_count()}
    sd = SHOOTING.noise[0]
    for name, threads, count in (("all cores", 0, ON_CPU), ("one core", 1, ON_CPU // 4)):
        shooting, values = PROBLEM.shooting(HORIZON_S, threads), particles(count)
        wall, cpu = timed(lambda shooting=shooting, values=values: cpu_cost(shooting, values, sd))
        found[f"particles/s, {name}"] = count / wall
        found[f"CPU-seconds a thousand particles, {name}"] = 1e3 * cpu / count
    return found


def on_the_gpu(count: int, result: dict[str, Any]) -> dict[str, Any]:
    """Particles a second by the number of worlds at once, fields and commands sent over included."""
    found: dict[str, Any] = {}
    values, sd, best = particles(count), SHOOTING.noise[0], 0.0
    for worlds in WORLDS:
        begun = time.perf_counter()
        gpu = GpuShooting(SHOOTING, count, device=DEVICE, worlds=worlds, contacts=1, constraints=8)
        gpu.cost(values[: gpu.at_once], sd, ROBUST)
        made_s = time.perf_counter() - begun
        wall, cpu = timed(lambda gpu=gpu: gpu.cost(values, sd, ROBUST))
        label = f"{gpu.count} worlds at once"
        found[f"particles/s, {label}"] = count / wall
        found[f"physics steps/s, {label}"] = count * float(SHOOTING.length.sum()) / wall
        found[f"host CPU-seconds, {label}"] = cpu
        found[f"seconds to make, compile and capture, {label}"] = made_s
        best = max(best, count / wall)
        del gpu
        if DEVICE != "cpu":
            torch.cuda.empty_cache()
    for name in ("all cores", "one core"):
        reference = result.get("on the CPU", {}).get(f"particles/s, {name}")
        if reference:
            found[f"GPU / CPU, {name}"] = best / reference
    return found


def main() -> None:
    wp.config.quiet = True
    result: dict[str, Any] = {"mujoco": mujoco.__version__, "warp": wp.config.version, "device": DEVICE}
    if DEVICE != "cpu":
        result["device"] = torch.cuda.get_device_name()
    sections: dict[str, Callable[[], dict[str, Any]]] = {
        "agreement with the CPU": agreement,
        "on the CPU": on_the_cpu,
        **{f"{count} particles on the GPU": lambda count=count: on_the_gpu(count, result) for count in COUNTS},
    }
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    run_sections(result, sections, path)


if __name__ == "__main__":
    main()
