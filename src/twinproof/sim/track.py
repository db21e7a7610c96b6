"""A streaming tracker: where an object is, picture by picture, by drawing its splats over the background.

tracker = Tracker(splats of the object in its body's frame, Following(rest=Rest(T_world_object)))
pose = tracker.step([sight(camera, picture, plate, robot), ...], time_s)     # one call for each time, in order
track(tracker, clips, plates, start)                                         # a whole episode
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import SplatError
from twinproof.sim.track_find import candidates
from twinproof.sim.track_fit import Followed, Pixels, Pull, boxes, pulls, slopes
from twinproof.sim.track_pose import Pose, by_camera, move_between, nudged
from twinproof.sim.track_sight import Sight, pyramid

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from twinproof.nouns.splats import Splats
    from twinproof.sim.track_fit import Slopes

WEAK_M, WEAK_RAD = 0.3, 2.0  # where pictures tell nothing, covariances end here
WEAK = np.diag(np.repeat([WEAK_M**-2, WEAK_RAD**-2], 3))
STALE_PX = 0.7  # slopes are taken anew where the object has moved by more


@dataclass(frozen=True, eq=False)
class Rest:
    """The object stands on a table: height and tilt are those of this pose, within these errors.

    The tie is let go in a picture that pulls away from it by more than `leave` squared standard errors.
    """

    T_world_object: Float[np.ndarray, "4 4"]
    sd_m: float = 0.0005
    sd_rad: float = 0.005
    leave: float = 25.0

    def pull(self, T: np.ndarray) -> tuple[Float[np.ndarray, "6 6"], Float[np.ndarray, "6"]]:
        """Hessian and gradient of the tie at a pose."""
        J, off = self.gap(T)
        weight = 1 / np.square([self.sd_m, self.sd_rad, self.sd_rad])
        return (J.T * weight) @ J, (J.T * weight) @ -off

    def gap(self, T: np.ndarray) -> tuple[Float[np.ndarray, "3 6"], Float[np.ndarray, "3"]]:
        """How far height and tilt are from those at rest, and how that moves with the pose."""
        up = T[:3, :3] @ self.T_world_object[:3, :3].T[:, 2]
        J = np.zeros((3, 6))
        J[0, 2] = 1.0
        J[1, 4], J[1, 5] = up[2], -up[1]
        J[2, 3], J[2, 5] = -up[2], up[0]
        return J, np.array([T[2, 3] - self.T_world_object[2, 3], up[0], up[1]])


@dataclass(frozen=True)
class Following:
    """How an object is followed."""

    pixels: Pixels = field(default_factory=Pixels)
    rest: Rest | None = None
    levels: int = 1  # smaller pictures that are fitted first
    margin_px: float = 8.0
    moves: int = 6  # of Gauss-Newton on each level
    enough: float = 0.2  # a move of so many standard errors ends
    least_seen: float = 0.1
    least_explained: float = 0.25
    camera_sd_m: float = 0.0  # stated errors of the cameras' poses, part of the covariance
    camera_sd_rad: float = 0.0
    predict: bool = True

    @property
    def camera_sd(self) -> Float[np.ndarray, "6"]:
        """Stated error of a camera's small move."""
        return np.repeat([self.camera_sd_m, self.camera_sd_rad], 3)


@dataclass(frozen=True, eq=False)
class Fitted:
    """A pose at the bottom of its cost, with what each sight says there."""

    T_world_object: Float[np.ndarray, "4 4"]
    pulls: tuple[Pull | None, ...]
    cost: float
    rests: bool
    crops: tuple[Int[np.ndarray, "4"] | None, ...]
    by: tuple[Slopes | None, ...]  # slopes, taken within a pixel of the pose


