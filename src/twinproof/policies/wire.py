"""Messages to and from policy servers: msgpack with arrays in the three forms that servers use, and never pickle.

openpi   {b"__ndarray__": True, b"data": bytes, b"dtype": "<f4", b"shape": [50, 14]}
npy      {"__ndarray_class__": True, "as_npy": bytes of a .npy file}       GR00T N1.5 to N1.7
nd       {b"nd": True, b"type": "<f4", b"shape": [16, 7], b"data": bytes}  GR00T after N1.7, only read

What comes in is bounded: a message has a largest size, and no array is made before its header fits its bytes.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from twinproof.nouns.errors import MissingExtra, PolicyError

DTYPE = re.compile(r"[<>|=]?(?:[fiu][1248]|b1|\?|float(?:16|32|64)|u?int(?:8|16|32|64)|bool)")
NPY_HEADER = re.compile(
    rb"\{'descr': '([^']{1,20})', 'fortran_order': (True|False), 'shape': \(([\d, ]{0,99})\), ?\}\s*"
)
MOST_ENTRIES = 100_000  # of a list or table that is not an array
Arrays = Literal["openpi", "npy"]


def needed(package: str) -> Any:
    """A package of the extra 'policies', imported."""
    import importlib

    try:
        return importlib.import_module(package)
    except ImportError:
        name = package.split(".")[0]
        raise MissingExtra(f"policy servers need {name}. Run: pip install 'twinproof[policies]'.") from None


def pack(message: Mapping[str, Any], arrays: Arrays) -> bytes:
    """A message as bytes."""
    encode = _as_openpi if arrays == "openpi" else _as_npy
    packed: bytes = needed("msgpack").packb(message, default=encode)
    return packed


def _as_openpi(thing: Any) -> Any:
    array = np.asarray(thing, order="C")  # a number alone stays without an axis
    return {b"__ndarray__": True, b"data": array.tobytes(), b"dtype": array.dtype.str, b"shape": array.shape}


def _as_npy(thing: Any) -> Any:
    held = io.BytesIO()
    np.save(held, np.asarray(thing, order="C"), allow_pickle=False)
    return {"__ndarray_class__": True, "as_npy": held.getvalue()}


def unpack(data: bytes, who: str) -> Any:
    """What the bytes of a server say, arrays as read-only numpy arrays; anything malformed is an error."""
    msgpack = needed("msgpack")
    try:
        return msgpack.unpackb(
            data,
            object_hook=_decoded,
            ext_hook=_no_extension,
            max_array_len=MOST_ENTRIES,
            max_map_len=MOST_ENTRIES,
            max_ext_len=0,
        )
    except (msgpack.UnpackException, ValueError, TypeError, KeyError, RecursionError) as problem:
        told = f"{type(problem).__name__}: {problem}" if str(problem) else type(problem).__name__
        raise PolicyError(
            f"{who} sent {len(data)} bytes that are no message of its protocol ({told:.200}). Check that the server "
            "speaks the framing that is stated, in a version that is known."
        ) from None


def _no_extension(code: int, data: bytes) -> Any:
    raise ValueError(f"extension type {code}")


def _decoded(table: dict[Any, Any]) -> Any:
    entry = {key.decode(errors="replace") if isinstance(key, bytes) else key: value for key, value in table.items()}
    if entry.get("__ndarray__") is True:
        return array_of(entry["data"], entry["dtype"], entry["shape"])
    if entry.get("__npgeneric__") is True or entry.get("nd") is False:
        data, kind = entry["data"], str(_dtype(entry.get("dtype", entry.get("type"))))
        return np.frombuffer(data, kind)[0] if isinstance(data, bytes) else np.dtype(kind).type(data)
    if entry.get("nd") is True:
        return array_of(entry["data"], entry["type"], entry["shape"])
    if "__ndarray_class__" in entry:
        return _from_npy(entry["as_npy"])
    if "__ModalityConfig_class__" in entry:
        stated = entry["as_json"]
        return json.loads(stated) if isinstance(stated, str) else stated
    return entry


def _dtype(stated: Any) -> np.dtype[Any]:
    text = stated.decode(errors="replace") if isinstance(stated, bytes) else stated
    if not isinstance(text, str) or not DTYPE.fullmatch(text):
        raise ValueError(f"an array of type {text!r:.40}")
    return np.dtype(text)


def array_of(data: Any, dtype: Any, shape: Any) -> np.ndarray:
    """An array of these bytes; its type is a plain number's, and its shape has just as many bytes as there are."""
    kind = _dtype(dtype)
    sides = list(shape) if isinstance(shape, (list, tuple)) else [-1]
    if len(sides) > 8 or not all(type(side) is int and 0 <= side < 2**40 for side in sides):
        raise ValueError(f"an array of shape {shape!r:.60}")
    count = 1
    for side in sides:
        count *= side
    if not isinstance(data, bytes) or count * kind.itemsize != len(data):
        found = len(data) if isinstance(data, bytes) else type(data).__name__
        raise ValueError(f"an array of shape {sides} and type {kind.str} has {found} bytes")
    return np.frombuffer(data, kind).reshape(sides)


def _from_npy(data: Any) -> np.ndarray:
    """A .npy file in memory; its header is checked against its bytes before an array is made."""
    if not isinstance(data, bytes):
        raise ValueError(f"an array as {type(data).__name__}")
    wide = data[6:7] != b"\x01"  # version 1 states its header's length in two bytes, later ones in four
    start = 12 if wide else 10
    end = start + int.from_bytes(data[8:start], "little")
    header = NPY_HEADER.fullmatch(data[start:end]) if data[:6] == b"\x93NUMPY" else None
    if header is None:
        raise ValueError("an array without the header of a .npy file")
    kind, in_columns = header[1].decode(), header[2] == b"True"
    shape = [int(side) for side in header[3].split(b",") if side.strip()]
    array = array_of(data[end:], kind, shape[::-1] if in_columns else shape)
    return array.T if in_columns else array
