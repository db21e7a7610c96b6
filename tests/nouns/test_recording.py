"""The laws of Signal, Video, Episode and Recording."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.generator import practice_recording
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import RecordingError, StoreError
from twinproof.nouns.recording import Recording, verify
from twinproof.nouns.rig import Rig
from twinproof.nouns.signal import Column, Signal

TWO = (Column("a", "rad"), Column("b", "rad"))


def signal(time_s=(0.0, 0.1, 0.2), value=None, **more) -> Signal:
    value = np.zeros((len(time_s), 2)) if value is None else value
    return Signal("state", "joint_position", TWO, np.array(time_s), np.array(value), **more)


def test_times_that_do_not_increase_are_refused_with_the_sample():
    with pytest.raises(RecordingError, match=r"sample 2 is at 0.100000 s, not after sample 1 at 0.100000 s"):
        signal(time_s=(0.0, 0.1, 0.1))


def test_a_nan_is_refused_unless_it_is_marked_missing():
    value = np.zeros((3, 2))
    value[1, 1] = np.nan
    with pytest.raises(RecordingError, match="b is nan at sample 1"):
        signal(value=value)
    marked = signal(value=value, missing=np.isnan(value))
    assert np.isnan(marked.value[1, 1])
    assert not np.isnan(marked.value[1, 0])


def test_infinity_is_refused_even_beside_missing_values():
    value = np.zeros((3, 2))
    value[0, 0], value[1, 1] = np.nan, np.inf
    with pytest.raises(RecordingError, match="b is inf at sample 1"):
        signal(value=value, missing=np.isnan(value))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"time_s": ()}, "no samples"),
        ({"value": np.zeros((3, 3))}, "shape"),
        ({"log_time_s": np.zeros(2)}, "2 log times for 3 samples"),
        ({"time_s": (0.0, np.inf, 2.0)}, "time of sample 1 is inf"),
    ],
)
def test_malformed_signals_are_refused(change, words):
    with pytest.raises(RecordingError, match=words):
        signal(**change)


def test_two_columns_of_one_name_and_unknown_kinds_are_refused():
    with pytest.raises(RecordingError, match="two columns are called 'a'"):
        Signal("s", "other", (TWO[0], TWO[0]), np.array([0.0]), np.zeros((1, 2)))
    with pytest.raises(RecordingError, match="kind 'joints' is unknown"):
        Signal("s", "joints", TWO, np.array([0.0]), np.zeros((1, 2)))


def test_arrays_are_frozen_copies():
    times = np.array([0.0, 1.0])
    made = Signal("s", "other", TWO, times, np.zeros((2, 2)))
    times[0] = 5.0
    assert made.time_s[0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        made.value[0, 0] = 1.0


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_any_signal_survives_the_disk_bit_for_bit(tmp_path_factory, data):
    rows = data.draw(st.integers(1, 20))
    steps = data.draw(st.lists(st.floats(1e-9, 10.0), min_size=rows, max_size=rows))
    numbers = st.floats(allow_nan=False, allow_infinity=False)
    value = np.array(data.draw(st.lists(numbers, min_size=2 * rows, max_size=2 * rows))).reshape(rows, 2)
    missing = np.array(data.draw(st.lists(st.booleans(), min_size=2 * rows, max_size=2 * rows))).reshape(rows, 2)
    times = np.cumsum(steps)
    if (np.diff(times) <= 0).any():
        return
    made = Signal("s", "other", TWO, times, value, missing, times + 0.5)
    other = Signal("longer", "other", TWO, np.arange(30.0), np.ones((30, 2)))
    folder = tmp_path_factory.mktemp("rec") / "r"
    Recording(Rig("bot"), (Episode.of({"s": made, "longer": other}, {}),), {}).save(folder)
    back = Recording.load(folder).episodes[0].signals["s"]
    assert back == made
    assert back.value.tobytes() == made.value.tobytes()
    assert back.time_s.tobytes() == made.time_s.tobytes()


def test_save_and_load_is_the_identity(tmp_path):
    made = practice_recording(tmp_path, 2, seconds=0.4, size=(64, 48))
    made.save(tmp_path / "r")
    back = Recording.load(tmp_path / "r")
    assert back == made
    for a, b in zip(made.episodes, back.episodes, strict=True):
        assert a.signals["state"] == b.signals["state"]
        assert a.videos["front"] == b.videos["front"]
        for (ta, fa), (tb, fb) in zip(a.videos["front"].frames(), b.videos["front"].frames(), strict=True):
            assert ta == tb
            assert np.array_equal(fa, fb)
    verify(tmp_path / "r")


def test_the_order_of_episodes_does_not_change_the_hash(tmp_path):
    made = practice_recording(tmp_path, 3, seconds=0.2, size=(64, 48))
    assert Recording(made.rig, made.episodes[::-1], {}).hash == made.hash


def test_labels_may_be_mended_without_changing_the_id():
    one = Episode.of({"state": signal()}, {}, labels={"object": "mug"})
    two = Episode.of({"state": signal()}, {}, labels={"object": "cup"})
    assert one.id == two.id
    assert one != two


def test_two_episodes_with_one_content_are_refused_with_both_names(tmp_path):
    one, two = (Episode.of({"state": signal()}, {}, source=name) for name in ("take 1", "take 2"))
    with pytest.raises(RecordingError, match="same measurements.*'take 1' and 'take 2'"):
        Recording(Rig("bot"), (one, two), {})


def test_an_empty_episode_is_refused():
    with pytest.raises(RecordingError, match="take 9 is empty"):
        Episode.of({}, {}, source="take 9")


def every_file(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_one_changed_byte_in_any_file_is_found(tmp_path):
    practice_recording(tmp_path, 1, seconds=0.2, size=(64, 48)).save(tmp_path / "r")
    for path in every_file(tmp_path / "r"):
        whole = path.read_bytes()
        path.unlink()  # the mp4 is a hard link; do not touch the original
        path.write_bytes(whole[: len(whole) // 2] + bytes([whole[len(whole) // 2] ^ 1]) + whole[len(whole) // 2 + 1 :])
        with pytest.raises(RecordingError):
            verify(tmp_path / "r")
        path.write_bytes(whole)
    verify(tmp_path / "r")


def test_a_folder_without_its_json_was_never_finished(tmp_path):
    practice_recording(tmp_path, 1, seconds=0.2, size=(64, 48)).save(tmp_path / "r")
    (tmp_path / "r" / "recording.json").unlink()
    with pytest.raises(RecordingError, match="never finished"):
        Recording.load(tmp_path / "r")


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "mine.txt").write_text("keep me")
    with pytest.raises(StoreError, match="not empty"):
        practice_recording(tmp_path, 1, seconds=0.2, size=(64, 48)).save(tmp_path / "r")
    assert (tmp_path / "r" / "mine.txt").read_text() == "keep me"
