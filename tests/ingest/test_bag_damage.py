"""Damaged bags: what is whole is saved and labelled, the rest is an error that says what to do; never anything else."""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ingest import bag_files as bags
from tests.ingest.bag_files import T, many, read, signal, told
from tests.ingest.pictures import jpeg
from twinproof.ingest.bag_find import inflated
from twinproof.ingest.bag_read import BagReader
from twinproof.nouns.errors import RecordingError, TwinproofError
from twinproof.nouns.rig import Rig


def mixed(count: int = 30) -> list[bags.Entry]:
    """Joint states, pictures, transforms and a custom type, in the order of their log times."""
    entries = bags.joints(count)
    entries += many(
        "/cam/image_raw/compressed",
        "sensor_msgs/msg/CompressedImage",
        lambda ns, k: bags.compressed(ns, jpeg(k)),
        count,
    )
    tf = T["tf2_msgs/msg/TFMessage"]
    entries += many("/tf", "tf2_msgs/msg/TFMessage", lambda ns, k: tf([bags.transform(ns, "a", "b", k)]), count)
    entries += many("/ok", "std_msgs/msg/Bool", lambda ns, k: T["std_msgs/msg/Bool"](True), count)
    return sorted(entries, key=lambda entry: entry[2])


def test_a_cut_mcap_is_saved_up_to_its_last_whole_chunk(tmp_path):
    whole = bags.write_checked_mcap(tmp_path / "whole.mcap", mixed(), chunk_size=4096).read_bytes()
    path = tmp_path / "cut.mcap"
    path.write_bytes(whole[: int(len(whole) * 0.6)])
    reader = BagReader(path)
    (episode,) = reader.episodes(Rig("bot"))
    position = signal(episode, "/joint_states")
    assert 5 < len(position.time_s) < 30
    np.testing.assert_array_equal(position.value[:, 0], [0.01 * k for k in range(len(position.time_s))])
    (feed,) = episode.feeds
    video = feed.write("cam", tmp_path / "cam.mp4")
    assert 5 < len(video) == len(feed.time_s) < 30
    recovered = reader.describe()["recovered"]["cut.mcap"]
    assert recovered["recovered"] is True
    count = recovered["messages"]
    assert f"recovered: true, {count} messages up to the last whole chunk; how many were lost is unknown" in str(
        episode.notes
    )


def test_an_mcap_cut_anywhere_is_saved_or_refused(tmp_path):
    whole = bags.write_checked_mcap(tmp_path / "whole.mcap", bags.joints(40), chunk_size=1024).read_bytes()
    path, counts, texts = tmp_path / "cut.mcap", [], []
    for size in range(0, len(whole), 61):
        path.write_bytes(whole[:size])
        try:
            counts.append(len(read(path).signals[0].time_s))
        except RecordingError as problem:
            counts.append(0)
            texts.append(str(problem))
    known = ("before its first whole chunk", "0 bytes", "does not start")
    assert [text for text in texts if not any(part in text for part in known)] == []
    assert counts == sorted(counts)
    assert counts[-1] == 40


def test_a_cut_bag_without_chunks_is_saved_up_to_its_last_message(tmp_path):
    from mcap.writer import Writer

    path = tmp_path / "flat.mcap"
    with path.open("wb") as handle:
        writer = Writer(handle, use_chunking=False)
        writer.start(profile="ros2", library="test")
        text = bags.STORE.generate_msgdef("sensor_msgs/msg/JointState", ros_version=2)[0]
        schema = writer.register_schema("sensor_msgs/msg/JointState", "ros2msg", text.encode())
        channel = writer.register_channel("/joint_states", "cdr", schema)
        for _, msgtype, log_ns, message in bags.joints(10):
            writer.add_message(channel, log_ns, bytes(bags.STORE.serialize_cdr(message, msgtype)), log_ns)
        writer.finish()
    assert len(read(path).signals[0].time_s) == 10
    path.write_bytes(path.read_bytes()[:1800])
    assert 0 < len(read(path).signals[0].time_s) < 10


