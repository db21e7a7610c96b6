"""Files are plain, whole and checked: born under a temporary name, synced, renamed, never edited in place.

.NAME.PID.xxxxxxxx.tmp/   a folder while it is being written; removed on any error, swept after a kill
NAME/                     appears in one rename, complete, its manifest (the noun's JSON) written last
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from twinproof.nouns.errors import StoreError, TwinproofError
from twinproof.nouns.hashing import Json, content_hash, hash_file

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

SAFE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")


def sync_folder(folder: Path) -> None:
    """Makes the names inside a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_whole(path: Path, data: bytes) -> None:
    """Writes a file so that readers see the old one or the new one, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def json_bytes(value: Json) -> bytes:
    """The readable JSON text that stands in our files; NaN and infinity are refused."""
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def write_json(path: Path, value: Json) -> None:
    """Writes readable JSON whole; NaN and infinity are refused."""
    write_whole(path, json_bytes(value))


def read_json(path: Path, kind: str, error: type[TwinproofError]) -> dict[str, Json]:
    """The JSON object in a file whose `format` is the given kind; anything else is the given error."""
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise error(f"{path} does not exist. {_cure_for_missing(path)}") from None
    except (ValueError, OSError, RecursionError) as problem:
        raise error(f"{path} is not readable JSON ({problem}). Restore it from the source or make it again.") from None
    if not isinstance(value, dict) or value.get("format") != kind:
        found = value.get("format") if isinstance(value, dict) else type(value).__name__
        raise error(f"{path} says format {found!r}; this version reads {kind!r}. Make it again with this version.")
    return value


def write_sealed(path: Path, value: dict[str, Json]) -> None:
    """Writes JSON with a seal: a hash of all the rest, so that no byte of it changes unnoticed."""
    write_whole(path, sealed_bytes(value))


def sealed_bytes(value: dict[str, Json]) -> bytes:
    """The text that `write_sealed` writes."""
    return json_bytes({**value, "seal": content_hash(value)})


def read_sealed(path: Path, kind: str, error: type[TwinproofError]) -> dict[str, Json]:
    """What `write_sealed` wrote, byte for byte; anything else is the given error."""
    value = read_json(path, kind, error)
    rest = {name: item for name, item in value.items() if name != "seal"}
    try:
        whole = path.read_bytes() == json_bytes(value) and content_hash(rest) == value.get("seal")
    except ValueError:  # NaN, which json.loads lets through and we never write
        whole = False
    if not whole:
        raise error(f"{path} was changed since it was written. Restore it, or make {path.parent} again.")
    return rest


def _cure_for_missing(path: Path) -> str:
    if path.parent.is_dir():
        return f"{path.parent} was made by something else, or was never finished."
    return "Check the path."


@contextlib.contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A scratch folder that becomes `out` in one rename if the block ends well, and vanishes if it does not."""
    out = out.absolute()
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise StoreError(f"{out} exists and is not empty. Nothing is overwritten: name another folder, or remove it.")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        sweep(out)
        scratch = out.with_name(f".{out.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
        scratch.mkdir()
    except OSError as problem:
        raise StoreError(f"cannot write beside {out}: {problem.strerror}. Name a folder you may write to.") from None
    try:
        yield scratch
        sync_tree(scratch)
        if out.is_dir():
            out.rmdir()  # empty, checked above; a racing writer makes this fail, and then we stop
        scratch.rename(out)
        sync_folder(out.parent)
    except OSError as problem:
        remove_tree(scratch)
        if problem.errno in (errno.ENOSPC, errno.EDQUOT):
            free = shutil.disk_usage(out.parent).free / 1e6
            raise StoreError(
                f"the disk is full while writing {out} ({free:.0f} MB free). Nothing was kept: free space, run again."
            ) from None
        if problem.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise StoreError(f"{out} was made by another process meanwhile. Nothing was overwritten.") from None
        raise
    except BaseException:
        remove_tree(scratch)
        raise


def sync_tree(folder: Path) -> None:
    """Makes every file and name below a folder durable."""
    for path in sorted(folder.rglob("*")):
        if path.is_dir():
            sync_folder(path)
        else:
            with path.open("rb") as handle:
                os.fsync(handle.fileno())
    sync_folder(folder)


def sweep(out: Path) -> None:
    """Removes scratch folders for `out` whose writers are dead."""
    for stale in out.parent.glob(f".{out.name}.*.tmp"):
        pid = stale.name.removeprefix(f".{out.name}.").split(".")[0]
        if pid.isdigit() and not _alive(int(pid)):
            remove_tree(stale)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def remove_tree(folder: Path) -> None:
    """Removes a scratch folder, read-only files included."""
    shutil.rmtree(folder, ignore_errors=True)


def link_or_copy(source: Path, target: Path) -> None:
    """Puts the same bytes at `target`: a hard link where the file system allows, else a copy."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def file_hashes(folder: Path, leave_out: Collection[str] = ()) -> dict[str, str]:
    """Relative path -> hash of every file below a folder, sorted; a link stands for what it says, not for a file."""
    hashes = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name in leave_out:
            continue
        if path.is_symlink():
            hashes[name] = f"link to {path.readlink()}"
        elif path.is_file():
            hashes[name] = hash_file(path)
    return hashes


def check_files(folder: Path, hashes: Mapping[str, str], error: type[TwinproofError]) -> None:
    """Every named file is there, inside the folder, with its hash."""
    for name, expected in hashes.items():
        path = inside(folder, name, error)
        if not path.is_file():
            raise error(f"{path} is missing. Restore it, or make {folder} again.")
        if hash_file(path) != expected:
            raise error(f"{path} was changed since it was written. Restore it, or make {folder} again.")


def inside(root: Path, name: str, error: type[TwinproofError]) -> Path:
    """`root / name`, refused when it leaves the root by `..`, an absolute path or a link."""
    path = root / name
    anchor = root.resolve()
    if Path(name).is_absolute() or "\x00" in name or not path.resolve().is_relative_to(anchor):
        raise error(
            f"the path {name!r} leaves its folder {root}. Paths in a dataset must stay inside it; where it is a link, "
            "copy the dataset with cp -rL first."
        )
    return path
