"""ROS 2 bags in both storages become episodes: names, units, clocks and pictures as the messages have them."""

from __future__ import annotations

import shutil
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ingest import bag_files as bags
from tests.ingest.bag_files import START_NS, STEP_NS, STORE, T, many, read, signal, told
from tests.ingest.pictures import jpeg
from twinproof.ingest.assemble import Tolerances
from twinproof.ingest.bag_joints import JointTrack
from twinproof.ingest.bag_read import BagReader, is_bag
from twinproof.ingest.read import ingest
from twinproof.nouns.errors import MissingExtra, RecordingError, RigError
from twinproof.nouns.rig import Camera, Intrinsics, Joint, Rig, SignalRule

STORAGES = ("mcap", "sqlite3")


@pytest.mark.parametrize("storage", STORAGES)
def test_joint_states_become_three_signals_with_both_clocks(tmp_path, storage):
    episode = read(bags.write_bag(tmp_path / "take", bags.joints(), storage))
    assert (episode.name, episode.start_ns) == ("take", START_NS)
    kinds = [(s.source, s.kind, s.unit, s.columns) for s in episode.signals]
    assert kinds == [
        ("/joint_states", "joint_position", "rad", ("a", "b")),
        ("/joint_states:velocity", "joint_velocity", "rad/s", ("a", "b")),
        ("/joint_states:effort", "joint_torque", "N m", ("a", "b")),
    ]
    position = episode.signals[0]
    np.testing.assert_array_equal(position.value[:, 1], [-0.02 * k for k in range(20)])
    stamps = [round(t * 1e9) + START_NS for t in position.time_s.tolist()]
    assert stamps == [START_NS + k * STEP_NS for k in range(20)]
    assert [round(t * 1e9) for t in position.log_time_s[:2].tolist()] == [3_000_000, 23_000_000]


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("compression", ["file", "message"])
def test_zstd_bags_read_like_plain_ones(tmp_path, storage, compression):
    plain = read(bags.write_bag(tmp_path / "a" / "take", bags.joints(), storage))
    packed = read(bags.write_bag(tmp_path / "b" / "take", bags.joints(), storage, compression))
    np.testing.assert_array_equal(plain.signals[0].value, packed.signals[0].value)


@pytest.mark.parametrize("compression", ["NONE", "LZ4", "ZSTD"])
def test_chunks_of_every_compression_are_read(tmp_path, compression):
    path = bags.write_checked_mcap(tmp_path / "take.mcap", bags.joints(), compression)
    episode = read(path)
    assert (episode.name, len(episode.signals[0].time_s)) == ("take", 20)


@pytest.mark.parametrize("storage", STORAGES)
def test_a_bare_storage_file_is_a_bag(tmp_path, storage):
    folder = bags.write_bag(tmp_path / "take", bags.joints(), storage)
    (file,) = [path for path in folder.iterdir() if path.suffix != ".yaml"]
    bare = shutil.copy(file, tmp_path / f"bare{file.suffix}")
    assert is_bag(bare)
    assert is_bag(folder)
    assert not is_bag(folder / "metadata.yaml")
    assert read(bare).name == "bare"


def test_a_folder_of_bags_is_one_episode_for_each_by_name(tmp_path):
    for name in ("b", "a", "c"):
        bags.write_bag(tmp_path / "src" / name, bags.joints(5))
    shutil.move(tmp_path / "src" / "c" / "c.mcap", tmp_path / "src" / "zz.mcap")
    shutil.rmtree(tmp_path / "src" / "c")
    (tmp_path / "src" / "photos").mkdir()
    (tmp_path / "src" / "notes.txt").write_text("hello")
    assert is_bag(tmp_path / "src")
    reader = BagReader(tmp_path / "src")
    assert [(e.number, e.name) for e in reader.episodes(Rig("bot"))] == [(0, "a"), (1, "b"), (2, "zz")]
    described = reader.describe()
    assert told(described) == {"photos": "a folder without a bag", "notes.txt": "not a bag"}
    assert sorted(described["files"]) == ["a/a.mcap", "b/b.mcap", "zz.mcap"]


