"""Scale, pose and admission of a generated shape, against a planted one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from tests.reconstruct.boards import pose
from tests.reconstruct.test_generate import box
from twinproof.nouns.errors import ConfigError, RigError, TwinError
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.randomness import stream
from twinproof.nouns.rig import Intrinsics
from twinproof.nouns.source import Declared
from twinproof.reconstruct.generate import Generated, InProcess
from twinproof.reconstruct.generate_check import Limits, admit, centre_of_mass, silhouette
from twinproof.reconstruct.generate_fit import Outline, Similarity, fit_similarity, surface_points

LENS = Intrinsics(150.0, 150.0, 79.5, 59.5)
TABLE = np.array([0.0, 0.0, 1.0, 0.0])
TRUE = pose((0, 0, 35), (0.1, -0.05, 0.02))  # the box lies flat: 16 × 8 × 4 cm
SCALE = 0.16


def unit() -> Mesh:
    mesh = box(1.0, 0.5, 0.25)
    return Mesh(mesh.vertices - (0.5, 0.25, 0.125), mesh.faces)


def camera(azimuth_deg: float, distance: float = 0.6, height: float = 0.4) -> np.ndarray:
    """Looks at the thing from around and above."""
    a = np.radians(azimuth_deg)
    eye = TRUE[:3, 3] + (distance * np.cos(a), distance * np.sin(a), height)
    ahead = (TRUE[:3, 3] - eye) / np.linalg.norm(TRUE[:3, 3] - eye)
    right = np.cross(ahead, (0, 0, 1))
    right /= np.linalg.norm(right)
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = np.stack([right, np.cross(ahead, right), ahead], axis=1), eye
    return T


def outline(mesh: Mesh, T_world_camera: np.ndarray) -> Outline:
    blank = Outline(np.ones((120, 160), bool), LENS, T_world_camera)
    return Outline(silhouette(mesh, blank), LENS, T_world_camera)


SEEN = unit().moved(TRUE, SCALE)
OUTLINES = [outline(SEEN, camera(a)) for a in (10, 130, 250)]
GENERATED = Generated(unit(), None, "boxes")


def turned_input() -> Mesh:
    """What a generator gives: its own frame, turned against the truth."""
    return unit().moved(pose((90, 0, 20), (0, 0, 0)))


def worst_mm(fit: Similarity, mesh: Mesh) -> float:
    """Farthest corner of the fitted shape from the nearest true corner: the box looks the same turned by 180°."""
    placed = fit.of(mesh).vertices
    return float(1e3 * np.linalg.norm(placed[:, None] - SEEN.vertices[None], axis=-1).min(axis=1).max())


def test_outlines_from_three_places_give_scale_and_pose():
    fit = fit_similarity(turned_input(), outlines=OUTLINES)
    assert fit.scale == pytest.approx(SCALE, rel=0.05)
    assert worst_mm(fit, turned_input()) < 8
    assert fit.outline_px < 1
    assert np.isnan(fit.points_mm)


def test_points_of_the_upper_sides_and_one_outline_give_scale_and_pose():
    rng = stream(0, "points")
    points = surface_points(SEEN, 800, rng)
    upper = points[points[:, 2] > 0.005] + 0.001 * rng.normal(size=(int((points[:, 2] > 0.005).sum()), 3))
    fit = fit_similarity(turned_input(), upper, OUTLINES[:1])
    assert fit.scale == pytest.approx(SCALE, rel=0.06)
    assert worst_mm(fit, turned_input()) < 10
    assert fit.points_mm < 6


def test_one_outline_alone_cannot_tell_scale_from_distance():
    with pytest.raises(ConfigError, match="cannot be told apart. Give depth"):
        fit_similarity(unit(), outlines=OUTLINES[:1])
    with pytest.raises(ConfigError, match="from one place and direction"):
        fit_similarity(unit(), outlines=[OUTLINES[0], OUTLINES[0]])


def test_an_empty_outline_and_a_shape_without_area_are_refused():
    with pytest.raises(ConfigError, match="mask is empty"):
        Outline(np.zeros((4, 4), bool), LENS, np.eye(4))
    with pytest.raises(TwinError, match="has no area"):
        fit_similarity(Mesh(np.zeros((3, 3)), np.array([[0, 1, 2]])), outlines=OUTLINES)


def test_an_outline_without_a_pose_is_refused():
    with pytest.raises(RigError, match="an outline's T_world_camera: pose 0 is no rigid transform"):
        Outline(OUTLINES[0].mask, LENS, np.full((4, 4), np.nan))


def truth() -> Similarity:
    return Similarity(SCALE, TRUE, 0.0, 0.0, np.inf)


def test_a_shape_that_agrees_enters_as_declared_with_its_figures():
    admitted = admit(GENERATED, truth(), OUTLINES, TABLE)
    assert isinstance(admitted.source, Declared)
    assert "made by boxes from one picture" in admitted.source.reason
    assert "rests on its table" in admitted.source.reason
    assert admitted.figures["iou 0"] > 0.99
    assert admitted.figures["longest_m"] == pytest.approx(np.ptp(SEEN.vertices, axis=0).max())
    assert admitted.figures["rest_margin"] > 0.1
    assert admitted.mesh.closed
    inside_out = Generated(Mesh(unit().vertices, unit().faces[:, ::-1]), None, "boxes")
    assert admit(inside_out, truth(), OUTLINES, TABLE).mesh.volume_m3 > 0
    assert "no outline was compared" in admit(GENERATED, truth(), ()).source.reason


def test_the_whole_way_from_picture_to_admission():
    made = InProcess(lambda *_: turned_input(), "boxes").complete(np.zeros((120, 160, 3), np.uint8), OUTLINES[0].mask)
    fit = fit_similarity(made.mesh, outlines=OUTLINES[:2])
    admitted = admit(made, fit, OUTLINES, TABLE, Limits(least_iou=0.85))
    assert min(admitted.figures[f"iou {k}"] for k in range(3)) > 0.85
    assert admitted.mesh.volume_m3 == pytest.approx(SEEN.volume_m3, rel=0.15)


@pytest.mark.parametrize(
    ("fit", "mesh", "says"),
    [
        (Similarity(SCALE, pose((0, 0, 80), (0.1, -0.05, 0.02)), 0, 0, 1), unit(), "IoU of 0"),
        (Similarity(5.0, pose((0, 0, 35), (0.1, -0.05, 0.6)), 0, 0, 1), unit(), "longest side is"),
        (Similarity(SCALE, pose((0, 0, 35), (0.1, -0.05, 0.2)), 0, 0, 1), unit(), "180 mm above the table"),
        (Similarity(SCALE, pose((0, 0, 35), (0.1, -0.05, -0.1)), 0, 0, 1), unit(), "mm in the table"),
        (Similarity(SCALE, pose((0, 30, 35), (0.1, -0.05, 0.057)), 0, 0, 1), unit(), "would fall over"),
        (Similarity(SCALE, TRUE, 0, 0, 1), Mesh(unit().vertices, unit().faces[:-1]), "not closed"),
        (
            Similarity(SCALE, TRUE, 0, 0, 1),
            Mesh(unit().vertices * (1, 1, 1e-9), unit().faces),
            "of the box around it|fills",
        ),
    ],
)
def test_a_shape_that_cannot_be_is_refused_with_the_reasons(fit, mesh, says):
    limits = Limits(fullness=(0.9, 0.95)) if "fills" in says else None
    with pytest.raises(TwinError, match=says):
        admit(Generated(mesh, None, "boxes"), fit, OUTLINES, TABLE, limits)


def test_the_centre_of_mass_of_a_box_is_its_middle():
    np.testing.assert_allclose(centre_of_mass(SEEN), TRUE[:3, 3], atol=1e-9)


def test_a_silhouette_has_the_area_of_what_it_shows():
    flat = Outline(np.ones((120, 160), bool), LENS, np.eye(4))
    face = box(0.2, 0.1, 1e-4).moved(pose((0, 0, 0), (-0.1, -0.05, 0.5)))
    assert silhouette(face, flat).sum() == pytest.approx(0.2 * 0.1 * (150 / 0.5) ** 2, rel=0.05)
    behind = box(0.2, 0.1, 0.1).moved(pose((0, 0, 0), (0, 0, -1)))
    assert not silhouette(behind, flat).any()


def test_splats_move_with_the_shape():
    from tests.reconstruct.test_generate import dots
    from twinproof.sim.splat.placed import placed

    moved = placed(dots(), pose((0, 0, 90), (1, 2, 3)), 2.0)
    np.testing.assert_allclose(moved.means[0], (1, 4, 3), atol=1e-6)
    assert moved.degree == dots().degree  # colours turn along
    np.testing.assert_allclose(moved.log_scales, dots().log_scales + np.log(2), atol=1e-6)
    turn = Rotation.from_quat(moved.quats_wxyz[0][[1, 2, 3, 0]]).magnitude()
    assert np.degrees(turn) == pytest.approx(90, abs=1e-3)
