"""Posed images: COLMAP models, text and binary, and transforms.json give the same poses."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ingest.damage import damage_one_file
from tests.ingest.pictures import jpeg
from twinproof.ingest.posed import quat_wxyz_of
from twinproof.ingest.read import ingest, probe
from twinproof.ingest.suggest import suggest_rig
from twinproof.nouns.errors import RecordingError, TwinproofError
from twinproof.nouns.rig import Mount, Rig, read_rig

GL = np.diag([1.0, -1.0, -1.0])


def poses(count: int = 4) -> list[np.ndarray]:
    """T_world_camera of cameras that look from all sides."""
    rng = np.random.default_rng(0)
    made = []
    for _ in range(count):
        w, x, y, z = rng.normal(size=4)
        pose = Mount(position_m=tuple(rng.normal(size=3)), quat_wxyz=(w, x, y, z)).T_parent_camera
        made.append(pose)
    return made


def write_pictures(root: Path, count: int = 4) -> None:
    (root / "images").mkdir(parents=True)
    for k in range(count):
        (root / "images" / f"{k}.jpg").write_bytes(jpeg(k))


def write_transforms(root: Path, **more: object) -> None:
    write_pictures(root)
    frames = []
    for k, pose in enumerate(poses()):
        gl = pose.copy()
        gl[:3, :3] = pose[:3, :3] @ GL
        frames.append({"file_path": f"images/{k}.jpg", "transform_matrix": gl.tolist()})
    head = {"fl_x": 50.0, "fl_y": 51.0, "cx": 32.0, "cy": 24.0, "w": 64, "h": 48, "k1": 0.01, "frames": frames}
    (root / "transforms.json").write_text(json.dumps({**head, **more}))


def write_colmap(root: Path, binary: bool) -> None:
    write_pictures(root)
    folder = root / "sparse" / "0"
    folder.mkdir(parents=True)
    rows = []
    for k, pose in enumerate(poses()):
        inverse = np.linalg.inv(pose)
        rows.append((k + 1, *quat_wxyz_of(inverse[:3, :3]), *inverse[:3, 3], 7, f"{k}.jpg"))
    numbers = (50.0, 51.0, 32.0, 24.0, 0.01, 0.0, 0.0, 0.0)
    if binary:
        (folder / "cameras.bin").write_bytes(struct.pack("<Q", 1) + struct.pack("<IiQQ8d", 7, 4, 64, 48, *numbers))
        body = b"".join(
            struct.pack("<I7dI", *row[:9])
            + row[9].encode()
            + b"\0"
            + struct.pack("<Q", 1)
            + struct.pack("<ddq", 1, 2, -1)
            for row in rows
        )
        (folder / "images.bin").write_bytes(struct.pack("<Q", len(rows)) + body)
        (folder / "points3D.bin").write_bytes(struct.pack("<Q", 0))
    else:
        (folder / "cameras.txt").write_text("# comment\n7 OPENCV 64 48 " + " ".join(map(str, numbers)) + "\n")
        lines = [f"{' '.join(map(repr, map(float, row[1:8])))}" for row in rows]
        text = "".join(f"{row[0]} {line} {row[8]} {row[9]}\n1 2 -1\n" for row, line in zip(rows, lines, strict=True))
        (folder / "images.txt").write_text(f"# comment\n{text}")


def suggested(root: Path, tmp_path: Path) -> Rig:
    path = tmp_path / f"{root.name}.toml"
    path.write_text(suggest_rig(probe(root, path)))
    return read_rig(path)


@pytest.mark.parametrize("kind", ["transforms", "colmap text", "colmap binary"])
def test_every_kind_gives_the_planted_poses_and_intrinsics(tmp_path, kind):
    root = tmp_path / "src"
    write_transforms(root) if kind == "transforms" else write_colmap(root, kind.endswith("binary"))
    made = ingest(root, suggested(root, tmp_path), tmp_path / "out")
    (episode,) = made.episodes
    (pose,) = episode.of_kind("pose")
    for row, planted in zip(pose.value, poses(), strict=True):
        seen = Mount(position_m=tuple(row[:3]), quat_wxyz=tuple(row[3:])).T_parent_camera
        assert seen == pytest.approx(planted, abs=1e-6)
    (camera,) = made.rig.cameras.values()
    assert camera.intrinsics is not None
    assert (camera.intrinsics.fx, camera.intrinsics.fy, camera.intrinsics.distortion[0]) == (50, 51, 0.01)
    assert (camera.intrinsics.cx, camera.intrinsics.cy) == (31.5, 23.5)  # the first pixel's centre is (0, 0)
    assert "stamped one second apart" in episode.notes[0]
    (video,) = episode.videos.values()
    assert [int(image.mean().round(-1)) for _, image in video.frames()] == [10, 30, 50, 70]


def test_a_focal_length_may_be_given_as_an_angle(tmp_path):
    write_transforms(tmp_path / "src", fl_x=None)
    data = json.loads((tmp_path / "src" / "transforms.json").read_text())
    for key in ("fl_x", "fl_y"):
        del data[key]
    data["camera_angle_x"] = 2 * np.arctan(32 / 50)
    (tmp_path / "src" / "transforms.json").write_text(json.dumps(data))
    made = ingest(tmp_path / "src", suggested(tmp_path / "src", tmp_path), tmp_path / "out")
    (camera,) = made.rig.cameras.values()
    assert camera.intrinsics is not None
    assert camera.intrinsics.fx == pytest.approx(50)


def mirrored(data: dict) -> None:
    data["frames"][1]["transform_matrix"][0] = [-v for v in data["frames"][1]["transform_matrix"][0]]


def scaled(data: dict) -> None:
    data["frames"][0]["transform_matrix"] = (np.array(data["frames"][0]["transform_matrix"]) * 2).tolist()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (mirrored, "mirrored"),
        (scaled, "not a rotation"),
        (lambda d: d.update(w=640), "is 64×48, the file states 640×48"),
        (lambda d: d.update(camera_model="OPENCV_FISHEYE"), "camera model 'OPENCV_FISHEYE'"),
        (lambda d: d["frames"][0].update(file_path="../secret.jpg"), "leaves its folder"),
        (lambda d: d["frames"][0].update(file_path="images/9.jpg"), "is missing"),
        (lambda d: d["frames"][0].update(file_path="images/1.jpg"), "twice"),
        (lambda d: d["frames"][0].update(transform_matrix=[[1]]), "4×4"),
        (lambda d: d.pop("frames"), "frames"),
        (lambda d: d.update(frames=[]), "no posed picture"),
        (lambda d: d.pop("fl_x"), "no focal length"),
    ],
)
def test_a_broken_transforms_file_is_refused(tmp_path, change, words):
    write_transforms(tmp_path / "src")
    path = tmp_path / "src" / "transforms.json"
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    with pytest.raises(RecordingError, match=words):
        ingest(tmp_path / "src", Rig("none"), tmp_path / "out")


def test_a_colmap_camera_that_is_no_pinhole_is_refused(tmp_path):
    write_colmap(tmp_path / "src", binary=False)
    (tmp_path / "src/sparse/0/cameras.txt").write_text("7 FOV 64 48 50 50 32 24 0.9\n")
    with pytest.raises(RecordingError, match="camera model FOV.*Undistort"):
        ingest(tmp_path / "src", Rig("none"), tmp_path / "out")


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_corrupted_bytes_give_an_error_or_every_picture(tmp_path_factory, data):
    tmp_path = tmp_path_factory.mktemp("fuzz")
    root = tmp_path / "src"
    kind = data.draw(st.sampled_from(["transforms", "text", "binary"]))
    write_transforms(root) if kind == "transforms" else write_colmap(root, kind == "binary")
    rig = suggested(root, tmp_path)
    damage_one_file(data, root)
    try:
        made = ingest(root, rig, tmp_path / "out")
    except TwinproofError:
        assert not (tmp_path / "out").exists()
    else:
        assert sum(len(video) for episode in made.episodes for video in episode.videos.values()) == 4


def test_quaternions_of_all_rotations():
    for pose in poses(50):
        w, x, y, z = quat_wxyz_of(pose[:3, :3])
        assert Mount(quat_wxyz=(w, x, y, z)).T_parent_camera[:3, :3] == pytest.approx(pose[:3, :3], abs=1e-12)
