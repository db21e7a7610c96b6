"""What a model leaves, as a law: a correction of joint torques, learned where the robot was and silent elsewhere.

The ensemble is made of random Fourier features with ridge weights. The domain is the neighbourhood of calibration
states: inside the weight is 1, outside 0, smooth in between, and members that disagree lower it too.
identify/residual_dynamics.py learns it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import ConfigError, PosteriorError
from twinproof.nouns.hashing import Json
from twinproof.sim.law import Action, Law, Moment, Plant, Running

if TYPE_CHECKING:
    from jaxtyping import Float

DOMAIN, ARRAYS = ("centre", "scale", "places"), ("waves", "phases", "weights", "noise")


@dataclass(frozen=True, eq=False)
class Domain:
    """Where calibration was: centres in scaled inputs, and a radius within which most calibration states lie."""

    centre: Float[np.ndarray, "inputs"]
    scale: Float[np.ndarray, "inputs"]
    places: Float[np.ndarray, "places inputs"]
    radius: float
    fade: float = 1.5  # at this multiple of the radius the weight is zero

    def distance(self, inputs: Float[np.ndarray, "n inputs"]) -> Float[np.ndarray, "n"]:
        """To the nearest calibration state, in radii: 1 and less is inside."""
        from twinproof.sim.residual_kernels import nearest

        at = (inputs - self.centre) / self.scale
        return np.asarray(np.sqrt(nearest(np.ascontiguousarray(at), np.ascontiguousarray(self.places))) / self.radius)

    def weight(self, inputs: Float[np.ndarray, "n inputs"]) -> Float[np.ndarray, "n"]:
        """1 inside, 0 outside, smooth between."""
        x = np.clip((self.fade - self.distance(inputs)) / (self.fade - 1.0), 0.0, 1.0)
        return np.asarray(x * x * (3 - 2 * x))


@dataclass(frozen=True, eq=False)
class ResidualDynamics(Law):
    """The correction, a law: torque = domain weight × agreement × mean of the members."""

    domain: Domain
    waves: Float[np.ndarray, "members inputs features"]
    phases: Float[np.ndarray, "members features"]
    weights: Float[np.ndarray, "members features outputs"]
    noise: Float[np.ndarray, "outputs"]  # sd of the labels: members that differ by more do not know
    switched: bool = True  # False leaves the domain out, to show what it is for

    def memory(self, step_s: float) -> int:
        return 0

    def members(self, inputs: Float[np.ndarray, "n inputs"]) -> Float[np.ndarray, "members n outputs"]:
        """What each member says, without the domain."""
        from twinproof.sim.residual_kernels import said

        at = (inputs - self.domain.centre) / self.domain.scale
        return np.asarray(said(*map(np.ascontiguousarray, (at, self.waves, self.phases, self.weights))))

    def torque(self, inputs: Float[np.ndarray, "n inputs"]) -> Float[np.ndarray, "n outputs"]:
        """The correction."""
        said = self.members(inputs)
        mean = said.mean(axis=0)
        if not self.switched:
            return np.asarray(mean)
        agreement = 1 / (1 + (said.std(axis=0) / self.noise) ** 2)
        return np.asarray(self.domain.weight(inputs)[:, None] * agreement * mean)

    @staticmethod
    def running(laws: Sequence[ResidualDynamics], which: np.ndarray, plant: Plant, begin: Moment) -> Running:
        if len({id(law) for law in laws}) > 1:
            raise ConfigError("one rollout has one residual model. Roll others apart.")
        width = 2 * plant.nv + plant.nu
        if plant.nq != plant.nv or len(laws[0].domain.centre) != width:
            raise ConfigError(
                f"the residual model takes {len(laws[0].domain.centre)} inputs; this model has {plant.nq} positions, "
                f"{plant.nv} velocities and {plant.nu} controls, {width} in all. Fit one for it."
            )
        return _Running(laws[0])

    def packed(self) -> tuple[dict[str, Json], dict[str, np.ndarray]]:
        """What the arrays mean, and the arrays."""
        arrays = {name: getattr(self.domain, name) for name in DOMAIN} | {name: getattr(self, name) for name in ARRAYS}
        return {"radius": self.domain.radius, "fade": self.domain.fade, "switched": self.switched}, arrays

    @staticmethod
    def unpacked(about: Mapping[str, Json], arrays: Mapping[str, np.ndarray]) -> ResidualDynamics:
        """What `packed` gave."""
        try:
            places = {name: arrays[name] for name in DOMAIN}
            domain = Domain(**places, radius=float(about["radius"]), fade=float(about["fade"]))
            return ResidualDynamics(domain, **{name: arrays[name] for name in ARRAYS}, switched=bool(about["switched"]))
        except (KeyError, TypeError, ValueError) as problem:
            raise PosteriorError(f"a residual model lacks something ({problem!r}). Fit it again.") from None


class _Running(Running):
    def __init__(self, law: ResidualDynamics) -> None:
        self._law = law

    def act(self, now: Moment) -> Action:
        sent = now.sent[:, -1]
        inputs = np.concatenate([now.qpos, now.qvel, sent], axis=1)
        return Action(sent, self._law.torque(inputs))

    def restart(self, rows: np.ndarray, begin: Moment) -> None:
        """Nothing: it remembers nothing."""
