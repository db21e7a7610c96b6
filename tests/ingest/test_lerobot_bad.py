"""LeRobot datasets that are damaged or contradict themselves are refused with a text that says what to mend."""

from __future__ import annotations

import shutil
import struct
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.ingest import lerobot_files as files
from tests.ingest.lerobot_files import CAMERA, Made, assembled, images, make, raw, rig
from twinproof.ingest.lerobot_feeds import ImageFeed
from twinproof.ingest.lerobot_table import read_rows
from twinproof.nouns.errors import RecordingError, TwinproofError


def data_file(root: Path) -> Path:
    return next(path for path in sorted((root / "data").rglob("*.parquet")))


def grow(root: Path) -> None:
    path = data_file(root)
    table = pq.read_table(path)
    pq.write_table(pa.concat_tables([table, table.slice(0, 1)]), path)


BAD: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "version": ("v3.0", lambda r: files.edit_info(r, codebase_version="v1.6"), r"'v1\.6'; v2\.1 and v3\.0 are read"),
    "no version": ("v2.1", lambda r: files.edit_info(r, codebase_version=None), "codebase_version None"),
    "info empty": ("v3.0", lambda r: (r / "meta/info.json").write_bytes(b""), r"info\.json is empty \(0 bytes\)"),
    "info not json": ("v3.0", lambda r: (r / "meta/info.json").write_text("{"), r"info\.json cannot be read"),
    "info a list": ("v3.0", lambda r: (r / "meta/info.json").write_text("[]"), "holds list, not a JSON object"),
    "info gone": ("v3.0", lambda r: (r / "meta/info.json").unlink(), r"info\.json is missing"),
    "fps": ("v3.0", lambda r: files.edit_info(r, fps=0), "says fps 0; a positive number"),
    "no features": ("v3.0", lambda r: files.edit_info(r, features=None), "no table 'features'"),
    "no dtype": ("v3.0", lambda r: files.edit_feature(r, "action", dtype=None), "'action' has no dtype"),
    "shape text": ("v3.0", lambda r: files.edit_feature(r, "action", shape="3"), "'action' has the shape '3'"),
    "names count": ("v3.0", lambda r: files.edit_feature(r, "action", names=["a", "b"]), "2 names for 3 numbers"),
    "names number": ("v3.0", lambda r: files.edit_feature(r, "action", names=3), "'action' has names 3"),
    "not a picture": (
        "v3.0", lambda r: files.edit_feature(r, "action", dtype="video", shape=[7, 7, 7]), r"height × width × channels",
    ),
    "template": ("v3.0", lambda r: files.edit_info(r, data_path="data/{x!r}"), "no path template"),
    "template key": ("v3.0", lambda r: files.edit_info(r, data_path="data/{season}"), "uses {season}; known here"),
    "up": ("v3.0", lambda r: files.edit_info(r, data_path="../other.parquet"), "leaves its folder"),
    "absolute": ("v2.1", lambda r: files.edit_info(r, data_path="/etc/{episode_index}"), "leaves its folder"),
    "chunks": ("v2.1", lambda r: files.edit_info(r, chunks_size=0), "chunks_size is 0; a whole number from 1 on"),
    "more episodes": ("v3.0", lambda r: files.edit_info(r, total_episodes=4), "total_episodes 4, the table .* has 3"),
    "more frames": ("v2.1", lambda r: files.edit_info(r, total_frames=16), "total_frames 16, the table .* has 15"),
    "table short": (
        "v2.1",
        lambda r: (r / "meta/episodes.jsonl").write_text('{"episode_index": 0, "tasks": [], "length": 6}\n'),
        "total_episodes 3, the table of episodes has 1",
    ),
    "line a list": ("v2.1", lambda r: (r / "meta/episodes.jsonl").write_text("[1]\n"), "line 1 is not a JSON object"),
    "table gone": ("v3.0", lambda r: files.episodes_path(r).unlink(), "holds no table of episodes"),
    "table empty": ("v3.0", lambda r: files.episodes_path(r).write_bytes(b""), "is empty"),
    "no episodes": (
        "v2.1",
        lambda r: (files.edit_info(r, total_episodes=0, total_frames=0), shutil.rmtree(r / "data"),
                   (r / "meta/episodes.jsonl").write_text("\n")),
        "table of episodes is empty",
    ),
    "table column": (
        "v3.0",
        lambda r: pq.write_table(pq.read_table(files.episodes_path(r)).drop(["length"]), files.episodes_path(r)),
        "has no column 'length'",
    ),
    "gap": ("v3.0", lambda r: files.edit_episodes(r, 2, episode_index=3), "has no episode 2"),
    "twice": (
        "v2.1",
        lambda r: (r / "meta/episodes.jsonl").write_text('{"episode_index": 0, "length": 6}\n' * 2),
        "has episode 0 twice",
    ),
    "from": ("v3.0", lambda r: files.edit_episodes(r, 1, dataset_from_index=5), "episode 1 claims rows 5 to 10"),
    "empty": (
        "v3.0",
        lambda r: files.edit_episodes(r, 2, length=0, dataset_to_index=10),
        r"episode_000002 is empty \(length 0\)",
    ),
    "null index": ("v3.0", lambda r: files.edit_episodes(r, 0, data__file_index=None), "whole numbers, found 1 nulls"),
    "data gone": ("v3.0", lambda r: data_file(r).unlink(), r"file-000\.parquet is missing"),
    "data empty": ("v2.1", lambda r: data_file(r).write_bytes(b""), r"episode_000000\.parquet is empty"),
    "data torn": ("v3.0", lambda r: data_file(r).write_bytes(data_file(r).read_bytes()[:500]), "cannot be read"),
    "more rows": ("v3.0", grow, r"has 16 rows, the table of episodes gives its episodes 15"),
    "stray data": ("v3.0", lambda r: shutil.copy(data_file(r), r / "data/chunk-000/file-009.parquet"), "no episode"),
    "frame order": (
        "v2.1",
        lambda r: files.edit_rows(r, "episode_000000.parquet", "frame_index", [0, 1, 2, 4, 5, 6]),
        "frame_index is 4 at frame 3",
    ),
    "owner": (
        "v2.1",
        lambda r: files.edit_rows(r, "episode_000000.parquet", "episode_index", [0, 0, 1, 0, 0, 0]),
        "row 2 belongs to episode 1",
    ),
    "stamp": (
        "v2.1",
        lambda r: files.edit_rows(r, "episode_000000.parquet", "timestamp", [0.0, 0.1, None, 0.3, 0.4, 0.5]),
        "a timestamp is null, NaN or infinite",
    ),
    "width": ("v3.0", lambda r: files.edit_feature(r, "action", shape=[4], names=None), "3 numbers at row 0"),
    "scalar": (
        "v2.1",
        lambda r: files.edit_rows(r, "episode_000000.parquet", "action", [1.0] * 6),
        "single numbers, its shape .* says",
    ),
    "text": (
        "v2.1",
        lambda r: files.edit_rows(r, "episode_000000.parquet", "action", [["a", "b", "c"]] * 6),
        "holds string, not numbers",
    ),
    "not a text": ("v3.0", lambda r: files.edit_feature(r, "action", dtype="string"), "'action' must hold texts"),
    "no column": (
        "v3.0",
        lambda r: pq.write_table(pq.read_table(data_file(r)).drop(["action"]), data_file(r)),
        "has no column 'action', which meta/info",
    ),
    "no task": (
        "v2.1",
        lambda r: files.edit_rows(r, "episode_000000.parquet", "task_index", [7] * 6),
        "task_index 7; the table of tasks has 2",
    ),
    "task text": ("v2.1", lambda r: (r / "meta/tasks.jsonl").write_text('{"task_index": 0}\n'), "task 0 has no text"),
    "tasks gone": ("v3.0", lambda r: (r / "meta/tasks.parquet").unlink(), r"tasks\.parquet is missing"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_dataset_that_contradicts_itself_is_refused(tmp_path: Path, case: str) -> None:
    version, damage, text = BAD[case]
    root = make(tmp_path / "data", Made(version=version))
    damage(root)
    with pytest.raises(RecordingError, match=text):
        raw(root)


def test_a_data_file_that_is_a_link_to_elsewhere_is_refused(tmp_path: Path) -> None:
    root = make(tmp_path / "data", Made())
    data_file(root).rename(tmp_path / "elsewhere.parquet")
    (root / "data/chunk-000/file-000.parquet").symlink_to(tmp_path / "elsewhere.parquet")
    with pytest.raises(RecordingError, match="leaves its folder"):
        raw(root)


def cut_short(root: Path) -> None:
    last = sorted((root / "videos").rglob("*.mp4"))[-1]
    files.video(last, range(3), 10, "libx264")


def rename_codec(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"avc1", b"zzzz"))


