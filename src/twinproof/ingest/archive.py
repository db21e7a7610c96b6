"""Archives are unpacked with suspicion: nothing leaves the folder, no links, no bombs."""

from __future__ import annotations

import stat
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from twinproof.nouns.errors import RecordingError

ENDINGS = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".tar.zst")
MAX_MEMBERS = 200_000
MAX_RATIO = 200  # unpacked bytes for a packed one; video and parquet do not compress
FREE_BYTES = 100 << 20  # below this size a high ratio does no harm


def is_archive(path: Path) -> bool:
    """Whether a file is called like an archive that is unpacked before reading."""
    return path.is_file() and path.name.lower().endswith(ENDINGS)


def unpack(path: Path, into: Path) -> Path:
    """The folder that the archive held, unpacked below `into`."""
    budget = max(FREE_BYTES, MAX_RATIO * path.stat().st_size)
    count = 0
    try:
        for name, size, stream in _members(path):
            count += 1
            budget -= size
            if count > MAX_MEMBERS or budget < 0:
                raise RecordingError(
                    f"{path} unpacks to more than {MAX_MEMBERS} files or {MAX_RATIO} times its size. "
                    "It looks like a bomb: unpack it yourself if you trust it, and point to the folder."
                )
            target = into / _safe(name, path)
            if target.exists():
                raise RecordingError(f"{path} holds {name!r} twice. It was not unpacked.")
            target.parent.mkdir(parents=True, exist_ok=True)
            _copy(stream, target, size, path)
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, ValueError, NotImplementedError, RuntimeError) as problem:
        raise RecordingError(f"{path} is not a whole archive ({problem}). Fetch it again.") from None
    except OSError as problem:
        if problem.errno is not None and not isinstance(problem, (FileExistsError, IsADirectoryError)):
            raise
        raise RecordingError(f"{path} is not a whole archive ({problem}). Fetch it again.") from None
    if not count:
        raise RecordingError(f"{path} holds no files. Fetch it again.")
    inner = list(into.iterdir())
    return inner[0] if len(inner) == 1 and inner[0].is_dir() else into


def _safe(name: str, path: Path) -> PurePosixPath:
    pure = PurePosixPath(name)
    if pure.is_absolute() or ".." in pure.parts or "\\" in name or "\x00" in name or not pure.parts:
        raise RecordingError(f"{path} holds {name!r}, which leaves the archive's folder. It was not unpacked.")
    return pure


def _members(path: Path) -> Iterator[tuple[str, int, IO[bytes]]]:
    if path.name.lower().endswith(".zip"):
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                mode = entry.external_attr >> 16
                if stat.S_ISLNK(mode) or (
                    mode and not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_IFMT(mode) == 0)
                ):
                    raise RecordingError(f"{path}: {entry.filename!r} is a link or a device. It was not unpacked.")
                _safe(entry.filename, path)
                if not entry.is_dir():
                    with archive.open(entry) as stream:
                        yield entry.filename, entry.file_size, stream
        return
    with _tar(path) as archive:
        for member in archive:
            _safe(member.name, path) if member.name not in (".", "./") else None
            if not (member.isfile() or member.isdir()):
                raise RecordingError(f"{path}: {member.name!r} is a link or a device. It was not unpacked.")
            stream_or_none = archive.extractfile(member) if member.isfile() else None
            if stream_or_none is not None:
                yield member.name, member.size, stream_or_none


@contextmanager
def _tar(path: Path) -> Iterator[tarfile.TarFile]:
    if not path.name.lower().endswith(".zst"):
        with tarfile.open(path, "r:*") as archive:
            yield archive
        return
    import pyarrow as pa

    with pa.input_stream(str(path), compression="zstd") as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
        yield archive


def _copy(stream: IO[bytes], target: Path, size: int, path: Path) -> None:
    """Writes exactly the stated number of bytes: a member that unpacks to more was lying."""
    left = size
    with target.open("xb") as out:
        while chunk := stream.read(1 << 20):
            left -= len(chunk)
            if left < 0:
                raise RecordingError(f"{path}: {target.name} unpacks to more than it states. It was not unpacked.")
            out.write(chunk)
    if left:
        raise RecordingError(f"{path}: {target.name} is cut off. Fetch the archive again.")
