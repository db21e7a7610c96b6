"""USDZ: bodies, colliders, friction, joints, meshes with textures and splats in one stage; metres, z up.

/twin/physics            gravity
/twin/LINK               where the link stands; visuals/, colliders/ and splats below it
/twin/joints/NAME        how links move
/twin/looks, /twin/frictions
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from twinproof.export.chain import Step, between, chain
from twinproof.export.subject import Subject, Written
from twinproof.export.usd_looks import Paint, define_splats, define_surface
from twinproof.export.usd_physics import Colliders, add_fixed, add_joint, make_body, place
from twinproof.nouns.errors import MissingExtra, TwinError
from twinproof.nouns.files import sync_folder

ROOT = "/twin"
LONG_AGO_S = 1_000_000_000  # the time that stands in every package


def usd() -> Any:
    """The package pxr with particle fields, or an error that says how to get it."""
    try:
        from pxr import UsdVol
    except ImportError:
        raise MissingExtra("USDZ is written and read with usd-core. Run: pip install 'twinproof[usd]'.") from None
    if not hasattr(UsdVol, "ParticleField3DGaussianSplat"):
        raise MissingExtra("this usd-core knows no Gaussian splats. Run: pip install 'twinproof[usd]' (26.3 or newer).")
    return UsdVol


def write_usdz(subject: Subject, folder: Path) -> Written:
    """Writes twin.usdz, validated; what it leaves out."""
    usd()
    import pxr.Usd

    with tempfile.TemporaryDirectory(dir=folder, prefix=".usd") as scratch:
        layer = Path(scratch) / "twin.usdc"
        _Stage(subject, layer).write()
        packed = _packed(layer)
        problems = validated(packed)
        if problems:
            raise TwinError(f"the USDZ of {subject.twin.root} is not sound: {problems[0]} ({len(problems)} in all).")
        packed.replace(folder / "twin.usdz")
    sync_folder(folder)
    version = ".".join(str(k) for k in pxr.Usd.GetVersion()[1:])
    return Written(
        tuple(_lost(subject)), (f"all validators of USD {version}: no objection; lengths of splat arrays fit",)
    )


def _packed(layer: Path) -> Path:
    """A USDZ of a layer and the pictures beside it: a zip, stored, each file at a multiple of 64 bytes."""
    from pxr import Sdf, Tf

    out = layer.with_suffix(".usdz")
    names = ["twin.usdc", *sorted(path.relative_to(layer.parent).as_posix() for path in layer.parent.rglob("*.png"))]
    try:
        writer = Sdf.ZipFileWriter.CreateNew(str(out))
        for name in names:  # the layer is the first, by the rules
            os.utime(layer.parent / name, (LONG_AGO_S, LONG_AGO_S))  # the same twin gives the same bytes
            writer.AddFile(str(layer.parent / name), name)
        writer.Save()
    except (Tf.ErrorException, OSError) as problem:
        told = " ".join(str(problem).split())[-160:]
        raise TwinError(f"USD could not pack {layer} into a USDZ ({told}). Look for a full disk, or 4 GiB.") from None
    return out


def validated(path: Path) -> list[str]:
    """What USD's own validators say against a file: errors and warnings, none for a good one."""
    from pxr import Usd, UsdValidation

    stage = Usd.Stage.Open(str(path))
    context = UsdValidation.ValidationContext(UsdValidation.ValidationRegistry().GetOrLoadAllValidators())
    return [error.GetErrorAsString() for error in context.Validate(stage)]


