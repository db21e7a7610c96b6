"""Contact margins: how much error of a collision shape changes what happens, and where the cliff is.

stand = standing_margin(parts, com_m, plane)     shift along the normal, and tilt, on a support
grip = grip_margin(parts, fingers)               shift against two fingers that close on it

A margin of 0.3 mm means: an error of the shape larger than that turns contact into none, or standing into toppling.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import MeshError
from twinproof.nouns.hashing import Json
from twinproof.nouns.mesh import Mesh
from twinproof.sim.grid import Plane

if TYPE_CHECKING:
    from jaxtyping import Float


@dataclass(frozen=True)
class Standing:
    """How a shape stands on a plane."""

    gap_m: float  # lowest point above the plane; below 0 it starts inside
    shift_m: float  # lifting it by more than this ends the contact (below 0: there is none to begin with)
    base_m2: float  # area of the polygon of points within the tolerance of the lowest one
    tip_rad: float  # the least tilt that topples it; 0 where it does not stand at all
    tip_towards: tuple[float, float, float]

    def as_json(self) -> dict[str, Json]:
        """For the audits of a twin."""
        return {
            **{"gap_m": self.gap_m, "shift_m": self.shift_m, "base_m2": self.base_m2, "tip_rad": self.tip_rad},
            "tip_towards": list(self.tip_towards),
        }


def standing_margin(
    parts: Sequence[Mesh], com_m: Sequence[float], plane: Plane, tolerance_m: float = 0.001
) -> Standing:
    """Stability on a support: it topples where the centre of mass leaves the polygon of the lowest points."""
    if not parts:
        raise MeshError("margin: there is no collision part. Make some first.")
    points = np.concatenate([part.vertices for part in parts])
    above = plane.above(points)
    low = float(above.min())
    feet = points[above <= low + tolerance_m]
    across, along = _axes(plane)
    flat = np.stack([feet @ across, feet @ along], axis=1)
    com = np.asarray(com_m, float)
    centre, height = np.array([com @ across, com @ along]), float(plane.above(com)) - low
    edges = _polygon(flat)
    area, margin, towards = 0.0, 0.0, np.zeros(2)
    if len(edges) >= 3:
        after = np.roll(edges, -1, axis=0)
        area = 0.5 * float(np.sum(edges[:, 0] * after[:, 1] - edges[:, 1] * after[:, 0]))
        normal = np.stack([after[:, 1] - edges[:, 1], edges[:, 0] - after[:, 0]], axis=1)
        normal /= np.linalg.norm(normal, axis=1, keepdims=True)
        inside = np.einsum("nd,nd->n", normal, edges - centre)
        margin, towards = float(inside.min()), normal[inside.argmin()]
    world = towards[0] * across + towards[1] * along
    tip = float(np.arctan2(max(margin, 0.0), max(height, 1e-9)))
    return Standing(low, tolerance_m - low, area, tip, (float(world[0]), float(world[1]), float(world[2])))


def _axes(plane: Plane) -> tuple[Float[np.ndarray, "3"], Float[np.ndarray, "3"]]:
    normal = np.array(plane.normal)
    across = np.cross(normal, np.eye(3)[int(np.abs(normal).argmin())])
    across /= np.linalg.norm(across)
    return across, np.cross(normal, across)


def _polygon(points: Float[np.ndarray, "P 2"]) -> Float[np.ndarray, "N 2"]:
    """The convex polygon around points, counter-clockwise; empty where they lie on a line."""
    from scipy.spatial import ConvexHull, QhullError

    if len(points) < 3:
        return np.zeros((0, 2))
    try:
        return np.asarray(points[ConvexHull(points).vertices])
    except QhullError:
        return np.zeros((0, 2))


@dataclass(frozen=True)
class Grip:
    """How two fingers hold a shape: overlap of each finger, and the least shift that changes who touches."""

    pressed_m: tuple[float, float]  # how deep each finger would be inside; below 0 it does not touch
    cliff_m: float  # the least shift, in any direction tried, that changes whether a finger touches
    cliff_towards: tuple[float, float, float]

    def as_json(self) -> dict[str, Json]:
        """For the audits of a twin."""
        return {"pressed_m": list(self.pressed_m), "cliff_m": self.cliff_m, "cliff_towards": list(self.cliff_towards)}


def grip_margin(parts: Sequence[Mesh], fingers: tuple[Mesh, Mesh], most_m: float = 0.03) -> Grip:
    """Shifts the shape in 26 directions until one of the fingers touches that did not, or lets go that did."""
    from twinproof.sim.separation import Solids

    solids = Solids({"shape": parts, "left": [fingers[0]], "right": [fingers[1]]})

    def apart(shift: np.ndarray) -> tuple[float, float]:
        T = np.eye(4)
        T[:3, 3] = shift
        return solids.separation_m("shape", "left", T), solids.separation_m("shape", "right", T)

    start = apart(np.zeros(3))
    touching = tuple(gap <= 0 for gap in start)
    best, towards = most_m, np.zeros(3)
    for step in np.ndindex(3, 3, 3):
        direction = np.array(step, float) - 1
        if not direction.any():
            continue
        direction /= np.linalg.norm(direction)

        def changed(by: float, direction: np.ndarray = direction) -> bool:
            return tuple(gap <= 0 for gap in apart(by * direction)) != touching

        found = cliff(changed, best)
        if found < best:
            best, towards = found, direction
    return Grip((-start[0], -start[1]), best, (float(towards[0]), float(towards[1]), float(towards[2])))


def cliff(changed: Callable[[float], bool], most: float, coarse: int = 12, rounds: int = 12) -> float:
    """The least amount at which something changes, to a thousandth of a step; `most` where nothing does."""
    steps = np.linspace(0, most, coarse + 1)[1:]
    first = next((k for k, amount in enumerate(steps) if changed(float(amount))), None)
    if first is None:
        return most
    low, high = (float(steps[first - 1]) if first else 0.0), float(steps[first])
    for _ in range(rounds):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if changed(middle) else (middle, high)
    return high
