"""Masks that models in other processes send back as pictures."""

from __future__ import annotations

import numpy as np

from twinproof.nouns.errors import RecordingError
from twinproof.nouns.pictures import picture_head


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
