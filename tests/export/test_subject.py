"""What an export starts from: colours of bare meshes, splats in their bodies' frames."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.export.probes import CORNERS, WEDGE, write_probe
from twinproof.export.glb import split_corners
from twinproof.export.subject import NOBODY, runs_of, subject_of
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.mesh_files import write_mesh
from twinproof.nouns.rig import Intrinsics, Mount
from twinproof.nouns.source import Measured
from twinproof.nouns.splat_files import read_ply, write_ply
from twinproof.nouns.splats import SH0
from twinproof.nouns.twin import Twin, TwinCamera


@pytest.fixture(scope="module")
def twin(tmp_path_factory) -> Twin:
    return write_probe(tmp_path_factory.mktemp("probe") / "twin")


def rebuilt(twin: Twin, **changes) -> Twin:
    fields = {name: getattr(twin, name) for name in ("root", "bodies", "alignment", "engine", "episodes", "parents")}
    return Twin(**{**fields, **changes})


def test_a_bare_mesh_takes_the_colours_of_its_splats(tmp_path):
    twin = write_probe(tmp_path / "twin")
    write_mesh(twin.root / "meshes" / "wedge.obj", Mesh(CORNERS, WEDGE))
    splats, (first, count) = read_ply(twin.path("splats.ply")), twin.body("wedge").splats
    sh = splats.sh.copy()
    sh[first : first + count, 0] = (np.array([0.9, 0.3, 0.1]) - 0.5) / SH0
    write_ply(twin.root / "splats.ply", replace(splats, sh=sh))
    wedge = next(each for each in subject_of(rebuilt(twin)).surfaces if each.name == "wedge")
    assert wedge.mesh.colours is not None
    assert np.abs(wedge.mesh.colours - (0.9, 0.3, 0.1)).max() < 1e-5
    assert wedge.rgba == (1, 1, 1, 1)


def test_a_bare_mesh_without_splats_keeps_its_material(tmp_path):
    twin = write_probe(tmp_path / "twin", splats=False)
    write_mesh(twin.root / "meshes" / "wedge.obj", Mesh(CORNERS, WEDGE))
    wedge = next(each for each in subject_of(rebuilt(twin)).surfaces if each.name == "wedge")
    assert wedge.mesh.colours is None
    assert wedge.rgba == (0.5, 0.5, 0.5, 1)


def test_splats_are_grouped_by_body_and_those_of_nobody_are_the_worlds(twin):
    less = rebuilt(twin, bodies=tuple(
        replace(body, splats=None) if body.name == "arm" else body for body in twin.bodies
    ))  # fmt: skip
    splats = subject_of(less).splats
    assert splats is not None
    assert len(splats.of(NOBODY)) == twin.body("arm").splats[1]
    worn = subject_of(less).worn()
    assert "arm" not in worn
    assert len(worn["world"]) == twin.body("arm").splats[1] + twin.body("room").splats[1]
    assert sum(count for runs in runs_of(splats).values() for _, count in runs) == len(splats)


def test_worn_splats_are_in_the_frame_of_their_link(twin):
    subject = subject_of(twin)
    assert np.abs(subject.worn()["probe"].means).max() < 0.09  # the probe is that large, and stands elsewhere
    assert np.abs(subject.worn()["base"].means[:, :2]).max() < 0.031


def test_surfels_become_volumes_and_that_is_told(tmp_path):
    twin = write_probe(tmp_path / "twin")
    write_ply(twin.root / "splats.ply", replace(read_ply(twin.path("splats.ply")), flat=True))
    subject = subject_of(rebuilt(twin))
    assert subject.splats is not None
    assert not subject.splats.flat
    assert subject.splat_notes == ("surfels are written as volumes 1 µm thick",)


def test_large_surfels_near_the_twins_cameras_are_cut(tmp_path):
    twin = write_probe(tmp_path / "twin")
    splats = read_ply(twin.path("splats.ply"))
    scales, (first, _) = splats.log_scales.copy(), twin.body("room").splats
    scales[first] = np.log(0.2)
    write_ply(twin.root / "splats.ply", replace(splats, flat=True, log_scales=scales))
    eye = TwinCamera(32, 24, Intrinsics(30, 30, 16, 12), Mount("arm", (0.0, 0.0, 0.3)), Measured("planted"))
    subject = subject_of(rebuilt(twin, cameras={"wrist": eye}))
    (note,) = subject.splat_notes
    assert "; 1 large ones near cameras are cut, " in note
    assert len(subject.splats.of("room")) > twin.body("room").splats[1]
    assert len(subject.splats.of("probe")) == twin.body("probe").splats[1]


def test_vertices_are_doubled_at_seams_only(twin):
    surfaces = {each.name: each for each in subject_of(twin).surfaces}
    points, faces, st = split_corners(surfaces["face"])
    assert len(points) == 24  # a box with a texture: each corner belongs to three sides
    assert len(faces) == 12
    assert st is not None
    assert len(split_corners(surfaces["core"])[0]) == 8
