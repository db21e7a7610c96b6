"""A recording as ROS 2 bags in mcap storage, one for each episode: signals, stamps and log times come back exactly.

OUT/000000_ID/metadata.yaml, 000000_ID.mcap   what ROS tools read
OUT/000000_ID/twinproof.json                  what they cannot hold (bag_sidecar.py)

Joint signals travel as sensor_msgs/JointState, others as twinproof_msgs/Sample, whose definition is in the bag.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from twinproof.ingest.bag_joints import ENDINGS
from twinproof.ingest.bag_sidecar import NAME, TIMES, CameraNote, Sidecar, SignalNote
from twinproof.ingest.bag_storage import need_ros
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import RecordingError
from twinproof.nouns.files import new_folder, write_json
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import Camera, Rig, SignalRule
from twinproof.nouns.signal import Signal
from twinproof.nouns.strict import plain
from twinproof.nouns.video import Video

SAMPLE = "twinproof_msgs/msg/Sample"
DEFINITION = "std_msgs/Header header\nfloat64[] value\n"
JOINT_FIELD = {"joint_position": 0, "joint_command": 0, "joint_velocity": 1, "joint_torque": 2}
ENCODING = {"rgb": "rgb8", "gray": "mono8", "depth_mm": "16UC1", "depth_m": "32FC1"}
PACKED = {("mjpeg", "rgb"): "jpeg", ("mjpeg", "gray"): "mono8; jpeg compressed", ("png", "rgb"): "png",
          ("png", "gray"): "mono8; png compressed", ("png", "depth_mm"): "16UC1; png compressed"}  # fmt: skip
LATEST_NS = 2**31 * 10**9  # a ROS stamp counts seconds in 32 bits


@dataclass(frozen=True)
class _Stream:
    """One topic to be written: its messages in sample order, with both clocks."""

    key: str  # of its times in the sidecar
    source: str  # the topic, with the field where it is one of a JointState
    kind: Any  # the message's class
    frame: str
    time_s: np.ndarray
    log_time_s: np.ndarray | None
    fields: Iterator[tuple[Any, ...]]  # of each message, after its header

    @property
    def topic(self) -> str:
        """The topic without the field."""
        return self.source.partition(":")[0]


def write_mcap(recording: Recording, out: Path, progress: Progress = quiet) -> None:
    """Writes a folder of bags that does not exist yet; all of it or nothing."""
    need_ros()
    with new_folder(out) as scratch:
        for number, episode in enumerate(recording.episodes):
            _write_episode(scratch / f"{number:06d}_{episode.id}", episode, recording.rig)
            progress(number + 1, episode.id[:8], len(recording.episodes))


def _store() -> Any:
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    store = get_typestore(Stores.ROS2_JAZZY)
    store.register(get_types_from_msg(DEFINITION, SAMPLE))
    return store


def _write_episode(folder: Path, episode: Episode, rig: Rig) -> None:
    store = _store()
    used: set[str] = set()
    streams, signals, cameras = [], {}, {}
    rules, views = {}, {}
    for name, signal in episode.signals.items():
        stream = _signal_stream(signal, _topic(name, used), store)
        note = _signal_note(signal, episode)
        streams.append(stream)
        signals[stream.source] = note
        rules[name] = _rule(rig.signals.get(name), stream.source, note)
    for name, video in episode.videos.items():
        base = _topic(name, used)
        stream = _video_stream(video, base, store)
        streams.append(stream)
        cameras[stream.source] = CameraNote(name, video.pixels, len(video), video.log_time_s is not None)
        views[name] = replace(
            rig.cameras.get(name, Camera("", intrinsics_unknown=True)), source=stream.source, time="header"
        )
        streams += _info_streams(video, base, views[name], store)
    shift_ns = _shift_ns(streams, episode)
    _write_bag(folder, streams, episode.start_ns + shift_ns, store)
    sidecar = Sidecar(
        replace(rig, signals=rules, cameras=views, labels=(), ignore=()), episode.source, episode.start_ns, shift_ns,
        dict(episode.labels), episode.outcome, tuple(episode.notes), signals, cameras,
    )  # fmt: skip
    times = _inexact(streams)
    if times:
        np.savez_compressed(folder / TIMES, allow_pickle=False, **times)
    write_json(folder / NAME, plain(sidecar))


def _topic(name: str, used: set[str]) -> str:
    """A legal and unused topic for a name."""
    plain_name = re.sub(r"[^A-Za-z0-9_]", "_", name)
    topic = "/" + (plain_name if plain_name[0].isalpha() else f"s_{plain_name}")
    while topic in used:
        topic += "_"
    used.add(topic)
    return topic


def _signal_note(signal: Signal, episode: Episode) -> SignalNote:
    frames = {column.frame for column in signal.columns}
    if len(frames) > 1:
        raise RecordingError(
            f"{episode.id}: {signal.name} has columns in the frames {', '.join(sorted(frames))}. A topic has one "
            "frame: give each its own signal in the rig."
        )
    return SignalNote(
        signal.name, signal.kind, tuple(column.name for column in signal.columns),
        tuple(column.unit for column in signal.columns), frames.pop() if frames else "", len(signal.time_s),
        signal.log_time_s is not None,
    )  # fmt: skip


def _rule(rule: SignalRule | None, source: str, note: SignalNote) -> SignalRule:
    return replace(
        rule or SignalRule(source), source=source, kind=note.kind, unit=None, units=note.units, columns=note.columns,
        frame=note.frame, time="header",
    )  # fmt: skip


def _signal_stream(signal: Signal, topic: str, store: Any) -> _Stream:
    value = np.ascontiguousarray(signal.value, dtype=np.float64)  # rosbags writes other dtypes bit for bit
    key, frame = f"signal.{signal.name}", signal.columns[0].frame if signal.columns else ""
    if signal.kind not in JOINT_FIELD:
        rows = ((row,) for row in value)
        return _Stream(key, topic, store.types[SAMPLE], frame, signal.time_s, signal.log_time_s, rows)
    k, names, none = JOINT_FIELD[signal.kind], [column.name for column in signal.columns], np.zeros(0)
    fields = ((names, *(row if i == k else none for i in range(3))) for row in value)
    joint_state = store.types["sensor_msgs/msg/JointState"]
    return _Stream(key, topic + ENDINGS[k], joint_state, frame, signal.time_s, signal.log_time_s, fields)


def _video_stream(video: Video, base: str, store: Any) -> _Stream:
    key, stated = f"camera.{video.camera}", PACKED.get((video.codec, video.pixels))
    if stated:
        files = ((stated, np.frombuffer(data, np.uint8)) for data in packets(video))
        kind, topic = store.types["sensor_msgs/msg/CompressedImage"], f"{base}/image_raw/compressed"
        return _Stream(key, topic, kind, base[1:], video.time_s, video.log_time_s, files)
    kind = store.types["sensor_msgs/msg/Image"]
    return _Stream(key, f"{base}/image_raw", kind, base[1:], video.time_s, video.log_time_s, _pictures(video))


def _pictures(video: Video) -> Iterator[tuple[Any, ...]]:
    for _, picture in video.frames():
        little = np.ascontiguousarray(picture.astype(picture.dtype.newbyteorder("<"), copy=False))
        data, (height, width) = little.reshape(-1).view(np.uint8), little.shape[:2]
        yield height, width, ENCODING[video.pixels], 0, len(data) // height, data


def packets(video: Video) -> Iterator[bytes]:
    """The encoded pictures of a video whose frames stand alone, in order, nothing decoded."""
    import av

    number, pts = 0, video.pts.tolist()
    with av.open(str(video.path)) as container:
        for packet in container.demux(container.streams.video[0]):
            if packet.size:
                if pts[number : number + 1] != [packet.pts]:
                    break
                number += 1
                yield bytes(packet)
    if number != len(video):
        raise RecordingError(f"camera {video.camera}: frame {number} is not where it was in {video.path}. Restore it.")


def _info_streams(video: Video, base: str, camera: Camera, store: Any) -> list[_Stream]:
    """The calibration with every frame, as ROS tools expect it."""
    lens = camera.intrinsics
    if lens is None:
        return []
    k = np.array([lens.fx, 0, lens.cx, 0, lens.fy, lens.cy, 0, 0, 1], dtype=np.float64)
    p = np.array([lens.fx, 0, lens.cx, 0, 0, lens.fy, lens.cy, 0, 0, 0, 1, 0], dtype=np.float64)
    model = "rational_polynomial" if len(lens.distortion) > 5 else "plumb_bob"
    info, region = store.types["sensor_msgs/msg/CameraInfo"], store.types["sensor_msgs/msg/RegionOfInterest"]
    lens_d = np.array(lens.distortion, dtype=np.float64)

    stated = (video.height, video.width, model, lens_d, k, np.eye(3).reshape(-1), p, 0, 0, region(0, 0, 0, 0, False))
    each = itertools.repeat(stated, len(video))
    return [_Stream("", f"{base}/camera_info", info, base[1:], video.time_s, video.log_time_s, each)]


def _nanoseconds(time_s: np.ndarray) -> np.ndarray:
    ns: np.ndarray = np.rint(time_s * 1e9).astype(np.int64)
    return ns


def _clocks(stream: _Stream) -> list[tuple[str, np.ndarray]]:
    log = [] if stream.log_time_s is None else [("log_time_s", stream.log_time_s)]
    return [("time_s", stream.time_s), *log]


def _shift_ns(streams: list[_Stream], episode: Episode) -> int:
    """What must be added so that no stamp lies before 0, where stamps cannot be."""
    times = [_nanoseconds(times) for stream in streams for _, times in _clocks(stream)]
    low, high = (episode.start_ns + int(edge) for edge in (min(t.min() for t in times), max(t.max() for t in times)))
    shift_ns = max(0, -low)
    if high + shift_ns >= LATEST_NS:
        raise RecordingError(
            f"episode {episode.id} reaches {high} ns, and a ROS stamp ends at {LATEST_NS} ns (in 2038). Mend start_ns."
        )
    return shift_ns


def _inexact(streams: list[_Stream]) -> dict[str, np.ndarray]:
    """Times that whole nanoseconds do not give back."""
    return {
        f"{stream.key}.{clock}": times
        for stream in streams
        for clock, times in _clocks(stream)
        if stream.key and (_nanoseconds(times) / 1e9 != times).any()
    }


def _write_bag(folder: Path, streams: list[_Stream], start_ns: int, store: Any) -> None:
    """All messages in the order of log times; within a topic, always in sample order."""
    from rosbags.rosbag2 import StoragePlugin, Writer

    stamps = [start_ns + _nanoseconds(stream.time_s) for stream in streams]
    logs = [
        stamp if stream.log_time_s is None else start_ns + _nanoseconds(stream.log_time_s)
        for stream, stamp in zip(streams, stamps, strict=True)
    ]
    owner = np.repeat(np.arange(len(streams)), [len(log) for log in logs])
    order = np.argsort(np.concatenate([np.maximum.accumulate(log) for log in logs]), kind="stable")
    header, time = store.types["std_msgs/msg/Header"], store.types["builtin_interfaces/msg/Time"]
    with Writer(folder, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        topics = [writer.add_connection(stream.topic, stream.kind.__msgtype__, typestore=store) for stream in streams]
        done = [0] * len(streams)
        for k in owner[order].tolist():
            stream, i, done[k] = streams[k], done[k], done[k] + 1
            stamp = time(*divmod(int(stamps[k][i]), 1_000_000_000))
            message = stream.kind(header(stamp, stream.frame), *next(stream.fields))
            writer.write(topics[k], int(logs[k][i]), store.serialize_cdr(message, stream.kind.__msgtype__))
