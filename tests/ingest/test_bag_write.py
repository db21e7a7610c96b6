"""A recording travels to MCAP and back: signals, stamps, log times and labels exactly, pictures bit for bit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rosbags.highlevel import AnyReader

from tests.generator import practice_recording
from tests.ingest.pictures import jpeg, png
from twinproof.ingest.assemble import Tolerances
from twinproof.ingest.bag_read import BagReader, sidecar_rig
from twinproof.ingest.bag_write import write_mcap
from twinproof.ingest.read import ingest
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import RecordingError, StoreError
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import Camera, Intrinsics, Joint, Labels, Rig, SignalRule
from twinproof.nouns.signal import Column, Signal
from twinproof.nouns.video_write import pack_images, write_pictures

ANY_GAP = Tolerances(max_gap_s=1e9)


def back(folder: Path, out: Path) -> Recording:
    rig = sidecar_rig(folder)
    assert rig is not None
    return ingest(folder, rig, out, ANY_GAP)


def rich_recording(folder: Path) -> Recording:
    """Signals of several kinds with gaps and both clocks, and cameras of every kind of pixel."""
    rng = np.random.default_rng(3)
    ns = 1_700_000_000_000_000_000 + np.cumsum(rng.integers(1, 30_000_000, 40))
    time_s = (ns - ns[0]) / 1e9
    missing = rng.random((40, 2)) < 0.2
    joints = (Column("b", "rad"), Column("a", "m"))
    pose = tuple(Column(name, unit, "base") for name, unit in zip(("x", "y", "qw"), ("m", "m", "1"), strict=True))
    signals = {
        "q": Signal("q", "joint_position", joints, time_s, rng.normal(size=(40, 2)), missing, time_s + 0.004),
        "dq": Signal("dq", "joint_velocity", (Column("b", "rad/s"),), time_s[::3], rng.normal(size=(14, 1))),
        "tau": Signal("tau", "joint_torque", (Column("b", "N m"),), time_s, rng.normal(size=(40, 1))),
        "goal-1.2": Signal("goal-1.2", "joint_command", joints, time_s[1:], rng.normal(size=(39, 2))),
        "tip": Signal(
            "tip", "pose", pose, np.arange(10) / 30, rng.normal(size=(10, 3)), None, np.arange(10) / 30 - 0.7
        ),
    }
    frames = np.arange(4) / 7
    colour = rng.integers(0, 255, (4, 16, 24, 3), dtype=np.uint8)
    depth = rng.integers(0, 9000, (4, 16, 24), dtype=np.uint16)
    metres = rng.random((4, 16, 24)).astype(np.float32)
    files = [(float(t), make(k)) for make in (jpeg,) for k, t in enumerate(frames)]
    videos = {
        "rgb": write_pictures(zip(frames.tolist(), colour, strict=True), "rgb", folder / "rgb.mp4"),
        "near": write_pictures(zip(frames.tolist(), depth, strict=True), "near", folder / "near.mp4", "depth_mm"),
        "far": write_pictures(zip(frames.tolist(), metres, strict=True), "far", folder / "far.mp4", "depth_m"),
        "jpg": pack_images(iter(files), "mjpeg", (64, 48), "jpg", folder / "jpg.mp4", "rgb"),
    }
    videos["jpg"] = replace(videos["jpg"], log_time_s=frames + 0.01)
    lens = Intrinsics(50, 51, 12, 8, (0.1, 0.2, 0.0, 0.0, 0.0))
    rig = Rig(
        "bot",
        joints=(Joint("a", (-9, 9)), Joint("b", (-9, 9), 2.0)),
        signals={"q": SignalRule("observation.state", "joint_position", "deg", clock_offset_s=0.1)},
        cameras={"rgb": Camera("images.rgb", lens)},
        labels=(Labels("*", {"object": "wrong"}),),
        ignore=("other",),
    )
    first = Episode.of(
        signals, videos, labels={"object": "mug"}, outcome="success", start_ns=int(ns[0]), source="take 7", notes=("n",)
    )
    second = Episode.of({**signals, "tau": replace(signals["tau"], value=rng.normal(size=(40, 1)))}, videos, start_ns=9)
    return Recording(rig, (first, second), {"kind": "test"})


def test_signals_stamps_and_labels_come_back_exactly(tmp_path):
    recording = rich_recording(tmp_path)
    write_mcap(recording, tmp_path / "bags")
    again = back(tmp_path / "bags", tmp_path / "again")
    assert len(again.episodes) == 2
    for old, new in zip(recording.episodes, again.episodes, strict=True):
        assert dict(new.signals) == dict(old.signals)
        assert (new.start_ns, new.labels, new.outcome, new.source, new.notes) == (
            old.start_ns, old.labels, old.outcome, old.source, old.notes
        )  # fmt: skip
    assert again.rig.joints == recording.rig.joints
    assert again.rig.signals["q"].clock_offset_s == 0.1
    assert again.rig.cameras["rgb"].intrinsics == recording.rig.cameras["rgb"].intrinsics


def test_pictures_come_back_bit_for_bit(tmp_path):
    recording = rich_recording(tmp_path)
    write_mcap(recording, tmp_path / "bags")
    old, new = recording.episodes[0].videos, back(tmp_path / "bags", tmp_path / "again").episodes[0].videos
    assert new["jpg"] == old["jpg"]
    for name in ("rgb", "near", "far"):
        assert new[name].pixels == old[name].pixels
        np.testing.assert_array_equal(new[name].time_s, old[name].time_s)
        for (_, before), (_, after) in zip(old[name].frames(), new[name].frames(), strict=True):
            np.testing.assert_array_equal(before, after)
    assert new["near"] == old["near"]


def test_a_practice_recording_survives_the_journey(tmp_path):
    recording = practice_recording(tmp_path, episodes=2, seconds=0.5, size=(64, 48))
    write_mcap(recording, tmp_path / "bags")
    again = back(tmp_path / "bags", tmp_path / "again")
    for old, new in zip(recording.episodes, again.episodes, strict=True):
        assert dict(new.signals) == dict(old.signals)
        assert [len(video) for video in new.videos.values()] == [len(video) for video in old.videos.values()]


def test_ros_tools_see_joint_states_pictures_and_calibrations(tmp_path):
    recording = rich_recording(tmp_path)
    write_mcap(recording, tmp_path / "bags")
    episode = recording.episodes[0]
    folder = tmp_path / "bags" / f"000000_{episode.id}"
    with AnyReader([folder]) as reader:
        types = {connection.topic: (connection.msgtype, connection.msgcount) for connection in reader.connections}
        assert types == {
            "/q": ("sensor_msgs/msg/JointState", 40),
            "/dq": ("sensor_msgs/msg/JointState", 14),
            "/tau": ("sensor_msgs/msg/JointState", 40),
            "/goal_1_2": ("sensor_msgs/msg/JointState", 39),
            "/tip": ("twinproof_msgs/msg/Sample", 10),
            "/rgb/image_raw": ("sensor_msgs/msg/Image", 4),
            "/rgb/camera_info": ("sensor_msgs/msg/CameraInfo", 4),
            "/near/image_raw/compressed": ("sensor_msgs/msg/CompressedImage", 4),
            "/far/image_raw": ("sensor_msgs/msg/Image", 4),
            "/jpg/image_raw/compressed": ("sensor_msgs/msg/CompressedImage", 4),
        }
        (first, *_) = [c for c in reader.connections if c.topic == "/q"]
        _, log_ns, raw = next(reader.messages([first]))
        message = reader.deserialize(raw, first.msgtype)
        assert (message.name, len(message.velocity)) == (["b", "a"], 0)
        stamp_ns = message.header.stamp.sec * 10**9 + message.header.stamp.nanosec
        assert (stamp_ns, log_ns) == (episode.start_ns, episode.start_ns + 4_000_000)
        expected = np.where(episode.signals["q"].missing[0], np.nan, episode.signals["q"].value[0])
        np.testing.assert_array_equal(message.position, expected)


@settings(max_examples=20, deadline=None)
@given(
    start_ns=st.integers(0, 2_000_000_000_000_000_000),
    steps=st.lists(st.floats(1e-9, 50, allow_subnormal=False), min_size=1, max_size=6),
    lag=st.floats(-3, 3),
    first=st.floats(-5, 5),
)
def test_any_times_come_back_exactly(tmp_path_factory, start_ns, steps, lag, first):
    time_s = np.unique(first + np.cumsum(steps))
    values = np.arange(len(time_s))[:, None] * np.pi
    signal = Signal("s", "other", (Column("c", "1"),), time_s, values, None, time_s[::-1] + lag)
    recording = Recording(Rig("bot"), (Episode.of({"s": signal}, {}, start_ns=start_ns),), {})
    folder = tmp_path_factory.mktemp("times")
    write_mcap(recording, folder / "bags")
    again = back(folder / "bags", folder / "again")
    assert again.episodes[0].id == recording.episodes[0].id


def test_a_bag_changed_after_it_was_written_is_found(tmp_path):
    write_mcap(rich_recording(tmp_path), tmp_path / "bags")
    folder = sorted((tmp_path / "bags").iterdir())[0]
    rig = sidecar_rig(folder)
    text = (folder / "twinproof.json").read_text()
    sidecar = json.loads(text)
    cases = [
        ("samples", 39, "/q: 40 messages, twinproof.json states 39"),
        ("columns", ["b"], "2 columns, twinproof.json"),
    ]
    for key, value, match in cases:
        changed = json.loads(text)
        changed["signals"]["/q"][key] = value
        (folder / "twinproof.json").write_text(json.dumps(changed))
        with pytest.raises(RecordingError, match=match):
            next(iter(BagReader(folder).episodes(rig)))
    sidecar["start_ns"] += 10**9
    (folder / "twinproof.json").write_text(json.dumps(sidecar))
    with pytest.raises(RecordingError, match=r"twinproof_times.npz: .* does not belong to its bag"):
        next(iter(BagReader(folder).episodes(rig)))
    (folder / "twinproof.json").write_text(text)
    (folder / "twinproof_times.npz").write_bytes(b"PK nothing")
    with pytest.raises(RecordingError, match=r"twinproof_times.npz cannot be read"):
        next(iter(BagReader(folder).episodes(rig)))


def test_a_cut_bag_of_ours_keeps_what_it_has(tmp_path):
    recording = practice_recording(tmp_path, episodes=1, seconds=2, size=(320, 240))
    write_mcap(recording, tmp_path / "bags")
    (folder,) = (tmp_path / "bags").iterdir()
    (file,) = folder.glob("*.mcap")
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    (episode,) = BagReader(folder).episodes(sidecar_rig(folder))
    state = next(signal for signal in episode.signals if signal.source == "/state")
    count = len(state.time_s)
    assert 5 < count < 60
    np.testing.assert_array_equal(state.value, recording.episodes[0].signals["state"].value[:count])
    np.testing.assert_array_equal(state.time_s, recording.episodes[0].signals["state"].time_s[:count])
    assert "recovered: true" in episode.notes[0]


def test_what_a_bag_cannot_hold_is_refused(tmp_path):
    late = Signal("s", "other", (Column("c", "1"),), np.zeros(1), np.zeros((1, 1)))
    with pytest.raises(RecordingError, match=r"a ROS stamp ends at \d+ ns \(in 2038\)"):
        write_mcap(Recording(Rig("bot"), (Episode.of({"s": late}, {}, start_ns=2**62),), {}), tmp_path / "late")
    frames = (Column("c", "1", "base"), Column("d", "1", "tool"))
    mixed = Signal("s", "other", frames, np.zeros(1), np.zeros((1, 2)))
    with pytest.raises(RecordingError, match="s has columns in the frames base, tool"):
        write_mcap(Recording(Rig("bot"), (Episode.of({"s": mixed}, {}),), {}), tmp_path / "mixed")
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "bags").mkdir()
    (tmp_path / "bags" / "mine").touch()
    signal = Signal("s", "other", (Column("c", "1"),), np.zeros(1), np.zeros((1, 1)))
    with pytest.raises(StoreError, match="not empty"):
        write_mcap(Recording(Rig("bot"), (Episode.of({"s": signal}, {}),), {}), tmp_path / "bags")
    assert sidecar_rig(tmp_path) is None


def test_png_files_stay_the_files_they_were(tmp_path):
    files = ((k / 10, png(k)) for k in range(3))
    video = pack_images(files, "png", (64, 48), "cam", tmp_path / "cam.mp4", "rgb")
    recording = Recording(
        Rig("bot", cameras={"cam": Camera("x", intrinsics_unknown=True)}), (Episode.of({}, {"cam": video}),), {}
    )
    write_mcap(recording, tmp_path / "bags")
    assert back(tmp_path / "bags", tmp_path / "again").episodes[0].id == recording.episodes[0].id


def test_a_video_that_lost_its_frames_is_found(tmp_path):
    video = pack_images(((k / 10, png(k)) for k in range(3)), "png", (64, 48), "cam", tmp_path / "cam.mp4", "rgb")
    moved = replace(video, pts=video.pts + np.array([0, 0, 5]))
    recording = Recording(Rig("bot"), (Episode.of({}, {"cam": moved}),), {})
    with pytest.raises(RecordingError, match="camera cam: frame 2 is not where it was"):
        write_mcap(recording, tmp_path / "bags")
    assert not (tmp_path / "bags").exists()
