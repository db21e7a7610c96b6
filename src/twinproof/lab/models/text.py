"""What all model texts share: values by parameter id, numbers as text, and camera poses.

A builder asks `values("joint.elbow.damping", 1.1)`. With no values given it writes the nominal model; with the hidden
ones it writes the true model. The ids are those of the parameter vocabulary, so the two differ by a Theta and no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Float


@dataclass
class Values:
    """Hidden values by parameter id; notes the nominal of every id that a builder asked for."""

    hidden: Mapping[str, float] = field(default_factory=dict)
    nominal: dict[str, float] = field(default_factory=dict)

    def __call__(self, id: str, nominal: float) -> float:
        """The hidden value where there is one, else the nominal one."""
        self.nominal[id] = float(nominal)
        return float(self.hidden.get(id, nominal))

    @property
    def unused(self) -> tuple[str, ...]:
        """Ids with a hidden value that no builder asked for: they act outside the model, or are a mistake."""
        return tuple(sorted(set(self.hidden) - set(self.nominal)))


def numbers(*values: float | Iterable[float]) -> str:
    """Numbers as MJCF writes them, twelve digits each."""
    flat = np.concatenate([np.atleast_1d(np.asarray(value, dtype=np.float64)).ravel() for value in values])
    return " ".join(f"{0.0 if x == 0 else x:.12g}" for x in flat)


def turned(yaw_rad: float) -> str:
    """The quaternion of a turn about the vertical, as MJCF writes it."""
    return numbers(np.cos(yaw_rad / 2), 0, 0, np.sin(yaw_rad / 2))


def inertial(values: Values, body: str, mass_kg: float, com_m: Iterable[float], inertia: Iterable[float]) -> str:
    """A body's inertia; another mass keeps the shape and changes the density."""
    mass = values(f"body.{body}.mass", mass_kg)
    scaled = np.asarray(tuple(inertia)) * (mass / mass_kg)
    return f'<inertial pos="{numbers(com_m)}" mass="{numbers(mass)}" diaginertia="{numbers(scaled)}"/>'


def box_inertia(mass_kg: float, half_m: Iterable[float]) -> np.ndarray:
    """Principal inertia of a solid box with half sizes."""
    x, y, z = (h * h for h in half_m)
    return mass_kg / 3 * np.array([y + z, x + z, x + y])


def cylinder_inertia(mass_kg: float, radius_m: float, half_m: float) -> np.ndarray:
    """Principal inertia of a solid cylinder along z."""
    across = mass_kg * (3 * radius_m**2 + 4 * half_m**2) / 12
    return np.array([across, across, mass_kg * radius_m**2 / 2])


def looking_at(
    position_m: Iterable[float], target_m: Iterable[float], roll_rad: float = 0.0
) -> Float[np.ndarray, "4 4"]:
    """T_parent_camera of a camera at a place that looks at another: +z forward, x right, y down."""
    position, target = np.asarray(tuple(position_m), float), np.asarray(tuple(target_m), float)
    forward = (target - position) / np.linalg.norm(target - position)
    up = np.array([0.0, 0.0, 1.0]) if abs(forward[2]) < 0.99 else np.array([1.0, 0.0, 0.0])
    right = np.cross(forward, up)
    right /= np.linalg.norm(right)
    pose = np.eye(4)
    pose[:3, :3] = np.stack([right, np.cross(forward, right), forward], axis=1) @ rotation([0, 0, roll_rad])
    pose[:3, 3] = position
    return pose


def rotation(vector_rad: Iterable[float]) -> Float[np.ndarray, "3 3"]:
    """The rotation matrix of a rotation vector (Rodrigues)."""
    vector = np.asarray(tuple(vector_rad), float)
    angle = float(np.linalg.norm(vector))
    if angle < 1e-12:
        return np.eye(3)
    x, y, z = vector / angle
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    turned: np.ndarray = np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross
    return turned


def rotation_vector(matrix: np.ndarray) -> Float[np.ndarray, "3"]:
    """The rotation vector of a rotation matrix, shorter than half a turn."""
    w, *axis = quaternion(matrix)
    length = float(np.linalg.norm(axis))
    turn: np.ndarray = np.asarray(axis) * (2 * np.arctan2(length, w) / length if length > 1e-12 else 2.0)
    return turn


def quaternion(matrix: np.ndarray) -> tuple[float, float, float, float]:
    """wxyz with w >= 0, of a rotation matrix."""
    m = np.asarray(matrix)[:3, :3]
    diagonal = np.array([m.trace(), *np.diag(m)])
    k = int(np.argmax(diagonal))
    if k == 0:
        quat = np.array([1 + m.trace(), m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]])
    else:
        i, j, l = ((0, 1, 2), (1, 2, 0), (2, 0, 1))[k - 1]
        quat = np.empty(4)
        quat[0] = m[l, j] - m[j, l]
        quat[1 + i] = 1 + m[i, i] - m[j, j] - m[l, l]
        quat[1 + j], quat[1 + l] = m[j, i] + m[i, j], m[l, i] + m[i, l]
    quat *= (1.0 if quat[0] >= 0 else -1.0) / np.linalg.norm(quat)
    return float(quat[0]), float(quat[1]), float(quat[2]), float(quat[3])


def camera_text(name: str, T_parent_camera: np.ndarray, fovy_rad: float) -> str:
    """A camera element; MuJoCo's looks along -z with y up, ours along +z with y down."""
    pose = T_parent_camera @ np.diag([1.0, -1.0, -1.0, 1.0])
    where = f'pos="{numbers(pose[:3, 3])}" quat="{numbers(quaternion(pose))}"'
    return f'<camera name="{name}" {where} fovy="{numbers(np.degrees(fovy_rad))}"/>'
