"""Joints: damping, dry friction, rotor inertia, spring, range, and the offset between encoder and truth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from twinproof.sim.parameters.base import Named, Outside

if TYPE_CHECKING:
    from mujoco import MjModel, MjSpec

    from twinproof.sim.fields import Fields

FREE, BALL, SLIDE, HINGE = 0, 1, 2, 3  # mjtJoint
DOFS = {FREE: 6, BALL: 3, SLIDE: 1, HINGE: 1}


@dataclass(frozen=True)
class _OfDofs(Named):
    """The same number for all degrees of freedom of a joint."""

    KIND: ClassVar = "joint"
    ATTRIBUTE: ClassVar[str]

    def _dofs(self, model: MjModel) -> slice:
        i = self.index(model)
        first = int(model.jnt_dofadr[i])
        return slice(first, first + DOFS[int(model.jnt_type[i])])

    def read(self, model: MjModel) -> float:
        return float(getattr(model, self.fields[0])[self._dofs(model)][0])

    def write(self, spec: MjSpec, value: float) -> None:
        setattr(spec.joint(self.name), self.ATTRIBUTE, value)

    def poke(self, fields: Fields, value: np.ndarray) -> None:
        fields[self.fields[0]][:, self._dofs(fields.nominal)] = value[:, None]


@dataclass(frozen=True)
class JointDamping(_OfDofs):
    """Viscous damping, the linear term."""

    QUANTITY: ClassVar = "damping"
    UNIT: ClassVar = "N m s/rad or N s/m"
    LIMITS: ClassVar = (0.0, 1e4)
    FIELDS: ClassVar = ("dof_damping",)

    def lacks(self, model: MjModel) -> str:
        body = int(model.jnt_bodyid[self.index(model)])
        if not _is_flex_point(model, body):
            return ""
        return f"the joint {self.name!r} moves a point of a flex, which MuJoCo damps by its elasticity and edges alone"

    def write(self, spec: MjSpec, value: float) -> None:
        spec.joint(self.name).damping[0] = value


@dataclass(frozen=True)
class JointFriction(_OfDofs):
    """Dry friction: the force below which the joint sticks."""

    QUANTITY: ClassVar = "frictionloss"
    UNIT: ClassVar = "N m or N"
    LIMITS: ClassVar = (0.0, 1e4)
    FIELDS: ClassVar = ("dof_frictionloss",)
    ATTRIBUTE: ClassVar = "frictionloss"


@dataclass(frozen=True)
class JointArmature(_OfDofs):
    """Inertia of the rotor, seen from the joint."""

    QUANTITY: ClassVar = "armature"
    UNIT: ClassVar = "kg m² or kg"
    LIMITS: ClassVar = (0.0, 1e4)
    FIELDS: ClassVar = ("dof_armature",)
    DERIVES: ClassVar = True
    ATTRIBUTE: ClassVar = "armature"


@dataclass(frozen=True)
class JointStiffness(Named):
    """Stiffness of the joint's spring, the linear term."""

    KIND: ClassVar = "joint"
    QUANTITY: ClassVar = "stiffness"
    UNIT: ClassVar = "N m/rad or N/m"
    LIMITS: ClassVar = (0.0, 1e6)
    FIELDS: ClassVar = ("jnt_stiffness",)

    def read(self, model: MjModel) -> float:
        return float(model.jnt_stiffness[self.index(model)])

    def write(self, spec: MjSpec, value: float) -> None:
        spec.joint(self.name).stiffness[0] = value

    def poke(self, fields: Fields, value: np.ndarray) -> None:
        fields["jnt_stiffness"][:, self.index(fields.nominal)] = value


@dataclass(frozen=True)
class JointRangeOffset(Named):
    """How far both ends of the joint's range are shifted from the nominal."""

    KIND: ClassVar = "joint"
    QUANTITY: ClassVar = "range_offset"
    UNIT: ClassVar = "rad or m"
    LIMITS: ClassVar = (-math.pi, math.pi)
    FIELDS: ClassVar = ("jnt_range",)

    def lacks(self, model: MjModel) -> str:
        i = self.index(model)
        shiftable = model.jnt_limited[i] and model.jnt_type[i] in (HINGE, SLIDE)
        return "" if shiftable else f"the joint {self.name!r} has no range with two ends"

    def read(self, model: MjModel) -> float:
        return 0.0

    def write(self, spec: MjSpec, value: float) -> None:
        import mujoco

        joint = spec.joint(self.name)
        degrees = joint.compiler.degree and joint.type == mujoco.mjtJoint.mjJNT_HINGE
        joint.range = joint.range + (math.degrees(value) if degrees else value)

    def poke(self, fields: Fields, value: np.ndarray) -> None:
        fields["jnt_range"][:, self.index(fields.nominal)] += value[:, None]


@dataclass(frozen=True)
class JointOffset(Outside):
    """What the encoder shows minus where the joint is; position commands are shifted back by it."""

    KIND: ClassVar = "joint"
    QUANTITY: ClassVar = "offset"
    UNIT: ClassVar = "rad or m"
    LIMITS: ClassVar = (-math.pi, math.pi)
    CHANNEL: ClassVar = "sensor"

    def lacks(self, model: MjModel) -> str:
        single = model.jnt_type[self.index(model)] in (HINGE, SLIDE)
        return "" if single else f"the joint {self.name!r} neither turns about an axis nor slides along one"


def _is_flex_point(model: MjModel, body: int) -> bool:
    """Whether a body was made for one vertex or node of a flex: not what a flex is pinned to, nor a rigid flex's."""
    soft = np.flatnonzero(model.flex_rigid == 0)
    for kind in ("vert", "node"):
        bodies, first = getattr(model, f"flex_{kind}bodyid"), getattr(model, f"flex_{kind}adr")
        count = getattr(model, f"flex_{kind}num")
        if any(body in bodies[first[flex] : first[flex] + count[flex]] for flex in soft):
            return body not in model.body_parentid
    return False
