"""Files of bounded size for many episodes: rows in Parquet, videos joined, and the statistics of what was written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from twinproof.nouns.errors import RecordingError
from twinproof.nouns.hashing import Json
from twinproof.nouns.video import PIXELS, Video
from twinproof.nouns.video_write import Encoding, encode


def mebibytes(count: float) -> int:
    """Bytes in so many MiB, the unit of LeRobot's size caps."""
    return int(count * (1 << 20))


@dataclass(frozen=True, eq=False)
class Tally:
    """Count, extremes, mean and summed squared deviation of rows, which can be joined without the rows."""

    count: int
    low: np.ndarray
    high: np.ndarray
    mean: np.ndarray
    spread: np.ndarray

    @staticmethod
    def of(rows: np.ndarray) -> Tally:
        """The tally of (T, D) values."""
        value = rows.astype(np.float64)
        mean = value.mean(axis=0)
        return Tally(len(value), value.min(axis=0), value.max(axis=0), mean, ((value - mean) ** 2).sum(axis=0))

    @staticmethod
    def of_picture(picture: np.ndarray) -> Tally:
        """The tally of one 8-bit picture, channels scaled to 0 … 1 and shaped (3, 1, 1); it counts as one."""
        flat = picture.reshape(-1, 3 if picture.ndim == 3 else 1)
        # A histogram of 256 values is exact, and needs no copy of the picture as floats.
        counts = np.stack([np.bincount(flat[:, c], minlength=256) for c in range(flat.shape[1])])
        levels = np.arange(256) / 255.0
        mean = counts @ levels / len(flat)
        spread = np.maximum(counts @ levels**2 / len(flat) - mean**2, 0.0)
        low, high = (counts > 0).argmax(axis=1) / 255.0, (255 - (counts[:, ::-1] > 0).argmax(axis=1)) / 255.0
        parts = [np.broadcast_to(part, 3).reshape(3, 1, 1) for part in (low, high, mean, spread)]
        return Tally(1, *parts)

    def joined(self, other: Tally) -> Tally:
        """The tally of both (Chan, Golub and LeVeque 1979)."""
        count, delta = self.count + other.count, other.mean - self.mean
        mean = self.mean + delta * (other.count / count)
        spread = self.spread + other.spread + delta**2 * (self.count * other.count / count)
        return Tally(count, np.minimum(self.low, other.low), np.maximum(self.high, other.high), mean, spread)

    def plain(self) -> dict[str, Json]:
        """What LeRobot stores: min, max, mean, std, count."""
        std = np.sqrt(self.spread / self.count)
        stored = {"min": self.low, "max": self.high, "mean": self.mean, "std": std}
        return {**{name: value.tolist() for name, value in stored.items()}, "count": [self.count]}


class RowFiles:
    """Data files, one row group for each episode; a new file begins before the size cap is passed."""

    def __init__(self, root: Path, template: str, cap: int, chunk_files: int) -> None:
        self.total = 0  # rows written
        self._root, self._template, self._cap, self._chunk_files = root, template, cap, chunk_files
        self._number = -1
        self._writer: Any = None
        self._sink: Any = None

    def add(self, columns: dict[str, np.ndarray]) -> tuple[int, int]:
        """Writes one episode's rows; gives the chunk and file they are in."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.table({name: _arrow(values) for name, values in columns.items()})
        if self._writer is None or self._sink.tell() + table.nbytes > self._cap:
            self.close()
            self._number += 1
            chunk, file = divmod(self._number, self._chunk_files)
            path = self._root / self._template.format(chunk_index=chunk, file_index=file)
            path.parent.mkdir(parents=True, exist_ok=True)
            self._sink = path.open("wb")
            self._writer = pq.ParquetWriter(self._sink, table.schema, write_page_checksum=True)
        self._writer.write_table(table)
        self.total += table.num_rows
        return divmod(self._number, self._chunk_files)

    def close(self) -> None:
        """Ends the file being written."""
        writer, sink, self._writer, self._sink = self._writer, self._sink, None, None
        if writer is not None:
            try:
                writer.close()
            finally:
                sink.close()


def _arrow(values: np.ndarray) -> Any:
    """(T, 1) as plain numbers and (T, D) as lists of fixed size, as LeRobot's loader wants them."""
    import pyarrow as pa

    flat = pa.array(np.ascontiguousarray(values).ravel())
    return flat if values.shape[1] == 1 else pa.FixedSizeListArray.from_arrays(flat, values.shape[1])


