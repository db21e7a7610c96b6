"""LeRobot datasets written by hand with pyarrow and PyAV, so that our reader is not tested against our writer."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from twinproof.ingest.assemble import Tolerances, assemble
from twinproof.ingest.lerobot_read import LeRobotReader
from twinproof.ingest.raw import RawEpisode
from twinproof.nouns.episode import Episode
from twinproof.nouns.priority import kept_priority
from twinproof.nouns.rig import Camera, Rig, SignalRule

JOINTS = ["waist", "shoulder", "gripper"]
CAMERA = "observation.images.top"
WIDTH, HEIGHT = 64, 48


@dataclass
class Made:
    """What to make; every field can be changed before writing."""

    lengths: tuple[int, ...] = (6, 4, 5)
    fps: int = 10
    version: str = "v3.0"
    codec: str | None = None  # an encoder adds the camera
    chw: bool = False
    names: object = field(default_factory=lambda: list(JOINTS))
    tasks: tuple[str, ...] = ("open the drawer", "close it")
    info: dict[str, object] = field(default_factory=dict)  # overrides of info.json
    extra: dict[str, tuple[dict[str, object], list[object]]] = field(default_factory=dict)  # feature, all rows
    files: int = 1  # v3.0: data and video files that the episodes are spread over
    stamps: np.ndarray | None = None  # of all rows, where not frame / fps
    row_group: int = 1 << 20


def states(total: int) -> np.ndarray:
    """The planted joint positions of all rows."""
    rows = np.arange(total, dtype=np.float32)[:, None]
    return (np.sin(0.3 * rows + np.arange(3)) * [1.0, 0.5, 0.2]).astype(np.float32)


def picture(row: int) -> np.ndarray:
    """The planted picture of a row: a flat grey level that names it, on a gradient."""
    image = np.zeros((HEIGHT, WIDTH, 3), dtype=np.uint8)
    image[:, : WIDTH // 2] = (row * 12 + 20) % 250
    image[:, WIDTH // 2 :, 0] = np.linspace(0, 255, WIDTH // 2).astype(np.uint8)
    return image


def jpeg(image: np.ndarray) -> bytes:
    """A picture as the bytes of a JPEG file."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="image2pipe") as output:
        stream = output.add_stream("mjpeg", rate=1, options={"qmin": "1", "qmax": "1"})
        stream.width, stream.height, stream.pix_fmt = image.shape[1], image.shape[0], "yuvj420p"
        output.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24").reformat(format="yuvj420p")))
        output.mux(stream.encode())
    return buffer.getvalue()