BAD_VIDEO: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "missing": ("v3.0", lambda r: shutil.rmtree(r / "videos"), r"file-000\.mp4 of 'observation.images.top' is missing"),
    "empty": ("v2.1", lambda r: next((r / "videos").rglob("*.mp4")).write_bytes(b""), r"empty \(0 bytes\)"),
    "short": ("v2.1", lambda r: cut_short(r), "3 frames for 5 rows"),
    "short shared": ("v3.0", lambda r: cut_short(r), r"frames for \d rows"),
    "surplus": (
        "v2.1",
        lambda r: files.video(sorted((r / "videos").rglob("*.mp4"))[0], range(9), 10, "libx264"),
        "9 frames for 6 rows",
    ),
    "size": ("v3.0", lambda r: files.edit_feature(r, CAMERA, shape=[32, 64, 3]), "64×48, meta/info.json says 64×32"),
    "depth": (
        "v3.0",
        lambda r: files.edit_feature(r, CAMERA, info={"video.is_depth_map": True}),
        "is a depth video, which LeRobot stores log-quantised",
    ),
    "overlap": (
        "v3.0",
        lambda r: files.edit_episodes(r, 1, **{f"videos__{CAMERA}__from_timestamp": 0.3}),
        r"episode 1 starts at 0\.3000 s, inside episode 0",
    ),
    "between": (
        "v3.0",
        lambda r: files.edit_info(r, fps=20),
        r"frame 5 .* is at 0\.5000 s, the rows need one at 0\.2500 s",
    ),
    "seconds": (
        "v3.0",
        lambda r: files.edit_episodes(r, 1, **{f"videos__{CAMERA}__from_timestamp": -1.0}),
        "must hold seconds from 0 on",
    ),
    "codec": ("v2.1", lambda r: rename_codec(next((r / "videos").rglob("*_000000.mp4"))), "a codec that is unknown"),
    "up": ("v3.0", lambda r: files.edit_info(r, video_path="../{video_key}.mp4"), "leaves its folder"),
}


