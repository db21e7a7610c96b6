"""Views of posed pictures: planted points fall on their pixels, and what is wrong is said."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ingest import ring
from tests.ingest.damage import damage_one_file
from tests.ingest.pictures import encoded
from twinproof.ingest.posed_views import posed_views
from twinproof.nouns.errors import RecordingError, SplatError, TwinproofError
from twinproof.nouns.views import PosedView

KINDS = ("transforms", "colmap text", "colmap binary")


def write(kind: str, root: Path, at: list[np.ndarray], **how: object) -> None:
    if kind == "transforms":
        ring.write_transforms(root, at, **how)  # type: ignore[arg-type]
    else:
        ring.write_colmap(root, at, binary=kind.endswith("binary"), **how)  # type: ignore[arg-type]


def pixels(view: PosedView, points: np.ndarray) -> np.ndarray:
    """Column and row of points as our conventions count: the centre of the first pixel is (0, 0)."""
    local, lens = (points - view.T_world_camera[:3, 3]) @ view.T_world_camera[:3, :3], view.intrinsics
    return np.stack([lens.fx * local[:, 0] / local[:, 2] + lens.cx, lens.fy * local[:, 1] / local[:, 2] + lens.cy], 1)


@pytest.mark.parametrize("kind", KINDS)
def test_planted_points_fall_on_their_pixels(tmp_path, kind):
    write(kind, tmp_path / "src", ring.poses())
    views = posed_views(tmp_path / "src")
    assert [view.name for view in views.views] == [f"{'images/' * (kind == KINDS[0])}{k}.png" for k in range(6)]
    assert views.points == pytest.approx(ring.points(), abs=1e-6)
    assert (views.colours == [(10, 20, k) for k in range(40)]).all()
    for view in views.views:
        column, row = pixels(view, views.points).round().astype(int).T
        assert (view.rgb[row, column] == 255).all()
        assert (view.intrinsics.cx, view.intrinsics.cy) == (ring.CX - 0.5, ring.CY - 0.5)
    assert "40 points from" in views.notes[0]
    assert len(views.notes) == 1


def test_a_smaller_picture_keeps_points_on_their_pixels(tmp_path):
    ring.write_colmap(tmp_path / "src", ring.poses())
    whole, half = posed_views(tmp_path / "src"), posed_views(tmp_path / "src", longest_px=32)
    for one, other in zip(whole.views, half.views, strict=True):
        assert other.rgb.shape == (24, 32, 3)
        assert pixels(other, half.points) == pytest.approx((pixels(one, whole.points) + 0.5) / 2 - 0.5, abs=1e-6)
        column, row = pixels(other, half.points).round().astype(int).T
        assert (other.rgb[row, column] >= 60).all()  # a quarter of a white pixel


def test_pictures_of_two_sizes_have_their_own_intrinsics(tmp_path):
    root = tmp_path / "src"
    ring.write_transforms(root, ring.poses())
    large = ring.picture(ring.poses()[2], ring.points(), (128, 96))
    (root / "images/2.png").write_bytes(encoded("png", "rgb24", large, "rgb24"))
    data = json.loads((root / "transforms.json").read_text())
    data["frames"][2] |= {"w": 128, "h": 96, "fl_x": 120, "fl_y": 124, "cx": 62, "cy": 49}
    (root / "transforms.json").write_text(json.dumps(data))
    views = posed_views(root)
    column, row = pixels(views.views[2], views.points).round().astype(int).T
    assert (views.views[2].rgb[row, column] == 255).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_picture_is_named_and_an_extra_one_noted(tmp_path, kind):
    write(kind, tmp_path / "src", ring.poses())
    (tmp_path / "src/images/extra.png").write_bytes((tmp_path / "src/images/0.png").read_bytes())
    assert "1 pictures have no pose and are left out: extra.png" in posed_views(tmp_path / "src").notes
    (tmp_path / "src/images/3.png").unlink()
    with pytest.raises((SplatError, RecordingError), match=r"3.png.* missing"):
        posed_views(tmp_path / "src")


def test_many_missing_pictures_are_counted(tmp_path):
    ring.write_colmap(tmp_path / "src", ring.poses(10))
    for path in (tmp_path / "src/images").iterdir():
        path.unlink()
    with pytest.raises(SplatError, match=r"0.png, 1.png, .* and 5 more of 10 posed pictures missing"):
        posed_views(tmp_path / "src")


@pytest.mark.parametrize("kind", KINDS)
def test_fewer_than_three_views_are_refused(tmp_path, kind):
    write(kind, tmp_path / "src", ring.poses(2))
    with pytest.raises(SplatError, match="2 posed pictures; a scene needs 3 at least.*Take more pictures"):
        posed_views(tmp_path / "src")


def test_a_folder_without_poses_is_refused(tmp_path):
    with pytest.raises(SplatError, match="neither transforms.json nor a COLMAP model"):
        posed_views(tmp_path)


def test_a_picture_of_another_size_than_its_camera_is_refused(tmp_path):
    ring.write_colmap(tmp_path / "src", ring.poses())
    small = np.zeros((24, 32, 3), np.uint8)
    (tmp_path / "src/images/1.png").write_bytes(encoded("png", "rgb24", small, "rgb24"))
    with pytest.raises(SplatError, match="1.png is 32×24, its camera camera_7 states 64×48"):
        posed_views(tmp_path / "src")


def test_a_picture_that_does_not_decode_is_named(tmp_path):
    ring.write_colmap(tmp_path / "src", ring.poses())
    whole = (tmp_path / "src/images/1.png").read_bytes()
    (tmp_path / "src/images/1.png").write_bytes(whole[:60])
    with pytest.raises(SplatError, match="1.png (does not decode|holds no picture)"):
        posed_views(tmp_path / "src")


@pytest.mark.parametrize("cloud", [True, False])
def test_opencv_axes_in_a_transforms_file_are_detected(tmp_path, cloud):
    ring.write_transforms(tmp_path / "src", ring.poses(), cloud=cloud, gl=False)
    with pytest.raises(SplatError, match="6 of 6.*written for other axes.*Negate the second and third column"):
        posed_views(tmp_path / "src")


@pytest.mark.parametrize("binary", [True, False])
def test_camera_to_world_poses_in_a_colmap_model_are_detected(tmp_path, binary):
    ring.write_colmap(tmp_path / "src", ring.poses(), binary=binary, inverted=True)
    with pytest.raises(SplatError, match="written for other axes.*yours are camera-to-world. Invert each"):
        posed_views(tmp_path / "src")


def test_cameras_that_look_outwards_are_taken_with_a_note(tmp_path):
    ring.write_transforms(tmp_path / "src", ring.poses(outward=True), cloud=False)
    views = posed_views(tmp_path / "src")
    assert "there are no points: the scene starts from the cameras alone" in views.notes
    assert "6 of 6 cameras look away from their common centre" in views.notes[-1]


def test_a_room_filmed_from_within_is_no_mix_up(tmp_path, monkeypatch):
    angle = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    walls = np.stack([5 * np.cos(angle), 5 * np.sin(angle), 1 + 0.5 * np.sin(7 * angle)], axis=1)
    monkeypatch.setattr(ring, "points", lambda: walls)
    ring.write_colmap(tmp_path / "src", ring.poses(24, outward=True))
    assert len(posed_views(tmp_path / "src").notes) == 1


def test_points_of_another_scene_are_noted(tmp_path, monkeypatch):
    monkeypatch.setattr(ring, "points", lambda: np.full((40, 3), 100.0))
    ring.write_colmap(tmp_path / "src", ring.poses())
    assert "only 0% of the points fall into two pictures" in posed_views(tmp_path / "src").notes[-1]


def test_parallel_cameras_without_points_tell_nothing_and_are_taken(tmp_path):
    at = [np.eye(4) for _ in range(4)]
    for k, pose in enumerate(at):
        pose[0, 3] = k
    ring.write_transforms(tmp_path / "src", at, cloud=False)
    assert len(posed_views(tmp_path / "src")) == 4


def test_what_a_transforms_file_holds_beside_is_noted(tmp_path):
    ring.write_transforms(tmp_path / "src", ring.poses(), applied_transform=[[1, 0, 0, 0]])
    assert "not looked at: transforms.json: applied_transform" in posed_views(tmp_path / "src").notes


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_damaged_files_give_views_or_a_clear_error(tmp_path_factory, data):
    root = tmp_path_factory.mktemp("fuzz") / "src"
    write(data.draw(st.sampled_from(KINDS)), root, ring.poses(3))
    damage_one_file(data, root)
    try:
        views = posed_views(root)
    except TwinproofError:
        return
    assert len(views) == 3
