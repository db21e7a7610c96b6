"""Who follows a planned motion by the numbers: moved along with the object, where that lies elsewhere at first."""

from __future__ import annotations

import numpy as np

from twinproof.nouns.theta import Theta
from twinproof.tasks.grasp import columns, kinematics
from twinproof.tasks.script import Lead, Seen, offsets_of
from twinproof.tasks.task import TaskSpec

PER_RAD_M, STEPS = 0.05, 2
NOMINAL = Theta()


class Follower:
    """Tells the joints of the motion's next tick, its tip moved as far as the object was off when the episode began."""

    def __init__(self, task: TaskSpec, theta: Theta = NOMINAL) -> None:
        self.contract, self._task = task.deployable, task
        machine = task.machine
        self._solver, self._mine = kinematics(machine, machine.arm()), columns(machine, machine.arm())
        self._lead, self._offset = Lead(machine, theta), offsets_of(machine, theta)
        self._low, self._high = machine.limits.low, machine.limits.high
        self._off = np.zeros((0, 3))
        self._new = np.ones(0, dtype=bool)

    def reset(self, count: int, seed: int, which: np.ndarray | None = None) -> None:
        """Looks anew, at the next observation, where the object lies in the worlds of the mask."""
        if which is None or len(self._new) != count:
            self._off, self._new = np.zeros((count, 3)), np.ones(count, dtype=bool)
        else:
            self._new |= np.asarray(which)

    def act(self, observations: Seen) -> np.ndarray:
        """(N, 1, A)."""
        seen = {name: np.asarray(rows, dtype=np.float64) for name, rows in observations.items()}
        self._off[self._new] = seen["object_off"][self._new]
        self._off[:, 2] = 0.0
        self._new[:] = False
        wanted = seen["reference_joints"].copy()
        place, turn, _ = self._solver.poses(wanted[:, self._mine])
        moved = self._solver.towards(wanted[:, self._mine], place + self._off, turn, PER_RAD_M, STEPS)
        wanted[:, self._mine] = moved
        told = np.clip(wanted + self._lead(wanted) + self._offset, self._low, self._high)
        action: np.ndarray = told - seen["last_command"] if self._task.relative else told
        return action[:, None]
