"""Writing a camera's frames: cutting a span out of a longer file without touching a pixel, and packing pictures.

A cut copies packets when the span starts on a key frame and no packet inside it leans on one outside; otherwise the
span is decoded and stored losslessly, because copying the packets it leans on would carry a neighbour's pictures along.
"""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from blake3 import blake3

from twinproof.nouns.errors import RecordingError
from twinproof.nouns.priority import kept_priority
from twinproof.nouns.video import Video

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TICKS = 90_000  # per second, the usual clock of mp4
LOSSLESS = {
    "rgb": ("libx264rgb", "rgb24", "rgb24", {"qp": "0", "preset": "ultrafast"}),
    "gray": ("png", "gray", "gray", {}),
    "depth_mm": ("png", "gray16be", "gray16le", {}),
    "depth_m": ("png", "rgba", "rgba", {}),
}  # pixels -> encoder, its pixel format, the format of the arrays, options


@dataclass(frozen=True)
class Packets:
    """The index of a video file: one entry a packet, in file (decoding) order."""

    path: Path
    codec: str
    width: int
    height: int
    seconds_per_tick: Fraction
    pts: np.ndarray
    key: np.ndarray

    @property
    def frame_pts(self) -> np.ndarray:
        """Ticks of the frames in the order they are shown."""
        return np.sort(self.pts)

    @property
    def frame_time_s(self) -> np.ndarray:
        """Container times of the frames, as floats, from the container's zero."""
        return self.frame_pts * float(self.seconds_per_tick)


def index_packets(path: Path, camera: str) -> Packets:
    """Reads a file's packet table without decoding a picture."""
    import av

    try:
        with _opened(path, camera) as (container, stream):
            found = [(p.pts, p.is_keyframe) for p in container.demux(stream) if p.size and p.pts is not None]
            context = stream.codec_context
            tick = Fraction(stream.time_base)
            codec, width, height = context.codec.canonical_name, context.width, context.height
    except (av.error.FFmpegError, OSError, ValueError) as problem:
        raise RecordingError(f"camera {camera}: {path} cannot be read as video ({problem}). Restore it.") from None
    if not found:
        raise RecordingError(f"camera {camera}: {path} holds no frames. Restore it, or leave the camera out.")
    pts = np.array([p for p, _ in found], dtype=np.int64)
    if len(np.unique(pts)) != len(pts):
        raise RecordingError(f"camera {camera}: {path} gives two frames one time. Re-encode it.")
    return Packets(path, codec, width, height, tick, pts, np.array([k for _, k in found]))


@contextlib.contextmanager
def _opened(path: Path, camera: str) -> Iterator[tuple[Any, Any]]:
    import av

    if not path.is_file():
        raise RecordingError(f"camera {camera}: the video {path} is missing. Restore it, or leave the camera out.")
    if path.stat().st_size == 0:
        raise RecordingError(f"camera {camera}: the video {path} is empty (0 bytes). Restore it.")
    try:
        with av.open(str(path)) as container:
            if not container.streams.video:
                raise RecordingError(f"camera {camera}: {path} has no video stream. Restore it.")
            if container.streams.video[0].codec_context is None:  # PyAV has no decoder for what the header names
                raise RecordingError(f"camera {camera}: {path} names a codec that is unknown. Restore it.")
            yield container, container.streams.video[0]
    except av.error.FFmpegError as problem:
        raise RecordingError(f"camera {camera}: {path} cannot be read as video ({problem}). Restore it.") from None


@contextlib.contextmanager
def _created(target: Path) -> Iterator[Any]:
    """A new mp4. The file is ours to close: PyAV keeps one open whose end cannot be written, as on a full disk."""
    import av

    with target.open("wb") as file, av.open(file, "w", format="mp4") as output:
        yield output


def copy_video(source: Packets, camera: str, time_s: np.ndarray, target: Path, pixels: str = "rgb") -> Video:
    """The whole file as it is, with the given stamps."""
    _expect(camera, source.path, len(source.pts), len(time_s))
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source.path, target)
    return _finished(target, camera, pixels, time_s)


def cut_video(
    source: Packets, first: int, count: int, camera: str, time_s: np.ndarray, target: Path, pixels: str = "rgb"
) -> Video:
    """Frames first .. first+count of a file as a file of their own; not one picture more."""
    frames = source.frame_pts
    _expect(camera, source.path, min(count, max(0, len(frames) - first)), len(time_s))
    if first == 0 and count == len(frames):
        return copy_video(source, camera, time_s, target, pixels)
    low, high = int(frames[first]), int(frames[first + count - 1])
    target.parent.mkdir(parents=True, exist_ok=True)
    if is_clean(source, first, count):
        return _remux(source, low, high, camera, time_s, target, pixels)
    return _recode(source, low, high, camera, time_s, target, pixels)


def is_clean(source: Packets, first: int, count: int) -> bool:
    """Whether frames first .. first+count can be copied as packets: they start on a key frame, lean on none outside."""
    frames = source.frame_pts
    low, high = int(frames[first]), int(frames[first + count - 1])
    inside = np.flatnonzero((source.pts >= low) & (source.pts <= high))
    together = inside[-1] - inside[0] + 1 == len(inside)
    return bool(source.key[inside[0]]) and bool(together) and int(source.pts[inside[0]]) == low


