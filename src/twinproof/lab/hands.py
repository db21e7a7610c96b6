"""How a person would move an object by hand, and what a camera-based tracker would say of it: for retargeting.

sweep, circle, point    near the object, never touching it
push, pick, drag        with contact: pushed with closed fingers; lifted, carried and put down; pulled over the table

The tracker has its own frame and its own unit, 30 pictures a second, noisy keypoints that tremble, and loses some.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twinproof.nouns.randomness import stream
from twinproof.train.hand_track import HandTrack

KINDS = ("sweep", "circle", "point", "push", "pick", "drag")
RATE_HZ = 30.0
KEYPOINT_SD_M, POSE_SD_M, TURN_SD_RAD, LOST = 0.004, 0.002, 0.02, 0.03
TREMOR_M, TREMOR_HZ = 0.0015, 9.0
PALM_M = 0.15  # from the wrist to the pinch
FINGERTIP_M = 0.008


@dataclass(frozen=True, eq=False)
class Shown:
    """A track, and what was really the case: metres, in the person's own frame, z up."""

    track: HandTrack
    time_s: np.ndarray  # (T,)
    pinch_m: np.ndarray  # (T, 3)
    object_m: np.ndarray  # (T, 3)
    yaw_rad: float  # of the object
    touches: bool

    @property
    def relative_m(self) -> np.ndarray:
        """Where the pinch is in the object's own axes (T, 3)."""
        c, s = np.cos(self.yaw_rad), np.sin(self.yaw_rad)
        turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
        found: np.ndarray = (self.pinch_m - self.object_m) @ turn
        return found


def human_track(kind: str, half_m: np.ndarray, seed: int) -> Shown:
    """One take of a kind of motion with an object of this box (half its sides)."""
    rng = stream(seed, "lab", "hands", kind)
    legs = _legs(kind, np.asarray(half_m, dtype=float), rng)
    ends = np.cumsum([leg[0] for leg in legs])
    time_s = np.arange(0.0, ends[-1], 1 / RATE_HZ)
    pinch, aperture, carried = _moved(legs, time_s)
    heading = rng.uniform(-np.pi, np.pi)
    c, s = np.cos(heading), np.sin(heading)
    turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
    pinch, carried = pinch @ turn.T, carried @ turn.T
    yaw = heading + rng.uniform(-0.15, 0.15)
    shown = Shown(None, time_s, pinch, carried, yaw, kind in ("push", "pick", "drag"))  # type: ignore[arg-type]
    return _tracked(shown, (turn, aperture), half_m, rng)


def _legs(kind: str, half: np.ndarray, rng: np.random.Generator) -> list[tuple[float, np.ndarray, float, np.ndarray]]:
    """Seconds, where the pinch ends relative to the object's first place, how far the fingers are apart, and how far
    the object has then come: all along x, which is turned later."""
    wide, narrow, none = 2 * half[:2].min() + 0.03, 2 * float(half[:2].min()), np.zeros(3)
    behind, side = -(half[0] + FINGERTIP_M), half[1] + 0.06
    low, top = max(0.6 * half[2], 0.025) - half[2], half[2] - 0.03
    away = np.array([-0.09, 0.02, half[2] + 0.09])
    way = np.array([rng.uniform(0.07, 0.09), 0.0, 0.0])
    up = np.array([0.0, 0.0, rng.uniform(0.07, 0.09)])
    match kind:
        case "sweep":
            ends = [away, [0.0, side, half[2] + 0.05], [0.09, 0.0, half[2] + 0.06], [0.0, -side, half[2] + 0.05], away]
            return [(1.0, np.array(end), 0.05, none) for end in ends]
        case "circle":
            turns = np.linspace(0, 2 * np.pi, 13)
            radius = float(half[:2].max()) + 0.055
            ring = [np.array([radius * np.cos(t), radius * np.sin(t), half[2] + 0.03]) for t in turns]
            return [(1.0, ring[0], 0.03, none), *((0.3, end, 0.03, none) for end in ring[1:])]
        case "point":
            near = np.array([behind - 0.03, 0.0, 0.01])
            return [(1.0, away, 0.03, none), (1.0, near, 0.02, none), (0.5, near, 0.02, none), (1.0, away, 0.03, none)]
        case "push":
            back, touch = np.array([behind - 0.04, 0.0, low]), np.array([behind, 0.0, low])
            return [
                (0.8, away, 0.02, none), (0.8, back, 0.015, none), (0.5, touch, 0.015, none),
                (1.2, touch + way, 0.015, way), (0.5, back + way, 0.015, way), (0.7, away + way, 0.03, way),
            ]  # fmt: skip
        case "pick" | "drag":
            hold, over = np.array([0.0, 0.0, top]), np.array([0.0, 0.0, half[2] + 0.07])
            taken = [
                (0.8, away, wide, none),
                (0.7, over, wide, none),
                (0.7, hold, wide, none),
                (0.4, hold, narrow, none),
            ]
            put = [(0.4, hold + way, wide, way), (0.7, over + way, wide, way), (0.5, away + way, wide, way)]
            if kind == "drag":
                return [*taken, (1.4, hold + way, narrow, way), *put]
            lifted = [(0.8, hold + up, narrow, up), (0.8, hold + up + way, narrow, up + way)]
            return [*taken, *lifted, (0.8, hold + way, narrow, way), *put]
        case _:
            raise AssertionError(f"a person was asked for {kind!r}; known are {', '.join(KINDS)}")


