"""A recording travels to LeRobot v3.0 and back: the grid is checked by plain pyarrow and PyAV, the rest is exact."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ingest import lerobot_files as files
from tests.ingest.lerobot_files import assembled
from twinproof.ingest.lerobot_read import LeRobotReader, sidecar_rig
from twinproof.ingest.lerobot_write import nearest, write_lerobot
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import ConfigError, RecordingError, StoreError, TwinproofError
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import Camera, Intrinsics, Joint, Mount, Rig, SignalRule
from twinproof.nouns.signal import Column, Signal
from twinproof.nouns.video_write import write_pictures

FPS = 20
STATS = ("min", "max", "mean", "std", "count")
ARM = (Column("waist", "rad"), Column("grip", "m"))
FORCE = tuple(Column(name, "N", "wrist") for name in ("fx", "fy"))
RIG = Rig(
    "hand",
    joints=(Joint("waist", (-2.0, 2.0)), Joint("grip")),
    signals={
        "state": SignalRule("/joint_states", "joint_position", units=("deg", "mm"), clock_offset_s=0.01),
        "command": SignalRule("/command", "joint_command", units=("deg", "mm")),
        "force": SignalRule("/force", "wrench", "N", frame="wrist"),
    },
    cameras={"top": Camera("/top", Intrinsics(60, 60, 32, 24), mount=Mount(position_m=(0.1, 0.2, 0.3)))},
)


def episode(
    folder: Path, number: int, frames: int = 5, camera_fps: float = FPS, pixels: tuple[str, ...] = ("rgb",)
) -> Episode:
    rng = np.random.default_rng(number)
    seconds = (frames - 1) / camera_fps
    fast = np.sort(rng.uniform(0.0, seconds, 30))
    fast[[0, -1]] = 0.0, seconds
    slow = np.linspace(0.0131, max(seconds, 0.02), 4)
    force = rng.normal(size=(4, 2))
    missing = np.zeros((4, 2), dtype=bool)
    missing[1, 0] = True
    signals = {
        "state": Signal("state", "joint_position", ARM, fast, rng.normal(size=(30, 2)) / 3, log_time_s=fast + 0.003),
        "command": Signal("command", "joint_command", ARM, slow, rng.normal(size=(4, 2))),
        "force": Signal("force", "wrench", FORCE, slow, force, missing),
    }
    stamps = np.arange(frames) / camera_fps
    videos = {}
    for kind in pixels:
        name = {"rgb": "top"}.get(kind, kind)
        pictures = [_as(kind, files.picture(7 * number + k)) for k in range(frames)]
        video = write_pictures(zip(stamps.tolist(), pictures, strict=True), name, folder / f"{number}_{name}.mp4", kind)
        videos[name] = replace(video, log_time_s=stamps + 0.02)
    labels = {"object": f"mug_{number}", "task": ("lift", "turn")[number % 2]}
    return Episode.of(
        signals, videos, labels=labels, outcome="success", start_ns=10**18 + number, source=f"take {number}",
        notes=("a note",),
    )  # fmt: skip


def _as(kind: str, picture: np.ndarray) -> np.ndarray:
    if kind == "rgb":
        return picture
    return picture[..., 0] if kind == "gray" else picture[..., 0].astype(np.uint16) * 9


def recording(folder: Path, count: int = 3, **how: Any) -> Recording:
    return Recording(RIG, tuple(episode(folder, k, frames=5 + k, **how) for k in range(count)), {"kind": "test"})


def rows_of(root: Path) -> dict[str, np.ndarray]:
    table = pq.read_table(root / "data/chunk-000/file-000.parquet")
    return {name: np.array(table[name].to_pylist()) for name in table.column_names}


def test_the_grid_is_what_another_reader_expects(tmp_path: Path) -> None:
    original = recording(tmp_path)
    root = tmp_path / "out"
    assert write_lerobot(original, root, codec="libx264") == ()
    info = json.loads((root / "meta/info.json").read_text())
    assert (info["codebase_version"], info["fps"], info["robot_type"]) == ("v3.0", FPS, "hand")
    assert (info["total_episodes"], info["total_frames"], info["total_tasks"]) == (3, 18, 2)
    assert info["features"]["observation.state"] == {"dtype": "float32", "shape": [2], "names": ["waist", "grip"]}
    assert info["features"]["observation.images.top"]["shape"] == [48, 64, 3]
    rows = rows_of(root)
    assert rows["index"].tolist() == list(range(18))
    assert rows["episode_index"].tolist() == [0] * 5 + [1] * 6 + [2] * 7
    assert rows["task_index"].tolist() == [0] * 5 + [1] * 6 + [0] * 7
    np.testing.assert_array_equal(rows["timestamp"].astype(np.float32), (rows["frame_index"] / FPS).astype(np.float32))
    low = 0
    for take in original.episodes:
        count = len(take.videos["top"])
        for name, feature in (("state", "observation.state"), ("command", "action")):
            signal = take.signals[name]
            for k in range(count):
                near = int(np.argmin(np.abs(signal.time_s - k / FPS)))
                np.testing.assert_array_equal(rows[feature][low + k], signal.value[near].astype(np.float32))
        low += count
    assert np.isfinite(rows["observation.force"]).all()
    assert set(rows) | {"observation.images.top"} == set(info["features"])


@pytest.mark.parametrize("codec", ["libsvtav1", "libx264", "libx265"])
def test_videos_are_joined_and_each_episode_lies_where_the_table_says(tmp_path: Path, codec: str) -> None:
    original = recording(tmp_path)
    root = tmp_path / "out"
    write_lerobot(original, root, codec=codec)
    table = pq.read_table(root / "meta/episodes/chunk-000/file-000.parquet").to_pylist()
    with av.open(str(root / "videos/observation.images.top/chunk-000/file-000.mp4")) as container:
        shown = {
            round(float(f.pts * f.time_base) * FPS): f.to_ndarray(format="rgb24") for f in container.decode(video=0)
        }
    assert sorted(shown) == list(range(18))
    for number, (entry, take) in enumerate(zip(table, original.episodes, strict=True)):
        first = round(entry["videos/observation.images.top/from_timestamp"] * FPS)
        assert round(entry["videos/observation.images.top/to_timestamp"] * FPS) == first + entry["length"]
        for k in range(len(take.videos["top"])):
            truth = files.picture(7 * number + k).astype(int)
            assert np.abs(shown[first + k].astype(int) - truth).mean() < 6


def test_statistics_cover_exactly_the_rows_and_pictures_written(tmp_path: Path) -> None:
    original = recording(tmp_path)
    root = tmp_path / "out"
    write_lerobot(original, root, codec="libx264")
    stats, rows = json.loads((root / "meta/stats.json").read_text()), rows_of(root)
    table = pq.read_table(root / "meta/episodes/chunk-000/file-000.parquet").to_pylist()
    for feature, values in rows.items():
        for own, found in [(values, stats[feature])] + [
            (values[rows["episode_index"] == k], {key: table[k][f"stats/{feature}/{key}"] for key in STATS})
            for k in range(3)
        ]:
            assert found["count"] == [len(own)]
            for key in ("min", "max", "mean", "std"):
                expected = np.atleast_1d(getattr(own.astype(float), key)(axis=0))
                np.testing.assert_allclose(found[key], expected, rtol=1e-6, atol=1e-9)
    pictures = np.stack([files.picture(7 * n + k) for n in range(3) for k in range(5 + n)]) / 255.0
    camera = stats["observation.images.top"]
    assert camera["count"] == [18]
    for key in ("min", "max", "mean", "std"):
        assert np.shape(camera[key]) == (3, 1, 1)
        np.testing.assert_allclose(np.ravel(camera[key]), getattr(pictures, key)(axis=(0, 1, 2)), atol=1e-9)


def test_tasks_are_a_pandas_frame_whose_index_is_the_text(tmp_path: Path) -> None:
    write_lerobot(recording(tmp_path), tmp_path / "out", codec="libx264")
    table = pq.read_table(tmp_path / "out/meta/tasks.parquet")
    about = table.schema.pandas_metadata
    assert about["index_columns"] == ["task"]
    assert {column["field_name"] for column in about["columns"]} == {"task_index", "task"}
    assert table.to_pydict() == {"task_index": [0, 1], "task": ["lift", "turn"]}


def test_signals_stamps_labels_and_calibration_come_back_exactly(tmp_path: Path) -> None:
    original = recording(tmp_path)
    write_lerobot(original, tmp_path / "out", codec="libx264")
    rig = sidecar_rig(tmp_path / "out")
    assert rig is not None
    assert (rig.joints, rig.signals["state"].clock_offset_s) == (RIG.joints, 0.01)
    assert (rig.cameras["top"].intrinsics, rig.cameras["top"].mount) == (
        RIG.cameras["top"].intrinsics,
        RIG.cameras["top"].mount,
    )
    for one, two in zip(original.episodes, assembled(tmp_path / "out", rig, tmp_path / "work"), strict=True):
        assert dict(one.signals) == dict(two.signals)
        assert (one.labels, one.outcome, one.start_ns, one.source, one.notes) == (
            two.labels, two.outcome, two.start_ns, two.source, two.notes,
        )  # fmt: skip
        np.testing.assert_array_equal(one.videos["top"].time_s, two.videos["top"].time_s)
        np.testing.assert_array_equal(one.videos["top"].log_time_s, two.videos["top"].log_time_s)


def test_without_cameras_the_very_same_episodes_come_back(tmp_path: Path) -> None:
    original = recording(tmp_path, pixels=())
    write_lerobot(original, tmp_path / "out", fps=30)
    info = json.loads((tmp_path / "out/meta/info.json").read_text())
    assert (info["fps"], info["video_path"]) == (30, None)
    rig = sidecar_rig(tmp_path / "out")
    back = assembled(tmp_path / "out", rig, tmp_path / "work")
    assert [take.hash for take in back] == [take.hash for take in original.episodes]
    probe = LeRobotReader(tmp_path / "out").probe()
    assert [(signal.source, signal.kind, signal.unit) for signal in probe.signals] == [
        ("state", "joint_position", None), ("command", "joint_command", None), ("force", "wrench", "N"),
    ]  # fmt: skip


@pytest.mark.parametrize("camera_fps", [7.0, 40.0])
def test_a_camera_at_another_rate_comes_back_with_the_true_stamps_of_the_pictures_kept(
    tmp_path: Path, camera_fps: float
) -> None:
    original = recording(tmp_path, count=2, camera_fps=camera_fps)
    write_lerobot(original, tmp_path / "out", fps=FPS, codec="libx264")
    back = assembled(tmp_path / "out", sidecar_rig(tmp_path / "out"), tmp_path / "work")
    for number, (one, two) in enumerate(zip(original.episodes, back, strict=True)):
        stamps = one.videos["top"].time_s
        kept = list(range(len(stamps))) if camera_fps < FPS else list(range(0, len(stamps), 2))
        np.testing.assert_array_equal(two.videos["top"].time_s, stamps[kept])
        for k, (_, shown) in zip(kept, two.videos["top"].frames(), strict=True):
            assert np.abs(shown.astype(int) - files.picture(7 * number + k)).mean() < 6


def test_depth_is_left_out_and_said_so_and_grey_stays_grey(tmp_path: Path) -> None:
    original = recording(tmp_path, count=2, pixels=("gray", "depth_mm"))
    (left,) = write_lerobot(original, tmp_path / "out", codec="libx264")
    assert left.startswith("depth_mm: a depth camera")
    rig = sidecar_rig(tmp_path / "out")
    assert set(rig.cameras) == {"gray"}
    reader = LeRobotReader(tmp_path / "out")
    assert len(list(reader.episodes(rig))) == 2
    assert left in reader.describe()["left_out"]
    back = assembled(tmp_path / "out", rig, tmp_path / "work")
    assert back[0].videos["gray"].pixels == "gray"
    assert next(back[0].videos["gray"].frames())[1].shape == (48, 64)


def test_files_stay_below_their_size_caps(tmp_path: Path) -> None:
    original = recording(tmp_path)
    write_lerobot(original, tmp_path / "out", codec="libx264", data_mb=0, video_mb=0)
    assert len(list((tmp_path / "out/data").rglob("*.parquet"))) == 3
    assert len(list((tmp_path / "out/videos").rglob("*.mp4"))) == 3
    back = assembled(tmp_path / "out", sidecar_rig(tmp_path / "out"), tmp_path / "work")
    assert [len(take.videos["top"]) for take in back] == [5, 6, 7]
    assert all(dict(one.signals) == dict(two.signals) for one, two in zip(original.episodes, back, strict=True))


def test_a_dataset_edited_since_is_read_as_any_other_and_says_so(tmp_path: Path) -> None:
    root = tmp_path / "out"
    write_lerobot(recording(tmp_path), root, codec="libx264")
    path = root / "data/chunk-000/file-000.parquet"
    pq.write_table(pq.read_table(path), path, compression="zstd")
    assert sidecar_rig(root) is None
    reader = LeRobotReader(root)
    first, *rest = reader.episodes(files.BARE)
    assert (len(rest), first.labels) == (2, {"task": "lift"})
    assert {signal.source for signal in first.signals} == {"observation.state", "action", "observation.force"}
    assert any("file-000.parquet was changed since" in text for text in reader.describe()["left_out"])


def test_names_are_kept_apart_where_two_signals_or_features_share_one(tmp_path: Path) -> None:
    time_s = np.arange(4) / 10
    zero = np.zeros((4, 2))
    signals = {
        "left": Signal("left", "joint_position", ARM, time_s, zero),
        "right": Signal("right", "joint_position", ARM, time_s, zero + 1),
        "state": Signal("state", "joint_velocity", ARM, time_s, zero + 2),
    }
    write_lerobot(Recording(Rig("two arms"), (Episode.of(signals, {}, source="a"),), {}), tmp_path / "out")
    features = json.loads((tmp_path / "out/meta/info.json").read_text())["features"]
    assert features["observation.state"]["names"] == ["left.waist", "left.grip", "right.waist", "right.grip"]
    assert features["observation.signals.state"]["names"] == ["waist", "grip"]
    assert json.loads((tmp_path / "out/meta/info.json").read_text())["fps"] == 10
    assert LeRobotReader(tmp_path / "out").describe()["version"] == "v3.0"


@settings(max_examples=30, deadline=None)
@given(
    stamps=st.lists(st.floats(0, 10), min_size=1, max_size=20, unique=True),
    grid=st.lists(st.floats(-1, 11), min_size=1, max_size=20),
)
def test_nearest_is_nearest(stamps: list[float], grid: list[float]) -> None:
    times = np.sort(stamps)
    found = nearest(times, np.array(grid))
    for time, index in zip(grid, found, strict=True):
        assert abs(times[index] - time) <= np.abs(times - time).min() + 2e-9


# --- what cannot be written, and what is damaged afterwards -----------------------------------------------------------


def one(signal: Signal, **videos: Any) -> Recording:
    return Recording(Rig("hand"), (Episode.of({signal.name: signal}, videos, source="a"),), {})


def test_what_a_dataset_cannot_hold_is_refused(tmp_path: Path) -> None:
    out, time_s = tmp_path / "out", np.arange(3) / 10
    short = Signal("state", "joint_position", ARM[:1], time_s, np.zeros((3, 1)))
    gone = Signal("state", "joint_position", ARM[:1], time_s, np.zeros((3, 1)), np.ones((3, 1), dtype=bool))
    huge = Signal("state", "joint_position", ARM[:1], time_s, np.full((3, 1), 1e300))
    takes = recording(tmp_path, count=1)
    with pytest.raises(RecordingError, match="has other signals, columns or cameras than"):
        write_lerobot(Recording(RIG, (*takes.episodes, *one(short).episodes), {}), out)
    with pytest.raises(RecordingError, match="state/waist has no measured value"):
        write_lerobot(one(gone), out)
    with pytest.raises(RecordingError, match="too large for float32"):
        write_lerobot(one(huge), out)
    with pytest.raises(RecordingError, match="cannot be encoded with 'libnone'"):
        write_lerobot(takes, out, codec="libnone")
    with pytest.raises(ConfigError, match="fps is 0"):
        write_lerobot(takes, out, fps=0)
    depth = episode(tmp_path, 1, pixels=("depth_mm",)).videos
    with pytest.raises(RecordingError, match="depth cameras alone"):
        write_lerobot(Recording(Rig("hand"), (Episode.of({}, depth, source="a"),), {}), out)
    assert not out.exists()
    assert not list(tmp_path.glob(".out*"))
    out.mkdir()
    (out / "mine").write_text("kept")
    with pytest.raises(StoreError, match="not empty"):
        write_lerobot(takes, out)


def test_a_disk_that_fills_at_any_point_leaves_nothing_behind(tmp_path: Path, small_disk: Path) -> None:
    takes = recording(tmp_path)
    write_lerobot(takes, small_disk / "out", codec="libx264")
    needed = sum(path.stat().st_blocks * 512 for path in (small_disk / "out").rglob("*"))
    shutil.rmtree(small_disk / "out")
    for share in (0.1, 0.3, 0.5, 0.7, 0.9):
        free = shutil.disk_usage(small_disk).free
        (small_disk / "filler").write_bytes(bytes(free - int(share * needed)))
        with pytest.raises(StoreError, match="the disk is full"):
            write_lerobot(takes, small_disk / "out", codec="libx264")
        assert [path.name for path in small_disk.iterdir()] == ["filler"]
        (small_disk / "filler").unlink()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("written")
    write_lerobot(recording(base), base / "out", codec="libx264")
    return base / "out"


def test_a_damaged_sidecar_is_refused(written: Path, tmp_path: Path) -> None:
    root = tmp_path / "out"
    shutil.copytree(written, root)
    head = json.loads((root / "twinproof/episodes.json").read_text())
    for change, text in (
        ({"own": None}, "is not whole"),
        ({"episodes": ["../../x"] * 3}, "no episode id"),
        ({"episodes": head["episodes"][:2]}, "lists 2 episodes, the dataset has 3"),
        ({"data": {"../secret": "0"}}, "leaves its folder"),
    ):
        (root / "twinproof/episodes.json").write_text(json.dumps(head | change))
        with pytest.raises(RecordingError, match=text):
            files.raw(root)
    (root / "twinproof/episodes.json").write_text(json.dumps(head))
    (root / "twinproof/rig.json").write_text("{}")
    with pytest.raises(RecordingError, match=r"rig\.json was changed"):
        files.raw(root)


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_damaged_bytes_of_a_written_dataset_never_crash_the_reader_nor_lose_an_episode(
    written: Path, data: st.DataObject
) -> None:
    rig = sidecar_rig(written)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "data"
        shutil.copytree(written, root)
        path = data.draw(st.sampled_from(sorted(path for path in root.rglob("*") if path.is_file())))
        content = bytearray(path.read_bytes())
        at = data.draw(st.integers(0, len(content) - 1))
        if data.draw(st.booleans()):
            content = content[:at]
        else:
            content[at] ^= 1 << data.draw(st.integers(0, 7))
        path.write_bytes(content)
        try:
            episodes = assembled(root, rig, Path(folder) / "work")
        except TwinproofError:
            return
        assert [len(take.videos["top"]) for take in episodes] == [5, 6, 7]
