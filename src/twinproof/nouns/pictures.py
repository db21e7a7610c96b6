"""The head of a JPEG or PNG file: what it holds, without decoding it."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from twinproof.nouns.errors import RecordingError

# Start-of-frame markers; C4, C8 and CC in their midst are tables.
_JPEG_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}


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
