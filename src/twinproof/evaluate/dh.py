"""Denavit and Hartenberg, standard form: A_k = Rz(θ_k) Tz(d_k) Tx(a_k) Rx(α_k), and the table of any chain."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import RigError
from twinproof.nouns.rig import Mount
from twinproof.nouns.strict import build

if TYPE_CHECKING:
    from jaxtyping import Float

    from twinproof.sim.kinematics import Chain

PARALLEL = 1e-9  # sine of the angle between two axes that count as parallel


@dataclass(frozen=True)
class DhTable:
    """One row a joint, in the order of the arm. `theta_rad` and `d_m` are offsets: the joint's value is added to one.

    `base` is T_world_base and `tip` is T_last_tip; both are placed as a camera's mount is, and `parent` says nothing.
    """

    a_m: tuple[float, ...]
    alpha_rad: tuple[float, ...]
    d_m: tuple[float, ...]
    theta_rad: tuple[float, ...]
    slides: tuple[bool, ...] = ()  # one a joint; all turn where it is empty
    base: Mount = field(default_factory=Mount)
    tip: Mount = field(default_factory=Mount)

    def __post_init__(self) -> None:
        columns = (self.a_m, self.alpha_rad, self.d_m, self.theta_rad, self.slides or self.a_m)
        if len({len(column) for column in columns}) != 1 or not self.a_m:
            lengths = ", ".join(str(len(column)) for column in columns)
            raise RigError(f"a DH table has columns of {lengths} rows. It needs one row a joint in each column.")
        if not np.isfinite([*self.a_m, *self.alpha_rad, *self.d_m, *self.theta_rad]).all():
            raise RigError("a DH table holds a number that is not finite. Mend it.")

    def poses(self, q: Float[np.ndarray, "T n"]) -> Float[np.ndarray, "T 4 4"]:
        """T_world_tip for every row of joint values."""
        if q.shape[1] != len(self.a_m):
            raise RigError(f"a DH table of {len(self.a_m)} rows is used for an arm of {q.shape[1]} joints.")
        pose = np.tile(self.base.T_parent_camera, (len(q), 1, 1))
        slides = self.slides or (False,) * len(self.a_m)
        for k, slid in enumerate(slides):
            theta = self.theta_rad[k] + (0.0 if slid else q[:, k])
            d = self.d_m[k] + (q[:, k] if slid else 0.0)
            pose = pose @ _link(self.a_m[k], self.alpha_rad[k], *np.broadcast_arrays(d, theta, q[:, k])[:2])
        moved: np.ndarray = pose @ self.tip.T_parent_camera
        return moved


def _link(a: float, alpha: float, d: np.ndarray, theta: np.ndarray) -> np.ndarray:
    c, s, ca, sa = np.cos(theta), np.sin(theta), np.cos(alpha), np.sin(alpha)
    step = np.zeros((len(theta), 4, 4))
    step[:, 0] = np.stack([c, -s * ca, s * sa, a * c], -1)
    step[:, 1] = np.stack([s, c * ca, -c * sa, a * s], -1)
    step[:, 2, 1], step[:, 2, 2], step[:, 2, 3] = sa, ca, d
    step[:, 3, 3] = 1.0
    return step


def read_dh(path: Path) -> Mapping[str, DhTable]:
    """The tables in a TOML file, one `[ARM]` an arm."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RigError(f"{path} does not exist. Name the file with the DH tables, one [ARM] each.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as problem:
        raise RigError(f"{path} is not readable TOML ({problem}). Mend that line.") from None
    return {name: build(DhTable, table, f"{path.name}: {name}", RigError) for name, table in data.items()}


def table_of(chain: Chain) -> DhTable:
    """The standard DH table that puts the tip where the chain does, for all joint values."""
    frames = _axes(chain)
    x, origin = _across(frames[0][1]), frames[0][0]
    base = _frame(x, frames[0][1], origin)
    rows = []
    for (_, z), (point, ahead) in itertools.pairwise(frames):
        normal, foot, end = _common_normal(origin, z, x, point, ahead)
        theta = _angle(x, normal, z)
        rows.append((float((end - foot) @ normal), _angle(z, ahead, normal), float((foot - origin) @ z), theta))
        x, origin = normal, end
    rows.append((0.0, 0.0, 0.0, 0.0))
    last = _frame(x, frames[-1][1], origin)
    tip = np.linalg.inv(last) @ chain.poses(chain.zero[None])[0]
    a, alpha, d, angle = (np.array(column) for column in zip(*rows, strict=True))
    d = d - np.where(chain.slides, chain.zero, 0.0)
    angle = angle - np.where(chain.slides, 0.0, chain.zero)
    slides = tuple(bool(s) for s in chain.slides)
    return DhTable(tuple(a), tuple(alpha), tuple(d), tuple(angle), slides, _mount(base), _mount(tip))


def _axes(chain: Chain) -> list[tuple[np.ndarray, np.ndarray]]:
    """(a point on it, direction) of every joint axis in the world, all joints at zero."""
    found, pose = [], np.eye(4)
    for before, axis in zip(chain.T_before[:-1], chain.axis, strict=True):
        pose = pose @ before
        found.append((pose[:3, 3], pose[:3, :3] @ axis))
    return found


def _common_normal(
    origin: np.ndarray, z: np.ndarray, x: np.ndarray, point: np.ndarray, ahead: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Direction of the common normal of two axes, and where it meets the first and the second."""
    cross, between = np.cross(z, ahead), point - origin
    sine = float(np.linalg.norm(cross))
    if sine > PARALLEL:
        along = np.linalg.solve(np.stack([z, -ahead, cross / sine], -1), between)
        return cross / sine, origin + along[0] * z, point + along[1] * ahead
    apart = between - (between @ z) * z
    distance = float(np.linalg.norm(apart))
    end = origin + apart
    return (apart / distance if distance > PARALLEL else x), origin, end


def _angle(start: np.ndarray, end: np.ndarray, about: np.ndarray) -> float:
    return float(np.arctan2(np.cross(start, end) @ about, start @ end))


def _across(z: np.ndarray) -> np.ndarray:
    other = np.eye(3)[int(np.argmin(np.abs(z)))]
    x = other - (other @ z) * z
    unit: np.ndarray = x / np.linalg.norm(x)
    return unit


def _frame(x: np.ndarray, z: np.ndarray, origin: np.ndarray) -> np.ndarray:
    pose = np.eye(4)
    pose[:3, :3] = np.stack([x, np.cross(z, x), z], -1)
    pose[:3, 3] = origin
    return pose


def _mount(pose: np.ndarray) -> Mount:
    from scipy.spatial.transform import Rotation

    x, y, z, w = Rotation.from_matrix(pose[:3, :3]).as_quat(canonical=True)
    at = tuple(float(v) for v in pose[:3, 3])
    return Mount(position_m=(at[0], at[1], at[2]), quat_wxyz=(float(w), float(x), float(y), float(z)))