def test_a_folder_without_a_bag_says_so(tmp_path):
    assert not is_bag(tmp_path)
    with pytest.raises(RecordingError, match=r"holds no ROS 2 bag: no metadata\.yaml"):
        BagReader(tmp_path)
    (tmp_path / "x.txt").write_text("x")
    with pytest.raises(RecordingError, match=r"neither \.mcap nor \.db3"):
        BagReader(tmp_path / "x.txt")


def test_numbered_files_without_metadata_are_one_bag(tmp_path):
    entries = bags.joints(12)
    folder = tmp_path / "take"
    folder.mkdir()
    for part in range(3):
        bags.write_checked_mcap(folder / f"take_{part}.mcap", entries[4 * part : 4 * part + 4])
    episode = read(folder)
    assert (episode.name, len(episode.signals[0].time_s)) == ("take", 12)


def test_joints_are_matched_by_name_in_every_message(tmp_path):
    given = [(["a", "b"], [1, 2]), (["b", "a"], [20, 10]), (["b"], [200]), (["a", "b", "c"], [3, 4, 5])]
    entries = many(
        "/j", "sensor_msgs/msg/JointState", lambda ns, k: bags.joint_state(ns, given[k][0], given[k][1]), count=4
    )
    found = signal(read(bags.write_bag(tmp_path / "take", entries)), "/j")
    assert found.columns == ("a", "b", "c")
    nan = np.nan
    np.testing.assert_array_equal(found.value, [[1, 2, nan], [10, 20, nan], [nan, 200, nan], [3, 4, 5]])
    np.testing.assert_array_equal(found.missing, np.isnan(found.value))


def test_two_publishers_on_one_topic_keep_the_order_of_their_messages(tmp_path):
    def message(ns: int, k: int) -> Any:
        return bags.joint_state(ns, ["arm"], [k]) if k % 2 else bags.joint_state(ns, ["gripper"], [k], [k])

    episode = read(bags.write_bag(tmp_path / "t", many("/j", "sensor_msgs/msg/JointState", message, count=6)))
    value = signal(episode, "/j").value
    np.testing.assert_array_equal(np.nansum(value, axis=1), range(6))
    assert len(signal(episode, "/j:velocity").time_s) == 3


@pytest.mark.parametrize(
    ("names", "position", "match"),
    [(["a", "b"], [1.0], "names 2 joints and gives 1 position"), (["a", "a"], [1.0, 2.0], "names a joint twice")],
)
def test_joint_states_that_contradict_themselves_are_refused(tmp_path, names, position, match):
    entries = many("/j", "sensor_msgs/msg/JointState", lambda ns, k: bags.joint_state(ns, names, position))
    with pytest.raises(RecordingError, match=match):
        read(bags.write_bag(tmp_path / "take", entries))