def test_a_flipped_byte_in_a_checked_chunk_is_found(tmp_path):
    path = bags.write_checked_mcap(tmp_path / "take.mcap", bags.joints(40), "NONE", chunk_size=2048)
    data = bytearray(path.read_bytes())
    at = data.index(np.float64(0.01 * 7).tobytes())
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises(RecordingError, match=r"checksum of the chunk at byte \d+ does not hold.*restore it"):
        read(path)


def test_an_index_that_counts_other_messages_is_found(tmp_path):
    folder = bags.write_bag(tmp_path / "take", bags.joints(20))
    path = folder / "take.mcap"
    data = bytearray(path.read_bytes())
    _, msgtype, _, message = bags.joints(20)[7]
    at = data.index(bytes(bags.STORE.serialize_cdr(message, msgtype))) - 31  # its opcode; rosbags writes no checksum
    assert data[at] == 0x05
    data[at] = 0x70
    path.write_bytes(data)
    with pytest.raises(RecordingError, match="its index counts 20 messages, 19 can be read"):
        read(path)


@pytest.mark.parametrize("name", ["a.mcap", "a.db3"])
def test_an_empty_file_says_so(tmp_path, name):
    (tmp_path / name).touch()
    with pytest.raises(RecordingError, match=r"is empty \(0 bytes\)"):
        read(tmp_path / name)


def test_files_of_another_kind_are_refused(tmp_path):
    for name, match in (("a.mcap", "does not start as an MCAP file does"), ("a.db3", "is not an SQLite file")):
        (tmp_path / name).write_bytes(b"hello world" * 20)
        with pytest.raises(RecordingError, match=match):
            read(tmp_path / name)
    with contextlib.closing(sqlite3.connect(tmp_path / "other.db3")) as base:
        base.execute("CREATE TABLE t (a)")
        base.commit()
    with pytest.raises(RecordingError, match="a database without a bag's tables"):
        read(tmp_path / "other.db3")


def test_a_file_that_vanishes_is_named(tmp_path):
    path = bags.write_checked_mcap(tmp_path / "gone.mcap", bags.joints(3))
    reader = BagReader(path)
    path.unlink()
    with pytest.raises(RecordingError, match=r"gone\.mcap cannot be read \(No such file"):
        next(iter(reader.episodes(Rig("bot"))))


def test_a_cut_sqlite3_bag_names_the_tool_that_may_help(tmp_path):
    folder = bags.write_bag(tmp_path / "take", bags.joints(400), "sqlite3")
    path = folder / "take.db3"
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 6 // 10])
    with pytest.raises(RecordingError, match=r"was cut off: \d+ bytes of \d+.*sqlite3 take.db3 \.recover"):
        read(folder)


def test_rows_out_of_place_are_refused(tmp_path):
    folder = bags.write_bag(tmp_path / "take", bags.joints(4), "sqlite3")
    with contextlib.closing(sqlite3.connect(folder / "take.db3")) as base:
        base.execute("UPDATE messages SET topic_id = 9 WHERE id = 2")
        base.commit()
    with pytest.raises(RecordingError, match="row 2 is out of place"):
        read(folder)


def test_messages_left_in_a_write_ahead_log_are_not_forgotten(tmp_path):
    folder = bags.write_bag(tmp_path / "take", bags.joints(4), "sqlite3")
    (folder / "take.db3-wal").write_bytes(b"pages")
    with pytest.raises(
        RecordingError, match=r"take.db3-wal holds messages that never reached take.db3.*wal_checkpoint"
    ):
        read(folder)


def test_a_count_that_differs_from_the_metadata_is_noted(tmp_path):
    folder = bags.write_bag(tmp_path / "take", bags.joints(4), "sqlite3")
    with contextlib.closing(sqlite3.connect(folder / "take.db3")) as base:
        base.execute("DELETE FROM messages WHERE id = 4")
        base.commit()
    assert "metadata.yaml counts 4 messages, the files hold 3" in read(folder).notes


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("rosbag2_bagfile_information:", "rosbag2_bagfile_information: [", "is not a bag's metadata.*ros2 bag reindex"),
        ("storage_identifier: mcap", "storage_identifier: tape", "storage_identifier is 'tape'"),
        ("- take.mcap", "- other.mcap", "lists 'other.mcap', which is missing"),
        ("- take.mcap", "- ../take/take.mcap/../../../x", "leaves its folder"),
        ("relative_file_paths:", "relative_paths:", "relative_file_paths names no files"),
        ("compression_mode: ''", "compression_mode: file", "compression '' in mode 'file' is not read"),
    ],
)
def test_metadata_that_cannot_be_followed_is_named(tmp_path, old, new, match):
    folder = bags.write_bag(tmp_path / "take", bags.joints(4))
    text = (folder / "metadata.yaml").read_text()
    assert old in text
    (folder / "metadata.yaml").write_text(text.replace(old, new, 1))
    with pytest.raises(RecordingError, match=match):
        read(folder)


