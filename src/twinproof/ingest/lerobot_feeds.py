"""The pictures of a LeRobot episode: a span of a video file, or image files inside Parquet rows."""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from twinproof.ingest.lerobot_layout import Feature
from twinproof.ingest.lerobot_sidecar import Shown
from twinproof.ingest.lerobot_table import batches, reading
from twinproof.nouns.errors import RecordingError
from twinproof.nouns.files import inside
from twinproof.nouns.rig import Intrinsics
from twinproof.nouns.video import Video
from twinproof.nouns.video_write import Packets, copy_video, cut_video, pack_images, write_pictures

PNG = b"\x89PNG\r\n\x1a\n"
JPEG = b"\xff\xd8\xff"
IMAGE_ROWS = 16  # pictures held at a time


@dataclass(frozen=True)
class VideoFeed:
    """Frames of one episode in a video file, which other episodes may share; cut out, not decoded, where possible."""

    source: str
    path: Path
    from_s: float | None  # None: the file holds this episode alone
    time_s: np.ndarray
    fps: float
    packets: Callable[[Path, str], Packets]
    feature: Feature
    pixels: str = "rgb"
    shown: Shown | None = None  # true stamps, where the dataset has them
    intrinsics: Intrinsics | None = None

    def write(self, camera: str, target: Path) -> Video:
        """The episode's frames as a file of their own."""
        if self.feature.depth:
            raise RecordingError(
                f"camera {camera}: {self.source!r} is a depth video, which LeRobot stores log-quantised; that is not "
                f"read. Add {self.source!r} to ignore = [...] in the rig, and ingest depth from the raw recording."
            )
        packets = self.packets(self.path, camera)
        size = (packets.width, packets.height)
        if size != self.feature.size:
            raise RecordingError(
                f"camera {camera}: {self.path} is {size[0]}×{size[1]}, meta/info.json says "
                f"{self.feature.size[0]}×{self.feature.size[1]}. Restore the video, or mend the shape."
            )
        first = 0 if self.from_s is None else self._first(packets, camera, self.from_s)
        if self.shown is not None:
            return self._true_frames(packets, first, camera, target, self.shown)
        if self.from_s is None:
            return copy_video(packets, camera, self.time_s, target, self.pixels)
        return cut_video(packets, first, len(self.time_s), camera, self.time_s, target, self.pixels)

    def _first(self, packets: Packets, camera: str, from_s: float) -> int:
        """The frame nearest to the span's start; the frames after it must keep step with the rows."""
        times, count = packets.frame_time_s, len(self.time_s)
        first = int(np.argmin(np.abs(times - from_s)))
        last = first + count - 1
        if last < len(times):  # a shorter video is refused where it is cut
            for frame, expected in ((first, from_s), (last, from_s + (count - 1) / self.fps)):
                if abs(times[frame] - expected) > 0.5 / self.fps:
                    raise RecordingError(
                        f"camera {camera}: frame {frame} of {self.path} is at {times[frame]:.4f} s, the rows need one "
                        f"at {expected:.4f} s. Frames are missing, or the table of episodes is wrong: restore them."
                    )
        return first

    def _true_frames(self, packets: Packets, first: int, camera: str, target: Path, shown: Shown) -> Video:
        if np.array_equal(shown.frame, np.arange(len(self.time_s))):
            video = cut_video(packets, first, len(shown.frame), camera, shown.time_s, target, self.pixels)
        else:
            video = write_pictures(self._chosen(packets, first, camera, shown), camera, target, self.pixels)
        return replace(video, log_time_s=shown.log_time_s)

    def _chosen(self, packets: Packets, first: int, camera: str, shown: Shown) -> Iterator[tuple[float, np.ndarray]]:
        whole = Video(
            camera, self.path, self.pixels, packets.codec, packets.width, packets.height, packets.frame_time_s,
            packets.frame_pts, packets.key[np.argsort(packets.pts)], "",
        )  # fmt: skip
        with whole.reader() as reader:
            for frame, time_s in zip(shown.frame.tolist(), shown.time_s.tolist(), strict=True):
                yield time_s, reader.frame(first + frame)


