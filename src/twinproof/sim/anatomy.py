"""What a scene is made of, as plain data in SI: links, joints, masses, shapes, drives. For writers of other formats.

whole = anatomy(Scene.of(twin))
for link in whole.links: link.T_world_link, link.mass_kg, link.joints, link.shapes

All of it is the compiled nominal at rest (qpos0): what MuJoCo derives (inertia from geoms, damping ratios, inherited
ranges) is written out. The first link is the world.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from twinproof.nouns.errors import SimError
from twinproof.nouns.mesh import Mesh
from twinproof.sim.ray_scene import geom_rgba
from twinproof.sim.scene import Scene

if TYPE_CHECKING:
    from jaxtyping import Float
    from mujoco import MjModel

    from twinproof.nouns.rig import Vector3

JOINTS: tuple[Literal["free", "ball", "slide", "hinge"], ...] = ("free", "ball", "slide", "hinge")  # mjtJoint
SHAPES = ("plane", "hfield", "sphere", "capsule", "ellipsoid", "cylinder", "box", "mesh")  # mjtGeom
SHOWN_GROUPS = (0, 1, 2)  # MuJoCo's own default


@dataclass(frozen=True)
class Drive:
    """A motor on one joint: force = gear · (gain · control + bias), as MuJoCo counts; a servo where bias follows."""

    name: str
    kind: Literal["position", "velocity", "force"]
    stiffness: float  # of a position servo: N/m or N m/rad
    damping: float  # of a servo: N s/m or N m s/rad
    most: float | None  # largest force or torque on the joint, N or N m


@dataclass(frozen=True)
class Joint:
    """How a link moves against its parent. Several joints of one link act in their order, the first outermost."""

    name: str
    kind: Literal["free", "ball", "slide", "hinge"]
    axis: Vector3  # unit, in the link's frame
    anchor_m: Vector3  # in the link's frame
    range: tuple[float, float] | None  # rad or m, counted from where it stands at rest; None: no limit
    rest: float  # MuJoCo's own value at rest (qpos0); 0 for free and ball joints
    damping: float
    friction_loss: float
    armature: float
    stiffness: float
    drives: tuple[Drive, ...] = ()

    @property
    def most(self) -> float | None:
        """The largest force or torque of all its drives together; None where one has no limit, or there is none."""
        each = [drive.most for drive in self.drives]
        return sum(x for x in each if x is not None) if each and None not in each else None


@dataclass(frozen=True, eq=False)
class Shape:
    """A geom: where it is in its link, its size (half-sizes, radius and half-length as MJCF counts), what it does."""

    name: str
    kind: str  # one of SHAPES
    size_m: Float[np.ndarray, "3"]
    T_link_shape: Float[np.ndarray, "4 4"]
    touches: bool
    shown: bool
    friction: tuple[float, float, float]  # sliding, torsional (m), rolling (m)
    rgba: tuple[float, float, float, float]  # display-referred
    mesh: Mesh | None = None  # in the shape's frame


@dataclass(frozen=True, eq=False)
class Link:
    """A body. Inertia is about the centre of mass, in the link's axes."""

    name: str
    parent: str | None
    T_parent_link: Float[np.ndarray, "4 4"]
    T_world_link: Float[np.ndarray, "4 4"]
    mass_kg: float
    com_m: Vector3
    inertia_kgm2: Float[np.ndarray, "3 3"]
    joints: tuple[Joint, ...]
    shapes: tuple[Shape, ...]


@dataclass(frozen=True)
class Coupling:
    """A joint that follows another: q = offset + multiplier · q_other, both counted from rest."""

    joint: str
    other: str
    multiplier: float
    offset: float
    straight: bool  # whether that is all: no higher powers


@dataclass(frozen=True, eq=False)
class Anatomy:
    """A whole scene. `more` counts what is there beside links, joints, shapes and drives: {"sensors": 3}."""

    links: tuple[Link, ...]
    gravity_mps2: Vector3
    couplings: tuple[Coupling, ...]
    more: dict[str, int]

    @cached_property
    def named(self) -> dict[str, Link]:
        """Links by name."""
        return {link.name: link for link in self.links}

    @cached_property
    def moving(self) -> frozenset[str]:
        """Links that can move against the world: they, or one that carries them, have a joint."""
        found = set[str]()
        for link in self.links:  # parents come first
            if link.joints or link.parent in found:
                found.add(link.name)
        return frozenset(found)


def anatomy(scene: Scene) -> Anatomy:
    """All parts of a scene. Flexible things and height fields are refused: no other format here can say them."""
    import mujoco

    model = scene.nominal()
    kinds = {"a flex": model.nflex, "a skin": model.nskin, "a height field": model.nhfield}
    strange = [name for name, count in kinds.items() if count]
    if strange:
        raise SimError(f"the scene has {strange[0]}, which cannot be described as links and shapes. Remove it first.")
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    links = tuple(_link(model, data, body) for body in range(model.nbody))
    joint_ties = model.eq_type == mujoco.mjtEq.mjEQ_JOINT
    more = {
        "tendons": model.ntendon,
        "sensors": model.nsensor,
        "cameras": model.ncam,
        "lights": model.nlight,
        "keyframes": model.nkey,
        "contact exclusions": model.nexclude,
        "contact pairs": model.npair,
        "equality constraints that tie no two joints": int((~joint_ties).sum()),
        "motors that drive no joint": int((model.actuator_trntype != mujoco.mjtTrn.mjTRN_JOINT).sum()),
        "sites": model.nsite,
    }
    ties = tuple(_coupling(model, int(k)) for k in np.flatnonzero(joint_ties))
    return Anatomy(links, _three(model.opt.gravity), ties, {name: int(count) for name, count in more.items() if count})


