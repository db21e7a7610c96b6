"""Cameras given as picture files or as a video file with stamps beside it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import RecordingError
from twinproof.nouns.pictures import picture_head
from twinproof.nouns.video_write import copy_video, index_packets, pack_images

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Float

    from twinproof.nouns.rig import Intrinsics
    from twinproof.nouns.video import Video

PICTURES = (".jpg", ".jpeg", ".png")


@dataclass(frozen=True)
class PictureFeed:
    """Picture files of one camera in order; their bytes go into one mp4 as they are."""

    source: str
    files: tuple[Path, ...]
    time_s: Float[np.ndarray, "F"]
    intrinsics: Intrinsics | None = None

    def write(self, camera: str, target: Path) -> Video:
        """Packs the files; one is in memory at a time."""
        first = picture_head(self._bytes(self.files[0]), str(self.files[0]))
        size = (first.width, first.height)
        video = pack_images(self._images(), first.codec, size, camera, target, first.pixels)
        return replace(video, time_s=self.time_s)

    def _images(self) -> Iterator[tuple[float, bytes]]:
        first = None
        for time_s, path in zip(self.time_s.tolist(), self.files, strict=True):
            data = self._bytes(path)
            head = picture_head(data, str(path))
            first = first or head
            if head != first:
                raise RecordingError(
                    f"camera {self.source}: {path.name} is {head.codec} {head.width}×{head.height} {head.pixels}, "
                    f"{self.files[0].name} is {first.codec} {first.width}×{first.height} {first.pixels}. "
                    "One camera keeps one size and format: put the others into a folder of their own."
                )
            yield time_s, data

    def _bytes(self, path: Path) -> bytes:
        try:
            data = path.read_bytes()
        except OSError as problem:
            raise RecordingError(f"camera {self.source}: {path} cannot be read ({problem.strerror}).") from None
        if not data:
            raise RecordingError(f"camera {self.source}: {path} is empty (0 bytes). Restore it.")
        return data


@dataclass(frozen=True)
class FileFeed:
    """A video file and the stamps of its frames; without stamps, the file's own times."""

    source: str
    path: Path
    time_s: Float[np.ndarray, "F"] | None = None
    intrinsics: Intrinsics | None = None

    def write(self, camera: str, target: Path) -> Video:
        """Copies the file."""
        packets = index_packets(self.path, self.source)
        times = packets.frame_time_s if self.time_s is None else self.time_s
        return copy_video(packets, camera, times, target)
