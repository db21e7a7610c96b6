"""A body's mass, centre of mass and inertia, in whichever way the model states them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from twinproof.sim.parameters.base import Named
from twinproof.sim.settle import freeze_inertia

if TYPE_CHECKING:
    from mujoco import MjModel, MjSpec

    from twinproof.sim.fields import Fields

INERTIAL = ("body_mass", "body_ipos", "body_iquat", "body_inertia")
COORDINATES = ("alpha", "d1", "d2", "d3", "s12", "s13", "s23", "t1", "t2", "t3")


class Inertial(NamedTuple):
    """Mass, centre of mass, turn and principal moments of bodies; a leading axis for worlds throughout."""

    mass: np.ndarray  # (N,)
    centre: np.ndarray  # (N, 3)
    quat_wxyz: np.ndarray  # (N, 4)
    moments: np.ndarray  # (N, 3), about the centre, along the turned axes


@dataclass(frozen=True)
class _OfBody(Named):
    KIND: ClassVar = "body"
    FIELDS: ClassVar[tuple[str, ...]] = INERTIAL
    DERIVES: ClassVar = True

    def lacks(self, model: MjModel) -> str:
        massless = self.index(model) == 0 or not model.body_mass[self.index(model)] > 0
        return f"the body {self.name!r} has no mass" if massless else ""

    def read(self, model: MjModel) -> float:
        i = self.index(model)
        found = Inertial(*(getattr(model, field)[i : i + 1] for field in INERTIAL))
        return float(self.of(found)[0])

    def write(self, spec: MjSpec, value: float) -> None:
        body = _frozen(spec, self.name)
        now = Inertial(np.array([body.mass]), *(np.array(a)[None] for a in (body.ipos, body.iquat, body.inertia)))
        new = self.changed(now, np.array([value]))
        body.mass, body.ipos, body.iquat, body.inertia = new.mass[0], new.centre[0], new.quat_wxyz[0], new.moments[0]

    def poke(self, fields: Fields, value: np.ndarray) -> None:
        i = self.index(fields.nominal)
        new = self.changed(Inertial(*(fields[field][:, i] for field in INERTIAL)), value)
        for field, array in zip(INERTIAL, new, strict=True):
            fields[field][:, i] = array

    def of(self, now: Inertial) -> np.ndarray:
        """The parameter's value in each world."""
        raise NotImplementedError

    def changed(self, now: Inertial, value: np.ndarray) -> Inertial:
        """The inertia with the parameter at a new value, all else of it kept."""
        raise NotImplementedError


@dataclass(frozen=True)
class BodyMass(_OfBody):
    """Mass; the inertia follows in proportion: the same shape of another density."""

    QUANTITY: ClassVar = "mass"
    UNIT: ClassVar = "kg"
    LIMITS: ClassVar = (1e-6, 1e5)
    LOG: ClassVar = True
    FIELDS: ClassVar = ("body_mass", "body_inertia")

    def of(self, now: Inertial) -> np.ndarray:
        return now.mass

    def changed(self, now: Inertial, value: np.ndarray) -> Inertial:
        return now._replace(mass=value, moments=now.moments * (value / now.mass)[:, None])


@dataclass(frozen=True)
class BodyCentre(_OfBody):
    """One coordinate of the centre of mass in the body's frame; the inertia about the centre is kept."""

    axis: int
    UNIT: ClassVar = "m"
    LIMITS: ClassVar = (-10.0, 10.0)
    FIELDS: ClassVar = ("body_ipos",)

    @property
    def quantity(self) -> str:
        return f"com_{'xyz'[self.axis]}"

    def of(self, now: Inertial) -> np.ndarray:
        return now.centre[:, self.axis]

    def changed(self, now: Inertial, value: np.ndarray) -> Inertial:
        centre = now.centre.copy()
        centre[:, self.axis] = value
        return now._replace(centre=centre)


@dataclass(frozen=True)
class BodyInertia(_OfBody):
    """One of the ten log-Cholesky coordinates of the pseudo-inertia (Rucker & Wensing 2022): any values are physical.

    alpha is half the log of the mass, t1 t2 t3 the centre of mass, d the log of its spread along the axes, s the shear.
    """

    coordinate: str

    @property
    def quantity(self) -> str:
        return f"inertia_{self.coordinate}"

    @property
    def unit(self) -> str:
        return {"a": "log √kg", "d": "log m", "s": "m", "t": "m"}[self.coordinate[0]]

    @property
    def limits(self) -> tuple[float, float]:
        return {"a": (-7.0, 6.0), "d": (-15.0, 4.0), "s": (-50.0, 50.0), "t": (-10.0, 10.0)}[self.coordinate[0]]

    def lacks(self, model: MjModel) -> str:
        i, missing = self.index(model), super().lacks(model)
        moments = model.body_inertia[i]
        flat = moments.sum() / 2 - moments.max() <= 1e-9 * moments.max()
        return missing or (
            f"the body {self.name!r} is flat: its largest moment is the sum of the others" if flat else ""
        )

    def of(self, now: Inertial) -> np.ndarray:
        return log_cholesky(now)[:, COORDINATES.index(self.coordinate)]

    def changed(self, now: Inertial, value: np.ndarray) -> Inertial:
        coordinates = log_cholesky(now)
        column = COORDINATES.index(self.coordinate)
        # The principal axes of a cube are arbitrary: where nothing changes they are left as they are.
        same = np.isclose(coordinates[:, column], value, rtol=1e-14, atol=1e-14)
        coordinates[:, column] = value
        new = from_log_cholesky(coordinates)
        pairs = zip(now, new, strict=True)
        return Inertial(*(np.where(same.reshape(-1, *[1] * (old.ndim - 1)), old, other) for old, other in pairs))


