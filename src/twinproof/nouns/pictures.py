"""Picture files: the head of a JPEG or PNG without decoding it, and PNG bytes of an array."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import RecordingError

if TYPE_CHECKING:
    from jaxtyping import UInt8, UInt16

# Start-of-frame markers; C4, C8 and CC in their midst are tables.
_JPEG_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}

KINDS = {(2, "uint8"): (8, 0), (2, "uint16"): (16, 0), (3, "uint8"): (8, 2)}  # (axes, dtype) -> bits, colour type


@dataclass(frozen=True)
class PictureHead:
    """Codec as FFmpeg names it, width and height, and the `pixels` of nouns.video."""

    codec: str
    width: int
    height: int
    pixels: str


def picture_head(data: bytes, where: str) -> PictureHead:
    """Reads the head of a picture file; a broken or foreign one is an error that names the place."""
    try:
        if data[:8] == b"\x89PNG\r\n\x1a\n":
            width, height, depth, colour = struct.unpack(">IIBB", data[16:26])
            gray = colour == 0
            head = PictureHead("png", width, height, ("depth_mm" if depth == 16 else "gray") if gray else "rgb")
        elif data[:2] == b"\xff\xd8":
            head = _jpeg_head(data)
        else:
            raise RecordingError(
                f"{where}: neither a JPEG nor a PNG (it starts with {data[:4].hex() or 'nothing'}). Convert it."
            )
    except (struct.error, IndexError):
        raise RecordingError(f"{where}: the picture's head is cut off. Restore the file.") from None
    if not (0 < head.width <= 65535 and 0 < head.height <= 65535):
        raise RecordingError(f"{where}: the picture claims to be {head.width}×{head.height}. Restore the file.")
    return head


def _jpeg_head(data: bytes) -> PictureHead:
    at = 2
    while True:
        if data[at] != 0xFF:
            raise struct.error("marker expected")
        marker = data[at + 1]
        if marker in _JPEG_FRAMES:
            height, width, components = struct.unpack(">HHB", data[at + 5 : at + 10])
            return PictureHead("mjpeg", width, height, "gray" if components == 1 else "rgb")
        at += 2 + int(struct.unpack(">H", data[at + 2 : at + 4])[0])


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
