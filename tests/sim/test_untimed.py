"""The engine's clock is out of it, and nothing that it computes depends on it."""

from __future__ import annotations

import subprocess
import sys

import mujoco
import numpy as np

from tests.sim.motions import PENDULUM
from twinproof.sim.untimed import stop_clocks

STEPS = """
import mujoco, sys
if sys.argv[1] == "scene":
    from twinproof.sim.scene import Scene
    Scene(sys.argv[2]).nominal()
elif sys.argv[1] == "text":
    from twinproof.sim.world import compile_text
    compile_text(sys.argv[2])
model = mujoco.MjModel.from_xml_string(sys.argv[2])
data = mujoco.MjData(model)
data.qpos[:] = 0.5
for _ in range(200):
    mujoco.mj_step(model, data)
timer = data.timer[mujoco.mjtTimer.mjTIMER_STEP]
print(timer.number, timer.duration > 0, data.qpos.tobytes().hex(), data.qvel.tobytes().hex())
"""


def told(clock: str) -> list[str]:
    """What a fresh process counts, whether it timed it, and where the pendulum is in the end."""
    return subprocess.run(
        [sys.executable, "-c", STEPS, clock, PENDULUM], capture_output=True, text=True, check=True
    ).stdout.split()


def test_steps_are_the_same_to_the_last_bit_without_the_clock() -> None:
    within, *without = told("in"), told("scene"), told("text")
    assert within[:2] == ["200", "True"]  # if this fails the package has no clock any more: delete sim/untimed.py
    for out in without:  # whichever way the first model is compiled
        assert out[:2] == ["200", "False"]
        assert out[2:] == within[2:]


def test_a_clock_that_somebody_else_put_in_stays() -> None:
    seen = np.zeros(1)

    def clock() -> float:
        seen[0] += 1
        return float(seen[0])

    stop_clocks.cache_clear()
    mujoco.set_mjcb_time(clock)
    try:
        assert not stop_clocks()
        model = mujoco.MjModel.from_xml_string(PENDULUM)
        mujoco.mj_step(model, mujoco.MjData(model))
        assert seen[0] > 0
    finally:
        mujoco.set_mjcb_time(None)
        stop_clocks.cache_clear()
    assert stop_clocks()