@dataclass(frozen=True)
class ImageFeed:
    """PNG or JPEG files inside a Parquet column {bytes, path}, put into one video byte for byte."""

    source: str
    data: Path
    row: int
    time_s: np.ndarray
    root: Path
    intrinsics: Intrinsics | None = None

    def write(self, camera: str, target: Path) -> Video:
        """The episode's pictures as a file."""
        pictures = self._pictures(camera)
        first = next(pictures)
        codec, width, height, pixels = image_kind(first, f"camera {camera}: {self.data}, row {self.row}")

        def stamped() -> Iterator[tuple[float, bytes]]:
            for k, data in enumerate(itertools.chain([first], pictures)):
                where = f"camera {camera}: {self.data}, row {self.row + k}"
                kind = image_kind(data, where)
                if kind != (codec, width, height, pixels):
                    raise RecordingError(
                        f"{where}: the picture is {kind[0]} {kind[1]}×{kind[2]} {kind[3]}, the first was {codec} "
                        f"{width}×{height} {pixels}. A camera keeps one size: split the recording where it changes."
                    )
                yield float(self.time_s[k]), data

        return pack_images(stamped(), codec, (width, height), camera, target, pixels)

    def _pictures(self, camera: str) -> Iterator[bytes]:
        found = 0
        for batch in batches(self.data, self.row, len(self.time_s), [self.source], IMAGE_ROWS):
            with reading(self.data):
                names = [str(name) for name in batch.schema.names]
                items = batch.column(names.index(self.source)).to_pylist() if self.source in names else [None]
            for item in items:
                yield self._bytes(item, f"camera {camera}: {self.data}, row {self.row + found}")
                found += 1
        if found != len(self.time_s):
            raise RecordingError(
                f"camera {camera}: {self.data} gave {found} pictures for {len(self.time_s)} rows. Restore the file."
            )

    def _bytes(self, item: object, where: str) -> bytes:
        if isinstance(item, dict):
            data, name = item.get("bytes"), item.get("path")
            if isinstance(data, bytes) and data:
                return data
            if isinstance(name, str) and name:
                path = inside(self.root, name, RecordingError)
                with reading(path):
                    return path.read_bytes()
        raise RecordingError(f"{where}: no picture of {self.source!r}. Restore the file, or leave the episode out.")


def image_kind(data: bytes, where: str) -> tuple[str, int, int, str]:
    """Codec, width, height and pixels of an image file; one that is cut short or of another kind is an error."""
    if data.startswith(PNG):
        return _png_kind(data, where)
    if data.startswith(JPEG):
        return _jpeg_kind(data, where)
    raise RecordingError(f"{where}: the picture is neither PNG nor JPEG. Store the pictures as one of the two.")


def _png_kind(data: bytes, where: str) -> tuple[str, int, int, str]:
    at, kinds = len(PNG), []
    while at + 12 <= len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        body, check = data[at + 4 : at + 8 + size], data[at + 8 + size : at + 12 + size]
        if len(check) < 4 or zlib.crc32(body) != int.from_bytes(check):
            break
        kinds.append(body[:4])
        at += 12 + size
    if kinds[:1] != [b"IHDR"] or kinds[-1] != b"IEND":
        raise RecordingError(f"{where}: the PNG picture is damaged or cut short. Restore it.")
    width, height, depth, colour = struct.unpack(">IIBB", data[16:26])
    pixels = {(8, 2): "rgb", (8, 0): "gray", (16, 0): "depth_mm"}.get((depth, colour))
    if pixels is None:
        raise RecordingError(
            f"{where}: the PNG picture has {depth} bits and colour type {colour}; 8-bit RGB, 8-bit grey and 16-bit "
            "grey (depth) are read. Convert the pictures."
        )
    return "png", width, height, pixels


def _jpeg_kind(data: bytes, where: str) -> tuple[str, int, int, str]:
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker, size = data[at + 1], int.from_bytes(data[at + 2 : at + 4])
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            if b"\xff\xd9" not in data[-64:]:
                break
            return "mjpeg", width, height, "rgb"
        at += 2 + size
    raise RecordingError(f"{where}: the JPEG picture is damaged or cut short. Restore it.")
