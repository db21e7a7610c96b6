"""Views of a recording: poses from a signal or the rig, depth in metres, and words about what is left out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import SplatError
from twinproof.nouns.parts import Calibration
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import Camera, Intrinsics, Mount, Rig, SignalRule
from twinproof.nouns.signal import Column, Signal
from twinproof.nouns.video_write import write_pictures
from twinproof.reconstruct.views_of import views_of
from twinproof.sim.depth_points import depth_points

LENS = Intrinsics(20, 20, 7.5, 5.5)
TIMES = np.arange(10) / 10
MOUNT = Mount("world", (0.0, 0.0, 2.0), (0.0, 1.0, 0.0, 0.0))  # looks down
POSE = ("x", "y", "z", "qw", "qx", "qy", "qz")


def pictures(seed: int = 0) -> list[np.ndarray]:
    return [np.full((12, 16, 3), 10 * k + seed, np.uint8) for k in range(10)]


def pose_signal(time_s: np.ndarray, columns=POSE, frame: str = "world", **how) -> Signal:
    """A camera that moves along x and turns about z."""
    quat = Rotation.from_euler("z", 0.5 * time_s[:, None]).as_quat()[:, [3, 0, 1, 2]]
    value = np.concatenate([np.stack([time_s, 0 * time_s, 0 * time_s], 1), quat], axis=1)
    names = tuple(Column(name, "m" if name in "xyz" else "1", frame) for name in columns)
    return Signal("wrist_pose", "pose", names, time_s, value, **how)


def recording(tmp_path: Path, rig: Rig, signals=(), seed: int = 0, depth: dict | None = None, **videos) -> Recording:
    made = {
        name: write_pictures(zip(TIMES, frames, strict=True), name, tmp_path / f"{seed}_{name}.mp4")
        for name, frames in videos.items()
    }
    for name, (frames, pixels) in (depth or {}).items():
        made[name] = write_pictures(zip(TIMES, frames, strict=True), name, tmp_path / f"{seed}_{name}.mp4", pixels)
    return Recording(rig, (Episode.of({s.name: s for s in signals}, made, source="made"),), {"kind": "made"})


def test_a_camera_that_stands_still_gives_one_view_an_episode(tmp_path):
    rig = Rig("r", cameras={"top": Camera("t", LENS, mount=MOUNT)})
    made = recording(tmp_path, rig, top=pictures())
    (view,) = views_of(made).views
    assert np.array_equal(view.T_world_camera, MOUNT.T_parent_camera)
    assert view.intrinsics == LENS
    assert (view.rgb == 0).all()
    assert view.name == f"{made.episodes[0].id[:8]}/top/000000"
    assert [int(v.rgb[0, 0, 0]) for v in views_of(made, every_s=0.3).views] == [0, 30, 60, 90]
    assert len(views_of(Calibration(made, "5" * 64))) == 1


def test_every_picture_of_a_camera_that_moves_has_the_pose_of_its_moment(tmp_path):
    rig = Rig("r", cameras={"wrist": Camera("w", LENS, clock_offset_s=0.02)})
    signal = pose_signal(np.arange(-5, 120) / 100)
    views = views_of(recording(tmp_path, rig, [signal], wrist=pictures()))
    assert len(views) == 10
    for time_s, view in zip(TIMES + 0.02, views.views, strict=True):  # robot time = clock + offset
        assert view.T_world_camera[:3, 3] == pytest.approx([time_s, 0, 0], abs=1e-9)
        assert view.T_world_camera[:3, :3] == pytest.approx(
            Rotation.from_euler("z", 0.5 * time_s).as_matrix(), abs=1e-9
        )


def test_pictures_without_a_pose_are_left_out_and_counted(tmp_path):
    rig = Rig(
        "r",
        signals={"wrist_pose": SignalRule("p", "pose", clock_offset_s=0.1)},
        cameras={"wrist": Camera("w", LENS)},
    )
    time_s = np.arange(50) / 100
    missing = np.zeros((50, 7), bool)
    missing[8:13] = True  # around 0.2 s on the camera's clock
    views = views_of(recording(tmp_path, rig, [pose_signal(time_s, missing=missing)], wrist=pictures()))
    assert [view.name[-6:] for view in views.views] == ["000001", "000003", "000004", "000005"]
    assert "6 of 10 pictures of wrist have no pose in wrist_pose and are left out" in views.notes


@pytest.mark.parametrize(("pixels", "unit"), [("depth_mm", 0.001), ("depth_mm", 0.0002), ("depth_m", 0.001)])
def test_depth_comes_in_metres_and_its_points_lie_on_the_floor(tmp_path, pixels, unit):
    metres = np.full((12, 16), 2.0)
    metres[0, 0] = 0
    counts = metres.astype(np.float32) if pixels == "depth_m" else (metres / unit).round().astype(np.uint16)
    counts[0, 1] = np.nan if pixels == "depth_m" else 65535
    rig = Rig("r", cameras={"top": Camera("t", LENS, mount=MOUNT), "top_depth": Camera("d", depth_unit_m=unit)})
    made = recording(tmp_path, rig, top=pictures(7), depth={"top_depth": ([counts] * 10, pixels)})
    views = views_of(made)
    (view,) = views.views
    assert view.depth_m is not None
    assert view.depth_m[0, :2].tolist() == [0, 0]
    assert view.depth_m[1:] == pytest.approx(2.0)
    assert len(views.points) == 12 * 16 - 2
    assert views.points[:, 2] == pytest.approx(0, abs=1e-6)
    assert (views.colours == 7).all()
    column = (np.abs(views.points[:, 0]) / 2 * 20).max()
    assert column == pytest.approx(7.5)


def test_depth_that_is_not_registered_is_not_used(tmp_path):
    other = {"lens": Camera("d", Intrinsics(30, 30, 7, 5)), "mount": Camera("d", mount=Mount())}
    for k, camera in enumerate(other.values()):
        rig = Rig("r", cameras={"top": Camera("t", LENS, mount=MOUNT), "top_depth": camera})
        counts = [np.full((12, 16), 2000, np.uint16)] * 10
        made = recording(tmp_path, rig, seed=k, top=pictures(), depth={"top_depth": (counts, "depth_mm")})
        views = views_of(made)
        assert views.views[0].depth_m is None
        assert "top_depth has another size, lens or mount than top" in views.notes[0]
    rig = Rig("r", cameras={"top": Camera("t", LENS, mount=MOUNT), "top_depth": Camera("d")})
    made = recording(tmp_path, rig, seed=9, top=pictures(), top_depth=pictures())
    assert "top_depth holds rgb pictures, not depth" in views_of(made, cameras=["top"]).notes[0]


def test_a_depth_picture_of_another_moment_is_not_used(tmp_path):
    camera = Camera("d", clock_offset_s=5.0)
    rig = Rig("r", cameras={"top": Camera("t", LENS, mount=MOUNT), "top_depth": camera})
    counts = [np.full((12, 16), 2000, np.uint16)] * 10
    views = views_of(recording(tmp_path, rig, top=pictures(), depth={"top_depth": (counts, "depth_mm")}))
    assert views.views[0].depth_m is None
    assert len(views.points) == 0


def test_many_depth_pixels_are_thinned_and_masked_ones_left_out(tmp_path):
    rig = Rig("r", cameras={"top": Camera("t", LENS, mount=MOUNT), "top_depth": Camera("d")})
    counts = [np.full((12, 16), 2000, np.uint16)] * 10
    views = views_of(recording(tmp_path, rig, top=pictures(), depth={"top_depth": (counts, "depth_mm")}))
    assert len(depth_points(views.views, most=50)[0]) == 48
    half = np.zeros((12, 16), int)
    half[:, :8] = -1
    points, _ = depth_points([replace(views.views[0], mask=half)])
    assert len(points) == 96
    assert (points[:, 0] > 0).all()


def test_a_grey_camera_gives_three_equal_channels(tmp_path):
    rig = Rig("r", cameras={"top": Camera("t", LENS, mount=MOUNT)})
    frames = [np.full((12, 16), 40, np.uint8)] * 10
    made = recording(tmp_path, rig, depth={"top": (frames, "gray")})
    assert views_of(made).views[0].rgb.shape == (12, 16, 3)


def bad_cameras() -> dict[str, tuple[Camera, tuple[Signal, ...], str]]:
    far = pose_signal(np.arange(5) + 100.0)
    long = replace(pose_signal(TIMES), value=np.full((10, 7), 0.9))
    return {
        "lens": (Camera("w", mount=MOUNT, intrinsics_unknown=True), (), "wrist is left out: it has no intrinsics"),
        "mount": (Camera("w", LENS), (), "neither a signal wrist_pose nor a mount says where it is"),
        "link": (Camera("w", LENS, mount=Mount("hand")), (), "it is mounted on 'hand', which moves"),
        "frame": (Camera("w", LENS), (pose_signal(TIMES, frame="base"),), "in the frame 'base', not in the world"),
        "columns": (
            Camera("w", LENS), (pose_signal(TIMES, columns=tuple("abcdefg")),), "has not the columns x y z qw qx qy qz",
        ),
        "quaternions": (Camera("w", LENS), (long,), "no finite poses with unit quaternions"),
        "time": (Camera("w", LENS), (far,), "10 of 10 pictures of wrist have no pose"),
    }  # fmt: skip


@pytest.mark.parametrize("why", bad_cameras())
def test_when_nothing_is_left_the_error_says_why_and_what_to_write(tmp_path, why):
    camera, signals, words = bad_cameras()[why]
    made = recording(tmp_path, Rig("r", cameras={"wrist": camera}), signals, wrist=pictures())
    with pytest.raises(SplatError, match=words) as caught:
        views_of(made)
    assert "rig.toml" in str(caught.value)
    assert "[cameras.NAME.mount]" in str(caught.value)


def test_a_camera_that_is_left_out_is_noted_beside_one_that_is_not(tmp_path):
    rig = Rig("r", cameras={"top": Camera("t", LENS, mount=MOUNT), "wrist": Camera("w", LENS, mount=Mount("hand"))})
    views = views_of(recording(tmp_path, rig, top=pictures(), wrist=pictures(1)))
    assert len(views) == 1
    assert views.notes == (
        "wrist is left out: it is mounted on 'hand', which moves, and no signal wrist_pose follows it",
    )


def test_names_and_times_that_cannot_be_are_refused(tmp_path):
    rig = Rig("r", cameras={"top": Camera("t", LENS, mount=MOUNT)})
    made = recording(tmp_path, rig, top=pictures())
    with pytest.raises(SplatError, match="no colour camera 'side'; it has top"):
        views_of(made, cameras=["side"])
    for every_s in (0, -1, np.nan, np.inf):
        with pytest.raises(SplatError, match="a time above 0 s is needed"):
            views_of(made, every_s)
