"""Which bags a source holds, and which files belong to each."""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from twinproof.ingest.bag_storage import (
    LARGEST,
    Fetch,
    McapStorage,
    OpenTopic,
    Place,
    Sink,
    SqliteStorage,
    Storage,
    Topic,
    check_file,
)
from twinproof.nouns.errors import RecordingError
from twinproof.nouns.files import inside
from twinproof.nouns.hashing import Json

SUFFIXES = {".mcap": "mcap", ".db3": "sqlite3"}


@dataclass(frozen=True)
class Bag:
    """The files of one bag. `counted` is the number of messages that metadata.yaml states."""

    name: str
    path: Path
    files: tuple[Path, ...]
    storage: str  # mcap or sqlite3
    compression: str = ""  # "file" or "message": zstd around each file or message
    counted: int | None = None
    version: int | None = None  # of metadata.yaml

    def scan(self, open_topic: OpenTopic) -> tuple[int, dict[str, int]]:
        """Hands every message to its topic's sink; gives their number, and that of each file that ends too early."""
        total, cut = 0, {}
        inflating = self.compression == "message"

        def open_inflating(topic: Topic) -> Sink | None:
            sink = open_topic(topic)
            return _Inflating(sink) if inflating and sink is not None else sink

        for number, storage in enumerate(self._storages):
            count, ends_early = storage.scan(number, open_inflating)
            total += count
            if ends_early:
                cut[self.files[number].name] = count
        return total, cut

    @contextlib.contextmanager
    def fetcher(self) -> Iterator[Fetch]:
        """Reads single messages again; places must come file by file or nearly so."""
        with contextlib.ExitStack() as stack:
            opened: dict[int, Fetch] = {}

            def fetch(place: Place) -> bytes:
                if place[0] not in opened:
                    opened[place[0]] = stack.enter_context(self._storages[place[0]].fetcher())
                data = opened[place[0]](place)
                return inflated(data) if self.compression == "message" else data

            yield fetch

    @cached_property
    def _storages(self) -> tuple[Storage, ...]:
        files = self.files
        if self.compression == "file":
            folder = Path(tempfile.mkdtemp(prefix="twinproof-bag-"))
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            files = tuple(_inflate_file(path, folder / f"{i}_{path.stem}") for i, path in enumerate(files))
        return tuple(McapStorage(path) if self.storage == "mcap" else SqliteStorage(path) for path in files)


@dataclass(frozen=True)
class _Inflating:
    """A sink for messages that were compressed one by one."""

    sink: Sink

    def add(self, log_ns: int, data: bytes, place: Place) -> None:
        self.sink.add(log_ns, inflated(data), place)


def inflated(data: bytes) -> bytes:
    """One zstd frame, unpacked."""
    import zstandard

    if zstandard.frame_content_size(data) > LARGEST:
        raise RecordingError(f"a message claims {zstandard.frame_content_size(data)} bytes. The bag is damaged.")
    return zstandard.ZstdDecompressor().decompressobj().decompress(data)


def _inflate_file(path: Path, target: Path) -> Path:
    import zstandard

    check_file(path)
    with path.open("rb") as source, target.open("wb") as sink:
        zstandard.ZstdDecompressor().copy_stream(source, sink)
    return target


def is_bag(path: Path) -> bool:
    """Whether a path is a bag, a bare storage file, or a folder of such."""
    if path.is_file():
        return path.suffix in SUFFIXES
    if not path.is_dir():
        return False
    return _is_bag_folder(path) or any(_is_bag_folder(child) for child in path.iterdir() if child.is_dir())


def _is_bag_folder(folder: Path) -> bool:
    if (folder / "metadata.yaml").is_file():
        return "rosbag2_bagfile_information" in (folder / "metadata.yaml").read_text(errors="replace") or any(
            _bare(folder)
        )
    return any(_bare(folder))


def _bare(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES and path.is_file())


