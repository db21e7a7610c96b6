"""What disturbs an episode from outside the model: where it starts, noise on commands and joints, pushes.

disturb = Disturbances(model, thetas, period_s, seed)          # one Theta a world, like a channel (channels.py)
worlds.reset(qpos=started(model, qpos, thetas))
worlds.view("xfrc_applied")[...] = disturb.pushes(tick)
worlds.step(disturb.commands(ctrl, tick))
seen = disturb.readings("position", worlds.qpos[:, places], joints, tick)

A random number depends on seed, world, tick and column alone, not on how many worlds there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.randomness import stream
from twinproof.sim.channels import normal, uniform
from twinproof.sim.parameters.base import index, names
from twinproof.sim.parameters.beside import free_joint

if TYPE_CHECKING:
    from jaxtyping import Float
    from mujoco import MjModel

    from twinproof.nouns.theta import Theta

PUSH_S = 0.1  # how long a push lasts
EVERY_S = 2.0  # how much time there is for one, on average


def started(model: MjModel, qpos: Float[np.ndarray, "N nq"], thetas: Sequence[Theta]) -> Float[np.ndarray, "N nq"]:
    """The positions with what each world's Theta says of starts; what it does not name stays."""
    found = np.array(qpos, dtype=np.float64)
    for row, theta in zip(found, thetas, strict=True):
        for id, value in theta.items():
            if id.startswith("joint.") and id.endswith(".start"):
                row[model.jnt_qposadr[index(model, "joint", id[len("joint.") : -len(".start")])]] = value
            elif id.startswith("body.") and ".start_" in id:
                name, _, what = id[len("body.") :].rpartition(".start_")
                first = int(model.jnt_qposadr[free_joint(model, index(model, "body", name))])
                if what == "yaw":
                    row[first + 3 : first + 7] = _turned(row[first + 3 : first + 7], value)
                else:
                    row[first + "xyz".index(what)] = value
    return found


def _turned(quat_wxyz: np.ndarray, yaw: float) -> np.ndarray:
    """The orientation turned about the world's z axis."""
    c, s = np.cos(yaw / 2), np.sin(yaw / 2)
    w, x, y, z = quat_wxyz
    return np.array([c * w - s * z, c * x - s * y, c * y + s * x, c * z + s * w])


class Disturbances:
    """Noise and pushes of N worlds; `period_s` is the time between two ticks."""

    def __init__(self, model: MjModel, thetas: Sequence[Theta], period_s: float, seed: int) -> None:
        count = len(thetas)
        self._model, self._bodies, self._joints = model, names(model, "body"), names(model, "joint")
        self.force_n = np.zeros((count, model.nbody))
        self.command_sd = np.zeros((count, model.nu))
        self.joint_sd = {what: np.zeros((count, model.njnt)) for what in ("position", "velocity", "torque")}
        self._slot = max(1, round(PUSH_S / period_s))  # ticks of one push
        self._key = {
            name: np.uint64(stream(seed, "disturb", name).integers(1 << 63))
            for name in ("when", "across", "up", "command", "position", "velocity", "torque")
        }
        self.set_thetas(range(count), thetas)

    def set_thetas(self, worlds: Iterable[int], thetas: Iterable[Theta]) -> None:
        """Other values for some worlds."""
        model = self._model
        for world, theta in zip(worlds, thetas, strict=True):
            self.force_n[world] = [theta.get(f"body.{name}.push", 0.0) for name in self._bodies]
            for what, sd in self.joint_sd.items():
                sd[world] = [theta.get(f"joint.{name}.{what}_noise", 0.0) for name in self._joints]
            for i, name in enumerate(names(model, "actuator")):
                first = int(model.actuator_ctrladr[i])
                columns = slice(first, first + int(model.actuator_ctrlnum[i]))
                self.command_sd[world, columns] = theta.get(f"actuator.{name}.noise", 0.0)

    def commands(self, ctrl: Float[np.ndarray, "N nu"], tick: int) -> Float[np.ndarray, "N nu"]:
        """The commands with their noise."""
        return self._noisy(ctrl, self.command_sd, "command", tick)

    def readings(
        self, what: str, values: Float[np.ndarray, "N J"], joints: Sequence[str], tick: int
    ) -> Float[np.ndarray, "N J"]:
        """Positions, velocities or torques of named joints with their noise."""
        columns = [self._joints.index(name) for name in joints]
        return self._noisy(values, self.joint_sd[what][:, columns], what, tick)

    def _noisy(self, values: np.ndarray, sd: np.ndarray, name: str, tick: int) -> np.ndarray:
        if not sd.any():
            return values
        found: np.ndarray = values + sd * normal(self._key[name], sd.shape, tick)
        return found

    def pushes(self, tick: int) -> Float[np.ndarray, "N nbody 6"]:
        """The forces (and no torques) on every body at a tick, for xfrc_applied."""
        found = np.zeros((*self.force_n.shape, 6))
        if not self.force_n.any():
            return found
        slot = tick // self._slot
        on = uniform(self._key["when"], self.force_n.shape, slot) < PUSH_S / EVERY_S
        around = 2 * np.pi * uniform(self._key["across"], self.force_n.shape, slot)
        up = 2 * uniform(self._key["up"], self.force_n.shape, slot) - 1
        flat = np.sqrt(1 - up**2)
        direction = np.stack([flat * np.cos(around), flat * np.sin(around), up], axis=-1)
        found[..., :3] = (on * self.force_n)[..., None] * direction
        return found
