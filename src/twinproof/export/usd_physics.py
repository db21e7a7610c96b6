"""What moves, in USD: rigid bodies with masses, colliders with friction, joints with limits and drives.

Bodies stand side by side below the root (a rigid body inside another needs its transform reset), each where the twin
has it at rest. A link that stands still and carries joints is a body on a fixed joint, the root of an articulation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from twinproof.export.chain import EMPTY_KG, EMPTY_KGM2, Step, touched
from twinproof.export.usd_looks import define_mesh
from twinproof.sim.anatomy import Joint, Link, Shape


def place(prim: Any, T: np.ndarray) -> None:
    """Puts a prim where a rigid transform says, against the prim above it."""
    from pxr import Gf, UsdGeom

    xform = UsdGeom.Xformable(prim)
    xform.AddTranslateOp().Set(Gf.Vec3d(*T[:3, 3].tolist()))
    xform.AddOrientOp(UsdGeom.XformOp.PrecisionDouble).Set(_quat(T, Gf.Quatd))


def _quat(T: np.ndarray, kind: Any) -> Any:
    from scipy.spatial.transform import Rotation

    x, y, z, w = Rotation.from_matrix(T[:3, :3]).as_quat().tolist()
    return kind(w, x, y, z)


def make_body(prim: Any, link: Link | None) -> None:
    """A rigid body with its mass, centre and principal inertias."""
    from pxr import Gf, UsdPhysics

    UsdPhysics.RigidBodyAPI.Apply(prim)
    mass = UsdPhysics.MassAPI.Apply(prim)
    if link is None or link.mass_kg <= 0:
        mass.CreateMassAttr(EMPTY_KG)
        mass.CreateDiagonalInertiaAttr(Gf.Vec3f(*[EMPTY_KGM2] * 3))
        mass.CreatePrincipalAxesAttr(Gf.Quatf(1.0))
        return
    moments, axes = np.linalg.eigh(link.inertia_kgm2)
    if np.linalg.det(axes) < 0:
        axes = -axes
    T = np.eye(4)
    T[:3, :3] = axes
    mass.CreateMassAttr(link.mass_kg)
    mass.CreateCenterOfMassAttr(Gf.Vec3f(*link.com_m))
    mass.CreateDiagonalInertiaAttr(Gf.Vec3f(*moments.tolist()))
    mass.CreatePrincipalAxesAttr(_quat(T, Gf.Quatf))


class Colliders:
    """Collision shapes, and one physics material for each friction."""

    def __init__(self, stage: Any, scope: str) -> None:
        self.stage, self.scope = stage, scope
        self.materials: dict[float, Any] = {}

    def add(self, path: str, shape: Shape) -> None:
        """A collider: exact where USD knows the shape, else a convex hull."""
        from pxr import UsdGeom, UsdPhysics, UsdShade

        geom = self._geometry(path, shape)
        prim = geom.GetPrim()
        prim.SetDisplayName(shape.name)
        place(prim, shape.T_link_shape)
        if shape.kind == "box":
            UsdGeom.Xformable(prim).AddScaleOp().Set(tuple(float(x) for x in shape.size_m))
        geom.CreatePurposeAttr(UsdGeom.Tokens.guide)  # it touches; what is seen stands beside it
        extent = UsdGeom.Boundable.ComputeExtentFromPlugins(UsdGeom.Boundable(prim), 0)
        if extent is not None:
            UsdGeom.Boundable(prim).CreateExtentAttr(extent)
        UsdPhysics.CollisionAPI.Apply(prim)
        if prim.IsA(UsdGeom.Mesh):
            UsdPhysics.MeshCollisionAPI.Apply(prim).CreateApproximationAttr(UsdPhysics.Tokens.convexHull)
        material = self._material(shape.friction[0])
        UsdShade.MaterialBindingAPI.Apply(prim).Bind(
            material, bindingStrength=UsdShade.Tokens.weakerThanDescendants, materialPurpose="physics"
        )

    def _geometry(self, path: str, shape: Shape) -> Any:
        from pxr import UsdGeom

        size = [float(x) for x in shape.size_m]
        match shape.kind:
            case "sphere":
                geom = UsdGeom.Sphere.Define(self.stage, path)
                geom.CreateRadiusAttr(size[0])
            case "capsule" | "cylinder":
                kind = UsdGeom.Capsule if shape.kind == "capsule" else UsdGeom.Cylinder
                geom = kind.Define(self.stage, path)
                geom.CreateRadiusAttr(size[0])
                geom.CreateHeightAttr(2 * size[1])
                geom.CreateAxisAttr("Z")
            case "box":
                geom = UsdGeom.Cube.Define(self.stage, path)
                geom.CreateSizeAttr(2.0)
            case "plane":
                geom = UsdGeom.Plane.Define(self.stage, path)
                geom.CreateAxisAttr("Z")
                for create, half in ((geom.CreateWidthAttr, size[0]), (geom.CreateLengthAttr, size[1])):
                    create(2 * half if half > 0 else 20.0)
            case _:
                mesh = touched(shape)
                geom = define_mesh(self.stage, path, mesh.vertices, mesh.faces)
        return geom

    def _material(self, friction: float) -> Any:
        from pxr import UsdPhysics, UsdShade

        if friction not in self.materials:
            material = UsdShade.Material.Define(self.stage, f"{self.scope}/friction_{len(self.materials)}")
            api = UsdPhysics.MaterialAPI.Apply(material.GetPrim())
            api.CreateStaticFrictionAttr(friction)
            api.CreateDynamicFrictionAttr(friction)
            api.CreateRestitutionAttr(0.0)
            self.materials[friction] = material
        return self.materials[friction]


def add_fixed(stage: Any, path: str, T_world_link: np.ndarray, body: str) -> None:
    """A link that stands still in the world: the root of its articulation."""
    from pxr import Gf, UsdPhysics

    joint = UsdPhysics.FixedJoint.Define(stage, path)
    joint.CreateBody1Rel().SetTargets([body])
    joint.CreateLocalPos0Attr(Gf.Vec3f(*T_world_link[:3, 3].tolist()))
    joint.CreateLocalRot0Attr(_quat(T_world_link, Gf.Quatf))
    UsdPhysics.ArticulationRootAPI.Apply(joint.GetPrim())


def add_joint(stage: Any, path: str, step: Step, parent: str | None, body: str) -> None:
    """A hinge, slide or ball joint between two bodies; without a parent it hangs on the world."""
    from pxr import Gf, UsdPhysics

    joint = step.joint
    assert joint is not None
    kind = {"hinge": UsdPhysics.RevoluteJoint, "slide": UsdPhysics.PrismaticJoint, "ball": UsdPhysics.SphericalJoint}
    made = kind[joint.kind].Define(stage, path)
    made.GetPrim().SetDisplayName(joint.name)
    T_step_joint = np.eye(4)
    T_step_joint[:3, :3] = _with_x(np.array(joint.axis))
    T_step_joint[:3, 3] = joint.anchor_m
    T_other_joint = (step.T_parent_step if parent is not None else step.T_world_step) @ T_step_joint
    if parent is not None:
        made.CreateBody0Rel().SetTargets([parent])
    made.CreateBody1Rel().SetTargets([body])
    made.CreateAxisAttr("X")
    for k, T in enumerate((T_other_joint, T_step_joint)):
        getattr(made, f"CreateLocalPos{k}Attr")(Gf.Vec3f(*T[:3, 3].tolist()))
        getattr(made, f"CreateLocalRot{k}Attr")(_quat(T, Gf.Quatf))
    if joint.kind != "ball":
        _motion(made, joint)


def _motion(made: Any, joint: Joint) -> None:
    """Limits and drive; USD counts turns in degrees."""
    from pxr import UsdPhysics

    unit = 180 / np.pi if joint.kind == "hinge" else 1.0
    if joint.range is not None:
        made.CreateLowerLimitAttr(joint.range[0] * unit)
        made.CreateUpperLimitAttr(joint.range[1] * unit)
    servo = next((drive for drive in joint.drives if drive.kind == "position"), None)
    damping = joint.damping + (servo.damping if servo else 0.0)
    if servo is None and not damping:
        return
    drive = UsdPhysics.DriveAPI.Apply(made.GetPrim(), "angular" if joint.kind == "hinge" else "linear")
    drive.CreateTypeAttr("force")
    drive.CreateStiffnessAttr((servo.stiffness if servo else 0.0) / unit)
    drive.CreateDampingAttr(damping / unit)
    if servo is not None:
        drive.CreateTargetPositionAttr(-joint.rest * unit)
        if servo.most is not None:
            drive.CreateMaxForceAttr(servo.most)


def _with_x(axis: np.ndarray) -> np.ndarray:
    """A rotation that takes x to the axis."""
    other = np.eye(3)[np.abs(axis).argmin()]
    y = np.cross(axis, other)
    y /= np.linalg.norm(y)
    return np.stack([axis, y, np.cross(axis, y)], axis=1)
