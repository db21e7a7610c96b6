"""How fast a source is read, beside the usual tools: `python -m bench.ingest`.

Ways to do the same work take turns, so that a busy machine slows both, and the best of each counts.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

JOINTS = 14
STATES = 20_000
ROUNDS = 5


@dataclass(frozen=True)
class Row:
    """One comparison: what was done how often in a second, by us and by the other."""

    what: str
    ours_per_s: float
    other: str
    other_per_s: float

    def __str__(self) -> str:
        ratio = self.ours_per_s / self.other_per_s
        return (
            f"{self.what:<34} twinproof {self.ours_per_s:>11,.0f}/s   {self.other:<24} {self.other_per_s:>11,.0f}/s   "
            f"ratio {ratio:6.2f}"
        )


def best_of(ways: list[Callable[[], Any]], rounds: int = ROUNDS) -> list[float]:
    """The least seconds each way took, the ways taking turns."""
    least = [np.inf] * len(ways)
    for _ in range(rounds):
        for k, way in enumerate(ways):
            start = time.perf_counter()
            way()
            least[k] = min(least[k], time.perf_counter() - start)
    return least


def write_joint_bag(folder: Path) -> Path:
    """An mcap bag of joint states at 500 Hz with poses and small pictures among them."""
    from rosbags.rosbag2 import StoragePlugin, Writer
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.ROS2_JAZZY)
    types, rng = store.types, np.random.default_rng(0)
    names = [f"arm_{k}_joint" for k in range(JOINTS)]
    with Writer(folder, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        topics = {
            name: writer.add_connection(f"/{name.lower()}", f"{room}/msg/{name}", typestore=store)
            for room, name in (
                ("sensor_msgs", "JointState"), ("geometry_msgs", "PoseStamped"), ("sensor_msgs", "CompressedImage")
            )
        }  # fmt: skip
        for k in range(STATES):
            ns = 1_700_000_000_000_000_000 + 2_000_000 * k
            header = types["std_msgs/msg/Header"](types["builtin_interfaces/msg/Time"](*divmod(ns, 10**9)), "base")
            messages = [
                ("JointState", types["sensor_msgs/msg/JointState"](header, names, *rng.normal(size=(3, JOINTS))))
            ]
            if k % 20 == 0:
                point, turn = (
                    types["geometry_msgs/msg/Point"](k, 0, 0),
                    types["geometry_msgs/msg/Quaternion"](0, 0, 0, 1),
                )
                pose = types["geometry_msgs/msg/Pose"](point, turn)
                messages.append(("PoseStamped", types["geometry_msgs/msg/PoseStamped"](header, pose)))
                data = rng.integers(0, 255, 20_000, dtype=np.uint8)
                messages.append(("CompressedImage", types["sensor_msgs/msg/CompressedImage"](header, "jpeg", data)))
            for name, message in messages:
                writer.write(topics[name], ns, store.serialize_cdr(message, message.__msgtype__))
    return folder


def rosbags_states(folder: Path) -> tuple[np.ndarray, ...]:
    """Stamps, positions, velocities and efforts with rosbags alone."""
    from rosbags.highlevel import AnyReader

    stamps, fields = [], ([], [], [])
    with AnyReader([folder]) as reader:
        wanted = [connection for connection in reader.connections if connection.topic == "/jointstate"]
        for connection, _, raw in reader.messages(wanted):
            message: Any = reader.deserialize(raw, connection.msgtype)
            stamps.append(message.header.stamp.sec * 10**9 + message.header.stamp.nanosec)
            for field, values in zip(fields, (message.position, message.velocity, message.effort), strict=True):
                field.append(values)
    return np.array(stamps), *(np.array(field) for field in fields)


def our_states(folder: Path) -> tuple[np.ndarray, ...]:
    """The same through the reader that `twinproof ingest` uses."""
    from twinproof.ingest.bag_read import BagReader
    from twinproof.nouns.rig import Rig

    (episode,) = BagReader(folder).episodes(Rig("bench", ignore=("/posestamped", "/compressedimage")))
    return episode.signals[0].time_s, *(signal.value for signal in episode.signals)


def joint_states(workspace: Path) -> Row:
    """MCAP joint states into arrays."""
    folder = write_joint_bag(workspace / "joints")
    for ours, theirs in zip(our_states(folder)[1:], rosbags_states(folder)[1:], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    ours_s, theirs_s = best_of([lambda: our_states(folder), lambda: rosbags_states(folder)])
    return Row(f"MCAP JointState of {JOINTS} joints", STATES / ours_s, "rosbags AnyReader", STATES / theirs_s)


def write_dataset(workspace: Path) -> tuple[Path, Path]:
    """A LeRobot v3.0 dataset of four episodes in one AV1 file of 640×480, and the Recording made of it."""
    from tests.generator import practice_recording

    from twinproof.ingest.lerobot_write import write_lerobot
    from twinproof.ingest.read import ingest, own_rig

    made = practice_recording(workspace, 4, seconds=5.0, size=(640, 480))
    write_lerobot(made, workspace / "dataset")
    ingest(workspace / "dataset", own_rig(workspace / "dataset"), workspace / "recording")
    (film,) = (workspace / "dataset" / "videos" / "observation.images.front").rglob("*.mp4")
    return film, workspace / "recording"


def pyav_frames(film: Path) -> int:
    """Every frame of a file as an RGB array with PyAV alone."""
    import av

    with av.open(str(film)) as container:
        container.streams.video[0].thread_type = "AUTO"
        return sum(frame.to_ndarray(format="rgb24").shape[0] > 0 for frame in container.decode(video=0))


def our_frames(folder: Path) -> int:
    """The same frames, episode by episode, through Video.frames."""
    from twinproof.nouns.recording import Recording

    return sum(1 for episode in Recording.load(folder).episodes for _ in episode.videos["front"].frames())


def pyav_frame_at(film: Path, times: np.ndarray) -> None:
    """Single frames of the shared file by seeking, as LeRobot's PyAV back end does it."""
    import av

    for time_s in times:
        with av.open(str(film)) as container:
            stream = container.streams.video[0]
            container.seek(int(time_s / stream.time_base), stream=stream)
            for frame in container.decode(stream):
                if frame.time >= time_s - 1e-3:
                    frame.to_ndarray(format="rgb24")
                    break