def _frozen(spec: MjSpec, name: str) -> Any:
    """The spec's body with its inertia stated explicitly, and nothing else that could win over it."""
    import mujoco

    body = spec.body(name)
    stated = body.explicitinertial and np.isnan(body.fullinertia[0]) and np.isfinite(body.ipos[0])
    # A turn that the compiler would still normalise must be read from it, bit by bit: the axes of a symmetric body hang
    # on the last one.
    unit = abs(np.linalg.norm(body.iquat) - 1) < 1e-15 and body.ialt.type == mujoco.mjtOrientation.mjORIENTATION_QUAT
    if not (stated and unit and body.mass > 0 and min(body.inertia) > 0):
        freeze_inertia(body, spec.compile())
    return body


def log_cholesky(body: Inertial) -> np.ndarray:
    """The ten coordinates (N, 10) of a body's pseudo-inertia J = U Uᵀ, U upper triangular.

        ⎡Σ   h⎤                ⎡e^d1 s12  s13  t1⎤
    J = ⎣hᵀ  m⎦      U = e^α · ⎢ 0   e^d2 s23  t2⎥     Σ = ½ tr(I) 1 − I about the body's origin, h = m · centre
                               ⎢ 0    0   e^d3 t3⎥
                               ⎣ 0    0    0    1⎦
    """
    turn = rotation(body.quat_wxyz)
    spread = body.moments.sum(-1, keepdims=True) / 2 - body.moments  # ∫ρ x² along the principal axes
    # U is solved with the last row first: e^α = √m and t = centre; what remains is Σ about the centre, over the mass.
    left = np.einsum("nij,nj,nkj->nik", turn, spread / body.mass[:, None], turn)
    flipped = np.linalg.cholesky(left[:, ::-1, ::-1])[:, ::-1, ::-1]  # upper · upperᵀ
    d = np.log(np.diagonal(flipped, axis1=1, axis2=2))
    shear = np.stack([flipped[:, 0, 1], flipped[:, 0, 2], flipped[:, 1, 2]], -1)
    return np.concatenate([np.log(body.mass)[:, None] / 2, d, shear, body.centre], -1)


def from_log_cholesky(coordinates: np.ndarray) -> Inertial:
    """The body whose coordinates these are; its principal axes come in the order of their moments."""
    mass = np.exp(2 * coordinates[:, 0])
    upper = np.zeros((len(coordinates), 3, 3))
    upper[:, range(3), range(3)] = np.exp(coordinates[:, 1:4])
    upper[:, 0, 1], upper[:, 0, 2], upper[:, 1, 2] = coordinates[:, 4:7].T
    spread, axes = np.linalg.eigh(upper @ upper.transpose(0, 2, 1))
    axes[np.linalg.det(axes) < 0, :, 2] *= -1
    spread = np.maximum(spread, np.finfo(float).tiny) * mass[:, None]
    return Inertial(mass, coordinates[:, 7:10], quaternion(axes), spread.sum(-1, keepdims=True) - spread)


def rotation(quat_wxyz: np.ndarray) -> np.ndarray:
    """Rotation matrices (N, 3, 3) of unit quaternions (N, 4)."""
    w, x, y, z = quat_wxyz.T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), -1, 0)


def quaternion(matrix: np.ndarray) -> np.ndarray:
    """Unit quaternions (N, 4), w ≥ 0, of rotation matrices (N, 3, 3)."""
    m = matrix
    trace = m[:, 0, 0] + m[:, 1, 1] + m[:, 2, 2]
    # The 4 × 4 matrix of 4·q qᵀ: its column with the largest diagonal entry is q, well conditioned.
    outer = np.empty((len(m), 4, 4))
    outer[:, 0, 0] = 1 + trace
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        outer[:, i + 1, i + 1] = 1 + 2 * m[:, i, i] - trace
        outer[:, 0, i + 1] = outer[:, i + 1, 0] = m[:, k, j] - m[:, j, k]
        outer[:, j + 1, k + 1] = outer[:, k + 1, j + 1] = m[:, k, j] + m[:, j, k]
    best = np.argmax(np.diagonal(outer, axis1=1, axis2=2), axis=1)
    found: np.ndarray = outer[np.arange(len(m)), best]
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    found *= np.where(found[:, :1] < 0, -1.0, 1.0)
    return found
