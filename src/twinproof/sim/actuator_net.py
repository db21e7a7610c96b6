"""An actuator as a small network with history: for motors whose parametric model leaves residuals that are not noise.

The network sees the last commands and speeds of one motor and gives its torque. It runs in rollouts with numpy alone;
identify/actuator_net.py trains it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.nouns.errors import ConfigError, PosteriorError, SimError
from twinproof.nouns.hashing import Json
from twinproof.sim.law import Action, Law, Moment, Plant, Running

if TYPE_CHECKING:
    from jaxtyping import Float

ARRAYS = ("mean", "scale", "low", "high", "torque_scale", "per_command")


@dataclass(frozen=True, eq=False)
class ActuatorNet(Law):
    """Torques of the motors `actuators`, from `history` samples of commands and speeds that are `spacing` steps apart.

    In a rollout the model's own motor is sent what makes that torque. Inputs beyond what training showed are held at
    its ends: a network is not asked to extrapolate.
    """

    actuators: tuple[str, ...]
    history: int
    spacing: int
    step_s: float
    mean: Float[np.ndarray, "motors inputs"]
    scale: Float[np.ndarray, "motors inputs"]
    low: Float[np.ndarray, "motors inputs"]
    high: Float[np.ndarray, "motors inputs"]
    layers: tuple[tuple[Float[np.ndarray, "motors a b"], Float[np.ndarray, "motors b"]], ...]
    torque_scale: Float[np.ndarray, "motors"]
    per_command: Float[np.ndarray, "motors"]  # N m on the joint that the model makes of a command of one

    @property
    def reach(self) -> int:
        """Physics steps that the network looks back."""
        return (self.history - 1) * self.spacing

    def memory(self, step_s: float) -> int:
        if abs(step_s - self.step_s) > 1e-9:
            raise SimError(
                f"the network was trained on steps of {self.step_s:g} s, the model steps {step_s:g} s. Set the model's "
                "time step to that, or train again."
            )
        return self.reach

    def torque(self, inputs: Float[np.ndarray, "motors n inputs"]) -> Float[np.ndarray, "motors n"]:
        """The torques of inputs: commands, oldest first, then speeds, oldest first."""
        x = np.clip(inputs, self.low[:, None], self.high[:, None])
        x = (x - self.mean[:, None]) / self.scale[:, None]
        for k, (weight, bias) in enumerate(self.layers):
            x = np.einsum("mna,mab->mnb", x, weight) + bias[:, None]
            x = np.tanh(x) if k < len(self.layers) - 1 else x
        return np.asarray(x[..., 0] * self.torque_scale[:, None])

    @staticmethod
    def running(laws: Sequence[ActuatorNet], which: np.ndarray, plant: Plant, begin: Moment) -> Running:
        if len({id(law) for law in laws}) > 1:
            raise ConfigError("one rollout has one actuator network. Roll others apart.")
        return _Running(laws[0], controls_of(laws[0].actuators, plant), plant, begin)

    def packed(self) -> tuple[dict[str, Json], dict[str, np.ndarray]]:
        """What the arrays mean, and the arrays."""
        arrays = {name: getattr(self, name) for name in ARRAYS}
        for k, (weight, bias) in enumerate(self.layers):
            arrays |= {f"weight{k}": weight, f"bias{k}": bias}
        return {
            **{"actuators": list(self.actuators), "history": self.history, "spacing": self.spacing},
            **{"step_s": self.step_s, "layers": len(self.layers)},
        }, arrays

    @staticmethod
    def unpacked(about: Mapping[str, Json], arrays: Mapping[str, np.ndarray]) -> ActuatorNet:
        """What `packed` gave."""
        try:
            layers = tuple((arrays[f"weight{k}"], arrays[f"bias{k}"]) for k in range(int(about["layers"])))
            numbers = (int(about["history"]), int(about["spacing"]), float(about["step_s"]))
            given: dict[str, Any] = {name: arrays[name] for name in ARRAYS}
            return ActuatorNet(tuple(about["actuators"]), *numbers, layers=layers, **given)
        except (KeyError, TypeError, ValueError) as problem:
            raise PosteriorError(f"a history network lacks something ({problem!r}). Fit it again.") from None


class _Running(Running):
    def __init__(self, law: ActuatorNet, controls: np.ndarray, plant: Plant, begin: Moment) -> None:
        self._law, self._controls, self._dof = law, controls, plant.dof[controls]
        self._places = -1 - law.spacing * np.arange(law.history)[::-1]
        self._speeds = np.repeat(begin.qvel[:, None, self._dof], law.reach + 1, axis=1)

    def act(self, now: Moment) -> Action:
        self._speeds = np.concatenate([self._speeds[:, 1:], now.qvel[:, None, self._dof]], axis=1)
        sent = now.sent[:, self._places][:, :, self._controls]
        inputs = np.concatenate([sent, self._speeds[:, self._places]], axis=1)
        ctrl = now.sent[:, -1].copy()
        ctrl[:, self._controls] = self._law.torque(np.moveaxis(inputs, 2, 0)).T / self._law.per_command
        return Action(ctrl, np.zeros(now.qvel.shape))

    def restart(self, rows: np.ndarray, begin: Moment) -> None:
        self._speeds[rows] = begin.qvel[rows][:, None, self._dof]


def controls_of(actuators: Sequence[str], plant: Plant) -> np.ndarray:
    """Where the motors' commands stand in ctrl; each drives a single joint."""
    missing = [name for name in actuators if name not in plant.actuators]
    if missing:
        raise SimError(f"the network drives {missing[0]!r}, the model has {', '.join(plant.actuators) or 'none'}.")
    found = np.array([plant.actuators.index(name) for name in actuators])
    loose = [name for name, dof in zip(actuators, plant.dof[found], strict=True) if dof < 0]
    if loose:
        raise SimError(f"the network drives {loose[0]!r}, which moves no single joint.")
    return found
