"""Where a LeRobot dataset keeps what: info.json, the feature table, and the tables of episodes and tasks.

v2.1  one Parquet file and one mp4 for each episode; meta/episodes.jsonl, meta/tasks.jsonl
v3.0  many episodes in one file; meta/episodes/**.parquet says which rows and which seconds are whose
"""

from __future__ import annotations

import itertools
import json
import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twinproof.ingest.lerobot_table import column_names, read_small, reading, texts, whole_numbers
from twinproof.nouns.errors import RecordingError
from twinproof.nouns.files import inside
from twinproof.nouns.hashing import Json

VERSIONS = ("v2.1", "v3.0")
BOOKKEEPING = ("timestamp", "frame_index", "episode_index", "index", "task_index")
_FIELD = re.compile(r"\{(\w+)(?::0(\d)d)?\}")


@dataclass(frozen=True)
class Feature:
    """One row of the feature table. `columns` is empty where the dataset names none."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    columns: tuple[str, ...] = ()
    size: tuple[int, int] = (0, 0)  # width, height of a camera
    channels: int = 0
    depth: bool = False

    @property
    def is_camera(self) -> bool:
        """Whether the feature holds pictures."""
        return self.dtype in ("video", "image")


@dataclass(frozen=True)
class Span:
    """Where a camera's frames of one episode lie; `from_s` is None where the file holds this episode alone."""

    path: Path
    from_s: float | None


@dataclass(frozen=True)
class Entry:
    """One episode: its rows in a data file, and its spans in the video files."""

    index: int
    length: int
    data: Path
    row: int  # its first row in the data file
    videos: dict[str, Span]

    @property
    def name(self) -> str:
        """What people and label rules call it."""
        return f"episode_{self.index:06d}"


@dataclass(frozen=True)
class Layout:
    """A dataset's metadata, checked against itself and against the number of rows in its files."""

    root: Path
    version: str
    robot: str
    fps: float
    features: dict[str, Feature]
    entries: tuple[Entry, ...]
    tasks: dict[int, str]
    meta: tuple[Path, ...]  # the metadata files that were read
    stray: tuple[str, ...] = field(default=())  # files of the dataset that no episode refers to


def is_lerobot(root: Path) -> bool:
    """Whether a folder looks like a LeRobot dataset."""
    return (root / "meta" / "info.json").is_file()


def read_layout(root: Path) -> Layout:
    """The layout of a dataset; any disagreement inside it is an error."""
    path = inside(root, "meta/info.json", RecordingError)
    info = _json_object(path)
    version = info.get("codebase_version")
    if version not in VERSIONS:
        raise RecordingError(
            f"{path} says codebase_version {version!r}; v2.1 and v3.0 are read. Convert the dataset with the scripts "
            "that LeRobot ships, or check the file."
        )
    fps = info.get("fps")
    if isinstance(fps, bool) or not isinstance(fps, (int, float)) or not 0 < fps < 1e6:
        raise RecordingError(f"{path} says fps {fps!r}; a positive number is needed. Mend it.")
    features = _features(info, path)
    found, table = (_entries_v21 if version == "v2.1" else _entries_v30)(root, info, features)
    entries = tuple(sorted(found, key=lambda entry: entry.index))
    _check_entries(entries, info, path)
    tasks, tasks_path = _tasks(root, str(version))
    stray = _stray(root, info, entries)
    robot = info.get("robot_type")
    return Layout(
        root, str(version), robot if isinstance(robot, str) and robot else "robot", float(fps), features, entries,
        tasks, (path, *table, tasks_path), stray,
    )  # fmt: skip


def _json_object(path: Path) -> dict[str, Json]:
    with reading(path):
        value = json.loads(path.read_bytes())
    if not isinstance(value, dict):
        raise RecordingError(f"{path} holds {type(value).__name__}, not a JSON object. Restore it from the source.")
    return value


def _json_lines(path: Path) -> list[dict[str, Json]]:
    with reading(path):
        lines = [json.loads(line) for line in path.read_bytes().splitlines() if line.strip()]
    for number, line in enumerate(lines, 1):
        if not isinstance(line, dict):
            raise RecordingError(f"{path} line {number} is not a JSON object. Restore it from the source.")
    return lines