def png(image: np.ndarray) -> bytes:
    """A picture as the bytes of a PNG file."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="image2pipe") as output:
        stream = output.add_stream("png", rate=1)
        gray = image.ndim == 2
        kind = ("gray16be" if image.dtype == np.uint16 else "gray") if gray else "rgb24"
        given = ("gray16le" if image.dtype == np.uint16 else "gray") if gray else "rgb24"
        stream.width, stream.height, stream.pix_fmt = image.shape[1], image.shape[0], kind
        for packet in stream.encode(av.VideoFrame.from_ndarray(image, format=given).reformat(format=kind)):
            output.mux(packet)
        for packet in stream.encode():
            output.mux(packet)
    return buffer.getvalue()


def video(path: Path, rows: range, fps: int, codec: str) -> None:
    """Pictures of some rows as one video file, a key frame at every second frame."""
    path.parent.mkdir(parents=True, exist_ok=True)
    options = {"g": "2", "crf": "20"}
    options |= {"libx264": {"bf": "0"}, "libx265": {"x265-params": "log-level=none:bframes=0"}}.get(
        codec, {"preset": "12"}
    )
    with kept_priority(), av.open(str(path), "w") as output:
        stream = output.add_stream(codec, rate=fps, options=options)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.time_base = Fraction(1, fps)
        for k, row in enumerate(rows):
            frame = av.VideoFrame.from_ndarray(picture(row), format="rgb24")
            frame.pts, frame.time_base = k, Fraction(1, fps)
            output.mux(stream.encode(frame))
        output.mux(stream.encode())


def make(root: Path, made: Made) -> Path:
    """Writes the dataset."""
    (root / "meta").mkdir(parents=True)
    total = sum(made.lengths)
    features: dict[str, dict[str, object]] = {
        "observation.state": {"dtype": "float32", "shape": [3], "names": made.names},
        "action": {"dtype": "float32", "shape": [3], "names": made.names},
        "timestamp": {"dtype": "float32", "shape": [1], "names": None},
        **{
            key: {"dtype": "int64", "shape": [1], "names": None}
            for key in ("frame_index", "episode_index", "index", "task_index")
        },
    }
    if made.codec:
        shape, axes = [HEIGHT, WIDTH, 3], ["height", "width", "channels"]
        if made.chw:
            shape, axes = [3, HEIGHT, WIDTH], ["channels", "height", "width"]
        features[CAMERA] = {"dtype": "video", "shape": shape, "names": axes}
    features.update({name: feature for name, (feature, _) in made.extra.items()})
    info = {
        "codebase_version": made.version, "robot_type": "hand", "total_episodes": len(made.lengths),
        "total_frames": total, "total_tasks": len(made.tasks), "chunks_size": 1000, "fps": made.fps,
        "splits": {"train": f"0:{len(made.lengths)}"}, "features": features,
    }  # fmt: skip
    if made.version == "v2.1":
        info["data_path"] = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"
        info["video_path"] = "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4"
    else:
        info["data_path"] = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
        info["video_path"] = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
    (root / "meta" / "info.json").write_text(json.dumps(info | made.info))
    rows = _rows(made)
    (_write_v21 if made.version == "v2.1" else _write_v30)(root, made, rows)
    return root


def _rows(made: Made) -> pa.Table:
    frame = np.concatenate([np.arange(n) for n in made.lengths])
    owner = np.repeat(np.arange(len(made.lengths)), made.lengths)
    stamps = (frame / made.fps if made.stamps is None else made.stamps).astype(np.float32)
    state = states(len(frame))
    columns = {
        "observation.state": pa.FixedSizeListArray.from_arrays(pa.array(state.ravel()), 3),
        "action": pa.array((state * 2).tolist(), pa.list_(pa.float32())),
        "timestamp": stamps, "frame_index": frame, "episode_index": owner,
        "index": np.arange(len(frame)), "task_index": owner % len(made.tasks),
    }  # fmt: skip
    columns.update({name: pa.array(values) for name, (_, values) in made.extra.items()})
    return pa.table(columns)


def _write_v21(root: Path, made: Made, rows: pa.Table) -> None:
    episodes = [
        {"episode_index": k, "tasks": [made.tasks[k % len(made.tasks)]], "length": n}
        for k, n in enumerate(made.lengths)
    ]
    tasks = [{"task_index": k, "task": task} for k, task in enumerate(made.tasks)]
    (root / "meta" / "episodes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in episodes))
    (root / "meta" / "tasks.jsonl").write_text("".join(json.dumps(line) + "\n" for line in tasks))
    (root / "data" / "chunk-000").mkdir(parents=True)
    low = 0
    for k, n in enumerate(made.lengths):
        path = root / "data" / "chunk-000" / f"episode_{k:06d}.parquet"
        pq.write_table(rows.slice(low, n), path, row_group_size=made.row_group)
        if made.codec:
            target = root / "videos" / "chunk-000" / CAMERA / f"episode_{k:06d}.mp4"
            video(target, range(low, low + n), made.fps, made.codec)
        low += n


def _write_v30(root: Path, made: Made, rows: pa.Table) -> None:
    groups = np.array_split(np.arange(len(made.lengths)), made.files)
    starts = np.concatenate([[0], np.cumsum(made.lengths)])
    table = []
    (root / "data" / "chunk-000").mkdir(parents=True)
    for file, group in enumerate(groups):
        low, high = int(starts[group[0]]), int(starts[group[-1] + 1])
        path = root / "data" / "chunk-000" / f"file-{file:03d}.parquet"
        pq.write_table(rows.slice(low, high - low), path, row_group_size=made.row_group)
        if made.codec:
            target = root / "videos" / CAMERA / "chunk-000" / f"file-{file:03d}.mp4"
            video(target, range(low, high), made.fps, made.codec)
        for k in group.tolist():
            n = made.lengths[k]
            entry = {
                "episode_index": k, "tasks": [made.tasks[k % len(made.tasks)]], "length": n, "data/chunk_index": 0,
                "data/file_index": file, "dataset_from_index": int(starts[k]), "dataset_to_index": int(starts[k]) + n,
            }  # fmt: skip
            if made.codec:
                entry |= {
                    f"videos/{CAMERA}/chunk_index": 0, f"videos/{CAMERA}/file_index": file,
                    f"videos/{CAMERA}/from_timestamp": (starts[k] - low) / made.fps,
                    f"videos/{CAMERA}/to_timestamp": (starts[k] - low + n) / made.fps,
                }  # fmt: skip
            table.append(entry)
    write_episodes(root, table)
    tasks = {"task_index": list(range(len(made.tasks))), "__index_level_0__": list(made.tasks)}
    pq.write_table(pa.table(tasks), root / "meta" / "tasks.parquet")


def episodes_path(root: Path) -> Path:
    """The table of episodes of a v3.0 dataset."""
    return root / "meta" / "episodes" / "chunk-000" / "file-000.parquet"


def write_episodes(root: Path, table: list[dict[str, object]]) -> None:
    """Writes, or overwrites, the table of episodes of a v3.0 dataset."""
    episodes_path(root).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(table), episodes_path(root))


def edit_episodes(root: Path, index: int, **changes: object) -> None:
    """Changes one line of the table of episodes; `__` stands for `/`."""
    table = pq.read_table(episodes_path(root)).to_pylist()
    table[index].update({key.replace("__", "/"): value for key, value in changes.items()})
    write_episodes(root, table)


def edit_info(root: Path, **changes: object) -> None:
    """Changes keys of info.json."""
    path = root / "meta" / "info.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def edit_feature(root: Path, feature: str, **changes: object) -> None:
    """Changes keys of one feature in info.json."""
    features = json.loads((root / "meta" / "info.json").read_text())["features"]
    features[feature].update(changes)
    edit_info(root, features=features)


def edit_rows(root: Path, name: str, column: str, values: list[object]) -> None:
    """Replaces one column of a data file."""
    path = root / "data" / "chunk-000" / name
    table = pq.read_table(path)
    pq.write_table(table.set_column(table.column_names.index(column), column, pa.array(values)), path)


def images(pictures: list[np.ndarray]) -> list[dict[str, object]]:
    """Rows of an image feature."""
    return [{"bytes": png(picture), "path": f"frame-{k:06d}.png"} for k, picture in enumerate(pictures)]


BARE = Rig("hand")


def rig(*ignore: str, camera: bool = True) -> Rig:
    """The rig of the datasets made here."""
    signals = {
        "state": SignalRule("observation.state", "joint_position", "rad"),
        "command": SignalRule("action", "joint_command", "rad"),
    }
    cameras = {"top": Camera(CAMERA, intrinsics_unknown=True)} if camera else {}
    return Rig("hand", signals=signals, cameras=cameras, ignore=ignore)


def raw(root: Path, how: Rig = BARE) -> list[RawEpisode]:
    """Every episode as the reader gives it."""
    return list(LeRobotReader(root).episodes(how))


def assembled(root: Path, how: Rig, workspace: Path) -> list[Episode]:
    """Every episode under a rig, pictures written."""
    return [assemble(episode, how, workspace, Tolerances()) for episode in LeRobotReader(root).episodes(how)]
