"""Gaps of many particles on the GPU: as on the CPU within float32, in turns or at once.

Needs CUDA. Without pytest, or on warp's CPU device: `python -m tests.sim.test_shooting_gpu [cpu]`.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.sim.models import ARM
from tests.sim.test_worlds_gpu import CUDA, _missing
from twinproof.nouns.errors import SimError
from twinproof.nouns.randomness import stream
from twinproof.sim.experiment import Experiment
from twinproof.sim.readings import Reading
from twinproof.sim.scene import Scene
from twinproof.sim.shooting import Shooting, Variant

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(bool(_missing()), reason=_missing() or "-")]
SCENE = Scene(ARM)
IDS = (
    "actuator.elbow.delay", "actuator.shoulder.delay", "body.upper.mass", "joint.elbow.damping", "joint.elbow.offset",
    "signal.state.delay", "signal.cube.offset_x",
)  # fmt: skip
LOW = np.array([0.0, 0.0, 0.5, 0.1, -0.1, -0.005, -0.01])
HIGH = np.array([0.03, 0.03, 2.0, 1.0, 0.1, 0.005, 0.01])


def reading(name: str, kind: Any, places: list[int], value: np.ndarray, entries: int | None = None) -> Reading:
    count = entries or len(places)
    time_s = np.arange(len(value)) * 0.01
    labels = tuple(f"{name}.{k}" for k in range(count))
    sd = np.full(count, 0.01)
    return Reading(name, kind, time_s, value, np.array(places), labels, ("",) * count, sd, sd / 10)


def experiment(number: int, scene: Scene = SCENE) -> Experiment:
    """Half a second of a made-up recording: gaps need no truth to be equal."""
    rng = stream(number, "tests", "shooting_gpu")
    model: Any = scene.nominal()
    time_s = np.arange(51) * 0.01
    swing = 0.3 * np.sin(4 * time_s[:, None] + np.array([0.0, 1.0]) + number)
    cube = np.tile(model.qpos0[-7:], (51, 1))
    cube[5, 0] = np.nan
    found = (
        reading("state", "position", [0, 1], swing),
        reading("speed", "velocity", [0, 1], 0.5 * np.cos(4 * time_s[:, None] + np.array([0.0, 1.0]))),
        reading("effort", "torque", [0, 1], rng.normal(0, 0.1, (51, 2))),
        reading("cube", "pose", [2, 3, 4, 5, 6, 7, 8], cube, 6),
    )
    command = np.cumsum(rng.normal(0, 0.05, (25, model.nu)), axis=0)
    return Experiment(f"made up {number}", scene, found, np.arange(25) * 0.02, command, 0.0, 0.5, number)


def shooting(horizon_s: float = 0.25, ids: tuple[str, ...] = IDS, **fixed: float) -> Shooting:
    named = {name.replace("__", "."): value for name, value in fixed.items()}
    return Shooting([experiment(0), experiment(1)], ids, horizon_s, named)


def particles(count: int, low: np.ndarray = LOW, high: np.ndarray = HIGH) -> np.ndarray:
    return stream(3, "tests", "particles").uniform(low, high, (count, 2, len(low)))


def made(which: Shooting, count: int, device: str, **more: Any) -> Any:
    from twinproof.sim.shooting_gpu import GpuShooting

    return GpuShooting(which, count, device=device, **more)


def on_the_cpu(which: Shooting, values: np.ndarray) -> np.ndarray:
    return which.roll([Variant(each, *which.starts) for each in values]).gap


def check_parity(device: str) -> None:
    which, values = shooting(), particles(5)
    gpu = made(which, 5, device, worlds=2 * which.windows)  # in three turns of two, the last filled up
    assert gpu.at_once == 2
    gap = gpu.gaps(values).cpu().numpy()
    expected = on_the_cpu(which, values)
    assert not np.isnan(expected).any()
    for k, entry in enumerate(which.entries):
        mine = which.entry == k
        tolerance = 2e-3 if entry.startswith("speed") else 1e-4
        np.testing.assert_allclose(gap[:, mine], expected[:, mine], rtol=0, atol=tolerance, err_msg=entry)


def test_the_gaps_are_those_of_the_cpu_within_float32() -> None:
    check_parity(CUDA)


def check_cost(device: str) -> None:
    which, values = shooting(), particles(3)
    sd = np.linspace(0.01, 0.1, len(which.entries))
    gpu = made(which, 3, device)
    size = np.abs(on_the_cpu(which, values)) / sd[which.entry]
    np.testing.assert_allclose(gpu.cost(values, sd), 0.5 * np.square(size).sum(axis=1), rtol=1e-3)
    huber = np.where(size < 2, 0.5 * size**2, 2 * size - 2).sum(axis=1)
    np.testing.assert_allclose(gpu.cost(values, sd, robust=2.0), huber, rtol=1e-3)


def test_the_cost_is_that_of_the_gaps_in_sd_with_hubers_bend() -> None:
    check_cost(CUDA)


def check_divergence(device: str) -> None:
    which = shooting(ids=("body.lower.mass", "joint.elbow.damping"))
    values = np.tile(np.array([0.5, 0.5]), (2, 2, 1))
    values[1] = 1e-6, 0.0
    gpu = made(which, 2, device)
    gap, expected = gpu.gaps(values).cpu().numpy(), on_the_cpu(which, values)
    assert not np.isnan(gap[0]).any()
    assert np.isnan(expected[1]).any()
    assert np.mean(np.isnan(gap[1]) == np.isnan(expected[1])) > 0.9
    sd = np.full(len(which.entries), 0.01)
    assert gpu.cost(values, sd, lost=1e3)[1] >= 0.5e6 * np.isnan(gap[1]).sum()


def test_a_particle_that_diverges_has_no_gaps_from_then_on_and_costs_what_was_said() -> None:
    check_divergence(CUDA)


def check_refusals(device: str) -> None:
    other = replace(
        experiment(1), scene=Scene(ARM.replace('mass="1"', 'mass="1.5"', 1).replace("<mujoco>", "<mujoco >"))
    )
    with pytest.raises(SimError, match="the experiments happen in 2 scenes, and a GPU rolls out one at a time"):
        made(Shooting([experiment(0), other], IDS, 0.25), 2, device)
    gpu = made(shooting(), 2, device)
    with pytest.raises(
        SimError, match=r"the particles have the shape \(4, 7\); 2 groups and 7 parameters need \(partic"
    ):
        gpu.gaps(np.zeros((4, 7)))
    slack = shooting(actuator__elbow__backlash=0.01)
    with pytest.raises(SimError, match="backlash is felt from an episode's beginning on"):
        made(slack, 2, device).gaps(particles(2))
    with pytest.raises(SimError, match=r"of 8 worlds had no room for all their contacts or constraints. Give more"):
        made(shooting(), 2, device, contacts=1, constraints=1).gaps(particles(2))


def test_what_the_gpu_cannot_roll_out_is_refused() -> None:
    check_refusals(CUDA)


if __name__ == "__main__":
    for each in (check_parity, check_cost, check_divergence, check_refusals):
        each(sys.argv[1] if len(sys.argv) > 1 else CUDA)
        sys.stdout.write(f"passed: {each.__name__}\n")
