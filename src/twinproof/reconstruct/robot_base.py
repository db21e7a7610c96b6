"""The base's own edges: what fixes turning all cameras about the base against the first joint's offset.

The arm says nothing of that turn. Links that no joint moves do, and a camera that stands sees them the same way all the
time: all pictures of an episode make one, without what moves before them, and its edges are measured (`edge_marks`).
Each mark is known better than the line that it lies on: light, shadows and the model itself move and turn whole lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from twinproof.reconstruct.edge_marks import Drawn, Marks, marks
from twinproof.reconstruct.robot_doubt import Unknowns
from twinproof.reconstruct.robot_fit import CAMERA, Guess, Level, Robot, drawn_at
from twinproof.reconstruct.robot_frames import RobotFrames
from twinproof.reconstruct.robot_look import Look
from twinproof.reconstruct.robot_slopes import Shown
from twinproof.sim.link_edges import LinkEdges, link_edges
from twinproof.sim.ray_scene import linear

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

MOVES = 1e-9
GROWN_PX = 3  # around what moves
LEAST_LINES = 4  # straight ones and curves of the base over all cameras, below which they are not asked
LEAST_PX = 0.05  # by which lines are off at least: shading along them, the camera's own processing
FIRST_PX = 0.5  # by which they may be off while it is not known
ROUNDS = 8


def standing(robot: Robot) -> Bool[np.ndarray, "G"]:
    """Links that no joint moves."""
    model = robot.poses.model
    rest = np.array(model.qpos0)[robot.poses.address]
    here = robot.poses.at(rest)
    out = np.ones(len(here), bool)
    for by in 0.01 * np.eye(len(rest)):
        out &= np.abs(robot.poses.at(rest + by) - here).max(axis=(1, 2)) < MOVES
    return out


@dataclass(frozen=True, eq=False)
class Bare:
    """What one camera sees in one episode without what moves, in linear light; how many pictures show each pixel."""

    camera: str
    light: Float[np.ndarray, "H W 3"]
    seen: np.ndarray


@dataclass(frozen=True, eq=False)
class Told:
    """What edges say: `rows` times the unknowns' change is `off_px`. Marks of one line share what it is off by."""

    rows: Float[np.ndarray, "M P"]
    off_px: Float[np.ndarray, "M"]
    line: np.ndarray  # a number for each line in each camera
    place: Float[np.ndarray, "M"]  # on the line, −1 … 1

    def seen_before(self, step: Float[np.ndarray, "P"]) -> Told:
        """The same for changes counted from where the unknowns were before this step."""
        return replace(self, off_px=self.off_px + self.rows @ step)

    @property
    def enough(self) -> bool:
        """Whether there are lines enough to judge them by one another."""
        return len(np.unique(self.line)) >= LEAST_LINES


@dataclass(frozen=True, eq=False)
class Base:
    """The standing links' edges and the pictures that show them."""

    edges: LinkEdges
    pictures: tuple[Bare, ...]

    @classmethod
    def of(cls, robot: Robot, guess: Guess, all_frames: Sequence[RobotFrames], looks: dict[str, Look]) -> Base | None:
        """None where no link stands that has a shape."""
        still = standing(robot)
        still &= np.isin(np.arange(len(still)), robot.fine.splats.group)
        if not still.any():
            return None
        bodies = [robot.poses.bodies[k] for k in np.flatnonzero(still)]
        edges = link_edges(robot.poses.model, bodies, robot.poses.at_rest()[still])
        return cls(edges, tuple(_bare(robot, guess, f, looks[f.camera], still) for f in all_frames))

    def told(self, guess: Guess, unknowns: Unknowns) -> Told:
        """What the edges say of the cameras where they are believed to be now; the middle one of all episodes."""
        rows, offs, lines, places = list[np.ndarray](), list[np.ndarray](), list[np.ndarray](), list[np.ndarray]()
        for number, name in enumerate(unknowns.cameras):
            camera = guess.cameras[name].camera()
            drawn = Drawn.of(self.edges, camera)
            each = [marks(drawn, b.light, b.seen) for b in self.pictures if b.camera == name]
            one = _middle(each)
            if one is None:
                continue
            motion = Shown.at(one.points_m, camera).by_camera()  # 7 × M × 2
            own = np.zeros((len(one.off_px), len(unknowns)))
            first = number * len(CAMERA)
            own[:, first : first + len(motion)] = np.einsum("pmi,mi->mp", motion, one.normals)
            rows.append(own)
            offs.append(one.off_px)
            lines.append(one.line + number * (int(self.edges.line.max()) + 1))
            places.append(_places(one))
        if not rows:
            return Told(np.zeros((0, len(unknowns))), np.zeros(0), np.zeros(0, int), np.zeros(0))
        return Told(np.concatenate(rows), np.concatenate(offs), np.concatenate(lines), np.concatenate(places))


