"""Plain folders: tables, videos and pictures become episodes, or an error says what to mend."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ingest.damage import damage_one_file
from tests.ingest.pictures import jpeg, png
from twinproof.ingest.read import ingest
from twinproof.nouns.errors import RecordingError, RigError, TwinproofError
from twinproof.nouns.rig import Camera, Intrinsics, Joint, Labels, LeftOut, Rig, SignalRule
from twinproof.nouns.video_write import write_pictures

LENS = Intrinsics(50, 50, 32, 24)


def table(path: Path, rows: int = 20, **columns: object) -> Path:
    """A CSV with time_s, a, b; further columns as given."""
    path.parent.mkdir(parents=True, exist_ok=True)
    names = ["time_s", "a", "b", *columns]
    values = [[k / 10, np.sin(k), np.cos(k), *(column[k] for column in columns.values())] for k in range(rows)]  # type: ignore[index]
    path.write_text("\n".join([",".join(names), *(",".join(str(v) for v in row) for row in values)]) + "\n")
    return path


def rig(**more: object) -> Rig:
    joints = (Joint("a"), Joint("b"))
    return Rig("bot", joints=joints, signals={"q": SignalRule("state", "joint_position", "rad")}, **more)  # type: ignore[arg-type]


def test_an_episode_folder_becomes_an_episode(tmp_path):
    for name in ("one", "two"):
        path = table(tmp_path / "src" / name / "state.csv", 20 + len(name))
        (path.parent / "episode.json").write_text(json.dumps({"labels": {"object": name}, "outcome": "success"}))
    (tmp_path / "src" / "two" / "state.csv").write_text("time_s,a,b\n0,1,2\n0.5,3,4\n")
    made = ingest(tmp_path / "src", rig(), tmp_path / "out")
    assert [e.labels["object"] for e in made.episodes] == ["one", "two"]
    assert made.episodes[1].signals["q"].value.tolist() == [[1, 2], [3, 4]]
    assert made.episodes[0].outcome == "success"


def test_tables_with_the_same_columns_are_an_episode_each(tmp_path):
    for k in range(3):
        table(tmp_path / "src" / f"run{k}.csv", 10 + k)
    made = ingest(tmp_path / "src", Rig("bot", signals={"q": SignalRule("table", unit="rad")}), tmp_path / "out")
    assert [len(e.signals["q"].time_s) for e in made.episodes] == [10, 11, 12]
    assert [e.source for e in made.episodes] == ["run0", "run1", "run2"]


def test_one_table_may_feed_several_signals(tmp_path):
    table(tmp_path / "src" / "e" / "state.csv", gripper=np.linspace(0, 80, 20))
    both = Rig(
        "bot",
        signals={
            "q": SignalRule("state", "joint_position", "deg", columns=("b", "a")),
            "g": SignalRule("state", "gripper", "mm", columns=("gripper",)),
        },
    )
    (episode,) = ingest(tmp_path / "src", both, tmp_path / "out").episodes
    assert [c.name for c in episode.signals["q"].columns] == ["b", "a"]
    assert episode.signals["q"].value[0] == pytest.approx([np.pi / 180, 0.0])
    assert episode.signals["g"].value[-1, 0] == pytest.approx(0.08)
    assert episode.signals["g"].columns[0].unit == "m"
    assert "order by name" in episode.notes[0]


def test_a_column_that_no_rule_reads_is_an_error_until_it_is_ignored(tmp_path):
    table(tmp_path / "src" / "e" / "state.csv", extra=range(20))
    with pytest.raises(RigError, match="Only in the source: extra"):
        ingest(tmp_path / "src", rig(), tmp_path / "out")
    ingest(tmp_path / "src", rig(ignore=("state/extra",)), tmp_path / "out")


def test_nanoseconds_since_1970_are_kept_exactly(tmp_path):
    stamps = [1_700_000_000_123_456_789 + 1_000_003 * k for k in range(5)]
    (tmp_path / "src" / "e").mkdir(parents=True)
    rows = "\n".join(f"{t},{k},{k}" for k, t in enumerate(stamps))
    (tmp_path / "src" / "e" / "state.csv").write_text(f"time_ns,a,b\n{rows}\n")
    (episode,) = ingest(tmp_path / "src", rig(), tmp_path / "out").episodes
    back = [episode.start_ns + round(t * 1e9) for t in episode.signals["q"].time_s]
    assert back == stamps


def test_empty_cells_are_missing_and_nan_is_an_error_until_accepted(tmp_path):
    from twinproof.ingest.assemble import Tolerances

    path = tmp_path / "src" / "e" / "state.csv"
    path.parent.mkdir(parents=True)
    path.write_text("time_s,a,b\n0,1,\n1,,2\n2,3,4\n")
    (episode,) = ingest(tmp_path / "src", rig(), tmp_path / "out", None).episodes
    assert episode.signals["q"].missing.tolist() == [[False, True], [True, False], [False, False]]  # type: ignore[union-attr]
    path.write_text("time_s,a,b\n0,1,nan\n1,2,2\n")
    with pytest.raises(RecordingError, match="b is nan at sample 0.*--nan-is-missing"):
        ingest(tmp_path / "src", rig(), tmp_path / "nan")
    (episode,) = ingest(tmp_path / "src", rig(), tmp_path / "nan", Tolerances(nan_is_missing=True)).episodes
    assert "1 NaN values were marked missing" in episode.notes[0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", r"empty \(0 bytes\)"),
        ("time_s,a,b\n", "has no rows"),
        ("when,a,b\n0,1,2\n", "no time column; it has when, a, b"),
        ("time_s,a,b\n0,1,2\n0,3,4\n", "sample 1 is at 0.000000 s, not after sample 0"),
        ("time_s,a,b\n1,1,2\n0,3,4\n", "not after sample 0"),
        ("time_s,a,b\n0,1,2\n1,inf,4\n", "a is inf at sample 1"),
        ("time_s,a,b\n0,1,2\n,3,4\n", "row 1 has no time_s"),
        ("time_s,a,b\n0,1,2\n1,3\n", "cannot be read as a table"),
        ("time_s,a,a\n0,1,2\n1,3,3\n", "two columns are called 'a'"),
        ("time_s,a,c\n0,1,2\n1,3,3\n", "Only in the source: c"),
        ("time_s,a,b\n0,1,2\n0.1,1,2\n0.2,1,2\n100,3,3\n", r"jumps 99.800 s ahead after sample 2.*--max-gap-s 99.9"),
        ("time_s\n0\n1\n", "no numbers"),
    ],
)
def test_broken_tables_are_refused_and_nothing_is_written(tmp_path, text, words):
    path = tmp_path / "src" / "e" / "state.csv"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(TwinproofError, match=words):
        ingest(tmp_path / "src", rig(), tmp_path / "out")
    assert [p.name for p in tmp_path.iterdir()] == ["src"]


def test_degrees_for_radians_are_suspected(tmp_path):
    path = tmp_path / "src" / "e" / "state.csv"
    path.parent.mkdir(parents=True)
    path.write_text("time_s,a,b\n0,1,2\n1,88,4\n")
    ranged = Rig(
        "bot", (Joint("a", (-3.1, 3.1)), Joint("b")), signals={"q": SignalRule("state", "joint_position", "rad")}
    )
    with pytest.raises(RecordingError, match=r"a runs from 1 to 88 rad.*Are these degrees"):
        ingest(tmp_path / "src", ranged, tmp_path / "out")


def test_pictures_keep_their_bytes_and_need_times(tmp_path):
    table(tmp_path / "src" / "e" / "state.csv")
    folder = tmp_path / "src" / "e" / "front"
    folder.mkdir()
    for k in range(4):
        (folder / f"{k}.jpg").write_bytes(jpeg(k))
    seen = rig(cameras={"front": Camera("front", LENS)})
    with pytest.raises(RecordingError, match=r"4 pictures.*have no times.*times.csv"):
        ingest(tmp_path / "src", seen, tmp_path / "out")
    (folder / "times.csv").write_text("file,time_s\n" + "".join(f"{k}.jpg,{k / 2}\n" for k in range(4)))
    (episode,) = ingest(tmp_path / "src", seen, tmp_path / "out").episodes
    video = episode.videos["front"]
    assert video.time_s.tolist() == [0, 0.5, 1, 1.5]
    assert video.codec == "mjpeg"
    assert jpeg(2) in video.path.read_bytes()
    assert len(list(video.frames())) == 4


def test_pictures_that_differ_or_lack_a_row_are_refused(tmp_path):
    table(tmp_path / "src" / "e" / "state.csv")
    folder = tmp_path / "src" / "e" / "front"
    folder.mkdir()
    (folder / "0.png").write_bytes(png(0))
    (folder / "1.png").write_bytes(png(1, size=(32, 24)))
    seen = rig(cameras={"front": Camera("front", LENS)})
    (folder / "times.csv").write_text("file,time_s\n0.png,0\n")
    with pytest.raises(RecordingError, match=r"does not list 1.png"):
        ingest(tmp_path / "src", seen, tmp_path / "out")
    (folder / "times.csv").write_text("file,time_s\n0.png,0\n1.png,1\n2.png,2\n")
    with pytest.raises(RecordingError, match=r"lists 2.png, which is not there"):
        ingest(tmp_path / "src", seen, tmp_path / "out")
    (folder / "times.csv").write_text("file,time_s\n0.png,0\n1.png,1\n")
    with pytest.raises(RecordingError, match=r"1.png is png 32×24 rgb, 0.png is png 64×48 rgb"):
        ingest(tmp_path / "src", seen, tmp_path / "out")
    (folder / "1.png").write_bytes(b"")
    with pytest.raises(RecordingError, match=r"0 bytes"):
        ingest(tmp_path / "src", seen, tmp_path / "out")
    (folder / "1.png").write_bytes(b"GIF89a....")
    with pytest.raises(RecordingError, match=r"neither a JPEG nor a PNG"):
        ingest(tmp_path / "src", seen, tmp_path / "out")


def test_a_video_with_stamps_and_intrinsics_beside_it(tmp_path):
    folder = table(tmp_path / "src" / "e" / "state.csv").parent
    write_pictures([(k / 10, np.full((48, 64, 3), k, np.uint8)) for k in range(5)], "v", folder / "front.mp4")
    K = [[50.0, 0, 32], [0, 51.0, 24], [0, 0, 1]]
    (folder / "front.json").write_text(json.dumps({"timestamps": [0, 1, 2, 3, 5.5], "K": K}))
    made = ingest(tmp_path / "src", rig(cameras={"front": Camera("front")}), tmp_path / "out", None)
    assert made.episodes[0].videos["front"].time_s.tolist() == [0, 1, 2, 3, 5.5]
    assert made.rig.cameras["front"].intrinsics == Intrinsics(50, 51, 32, 24)
    (folder / "front.json").write_text(json.dumps({"timestamps": [0, 1, 2]}))
    with pytest.raises(RecordingError, match="5 frames for 3 rows"):
        ingest(tmp_path / "src", rig(cameras={"front": Camera("front", LENS)}), tmp_path / "out2")


def test_a_camera_without_intrinsics_is_refused_until_said_unknown(tmp_path):
    folder = table(tmp_path / "src" / "e" / "state.csv").parent
    write_pictures([(k / 10, np.full((48, 64, 3), k, np.uint8)) for k in range(5)], "v", folder / "front.mp4")
    with pytest.raises(RigError, match="camera 'front' has no intrinsics"):
        ingest(tmp_path / "src", rig(cameras={"front": Camera("front")}), tmp_path / "out")
    ingest(tmp_path / "src", rig(cameras={"front": Camera("front", intrinsics_unknown=True)}), tmp_path / "out")


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_corrupted_bytes_give_an_error_or_every_episode(tmp_path_factory, data):
    tmp_path = tmp_path_factory.mktemp("fuzz")
    for k in range(2):
        path = table(tmp_path / "src" / f"e{k}" / "state.csv", 12 + k)
        write_pictures([(i / 10, np.full((48, 64, 3), i, np.uint8)) for i in range(3)], "v", path.parent / "front.mp4")
    damage_one_file(data, tmp_path / "src")
    seen = rig(cameras={"front": Camera("front", LENS)})
    try:
        made = ingest(tmp_path / "src", seen, tmp_path / "out")
    except TwinproofError:
        assert not (tmp_path / "out").exists()
    else:
        assert len(made.episodes) == 2
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_an_episode_folder_without_data_is_an_error_and_never_dropped(tmp_path):
    table(tmp_path / "src" / "one" / "state.csv")
    for files, words in (([], "it is empty"), (["sub/state.csv"], "it has sub"), (["notes.txt"], "it has notes.txt")):
        folder = tmp_path / "src" / "two"
        folder.mkdir()
        for name in files:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text("time_s,a,b\n0,1,2\n")
        with pytest.raises(RecordingError, match=f"the episode folder .*two holds no table.*{words}"):
            ingest(tmp_path / "src", rig(), tmp_path / "out")
        shutil.rmtree(folder)


def test_folders_beside_flat_tables_are_named_as_left_out(tmp_path):
    table(tmp_path / "src" / "state.csv")
    (tmp_path / "src" / "published").mkdir()
    made = ingest(tmp_path / "src", rig(), tmp_path / "out")
    assert made.source["left_out"] == ["published/"]


def test_a_stray_word_among_numbers_is_named_with_its_row(tmp_path):
    path = table(tmp_path / "src" / "e" / "state.csv")
    lines = path.read_text().splitlines()
    lines[6] = "0.5,oops,1"
    path.write_text("\n".join(lines))
    with pytest.raises(RecordingError, match="row 5 of the column 'a' holds 'oops', not a number"):
        ingest(tmp_path / "src", rig(), tmp_path / "out")


@pytest.mark.parametrize(("first", "name"), [(1_700_000_000_000, "time_ms"), (1_700_000_000_000_000, "time_us")])
def test_milliseconds_called_seconds_are_noticed(tmp_path, first, name):
    path = tmp_path / "src" / "e" / "state.csv"
    path.parent.mkdir(parents=True)
    path.write_text(f"timestamp,a,b\n{first},1,2\n{first + 20},1,2\n")
    with pytest.raises(RecordingError, match=f"no time in seconds. Call the column {name}"):
        ingest(tmp_path / "src", rig(), tmp_path / "out")


def test_parquet_timestamps_are_read_exactly(tmp_path):
    stamps = np.array([1_700_000_000_000_001, 1_700_000_000_020_002], dtype="datetime64[us]")
    (tmp_path / "src" / "e").mkdir(parents=True)
    pq.write_table(pa.table({"timestamp": stamps, "a": [1.0, 2.0], "b": [1.0, 2.0]}), tmp_path / "src/e/state.parquet")
    (episode,) = ingest(tmp_path / "src", rig(), tmp_path / "out").episodes
    assert episode.start_ns == 1_700_000_000_000_001_000
    assert episode.signals["q"].time_s.tolist() == [0.0, 0.020001]


def test_a_label_rule_that_matches_no_episode_is_an_error(tmp_path):
    table(tmp_path / "src" / "one" / "state.csv")
    for pattern in ("0-1O", "ep77", "3-1"):
        with pytest.raises(RigError, match=f"labels for episodes '{pattern}' match no episode; the source has 0"):
            ingest(tmp_path / "src", rig(labels=(Labels(pattern, {"object": "mug"}),)), tmp_path / "out")
    with pytest.raises(RigError, match="the label 'object' is empty"):
        rig(labels=(Labels("*", {"object": " "}),))
    with pytest.raises(RigError, match="names no episodes"):
        rig(labels=(Labels(" ", {"object": "mug"}),))


def test_an_episode_may_be_left_out_for_a_stated_reason(tmp_path):
    table(tmp_path / "src" / "good" / "state.csv")
    (tmp_path / "src" / "torn").mkdir()
    (tmp_path / "src" / "torn" / "state.csv").write_text("time_s,a,b\n0,1,2\n0,1,2\n")
    with pytest.raises(RecordingError, match="not after sample 0"):
        ingest(tmp_path / "src", rig(), tmp_path / "out")
    made = ingest(tmp_path / "src", rig(leave_out=(LeftOut("torn", "the recorder stuttered"),)), tmp_path / "out")
    assert [episode.source for episode in made.episodes] == ["good"]
    assert made.source["left_out"] == ["episode torn: the recorder stuttered"]


def test_one_signal_may_be_allowed_longer_silences(tmp_path):
    path = tmp_path / "src" / "e" / "state.csv"
    path.parent.mkdir(parents=True)
    path.write_text("time_s,a,b\n0,1,2\n0.1,1,2\n0.2,1,2\n9,3,3\n")
    rule = SignalRule("state", "joint_position", "rad", max_gap_s=10.0)
    ingest(tmp_path / "src", Rig("bot", signals={"q": rule}), tmp_path / "out")
    event = SignalRule("state", "event", "1")
    ingest(tmp_path / "src", Rig("bot", signals={"q": event}), tmp_path / "events")


def test_two_columns_of_one_name_lose_nothing_in_silence():
    from twinproof.ingest.assemble import Tolerances, assemble
    from twinproof.ingest.raw import RawEpisode, RawSignal

    raw = RawSignal("state", ("a", "b", "b"), np.arange(3.0), np.zeros((3, 3)))
    with pytest.raises(RecordingError, match="two columns of the source are called 'b'"):
        assemble(RawEpisode(0, "e", (raw,), ()), rig(), Path(), Tolerances())
