"""A camera topic of a bag: pictures fetched one at a time when the feed is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.ingest.bag_find import Bag
from twinproof.ingest.bag_storage import Place, Topic, clear_errors
from twinproof.ingest.bag_types import standard_type, store_of
from twinproof.nouns.errors import RecordingError
from twinproof.nouns.pictures import PictureHead, picture_head
from twinproof.nouns.video_write import pack_images, write_pictures

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from twinproof.nouns.rig import Intrinsics
    from twinproof.nouns.video import Video


@dataclass(frozen=True)
class Layout:
    """How the bytes of a raw picture are to be read."""

    dtype: str
    channels: int
    pixels: str
    order: tuple[int, ...] = ()  # channels taken, in the order R G B


ENCODINGS = {
    "rgb8": Layout("u1", 3, "rgb", (0, 1, 2)),
    "bgr8": Layout("u1", 3, "rgb", (2, 1, 0)),
    "rgba8": Layout("u1", 4, "rgb", (0, 1, 2)),
    "bgra8": Layout("u1", 4, "rgb", (2, 1, 0)),
    "mono8": Layout("u1", 1, "gray"),
    "8UC1": Layout("u1", 1, "gray"),
    "mono16": Layout("u2", 1, "depth_mm"),
    "16UC1": Layout("u2", 1, "depth_mm"),
    "32FC1": Layout("f4", 1, "depth_m"),
}
DEPTH_HEAD = 12  # bytes that compressedDepth puts before its PNG


@dataclass(frozen=True)
class BagFeed:
    """The pictures of one topic, by place. `pixels` is set where a sidecar knows better than the picture's head."""

    source: str
    bag: Bag
    topic: Topic
    places: Int[np.ndarray, "F 4"]
    time_s: Float[np.ndarray, "F"]
    log_time_s: Float[np.ndarray, "F"] | None
    intrinsics: Intrinsics | None = None
    pixels: str | None = None

    def write(self, camera: str, target: Path) -> Video:
        """JPEG and PNG go into the file byte for byte; raw pictures are stored without loss."""
        with clear_errors(self.bag.path):
            video = self._pack(camera, target) if self._packed else self._store(camera, target)
        return replace(video, log_time_s=self.log_time_s)

    def size(self) -> tuple[int, int]:
        """Width and height of the first picture."""
        message, where = next(self._messages())
        if not self._packed:
            return int(message.width), int(message.height)
        head = picture_head(_file_bytes(message, where), where)
        return head.width, head.height

    @property
    def _packed(self) -> bool:
        return standard_type(self.topic.msgtype) == "sensor_msgs/msg/CompressedImage"

    def _pack(self, camera: str, target: Path) -> Video:
        message, where = next(self._messages())
        first = picture_head(_file_bytes(message, where), where)
        pixels = self.pixels or first.pixels
        return pack_images(self._files(first), first.codec, (first.width, first.height), camera, target, pixels)

    def _files(self, first: PictureHead) -> Iterator[tuple[float, bytes]]:
        for time_s, (message, where) in zip(self.time_s.tolist(), self._messages(), strict=True):
            data = _file_bytes(message, where)
            head = picture_head(data, where)
            if head != first:
                raise RecordingError(
                    f"{where}: {head.codec} {head.width}×{head.height} {head.pixels}, the first picture was "
                    f"{first.codec} {first.width}×{first.height} {first.pixels}. A camera keeps one size and format: "
                    "split the bag where it changes."
                )
            yield time_s, data

    def _store(self, camera: str, target: Path) -> Video:
        message, where = next(self._messages())
        layout = _layout(message, where)

        def pictures() -> Iterator[tuple[float, np.ndarray]]:
            for time_s, (message, where) in zip(self.time_s.tolist(), self._messages(), strict=True):
                if _layout(message, where) != layout:
                    raise RecordingError(f"{where}: the encoding changes to {message.encoding!r}. Split the bag there.")
                yield time_s, raw_picture(message, where)

        return write_pictures(pictures(), camera, target, layout.pixels)

    def _messages(self) -> Iterator[tuple[Any, str]]:
        decode: Callable[[bytes, str], Any] = store_of(self.topic).deserialize_cdr  # type: ignore[union-attr]
        msgtype = standard_type(self.topic.msgtype)
        with self.bag.fetcher() as fetch:
            for number, row in enumerate(self.places.tolist()):
                place: Place = tuple(row)
                yield decode(fetch(place), msgtype), f"{self.source}, picture {number}"


def _file_bytes(message: Any, where: str) -> bytes:
    data = message.data.tobytes()
    if "compressedDepth" in message.format:
        if "16UC1" not in message.format:
            raise RecordingError(
                f"{where}: {message.format!r} is depth in quantised steps, which is not read. Record the raw 32FC1 "
                "topic, or leave this one out with ignore."
            )
        data = data[DEPTH_HEAD:]
    return bytes(data)


def _layout(message: Any, where: str) -> Layout:
    if message.encoding not in ENCODINGS:
        raise RecordingError(
            f"{where}: the encoding {message.encoding!r} is not read. Convert it to one of {', '.join(ENCODINGS)}, or "
            "leave the topic out with ignore."
        )
    return ENCODINGS[message.encoding]


def raw_picture(message: Any, where: str) -> np.ndarray:
    """A sensor_msgs/Image as an array: uint8 (H, W, 3) or (H, W), uint16 millimetres, or float32 metres."""
    layout = _layout(message, where)
    dtype = np.dtype(layout.dtype).newbyteorder(">" if message.is_bigendian else "<")
    height, width, step = int(message.height), int(message.width), int(message.step)
    row = width * layout.channels * dtype.itemsize
    if not (height and width and row <= step and height * step <= len(message.data)):
        raise RecordingError(
            f"{where}: {len(message.data)} bytes for {width}×{height} {message.encoding} with rows of {step} bytes. "
            "Mend the publisher, or leave the topic out with ignore."
        )
    rows = np.ascontiguousarray(np.asarray(message.data)[: height * step].reshape(height, step)[:, :row])
    picture = rows.view(dtype)
    if layout.channels == 1:
        return picture.astype(dtype.newbyteorder("="), copy=False)
    return np.ascontiguousarray(picture.reshape(height, width, layout.channels)[..., list(layout.order)])
