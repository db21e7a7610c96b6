"""SPZ version 3 in: a gzip whose size is known from its header, and unpacked no further than that."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np

from twinproof.nouns.errors import SplatError
from twinproof.nouns.splat_files import SPZ_MOST
from twinproof.nouns.splats import Splats

HEAD = 16
COEFFICIENTS = {0: 0, 1: 3, 2: 8, 3: 15}  # beyond the constant one


def read_spz(path: Path) -> Splats:
    """The splats in an SPZ file of version 3, in the file's own axes."""
    unpack = zlib.decompressobj(wbits=31)
    data = path.read_bytes()
    head = _more(path, unpack, data, HEAD)
    magic, version, count, degree, bits, _, _ = struct.unpack("<4sIIBBBB", head) if len(head) == HEAD else (b"",) * 7
    if magic != b"NGSP" or version != 3:
        raise SplatError(f"{path}: it is no SPZ of version 3 (found {magic!r}, version {version}). Write it as that.")
    if count > SPZ_MOST or degree not in COEFFICIENTS or bits > 24:
        raise SplatError(
            f"{path}: its header says {count} splats of degree {degree} with {bits} bits; at most {SPZ_MOST} of degree "
            "0 to 3 with 24 bits can be. It is broken."
        )
    more = COEFFICIENTS[degree]
    widths = (9, 1, 3, 3, 4, 3 * more)
    size = count * sum(widths)
    body = _more(path, unpack, unpack.unconsumed_tail, size)
    # Once more, for one byte too many: a file that unpacks to more than its header says hides something.
    if len(body) != size or _more(path, unpack, unpack.unconsumed_tail, 1):
        raise SplatError(f"{path}: it does not unpack to the {size} bytes of {count} splats. It was cut, or it lies.")
    starts = np.cumsum([0, *(width * count for width in widths)])
    planes = [
        np.frombuffer(body, np.uint8, width * count, int(start)).reshape(count, width)
        for width, start in zip(widths, starts[:-1], strict=True)
    ]
    return _splats(planes, bits, more)


def _more(path: Path, unpack: zlib._Decompress, data: bytes, size: int) -> bytes:
    try:
        return unpack.decompress(data, size) if size else b""
    except zlib.error as problem:
        raise SplatError(f"{path}: it is no gzip ({problem}). It was cut, or it is something else.") from None


def _splats(planes: list[np.ndarray], bits: int, more: int) -> Splats:
    places, alphas, colours, scales, turns, harmonics = planes
    count = len(places)
    fixed = np.zeros((count, 3, 4), np.uint8)
    fixed[..., 1:] = places.reshape(count, 3, 3)
    means = (fixed.view("<i4")[..., 0] >> 8) / 2.0**bits  # the shift carries the sign of 24 bits
    opacity = alphas[:, 0].clip(1, 254) / 255
    dc = (colours / 255 - 0.5) / 0.15
    rest = (harmonics.reshape(count, more, 3).astype(float) - 128) / 128
    return Splats(
        means,
        _turns(turns),
        scales / 16 - 10,
        np.log(opacity / (1 - opacity)),
        np.concatenate([dc[:, None], rest], axis=1),
        np.zeros(count, np.int32),
    )


def _turns(packed: np.ndarray) -> np.ndarray:
    """Quaternions wxyz of three smallest parts: see `_smallest_three` of nouns/splat_files.py."""
    word = np.ascontiguousarray(packed).view("<u4")[:, 0].astype(np.uint32)
    largest = (word >> 30).astype(int)
    xyzw = np.zeros((len(word), 4))
    for k in (3, 2, 1, 0):  # the last was put in last
        here = largest != k
        value = (word & 511) / 511 / np.sqrt(2) * np.where(word & 512, -1.0, 1.0)
        xyzw[here, k] = value[here]
        word = np.where(here, word >> 10, word)
    square = np.clip(1 - (xyzw**2).sum(axis=1), 0, 1)
    xyzw[np.arange(len(word)), largest] = np.sqrt(square)
    return np.roll(xyzw, 1, axis=1)