@settings(max_examples=30, deadline=None)
@given(
    messages=st.lists(
        st.tuples(
            st.text(max_size=5), st.lists(st.text(max_size=4), max_size=4, unique=True), st.booleans(), st.booleans(),
            st.integers(0, 2**31 - 1), st.integers(0, 10**9 - 1), st.booleans(),
        ),
        min_size=1, max_size=5,
    ),
    seed=st.integers(0, 99),
)  # fmt: skip
def test_the_fast_decoder_agrees_with_rosbags(messages, seed):
    rng = np.random.default_rng(seed)
    track, expected = JointTrack("/j"), {0: [], 1: [], 2: []}
    for number, (frame, names, velocity, effort, sec, nanosec, little) in enumerate(messages):
        names = [name.replace("\x00", "") + str(i) for i, name in enumerate(names)]
        fields = [rng.normal(size=len(names) if given else 0) for given in (True, velocity, effort)]
        head = T["std_msgs/msg/Header"](T["builtin_interfaces/msg/Time"](sec, nanosec), frame.replace("\x00", ""))
        message = T["sensor_msgs/msg/JointState"](head, names, *fields)
        raw = bytes(STORE.serialize_cdr(message, "sensor_msgs/msg/JointState", little_endian=little))
        track.add(number, raw, None)
        back = STORE.deserialize_cdr(raw, "sensor_msgs/msg/JointState")
        for k, numbers in enumerate((back.position, back.velocity, back.effort)):
            if len(numbers):
                expected[k].append((sec * 10**9 + nanosec, number, dict(zip(back.name, numbers, strict=True))))
    tables = {table.source: table for table in track.tables()}
    for k, ending in enumerate(("", ":velocity", ":effort")):
        table = tables.get(f"/j{ending}")
        assert (table is None) == (not expected[k])
        for row, (stamp_ns, log_ns, numbers) in enumerate(expected[k]):
            assert (table.stamp_ns[row], table.log_ns[row]) == (stamp_ns, log_ns)
            got = dict(zip(table.columns, table.value[row], strict=True))
            assert {name: value for name, value in got.items() if not np.isnan(value)} == numbers


def test_poses_wrenches_and_imus_have_units_and_frames(tmp_path):
    def pose(ns: int, k: int) -> Any:
        body = T["geometry_msgs/msg/Pose"](T["geometry_msgs/msg/Point"](k, 2.0, 3.0), bags.quaternion(1, 0, 0, 0.5))
        return T["geometry_msgs/msg/PoseStamped"](bags.header(ns, "base"), body)

    def wrench(ns: int, k: int) -> Any:
        body = T["geometry_msgs/msg/Wrench"](bags.vector(1, 2, 3), bags.vector(4, 5, k))
        return T["geometry_msgs/msg/WrenchStamped"](bags.header(ns, "tool"), body)

    def imu(ns: int, k: int) -> Any:
        none, known = bags.floats([-1] + [0] * 8), bags.floats([0] * 9)
        parts = (bags.quaternion(1, 0, 0, 0), none, bags.vector(1, 2, 3), known, bags.vector(4, 5, 9.81), known)
        return T["sensor_msgs/msg/Imu"](bags.header(ns, "imu"), *parts)

    entries = many("/pose", "geometry_msgs/msg/PoseStamped", pose)
    entries += many("/wrench", "geometry_msgs/msg/WrenchStamped", wrench) + many("/imu", "sensor_msgs/msg/Imu", imu)
    episode = read(bags.write_bag(tmp_path / "take", entries))
    found = signal(episode, "/pose")
    assert (found.kind, found.frame, found.columns) == ("pose", "base", ("x", "y", "z", "qw", "qx", "qy", "qz"))
    assert found.units == ("m", "m", "m", "1", "1", "1", "1")
    np.testing.assert_array_equal(found.value[2], [2, 2, 3, 1, 0, 0, 0.5])
    found = signal(episode, "/wrench")
    assert (found.kind, found.frame, found.units) == ("wrench", "tool", ("N",) * 3 + ("N m",) * 3)
    np.testing.assert_array_equal(found.value[2], [1, 2, 3, 4, 5, 2])
    found = signal(episode, "/imu")
    assert found.units[4:] == ("rad/s",) * 3 + ("m/s^2",) * 3
    np.testing.assert_array_equal(found.missing[0], [True] * 4 + [False] * 6)
    np.testing.assert_array_equal(found.value[0, 4:], [1, 2, 3, 4, 5, 9.81])


