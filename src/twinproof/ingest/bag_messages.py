"""Messages to numbers: one track for each topic, which keeps compact arrays and never the messages themselves."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import numpy as np

from twinproof.ingest.bag_joints import ENDINGS, JointTrack
from twinproof.ingest.bag_storage import Place, Topic
from twinproof.ingest.bag_table import Table
from twinproof.ingest.bag_types import WIDEST, Leaf, Left, has_header, leaves, same_fields, standard_type, store_of
from twinproof.nouns.rig import Intrinsics

POSE = ("x", "y", "z", "qw", "qx", "qy", "qz")
POSE_UNITS = ("m", "m", "m", "1", "1", "1", "1")
PICTURES = ("sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage")
EXACT = 2.0**53  # the largest whole number up to which a float64 holds all


@dataclass(frozen=True)
class Plan:
    """Which fields of a type become which columns, where the type says what they mean."""

    paths: tuple[str, ...]
    columns: tuple[str, ...]
    units: tuple[str, ...]
    kind: str
    absent: tuple[tuple[str, slice], ...] = ()  # a covariance that starts with -1 says that these were not measured


def _paths(prefix: str, names: str) -> tuple[str, ...]:
    return tuple(f"{prefix}.{name}" for name in names)


PLANS = {
    "geometry_msgs/msg/PoseStamped": Plan(
        _paths("pose.position", "xyz") + _paths("pose.orientation", "wxyz"), POSE, POSE_UNITS, "pose"
    ),
    "geometry_msgs/msg/WrenchStamped": Plan(
        _paths("wrench.force", "xyz") + _paths("wrench.torque", "xyz"),
        ("fx", "fy", "fz", "tx", "ty", "tz"),
        ("N",) * 3 + ("N m",) * 3,
        "wrench",
    ),
    "sensor_msgs/msg/Imu": Plan(
        _paths("orientation", "wxyz") + _paths("angular_velocity", "xyz") + _paths("linear_acceleration", "xyz"),
        ("qw", "qx", "qy", "qz", "wx", "wy", "wz", "ax", "ay", "az"),
        ("1",) * 4 + ("rad/s",) * 3 + ("m/s^2",) * 3,
        "imu",
        (
            ("orientation_covariance", slice(0, 4)),
            ("angular_velocity_covariance", slice(4, 7)),
            ("linear_acceleration_covariance", slice(7, 10)),
        ),
    ),
}


@dataclass
class _Samples:
    """Growing arrays of one table."""

    stamp_ns: array[int] = field(default_factory=lambda: array("q"))
    log_ns: array[int] = field(default_factory=lambda: array("q"))
    value: array[float] = field(default_factory=lambda: array("d"))

    def add(self, stamp_ns: int, log_ns: int, row: Any) -> None:
        self.stamp_ns.append(stamp_ns)
        self.log_ns.append(log_ns)
        self.value.extend(row)

    def arrays(self, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        stamp_ns, log_ns = np.array(self.stamp_ns, np.int64), np.array(self.log_ns, np.int64)
        return stamp_ns, log_ns, np.array(self.value, np.float64).reshape(len(log_ns), width)


def _stamp_ns(stamp: Any) -> int:
    return int(stamp.sec) * 1_000_000_000 + int(stamp.nanosec)


class PlanTrack:
    """A stamped type whose columns and units are known: pose, wrench, IMU."""

    def __init__(self, topic: Topic, store: Any, plan: Plan) -> None:
        self._topic, self._plan = topic, plan
        self._decode, self._msgtype = store.deserialize_cdr, standard_type(topic.msgtype)
        self._get = attrgetter(*plan.paths)
        self._samples, self._frames = _Samples(), dict[str, int]()
        self._absent: list[tuple[int, slice]] = []

    def add(self, log_ns: int, data: bytes, place: Place) -> None:
        """One message."""
        message = self._decode(data, self._msgtype)
        number = len(self._samples.log_ns)
        self._samples.add(_stamp_ns(message.header.stamp), log_ns, self._get(message))
        self._frames.setdefault(message.header.frame_id, number)
        for covariance, columns in self._plan.absent:
            if getattr(message, covariance)[0] == -1:
                self._absent.append((number, columns))

    def tables(self) -> list[Table]:
        """One table, or none if there was no message."""
        if not self._samples.log_ns:
            return []
        stamp_ns, log_ns, value = self._samples.arrays(len(self._plan.columns))
        missing = np.zeros(value.shape, dtype=bool)
        for row, columns in self._absent:
            missing[row, columns] = True
        frame = next(iter(self._frames))
        problem = ""
        if len(self._frames) > 1:
            other = list(self._frames)[1]
            problem = f"is given in the frame {frame!r} and from message {self._frames[other]} on in {other!r}"
        plan = self._plan
        return [
            Table(
                self._topic.name, plan.columns, stamp_ns, log_ns, value, missing if missing.any() else None,
                units=plan.units, kind=plan.kind, frame=frame, problem=problem,
            )
        ]  # fmt: skip


class FieldTrack:
    """Any other type: every number in it, columns named by their path."""

    def __init__(self, topic: Topic, store: Any, parts: list[Leaf], named: bool = True) -> None:
        self._topic, self._parts, self._named = topic, parts, named
        self._decode, self._msgtype = store.deserialize_cdr, standard_type(topic.msgtype)
        self._stamped = has_header(store, self._msgtype)
        self._get = [_getter(leaf.path) for leaf in parts]
        self._many = any(leaf.many for leaf in parts)
        self._lengths: tuple[int, ...] | None = None
        self._samples, self._problem = _Samples(), ""

    def add(self, log_ns: int, data: bytes, place: Place) -> None:
        """One message."""
        if self._problem:
            return
        message = self._decode(data, self._msgtype)
        found = [get(message) for get in self._get]
        lengths, row = self._row(found) if self._many else (tuple([1] * len(found)), found)
        if self._lengths is None:
            self._lengths = lengths
            if sum(lengths) > WIDEST:
                self._problem = f"carries {sum(lengths)} numbers in a message: a cloud, a grid or a scan, not a signal"
        elif lengths != self._lengths:
            leaf = next(k for k, length in enumerate(lengths) if length != self._lengths[k])
            self._problem = (
                f"has {lengths[leaf]} numbers in {self._parts[leaf].column} in message {len(self._samples.log_ns)}, "
                f"and {self._lengths[leaf]} in the first: a signal keeps its columns"
            )
        if not self._problem:
            self._samples.add(_stamp_ns(message.header.stamp) if self._stamped else 0, log_ns, row)

    def _row(self, found: list[Any]) -> tuple[tuple[int, ...], list[float]]:
        lengths, row = [], []
        for leaf, value in zip(self._parts, found, strict=True):
            if leaf.many:
                lengths.append(len(value))
                row.extend(value)
            else:
                lengths.append(1)
                row.append(value)
        return tuple(lengths), row

    def tables(self) -> list[Table]:
        """One table, or none if there was no message, or no number in any."""
        if self._lengths is None or not sum(self._lengths):
            return []
        columns: list[str] = []
        for leaf, length in zip(self._parts, self._lengths, strict=True):
            columns += [f"{leaf.column}[{i}]" for i in range(length)] if leaf.many else [leaf.column]
        stamp_ns, log_ns, value = self._samples.arrays(len(columns))
        wide = np.repeat([leaf.wide for leaf in self._parts], self._lengths)
        problem = self._problem
        if wide.any() and len(value) and np.abs(value[:, wide]).max() > EXACT:
            problem = problem or "has whole numbers beyond 2^53, which a float64 cannot hold"
        return [
            Table(
                self._topic.name, tuple(columns) if self._named else (), stamp_ns if self._stamped else None, log_ns,
                value, problem=problem,
            )
        ]  # fmt: skip


def _getter(path: tuple[str | int, ...]) -> Callable[[Any], Any]:
    if all(isinstance(part, str) for part in path):
        return attrgetter(".".join(str(part) for part in path))

    def get(message: Any) -> Any:
        for part in path:
            message = message[part] if isinstance(part, int) else getattr(message, part)
        return message

    return get


class TransformTrack:
    """Transforms: one pose signal for each pair of frames."""

    def __init__(self, topic: Topic, store: Any) -> None:
        self._topic, self._store = topic, store
        self._static = topic.name.rstrip("/").endswith("tf_static")
        self._pairs: dict[tuple[str, str], _Samples] = {}

    def add(self, log_ns: int, data: bytes, place: Place) -> None:
        """One message, which may hold many transforms."""
        message = self._store.deserialize_cdr(data, standard_type(self._topic.msgtype))
        for entry in message.transforms:
            samples = self._pairs.setdefault((entry.header.frame_id, entry.child_frame_id), _Samples())
            p, q = entry.transform.translation, entry.transform.rotation
            samples.add(_stamp_ns(entry.header.stamp), log_ns, (p.x, p.y, p.z, q.w, q.x, q.y, q.z))

    def tables(self) -> list[Table]:
        """One table for each pair; a static transform that is sent again unchanged is one sample."""
        tables = []
        for (parent, child), samples in self._pairs.items():
            stamp_ns, log_ns, value = samples.arrays(len(POSE))
            problem = ""
            if self._static:
                if (value != value[0]).any():
                    problem = "is a static transform that changes"
                stamp_ns, log_ns, value = stamp_ns[:1], log_ns[:1], value[:1]
            tables.append(
                Table(
                    f"{self._topic.name}:{parent}>{child}", POSE, stamp_ns, log_ns, value, units=POSE_UNITS,
                    kind="pose", frame=parent, static=self._static, problem=problem,
                )
            )  # fmt: skip
        return tables


class PictureTrack:
    """When the pictures of a topic were taken and where they lie; the pictures stay in the bag."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self._stamp_ns, self._log_ns, self._place = array("q"), array("q"), array("q")

    def add(self, log_ns: int, data: bytes, place: Place) -> None:
        """One picture; its header comes first in the message."""
        if data[0] != 0 or data[1] > 1:
            raise ValueError(f"{self.topic.name}: a picture starts with {data[:4].hex()}, which is not CDR")
        sec, nanosec = struct.unpack_from("<iI" if data[1] else ">iI", data, 4)
        self._stamp_ns.append(sec * 1_000_000_000 + nanosec)
        self._log_ns.append(log_ns)
        self._place.extend(place)

    def __len__(self) -> int:
        return len(self._log_ns)

    def times(self) -> tuple[np.ndarray, np.ndarray]:
        """Stamps and log times in file order."""
        return np.array(self._stamp_ns, np.int64), np.array(self._log_ns, np.int64)

    def places(self) -> np.ndarray:
        """Places, one row for each picture."""
        return np.array(self._place, np.int64).reshape(-1, 4)

    def tables(self) -> list[Table]:
        """None: pictures are no numbers."""
        return []