def _bare(robot: Robot, guess: Guess, frames: RobotFrames, look: Look, still: np.ndarray) -> Bare:
    from scipy.ndimage import maximum_filter

    total, seen = np.zeros(frames.rgb.shape[1:]), np.zeros(frames.rgb.shape[1:3], int)
    for rgb, time_s in zip(frames.rgb, frames.time_s, strict=True):
        picture = drawn_at(robot, guess, frames, float(time_s), look, Level(1, 0, 1, 0))
        assert picture.group is not None
        moving = (picture.alpha > 0.02) & (picture.group >= 0) & ~still[np.maximum(picture.group, 0)]
        free = ~np.asarray(maximum_filter(moving, 2 * GROWN_PX + 1))
        total += linear(np.clip(rgb, 0, 1)) * free[..., None]
        seen += free
    return Bare(frames.camera, total / np.maximum(seen, 1)[..., None], seen)


def _middle(each: Sequence[Marks]) -> Marks | None:
    """One mark for each place: the middle of all episodes that show it."""
    piece = np.concatenate([m.piece for m in each]) if each else np.zeros(0, int)
    if not len(piece):
        return None
    kinds, first, of = np.unique(piece, return_index=True, return_inverse=True)
    points, normals, line, off = (
        np.concatenate([getattr(m, field) for m in each]) for field in ("points_m", "normals", "line", "off_px")
    )
    middle = np.array([np.median(off[of == k]) for k in range(len(kinds))])
    return Marks(points[first], normals[first], line[first], kinds, middle)


def _places(of: Marks) -> np.ndarray:
    """Where on its line each mark is: −1 at one end, 1 at the other; 0 for one that is alone."""
    out = np.zeros(len(of.off_px))
    for line in np.unique(of.line):
        mine = of.line == line
        points = of.points_m[mine] - of.points_m[mine].mean(axis=0)
        along = points @ np.linalg.svd(points, full_matrices=False)[2][0]
        out[mine] = along / max(float(np.abs(along).max()), 1e-9)
    return out


def sharpened(
    step: Float[np.ndarray, "P"], covariance: Float[np.ndarray, "P P"], told: Told
) -> tuple[np.ndarray, np.ndarray]:
    """Step and covariance after the edges count too.

    By how much lines are off is seen from what they leave; those that are off by far more count by so much less.
    """
    J, cut = told.rows, told.line[:, None] == told.line
    line_px, own = FIRST_PX, np.ones(len(told.off_px))
    new, kept = step, covariance
    for _ in range(ROUNDS):
        shared = line_px**2 * np.outer(own, own) * cut * (1 + np.outer(told.place, told.place))
        noise = shared + np.diag((line_px * own) ** 2)
        gain = np.linalg.solve(J @ covariance @ J.T + noise, J @ covariance).T
        new = step + gain @ (told.off_px - J @ step)
        kept = covariance - gain @ J @ covariance
        left = np.abs(told.off_px - J @ new)
        line_px = max(LEAST_PX, 0.5 * line_px, 1.5 * float(np.median(left)))
        of_line = {line: float(np.median(left[told.line == line])) for line in np.unique(told.line)}
        own = np.array([max(1.0, max(of_line[n], x) / (2 * line_px)) for n, x in zip(told.line, left, strict=True)])
    return new, np.asarray(0.5 * (kept + kept.T))