def test_a_pose_that_changes_its_frame_is_refused(tmp_path):
    def pose(ns: int, k: int) -> Any:
        body = T["geometry_msgs/msg/Pose"](T["geometry_msgs/msg/Point"](k, 2.0, 3.0), bags.quaternion(1, 0, 0, 0))
        return T["geometry_msgs/msg/PoseStamped"](bags.header(ns, f"frame{k // 2}"), body)

    folder = bags.write_bag(tmp_path / "take", many("/pose", "geometry_msgs/msg/PoseStamped", pose) + bags.joints(3))
    with pytest.raises(RecordingError, match="in the frame 'frame0' and from message 2 on in 'frame1'"):
        read(folder)
    assert read(folder, ignore=("/pose",)).signals[0].source == "/joint_states"


def test_transforms_are_one_signal_for_each_pair_of_frames(tmp_path):
    message = T["tf2_msgs/msg/TFMessage"]
    moving = many(
        "/tf", "tf2_msgs/msg/TFMessage",
        lambda ns, k: message([bags.transform(ns, "base", "arm", k), bags.transform(ns, "arm", "tool", -k)]),
    )  # fmt: skip
    fixed = [("/tf_static", "tf2_msgs/msg/TFMessage", START_NS + i, message([bags.transform(5, "map", "base", 7)]))
             for i in range(2)]  # fmt: skip
    episode = read(bags.write_bag(tmp_path / "take", fixed + moving))
    assert [s.source for s in episode.signals] == ["/tf_static:map>base", "/tf:base>arm", "/tf:arm>tool"]
    still, arm, tool = episode.signals
    assert (still.frame, arm.frame, tool.frame, arm.kind) == ("map", "base", "arm", "pose")
    assert (still.time_s.tolist(), still.value[0, 0]) == ([0.0], 7)
    np.testing.assert_array_equal(tool.value[:, 0], [0, -1, -2])
    assert episode.start_ns == START_NS
    changed = [
        *fixed,
        ("/tf_static", "tf2_msgs/msg/TFMessage", START_NS, message([bags.transform(5, "map", "base", 8)])),
    ]
    with pytest.raises(RecordingError, match="/tf_static:map>base is a static transform that changes"):
        read(bags.write_bag(tmp_path / "other", changed + moving))


def grip(ns: int, k: int) -> Any:
    pad = T["lab_msgs/msg/Pad"]
    return T["lab_msgs/msg/Grip"](
        bags.header(ns), 0.5 * k, np.array([k, k + 1], np.int32), 7, pad(1.5, True), [pad(2.5, False), pad(3.5, True)],
        "text", [], np.array([k, -k], np.float32),
    )  # fmt: skip


@pytest.mark.parametrize("storage", STORAGES)
def test_custom_types_are_read_from_the_definition_in_the_bag(tmp_path, storage):
    folder = bags.write_bag(tmp_path / "take", many("/grip", "lab_msgs/msg/Grip", grip), storage)
    reader = BagReader(folder)
    (episode,) = reader.episodes(Rig("bot"))
    found = signal(episode, "/grip")
    assert found.columns == (
        "force", "ticks[0]", "ticks[1]", "serial", "pad.left", "pad.touching", "pads[0].left", "pads[0].touching",
        "pads[1].left", "pads[1].touching", "trail[0]", "trail[1]",
    )  # fmt: skip
    np.testing.assert_array_equal(found.value[2], [1, 2, 3, 7, 1.5, 1, 2.5, 0, 3.5, 1, 2, -2])
    assert [round(t * 1e9) for t in found.time_s.tolist()] == [0, STEP_NS, 2 * STEP_NS]
    assert told(reader.describe()) == {
        "/grip.extra": "a list of lab_msgs/msg/Pad; the other fields are read",
        "/grip.note": "text; the other fields are read",
    }


