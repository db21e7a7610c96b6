"""Points of a scene, from COLMAP and from PLY."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from tests.ingest import ring
from twinproof.ingest.sparse_points import read_point_cloud, read_points3d
from twinproof.nouns.errors import RecordingError


@pytest.mark.parametrize("binary", [True, False])
def test_points3d_gives_positions_colours_errors_and_tracks(tmp_path, binary):
    ring.write_colmap(tmp_path, ring.poses(3), binary=binary)
    seen = read_points3d(tmp_path / "sparse/0" / f"points3D.{'bin' if binary else 'txt'}")
    assert seen.xyz == pytest.approx(ring.points())
    assert (seen.rgb == [(10, 20, k) for k in range(40)]).all()
    assert (seen.error_px == 0.5).all()
    assert (seen.track_length == 2).all()


@pytest.mark.parametrize("ascii", [True, False])
def test_a_point_cloud_is_read_with_its_colours(tmp_path, ascii):
    ring.write_cloud(tmp_path / "c.ply", ascii)
    seen = read_point_cloud(tmp_path / "c.ply")
    assert seen.xyz == pytest.approx(ring.points(), abs=1e-6)
    assert (seen.rgb == [(10, 20, k) for k in range(40)]).all()
    assert seen.coloured


def test_points_without_colours_are_grey_and_say_so(tmp_path):
    head = b"ply\nformat ascii 1.0\nelement vertex 2\nproperty double x\nproperty double y\nproperty double z\n"
    (tmp_path / "c.ply").write_bytes(head + b"end_header\n1 2 3\n4 5 6\n")
    seen = read_point_cloud(tmp_path / "c.ply")
    assert (seen.xyz == [[1, 2, 3], [4, 5, 6]]).all()
    assert (seen.rgb == 128).all()
    assert not seen.coloured


def test_colours_as_fractions_are_scaled(tmp_path):
    names = "".join(f"property float {name}\n" for name in ("x", "y", "z", "red", "green", "blue"))
    head = f"ply\nformat binary_little_endian 1.0\nelement vertex 1\n{names}end_header\n"
    (tmp_path / "c.ply").write_bytes(head.encode() + np.array([1, 2, 3, 0, 0.5, 2], "<f4").tobytes())
    assert read_point_cloud(tmp_path / "c.ply").rgb.tolist() == [[0, 128, 255]]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is cut off or broken"),
        (struct.pack("<Q", 1 << 60), "do not fit into 8 bytes"),
        (struct.pack("<QQdddBBBdQ", 1, 1, 0, 0, 0, 0, 0, 0, 0, 1 << 50), "claims a track"),
        (struct.pack("<QQdddBBBdQ", 1, 1, np.nan, 0, 0, 0, 0, 0, 0, 0), "not finite"),
    ],
)
def test_a_broken_points3d_is_refused(tmp_path, data, words):
    (tmp_path / "points3D.bin").write_bytes(data)
    with pytest.raises(RecordingError, match=words):
        read_points3d(tmp_path / "points3D.bin")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (b"ply\n", b"plx\n", "no PLY header"),
        (b"end_header", b"end_headex", "no PLY header"),
        (b"binary_little_endian", b"binary_big_endian", "'format binary_big_endian 1.0'. Points are read from"),
        (b"vertex 40", b"vertex 400", "promises 400 points"),
        (b"vertex 40", b"vertex 999999999999999", "promises 999999999999999 points"),
        (b"property float x", b"property half x", "'property half x'"),
        (b"property float x", b"property float w", "a vertex with x, y and z"),
        (b"format binary_little_endian 1.0\n", b"", "lacks the format"),
    ],
)
def test_a_point_cloud_that_lies_is_refused(tmp_path, old, new, words):
    ring.write_cloud(tmp_path / "c.ply")
    (tmp_path / "c.ply").write_bytes((tmp_path / "c.ply").read_bytes().replace(old, new, 1))
    with pytest.raises(RecordingError, match=words):
        read_point_cloud(tmp_path / "c.ply")


def test_an_ascii_cloud_that_was_cut_or_is_not_finite_is_refused(tmp_path):
    ring.write_cloud(tmp_path / "c.ply", ascii=True)
    whole = (tmp_path / "c.ply").read_text()
    (tmp_path / "c.ply").write_text(whole[:-20])
    with pytest.raises(RecordingError, match="40 lines of 6 numbers were promised"):
        read_point_cloud(tmp_path / "c.ply")
    (tmp_path / "c.ply").write_text(whole.replace("end_header\n", "end_header\nnan 0 0 0 0 0\n"))
    with pytest.raises(RecordingError, match="not finite"):
        read_point_cloud(tmp_path / "c.ply")
    with pytest.raises(RecordingError, match="cannot be read"):
        read_point_cloud(tmp_path / "none.ply")
