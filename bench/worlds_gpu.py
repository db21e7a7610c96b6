"""How fast worlds step on a GPU, beside bare mujoco_warp, and how far they are from the CPU's.

    python -m bench.worlds_gpu RESULT.json

Needs CUDA, torch, warp-lang and mujoco_warp. Each section stands alone: one that fails prints its traceback and the
others go on. Kernels are compiled before anything is timed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mujoco
import mujoco_warp as mjw
import numpy as np
import torch
import warp as wp
from bench.arm_and_cube import SUBSTEPS, scene, thetas
from bench.sections import run_sections
from bench.worlds_scenes import PARITY, parity

from twinproof.sim.population import field_rows
from twinproof.sim.worlds_gpu import GpuWorlds

ROUNDS, CONTROLS = 5, 10
DEVICE = "cuda:0" if wp.is_cuda_available() else "cpu"
COUNTS = (8192, 65536) if DEVICE != "cpu" else (4, 8)
LADDER = (1, 8, 64, 512, 4096, 8192, 16384, 32768, 65536) if DEVICE != "cpu" else (1, 2)
CONTACTS, CONSTRAINTS = 24, 96  # room for each world


def _wait() -> None:
    if DEVICE != "cpu":
        torch.cuda.synchronize()
    wp.synchronize()


def _controls(count: int) -> torch.Tensor:
    drawn = torch.randn((CONTROLS, count, 8), generator=torch.Generator().manual_seed(0)).mul(0.05).cumsum(0)
    drawn[..., 6:] = 0.02
    return drawn.to("cuda" if DEVICE != "cpu" else "cpu")


def bare(count: int, per_world: bool) -> Callable[[torch.Tensor], None]:
    """mujoco_warp alone: the same model, one captured graph of ten steps, controls copied in; nothing else."""
    host = scene().nominal()
    rows = field_rows(scene(), thetas(count)) if per_world else {}
    fields = {
        name: value
        for name, value in rows.items()
        if hasattr(mjw.Model, "__dataclass_fields__") and name in mjw.Model.__dataclass_fields__
    }
    model = mjw.put_model(host, batch_sizes=dict.fromkeys(fields, count))
    model.opt.warn_overflow = 0
    for name, value in fields.items():
        view = wp.to_torch(getattr(model, name))
        view.copy_(torch.as_tensor(value.reshape(tuple(view.shape))).to(view.device, view.dtype))
    data = mjw.make_data(host, nworld=count, nconmax=CONTACTS, njmax=CONSTRAINTS)
    mjw.reset_data(model, data)
    ctrl = wp.to_torch(data.ctrl)

    def work() -> None:
        for _ in range(SUBSTEPS):
            mjw.step(model, data)

    if DEVICE == "cpu":
        work()
        return lambda control: (ctrl.copy_(control), work(), None)[2]
    with wp.ScopedDevice(DEVICE):
        work()
        with wp.ScopedCapture(device=wp.get_device(DEVICE)) as capture:
            work()

    def step(control: torch.Tensor, kept: Any = (model, data)) -> None:  # a graph does not keep its arrays alive
        ctrl.copy_(control)  # on torch's default stream, which waits for warp's and is waited for
        with wp.ScopedDevice(DEVICE):
            wp.capture_launch(capture.graph)

    return step


def ours(count: int, per_world: bool = True) -> GpuWorlds:
    return GpuWorlds(
        scene(), thetas(count) if per_world else count, device=DEVICE, contacts=CONTACTS, constraints=CONSTRAINTS
    )


def timed(run: Callable[[], None]) -> float:
    _wait()
    begun = time.perf_counter()
    run()
    _wait()
    return time.perf_counter() - begun


def ratio(count: int) -> dict[str, Any]:
    """Ours with per-world physics against bare stepping with and without it; the contenders take turns."""
    sent = _controls(count)
    begun = time.perf_counter()
    worlds = ours(count)
    ways: dict[str, Callable[[torch.Tensor], None]] = {
        "ours": lambda control: worlds.step(control, SUBSTEPS),
        "bare, per-world fields": bare(count, True),
        "bare, one model": bare(count, False),
    }
    for step in ways.values():
        for control in sent[:2]:
            step(control)
    _wait()
    made_s = time.perf_counter() - begun
    best = dict.fromkeys(ways, np.inf)
    for _ in range(ROUNDS):
        for name, step in ways.items():

            def run(step: Callable[[torch.Tensor], None] = step) -> None:
                for control in sent:
                    step(control)

            best[name] = min(best[name], timed(run))
    steps = count * CONTROLS * SUBSTEPS
    found: dict[str, Any] = {name: steps / seconds for name, seconds in best.items()}
    found["ours / bare, per-world fields"] = best["bare, per-world fields"] / best["ours"]
    found["ours / bare, one model"] = best["bare, one model"] / best["ours"]
    found["diverged worlds"] = int(worlds.diverged.sum())
    found["worlds without room for a contact or constraint"] = int((worlds.overflow & 0xFF != 0).sum())
    found["seconds to make, send fields, compile and capture"] = made_s
    mask = torch.rand(count, device=worlds.qpos.device) < 0.1
    worlds.reset(mask)
    found["ms to reset a tenth by a mask"] = 1e3 * min(timed(lambda: worlds.reset(mask)) for _ in range(3))
    worlds.fill_bank(thetas(min(count, 1024)))
    draws = torch.randint(0, min(count, 1024), (count,), device=mask.device)
    worlds.reset(mask, bank=draws)
    found["ms to reset a tenth with new physics from the bank"] = 1e3 * min(
        timed(lambda: worlds.reset(mask, bank=draws)) for _ in range(3)
    )
    return found


def ladder() -> dict[str, Any]:
    """Nanoseconds of wall time for a world's physics step, by the number of worlds."""
    found = {}
    for count in LADDER:
        worlds, sent = ours(count), _controls(count)
        for control in sent[:2]:
            worlds.step(control, SUBSTEPS)

        def run(worlds: GpuWorlds = worlds, sent: torch.Tensor = sent) -> None:
            for control in sent:
                worlds.step(control, SUBSTEPS)

        found[str(count)] = 1e9 * min(timed(run) for _ in range(3)) / (count * CONTROLS * SUBSTEPS)
        del worlds
    return found


def agreement() -> dict[str, Any]:
    """The largest difference between CPU (float64) and GPU (float32) after so many physics steps, by scene."""
    return {name: parity(name, DEVICE) for name in PARITY}


def main() -> None:
    wp.config.quiet = True
    result: dict[str, Any] = {"mujoco": mujoco.__version__, "warp": wp.config.version, "device": DEVICE}
    if DEVICE != "cpu":
        result["device"] = torch.cuda.get_device_name()
    sections: dict[str, Callable[[], dict[str, Any]]] = {
        "agreement with the CPU": agreement,
        **{f"physics steps per second at {count} worlds": lambda count=count: ratio(count) for count in COUNTS},
        "ns per world and physics step": ladder,
    }
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    run_sections(result, sections, path)


if __name__ == "__main__":
    main()
