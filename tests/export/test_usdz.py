"""USDZ as USD reads it: sound, in metres, z up, with bodies, colliders, joints and splats that fit together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pxr import Usd, UsdGeom, UsdPhysics, UsdShade, UsdVol

from tests.export.probes import write_probe
from tests.export.test_urdf import KNOT
from twinproof.export.subject import subject_of
from twinproof.export.usd_looks import check_splats, define_splats
from twinproof.export.usdz import validated, write_usdz
from twinproof.nouns.errors import TwinError
from twinproof.nouns.splats import Splats


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("usdz")


@pytest.fixture(scope="module")
def subject(folder):
    return subject_of(write_probe(folder / "twin"))


@pytest.fixture(scope="module")
def lost(subject, folder) -> tuple[str, ...]:
    return write_usdz(subject, folder).lost


@pytest.fixture(scope="module")
def stage(folder, lost):
    return Usd.Stage.Open(str(folder / "twin.usdz"))


def pose(prim) -> np.ndarray:
    return np.array(UsdGeom.XformCache().GetLocalToWorldTransform(prim)).T


def test_usd_finds_nothing_wrong(folder, stage):
    assert validated(folder / "twin.usdz") == []
    assert UsdGeom.GetStageMetersPerUnit(stage) == 1
    assert UsdGeom.GetStageUpAxis(stage) == "Z"
    assert stage.GetDefaultPrim().GetPath() == "/twin"


def test_nothing_is_left_beside_it(folder, stage):
    assert sorted(path.name for path in folder.iterdir()) == ["twin", "twin.usdz"]


def test_bodies_stand_where_the_twin_has_them(subject, stage):
    for link in subject.anatomy.links:
        assert np.allclose(pose(stage.GetPrimAtPath(f"/twin/{link.name}")), link.T_world_link, atol=1e-9)


def test_bodies_have_their_masses_and_inertias(subject, stage):
    for name in ("probe", "wedge", "base", "arm", "slider", "mirror"):
        link, prim = subject.anatomy.named[name], stage.GetPrimAtPath(f"/twin/{name}")
        assert prim.HasAPI(UsdPhysics.RigidBodyAPI)
        mass = UsdPhysics.MassAPI(prim)
        assert mass.GetMassAttr().Get() == pytest.approx(link.mass_kg)
        assert np.allclose(mass.GetCenterOfMassAttr().Get(), link.com_m, atol=1e-7)
        q = mass.GetPrincipalAxesAttr().Get()
        from scipy.spatial.transform import Rotation

        turn = Rotation.from_quat([*q.imaginary, q.real]).as_matrix()
        assert np.allclose(turn @ np.diag(mass.GetDiagonalInertiaAttr().Get()) @ turn.T, link.inertia_kgm2, rtol=1e-4)
    assert not stage.GetPrimAtPath("/twin/world").HasAPI(UsdPhysics.RigidBodyAPI)


def test_joint_frames_meet_at_rest(stage):
    joints = [prim for prim in stage.Traverse() if prim.IsA(UsdPhysics.Joint)]
    assert {prim.GetName() for prim in joints} == {"base_fixed", "hinge", "slide", "follower"}
    for prim in joints:
        joint, ends = UsdPhysics.Joint(prim), []
        for k in (0, 1):
            rel = (joint.GetBody0Rel, joint.GetBody1Rel)[k]()
            at = (joint.GetLocalPos0Attr, joint.GetLocalPos1Attr)[k]().Get()
            q = (joint.GetLocalRot0Attr, joint.GetLocalRot1Attr)[k]().Get()
            from scipy.spatial.transform import Rotation

            T = np.eye(4)
            T[:3, :3], T[:3, 3] = Rotation.from_quat([*q.imaginary, q.real]).as_matrix(), at
            targets = rel.GetTargets()
            ends.append((pose(stage.GetPrimAtPath(targets[0])) if targets else np.eye(4)) @ T)
        assert np.allclose(ends[0], ends[1], atol=1e-6)


def test_a_hinge_has_degrees_a_drive_and_an_articulation(subject, stage):
    hinge = UsdPhysics.RevoluteJoint(stage.GetPrimAtPath("/twin/joints/hinge"))
    assert (hinge.GetLowerLimitAttr().Get(), hinge.GetUpperLimitAttr().Get()) == pytest.approx((-60, 80))
    drive = UsdPhysics.DriveAPI(hinge.GetPrim(), "angular")
    assert drive.GetStiffnessAttr().Get() == pytest.approx(30 * np.pi / 180)
    assert drive.GetDampingAttr().Get() == pytest.approx((2 + 0.2) * np.pi / 180)
    assert drive.GetMaxForceAttr().Get() == pytest.approx(5)
    slide = UsdPhysics.PrismaticJoint(stage.GetPrimAtPath("/twin/joints/slide"))
    assert (slide.GetLowerLimitAttr().Get(), slide.GetUpperLimitAttr().Get()) == pytest.approx((-0.03, 0.04))
    assert stage.GetPrimAtPath("/twin/joints/base_fixed").HasAPI(UsdPhysics.ArticulationRootAPI)


def test_colliders_touch_with_friction_and_are_not_seen(subject, stage):
    prims = [prim for prim in stage.Traverse() if prim.HasAPI(UsdPhysics.CollisionAPI)]
    assert len(prims) == sum(shape.touches for link in subject.anatomy.links for shape in link.shapes)
    assert {UsdGeom.Imageable(prim).ComputePurpose() for prim in prims} == {"guide"}
    table = next(prim for prim in prims if prim.IsA(UsdGeom.Plane))
    material, _ = UsdShade.MaterialBindingAPI(table).ComputeBoundMaterial("physics")
    assert UsdPhysics.MaterialAPI(material.GetPrim()).GetDynamicFrictionAttr().Get() == pytest.approx(0.7)
    wedge = next(prim for prim in prims if prim.GetParent().GetName() == "wedge")
    assert UsdPhysics.MeshCollisionAPI(wedge).GetApproximationAttr().Get() == "convexHull"


def test_splats_have_arrays_of_one_length(subject, stage):
    fields = [prim for prim in stage.Traverse() if prim.IsA(UsdVol.ParticleField3DGaussianSplat)]
    assert sum(len(prim.GetAttribute("positions").Get()) for prim in fields) == len(subject.splats)
    for prim in fields:
        check_splats(prim)
        assert prim.GetAttribute("radiance:sphericalHarmonicsCoefficients").GetColorSpace() == "srgb_rec709_scene"


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("scales", [(1, 1, 1)], "1 scales for 3 positions"),
        ("opacities", [0.5, 2.0, 0.5], "opacities lie between 0 and 1"),
        ("opacities", [0.5, float("nan"), 0.5], "some opacities are not finite"),
        ("radiance:sphericalHarmonicsDegree", 2, "12 colours of degree 2 for 3 splats"),
    ],
)
def test_splats_that_do_not_fit_together_are_refused(name, value, told):
    stage = Usd.Stage.CreateInMemory()
    one = np.ones((3, 3))
    splats = Splats(one, np.ones((3, 4)), -one, np.zeros(3), np.zeros((3, 4, 3)), np.zeros(3, int))
    define_splats(stage, "/s", splats)
    prim = stage.GetPrimAtPath("/s")
    prim.GetAttribute(name).Set(value)
    with pytest.raises(TwinError, match=told):
        check_splats(prim)


def test_what_it_cannot_say_is_listed(lost):
    told = " | ".join(lost)
    for what in ("torsional", "armature", "sensors (1)", "that joints are tied: follower"):
        assert what in told


def test_a_knot_of_joints_is_sound_too(folder):
    (folder / "knotted").mkdir()
    lost = write_usdz(subject_of(write_probe(folder / "knot", splats=False, scene=KNOT)), folder / "knotted").lost
    stage = Usd.Stage.Open(str(folder / "knotted" / "twin.usdz"))
    assert {prim.GetName() for prim in stage.Traverse() if prim.IsA(UsdPhysics.Joint)} == {"a", "b", "c", "d"}
    told = " | ".join(lost)
    assert "that several joints move one: empty bodies of 1 g" in told
    assert "limits, damping and motors of the ball joints d" in told
    assert "an articulation root where a joint hangs on the world itself" in told


def test_a_stage_that_usd_objects_to_is_not_kept(folder, monkeypatch):
    from twinproof.export import usdz

    monkeypatch.setattr(usdz, "validated", lambda path: ["a planted fault"])
    (folder / "faulty").mkdir()
    with pytest.raises(TwinError, match=r"is not sound: a planted fault \(1 in all\)"):
        write_usdz(subject_of(write_probe(folder / "other", splats=False)), folder / "faulty")
    assert list((folder / "faulty").iterdir()) == []


def test_a_layer_that_cannot_be_packed_is_told(tmp_path):
    from twinproof.export.usdz import _packed

    with pytest.raises(TwinError, match="USD could not pack .* into a USDZ"):
        _packed(tmp_path / "twin.usdc")