def test_numbers_that_no_signal_can_hold_are_refused_by_name(tmp_path):
    def ragged(ns: int, k: int) -> Any:
        message = grip(ns, k)
        message.trail = np.zeros(k + 1, np.float32)
        return message

    def huge(ns: int, k: int) -> Any:
        message = grip(ns, k)
        message.serial = 2**60
        return message

    layout = T["std_msgs/msg/MultiArrayLayout"]([], 0)
    wide = many(
        "/g",
        "std_msgs/msg/Float64MultiArray",
        lambda ns, k: T["std_msgs/msg/Float64MultiArray"](layout, np.zeros(5000)),
    )
    cases = [
        (many("/g", "lab_msgs/msg/Grip", ragged), "has 2 numbers in trail in message 1, and 1 in the first"),
        (many("/g", "lab_msgs/msg/Grip", huge), "beyond 2\\^53"),
        (wide, "carries 5000 numbers in a message"),
    ]
    for number, (entries, match) in enumerate(cases):
        folder = bags.write_bag(tmp_path / str(number), entries)
        with pytest.raises(RecordingError, match=f"/g .*{match}.*ignore"):
            read(folder)
        assert BagReader(folder).probe().ignore == ("/g",)


def test_plain_numbers_use_log_time_and_a_note_says_so(tmp_path):
    layout = T["std_msgs/msg/MultiArrayLayout"]([], 0)
    entries = bags.joints(3)
    for name, numbers in (("Float64MultiArray", np.array([1.0, 2.0])), ("Float32MultiArray", np.ones(2, np.float32))):
        kind = T[f"std_msgs/msg/{name}"]
        entries += many(f"/{name}", f"std_msgs/msg/{name}", lambda ns, k, kind=kind, n=numbers: kind(layout, n))
    for name, number in (("Float64", 1.5), ("Float32", 2.5), ("Bool", True), ("Int8", -3), ("UInt16", 9), ("Int64", 7)):
        kind = T[f"std_msgs/msg/{name}"]
        entries += many(f"/{name}", f"std_msgs/msg/{name}", lambda ns, k, kind=kind, n=number: kind(n))
    episode = read(bags.write_bag(tmp_path / "take", entries))
    array = signal(episode, "/Float64MultiArray")
    assert (array.columns, array.value.shape) == ((), (3, 2))
    assert signal(episode, "/Int8").value[0, 0] == -3
    assert signal(episode, "/Bool").columns == ("data",)
    assert round(array.time_s[0] * 1e9) == 1_000_000
    np.testing.assert_array_equal(array.time_s, array.log_time_s)
    assert any("/Bool" in note and "log times are its times" in note for note in episode.notes)


def test_topics_without_numbers_are_named_not_dropped(tmp_path):
    film = T["lab_msgs/msg/Film"]
    entries = bags.joints(2) + many("/say", "std_msgs/msg/String", lambda ns, k: T["std_msgs/msg/String"]("hi"))
    data = np.zeros(4, np.uint8)
    entries += many("/film", "lab_msgs/msg/Film", lambda ns, k: film(bags.header(ns), "h264", data))
    entries += many("/lost/camera_info", "sensor_msgs/msg/CameraInfo", lambda ns, k: bags.camera_info(ns))
    reader = BagReader(bags.write_bag(tmp_path / "take", entries))
    assert len(list(reader.episodes(Rig("bot")))) == 1
    assert told(reader.describe()) == {
        "/say": "std_msgs/msg/String carries no numbers (data is text)",
        "/film": "lab_msgs/msg/Film carries no numbers (format is text; data is bytes)",
        "/lost/camera_info": "a calibration without a picture topic beside it",
    }
    with pytest.raises(RecordingError, match=r"no topic that can be read \(/say: std_msgs/msg/String carries no num"):
        read(bags.write_bag(tmp_path / "mute", [e for e in entries if e[0] == "/say"]))


def test_the_rig_chooses_the_clock_of_each_topic(tmp_path):
    folder = bags.write_bag(tmp_path / "take", bags.joints())
    rules = {
        "q": SignalRule("/joint_states", time="header"),
        "v": SignalRule("/joint_states:velocity", time="log"),
    }
    episode = read(folder, signals=rules, ignore=("/joint_states:effort",))
    assert [round(s.time_s[0] * 1e9) for s in episode.signals] == [0, 3_000_000]
    both = {"q": SignalRule("/joint_states"), "again": SignalRule("/joint_states", time="log")}
    with pytest.raises(RigError, match="'/joint_states' is read with time = 'header' and with time = 'log'"):
        read(folder, signals=both)


