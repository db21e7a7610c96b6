"""The joint of a drawer, a door or a lid from its tracked motion: type, axis, place and range, and how sure each is.

Three models explain the pose of a body over time, seen from its parent:

fixed    one pose
slide    one pose, moved along one direction by q[i]
hinge    one pose, turned about one line by q[i]

Each is fitted with the noise that is stated for the track; frames that lie far out lose weight. Among the models the
least BIC is chosen (every q[i] counts as a parameter), and where the choice is not clear, or the motion too small, or
no model explains the track, the answer is "cannot tell" with the reason. Noise that is larger than stated, or that
drifts slowly, widens the uncertainty.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import RecordingError
from twinproof.nouns.hashing import Json
from twinproof.reconstruct.articulation_fit import FAR, Fitted, Motion, fit_fixed, fit_hinge, fit_slide
from twinproof.reconstruct.poses import checked, difference, inverse

if TYPE_CHECKING:
    from jaxtyping import Float

FEWEST = 8  # frames
CLEAR = 4.0  # difference of BIC from which a choice is believed: about 7 to 1
RARE = 1e-4  # chance of so much motion in a fixed body, below which it is said to have moved
WORSE = 3.0  # times the stated noise: no model explains the track
FEW_FAR = 0.8  # share of frames that lie near: up to a fifth may be outliers
VAGUE_DEG = 15.0  # standard deviation of the axis beyond which there is no axis to speak of
START = 0.1  # share of the frames that say where the joint was at the beginning


class Kind(StrEnum):
    """What holds the body to its parent."""

    FIXED = "fixed"
    SLIDE = "slide"
    HINGE = "hinge"
    UNKNOWN = "cannot tell"


@dataclass(frozen=True, eq=False)
class Articulation:
    """A joint in the parent's frame. q is in m for a slide, in rad for a hinge, 0 where the track began.

    axis, origin   direction, and the point of the axis nearest to the body (hinge) or the body's place at q = 0 (slide)
    range          least and greatest q that was seen; the joint may go farther
    sd             axis_sd_deg: of the direction; origin_sd_mm: of the origin, across the axis; q_sd: of one q
    bic            of every model, the least is the best; `off` root mean square gap in stated standard deviations
    weight         of each frame: 1, or less where it lies far out
    reason         one sentence: why this kind
    """

    kind: Kind
    reason: str
    T_parent_body: Float[np.ndarray, "4 4"]  # at q = 0
    axis: Float[np.ndarray, "3"] | None
    origin: Float[np.ndarray, "3"] | None
    range: tuple[float, float]
    axis_sd_deg: float
    origin_sd_mm: float
    q: Float[np.ndarray, "T"]
    q_sd: float
    bic: dict[str, float]
    off: float
    weight: Float[np.ndarray, "T"]

    def mjcf(self, name: str, degrees: bool = True) -> str:
        """The `<joint>` of the body for MJCF, which wants axis and place in the body's own frame; "" where fixed.

        `degrees` says how the scene's compiler reads a hinge's range: MuJoCo's default is degrees.
        """
        if self.kind not in (Kind.SLIDE, Kind.HINGE) or self.axis is None or self.origin is None:
            return ""
        back = inverse(self.T_parent_body)
        axis, place = back[:3, :3] @ self.axis, back[:3, :3] @ self.origin + back[:3, 3]
        ends = np.degrees(self.range) if self.kind is Kind.HINGE and degrees else np.asarray(self.range)
        numbers = {"axis": axis, "pos": place, "range": ends}
        text = " ".join(f'{key}="{" ".join(f"{x:.6g}" for x in value)}"' for key, value in numbers.items())
        return f'<joint name="{name}" type="{self.kind.value}" limited="true" {text}/>'

    def as_json(self) -> dict[str, Json]:
        """For the twin's audits."""
        return {
            "kind": self.kind.value,
            "reason": self.reason,
            "axis": None if self.axis is None else [round(float(x), 6) for x in self.axis],
            "origin": None if self.origin is None else [round(float(x), 6) for x in self.origin],
            "range": [round(float(x), 6) for x in self.range],
            "axis_sd_deg": float(self.axis_sd_deg),
            "origin_sd_mm": float(self.origin_sd_mm),
            "off": float(self.off),
            "frames": len(self.q),
        }


def articulation(
    T_world_body: Float[np.ndarray, "T 4 4"],
    turn_sd_rad: float | Float[np.ndarray, "T"],
    shift_sd_m: float | Float[np.ndarray, "T"],
    T_world_parent: Float[np.ndarray, "*T 4 4"] | None = None,
    hinges: bool = True,
) -> Articulation:
    """The joint between a body and its parent (the world, where none is given).

    The standard deviations are of one component of a frame's rotation and position. Without `hinges` it is a slide or
    nothing: someone knows that it does not turn.
    """
    poses = checked(T_world_body, "T_world_body")
    if poses.ndim != 3 or len(poses) < FEWEST:
        raise RecordingError(
            f"the track has {len(poses) if poses.ndim == 3 else 0} frames; a joint needs {FEWEST} at least, and 30 or "
            "more to be sure. Track the body over more frames."
        )
    if T_world_parent is not None:
        poses = inverse(checked(T_world_parent, "T_world_parent")) @ poses
    motion = Motion(poses, _noise(turn_sd_rad, len(poses), "turn_sd_rad"), _noise(shift_sd_m, len(poses), "shift_sd_m"))
    fits = {Kind.FIXED: fit_fixed(motion), Kind.SLIDE: fit_slide(motion)}
    fits |= {Kind.HINGE: fit_hinge(motion)} if hinges else {}
    kind, reason = _choose(fits, motion)
    best = min(fits, key=lambda one: fits[one].bic) if kind is Kind.UNKNOWN else kind
    return _described(kind, reason, fits[best], fits, motion)


