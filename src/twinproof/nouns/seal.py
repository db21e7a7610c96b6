"""The seal: a folder packed into one encrypted file, so that no search and no reader meets its content by accident.

sealed.bin   magic, then chunks of a tar stream, each ChaCha20-Poly1305 under (chunk number, last or not)
key          32 bytes, one for each container; mode 0400

The key lies beside the container: it keeps out mistakes and makes an opening a deliberate act, which is recorded. It
does not keep out someone who owns the machine and wants to cheat. Memory stays at a few chunks, whatever the size.
"""

from __future__ import annotations

import errno
import os
import secrets
import tarfile
from pathlib import Path
from typing import IO, TYPE_CHECKING

from twinproof.nouns.errors import SplitError
from twinproof.nouns.files import inside

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

MAGIC = b"twinproof/seal/1\n"
CHUNK = 1 << 20
TAG = 16  # bytes that Poly1305 adds to a chunk


def seal(folder: Path, container: Path, key: Path) -> None:
    """Packs every file below a folder into a container that only the key opens. Both are new files."""
    secret = secrets.token_bytes(32)
    with container.open("xb") as handle:
        handle.write(MAGIC)
        writer = _Sealer(handle, secret)
        with tarfile.open(fileobj=writer, mode="w|", bufsize=CHUNK, format=tarfile.PAX_FORMAT) as archive:  # type: ignore[call-overload]
            for path in sorted(folder.rglob("*")):
                if path.is_file():
                    entry = tarfile.TarInfo(path.relative_to(folder).as_posix())
                    entry.size, entry.mode = path.stat().st_size, 0o600
                    with path.open("rb") as content:
                        archive.addfile(entry, content)
        writer.finish()
        handle.flush()
        os.fsync(handle.fileno())
    container.chmod(0o444)  # a stranger may check its hash; the key is the owner's
    with os.fdopen(os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400), "wb") as handle:
        handle.write(secret)
        handle.flush()
        os.fsync(handle.fileno())


def unseal(container: Path, key: Path, folder: Path) -> None:
    """Unpacks a container into an existing folder; SplitError where the container or the key is not the one written."""
    secret = key.read_bytes()
    if len(secret) != 32:
        raise SplitError(f"{key} has {len(secret)} bytes; a key has 32. Restore it, or make the split again.")
    with container.open("rb") as handle:
        if handle.read(len(MAGIC)) != MAGIC:
            raise SplitError(f"{container} is no sealed holdout of this version. Restore it, or make the split again.")
        reader = _Unsealer(handle, secret, container)
        try:
            with tarfile.open(fileobj=reader, mode="r|", bufsize=CHUNK) as archive:  # type: ignore[call-overload]
                for entry in archive:
                    inside(folder, entry.name, SplitError)
                    archive.extract(entry, folder, filter="data")
            reader.finish()
        except (tarfile.TarError, EOFError) as problem:
            raise SplitError(f"{container} does not unpack ({problem}). Restore it, or make the split again.") from None
        except OSError as problem:
            if problem.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise SplitError(
                f"the disk is full while the holdout is unpacked into {folder}. Point TMPDIR at a disk with "
                f"{container.stat().st_size / 1e6:.0f} MB free and run again: the run counts as resumed."
            ) from None


def _nonce(chunk: int, last: bool) -> bytes:
    return chunk.to_bytes(11, "big") + (b"\x01" if last else b"\x00")  # the key serves one container, once


def _cipher(secret: bytes) -> ChaCha20Poly1305:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    return ChaCha20Poly1305(secret)


class _Sealer:
    """What tarfile writes to: full chunks are encrypted as they fill; `finish` writes the last, marked as such."""

    def __init__(self, handle: IO[bytes], secret: bytes) -> None:
        self._handle, self._cipher, self._waiting, self._chunk = handle, _cipher(secret), bytearray(), 0

    def write(self, data: bytes) -> int:
        self._waiting += data
        while len(self._waiting) > CHUNK:
            self._emit(bytes(self._waiting[:CHUNK]), last=False)
            del self._waiting[:CHUNK]
        return len(data)

    def finish(self) -> None:
        self._emit(bytes(self._waiting), last=True)

    def _emit(self, plain: bytes, last: bool) -> None:
        self._handle.write(self._cipher.encrypt(_nonce(self._chunk, last), plain, MAGIC))
        self._chunk += 1


class _Unsealer:
    """What tarfile reads from: a chunk is handed on only after its tag was checked."""

    def __init__(self, handle: IO[bytes], secret: bytes, path: Path) -> None:
        self._handle, self._cipher, self._path = handle, _cipher(secret), path
        self._ahead, self._plain, self._chunk, self._done = handle.read(CHUNK + TAG), bytearray(), 0, False

    def read(self, size: int) -> bytes:
        while len(self._plain) < size and not self._done:
            self._decrypt()
        given = bytes(self._plain[:size])
        del self._plain[:size]
        return given

    def finish(self) -> None:
        """Reads to the end, so that a container cut after the last file is noticed too."""
        while not self._done:
            self._decrypt()

    def _decrypt(self) -> None:
        from cryptography.exceptions import InvalidTag

        block, self._ahead = self._ahead, self._handle.read(CHUNK + TAG)
        self._done = not self._ahead
        try:
            self._plain += self._cipher.decrypt(_nonce(self._chunk, self._done), block, MAGIC)
        except InvalidTag:
            raise SplitError(
                f"{self._path}: chunk {self._chunk} of the sealed holdout was changed, cut, or sealed with another "
                "key. Restore the holdout folder from a copy, or make the split again."
            ) from None
        self._chunk += 1