def _whole(table: dict[str, Json], key: str, path: Path, least: int = 0) -> int:
    value = table.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 1 << 53:
        raise RecordingError(f"{path}: {key} is {value!r}; a whole number from {least} on is needed. Mend it.")
    return value


def _features(info: dict[str, Json], path: Path) -> dict[str, Feature]:
    table = info.get("features")
    if not isinstance(table, dict):
        raise RecordingError(f"{path} has no table 'features'. Restore it from the source.")
    return {name: _feature(name, entry, path) for name, entry in table.items() if name not in BOOKKEEPING}


def _feature(name: str, entry: Json, path: Path) -> Feature:
    where = f"{path}: feature {name!r}"
    if not isinstance(entry, dict) or not isinstance(entry.get("dtype"), str):
        raise RecordingError(f"{where} has no dtype. Restore the file from the source.")
    raw = entry.get("shape")
    if not isinstance(raw, list) or not all(type(size) is int and 0 < size < 1 << 31 for size in raw):
        raise RecordingError(f"{where} has the shape {raw!r}; a list of positive whole numbers is needed. Mend it.")
    dtype, shape = entry["dtype"], tuple(raw)
    names = _flat_names(entry.get("names"), where)
    if dtype in ("video", "image"):
        height, width, channels = _picture_axes(shape, names, where)
        extra = entry.get("info") or entry.get("video_info") or {}
        depth = isinstance(extra, dict) and extra.get("video.is_depth_map") is True
        return Feature(name, dtype, shape, (), (width, height), channels, depth)
    if dtype == "string":
        return Feature(name, dtype, shape)
    width = math.prod(shape)
    if names and len(names) not in (width, len(shape)):  # one name for each number, or one for each axis
        raise RecordingError(
            f"{where} has {len(names)} names for {width} numbers ({', '.join(names[:8])}). Give one for each, or null."
        )
    columns = tuple(names) if len(names) == width else (name,) if width == 1 else ()
    return Feature(name, dtype, shape, columns)


def _flat_names(names: Json, where: str) -> list[str]:
    """`names` is null, a list, a list of lists, {"motors": [...]}, or {"waist": 0, "shoulder": 1}."""
    if names is None:
        return []
    if isinstance(names, str):
        return [names]
    if isinstance(names, list):
        return [text for item in names for text in _flat_names(item, where)]
    if isinstance(names, dict):
        if names and all(type(place) is int for place in names.values()):
            return sorted(names, key=lambda name: int(names[name]))
        return [text for item in names.values() for text in _flat_names(item, where)]
    raise RecordingError(f"{where} has names {names!r:.60}; a list of texts, a table of lists or null is needed.")


def _picture_axes(shape: tuple[int, ...], names: list[str], where: str) -> tuple[int, int, int]:
    """Height, width, channels: by the axes' names where there are any, else channels are the axis of 1, 3 or 4."""
    if len(shape) == 2:
        return shape[0], shape[1], 1
    if len(shape) == 3:
        axes = [name.lower()[:1] for name in names]  # height, width, channel or channels
        if sorted(axes) == ["c", "h", "w"]:
            return shape[axes.index("h")], shape[axes.index("w")], shape[axes.index("c")]
        if shape[2] in (1, 3, 4):
            return shape
        if shape[0] in (1, 3, 4):
            return shape[1], shape[2], shape[0]
    raise RecordingError(f"{where} has the shape {list(shape)}; a picture is height × width × channels. Mend it.")


def expand(root: Path, template: Json, values: dict[str, int | str], key: str) -> Path:
    """The path that a template of info.json gives, refused when it leaves the dataset."""
    if not isinstance(template, str) or set("{}") & set(_FIELD.sub("", template)):
        raise RecordingError(f"{root}/meta/info.json: {key} is {template!r}, which is no path template. Mend it.")

    def put(match: re.Match[str]) -> str:
        if match[1] not in values:
            raise RecordingError(
                f"{root}/meta/info.json: {key} uses {match[0]}; known here: {', '.join(values)}. Mend it."
            )
        value = values[match[1]]
        return f"{value:0{match[2]}d}" if match[2] and isinstance(value, int) else str(value)

    return inside(root, _FIELD.sub(put, template), RecordingError)


