"""A drive at work in worlds that are stepped together: delays first, then its law, at every physics step.

told (N, nu) ─ as late as each world's Theta says ─> law ─> controls, torques on the joints
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.nouns.drive import Drive
from twinproof.nouns.theta import Theta
from twinproof.sim.drive import law_of
from twinproof.sim.law import Action, Moment, finite, plant, without_delays

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int


class Driver:
    """Remembers, for every world, the commands that are under way and those that the law looks back on."""

    def __init__(self, model: Any, drive: Drive, count: int) -> None:
        self._model, self._drive, self._plant = model, drive, plant(model)
        self._late = np.zeros((count, model.nu))  # physics steps
        self._told = np.zeros((count, 2, model.nu))  # newest last; longer where delays are
        law = law_of(drive)
        self._arrived = np.zeros((count, law.memory(self._plant.step_s) + 1, model.nu))
        still = Moment(np.zeros((count, model.nq)), np.zeros((count, model.nv)), self._arrived)
        self._running = type(law).running([law], np.zeros(count, dtype=np.int64), self._plant, still)

    def take(self, rows: Int[np.ndarray, "some"], thetas: Sequence[Theta]) -> list[Theta]:
        """What is left of some worlds' Thetas for the physics: the drive's own values in them, delays taken out."""
        inside, late_s = without_delays(self._model, [self._drive.applied(theta) for theta in thetas])
        self._late[rows] = late_s / self._plant.step_s
        lacking = int(np.floor(self._late.max(initial=0.0) + 1e-9)) + 2 - self._told.shape[1]
        if lacking > 0:
            oldest = np.repeat(self._told[:, :1], lacking, axis=1)
            self._told = np.concatenate([oldest, self._told], axis=1)
        return inside

    def restart(self, rows: Int[np.ndarray, "some"], qpos: np.ndarray, qvel: np.ndarray, ctrl: np.ndarray) -> None:
        """Some worlds begin anew; the arrays are of all worlds, and `ctrl` is what they were told before."""
        self._told[rows] = self._arrived[rows] = ctrl[rows][:, np.newaxis]
        self._running.restart(rows, Moment(qpos, qvel, self._arrived))

    def act(
        self,
        told: Float[np.ndarray, "N nu"],
        qpos: Float[np.ndarray, "N nq"],
        qvel: Float[np.ndarray, "N nv"],
        gone: Bool[np.ndarray, "N"],
    ) -> Action:
        """Controls and torques of the physics step that begins now."""
        self._told = _pushed(self._told, told)
        whole = np.floor(self._late + 1e-9)
        part, last = np.maximum(self._late - whole, 0.0), self._told.shape[1] - 1
        newer = (last - whole).astype(np.int64)[:, np.newaxis]
        arrived = (1 - part) * np.take_along_axis(self._told, newer, 1)[:, 0]
        arrived += part * np.take_along_axis(self._told, newer - 1, 1)[:, 0]
        self._arrived = _pushed(self._arrived, arrived)
        return self._running.act(Moment(*finite(qpos, qvel, gone), self._arrived))


def _pushed(line: np.ndarray, newest: np.ndarray) -> np.ndarray:
    return np.concatenate([line[:, 1:], newest[:, np.newaxis]], axis=1)
