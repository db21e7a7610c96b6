"""Content hashes: the same content gives the same name on every machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from blake3 import blake3

if TYPE_CHECKING:
    from collections.abc import Iterable

Json = Any  # what json.dumps takes: None, bool, int, float, str, list, dict of these


def canonical(value: Json) -> bytes:
    """The one byte string that stands for a JSON value: sorted keys, no spaces, no NaN, and 2.0 is 2."""
    whole = _whole_numbers(value)
    return json.dumps(whole, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def _whole_numbers(value: Json) -> Json:
    """The same value with floats that are whole numbers as such: JSON and TOML do not keep the two apart."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _whole_numbers(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_whole_numbers(item) for item in value]
    return value


def content_hash(value: Json) -> str:
    """blake3 of a JSON value, 64 hex digits."""
    return blake3(canonical(value)).hexdigest()


def content_key(*parts: Json) -> str:
    """The store key of an answer, made of everything that decides it."""
    return content_hash(list(parts))


def hash_bytes(chunks: Iterable[bytes | memoryview]) -> str:
    """blake3 of a sequence of byte strings, each length-prefixed so that borders count."""
    digest = blake3()
    for chunk in chunks:
        digest.update(len(chunk).to_bytes(8, "little"))
        digest.update(chunk)
    return digest.hexdigest()


def hash_array(array: np.ndarray) -> str:
    """blake3 of an array's dtype, shape and little-endian bytes."""
    little = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False))
    return hash_bytes([little.dtype.str.encode(), str(little.shape).encode(), little.tobytes()])


def hash_file(path: Path) -> str:
    """blake3 of a file's bytes, which are never whole in memory (a memory map would count them all as ours)."""
    digest = blake3()
    with path.open("rb") as handle:
        while chunk := handle.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