def test_a_missing_header_stamp_asks_for_the_log_clock(tmp_path):
    entries = many(
        "/j", "sensor_msgs/msg/JointState", lambda ns, k: bags.joint_state(0 if k else ns, ["a"], [k]), count=4
    )
    folder = bags.write_bag(tmp_path / "take", entries)
    with pytest.raises(RecordingError, match=r"/j: message 1 has no header stamp \(0 s; 3 of 4.*time = 'log'"):
        read(folder)
    assert len(read(folder, signals={"q": SignalRule("/j", time="log")}).signals[0].time_s) == 4
    assert BagReader(folder).probe().signals[0].high == (3.0,)


@pytest.mark.parametrize("storage", STORAGES)
def test_messages_come_in_the_order_of_log_times(tmp_path, storage):
    entries = bags.joints(10)
    shuffled = [entries[k] for k in (3, 1, 0, 2, 9, 8, 4, 5, 7, 6)]
    found = read(bags.write_bag(tmp_path / "take", shuffled, storage)).signals[0]
    np.testing.assert_array_equal(found.value[:, 0], [0.01 * k for k in range(10)])


def test_a_topic_of_two_types_is_refused(tmp_path):
    entries = bags.joints(2, topic="/x") + many("/x", "std_msgs/msg/Bool", lambda ns, k: T["std_msgs/msg/Bool"](True))
    with pytest.raises(RecordingError, match="/x is sensor_msgs/msg/JointState and also std_msgs/msg/Bool"):
        read(bags.write_bag(tmp_path / "take", entries))


def test_probe_shows_ranges_and_units(tmp_path):
    for name in ("a", "b"):
        bags.write_bag(tmp_path / "src" / name, bags.joints(5))
    seen = BagReader(tmp_path / "src").probe()
    assert seen.episodes == ("a", "b")
    assert [(s.source, s.unit, s.low) for s in seen.signals][:2] == [
        ("/joint_states", "rad", (0.0, -0.08)),
        ("/joint_states:velocity", "rad/s", (0.5, -1.0)),
    ]


def test_a_bag_is_ingested_under_its_rig(tmp_path):
    views = many(
        "/cam/image_raw/compressed", "sensor_msgs/msg/CompressedImage", lambda ns, k: bags.compressed(ns, jpeg(k)), 6
    )
    folder = bags.write_bag(tmp_path / "take", bags.joints() + views)
    rig = Rig(
        "bot",
        joints=(Joint("b"), Joint("a")),
        signals={
            "q": SignalRule("/joint_states"),
            "v": SignalRule("/joint_states:velocity"),
            "t": SignalRule("/joint_states:effort"),
        },
        cameras={"cam": Camera("/cam/image_raw/compressed", Intrinsics(50, 50, 32, 24))},
    )
    recording = ingest(folder, rig, tmp_path / "out", Tolerances())
    (episode,) = recording.episodes
    assert [column.name for column in episode.signals["q"].columns] == ["b", "a"]
    assert (episode.signals["q"].kind, episode.signals["t"].columns[0].unit) == ("joint_position", "N m")
    assert (episode.start_ns, len(episode.videos["cam"])) == (START_NS, 6)
    assert recording.source["kind"] == "ros2_bag"


def test_without_the_ros_packages_the_cure_is_named(tmp_path, monkeypatch):
    folder = bags.write_bag(tmp_path / "take", bags.joints(2))
    monkeypatch.setitem(sys.modules, "rosbags", None)
    with pytest.raises(MissingExtra, match=r"pip install 'twinproof\[ros\]'"):
        BagReader(folder)
