"""What the model leaves: a correction of joint torques, learned where the robot was and silent where it was not.

calibration ─ short windows ─> Δtorque(q, q̇, u) ─ ridge ensemble + domain ─> law
validation ─ rollouts without and with the law ─> adopted, or not, and why

The ensemble is made of random Fourier features with ridge weights, each member on its own resample of the runs. The
domain is the neighbourhood of calibration states: inside the weight is 1, outside 0, smooth in between, and members
that disagree lower it too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.nouns.errors import ConfigError, PosteriorError
from twinproof.sim.driven import Action, Law, Moment, Plant, Running

if TYPE_CHECKING:
    from jaxtyping import Float

FORMAT = "twinproof residual dynamics 1"


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
        at = (inputs - self.centre) / self.scale
        square = (at**2).sum(1)[:, None] - 2 * at @ self.places.T + (self.places**2).sum(1)
        return np.asarray(np.sqrt(np.maximum(square.min(axis=1), 0.0)) / self.radius)

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
        at = (inputs - self.domain.centre) / self.domain.scale
        features = np.cos(at @ self.waves + self.phases[:, None])
        return np.asarray(features @ self.weights)

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

    def save(self, folder: Path) -> None:
        """Arrays as safetensors, the rest as JSON."""
        from safetensors.numpy import save

        folder.mkdir(parents=True, exist_ok=True)
        arrays = {"centre": self.domain.centre, "scale": self.domain.scale, "places": self.domain.places}
        arrays |= {"waves": self.waves, "phases": self.phases, "weights": self.weights, "noise": self.noise}
        (folder / "residual.safetensors").write_bytes(save({k: np.ascontiguousarray(v) for k, v in arrays.items()}))
        about = {"format": FORMAT, "radius": self.domain.radius, "fade": self.domain.fade, "switched": self.switched}
        (folder / "residual.json").write_text(json.dumps(about, indent=1))

    @staticmethod
    def load(folder: Path) -> ResidualDynamics:
        """What `save` wrote."""
        from safetensors.numpy import load_file

        about = json.loads((folder / "residual.json").read_text())
        if about.get("format") != FORMAT:
            raise PosteriorError(f"{folder} holds {about.get('format')!r}; this version reads {FORMAT!r}.")
        a = load_file(folder / "residual.safetensors")
        domain = Domain(a["centre"], a["scale"], a["places"], float(about["radius"]), float(about["fade"]))
        return ResidualDynamics(domain, a["waves"], a["phases"], a["weights"], a["noise"], bool(about["switched"]))


class _Running(Running):
    def __init__(self, law: ResidualDynamics) -> None:
        self._law = law

    def act(self, now: Moment) -> Action:
        sent = now.sent[:, -1]
        inputs = np.concatenate([now.qpos, now.qvel, sent], axis=1)
        return Action(sent, self._law.torque(inputs))


@dataclass(frozen=True)
class RandomFeatures:
    """How a residual model is fitted. `pace` is how fast the correction may change over a spread of the inputs."""

    members: int = 6
    features: int = 96
    pace: float = 0.7
    ridge: float = 1.0
    places: int = 256
    inside: float = 0.98  # share of the calibration states that lie within the radius

    def fit(
        self,
        inputs: Float[np.ndarray, "n inputs"],
        torque: Float[np.ndarray, "n outputs"],
        run: np.ndarray,
        rng: np.random.Generator,
    ) -> ResidualDynamics:
        """From calibration alone; `run` numbers the run of each sample, the unit that members resample."""
        if len(inputs) < 4 * self.features:
            raise ConfigError(
                f"{len(inputs)} samples are too few for {self.features} features; {4 * self.features} are needed. Use "
                "more calibration, shorter windows, or fewer features."
            )
        centre, scale = inputs.mean(axis=0), inputs.std(axis=0)
        scale = np.where(scale > 1e-6, scale, 1.0)
        at = (inputs - centre) / scale
        waves = self.pace * rng.standard_normal((self.members, inputs.shape[1], self.features))
        phases = rng.uniform(0, 2 * np.pi, (self.members, self.features))
        known, weights = np.unique(run), []
        for k in range(self.members):
            drawn = rng.choice(known, len(known))
            some = np.concatenate([np.flatnonzero(run == r) for r in drawn])
            F, y = np.cos(at[some] @ waves[k] + phases[k]), torque[some]
            # labels are robustified by clipping at three times their usual size: stick and slip leave far outliers
            usual = 4.5 * np.median(np.abs(y), axis=0) + 1e-9
            gram = F.T @ F + self.ridge * len(some) / self.features * np.eye(self.features)
            weights.append(np.linalg.solve(gram, F.T @ np.clip(y, -usual, usual)))
        places, radius = self._neighbourhood(at, rng)
        domain = Domain(centre, scale, places, radius)
        rough = ResidualDynamics(domain, waves, phases, np.array(weights), np.ones(torque.shape[1]), switched=False)
        left = torque - rough.torque(inputs)
        noise = 1.4826 * np.median(np.abs(left), axis=0) + 1e-9
        return ResidualDynamics(domain, waves, phases, np.array(weights), noise)

    def _neighbourhood(self, at: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, float]:
        """Places spread over the states (each the farthest from those before), and the radius that covers most."""
        chosen = [int(rng.integers(len(at)))]
        distance = np.full(len(at), np.inf)
        for _ in range(min(self.places, len(at)) - 1):
            distance = np.minimum(distance, ((at - at[chosen[-1]]) ** 2).sum(axis=1))
            chosen.append(int(np.argmax(distance)))
        distance = np.minimum(distance, ((at - at[chosen[-1]]) ** 2).sum(axis=1))
        return at[chosen], float(max(np.sqrt(np.quantile(distance, self.inside)), 1e-6))


@dataclass(frozen=True)
class Verdict:
    """Whether a residual model is used, and why; errors are closed-loop, on validation, without and with it."""

    adopted: bool
    reason: str
    before: tuple[float, ...]
    after: tuple[float, ...]


def adopt(
    before: Sequence[np.ndarray], after: Sequence[np.ndarray], least: float = 0.02, share_inside: float = 1.0
) -> Verdict:
    """Compares squared end-point errors (windows,) for each horizon, without and with the correction, on validation.

    Adopted only where the error falls by `least` or more on average, at no horizon rises, and the paired difference is
    larger than its own standard error.
    """
    if len(before) != len(after) or not before:
        raise ConfigError(f"{len(before)} horizons without the correction and {len(after)} with it cannot be compared.")
    rms = [(float(np.sqrt(np.mean(b))), float(np.sqrt(np.mean(a)))) for b, a in zip(before, after, strict=True)]
    old, new = tuple(b for b, _ in rms), tuple(a for _, a in rms)
    if not np.isfinite(new).all():
        return Verdict(False, "not adopted: a validation rollout diverged with the correction.", old, new)
    if share_inside < 0.1:
        text = f"not adopted: only {100 * share_inside:.0f} % of validation lies inside its domain."
        return Verdict(False, text, old, new)
    change = [1 - n / max(o, 1e-300) for o, n in rms]
    worst = int(np.argmin(change))
    if change[worst] < 0:
        text = f"not adopted: at horizon {worst} the validation error rises by {-100 * change[worst]:.1f} %."
        return Verdict(False, text, old, new)
    if np.mean(change) < least:
        text = (
            f"not adopted: the validation error falls by {100 * np.mean(change):.1f} %, less than {100 * least:.0f} %."
        )
        return Verdict(False, text, old, new)
    sure = [_steps(b - a) for b, a in zip(before, after, strict=True)]
    if max(sure) < 1.0:
        return Verdict(False, f"not adopted: the gain is within its standard error ({max(sure):.1f}).", old, new)
    return Verdict(True, f"adopted: the validation error falls by {100 * np.mean(change):.1f} %.", old, new)


def _steps(gain: np.ndarray) -> float:
    error = float(gain.std() / np.sqrt(max(len(gain), 1)))
    return float(gain.mean()) / error if error > 0 else np.inf * np.sign(float(gain.mean()) or 1.0)


def labels(
    driven: Any, theta_of: Sequence[Any], which: np.ndarray, start: Any, commands: Any, seen: Any, law: Law
) -> tuple[Float[np.ndarray, "rows inputs"], Float[np.ndarray, "rows nv"]]:
    """Inputs and missing torques of short windows: `seen` (rows, nv) are the speeds measured at the windows' ends.

    The speed that a window misses, over its length, is a missing acceleration; the inertia makes a torque of it. The
    windows are short (20 to 60 ms), so that the missing torque is about constant in each.
    """
    from twinproof.sim.driven import mass_matrices

    rolled = driven.roll_rows(theta_of, [law], which, start, commands)
    samples = rolled["qvel"].shape[1]
    missing = (seen - rolled["qvel"][:, -1]) / (samples * driven.sample_s)
    middle = rolled["qpos"][:, samples // 2]
    inertia = mass_matrices(driven.scene, theta_of, which, middle)
    sent = commands.between(np.arange(len(which)), 0, commands.step.shape[-1]).mean(axis=1)
    inputs = np.concatenate([middle, rolled["qvel"].mean(axis=1), sent], axis=1)
    keep = np.isfinite(missing).all(axis=1)
    return inputs[keep], np.einsum("rij,rj->ri", inertia, missing)[keep]