def pose(position: Any, quat_wxyz: Any) -> Float[np.ndarray, "4 4"]:
    """A 4 × 4 matrix of a position and a quaternion."""
    from scipy.spatial.transform import Rotation

    T = np.eye(4)
    T[:3, :3] = Rotation.from_quat(np.roll(np.asarray(quat_wxyz, float), -1)).as_matrix()
    T[:3, 3] = position
    return T


def _link(model: MjModel, data: Any, body: int) -> Link:
    turn = pose((0, 0, 0), model.body_iquat[body])[:3, :3]
    first, count = int(model.body_jntadr[body]), int(model.body_jntnum[body])
    geom, geoms = int(model.body_geomadr[body]), int(model.body_geomnum[body])
    return Link(
        model.body(body).name,
        None if body == 0 else model.body(int(model.body_parentid[body])).name,
        pose(model.body_pos[body], model.body_quat[body]),
        pose(data.xpos[body], data.xquat[body]),
        float(model.body_mass[body]),
        _three(model.body_ipos[body]),
        turn @ np.diag(model.body_inertia[body]) @ turn.T,
        tuple(_joint(model, k) for k in range(first, first + count)),
        tuple(_shape(model, k) for k in range(geom, geom + geoms)),
    )


def _joint(model: MjModel, k: int) -> Joint:
    kind = JOINTS[int(model.jnt_type[k])]
    rest = float(model.qpos0[model.jnt_qposadr[k]]) if kind in ("slide", "hinge") else 0.0
    low, high = (float(x) - rest for x in model.jnt_range[k])
    dof = int(model.jnt_dofadr[k])
    return Joint(
        model.joint(k).name,
        kind,
        _three(model.jnt_axis[k]),
        _three(model.jnt_pos[k]),
        (low, high) if model.jnt_limited[k] and kind != "free" else None,
        rest,
        float(model.dof_damping[dof]),
        float(model.dof_frictionloss[dof]),
        float(model.dof_armature[dof]),
        float(model.jnt_stiffness[k]),
        tuple(_drive(model, k, a) for a in range(model.nu) if _drives(model, a, k)),
    )


def _drives(model: MjModel, actuator: int, joint: int) -> bool:
    import mujoco

    on_joint = model.actuator_trntype[actuator] == mujoco.mjtTrn.mjTRN_JOINT
    return bool(on_joint and model.actuator_trnid[actuator, 0] == joint)


def _drive(model: MjModel, joint: int, k: int) -> Drive:
    gear = float(model.actuator_gear[k, 0])
    _, on_position, on_speed = (float(x) for x in model.actuator_biasprm[k, :3])
    most = float(np.abs(model.actuator_forcerange[k]).max()) * abs(gear) if model.actuator_forcelimited[k] else None
    if model.jnt_actfrclimited[joint]:
        cap = float(np.abs(model.jnt_actfrcrange[joint]).max())
        most = cap if most is None else min(most, cap)
    kind: Literal["position", "velocity", "force"] = (
        "position" if on_position else "velocity" if on_speed else "force"
    )  # fmt: skip
    return Drive(model.actuator(k).name, kind, -on_position * gear**2, -on_speed * gear**2, most)


def _shape(model: MjModel, k: int) -> Shape:
    kind = SHAPES[int(model.geom_type[k])]
    rgba = tuple(float(x) for x in geom_rgba(model)[k])
    friction = tuple(float(x) for x in model.geom_friction[k])
    return Shape(
        model.geom(k).name,
        kind,
        np.array(model.geom_size[k]),
        pose(model.geom_pos[k], model.geom_quat[k]),
        bool(model.geom_contype[k] or model.geom_conaffinity[k]),
        bool(model.geom_group[k] in SHOWN_GROUPS and rgba[3] > 0),
        (friction[0], friction[1], friction[2]),
        (rgba[0], rgba[1], rgba[2], rgba[3]),
        mesh_of(model, int(model.geom_dataid[k])) if kind == "mesh" else None,
    )


def mesh_of(model: MjModel, mesh: int) -> Mesh:
    """A compiled mesh: centred and turned as MuJoCo keeps it, which the geom's own pose undoes."""
    first, count = int(model.mesh_vertadr[mesh]), int(model.mesh_vertnum[mesh])
    face, faces = int(model.mesh_faceadr[mesh]), int(model.mesh_facenum[mesh])
    return Mesh(np.array(model.mesh_vert[first : first + count]), np.array(model.mesh_face[face : face + faces]))


def _coupling(model: MjModel, k: int) -> Coupling:
    one, two = int(model.eq_obj1id[k]), int(model.eq_obj2id[k])
    constant, slope, *higher = (float(x) for x in model.eq_data[k, :5])
    other = model.joint(two).name if two >= 0 else ""
    return Coupling(model.joint(one).name, other, slope if two >= 0 else 0.0, constant, not any(higher) or two < 0)


def _three(values: Any) -> Vector3:
    x, y, z = (float(v) for v in values)
    return x, y, z
