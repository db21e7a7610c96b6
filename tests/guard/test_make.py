"""A recording becomes a split: cut apart on disk, the holdout nowhere in the clear, the same for the same seed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.guard.recordings import episode, filmed, path, recording
from twinproof.guard.audit import audit
from twinproof.guard.make import Grouping, make
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import RecordingError, SplitError, StoreError
from twinproof.nouns.recording import Recording, verify
from twinproof.nouns.rig import Rig
from twinproof.nouns.split import PARTS, Split
from twinproof.nouns.video_write import Encoding, encode

LABELS = [{"object": f"mug_{k // 2}", "session": f"day_{k // 4}"} for k in range(16)]


def test_groups_stay_whole_and_the_result_says_how_well_sizes_were_met(tmp_path: Path) -> None:
    made = make(recording(LABELS), tmp_path / "split", Grouping())
    assert made.keys == ("object", "session")
    assert [len(made.ids(part)) for part in PARTS] == [8, 4, 4]  # four days of four episodes
    assert "50.0%  (asked 60.0%)" in made.summary()
    assert "grouped by object, session" in made.summary()
    assert made == Split.load(tmp_path / "split")
    assert made.recording == recording(LABELS).hash
    assert made.floor["state/j0"] == pytest.approx(1e-3, rel=0.5)
    assert json.loads((tmp_path / "split" / "split.json").read_text())["threshold"] == 3.0


def test_the_split_depends_on_the_seed_and_not_on_the_order_of_episodes(tmp_path: Path) -> None:
    source = recording([{"object": str(k)} for k in range(12)])
    turned = Recording(source.rig, tuple(reversed(source.episodes)), source.source)
    one, same = make(source, tmp_path / "a", Grouping(seed=4)), make(turned, tmp_path / "b", Grouping(seed=4))
    assert one == same
    for part in ("calibration", "validation"):
        text = [(folder / part / "recording.json").read_bytes() for folder in (tmp_path / "a", tmp_path / "b")]
        assert text[0] == text[1]
    assert make(source, tmp_path / "c", Grouping(seed=5)).holdout != one.holdout


def test_no_byte_of_the_holdout_lies_in_the_clear(tmp_path: Path) -> None:
    source = recording([{"object": str(k)} for k in range(5)], tmp_path / "videos")
    source.save(tmp_path / "ingested")
    made = make(Recording.load(tmp_path / "ingested"), tmp_path / "split", Grouping())
    needles, inodes = [], set()
    for id in made.holdout:
        folder = tmp_path / "ingested" / "episodes" / id
        for file in [folder / "signals.parquet", *(folder / "video").glob("*.mp4")]:
            data, inode = file.read_bytes(), file.stat().st_ino
            inodes.add(inode)
            needles += [data[at : at + 48] for at in (len(data) // 4, len(data) // 2)]
        value = source.episode(id).signals["state"].value
        needles.append(value[30].tobytes())
    files = [file for file in (tmp_path / "split").rglob("*") if file.is_file()]
    assert not [file for file in files if file.stat().st_ino in inodes]
    for file in files:
        data = file.read_bytes()
        assert not [needle for needle in needles if needle in data], file
        if "holdout" in file.parts:
            assert b"PAR1" not in data[:4]
            assert b"ftyp" not in data[:64]
    assert {file.name for file in files if "holdout" in file.parts} == {"holdout.json", "key", "sealed.bin"}
    everywhere = {file.parent.name for file in (tmp_path / "split").rglob("episode.json")}
    assert everywhere == {*made.calibration, *made.validation}
    assert not list((tmp_path / "split").glob(".*"))


def test_calibration_links_the_ingested_pictures_instead_of_copying_them(tmp_path: Path) -> None:
    recording(LABELS, tmp_path / "videos").save(tmp_path / "ingested")
    made = make(Recording.load(tmp_path / "ingested"), tmp_path / "split", Grouping())
    for part in ("calibration", "validation"):
        verify(tmp_path / "split" / part)
        id = made.ids(part)[0]
        picture = Path("episodes", id, "video", "front.mp4")
        assert (tmp_path / "split" / part / picture).samefile(tmp_path / "ingested" / picture)


def test_a_picture_changed_after_ingest_stops_the_split(tmp_path: Path) -> None:
    recording(LABELS, tmp_path / "videos").save(tmp_path / "ingested")
    source = Recording.load(tmp_path / "ingested")
    file = source.episodes[0].videos["front"].path
    data = bytearray(file.read_bytes())
    at = data.index(b"mdat") + 900
    data[at : at + 4] = bytes(255 - byte for byte in data[at : at + 4])
    file.write_bytes(data)
    with pytest.raises(RecordingError, match="was changed since it was written"):
        make(source, tmp_path / "split", Grouping())
    assert not (tmp_path / "split").exists()
    assert not list(tmp_path.glob(".split*"))


def test_copies_are_kept_in_one_part_or_refused_with_both_ids(tmp_path: Path) -> None:
    source = recording([{"object": str(k)} for k in range(8)])
    first = source.episodes[3]
    signal = first.signals["state"]
    noisy = signal.value[2:-2] + np.random.default_rng(0).normal(0, 2e-3, (56, 3))
    copy = episode(signal.time_s[2:-2], noisy, "a copy", {"object": "under another name"})
    both = Recording(source.rig, (*source.episodes, copy), {})
    for seed in range(5):
        made = make(both, tmp_path / f"split{seed}", Grouping(seed=seed))
        assert [{pair.first, pair.second} for pair in made.alike] == [{first.id, copy.id}]
        assert any({first.id, copy.id} <= set(made.ids(part)) for part in PARTS)
    with pytest.raises(SplitError, match="1 pairs of episodes are alike") as caught:
        make(both, tmp_path / "refused", Grouping(duplicates="refuse"))
    assert first.id in str(caught.value)
    assert copy.id in str(caught.value)
    assert not (tmp_path / "refused").exists()


def test_nothing_is_overwritten_and_too_few_groups_leave_nothing_behind(tmp_path: Path) -> None:
    make(recording(LABELS), tmp_path / "split", Grouping())
    with pytest.raises(StoreError, match="not empty"):
        make(recording(LABELS), tmp_path / "split", Grouping())
    with pytest.raises(SplitError, match="--spans"):
        make(recording([{"object": "a"}] * 4), tmp_path / "none", Grouping())
    assert {entry.name for entry in tmp_path.iterdir()} == {"split"}


def long_recording(tmp_path: Path, seconds: float = 20.0, count: int = 1) -> Recording:
    made = []
    for k in range(count):
        rng = np.random.default_rng(k)
        time_s = np.sort(rng.uniform(0, seconds, round(50 * seconds)))
        one = episode(time_s, path(rng, time_s), f"take {k}", {"object": "mug"}, start_ns=1_700_000_000_000_000_123)
        made.append(filmed(one, tmp_path / f"film{k}", k, frames=40))
    return Recording(recording([{}]).rig, tuple(made), {})


def test_one_long_episode_becomes_three_spans_with_gaps_between(tmp_path: Path) -> None:
    source = long_recording(tmp_path)
    made = make(source, tmp_path / "split", Grouping(spans=True, gap_s=0.5, sizes=(0.5, 0.3, 0.2)))
    calibration, validation, holdout = made.parts()
    with holdout.open(by="panel") as opened:
        pieces = [calibration.recording.episodes[0], validation.recording.episodes[0], opened.episodes[0]]
        whole = source.episodes[0]
        stamps = whole.start_ns + np.round(whole.signals["state"].time_s * 1e9).astype(np.int64)
        frames = [picture for _, picture in whole.videos["front"].frames()]
        frame_stamps = whole.start_ns + np.round(whole.videos["front"].time_s * 1e9).astype(np.int64)
        borders, kept, frames_kept = [], 0, 0
        for piece in pieces:
            mine = piece.start_ns + np.round(piece.signals["state"].time_s * 1e9).astype(np.int64)
            at = np.searchsorted(stamps, mine)
            assert (stamps[at] == mine).all()  # the very stamps
            assert (np.diff(at) == 1).all()  # contiguous
            assert (piece.signals["state"].value == whole.signals["state"].value[at]).all()
            assert piece.signals["state"].time_s[0] >= 0
            borders.append((int(mine[0]), int(mine[-1])))
            kept += len(mine)
            for time_s, picture in piece.videos["front"].frames():
                index = int(np.searchsorted(frame_stamps, piece.start_ns + round(time_s * 1e9)))
                assert (picture == frames[index]).all()
                frames_kept += 1
            assert f"span of {whole.id}" in piece.notes[-1]
            assert dict(piece.labels) == {"object": "mug"}
    assert borders[1][0] - borders[0][1] >= 0.5e9
    assert borders[2][0] - borders[1][1] >= 0.5e9
    outside = sum((span.end_s - span.start_s) for span in made.spans)
    assert outside == pytest.approx(whole.span_s[1] - whole.span_s[0] - 1.0, abs=1e-6)
    assert kept < len(stamps)
    assert frames_kept < len(frames)
    assert "50.0%  (asked 50.0%)" in made.summary()
    assert "gaps of 0.5 s" in made.summary()
    assert (made.gap_s, made.keys) == (0.5, ())
    assert audit(tmp_path / "split").ok
    assert Split.load(tmp_path / "split") == made


def test_several_long_episodes_are_each_cut_in_three(tmp_path: Path) -> None:
    made = make(long_recording(tmp_path, 8.0, 2), tmp_path / "split", Grouping(spans=True))
    assert [len(made.ids(part)) for part in PARTS] == [2, 2, 2]


def test_spans_and_labels_or_copies_exclude_each_other(tmp_path: Path) -> None:
    source = long_recording(tmp_path, 8.0)
    with pytest.raises(SplitError, match="--group-by object and --spans exclude each other"):
        make(source, tmp_path / "split", Grouping(keys=("object",), spans=True))
    one = source.episodes[0].signals["state"]
    copy = episode(one.time_s + 0.1, one.value, "copy")
    with pytest.raises(SplitError, match="alike to within 3 noise floors"):
        make(Recording(source.rig, (*source.episodes, copy), {}), tmp_path / "split", Grouping(spans=True))


def test_an_episode_too_short_for_its_gaps_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SplitError, match="too short for three spans"):
        make(long_recording(tmp_path, 1.5), tmp_path / "split", Grouping(spans=True, gap_s=1.0))
    rare = episode(np.array([0.0, 10.0]), np.zeros((2, 1)), "two samples")
    with pytest.raises(SplitError, match="the validation span, .* holds no sample and no frame"):
        make(Recording(recording([{}]).rig, (rare,), {}), tmp_path / "split", Grouping(spans=True))


def test_a_signal_or_camera_with_nothing_in_a_span_is_left_out_with_a_note(tmp_path: Path) -> None:
    source = long_recording(tmp_path, 10.0).episodes[0]
    rare = episode(np.array([0.0, 0.5]), np.ones((2, 1)), "rare", kind="event").signals["state"]
    film = filmed(source, tmp_path / "few", 9, frames=2)  # one picture at either end
    rare_named = type(rare)("rare", "event", rare.columns, rare.time_s, rare.value)
    both = type(source).of({"state": source.signals["state"], "rare": rare_named}, dict(film.videos), source="take")
    made = make(Recording(recording([{}]).rig, (both,), {}), tmp_path / "split", Grouping(spans=True))
    (piece,) = made.parts()[1].recording.episodes
    assert set(piece.signals) == {"state"}
    assert "signal 'rare' has no sample in this span" in piece.notes
    assert "camera 'front' has no frame in this span" in piece.notes


def test_spans_copy_packets_and_do_not_inflate_the_pictures(tmp_path: Path) -> None:
    how = Encoding("libx264", "yuv420p", "rgb24", {"crf": "23", "g": "10", "bf": "3"})
    y, x = np.mgrid[0:96, 0:128]
    pictures = ((k / 10, np.stack([x + 3 * k, y, x // 2], axis=-1).astype(np.uint8)) for k in range(120))
    video = encode(pictures, "front", tmp_path / "film.mp4", "rgb", how)
    source = Recording(Rig("bot"), (Episode.of({}, {"front": video}),), {})
    made = make(source, tmp_path / "split", Grouping(spans=True, gap_s=1.0))
    calibration, validation, _ = made.parts()
    for part in (calibration, validation):
        (episode,) = part.recording.episodes
        cut = episode.videos["front"]
        assert cut.path.stat().st_size < video.path.stat().st_size
        at = round((episode.start_ns / 1e9 + cut.time_s[0]) * 10)
        assert np.array_equal(next(iter(cut.frames()))[1], dict(video.frames())[at / 10])
