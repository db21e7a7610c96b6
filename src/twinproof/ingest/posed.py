"""Pictures with poses: what a COLMAP model and a transforms.json have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from twinproof.nouns.rig import Intrinsics


@dataclass(frozen=True)
class Posed:
    """One picture: its file name below the picture folder, its pose T_world_camera, and its camera's key.

    Mask and depth, where the model names some, are file names below the same folder.
    """

    file: str
    position: tuple[float, ...]
    quat_wxyz: tuple[float, ...]
    camera: str
    mask: str = ""
    depth: str = ""
    depth_unit_m: float = 0.001


@dataclass(frozen=True)
class PosedImages:
    """What a model file says: pictures with poses, intrinsics by camera, and what was not carried over."""

    kind: str
    pictures: Path  # the folder that file names start from
    images: tuple[Posed, ...]
    intrinsics: dict[str, Intrinsics]
    left_out: tuple[str, ...] = ()
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # width and height by camera, where stated


def quat_wxyz_of(rotation: np.ndarray) -> tuple[float, float, float, float]:
    """The unit quaternion (w >= 0) of a rotation matrix, by the largest of its four components (Shepperd)."""
    m = rotation
    squares = np.array([m.trace(), m[0, 0], m[1, 1], m[2, 2]])
    pick = int(np.argmax(squares))
    if pick == 0:
        q = np.array([1 + m.trace(), m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]])
    else:
        i = pick - 1
        j, k = (i + 1) % 3, (i + 2) % 3
        q = np.empty(4)
        q[0] = m[k, j] - m[j, k]
        q[1 + i] = 1 + m[i, i] - m[j, j] - m[k, k]
        q[1 + j] = m[j, i] + m[i, j]
        q[1 + k] = m[k, i] + m[i, k]
    q /= np.linalg.norm(q)
    w, x, y, z = (q if q[0] >= 0 else -q).tolist()
    return w, x, y, z