def our_frame_at(folder: Path, times: np.ndarray) -> None:
    """Single frames at random times through Video.at."""
    from twinproof.nouns.recording import Recording

    video = Recording.load(folder).episodes[0].videos["front"]
    for time_s in times:
        video.at(time_s)


def lerobot_sequential(workspace: Path) -> Row:
    """LeRobot frames one after the other."""
    film, folder = write_dataset(workspace / "sequential")
    count = our_frames(folder)
    assert count == pyav_frames(film)
    ours_s, theirs_s = best_of([lambda: our_frames(folder), lambda: pyav_frames(film)], rounds=3)
    return Row("LeRobot frames 640×480 in order", count / ours_s, "PyAV decode loop", count / theirs_s)


def lerobot_random(workspace: Path) -> Row:
    """LeRobot frames at random times."""
    film, folder = write_dataset(workspace / "random")
    times = np.random.default_rng(0).uniform(0.1, 3.0, 60)
    ours_s, theirs_s = best_of([lambda: our_frame_at(folder, times), lambda: pyav_frame_at(film, times)], rounds=3)
    return Row("LeRobot frames 640×480 at random", 60 / ours_s, "PyAV seek and decode", 60 / theirs_s)


def main() -> None:
    """Prints one row for each comparison."""
    with tempfile.TemporaryDirectory() as workspace:
        for compare in (joint_states, lerobot_sequential, lerobot_random):
            print(compare(Path(workspace)), flush=True)


if __name__ == "__main__":
    main()