class Tracker:
    """Follows one object. `step` takes the sights of one time; what it remembers is where the object was."""

    def __init__(self, splats: Splats, settings: Following | None = None) -> None:
        if not len(splats):
            raise SplatError("an object without splats cannot be followed. Give splats on its surface.")
        self.thing = Followed.of(splats)
        self.how = settings or Following()
        self._before: list[tuple[float, np.ndarray]] = []
        self._lost, self._given = True, True  # a pose that was given tells no speed

    def restart(self, T_world_object: Float[np.ndarray, "4 4"] | None = None, time_s: float = 0.0) -> None:
        """Forgets what was; the object is at this pose, or anywhere."""
        self._before = [] if T_world_object is None else [(time_s, np.array(T_world_object, float))]
        self._lost = T_world_object is None
        self._given = True

    @property
    def speed(self) -> Float[np.ndarray, "6"]:
        """The last move over its time."""
        if len(self._before) < 2 or not self.how.predict:
            return np.zeros(6)
        (t0, T0), (t1, T1) = self._before[-2:]
        speed: np.ndarray = move_between(T0, T1) / max(t1 - t0, 1e-3)
        return speed

    def step(
        self,
        sights: Sequence[Sight],
        time_s: float,
        start: Float[np.ndarray, "4 4"] | None = None,
        speed: Float[np.ndarray, "6"] | None = None,
    ) -> Pose:
        """The pose at one time. `speed` moves the object to when each picture was taken (by default the last one)."""
        speed = self.speed if speed is None else speed
        starts = [start] if start is not None else self._starts(sights, time_s, speed)
        pose = self._best(sights, starts, speed)
        if pose.lost and start is None and not self._lost:
            more = self._best(sights, candidates(self.thing, sights, self.how.rest, self._last()), speed)
            pose = more if more.explained > pose.explained else pose
        self._lost = pose.lost
        if not pose.lost:
            self._before = [*([] if self._given else self._before[-1:]), (time_s, pose.T_world_object)]
            self._given = False
        return pose

    def fit(self, sights: Sequence[Sight], start: np.ndarray, speed: np.ndarray) -> Fitted:
        """The pose nearest to a start at which the pictures fit best."""
        levels = list(zip(*(pyramid(each, self.how.levels) for each in sights), strict=True))
        around = boxes(self.thing, levels[-1], [start] * len(sights), self.how.margin_px)
        gains = [_gain(each, box) for each, box in zip(levels[-1], around, strict=True)]
        ready = [[replace(each, gain=g) for each, g in zip(level, gains, strict=True)] for level in levels]
        found = self._down(ready, start, speed, tied=True)
        if found.rests and self._pulls_away(ready[0], found):
            found = self._down(ready, start, speed, tied=False)
        return self._settled(ready[0], found, speed) if self.how.rest or self.how.camera_sd.any() else found

    def _down(self, levels: Sequence[Sequence[Sight]], T: np.ndarray, speed: np.ndarray, tied: bool) -> Fitted:
        """From the smallest pictures to the largest."""
        for level in reversed(levels[1:]):
            T = self._descend(level, T, speed, last=False, tied=tied).T_world_object
        return self._descend(levels[0], T, speed, last=True, tied=tied)

    def _starts(self, sights: Sequence[Sight], time_s: float, speed: np.ndarray) -> list[np.ndarray]:
        if self._lost:
            return candidates(self.thing, sights, self.how.rest, self._last())
        before_s, T = self._before[-1]
        return [nudged(T, speed * np.clip(time_s - before_s, 0, 0.2))]

    def _last(self) -> np.ndarray | None:
        return self._before[-1][1] if self._before else None

    def _best(self, sights: Sequence[Sight], starts: Sequence[np.ndarray], speed: np.ndarray) -> Pose:
        if not starts:
            T = self._last()
            return _unknown(np.eye(4) if T is None else T)
        if len(starts) > 2:  # many: the best few by their cost on the smallest picture
            small = [pyramid(each, self.how.levels)[-1] for each in sights]
            costs = [self._explained(small, start, speed) for start in starts]
            starts = [starts[k] for k in np.argsort(costs)[::-1][:3]]
        poses = [self._judged(sights, self.fit(sights, start, speed)) for start in starts]
        return max(poses, key=lambda pose: pose.explained)

    def _explained(self, sights: Sequence[Sight], T: np.ndarray, speed: np.ndarray) -> float:
        poses = [nudged(T, speed * each.lead_s) for each in sights]
        crops = boxes(self.thing, sights, poses, 2.0)
        return explained(pulls(self.thing, sights, poses, crops, self.how.pixels))

    def _descend(
        self, sights: Sequence[Sight], start: np.ndarray, speed: np.ndarray, last: bool, tied: bool = True
    ) -> Fitted:
        """Levenberg-Marquardt on one level. The pixels that count stay; slopes are taken anew after a pixel."""
        how, rest = self.how, self.how.rest if tied else None
        crops = boxes(self.thing, sights, [nudged(start, speed * each.lead_s) for each in sights], how.margin_px)
        T, damping, sigmas, by, drawn_at = start, 1e-3, None, None, start
        here: Fitted | None = None
        for _ in range(how.moves):
            poses = [nudged(T, speed * each.lead_s) for each in sights]
            if by is None or self._pixels(move_between(drawn_at, T), sights) > STALE_PX:
                by, drawn_at = slopes(self.thing, sights, poses, crops, how.pixels, central=last), T
            found = pulls(self.thing, sights, poses, crops, how.pixels, sigmas, by)
            cost = sum(pull.cost for pull in found if pull is not None) + _tie_cost(rest, T)
            if here is None or cost <= here.cost * (1 + 1e-9):
                here = Fitted(T, tuple(found), cost, rest is not None, tuple(crops), tuple(by))
                sigmas = [0.0 if pull is None else pull.sigma for pull in found]
                damping = max(damping / 4, 1e-6)
            else:
                damping *= 16
            H, g = normal(here, rest)
            move = np.linalg.solve(H + damping * np.diag(np.diag(H)) + 1e-9 * np.eye(6), g)
            if (last and float(move @ H @ move) < how.enough**2) or self._pixels(move, sights) < (
                0.002 if last else 0.15
            ):
                break
            move = self._held(move, sights)
            T = nudged(here.T_world_object, move)
        assert here is not None
        return here

    def _pixels(self, move: np.ndarray, sights: Sequence[Sight]) -> float:
        """About how many pixels a move is."""
        size = float(np.linalg.norm(move[:3]) + np.linalg.norm(move[3:]) * self.thing.radius_m)
        focal = max(each.camera.lens.fx / max(_depth(each, self._last()), 0.05) for each in sights)
        return size * focal

    def _held(self, move: np.ndarray, sights: Sequence[Sight]) -> np.ndarray:
        """The move, cut to half the margin."""
        size = self._pixels(move, sights)
        return move * min(1.0, 0.5 * self.how.margin_px / max(size, 1e-9))

    def _pulls_away(self, sights: Sequence[Sight], found: Fitted) -> bool:
        """Whether the pictures alone are farther from the table than both errors allow."""
        rest = self.how.rest
        assert rest is not None
        H, g = self.told(sights, found, None)
        spread = np.linalg.inv(H + WEAK)
        J, off = rest.gap(nudged(found.T_world_object, np.clip(spread @ g, -0.1, 0.1)))
        apart = J @ spread @ J.T + np.diag(np.square([rest.sd_m, rest.sd_rad, rest.sd_rad]))
        return float(off @ np.linalg.solve(apart, off)) > rest.leave

    def _settled(self, sights: Sequence[Sight], found: Fitted, speed: np.ndarray) -> Fitted:
        """The pose that pictures, cameras' errors and table agree on: two more moves, each weighed by its error."""
        rest = self.how.rest if found.rests else None
        sigmas = [0.0 if pull is None else pull.sigma for pull in found.pulls]
        for _ in range(2):
            H, g = self.told(sights, found, rest)
            move = self._held(np.linalg.solve(H + WEAK, g), sights)
            T = nudged(found.T_world_object, move)
            again = pulls(
                self.thing, sights, [nudged(T, speed * s.lead_s) for s in sights], found.crops, self.how.pixels, sigmas,
                found.by,
            )  # fmt: skip
            found = replace(found, T_world_object=T, pulls=tuple(again))
        return found

    def _judged(self, sights: Sequence[Sight], found: Fitted) -> Pose:
        open_ = sum(pull.open for pull in found.pulls if pull is not None)
        cover = sum(pull.cover for pull in found.pulls if pull is not None)
        seen = open_ / cover if cover > 0 else 0.0
        better = explained(found.pulls)
        pixels = sum(pull.pixels for pull in found.pulls if pull is not None)
        misfit = np.sqrt(sum(pull.with_ for pull in found.pulls if pull is not None) / max(3 * open_, 1.0))
        H, _ = self.told(sights, found, self.how.rest if found.rests else None)
        lost = not pixels or seen < self.how.least_seen or better < self.how.least_explained
        covariance = np.linalg.inv(H + WEAK)
        return Pose(found.T_world_object, covariance, float(seen), float(misfit), better, bool(lost), found.rests)

    def told(
        self, sights: Sequence[Sight], found: Fitted, rest: Rest | None
    ) -> tuple[Float[np.ndarray, "6 6"], Float[np.ndarray, "6"]]:
        """What is known of a small move: the pictures, each with its camera's stated error, and the tie."""
        H, g = np.zeros((6, 6)), np.zeros(6)
        less = surer(found.pulls)
        for each, pull in zip(sights, found.pulls, strict=True):
            if pull is not None:
                seen = by_camera(each.camera.T_world_camera, found.T_world_object[:3, 3])
                one, pulled = marginal(pull.hessian / less, pull.gradient / less, seen, self.how.camera_sd)
                H, g = H + one, g + pulled
        if rest is not None:
            tie, pulled = rest.pull(found.T_world_object)
            H, g = H + tie, g + pulled
        return H, g


