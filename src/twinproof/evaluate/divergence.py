"""How far two motions are apart at every moment, arm by arm.

MSE(t) = Σ_i w_i (Δq_i)² / range_i² + w_g (Δg)² / range_g²      RMSE = √MSE      overall = mean of the arms' MSE

A sum over joints, not a mean: with weights of 1 an arm of seven numbers that are all off by 1 % of their range has an
MSE of 7e-4. Weights of 1/7 make it a mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.evaluate.motion import Motion, Scale
from twinproof.nouns.errors import RecordingError

if TYPE_CHECKING:
    from jaxtyping import Bool, Float


@dataclass(frozen=True, eq=False)
class Course:
    """Both motions on one grid, on the real clock. `known` is false where a joint of either side is not known."""

    time_s: Float[np.ndarray, "T"]
    real: Float[np.ndarray, "T J"]
    sim: Float[np.ndarray, "T J"]
    known: Bool[np.ndarray, "T J"]

    def squares(self, scale: Scale) -> Float[np.ndarray, "T J"]:
        """w (Δq)² / range² of every joint."""
        found: np.ndarray = scale.weight * ((self.real - self.sim) / scale.range) ** 2
        return found


@dataclass(frozen=True, eq=False)
class Gap:
    """The measure of one arm, or of all: `mse` at the moments when all its joints are known."""

    name: str
    time_s: Float[np.ndarray, "K"]
    mse: Float[np.ndarray, "K"]
    by_joint: dict[str, float]  # mean share of the MSE that is each joint's; they add up to 1
    known_share: float  # of the moments

    @property
    def rmse(self) -> Float[np.ndarray, "K"]:
        """√MSE at every moment."""
        root: np.ndarray = np.sqrt(self.mse)
        return root

    @property
    def total_rmse(self) -> float:
        """√ of the mean MSE."""
        return float(np.sqrt(self.mse.mean()))


def course(real: Motion, sim: Motion, offset_s: float, max_gap_s: float, rate_hz: float | None = None) -> Course:
    """Both motions where they overlap, at the slower one's rate unless one is stated."""
    step = 1 / rate_hz if rate_hz else max(real.step_s, sim.step_s)
    (r0, r1), (s0, s1) = real.span_s, sim.span_s
    start, end = max(r0, s0 + offset_s), min(r1, s1 + offset_s)
    if end - start < 2 * step:
        raise RecordingError(
            f"{real.where} ({r0:.2f} to {r1:.2f} s) and {sim.where} ({s0 + offset_s:.2f} to {s1 + offset_s:.2f} s on "
            "the same clock) do not overlap. Mend their clocks, or pair others."
        )
    time_s = start + step * np.arange(int((end - start) / step + 1e-9) + 1)
    gap_s = max(max_gap_s, 1.5 * max(real.step_s, sim.step_s))
    one, told = real.at(time_s, gap_s)
    other, simulated = sim.at(time_s - offset_s, gap_s)
    return Course(time_s, one, other, told & simulated)


def gaps(found: Course, scale: Scale, where: str) -> tuple[tuple[Gap, ...], Gap]:
    """One gap an arm, and the overall one, which is known when all arms are."""
    squares = found.squares(scale)
    each, arms = [], []
    for arm in scale.arms:
        places = scale.of_arm(arm)
        mse = squares[:, places].sum(axis=1)
        arms.append(mse)
        each.append(_gap(arm.name, found, mse, places, squares, scale, where))
    every = sorted({place for arm in scale.arms for place in scale.of_arm(arm)})
    return tuple(each), _gap("overall", found, np.mean(arms, axis=0), every, squares, scale, where)


def _gap(
    name: str, found: Course, mse: np.ndarray, places: list[int], squares: np.ndarray, scale: Scale, where: str
) -> Gap:
    weighty = [place for place in places if scale.weight[place] > 0]
    known = found.known[:, weighty].all(axis=1)
    if not known.any():
        lost = [scale.joints[p] for p in weighty if not found.known[:, p].any()] or [scale.joints[weighty[0]]]
        raise RecordingError(
            f"{where}: at no moment are all joints of {name!r} known (look at {lost[0]!r}). Leave the episode out."
        )
    totals = squares[known][:, places].sum(axis=0)
    whole = float(totals.sum())
    shares = totals / whole if whole > 0 else np.zeros(len(places))
    by_joint = {scale.joints[place]: float(share) for place, share in zip(places, shares, strict=True)}
    return Gap(name, found.time_s[known], mse[known], by_joint, float(known.mean()))


@dataclass(frozen=True, eq=False)
class TipGap:
    """How far the tips are apart: metres, and the angle of the one rotation between them."""

    name: str
    time_s: Float[np.ndarray, "K"]
    position_m: Float[np.ndarray, "K"]
    orientation_rad: Float[np.ndarray, "K"]


def tip_gap(
    name: str, time_s: np.ndarray, T_world_real: Float[np.ndarray, "K 4 4"], T_world_sim: Float[np.ndarray, "K 4 4"]
) -> TipGap:
    """Distance and geodesic angle between two courses of poses."""
    apart = np.linalg.norm(T_world_real[:, :3, 3] - T_world_sim[:, :3, 3], axis=1)
    turn = np.swapaxes(T_world_real[:, :3, :3], 1, 2) @ T_world_sim[:, :3, :3]
    # by sine and cosine: the arc cosine alone loses half of the digits at small angles
    axial = np.stack([turn[:, 2, 1] - turn[:, 1, 2], turn[:, 0, 2] - turn[:, 2, 0], turn[:, 1, 0] - turn[:, 0, 1]], -1)
    sine, cosine = np.linalg.norm(axial, axis=1) / 2, (np.trace(turn, axis1=1, axis2=2) - 1) / 2
    return TipGap(name, time_s, apart, np.arctan2(sine, cosine))
