"""Rollouts with a force law of one's own in the loop: what identification fits laws with.

Rollouts of a scene that has a drive (sim/drive.py) need none of this: they obey it by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np

from twinproof.nouns.errors import SimError
from twinproof.sim.divergence import Limits
from twinproof.sim.law import Law, plant
from twinproof.sim.rollout import Rolled, Rollouts
from twinproof.sim.windows import Commands, Held, Start

if TYPE_CHECKING:
    from twinproof.nouns.theta import Theta
    from twinproof.sim.scene import Scene


class Driven:
    """Rolls out commands of one scene under force laws; otherwise as `Rollouts`, whose arguments these are."""

    def __init__(
        self,
        scene: Scene,
        outputs: Sequence[str] = ("qpos", "qvel"),
        substeps: int = 1,
        limits: Limits | None = None,
        nthread: int = 0,
        seed: int = 0,
    ) -> None:
        self._plain = Rollouts(scene, outputs, substeps, limits, nthread, seed)
        self.scene, self.outputs, self.substeps = scene, self._plain.outputs, substeps
        self.model: Any = self._plain.model
        self.limits = self._plain.limits
        self.plant = plant(self.model)

    @property
    def sample_s(self) -> float:
        """Seconds between control samples."""
        return self._plain.sample_s

    def roll(
        self, thetas: Sequence[Theta], laws: Sequence[Law], start: Start, controls: np.ndarray | Held, samples: int = 0
    ) -> Rolled:
        """Every window under every Theta and its law; one law alone serves all Thetas."""
        count = len(thetas)
        if not count:
            raise SimError("no Thetas were given to roll out. Give one or more; Theta() is the nominal.")
        commands = self._plain.commands(controls, samples, count)
        windows = len(commands.row) // count
        which = np.repeat(np.arange(count), windows)
        rolled = self.roll_rows(thetas, laws, which, start.rows(count, windows), commands)
        outputs = {name: value.reshape(count, windows, *value.shape[1:]) for name, value in rolled.outputs.items()}
        return Rolled(
            MappingProxyType(outputs),
            rolled.diverged_at.reshape(count, windows),
            lambda p, w: rolled.explain(0, p * windows + w),
        )

    def roll_rows(
        self, thetas: Sequence[Theta], laws: Sequence[Law], which: np.ndarray, start: Start, commands: Commands
    ) -> Rolled:
        """Rows, each with Theta and law number `which` (R,), a start and commands; the outputs are (R, samples, …)."""
        _check(thetas, laws)
        return self._plain.roll_rows(thetas, which, start, commands, laws)


def mass_matrices(scene: Scene, thetas: Sequence[Theta], which: np.ndarray, qpos: np.ndarray) -> np.ndarray:
    """The joint-space inertia (rows, nv, nv) of each row's Theta at its position."""
    from twinproof.sim.instantiate import instantiate

    models = [instantiate(scene, theta) for theta in thetas]
    data = [mujoco.MjData(model) for model in models]
    found = np.empty((len(which), models[0].nv, models[0].nv))
    for row, number in enumerate(which):
        model, now = models[number], data[number]
        now.qpos[:] = qpos[row]
        mujoco.mj_forward(model, now)
        mujoco.mj_fullM(model, now, found[row])
    return found


def _check(thetas: Sequence[Theta], laws: Sequence[Law]) -> None:
    if len(laws) not in (1, len(thetas)):
        raise SimError(
            f"{len(laws)} force laws were given for {len(thetas)} Thetas. Give one for all, or one for each."
        )
    kinds = sorted({type(law).__name__ for law in laws})
    if len(kinds) > 1:
        raise SimError(f"the force laws of one rollout are of one kind, found {' and '.join(kinds)}. Roll them apart.")