def surer(found: Sequence[Pull | None]) -> float:
    """By how much the pixels' equations are surer than they may be.

    Neighbours err together (the sum of their blocks' squares tells), and large misfits are flatter than their weights.
    One factor for all directions: six by six numbers from some fifty blocks would be noise themselves.
    """
    H, B, A = np.zeros((6, 6)), np.zeros((6, 6)), np.zeros((6, 6))
    for pull in found:
        if pull is not None:
            H, B, A = H + pull.hessian[:6, :6], B + pull.score[:6, :6], A + pull.bend * pull.hessian[:6, :6]
    if not H.any():
        return 1.0
    bend = np.trace(A) / np.trace(H)
    return max(float(np.trace(np.linalg.pinv(H, hermitian=True) @ B) / 6 / bend**2), 0.1)


def marginal(
    H: Float[np.ndarray, "6 6"], g: Float[np.ndarray, "6"], seen: Float[np.ndarray, "6 6"], sd: Float[np.ndarray, "6"]
) -> tuple[Float[np.ndarray, "6 6"], Float[np.ndarray, "6"]]:
    """One camera's equations when the camera itself may be off by `sd`: what it tells of the object is less sure."""
    if not (sd > 0).any():
        return H, g
    J = seen * sd
    inner = np.linalg.inv(np.eye(6) + J.T @ H @ J)
    keep = np.eye(6) - H @ J @ inner @ J.T
    less = keep @ H
    return (less + less.T) / 2, keep @ g