@pytest.mark.parametrize("case", BAD_VIDEO)
def test_a_video_that_does_not_fit_its_rows_is_refused(tmp_path: Path, case: str) -> None:
    version, damage, text = BAD_VIDEO[case]
    root = make(tmp_path / "data", Made(version=version, codec="libx264"))
    damage(root)
    with pytest.raises(RecordingError, match=text):
        assembled(root, rig(), tmp_path / "work")


def test_a_missing_video_does_not_matter_to_a_rig_that_ignores_the_camera(tmp_path: Path) -> None:
    root = make(tmp_path / "data", Made(codec="libx264"))
    shutil.rmtree(root / "videos")
    assert len(assembled(root, rig(CAMERA, camera=False), tmp_path / "work")) == 3


BAD_IMAGES: dict[str, tuple[Callable[[list[dict[str, object]]], object], str]] = {
    "torn": (lambda rows: rows[1].update(bytes=rows[1]["bytes"][:-20]), "row 1: the PNG picture is damaged"),
    "flipped": (lambda rows: rows[2].update(bytes=rows[2]["bytes"].replace(b"IDAT", b"IDAX")), "row 2: the PNG"),
    "jpeg": (lambda rows: rows[0].update(bytes=b"\xff\xd8\xff\xe0 torn"), "JPEG picture is damaged"),
    "other": (lambda rows: rows[0].update(bytes=b"GIF89a"), "neither PNG nor JPEG"),
    "gone": (lambda rows: rows[1].update(bytes=None), r"frame-000001\.png is missing"),
    "empty": (lambda rows: rows[1].update(bytes=None, path=None), "row 1: no picture of"),
    "leaves": (lambda rows: rows[1].update(bytes=None, path="../x.png"), "leaves its folder"),
    "size": (lambda rows: rows[1].update(bytes=files.png(np.zeros((8, 8, 3), np.uint8))), "png 8×8 rgb, the first"),
    "deep": (
        lambda rows: rows[0].update(bytes=rows[0]["bytes"][:16] + _header(64, 48, 16, 2) + rows[0]["bytes"][33:]),
        "16 bits and colour type 2",
    ),
}