def _noise(value: float | np.ndarray, count: int, name: str) -> np.ndarray:
    array = np.broadcast_to(np.asarray(value, float), (count,)) if np.ndim(value) == 0 else np.asarray(value, float)
    if array.shape != (count,) or not (np.isfinite(array) & (array > 0)).all():
        raise RecordingError(
            f"{name} has the shape {array.shape}; needed is one positive standard deviation, or one for each of the "
            f"{count} frames."
        )
    return array


def _choose(fits: dict[Kind, Fitted], motion: Motion) -> tuple[Kind, str]:
    """The kind and one sentence why."""
    from scipy.special import chdtrc

    order = sorted(fits, key=lambda kind: fits[kind].bic)
    best, second = order[0], order[1]
    fit, margin = fits[best], fits[second].bic - fits[best].bic
    if fit.off > WORSE:
        return Kind.UNKNOWN, (
            f"no joint explains the track: with the best one ({best}) frames lie {fit.off:.1f} stated standard "
            "deviations off. The body moves freely, its parent moves too, or the stated noise is too small."
        )
    if best is Kind.FIXED:
        gain, frames = _gain(fit, tuple(fits[kind] for kind in fits if kind is not Kind.FIXED))
        chance = float(chdtrc(frames + 1, gain))
        far = _span(motion)
        if chance < RARE:
            return Kind.UNKNOWN, (
                f"the body moves, but too little to say how: {far}. Open it farther while it is recorded."
            )
        return Kind.FIXED, f"the body did not move beyond its noise ({far}): it is fixed, or its joint was not moved."
    if margin < CLEAR:
        return Kind.UNKNOWN, (
            f"{best} and {second} explain the track about equally (BIC {fit.bic:.1f} and {fits[second].bic:.1f}). Open "
            "it farther, or track it with less noise."
        )
    if fit.axis_sd_deg > VAGUE_DEG:
        return Kind.UNKNOWN, (
            f"the body moves like a {best}, but its axis is uncertain by {fit.axis_sd_deg:.0f}°. Open it farther while "
            "it is recorded."
        )
    return best, f"{best} explains the track better than {second} by {margin:.0f} in BIC."


def _gain(still: Fitted, moving: tuple[Fitted, ...]) -> tuple[float, int]:
    """By how much squares fall when the body may move, and over how many frames.

    A few frames that lie far out are not counted: a joint explains part of any outlier, and that is no motion.
    """
    near = still.far < FAR
    if near.mean() < FEW_FAR:
        near = np.ones(len(near), bool)
    squares = float((np.minimum(still.far, FAR) ** 2)[near].sum())
    return max(0.0, squares - min(float((np.minimum(one.far, FAR) ** 2)[near].sum()) for one in moving)), int(
        near.sum()
    )


def _span(motion: Motion) -> str:
    off = difference(motion.poses[0], motion.poses)
    turn, shift = (float(np.quantile(np.linalg.norm(part, axis=1), 0.9)) for part in (off[:, :3], off[:, 3:]))
    return f"{1e3 * shift:.1f} mm and {np.degrees(turn):.1f}° from the first frame"


def _described(kind: Kind, reason: str, fit: Fitted, fits: dict[Kind, Fitted], motion: Motion) -> Articulation:
    """The fit with q counted from where the track began, positive where it went."""
    first = float(np.median(fit.q[: max(1, int(START * len(fit.q)))]))
    q = fit.q - first
    kept = q[fit.weight > 0.5] if (fit.weight > 0.5).any() else q
    sign = 1.0 if kept[np.abs(kept).argmax()] >= 0 else -1.0
    rest = fit.pose_at(first)
    return Articulation(
        kind=kind,
        reason=reason,
        T_parent_body=rest,
        axis=None if fit.axis is None else sign * fit.axis,
        origin=fit.origin if fit.turns else None if fit.axis is None else rest[:3, 3],
        range=_range(sign * q, fit.q_sd, fit.weight),
        axis_sd_deg=fit.axis_sd_deg,
        origin_sd_mm=fit.origin_sd_mm,
        q=sign * q,
        q_sd=fit.q_sd,
        bic={one.value: fits[one].bic for one in fits},
        off=fit.off,
        weight=fit.weight,
    )


def _range(q: np.ndarray, sd: float, weight: np.ndarray) -> tuple[float, float]:
    """The ends, each as the mean of the frames within two standard deviations of the extreme one."""
    kept = q[weight > 0.5] if (weight > 0.5).any() else q
    low, high = kept[kept <= kept.min() + 2 * sd].mean(), kept[kept >= kept.max() - 2 * sd].mean()
    return float(low), float(high)