def find_bags(source: Path) -> tuple[list[Bag], dict[str, str]]:
    """The bags of a source by name, and what lies among them and is none."""
    if source.is_file():
        return [_bare_bag(source.stem, source, (source,))], {}
    if (source / "metadata.yaml").is_file():
        return [_bag_of_metadata(source)], {}
    folders = [child for child in source.iterdir() if child.is_dir() and _is_bag_folder(child)]
    bags = [bag for folder in folders for bag in find_bags(folder)[0]]
    bags += _bags_without_metadata(source, alone=not folders)
    strangers = {}
    for child in sorted(source.iterdir()):
        if child in folders:
            continue
        if child.is_dir() and not child.name.startswith("."):
            strangers[child.name] = "a folder without a bag"
        elif child.is_file() and bags and not _belongs(child):
            strangers[child.name] = "not a bag"
    if not bags:
        raise RecordingError(f"{source} holds no ROS 2 bag: no metadata.yaml, .mcap or .db3. Check the path.")
    return sorted(bags, key=lambda bag: bag.name), strangers


def _belongs(path: Path) -> bool:
    return path.suffix in SUFFIXES or path.name.startswith(".") or path.name.endswith(("-wal", "-shm", "-journal"))


def _bags_without_metadata(folder: Path, alone: bool) -> list[Bag]:
    """rosbag2 calls the parts of one bag FOLDER_0, FOLDER_1, …; files of other names are a bag each."""
    files = _bare(folder)
    part = re.compile(re.escape(folder.name) + r"_(\d+)")
    numbers = [part.fullmatch(path.stem) for path in files]
    if alone and files and (len(files) == 1 or (all(numbers) and len({path.suffix for path in files}) == 1)):
        ordered = sorted(files, key=lambda path: (len(path.stem), path.stem))
        return [_bare_bag(folder.name, folder, tuple(ordered))]
    return [_bare_bag(path.stem, path, (path,)) for path in files]


def _bare_bag(name: str, path: Path, files: tuple[Path, ...]) -> Bag:
    if files[0].suffix not in SUFFIXES:
        raise RecordingError(f"{path} is neither .mcap nor .db3. Give the bag's folder or its storage file.")
    return Bag(name, path, files, SUFFIXES[files[0].suffix])


def _bag_of_metadata(folder: Path) -> Bag:
    path = folder / "metadata.yaml"
    head = _read_metadata(path)
    storage, version = head.get("storage_identifier"), head.get("version")
    if storage not in SUFFIXES.values():
        raise RecordingError(f"{path}: storage_identifier is {storage!r}. Storages that are read: mcap, sqlite3.")
    names, counted = head.get("relative_file_paths"), head.get("message_count")
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise RecordingError(
            f"{path}: relative_file_paths names no files. Mend it with: ros2 bag reindex {folder.name}"
        )
    compression = str(head.get("compression_mode") or "").lower()
    compression = "" if compression in ("none", "storage") else compression
    if compression not in ("", "file", "message") or (compression and head.get("compression_format") != "zstd"):
        raise RecordingError(
            f"{path}: compression {head.get('compression_format')!r} in mode {compression!r} is not read. "
            "Use zstd in mode file or message, or convert the bag with ros2 bag convert."
        )
    files = tuple(_listed(folder, name) for name in names)
    return Bag(
        folder.name, folder, files, str(storage), compression,
        counted if isinstance(counted, int) else None, version if isinstance(version, int) else None,
    )  # fmt: skip


def _listed(folder: Path, name: str) -> Path:
    path = inside(folder, name, RecordingError)
    if not path.is_file():
        path = folder / PurePosixPath(name).name  # until version 4, the bag's own folder came first
    if not path.is_file():
        raise RecordingError(
            f"{folder / 'metadata.yaml'} lists {name!r}, which is missing. Restore it, or rebuild the list with: "
            f"ros2 bag reindex {folder.name}"
        )
    return path


def _read_metadata(path: Path) -> dict[str, Json]:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        value = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
        head = value["rosbag2_bagfile_information"]
        if not isinstance(head, dict):
            raise TypeError("no table")
    except (YAMLError, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise RecordingError(
            f"{path} is not a bag's metadata ({str(problem)[:120]!r}). Restore it, or rebuild it with: "
            f"ros2 bag reindex {path.parent.name}"
        ) from None
    return head
