"""What the training benches are about: the arm over a table with a cube, each world with its own physics."""

from __future__ import annotations

from bench.arm_and_cube import SUBSTEPS, scene, thetas

from twinproof.tasks import push, reach
from twinproof.tasks.task import TaskSpec

HOME = {"base": 0.0, "shoulder": 0.6, "elbow": 0.9, "wrist_1": 0.6, "wrist_2": 0.0, "wrist_3": 0.0}
HOME |= {"left": 0.0, "right": 0.0}
RATE_HZ = 1 / (SUBSTEPS * 0.002)
DRAWS = 256  # Thetas that worlds take in turn
HIDDEN = (128, 128)


def reach_task() -> TaskSpec:
    """The hand to a place within 2 cm for 0.3 s, 3 s long, 50 actions a second that move the last command."""
    return reach.of(scene(), home=HOME, tip="hand", rate_hz=RATE_HZ, relative=True)


def push_task() -> TaskSpec:
    """The cube to a mark within 3 cm."""
    return push.of(scene(), home=HOME, tip="hand", body="cube", rate_hz=RATE_HZ, relative=True)


__all__ = ["DRAWS", "HIDDEN", "HOME", "RATE_HZ", "push_task", "reach_task", "scene", "thetas"]