class _Stage:
    """One stage while it is written."""

    def __init__(self, subject: Subject, layer: Path) -> None:
        from pxr import Gf, Kind, Usd, UsdGeom, UsdPhysics

        self.subject = subject
        self.stage = Usd.Stage.CreateNew(str(layer))
        UsdGeom.SetStageUpAxis(self.stage, UsdGeom.Tokens.z)
        UsdGeom.SetStageMetersPerUnit(self.stage, 1.0)
        UsdPhysics.SetStageKilogramsPerUnit(self.stage, 1.0)
        root = UsdGeom.Xform.Define(self.stage, ROOT).GetPrim()
        self.stage.SetDefaultPrim(root)
        Usd.ModelAPI(root).SetKind(Kind.Tokens.assembly)
        twin = {"twin": subject.twin.hash, "engine": subject.twin.engine, "colours": "display-referred sRGB splats"}
        self.stage.GetRootLayer().customLayerData = {"twinproof": twin}
        self.scene = UsdPhysics.Scene.Define(self.stage, f"{ROOT}/physics")
        gravity = np.array(subject.anatomy.gravity_mps2)
        strength = float(np.linalg.norm(gravity))
        down = gravity / strength if strength else np.array([0.0, 0.0, -1.0])
        self.scene.CreateGravityDirectionAttr(Gf.Vec3f(*down.tolist()))
        self.scene.CreateGravityMagnitudeAttr(strength)
        self.used = {"physics", "joints", "looks", "frictions"}
        self.paths: dict[str, str] = {}

    def write(self) -> None:
        """All links, their looks and their joints."""
        from pxr import UsdGeom

        steps, subject = chain(self.subject.anatomy), self.subject
        for scope in ("joints", "looks", "frictions"):
            UsdGeom.Scope.Define(self.stage, f"{ROOT}/{scope}")
        layer = Path(self.stage.GetRootLayer().realPath)
        paint, colliders = Paint(self.stage, f"{ROOT}/looks", layer.parent), Colliders(self.stage, f"{ROOT}/frictions")
        worn = subject.worn()
        for step in steps:
            path = self._new(step.name)
            self.paths[step.name] = path
            prim = UsdGeom.Xform.Define(self.stage, path).GetPrim()
            prim.SetDisplayName(step.name)
            place(prim, step.T_world_step)
            if step.link is None:
                continue
            shown = [each for each in subject.surfaces if each.link == step.name]
            for k, surface in enumerate(shown):
                define_surface(self.stage, f"{path}/visual_{k}", surface, paint)
            for k, shape in enumerate(shape for shape in step.link.shapes if shape.touches):
                colliders.add(f"{path}/collider_{k}", shape)
            if step.name in worn:
                define_splats(self.stage, f"{path}/splats", worn[step.name])
        self._joints(steps)
        self.stage.GetRootLayer().Save()

    def _joints(self, steps: tuple[Step, ...]) -> None:
        from pxr import UsdPhysics

        moving = {step.name for step in steps if step.joint is not None or step.parent in self._moving(steps)}
        carriers = {step.parent for step in steps if step.joint is not None and step.joint.kind != "free"}
        for step in steps[1:]:
            prim = self.stage.GetPrimAtPath(self.paths[step.name])
            if step.name not in moving and step.name not in carriers:
                continue
            make_body(prim, step.link)
            joint_path = self._new(step.joint.name if step.joint else f"{step.name}_fixed", "joints")
            if step.name not in moving:
                add_fixed(self.stage, joint_path, step.T_world_step, self.paths[step.name])
            elif step.joint is None:
                self._weld(joint_path, step)
            elif step.joint.kind != "free":
                parent = self.paths[str(step.parent)] if step.parent != steps[0].name else None
                add_joint(self.stage, joint_path, step, parent, self.paths[step.name])
            elif step.name in carriers:
                UsdPhysics.ArticulationRootAPI.Apply(prim)

    def _moving(self, steps: tuple[Step, ...]) -> set[str]:
        found = set[str]()
        for step in steps:
            if step.joint is not None or step.parent in found:
                found.add(step.name)
        return found

    def _weld(self, path: str, step: Step) -> None:
        """A link that is fixed to one that moves."""
        from pxr import Gf, UsdPhysics
        from scipy.spatial.transform import Rotation

        joint = UsdPhysics.FixedJoint.Define(self.stage, path)
        joint.CreateBody0Rel().SetTargets([self.paths[str(step.parent)]])
        joint.CreateBody1Rel().SetTargets([self.paths[step.name]])
        x, y, z, w = Rotation.from_matrix(step.T_parent_step[:3, :3]).as_quat().tolist()
        joint.CreateLocalPos0Attr(Gf.Vec3f(*step.T_parent_step[:3, 3].tolist()))
        joint.CreateLocalRot0Attr(Gf.Quatf(w, x, y, z))

    def _new(self, name: str, scope: str = "") -> str:
        from pxr import Tf

        base = Tf.MakeValidIdentifier(name)
        taken, k = f"{scope}/{base}", 2
        while (taken if scope else base) in self.used:
            base, k = f"{Tf.MakeValidIdentifier(name)}_{k}", k + 1
            taken = f"{scope}/{base}"
        self.used.add(taken if scope else base)
        return f"{ROOT}/{taken}" if scope else f"{ROOT}/{base}"


def _lost(subject: Subject) -> list[str]:
    whole = subject.anatomy
    joints = [joint for link in whole.links for joint in link.joints]
    said = [
        "contact beyond sliding friction: torsional and rolling friction, softness, which pairs may touch",
        "joint friction, rotor inertia (armature), springs; motors other than position servos; delays; control ranges",
        "the time step and the solver",
        "volume of hollow meshes: convex hulls touch, as in MuJoCo",
        *(f"{what} ({count})" for what, count in whole.more.items()),
    ]
    if whole.couplings:
        said.append(f"that joints are tied: {', '.join(tie.joint for tie in whole.couplings)}")
    if several := between(whole):
        said.append(f"that several joints move {', '.join(several)}: empty bodies of 1 g stand between them")
    if balls := [joint.name for joint in joints if joint.kind == "ball"]:
        said.append(f"limits, damping and motors of the ball joints {', '.join(balls)}")
    hung = [link.name for link in whole.links if link.parent == whole.links[0].name and link.joints]
    if any(joint.kind != "free" for name in hung for joint in whole.named[name].joints):
        said.append("an articulation root where a joint hangs on the world itself")
    return [*said, *subject.notes, *subject.splat_notes]
