"""PNG bytes of small pictures and masks, to be handed to models in other processes."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import RecordingError
from twinproof.nouns.pictures import picture_head

if TYPE_CHECKING:
    from jaxtyping import UInt8, UInt16

KINDS = {(2, "uint8"): (8, 0), (2, "uint16"): (16, 0), (3, "uint8"): (8, 2)}  # (axes, dtype) -> bits, colour type


def png_bytes(picture: UInt8[np.ndarray, "H W *3"] | UInt16[np.ndarray, "H W"]) -> bytes:
    """A PNG of a grey (8 or 16 bits) or RGB picture."""
    array = np.ascontiguousarray(picture)
    kind = KINDS.get((array.ndim, str(array.dtype)))
    if kind is None or 0 in array.shape or array.shape[2:] not in ((), (3,)):
        raise RecordingError(
            f"a picture of {array.dtype} with the shape {array.shape} cannot be a PNG here. Needed is uint8 or uint16 "
            "(H, W), or uint8 (H, W, 3)."
        )
    height, width = array.shape[:2]
    rows = array.astype(">u2") if kind[0] == 16 else array
    raw = rows.reshape(height, -1).view(np.uint8).reshape(height, -1)
    lines = np.concatenate([np.zeros((height, 1), np.uint8), raw], axis=1).tobytes()
    head = struct.pack(">IIBBBBB", width, height, *kind, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(lines, 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    )


def png_mask(data: bytes, shape: tuple[int, int], where: str) -> np.ndarray:
    """The mask (bool) in a PNG or JPEG of the given size: what is brighter than half is inside."""
    import av

    head = picture_head(data, where)
    if (head.height, head.width) != shape:
        raise RecordingError(
            f"{where}: the mask is {head.width} × {head.height}, the picture {shape[1]} × {shape[0]}. Give masks of "
            "the picture's own size."
        )
    try:
        frames = list(av.CodecContext.create(head.codec, "r").decode(av.Packet(data)))
    except av.FFmpegError:
        frames = []
    if len(frames) != 1:
        raise RecordingError(f"{where}: the mask cannot be decoded. Send a whole PNG.")
    grey = frames[0].to_ndarray(format="gray")[: shape[0], : shape[1]]
    inside: np.ndarray = grey > 127
    return inside
