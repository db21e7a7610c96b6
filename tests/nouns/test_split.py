"""A split: its laws, the seal, who may open the holdout, and what each opening leaves in the ledger."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
import tracemalloc
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from tests.guard.recordings import recording
from twinproof.guard.make import Grouping, make
from twinproof.nouns import seal as seal_module
from twinproof.nouns.errors import LedgerError, SplitError
from twinproof.nouns.parts import Calibration, Validation
from twinproof.nouns.recording import Recording
from twinproof.nouns.seal import CHUNK, TAG, seal, unseal
from twinproof.nouns.split import Alike, Split

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def plain_split() -> Split:
    labels = {f"e{k}": {"object": f"mug_{k // 2}"} for k in range(6)}
    return Split(
        recording="r", keys=("object",), labels=labels, calibration=("e0", "e1"), validation=("e2", "e3"),
        holdout=("e4", "e5"), hashes={"calibration": "c", "validation": "v", "holdout": "h"}, seed=3,
        sizes=(0.4, 0.3, 0.3), threshold=3.0, floor={"state/j0": 1e-3},
        alike=(Alike("e0", "e1", 0.9, 0.25, {"state/j0": 2e-3}, {"front": 3}),),
    )  # fmt: skip


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("split")
    labels = [{"object": f"mug_{k}"} for k in range(5)]
    make(recording(labels, folder / "videos"), folder / "out", Grouping())
    return folder / "out"


@pytest.fixture
def split(made_once: Path, tmp_path: Path) -> Split:
    shutil.copytree(made_once, tmp_path / "split")
    return Split.load(tmp_path / "split")


@pytest.fixture
def private_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_save_and_load_is_the_identity(tmp_path: Path) -> None:
    split = plain_split()
    split.save(tmp_path / "a")
    again = Split.load(tmp_path / "a")
    assert again == split
    assert hash(again) == hash(split)
    assert again.alike == split.alike
    assert again != replace(split, seed=4)
    with pytest.raises(SplitError, match="holds a split already"):
        split.save(tmp_path / "a")


def test_a_split_that_lies_nowhere_has_no_parts() -> None:
    with pytest.raises(SplitError, match="no folder yet"):
        plain_split().parts()


def test_parts_are_disjoint_cover_everything_and_none_is_empty() -> None:
    with pytest.raises(SplitError, match="episode e0 is in calibration and in validation"):
        replace(plain_split(), validation=("e0", "e2", "e3"))
    with pytest.raises(SplitError, match="e5: in the recording or in a part, but not in both"):
        replace(plain_split(), holdout=("e4",))
    with pytest.raises(SplitError, match="holdout part is empty"):
        replace(plain_split(), holdout=())


def test_no_value_of_a_grouping_key_stands_in_two_parts() -> None:
    with pytest.raises(SplitError, match=r"object 'mug_0' is in calibration \(episode e0\) and in validation"):
        replace(plain_split(), calibration=("e0",), validation=("e1", "e2", "e3"), alike=())
    with pytest.raises(SplitError, match="e0 has no 'scene', a grouping key"):
        replace(plain_split(), keys=("object", "scene"))


def test_copies_do_not_straddle_parts() -> None:
    with pytest.raises(SplitError, match="e0 and e5 are alike to 0.5 noise floors"):
        replace(plain_split(), alike=(Alike("e0", "e5", 0.5, 0.0),))


def test_a_changed_split_json_is_refused(split: Split) -> None:
    assert split.folder is not None
    path = split.folder / "split.json"
    text = path.read_text()
    path.write_text(text.replace('"seed": 0', '"seed": 1'))
    with pytest.raises(SplitError, match=r"split\.json was changed"):
        Split.load(split.folder)
    with pytest.raises(SplitError, match="does not exist"):
        Split.load(split.folder / "nowhere")


def test_parts_are_recordings_of_their_own_and_have_three_types(split: Split) -> None:
    calibration, validation, holdout = split.parts()
    assert (type(calibration), type(validation)) == (Calibration, Validation)
    assert calibration.ids == split.calibration
    assert validation.ids == split.validation
    assert holdout.ids == split.holdout
    assert calibration.split == split.hash
    assert calibration == split.parts()[0]
    assert calibration != validation
    assert split.folder is not None
    assert Recording.load(split.folder / "calibration").hash == split.hashes["calibration"]
    assert "made here" in str(calibration.recording.source)
    assert "secret" not in str(calibration.recording.source)


def test_statistics_cover_one_part_alone(split: Split) -> None:
    calibration = split.parts()[0]
    values = np.concatenate([episode.signals["state"].value for episode in calibration.recording.episodes])
    found = calibration.statistics()
    assert set(found) == {"state/j0", "state/j1", "state/j2"}
    for j, name in enumerate(sorted(found)):
        one = found[name]
        assert one.count == len(values)
        expected = [values[:, j].mean(), values[:, j].std(), values[:, j].min(), values[:, j].max()]
        assert [one.mean, one.std, one.low, one.high] == pytest.approx(expected, rel=1e-9)


def test_opening_gives_the_episodes_and_leaves_a_line(split: Split, private_tmp: Path) -> None:
    holdout = split.parts()[2]
    with holdout.open(by="panel A") as opened:
        assert tuple(sorted(episode.id for episode in opened.episodes)) == split.holdout
        assert opened.episodes[0].signals["state"].value.shape == (60, 3)
        assert len(list(opened.episodes[0].videos["front"].frames())) == 6
        (inside,) = private_tmp.iterdir()
        assert inside.stat().st_mode & 0o777 == 0o700
        assert opened.ledger == split.ledger.head()
    assert list(private_tmp.iterdir()) == []
    line = split.ledger.lines()[-1]
    assert (line.kind, line.fields["by"], line.fields["attempt"]) == ("opened", "panel A", 1)
    assert tuple(line.fields["ids"]) == split.holdout


def test_an_open_holdout_vanishes_with_its_object_and_a_dead_run_is_swept(split: Split, private_tmp: Path) -> None:
    dead = private_tmp / ".twinproof-holdout.999999999.abc.tmp"
    dead.mkdir()
    opened = split.parts()[2].open(by="panel A")
    assert [path.name for path in private_tmp.iterdir() if path != dead] == [p.name for p in private_tmp.iterdir()]
    del opened
    gc.collect()
    assert list(private_tmp.iterdir()) == []


def test_the_same_panel_resumes(split: Split) -> None:
    holdout = split.parts()[2]
    holdout.open(by="A").close()
    with holdout.open(by="A") as opened:
        assert opened.attempt == 1
    assert [line.kind for line in split.ledger.lines()] == ["created", "opened", "resumed"]


def test_another_panel_has_to_say_what_changed(split: Split) -> None:
    holdout = split.parts()[2]
    holdout.open(by="A").close()
    with pytest.raises(SplitError, match=r"this is another panel. Say what changed"):
        holdout.open(by="B")
    with holdout.open(by="B", change="friction range widened") as opened:
        assert opened.attempt == 2
    holdout.open(by="B", change="friction range widened").close()
    holdout.open(by="B").close()
    with pytest.raises(SplitError, match="becomes attempt 3"):
        holdout.open(by="A", change="  ")
    assert [line.kind for line in split.ledger.lines()[1:]] == ["opened", "opened", "resumed", "resumed"]
    assert split.ledger.lines()[2].fields["change"] == "friction range widened"


def test_a_refit_after_an_opening_has_to_be_declared(split: Split) -> None:
    holdout = split.parts()[2]
    split.log_fit("identify", "artifact 1", split.calibration, NOW, NOW + timedelta(minutes=3))
    holdout.open(by="A").close()
    split.log_fit("identify", "artifact 1", split.calibration, NOW, NOW)  # the same thing once more is no refit
    holdout.open(by="A").close()
    split.log_fit("identify", "artifact 2", split.calibration, NOW, NOW)
    with pytest.raises(SplitError, match="'identify' was fitted after it"):
        holdout.open(by="A")
    with holdout.open(by="A", change="friction range widened") as opened:
        assert opened.attempt == 2
    split.log_fit("identify", "artifact 3", split.calibration, NOW, NOW)
    with pytest.raises(SplitError, match="becomes attempt 3"):
        holdout.open(by="A", change="friction range widened")


def test_an_opening_needs_a_name(split: Split) -> None:
    with pytest.raises(SplitError, match="by is empty"):
        split.parts()[2].open(by=" ")
    assert len(split.ledger.lines()) == 1


def test_the_line_is_written_before_the_first_byte_is_decrypted(split: Split, private_tmp: Path) -> None:
    assert split.folder is not None
    container = split.folder / "holdout" / "sealed.bin"
    container.chmod(0o600)
    data = bytearray(container.read_bytes())
    data[-1] ^= 1
    container.write_bytes(data)
    with pytest.raises(SplitError, match=r"chunk \d+ of the sealed holdout was changed"):
        split.parts()[2].open(by="A")
    assert [line.kind for line in split.ledger.lines()] == ["created", "opened"]
    assert list(private_tmp.iterdir()) == []


def test_a_line_that_cannot_be_written_opens_nothing(split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    decrypted = []
    monkeypatch.setattr(seal_module, "_cipher", lambda secret: decrypted.append(secret))
    monkeypatch.setattr(os, "fsync", lambda handle: (_ for _ in ()).throw(OSError(5, "Input/output error")))
    with pytest.raises(LedgerError, match="Nothing was opened or logged"):
        split.parts()[2].open(by="A")
    assert not decrypted


def test_a_missing_key_is_said_before_anything_is_logged(split: Split) -> None:
    assert split.folder is not None
    (split.folder / "holdout" / "key").unlink()
    with pytest.raises(SplitError, match="key is missing"):
        split.parts()[2].open(by="A")
    assert len(split.ledger.lines()) == 1


def test_parts_of_another_split_are_refused(split: Split, tmp_path: Path) -> None:
    labels = [{"object": f"cup_{k}"} for k in range(4)]
    other = make(recording(labels, seed=9), tmp_path / "other", Grouping())
    assert split.folder is not None
    assert other.folder is not None
    for part, text in (("calibration", "holds another recording"), ("holdout", "describes another holdout")):
        shutil.move(split.folder / part, tmp_path / f"kept_{part}")
        shutil.copytree(other.folder / part, split.folder / part)
        with pytest.raises(SplitError, match=text):
            split.parts()
        shutil.rmtree(split.folder / part)
        shutil.move(tmp_path / f"kept_{part}", split.folder / part)
    holdout = split.parts()[2]
    shutil.copy(other.folder / "openings.jsonl", split.folder / "openings.jsonl")
    for use in (
        lambda: split.parts(),
        lambda: holdout.open(by="A"),
        lambda: split.log_fit("f", "a", split.calibration, NOW, NOW),
    ):
        with pytest.raises(SplitError, match="started for another split"):
            use()


def test_a_swapped_container_with_its_own_key_is_refused(split: Split, tmp_path: Path) -> None:
    other = make(recording([{"object": str(k)} for k in range(3)], seed=9), tmp_path / "other", Grouping())
    assert split.folder is not None
    assert other.folder is not None
    for name in ("sealed.bin", "key"):
        (split.folder / "holdout" / name).unlink()
        shutil.copy(other.folder / "holdout" / name, split.folder / "holdout" / name)
    with pytest.raises(SplitError, match="holds another recording"):
        split.parts()[2].open(by="A")


def test_a_fit_is_logged_with_its_parents_and_holdout_parents_are_refused(split: Split) -> None:
    head = split.log_fit("identify", "posterior hash", reversed(split.calibration), NOW, NOW + timedelta(hours=1))
    line = split.ledger.lines()[-1]
    assert (head.count, head.hash) == (line.n, line.hash)
    assert tuple(line.fields["episodes"]) == split.calibration
    assert line.fields["split"] == split.hash
    for episodes, match in (
        ([split.calibration[0], split.holdout[0]], "names holdout episodes"),
        (["nobody"], "names nobody, which is no episode"),
        ([], "names no episode"),
    ):
        with pytest.raises(SplitError, match=match):
            split.log_fit("identify", "x", episodes, NOW, NOW)
    for times in ((NOW, NOW - timedelta(1)), (NOW.replace(tzinfo=None), NOW)):
        with pytest.raises(SplitError, match="Give two times with a zone"):
            split.log_fit("identify", "x", split.calibration, *times)
    assert len(split.ledger.lines()) == 2


@pytest.mark.parametrize("size", [0, 1, CHUNK - 2048, CHUNK, 3 * CHUNK + 17])
def test_a_sealed_folder_comes_back_byte_for_byte(tmp_path: Path, size: int) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    (source / "deep").mkdir(parents=True)
    target.mkdir()
    content = np.random.default_rng(size).bytes(size)
    (source / "deep" / "data.bin").write_bytes(content)
    (source / "empty").touch()
    seal(source, tmp_path / "sealed.bin", tmp_path / "key")
    unseal(tmp_path / "sealed.bin", tmp_path / "key", target)
    assert (target / "deep" / "data.bin").read_bytes() == content
    assert (target / "empty").read_bytes() == b""
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o400


def test_a_changed_cut_swapped_or_lengthened_container_is_refused(tmp_path: Path) -> None:
    source, target, container = tmp_path / "in", tmp_path / "out", tmp_path / "sealed.bin"
    source.mkdir()
    (source / "data.bin").write_bytes(np.random.default_rng(0).bytes(2 * CHUNK + 100))
    seal(source, container, tmp_path / "key")
    good, start, block = container.read_bytes(), len(seal_module.MAGIC), CHUNK + TAG
    container.chmod(0o600)
    chunks = [good[k : k + block] for k in range(start, len(good), block)]
    bad = {
        "first byte": good[:start] + bytes([good[start] ^ 1]) + good[start + 1 :],
        "cut after a chunk": good[: start + 2 * block],
        "cut inside a chunk": good[:-5],
        "only the magic": good[:start],
        "chunks swapped": good[:start] + chunks[1] + chunks[0] + b"".join(chunks[2:]),
        "lengthened": good + b"\x00",
    }
    for data in bad.values():
        container.write_bytes(data)
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        with pytest.raises(SplitError, match="was changed, cut, or sealed with another key"):
            unseal(container, tmp_path / "key", target)
    container.write_bytes(b"something else")
    with pytest.raises(SplitError, match="no sealed holdout"):
        unseal(container, tmp_path / "key", target)
    container.write_bytes(good)
    (tmp_path / "key").chmod(0o600)
    (tmp_path / "key").write_bytes(b"x" * 31)
    with pytest.raises(SplitError, match="a key has 32"):
        unseal(container, tmp_path / "key", target)
    (tmp_path / "key").write_bytes(b"x" * 32)
    with pytest.raises(SplitError, match="sealed with another key"):
        unseal(container, tmp_path / "key", target)


def test_a_full_disk_while_unpacking_says_what_to_do(split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(seal_module.tarfile.TarFile, "extract", full)
    with pytest.raises(SplitError, match="Point TMPDIR at a disk"):
        split.parts()[2].open(by="A")


def test_sealing_and_unsealing_hold_a_few_chunks_in_memory(tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    target.mkdir()
    with (source / "big.bin").open("wb") as handle:
        handle.truncate(40 * CHUNK)
    tracemalloc.start()
    try:
        seal(source, tmp_path / "sealed.bin", tmp_path / "key")
        unseal(tmp_path / "sealed.bin", tmp_path / "key", target)
        assert tracemalloc.get_traced_memory()[1] < 12 * CHUNK
    finally:
        tracemalloc.stop()
    assert (target / "big.bin").stat().st_size == 40 * CHUNK