@dataclass(frozen=True)
class Codec:
    """How videos are stored: a key frame at every second frame, so that any episode can be cut out."""

    encoder: str
    fps: int
    cap: int
    chunk_files: int

    @property
    def options(self) -> dict[str, str]:
        """The encoder's options: LeRobot's own defaults."""
        speed = {"libsvtav1": {"preset": "12"}, "libx264": {"preset": "veryfast", "bf": "0"}}
        quiet = {"libx265": {"preset": "veryfast", "x265-params": "log-level=error:bframes=0:open-gop=0"}}
        return {"g": "2", "crf": "30", **{**speed, **quiet}.get(self.encoder, {})}


class JoinedVideos:
    """One camera's videos, episode after episode in one file; a new file begins before the size cap is passed."""

    def __init__(self, root: Path, template: str, feature: str, codec: Codec) -> None:
        self._root, self._template, self._feature, self._codec = root, template, feature, codec
        self._number, self._frames, self._bytes = -1, 0, 0
        self._output: Any = None
        self._stream: Any = None
        self._sink: Any = None
        self._first: Video | None = None

    def add(
        self, pictures: Iterator[np.ndarray], video: Video, parts: Path, count: int
    ) -> tuple[Tally, dict[str, Json]]:
        """Encodes one episode and appends it; gives its statistics and its place."""
        part = parts / f"{video.camera}.mp4"
        tally = self._encode(pictures, video, part, count)
        size = part.stat().st_size
        if self._output is None or self._bytes + size > self._codec.cap:
            self.close()
            self._number, self._frames, self._bytes = self._number + 1, 0, 0
        self._append(part)
        chunk, file = divmod(self._number, self._codec.chunk_files)
        low, high = self._frames / self._codec.fps, (self._frames + count) / self._codec.fps
        self._frames, self._bytes = self._frames + count, self._bytes + size
        part.unlink()
        return tally, {"chunk_index": chunk, "file_index": file, "from_timestamp": low, "to_timestamp": high}

    def _encode(self, pictures: Iterator[np.ndarray], video: Video, part: Path, count: int) -> Tally:
        import av

        os.environ.setdefault("SVT_LOG", "1")  # errors only: the AV1 encoder prints its settings on stderr otherwise
        found: list[Tally] = []

        def stamped() -> Iterator[tuple[float, np.ndarray]]:
            for k, picture in enumerate(pictures):
                own = Tally.of_picture(picture)
                found[:] = [found[0].joined(own) if found else own]
                yield k / self._codec.fps, picture

        how = Encoding(self._codec.encoder, "yuv420p", PIXELS[video.pixels], self._codec.options)
        try:
            written = encode(stamped(), video.camera, part, "rgb", how)
        except (av.error.FFmpegError, ValueError) as problem:
            raise RecordingError(
                f"camera {video.camera}: {video.width}×{video.height} pictures cannot be encoded with "
                f"{self._codec.encoder!r} ({problem}). Choose libsvtav1, libx264 or libx265; sides must be even."
            ) from None
        if len(written) != count:
            raise RecordingError(
                f"camera {video.camera}: {self._codec.encoder!r} made {len(written)} frames of {count}. Choose another."
            )
        self._first = self._first or written
        return found[0]

    def _append(self, part: Path) -> None:
        import av

        with av.open(str(part)) as source:
            stream = source.streams.video[0]
            if self._output is None:
                chunk, file = divmod(self._number, self._codec.chunk_files)
                place = {"video_key": self._feature, "chunk_index": chunk, "file_index": file}
                path = self._root / self._template.format(**place)
                path.parent.mkdir(parents=True, exist_ok=True)
                self._sink = path.open("wb")  # ours to close: PyAV keeps a file open whose end cannot be written
                self._output = av.open(self._sink, "w", format="mp4")
                self._stream = self._output.add_stream_from_template(stream, opaque=True)
            ahead = round(Fraction(self._frames, self._codec.fps) / stream.time_base)
            for packet in source.demux(stream):
                if packet.size and packet.pts is not None:
                    packet.pts, packet.dts = packet.pts + ahead, (packet.dts or 0) + ahead
                    packet.stream = self._stream
                    self._output.mux(packet)

    def feature(self) -> Json:
        """The camera's row in the feature table."""
        first = self._first
        assert first is not None, "a camera has at least one episode"
        about = {
            "video.height": first.height,
            "video.width": first.width,
            "video.codec": first.codec,
            "video.pix_fmt": "yuv420p",
            "video.is_depth_map": False,
            "video.fps": self._codec.fps,
            "video.channels": 3,
            "has_audio": False,
        }
        names = ["height", "width", "channels"]
        return {"dtype": "video", "shape": [first.height, first.width, 3], "names": names, "info": about}

    def close(self) -> None:
        """Ends the file being written."""
        output, sink, self._output, self._stream, self._sink = self._output, self._sink, None, None, None
        if output is not None:
            try:
                output.close()
            finally:
                sink.close()
