"""LeRobot datasets made by hand are read whole."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.ingest import lerobot_files as files
from tests.ingest.lerobot_files import BARE, CAMERA, JOINTS, Made, assembled, images, make, raw, rig
from twinproof.ingest.lerobot_read import LeRobotReader, is_lerobot
from twinproof.ingest.raw import RawEpisode, RawSignal
from twinproof.nouns.errors import RecordingError
from twinproof.nouns.rig import Camera, SignalRule


def signal(episode: RawEpisode, source: str) -> RawSignal:
    return next(signal for signal in episode.signals if signal.source == source)


@pytest.mark.parametrize("codec", ["libsvtav1", "libx264", "libx265"])
@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_every_episode_comes_with_its_own_rows_and_its_own_pictures(tmp_path: Path, version: str, codec: str) -> None:
    made = Made(version=version, codec=codec, files=2)
    root = make(tmp_path / "data", made)
    episodes = assembled(root, rig(), tmp_path / "work")
    assert is_lerobot(root)
    assert not is_lerobot(tmp_path)
    assert [len(episode.signals["state"].time_s) for episode in episodes] == [6, 4, 5]
    low, truth = 0, files.states(15)
    for k, (episode, length) in enumerate(zip(episodes, made.lengths, strict=True)):
        state, command, video = episode.signals["state"], episode.signals["command"], episode.videos["top"]
        np.testing.assert_array_equal(state.value, truth[low : low + length].astype(float))
        np.testing.assert_array_equal(command.value, (2 * truth[low : low + length]).astype(float))
        np.testing.assert_array_equal(state.time_s, np.arange(length) / 10)
        assert [column.name for column in state.columns] == JOINTS
        assert episode.labels == {"task": made.tasks[k % 2]}
        np.testing.assert_array_equal(video.time_s, state.time_s)
        for row, (_, picture) in enumerate(video.frames(), low):
            error = np.abs(picture.astype(int) - files.picture(row).astype(int)).mean()
            assert error < 5, f"{episode.source}: the picture of row {row} is off by {error}"
        low += length


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_files_and_row_groups_are_the_writers_business(tmp_path: Path, version: str) -> None:
    usual = raw(make(tmp_path / "a", Made(version=version)))
    other = raw(make(tmp_path / "b", Made(version=version, files=3, row_group=2)))
    for one, two in zip(usual, other, strict=True):
        for first, second in zip(one.signals, two.signals, strict=True):
            np.testing.assert_array_equal(first.value, second.value)


def test_an_episode_is_read_without_touching_the_row_groups_of_others(tmp_path: Path) -> None:
    root = make(tmp_path / "data", Made(lengths=(5, 5, 5), row_group=5))
    path = root / "data" / "chunk-000" / "file-000.parquet"
    third = pq.ParquetFile(path).metadata.row_group(2).column(0)
    at = third.dictionary_page_offset or third.data_page_offset
    data = bytearray(path.read_bytes())
    data[at : at + 40] = b"\xff" * 40
    path.write_bytes(data)
    episodes = LeRobotReader(root).episodes(BARE)
    assert [next(episodes).name, next(episodes).name] == ["episode_000000", "episode_000001"]
    with pytest.raises(RecordingError, match=r"file-000\.parquet cannot be read"):
        next(episodes)


@pytest.mark.parametrize(
    ("names", "columns"),
    [
        (JOINTS, tuple(JOINTS)),
        ({"motors": JOINTS}, tuple(JOINTS)),
        ({"gripper": 2, "waist": 0, "shoulder": 1}, tuple(JOINTS)),
        ([JOINTS], tuple(JOINTS)),
        (["state"], ()),  # the name of the axis
        (None, ()),
    ],
)
def test_names_may_be_a_list_a_table_or_null(tmp_path: Path, names: object, columns: tuple[str, ...]) -> None:
    root = make(tmp_path / "data", Made(names=names))
    assert signal(raw(root)[0], "observation.state").columns == columns


def test_channels_first_and_last_give_the_same_camera(tmp_path: Path) -> None:
    for chw in (False, True):
        root = make(tmp_path / str(chw), Made(lengths=(2,), codec="libx264", chw=chw))
        (camera,) = LeRobotReader(root).probe().cameras
        assert (camera.source, camera.width, camera.height) == (CAMERA, 64, 48)
        assert len(assembled(root, rig(), tmp_path / "work")[0].videos["top"]) == 2
    for shape, names in (([48, 64, 1], None), ([3, 48, 64], None), ([48, 64], None)):
        files.edit_feature(root, CAMERA, shape=shape, names=names)
        (camera,) = LeRobotReader(root).probe().cameras
        assert (camera.width, camera.height) == (64, 48)


def test_pictures_inside_rows_become_a_camera_byte_for_byte(tmp_path: Path) -> None:
    colour = [files.picture(row) for row in range(5)]
    depth = [np.full((48, 64), 700 + row, dtype=np.uint16) for row in range(5)]
    feature = {"dtype": "image", "shape": [48, 64, 3], "names": ["height", "width", "channels"]}
    flat = {"dtype": "image", "shape": [48, 64, 1], "names": ["height", "width", "channels"]}
    extra = {CAMERA: (feature, images(colour)), "observation.images.depth": (flat, images(depth))}
    root = make(tmp_path / "data", Made(lengths=(3, 2), extra=extra))
    how = rig()
    how.cameras["depth"] = Camera("observation.images.depth", intrinsics_unknown=True)
    row = 0
    for episode in assembled(root, how, tmp_path / "work"):
        for (_, shown), (_, far) in zip(episode.videos["top"].frames(), episode.videos["depth"].frames(), strict=True):
            np.testing.assert_array_equal(shown, colour[row])
            np.testing.assert_array_equal(far, depth[row])
            row += 1
    assert row == 5


def test_jpeg_pictures_inside_rows_become_a_camera(tmp_path: Path) -> None:
    feature = {"dtype": "image", "shape": [48, 64, 3], "names": ["height", "width", "channels"]}
    rows: list[object] = [{"bytes": files.jpeg(files.picture(row)), "path": None} for row in range(3)]
    root = make(tmp_path / "data", Made(lengths=(3,), version="v2.1", extra={CAMERA: (feature, rows)}))
    (episode,) = assembled(root, rig(), tmp_path / "work")
    assert episode.videos["top"].codec == "mjpeg"
    for row, (_, shown) in enumerate(episode.videos["top"].frames()):
        assert np.abs(shown.astype(int) - files.picture(row)).mean() < 5


def test_texts_become_labels_and_numbers_of_any_kind_become_signals(tmp_path: Path) -> None:
    lengths, total = (3, 2), 5
    extra = {
        "site": ({"dtype": "string", "shape": [1], "names": None}, ["lab"] * total),
        "remark": ({"dtype": "string", "shape": [1], "names": None}, ["a", "b", "c", "d", "d"]),
        "blank": ({"dtype": "string", "shape": [1], "names": None}, pa.nulls(total, pa.string())),
        "mode": ({"dtype": "int64", "shape": [1], "names": None}, list(range(total))),
        "force": ({"dtype": "float32", "shape": [1], "names": ["grip"]}, [[0.5]] * total),
        "pose": ({"dtype": "float32", "shape": [2, 2], "names": None}, [[[1.0, 2.0], [3.0, 4.0]]] * total),
        "next.success": ({"dtype": "bool", "shape": [1], "names": None}, [False, False, True, False, False]),
    }
    reader = LeRobotReader(make(tmp_path / "data", Made(lengths=lengths, extra=extra)))
    first, second = reader.episodes(BARE)
    assert first.labels == {"task": "open the drawer", "site": "lab"}
    assert second.labels == {"task": "close it", "site": "lab", "remark": "d"}
    assert (first.outcome, second.outcome) == ("success", "failure")
    assert signal(first, "mode").columns == ("mode",)
    assert signal(second, "mode").value.tolist() == [[3.0], [4.0]]
    assert signal(first, "force").columns == ("grip",)
    assert signal(first, "pose").value[0].tolist() == [1.0, 2.0, 3.0, 4.0]
    assert (signal(first, "next.success").unit, signal(first, "next.success").kind) == ("1", "event")
    assert {s.source for s in first.signals} == {
        "observation.state", "action", "mode", "force", "pose", "next.success",
    }  # fmt: skip
    left_out = " ".join(reader.describe()["left_out"])
    assert "remark: a text that changes within an episode (episode_000000)" in left_out
    assert "blank: holds no text" in left_out


def test_a_description_names_version_files_and_what_was_left_out(tmp_path: Path) -> None:
    root = make(tmp_path / "data", Made(codec="libx264"))
    table = pq.read_table(root / "data/chunk-000/file-000.parquet").append_column("secret", pa.array([1] * 15))
    pq.write_table(table, root / "data/chunk-000/file-000.parquet")
    shutil.copy(
        root / "videos" / CAMERA / "chunk-000/file-000.mp4", root / "videos" / CAMERA / "chunk-000/file-007.mp4"
    )
    pq.write_table(table, root / "meta" / "subtasks.parquet")
    reader = LeRobotReader(root)
    assert len(list(reader.episodes(BARE))) == 3
    about = reader.describe()
    assert (about["kind"], about["version"], about["name"]) == ("lerobot", "v3.0", "data")
    assert set(about["files"]) == {
        "meta/info.json", "meta/tasks.parquet", "meta/episodes/chunk-000/file-000.parquet",
        "data/chunk-000/file-000.parquet", f"videos/{CAMERA}/chunk-000/file-000.mp4",
    }  # fmt: skip
    assert about["files"]["meta/info.json"] == (root / "meta/info.json").stat().st_size
    assert any(text.startswith("secret: a column of the data") for text in about["left_out"])
    assert any("file-007.mp4: no episode refers to it" in text for text in about["left_out"])
    assert any("subtasks" in text for text in about["left_out"])
    json.dumps(about)


def test_a_task_that_changes_is_joined_and_noted(tmp_path: Path) -> None:
    root = make(tmp_path / "data", Made(lengths=(4,)))
    files.edit_rows(root, "file-000.parquet", "task_index", [0, 0, 1, 1])
    (episode,) = raw(root)
    assert episode.labels["task"] == "open the drawer | close it"
    assert "the task changes" in episode.notes[0]


def test_time_is_frame_over_fps_unless_the_stamps_say_otherwise(tmp_path: Path) -> None:
    (grid,) = raw(make(tmp_path / "grid", Made(lengths=(50,), fps=30)))
    np.testing.assert_array_equal(grid.signals[0].time_s, np.arange(50) / 30)
    assert grid.notes == ()
    stamps = np.cumsum(np.full(50, 0.031)).astype(np.float32)
    (real,) = raw(make(tmp_path / "real", Made(lengths=(50,), fps=30, stamps=stamps)))
    np.testing.assert_array_equal(real.signals[0].time_s, stamps.astype(float))
    assert "not frame / fps" in real.notes[0]


def test_a_null_is_marked_missing_and_nan_is_left_for_the_rig_to_judge(tmp_path: Path) -> None:
    vector = {"dtype": "float32", "shape": [2], "names": None}
    rows = [[1.0, 2.0], None, [None, 4.0], [float("nan"), 5.0]]
    root = make(tmp_path / "data", Made(lengths=(4,), extra={"touch": (vector, rows)}))
    touch = signal(raw(root)[0], "touch")
    assert touch.missing.tolist() == [[False, False], [True, True], [True, False], [False, False]]
    assert np.isnan(touch.value[3, 0])
    how = rig(camera=False)
    how.signals["touch"] = SignalRule("touch", unit="1")
    with pytest.raises(RecordingError, match="nan-is-missing"):
        assembled(root, how, tmp_path / "work")


def test_a_probe_guesses_kinds_and_units_and_shows_ranges(tmp_path: Path) -> None:
    extra = {"effort": ({"dtype": "float32", "shape": [1], "names": None}, [float("nan"), 1.0, 2.0, 90.0])}
    root = make(tmp_path / "data", Made(lengths=(3, 1), extra=extra, codec="libx264"))
    files.edit_rows(root, "file-000.parquet", "action", [[90.0, 0.0, 1.0]] * 4)
    probe = LeRobotReader(root).probe()
    state, action, effort = probe.signals
    assert (probe.robot, probe.episodes) == ("hand", ("episode_000000", "episode_000001"))
    assert (state.kind, state.unit, state.columns) == ("joint_position", "rad", tuple(JOINTS))
    assert (action.kind, action.unit, action.high) == ("joint_command", "deg", (90.0, 0.0, 1.0))
    assert (effort.kind, effort.unit, effort.low, effort.high) == ("other", None, (1.0,), (2.0,))
    np.testing.assert_allclose(state.low, files.states(3).min(axis=0))