def _entries_v21(root: Path, info: dict[str, Json], features: dict[str, Feature]) -> tuple[list[Entry], list[Path]]:
    path = inside(root, "meta/episodes.jsonl", RecordingError)
    chunk = _whole(info, "chunks_size", root / "meta" / "info.json", 1)
    entries = []
    for line in _json_lines(path):
        index, length = _whole(line, "episode_index", path), _whole(line, "length", path)
        at: dict[str, int | str] = {"episode_index": index, "episode_chunk": index // chunk}
        data = expand(root, info.get("data_path"), at, "data_path")
        videos = {
            name: Span(expand(root, info.get("video_path"), {**at, "video_key": name}, "video_path"), None)
            for name, feature in features.items()
            if feature.dtype == "video"
        }
        entries.append(Entry(index, length, data, 0, videos))
    return entries, [path]


def _entries_v30(root: Path, info: dict[str, Json], features: dict[str, Feature]) -> tuple[list[Entry], list[Path]]:
    folder = inside(root, "meta/episodes", RecordingError)
    paths = [inside(root, str(p.relative_to(root)), RecordingError) for p in sorted(folder.rglob("*.parquet"))]
    if not paths:
        raise RecordingError(f"{folder} holds no table of episodes. Restore it from the source.")
    rows: list[tuple[int, dict[str, Any], Path]] = []
    for path in paths:
        rows += _episode_rows(path, [name for name, feature in features.items() if feature.dtype == "video"])
    used: dict[Path, int] = {}
    entries, cursor = [], 0
    for index, row, path in sorted(rows, key=lambda found: found[0]):
        low, high, length = row["dataset_from_index"], row["dataset_to_index"], row["length"]
        if low != cursor or high - low != length:
            raise RecordingError(
                f"{path}: episode {index} claims rows {low} to {high} and length {length}; after the episodes before "
                f"it, row {cursor} is next. Restore the table of episodes, or write the dataset again."
            )
        at = {"chunk_index": row["data/chunk_index"], "file_index": row["data/file_index"]}
        data = expand(root, info.get("data_path"), at, "data_path")
        videos = {}
        for name, (chunk, file, from_s) in row["videos"].items():
            spot: dict[str, int | str] = {"video_key": name, "chunk_index": chunk, "file_index": file}
            videos[name] = Span(expand(root, info.get("video_path"), spot, "video_path"), from_s)
        entries.append(Entry(index, length, data, used.get(data, 0), videos))
        used[data] = used.get(data, 0) + length
        cursor = high
    _check_overlap(entries, float(info["fps"]))
    return entries, paths


def _episode_rows(path: Path, cameras: list[str]) -> list[tuple[int, dict[str, Any], Path]]:
    fixed = ["length", "data/chunk_index", "data/file_index", "dataset_from_index", "dataset_to_index"]
    spots = {
        name: [f"videos/{name}/{key}" for key in ("chunk_index", "file_index", "from_timestamp")] for name in cameras
    }
    wanted = ["episode_index", *fixed, *(column for columns in spots.values() for column in columns)]
    table = read_small(path, wanted)
    numbers = {name: whole_numbers(table, name, path).tolist() for name in ("episode_index", *fixed)}
    places = {
        name: list(zip(*(_place(table, column, path) for column in columns), strict=True))
        for name, columns in spots.items()
    }
    found = []
    for k, index in enumerate(numbers["episode_index"]):
        row: dict[str, Any] = {name: numbers[name][k] for name in fixed}
        row["videos"] = {name: places[name][k] for name in cameras}
        found.append((index, row, path))
    return found


def _place(table: Any, column: str, path: Path) -> list[Any]:
    if not column.endswith("from_timestamp"):
        return list(whole_numbers(table, column, path).tolist())
    with reading(path):
        values = table[column].to_pylist()
    if not all(isinstance(value, (int, float)) and 0 <= value < 1e9 for value in values):
        raise RecordingError(f"{path}: {column} must hold seconds from 0 on. Restore the table of episodes.")
    return [float(value) for value in values]


def _check_overlap(entries: list[Entry], fps: float) -> None:
    """No two episodes may claim the same seconds of a video: a holdout's pictures would stand in a neighbour."""
    spans: dict[Path, list[tuple[float, Entry]]] = {}
    for entry in entries:
        for span in entry.videos.values():
            spans.setdefault(span.path, []).append((span.from_s or 0.0, entry))
    for path, found in spans.items():
        found.sort(key=lambda pair: pair[0])
        for (low, first), (start, second) in itertools.pairwise(found):
            if start < low + (first.length - 0.5) / fps:
                raise RecordingError(
                    f"{path}: episode {second.index} starts at {start:.4f} s, inside episode {first.index} "
                    f"({low:.4f} s and {first.length} frames). Restore the table of episodes."
                )


def _check_entries(entries: tuple[Entry, ...], info: dict[str, Json], path: Path) -> None:
    for place, entry in enumerate(entries):
        if entry.index != place:
            fault = f"episode {entry.index} twice" if entry.index < place else f"no episode {place}"
            raise RecordingError(
                f"{path.parent}: the table of episodes has {fault}. Episodes are numbered 0, 1, 2, …: restore it."
            )
        if entry.length < 1:
            raise RecordingError(
                f"{path.parent}: {entry.name} is empty (length {entry.length}). Remove it from the source."
            )
    frames = sum(entry.length for entry in entries)
    for key, found in (("total_episodes", len(entries)), ("total_frames", frames)):
        stated = _whole(info, key, path)
        if stated != found:
            raise RecordingError(
                f"{path} says {key} {stated}, the table of episodes has {found}. The recorder was stopped while "
                f"writing: restore the missing episodes, or remove what is unfinished and state {key} {found}."
            )
    if not entries:
        raise RecordingError(f"{path.parent}: the table of episodes is empty. Record an episode first.")


def _tasks(root: Path, version: str) -> tuple[dict[int, str], Path]:
    if version == "v2.1":
        path = inside(root, "meta/tasks.jsonl", RecordingError)
        tasks = {_whole(line, "task_index", path): line.get("task") for line in _json_lines(path)}
    else:
        path = inside(root, "meta/tasks.parquet", RecordingError)
        name = next((name for name in column_names(path) if name != "task_index"), "task")
        table = read_small(path, ["task_index", name])  # the text is a pandas index of any name
        numbers = whole_numbers(table, "task_index", path).tolist()
        tasks = dict(zip(numbers, texts(table, name, path), strict=True))
    for index, task in tasks.items():
        if not isinstance(task, str):
            raise RecordingError(f"{path}: task {index} has no text. Restore the file from the source.")
    return {index: str(task) for index, task in tasks.items()}, path


def _stray(root: Path, info: dict[str, Json], entries: tuple[Entry, ...]) -> tuple[str, ...]:
    """A data file that no episode refers to is an error; such a video is listed as left out."""
    data = {entry.data.resolve() for entry in entries}
    videos = {span.path.resolve() for entry in entries for span in entry.videos.values()}
    for path in _below(root, info.get("data_path"), ".parquet"):
        if path.resolve() not in data:
            raise RecordingError(
                f"{path} belongs to no episode; the table of episodes has {len(entries)}. The recorder was stopped "
                "while writing: restore the table of episodes, or remove the file."
            )
    loose = [path for path in _below(root, info.get("video_path"), ".mp4") if path.resolve() not in videos]
    left = [f"{path.relative_to(root).as_posix()}: no episode refers to it" for path in loose]
    if (root / "meta" / "subtasks.parquet").exists():
        left.append("meta/subtasks.parquet: texts of subtasks are not read")
    return tuple(left)


def _below(root: Path, template: Json, suffix: str) -> list[Path]:
    top = template.split("{")[0].rpartition("/")[0] if isinstance(template, str) else ""
    return sorted((root / top).rglob(f"*{suffix}")) if top else []