class InfoTrack:
    """The calibration that a camera states: the first is taken, and a change is noted."""

    def __init__(self, topic: Topic, store: Any) -> None:
        self._topic, self._store = topic, store
        self._first: bytes | None = None
        self.intrinsics: Intrinsics | None = None
        self.note = ""

    def add(self, log_ns: int, data: bytes, place: Place) -> None:
        """One message; those with the bytes of the first are not decoded."""
        if data[12:] == self._first:
            return
        found = self._read(data)
        if self._first is None:
            self._first, self.intrinsics = data[12:], found
        elif found != self.intrinsics:
            self.note = f"{self._topic.name}: the calibration changes during the take; the first one is used"

    def _read(self, data: bytes) -> Intrinsics | None:
        message = self._store.deserialize_cdr(data, standard_type(self._topic.msgtype))
        if message.distortion_model not in ("", "plumb_bob", "rational_polynomial"):
            self.note = (
                f"{self._topic.name}: the distortion model {message.distortion_model!r} is not a pinhole's, so its "
                "calibration is not used; state one in the rig"
            )
            return None
        k = [float(number) for number in message.k]
        if not (np.isfinite(k).all() and k[0] > 0 and k[4] > 0):
            return None  # drivers without a calibration send zeros
        return Intrinsics(k[0], k[4], k[2], k[5], tuple(float(number) for number in message.d))

    def tables(self) -> list[Table]:
        """None: a calibration is no signal."""
        return []