def _moved(legs: list[tuple[float, np.ndarray, float, np.ndarray]], time_s: np.ndarray) -> tuple[np.ndarray, ...]:
    """Smooth motion from leg to leg, at rest at each end, as hands move (minimum jerk, Flash and Hogan 1985)."""
    pinch, aperture, carried = (np.zeros((len(time_s), n)) for n in (3, 1, 3))
    begun, before = 0.0, (np.asarray(legs[0][1]) + np.array([-0.05, 0.0, 0.03]), legs[0][2], legs[0][3])
    for seconds, place, apart, object_m in legs:
        now = (time_s >= begun) & (time_s < begun + seconds + 1e-9)
        u = ((time_s[now] - begun) / seconds)[:, None]
        share = u**3 * (10 - 15 * u + 6 * u**2)
        pinch[now] = before[0] + share * (np.asarray(place) - before[0])
        aperture[now] = before[1] + share * (apart - before[1])
        carried[now] = before[2] + share * (np.asarray(object_m) - before[2])
        begun, before = begun + seconds, (np.asarray(place), apart, object_m)
    return pinch, aperture[:, 0], carried


def _tracked(shown: Shown, hand: tuple[np.ndarray, np.ndarray], half_m: np.ndarray, rng: np.random.Generator) -> Shown:
    turn, aperture = hand
    count, time_s = len(shown.time_s), shown.time_s
    tilt = np.radians(rng.uniform(55, 75))  # of the hand, below the horizon
    approach = turn @ np.array([np.cos(tilt), 0.0, -np.sin(tilt)])
    across = turn @ np.array([0.0, 1.0, 0.0])
    shake = TREMOR_M * np.sin(2 * np.pi * TREMOR_HZ * time_s[:, None] + rng.uniform(0, 2 * np.pi, 3))
    middle = shown.pinch_m + shake
    spread = aperture[:, None] / 2 * across
    points = np.stack([middle - PALM_M * approach, middle - spread, middle + spread], axis=1)
    points += rng.normal(0, KEYPOINT_SD_M, points.shape)
    small = rng.normal(0, TURN_SD_RAD, (count, 3)) / 2
    half = shown.yaw_rad / 2
    c, s = np.cos(half), np.sin(half)
    quat = np.stack([c - s * small[:, 2], c * small[:, 0] + s * small[:, 1],
                     c * small[:, 1] - s * small[:, 0], s + c * small[:, 2]], axis=1)  # fmt: skip
    place = shown.object_m + rng.normal(0, POSE_SD_M, (count, 3))
    unit, origin = float(rng.uniform(0.6, 1.6)), rng.uniform(-0.5, 0.5, 3)
    points[rng.random(count) < LOST] = np.nan
    pose = np.concatenate([unit * place + origin, quat], axis=1)
    pose[rng.random(count) < LOST] = np.nan
    names = ("wrist", "thumb_tip", "index_tip")
    size = unit * 2 * np.asarray(half_m) * (1 + rng.normal(0, 0.02, 3))
    track = HandTrack(time_s, names, unit * points + origin, pose, size)
    return Shown(track, time_s, shown.pinch_m, shown.object_m, shown.yaw_rad, shown.touches)