def _expect(camera: str, path: Path, frames: int, rows: int) -> None:
    if frames < rows:
        raise RecordingError(
            f"camera {camera}: {path} has {frames} frames for {rows} rows. The video is shorter than its rows: "
            "restore it, or leave the episode out."
        )
    if frames > rows:
        raise RecordingError(
            f"camera {camera}: {path} has {frames} frames for {rows} rows. Cut the surplus frames in the source, "
            "or restore the missing rows."
        )


def _remux(source: Packets, low: int, high: int, camera: str, time_s: np.ndarray, target: Path, pixels: str) -> Video:
    copied = 0
    with _opened(source.path, camera) as (container, stream), _created(target) as output:
        copy = output.add_stream_from_template(stream, opaque=True)
        container.seek(low, stream=stream)
        for packet in container.demux(stream):
            if packet.size and packet.pts is not None and low <= packet.pts <= high:
                packet.pts -= low
                packet.dts = None if packet.dts is None else packet.dts - low
                copied += 1
                packet.stream = copy
                output.mux(packet)
            elif copied == len(time_s):
                break
    if copied != len(time_s):
        raise RecordingError(f"camera {camera}: {source.path} gave {copied} of {len(time_s)} frames. Restore it.")
    return _finished(target, camera, pixels, time_s)


