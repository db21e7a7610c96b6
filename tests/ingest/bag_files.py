"""Small ROS 2 bags for tests, written by rosbags in either storage."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from twinproof.ingest.bag_read import BagReader
from twinproof.ingest.raw import RawEpisode, RawSignal
from twinproof.nouns.rig import Rig

STORE = get_typestore(Stores.ROS2_JAZZY)
STORE.register(
    get_types_from_msg(
        "std_msgs/Header header\nfloat64 force\nint32[2] ticks\nuint64 serial\nPad pad\nPad[2] pads\nstring note\n"
        "Pad[] extra\nfloat32[] trail\n"
        "================================================================================\n"
        "MSG: lab_msgs/Pad\nfloat32 left\nbool touching\n",
        "lab_msgs/msg/Grip",
    )
)
STORE.register(get_types_from_msg("std_msgs/Header header\nstring format\nuint8[] data\n", "lab_msgs/msg/Film"))
T = STORE.types
START_NS = 1_700_000_000_123_456_789
STEP_NS = 20_000_000

Entry = tuple[str, str, int, Any]  # topic, type, log time, message


def stamp(ns: int) -> Any:
    """A builtin_interfaces/Time."""
    return T["builtin_interfaces/msg/Time"](*divmod(int(ns), 1_000_000_000))


def header(ns: int, frame: str = "") -> Any:
    """A std_msgs/Header."""
    return T["std_msgs/msg/Header"](stamp(ns), frame)


def floats(values: Iterable[float]) -> np.ndarray:
    """Numbers as rosbags must be given them."""
    return np.array(list(values), dtype=np.float64)


def joint_state(ns: int, names: list[str], position: Any, velocity: Any = (), effort: Any = ()) -> Any:
    """A sensor_msgs/JointState."""
    numbers = (floats(position), floats(velocity), floats(effort))
    return T["sensor_msgs/msg/JointState"](header(ns), names, *numbers)


def joints(count: int = 20, topic: str = "/joint_states", delay_ns: int = 3_000_000) -> list[Entry]:
    """Two joints with positions, velocities and efforts at 50 Hz, logged a little late."""
    entries = []
    for k in range(count):
        ns = START_NS + k * STEP_NS
        message = joint_state(ns, ["a", "b"], [0.01 * k, -0.02 * k], [0.5, -1.0], [0.1 * k, 2.0])
        entries.append((topic, "sensor_msgs/msg/JointState", ns + delay_ns, message))
    return entries


def image(ns: int, picture: np.ndarray, encoding: str, pad: int = 0, big: bool = False) -> Any:
    """A sensor_msgs/Image whose rows end in `pad` bytes of padding."""
    ordered = picture.astype(picture.dtype.newbyteorder(">" if big else "<"))
    rows = np.ascontiguousarray(ordered).view(np.uint8).reshape(picture.shape[0], -1)
    rows = np.pad(rows, ((0, 0), (0, pad)))
    size = (picture.shape[0], picture.shape[1], encoding, int(big), rows.shape[1])
    return T["sensor_msgs/msg/Image"](header(ns, "cam"), *size, np.ascontiguousarray(rows).reshape(-1))


def compressed(ns: int, data: bytes, form: str = "jpeg") -> Any:
    """A sensor_msgs/CompressedImage."""
    return T["sensor_msgs/msg/CompressedImage"](header(ns, "cam"), form, np.frombuffer(data, np.uint8))


def camera_info(ns: int, fx: float = 50.0, model: str = "plumb_bob") -> Any:
    """A sensor_msgs/CameraInfo of 64×48 pixels."""
    k = floats([fx, 0, 32, 0, fx, 24, 0, 0, 1])
    p = floats([fx, 0, 32, 0, 0, fx, 24, 0, 0, 0, 1, 0])
    region = T["sensor_msgs/msg/RegionOfInterest"](0, 0, 0, 0, False)
    distortion = floats([0.1, -0.2, 0, 0, 0])
    return T["sensor_msgs/msg/CameraInfo"](
        header(ns), 48, 64, model, distortion, k, floats(np.eye(3).reshape(-1)), p, 0, 0, region
    )


def vector(x: float, y: float, z: float) -> Any:
    """A geometry_msgs/Vector3."""
    return T["geometry_msgs/msg/Vector3"](x, y, z)


def quaternion(w: float, x: float, y: float, z: float) -> Any:
    """A geometry_msgs/Quaternion from w first."""
    return T["geometry_msgs/msg/Quaternion"](x, y, z, w)


def transform(ns: int, parent: str, child: str, x: float) -> Any:
    """A geometry_msgs/TransformStamped along x."""
    pose = T["geometry_msgs/msg/Transform"](vector(x, 2.0, 3.0), quaternion(1.0, 0.0, 0.0, 0.0))
    return T["geometry_msgs/msg/TransformStamped"](header(ns, parent), child, pose)


def write_bag(
    folder: Path, entries: Iterable[Entry], storage: str = "mcap", compression: str = "", chunk: int | None = None
) -> Path:
    """A bag folder; messages are written in the order given. `chunk` closes an mcap chunk after so many messages."""
    plugin = StoragePlugin.MCAP if storage == "mcap" else StoragePlugin.SQLITE3
    writer = Writer(folder, version=9, storage_plugin=plugin)
    if compression:
        writer.set_compression(CompressionMode[compression.upper()], CompressionFormat.ZSTD)
    connections: dict[tuple[str, str], Any] = {}
    with writer:
        for number, (topic, msgtype, log_ns, message) in enumerate(entries):
            if (topic, msgtype) not in connections:
                connections[topic, msgtype] = writer.add_connection(topic, msgtype, typestore=STORE)
            raw = message if isinstance(message, bytes) else STORE.serialize_cdr(message, msgtype)
            writer.write(connections[topic, msgtype], log_ns, raw)
            if chunk and number % chunk == chunk - 1:
                writer.storage.close_chunk()  # type: ignore[union-attr]
    return folder


def write_checked_mcap(path: Path, entries: Iterable[Entry], compression: str = "ZSTD", chunk_size: int = 1024) -> Path:
    """A bare mcap with chunk checksums, as ROS 2's own recorder writes it."""
    from mcap.writer import CompressionType
    from mcap.writer import Writer as McapWriter

    with path.open("wb") as handle:
        writer = McapWriter(handle, chunk_size=chunk_size, compression=CompressionType[compression])
        writer.start(profile="ros2", library="test")
        channels: dict[tuple[str, str], int] = {}
        for topic, msgtype, log_ns, message in entries:
            if (topic, msgtype) not in channels:
                text = STORE.generate_msgdef(msgtype, ros_version=2)[0]
                schema = writer.register_schema(msgtype, "ros2msg", text.encode())
                channels[topic, msgtype] = writer.register_channel(topic, "cdr", schema)
            data = bytes(STORE.serialize_cdr(message, msgtype))
            writer.add_message(channels[topic, msgtype], log_ns, data, log_ns)
        writer.finish()
    return path


def many(topic: str, msgtype: str, message: Callable[[int, int], Any], count: int = 3) -> list[Entry]:
    """`message(ns, k)` at 50 Hz, logged 1 ms late."""
    stamps = [START_NS + k * STEP_NS for k in range(count)]
    return [(topic, msgtype, ns + 1_000_000, message(ns, k)) for k, ns in enumerate(stamps)]


def read(path: Path, **rig: Any) -> RawEpisode:
    """The first episode under a rig."""
    return next(iter(BagReader(path).episodes(Rig("bot", **rig))))


def signal(episode: RawEpisode, source: str) -> RawSignal:
    """The signal of one source."""
    return next(found for found in episode.signals if found.source == source)


def told(described: dict[str, Any]) -> dict[str, str]:
    """What a reader says it left out: name -> reason."""
    return dict(text.split(": ", 1) for text in described["left_out"])
