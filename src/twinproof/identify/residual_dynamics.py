"""What the model leaves: a correction of joint torques, learned where the robot was and silent where it was not.

calibration ─ short windows ─> Δtorque(q, q̇, u) ─ ridge ensemble + domain ─> law
validation ─ rollouts without and with the law ─> adopted, or not, and why

The law itself is sim/residual_law.py; each member of its ensemble is fitted on its own resample of the runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.nouns.errors import ConfigError
from twinproof.sim.driven import mass_matrices
from twinproof.sim.law import Law
from twinproof.sim.residual_law import Domain, ResidualDynamics

if TYPE_CHECKING:
    from jaxtyping import Float


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
    rolled = driven.roll_rows(theta_of, [law], which, start, commands)
    samples = rolled["qvel"].shape[1]
    missing = (seen - rolled["qvel"][:, -1]) / (samples * driven.sample_s)
    middle = rolled["qpos"][:, samples // 2]
    inertia = mass_matrices(driven.scene, theta_of, which, middle)
    sent = commands.between(np.arange(len(which)), 0, commands.step.shape[-1]).mean(axis=1)
    inputs = np.concatenate([middle, rolled["qvel"].mean(axis=1), sent], axis=1)
    keep = np.isfinite(missing).all(axis=1)
    return inputs[keep], np.einsum("rij,rj->ri", inertia, missing)[keep]