def normal(found: Fitted, rest: Rest | None) -> tuple[Float[np.ndarray, "6 6"], Float[np.ndarray, "6"]]:
    """All sights' equations as they stand, and the tie's."""
    H, g = np.zeros((6, 6)), np.zeros(6)
    for pull in found.pulls:
        if pull is not None:
            H, g = H + pull.hessian, g + pull.gradient
    if rest is not None:
        tie, pulled = rest.pull(found.T_world_object)
        H, g = H + tie, g + pulled
    return H, g


def explained(found: Sequence[Pull | None]) -> float:
    """By how much the object's pixels fit better with it than without: 1 is all, 0 is nothing."""
    without = sum(pull.without for pull in found if pull is not None)
    with_ = sum(pull.with_ for pull in found if pull is not None)
    return float(1 - with_ / without) if without > 0 else 0.0


def _tie_cost(rest: Rest | None, T: np.ndarray) -> float:
    if rest is None:
        return 0.0
    _, off = rest.gap(T)
    return float(np.square(off / [rest.sd_m, rest.sd_rad, rest.sd_rad]).sum() / 2)


def _gain(sight: Sight, crop: np.ndarray | None) -> np.ndarray | None:
    if sight.gain is not None:
        return sight.gain
    apart = np.zeros(sight.hidden.shape, bool)
    if crop is not None:
        apart[crop[1] : crop[3], crop[0] : crop[2]] = True
    return sight.exposed(apart).gain


def _depth(sight: Sight, T: np.ndarray | None) -> float:
    pose = sight.camera.T_world_camera
    return 1.0 if T is None else float((T[:3, 3] - pose[:3, 3]) @ pose[:3, 2])


def _unknown(T: np.ndarray) -> Pose:
    return Pose(T, np.linalg.inv(WEAK), 0.0, 0.0, 0.0, True)