def _recode(source: Packets, low: int, high: int, camera: str, time_s: np.ndarray, target: Path, pixels: str) -> Video:
    """A span stored losslessly in the pixel format it decodes to, so that it gives the very same pictures."""
    import av

    written = 0
    with _opened(source.path, camera) as (container, stream), _created(target) as output:
        stream.thread_type = "AUTO"
        keys = source.pts[source.key & (source.pts <= low)]  # seeking to `low` itself may land on a key frame behind it
        container.seek(int(keys.max()) if len(keys) else 0, stream=stream)
        coded: Any = None
        for frame in container.decode(stream):
            if frame.pts is None or frame.pts < low:
                continue
            if frame.pts > high:
                break
            if coded is None:
                coded = _lossless_stream(output, frame)
            copy = frame.reformat(format=coded.pix_fmt) if frame.format.name != coded.pix_fmt else frame
            copy.pts, copy.time_base = written * (TICKS // 30), Fraction(1, TICKS)
            copy.pict_type = av.video.frame.PictureType.NONE
            output.mux(coded.encode(copy))
            written += 1
        if coded is not None:
            output.mux(coded.encode())
    if written != len(time_s):
        raise RecordingError(f"camera {camera}: {source.path} gave {written} of {len(time_s)} frames. Restore it.")
    return _finished(target, camera, pixels, time_s)


def _lossless_stream(output: Any, frame: Any) -> Any:
    """A stream that keeps a frame's samples: lossless H.264, HEVC for more than 8 bits, PNG for gray and the rest."""
    name = str(frame.format.name)
    kept = {"yuv420p", "yuvj420p", "yuv422p", "yuvj422p", "yuv444p", "yuvj444p"}
    if name in kept:
        stream = output.add_stream("libx264", rate=30, options={"qp": "0", "preset": "veryfast"})
        stream.pix_fmt = name
    elif name.startswith("gb"):
        stream = output.add_stream("libx264rgb", rate=30, options={"qp": "0", "preset": "veryfast"})
        stream.pix_fmt = "rgb24"
    elif name.startswith("yuv") and name.endswith(("10le", "12le")):
        lossless = {"preset": "veryfast", "x265-params": "lossless=1:bframes=0:log-level=none"}
        stream = output.add_stream("libx265", rate=30, options=lossless)
        stream.pix_fmt = name
    else:
        stream = output.add_stream("png", rate=30)
        stream.pix_fmt = {"gray16le": "gray16be"}.get(name, name)
    stream.width, stream.height = frame.width, frame.height
    stream.time_base = stream.codec_context.time_base = Fraction(1, TICKS)
    stream.codec_context.color_range = frame.color_range
    stream.codec_context.colorspace = frame.colorspace
    return stream


def write_pictures(
    pictures: Iterable[tuple[float, np.ndarray]], camera: str, target: Path, pixels: str = "rgb"
) -> Video:
    """(time, array) pairs stored without loss; arrays as VideoReader.frame gives them."""
    encoder, stored, given, options = LOSSLESS[pixels]
    return encode(pictures, camera, target, pixels, Encoding(encoder, stored, given, options))


@dataclass(frozen=True)
class Encoding:
    """An encoder, the pixel format it stores, the pixel format of the arrays, and its options."""

    encoder: str
    stored: str
    given: str
    options: dict[str, str]


def encode(
    pictures: Iterable[tuple[float, np.ndarray]], camera: str, target: Path, pixels: str, how: Encoding
) -> Video:
    """(time, array) pairs encoded as asked, one picture in memory at a time."""
    with PictureFile(camera, target, pixels, how) as file:
        for time_s, picture in pictures:
            file.add(time_s, picture)
        return file.finished()


class PictureFile:
    """A video that is written picture by picture. `finished` gives it; whoever is done with it closes it."""

    def __init__(self, camera: str, target: Path, pixels: str = "rgb", how: Encoding | None = None) -> None:
        self._camera, self._target, self._pixels = camera, target, pixels
        self._how = Encoding(*LOSSLESS[pixels]) if how is None else how
        self._stamps: list[float] = []
        self._shape: tuple[int, ...] = ()
        self._last, self._stack = -1, contextlib.ExitStack()
        self._output: Any = None
        self._stream: Any = None

    def __enter__(self) -> PictureFile:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def close(self) -> None:
        """Frees the encoder and its file handle."""
        self._stack.close()

    def add(self, time_s: float, picture: np.ndarray) -> None:
        """One picture more; all have one size, and times increase."""
        import av

        array = np.ascontiguousarray(picture)
        if self._pixels == "depth_m":
            array = array.astype("<f4")[..., None].view(np.uint8)
        if self._output is None:
            self._open(array.shape)
        if array.shape != self._shape:
            raise RecordingError(
                f"camera {self._camera}: picture {len(self._stamps)} has shape {array.shape}, the first had "
                f"{self._shape}. A camera keeps one size: split the recording where it changes."
            )
        if not np.isfinite(time_s):
            raise RecordingError(
                f"camera {self._camera}: the time of frame {len(self._stamps)} is {time_s}. Re-stamp it."
            )
        self._stamps.append(time_s)
        frame = av.VideoFrame.from_ndarray(array, format=self._how.given)
        self._last = max(self._last + 1, round((time_s - self._stamps[0]) * TICKS))
        frame.pts, frame.time_base = self._last, Fraction(1, TICKS)
        for packet in self._stream.encode(frame):
            self._output.mux(packet)

    def _open(self, shape: tuple[int, ...]) -> None:
        self._target.parent.mkdir(parents=True, exist_ok=True)
        self._shape = shape
        self._output = self._stack.enter_context(_created(self._target))
        self._stream = self._output.add_stream(self._how.encoder, rate=30, options=self._how.options)
        self._stream.width, self._stream.height, self._stream.pix_fmt = shape[1], shape[0], self._how.stored
        self._stream.time_base = self._stream.codec_context.time_base = Fraction(1, TICKS)
        self._stream.thread_type = "AUTO"
        with kept_priority():
            self._stream.codec_context.open(strict=False)

    def finished(self) -> Video:
        """The video, whole; nothing can be added any more."""
        if self._output is None:
            raise RecordingError(f"camera {self._camera}: no pictures. Leave the camera out of the rig.")
        for packet in self._stream.encode():
            self._output.mux(packet)
        self.close()
        return _finished(self._target, self._camera, self._pixels, np.array(self._stamps))


def pack_images(
    images: Iterable[tuple[float, bytes]], codec: str, size: tuple[int, int], camera: str, target: Path, pixels: str
) -> Video:
    """(time, file bytes) of JPEG or PNG pictures put into one mp4 byte for byte, nothing decoded."""
    import av

    target.parent.mkdir(parents=True, exist_ok=True)
    stored = {"mjpeg": "yuvj420p", "png": LOSSLESS[pixels][1] if pixels != "rgb" else "rgb24"}[codec]
    stamps: list[float] = []
    with _created(target) as output:
        stream = output.add_stream(codec, rate=30)
        stream.width, stream.height, stream.pix_fmt = size[0], size[1], stored
        stream.time_base = Fraction(1, TICKS)
        last = -1
        for time_s, data in images:
            stamps.append(time_s)
            last = max(last + 1, round((time_s - stamps[0]) * TICKS))
            packet = av.Packet(data)
            packet.stream, packet.time_base, packet.is_keyframe = stream, Fraction(1, TICKS), True
            packet.pts = packet.dts = last
            output.mux(packet)
    return _finished(target, camera, pixels, np.array(stamps))


def _finished(target: Path, camera: str, pixels: str, stamps: np.ndarray) -> Video:
    written = index_packets(target, camera)
    order = np.argsort(written.pts)
    return Video(
        camera, target, pixels, written.codec, written.width, written.height, stamps, written.pts[order],
        written.key[order], _packets_hash(target, camera),
    )  # fmt: skip


def check_pictures(video: Video) -> None:
    """The file still holds exactly the encoded pictures that the video's hash names."""
    if _packets_hash(video.path, video.camera) != video.packets_hash:
        raise RecordingError(
            f"camera {video.camera}: {video.path} was changed since it was written. Restore it from the source."
        )


def _packets_hash(path: Path, camera: str) -> str:
    """Names the encoded pictures, not the container around them, which says which program wrote it."""
    digest = blake3()
    with _opened(path, camera) as (container, stream):
        context = stream.codec_context
        digest.update(f"{context.width}x{context.height}".encode())
        digest.update(bytes(context.extradata or b""))
        for packet in container.demux(stream):
            if packet.size:
                digest.update(packet.size.to_bytes(8, "little"))
                digest.update(memoryview(packet))
    return digest.hexdigest()