def _header(width: int, height: int, depth: int, colour: int) -> bytes:
    body = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    return body + zlib.crc32(b"IHDR" + body).to_bytes(4)


@pytest.mark.parametrize("case", BAD_IMAGES)
def test_a_picture_inside_a_row_that_is_damaged_is_refused(tmp_path: Path, case: str) -> None:
    change, text = BAD_IMAGES[case]
    feature = {"dtype": "image", "shape": [48, 64, 3], "names": ["height", "width", "channels"]}
    rows = images([files.picture(row) for row in range(3)])
    change(rows)
    root = make(tmp_path / "data", Made(lengths=(3,), extra={CAMERA: (feature, rows)}))
    with pytest.raises(RecordingError, match=text):
        assembled(root, rig(), tmp_path / "work")


def test_fewer_rows_than_asked_for_are_an_error(tmp_path: Path) -> None:
    feature = {"dtype": "image", "shape": [48, 64, 3], "names": ["height", "width", "channels"]}
    rows = images([files.picture(row) for row in range(3)])
    path = data_file(make(tmp_path / "data", Made(lengths=(3,), extra={CAMERA: (feature, rows)})))
    with pytest.raises(RecordingError, match="gave 1 rows from row 2 on, 2 are needed"):
        read_rows(path, 2, 2, ["index"])
    with pytest.raises(RecordingError, match="gave 3 pictures for 4 rows"):
        ImageFeed(CAMERA, path, 0, np.arange(4) / 10, tmp_path / "data").write("top", tmp_path / "top.mp4")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("sound")
    return {
        version: make(base / version, Made(lengths=(3, 2, 3), version=version, codec="libx264"))
        for version in ("v2.1", "v3.0")
    }


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
@given(data=st.data())
def test_damaged_bytes_never_crash_the_reader_nor_lose_an_episode(
    sound: dict[str, Path], version: str, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "data"
        shutil.copytree(sound[version], root)
        paths = sorted(path for path in root.rglob("*") if path.is_file())
        path = data.draw(st.sampled_from(paths))
        content = bytearray(path.read_bytes())
        if data.draw(st.booleans()):
            content = content[: data.draw(st.integers(0, len(content) - 1))]
        else:
            for _ in range(data.draw(st.integers(1, 4))):
                content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(content)
        try:
            episodes = assembled(root, rig(), Path(folder) / "work")
        except TwinproofError:
            return
        assert len(episodes) == 3
        assert [len(episode.signals["state"].time_s) for episode in episodes] == [3, 2, 3]
        assert [len(episode.videos["top"]) for episode in episodes] == [3, 2, 3]
