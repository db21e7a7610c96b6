"""Small JPEG and PNG files for tests."""

from __future__ import annotations

from fractions import Fraction

import av
import numpy as np


def encoded(codec: str, stored: str, image: np.ndarray, given: str) -> bytes:
    """A picture file: `image` in the format `given`, kept as `stored`."""
    context = av.CodecContext.create(codec, "w")
    context.height, context.width = image.shape[:2]
    context.pix_fmt, context.time_base = stored, Fraction(1, 30)
    frame = av.VideoFrame.from_ndarray(image, format=given).reformat(format=stored)
    frame.pts = 0
    return b"".join(bytes(packet) for packet in [*context.encode(frame), *context.encode(None)])


def picture(k: int, size: tuple[int, int] = (64, 48)) -> np.ndarray:
    """A flat picture that says k in its brightness."""
    return np.full((size[1], size[0], 3), (20 * k + 10) % 256, dtype=np.uint8)


def jpeg(k: int, size: tuple[int, int] = (64, 48)) -> bytes:
    """Picture k as a JPEG file."""
    return encoded("mjpeg", "yuvj420p", picture(k, size), "rgb24")


def png(k: int, size: tuple[int, int] = (64, 48)) -> bytes:
    """Picture k as a PNG file."""
    return encoded("png", "rgb24", picture(k, size), "rgb24")