def test_a_message_that_is_no_cdr_is_an_error(tmp_path):
    for number, topic in enumerate(("sensor_msgs/msg/JointState", "std_msgs/msg/Bool", "sensor_msgs/msg/Image")):
        folder = bags.write_bag(tmp_path / str(number), [("/x", topic, 5, b"\x07\x07\x00\x00" + bytes(40))])
        with pytest.raises(RecordingError, match="damaged"):
            read(folder)
    folder = bags.write_bag(
        tmp_path / "short", [("/x", "sensor_msgs/msg/JointState", 5, b"\x00\x01\x00\x00" + b"\xff" * 40)]
    )
    with pytest.raises(RecordingError, match=r"the bag is damaged \(error: \d+ entries"):
        read(folder)


def test_topics_that_cannot_be_decoded_are_named(tmp_path):
    folder = bags.write_bag(tmp_path / "old", bags.joints(3) + many("/film", "lab_msgs/msg/Film", film), "sqlite3")
    with contextlib.closing(sqlite3.connect(folder / "old.db3")) as base:
        base.execute("DROP TABLE message_definitions")  # as before ROS 2 Iron
        base.commit()
    reader = BagReader(folder)
    (episode,) = reader.episodes(Rig("bot"))
    assert len(episode.signals) == 3
    assert told(reader.describe()) == {"/film": "the bag has no definition of lab_msgs/msg/Film"}
    with contextlib.closing(sqlite3.connect(folder / "old.db3")) as base:
        base.execute("UPDATE topics SET serialization_format = 'json'")
        base.commit()
    with pytest.raises(RecordingError, match="/joint_states: messages are json, not CDR"):
        read(folder)


def film(ns: int, k: int) -> object:
    return T["lab_msgs/msg/Film"](bags.header(ns), "h264", np.zeros(4, np.uint8))


def test_a_message_that_claims_gigabytes_is_not_unpacked():
    frame = b"\x28\xb5\x2f\xfd\xe0" + (2**40).to_bytes(8, "little") + bytes(20)
    with pytest.raises(RecordingError, match="a message claims 1099511627776 bytes"):
        inflated(frame)


@cache
def small(storage: str) -> bytes:
    """A small bag's storage file."""
    with tempfile.TemporaryDirectory() as scratch:
        if storage == "checked":
            return bags.write_checked_mcap(Path(scratch) / "a.mcap", mixed(4), "LZ4", 512).read_bytes()
        folder = bags.write_bag(Path(scratch) / "a", mixed(4), storage)
        return next(path for path in folder.iterdir() if path.suffix in (".mcap", ".db3")).read_bytes()


@pytest.mark.parametrize("storage", ["mcap", "checked", "sqlite3"])
@settings(max_examples=30, deadline=None)
@given(
    flips=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=6),
    keep=st.one_of(st.just(1.0), st.floats(0, 1)),
)
def test_damaged_bytes_give_an_episode_or_a_clear_error(storage, flips, keep):
    data = bytearray(small(storage))
    for where, value in flips:
        data[int(where * len(data))] = value
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / ("take.db3" if storage == "sqlite3" else "take.mcap")
        path.write_bytes(data[: int(keep * len(data))])
        with contextlib.suppress(TwinproofError):
            reader = BagReader(path)
            for episode in reader.episodes(Rig("bot")):
                assert episode.signals or episode.feeds
                for feed in episode.feeds:
                    feed.write("cam", Path(scratch) / "cam.mp4")
        with contextlib.suppress(TwinproofError):
            BagReader(path).probe()