Track = JointTrack | PlanTrack | FieldTrack | TransformTrack | PictureTrack | InfoTrack


def track_for(topic: Topic, left_out: dict[str, str]) -> Track | None:
    """What reads a topic; None, with the reason in `left_out`, for what carries neither numbers nor pictures."""
    msgtype = standard_type(topic.msgtype)
    if topic.encoding != "cdr":
        left_out[topic.name] = f"messages are {topic.encoding or 'of unknown encoding'}, not CDR"
        return None
    store = store_of(topic)
    if store is None:
        left_out[topic.name] = f"the bag has no definition of {msgtype}"
        return None
    if msgtype in PICTURES:
        return PictureTrack(topic)
    if msgtype == "sensor_msgs/msg/CameraInfo":
        return InfoTrack(topic, store)
    if msgtype == "sensor_msgs/msg/JointState" and same_fields(store, msgtype):
        return JointTrack(topic.name)
    if msgtype in ("tf2_msgs/msg/TFMessage", "tf/msg/tfMessage"):
        return TransformTrack(topic, store)
    if msgtype in PLANS:
        return PlanTrack(topic, store, PLANS[msgtype])
    return _field_track(topic, store, msgtype, left_out)


def _field_track(topic: Topic, store: Any, msgtype: str, left_out: dict[str, str]) -> FieldTrack | None:
    if msgtype.startswith("std_msgs/msg/") and msgtype.endswith("MultiArray"):
        return FieldTrack(topic, store, [Leaf(("data",), "data", many=True)], named=False)
    found = list(leaves(store, msgtype))
    numbers = [leaf for leaf in found if isinstance(leaf, Leaf)]
    unread = {left.column: left.reason for left in found if isinstance(left, Left)}
    if not numbers:
        why = "; ".join(f"{column} is {reason}" for column, reason in unread.items())
        left_out[topic.name] = f"{msgtype} carries no numbers" + (f" ({why})" if why else "")
        return None
    if "data" in unread:  # point clouds, grids, encoded video: the numbers beside the bytes only describe them
        left_out[topic.name] = f"{msgtype}: its data are {unread['data']}"
        return None
    for column, reason in unread.items():
        left_out[f"{topic.name}.{column}"] = f"{reason}; the other fields are read"
    return FieldTrack(topic, store, numbers)


def sources_of(topic: Topic) -> tuple[str, ...]:
    """The names under which a topic's signals and pictures appear."""
    if standard_type(topic.msgtype) == "sensor_msgs/msg/JointState":
        return tuple(topic.name + ending for ending in ENDINGS)
    return (topic.name,)
