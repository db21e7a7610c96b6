"""Pictures, masks and depth beside posed pictures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.ingest import ring
from tests.ingest.pictures import encoded
from twinproof.ingest.picture_planes import decoded
from twinproof.ingest.posed_views import posed_views
from twinproof.nouns.errors import SplatError


def grey(values: np.ndarray) -> bytes:
    return encoded("png", "gray", values.astype(np.uint8), "gray")


def halves(top: int, low: int) -> np.ndarray:
    values = np.full((48, 64), low)
    values[:24] = top
    return values


def with_planes(root: Path, **files: str) -> None:
    """Names a mask or a depth picture in the first frame."""
    data = json.loads((root / "transforms.json").read_text())
    data["frames"][0].update(files)
    (root / "transforms.json").write_text(json.dumps(data))


def test_a_jpeg_keeps_its_brightness(tmp_path):
    soft = np.linspace(20, 230, 64 * 48).reshape(48, 64, 1) * [1, 0.8, 0.6]
    Image.fromarray(soft.astype(np.uint8)).save(tmp_path / "a.jpg", quality=98)
    rgba, has_alpha, size = decoded(tmp_path / "a.jpg")
    seen = np.asarray(Image.open(tmp_path / "a.jpg")).astype(float)
    assert rgba[..., :3].mean(axis=(0, 1)) == pytest.approx(seen.mean(axis=(0, 1)), abs=0.2)
    assert (has_alpha, size) == (False, (64, 48))


def test_pixels_that_are_transparent_do_not_count(tmp_path):
    ring.write_colmap(tmp_path / "src", ring.poses())
    rgba = np.full((48, 64, 4), 255, np.uint8)
    rgba[:10, :, 3] = 0
    (tmp_path / "src/images/1.png").write_bytes(encoded("png", "rgba", rgba, "rgba"))
    views = posed_views(tmp_path / "src")
    assert views.views[1].mask is not None
    assert (views.views[1].mask[:10] == -1).all()
    assert (views.views[1].mask[10:] == 0).all()
    assert views.views[0].mask is None
    assert "1 pictures have pixels that do not count (masked or transparent)" in views.notes


@pytest.mark.parametrize("name", ["1.png.png", "1.png"])
@pytest.mark.parametrize("kind", ["colmap", "transforms"])
def test_a_mask_beside_the_pictures_leaves_pixels_out(tmp_path, kind, name):
    write = ring.write_colmap if kind == "colmap" else ring.write_transforms
    write(tmp_path / "src", ring.poses())
    (tmp_path / "src/masks").mkdir()
    (tmp_path / "src/masks" / name).write_bytes(grey(halves(0, 255)))
    views = posed_views(tmp_path / "src", longest_px=32)
    assert views.groups == ("background",)
    assert views.views[1].mask is not None
    assert np.array_equal(views.views[1].mask[:, 0], np.repeat([-1, 0], 12))
    assert views.views[0].mask is None


def test_named_groups_are_told_apart_by_their_values(tmp_path):
    ring.write_colmap(tmp_path / "src", ring.poses())
    (tmp_path / "src/masks").mkdir()
    (tmp_path / "src/masks/groups.txt").write_text("background\nmug\n")
    (tmp_path / "src/masks/0.png").write_bytes(grey(halves(2, 1)))
    (tmp_path / "src/masks/1.png").write_bytes(grey(halves(2, 0)))
    views = posed_views(tmp_path / "src")
    assert views.groups == ("background", "mug")
    assert [view.mask[::47, 0].tolist() for view in views.views[:2] if view.mask is not None] == [[1, 0], [1, -1]]
    (tmp_path / "src/masks/0.png").write_bytes(grey(halves(3, 1)))
    with pytest.raises(SplatError, match="has the value 3, but .*groups.txt names 2 groups"):
        posed_views(tmp_path / "src")
    for text in ("", "mug\nmug\n"):
        (tmp_path / "src/masks/groups.txt").write_text(text)
        with pytest.raises(SplatError, match="Write one name a line"):
            posed_views(tmp_path / "src")


def test_masks_and_depth_that_a_frame_names_are_read(tmp_path):
    root = tmp_path / "src"
    ring.write_transforms(root, ring.poses(), cloud=False)
    (root / "m.png").write_bytes(grey(halves(0, 1)))
    counts = halves(4000, 65535).astype(np.uint16)
    (root / "d.png").write_bytes(encoded("png", "gray16be", counts, "gray16le"))
    with_planes(root, mask_path="m.png", depth_file_path="d.png")
    view = posed_views(root).views[0]
    assert view.mask is not None
    assert view.mask[::47, 0].tolist() == [-1, 0]
    assert view.depth_m is not None
    assert view.depth_m[::47, 0].tolist() == [4, 0]


def test_depth_gives_points_where_the_model_has_none(tmp_path):
    root = tmp_path / "src"
    ring.write_transforms(root, ring.poses(), cloud=False, depth_unit_scale_factor=0.0005)
    far = np.linalg.norm(ring.poses()[0][:3, 3]) / 0.0005
    (root / "d.png").write_bytes(encoded("png", "gray16be", np.full((48, 64), far, np.uint16), "gray16le"))
    with_planes(root, depth_file_path="d.png")
    views = posed_views(root)
    assert "3072 points from depth" in views.notes
    nearest = np.linalg.norm(views.points, axis=1).min()
    assert nearest < 0.03  # the plane of that depth goes through what the camera looks at


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("mask_path", grey(np.zeros((24, 32))), "is 32×24, its picture 64×48"),
        ("mask_path", encoded("png", "rgb24", np.zeros((48, 64, 3), np.uint8), "rgb24"), "needed is a grey PNG of 8"),
        ("depth_file_path", grey(np.zeros((48, 64))), "needed is a grey PNG of 16 bits"),
        ("mask_path", None, "cannot be read"),
    ],
)
def test_planes_that_do_not_fit_are_refused(tmp_path, name, data, words):
    root = tmp_path / "src"
    ring.write_transforms(root, ring.poses())
    if data is not None:
        (root / "p.png").write_bytes(data)
    with_planes(root, **{name: "p.png"})
    with pytest.raises(SplatError, match=words):
        posed_views(root)
