"""Policies for the pendulum's reach that are code: gravity held up by nominal numbers, and a spring to the goal."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from twinproof.policies.scripted import Scripted
from twinproof.tasks.task import TaskSpec


def spring(task: TaskSpec, stiffness: float = 1.0) -> Scripted:
    """Stiff ones shake where commands come late: a twin without delay does not know that."""

    def script(seen: Mapping[str, np.ndarray]) -> np.ndarray:
        first, both = seen["joint_position"][:, 0], seen["joint_position"].sum(axis=1)
        lower = 9.81 * 0.46 * 0.16 * np.sin(both)
        upper = 9.81 * (0.62 * 0.17 + 0.46 * 0.30) * np.sin(first) + lower
        pull = np.array([12.0, 4.0]) * seen["to_goal"] - np.array([1.2, 0.35]) * seen["joint_velocity"]
        return stiffness * pull + np.stack([upper, lower], axis=1)

    return Scripted(task.deployable, script)
