"""A camera's frames: a file on disk, a stamp for every frame, and decoding that is lazy and never twice.

Frame k of the file was taken at `time_s[k]`; the container's own time only orders frames (`pts`) and says where
decoding may start (`key`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.nouns.errors import RecordingError
from twinproof.nouns.hashing import content_hash, hash_array

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from jaxtyping import Bool, Float, Int

# pixels -> the format PyAV decodes to. depth_mm: uint16 millimetres. depth_m: float32 metres, packed in RGBA bytes.
PIXELS = {"rgb": "rgb24", "gray": "gray", "depth_mm": "gray16le", "depth_m": "rgba"}


@dataclass(frozen=True, eq=False)
class Video:
    """Frames of one camera. Times increase; `hash` names the encoded pictures, whatever container holds them."""

    camera: str
    path: Path
    pixels: str
    codec: str
    width: int
    height: int
    time_s: Float[np.ndarray, "F"]
    pts: Int[np.ndarray, "F"]
    key: Bool[np.ndarray, "F"]
    packets_hash: str
    log_time_s: Float[np.ndarray, "F"] | None = None

    def __post_init__(self) -> None:
        if self.pixels not in PIXELS:
            raise RecordingError(f"{self.camera}: pixels {self.pixels!r} unknown; use one of {', '.join(PIXELS)}.")
        dtypes = {"time_s": np.float64, "pts": np.int64, "key": np.bool_, "log_time_s": np.float64}
        for field, dtype in dtypes.items():
            if getattr(self, field) is not None:
                array: np.ndarray = np.array(getattr(self, field), dtype=dtype)
                array.setflags(write=False)
                object.__setattr__(self, field, array)
        if not len(self.time_s):
            raise RecordingError(f"camera {self.camera}: no frames in {self.path.name}. Leave the camera out.")
        if not len(self.time_s) == len(self.pts) == len(self.key):
            raise RecordingError(
                f"camera {self.camera}: {len(self.time_s)} stamps for {len(self.pts)} frames in {self.path.name}. "
                "The video and its rows do not belong together: cut the video again, or drop the surplus rows."
            )
        if self.log_time_s is not None and len(self.log_time_s) != len(self.time_s):
            raise RecordingError(
                f"camera {self.camera}: {len(self.log_time_s)} log times for {len(self.time_s)} frames."
            )
        if not np.isfinite(self.time_s).all():
            raise RecordingError(f"camera {self.camera}: a frame's time is not finite. Re-stamp it.")
        step = np.diff(self.time_s)
        if (step <= 0).any():
            i = int(np.argmax(step <= 0))
            raise RecordingError(
                f"camera {self.camera}: frame {i + 1} is at {self.time_s[i + 1]:.6f} s, not after frame {i} at "
                f"{self.time_s[i]:.6f} s. Drop or re-stamp it in the source; in a bag, the rig may say time = 'log'."
            )

    @property
    def hash(self) -> str:
        """Names the pictures and their stamps."""
        log_time = None if self.log_time_s is None else hash_array(self.log_time_s)
        return content_hash([self.camera, self.pixels, self.packets_hash, hash_array(self.time_s), log_time])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Video) and self.hash == other.hash

    def __hash__(self) -> int:
        return hash(self.hash)

    def __len__(self) -> int:
        return len(self.time_s)

    def reader(self) -> VideoReader:
        """A decoder with a position: asking for frames in order decodes each one once. Use as a context manager."""
        return VideoReader(self)

    def frames(self, start_s: float = -np.inf, end_s: float = np.inf) -> Iterator[tuple[float, np.ndarray]]:
        """(time, picture) of every frame with start_s <= time < end_s, one at a time."""
        first, last = np.searchsorted(self.time_s, [start_s, end_s], side="left")
        with self.reader() as reader:
            for index in range(int(first), int(last)):
                yield float(self.time_s[index]), reader.frame(index)

    def at(self, time_s: float) -> tuple[float, np.ndarray]:
        """(time, picture) of the frame nearest to a time."""
        after = int(np.searchsorted(self.time_s, time_s))
        near = np.array([k for k in (after - 1, after) if 0 <= k < len(self)])
        index = int(near[np.argmin(np.abs(self.time_s[near] - time_s))])
        with self.reader() as reader:
            return float(self.time_s[index]), reader.frame(index)


class VideoReader:
    """Decodes frames of a Video by index. Forward, no frame is decoded twice; backward, it seeks to a key frame."""

    def __init__(self, video: Video) -> None:
        import av  # 60 ms that `--help` need not pay

        self.video = video
        self.decoded = 0  # frames that came out of the decoder, for tests and benchmarks
        self._next = 0  # index that the decoder yields next
        try:
            self._container = av.open(str(video.path))
            self._stream = self._container.streams.video[0]
        except (OSError, ValueError, IndexError) as problem:
            raise RecordingError(f"camera {video.camera}: {video.path} cannot be decoded ({problem}).") from None
        self._stream.thread_type = "AUTO"
        self._decoding: Iterator[Any] = self._container.decode(self._stream)
        self._last: tuple[int, np.ndarray] | None = None
        self._index_of_pts = {int(pts): k for k, pts in enumerate(video.pts)}
        self._keys = np.flatnonzero(video.key)

    def __enter__(self) -> VideoReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Frees the decoder and its file handle."""
        self._container.close()

    def frame(self, index: int) -> np.ndarray:
        """The picture with this index: uint8 (H, W, 3) or (H, W), uint16 millimetres, or float32 metres."""
        if not 0 <= index < len(self.video):
            raise RecordingError(f"camera {self.video.camera}: frame {index} asked for, of {len(self.video)}.")
        if self._last is not None and self._last[0] == index:
            return self._last[1]
        start = self._key_before(index)
        if index < self._next or start > self._next:
            self._container.seek(int(self.video.pts[start]), stream=self._stream)
            self._decoding = self._container.decode(self._stream)
        picture = self._decode_until(index)
        self._last = (index, picture)
        return picture

    def _key_before(self, index: int) -> int:
        """The frame from which decoding must start to reach this one."""
        before = int(np.searchsorted(self._keys, index, side="right"))
        return int(self._keys[before - 1]) if before else 0

    def _decode_until(self, index: int) -> np.ndarray:
        import av

        try:
            for frame in self._decoding:
                self.decoded += 1
                found = self._index_of_pts.get(int(frame.pts if frame.pts is not None else -1))
                if found == index:
                    self._next = index + 1
                    return self._picture(frame)
        except (av.error.FFmpegError, OSError, ValueError) as problem:
            raise RecordingError(
                f"camera {self.video.camera}: frame {index} of {self.video.path} does not decode ({problem}). "
                "Restore the file, or leave the episode out."
            ) from None
        raise RecordingError(
            f"camera {self.video.camera}: {self.video.path} ends before frame {index} of {len(self.video)}. "
            "The video is shorter than its rows: restore it, or leave the episode out."
        )

    def _picture(self, frame: Any) -> np.ndarray:
        from av.video.reformatter import ColorRange, Interpolation

        # Full-range frames (JPEG, yuvj) hold what a camera saw to the last step; the fast conversion darkens them by
        # up to 1 of 255. Exact, it takes 3 ms instead of 0.2 ms at 640 × 480: ordinary video is left to the fast one.
        exact = Interpolation.BICUBIC | Interpolation.FULL_CHR_H_INT | Interpolation.ACCURATE_RND
        how = {"interpolation": int(exact)} if frame.color_range == ColorRange.JPEG else {}
        picture: np.ndarray = frame.to_ndarray(format=PIXELS[self.video.pixels], **how)
        if self.video.pixels == "depth_m":
            return np.ascontiguousarray(picture).view("<f4")[..., 0]
        return picture
