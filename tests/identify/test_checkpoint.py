"""Finished stages are kept whole, for one question, and are never trusted when damaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from twinproof.identify.checkpoint import Checkpoint, chance, resume
from twinproof.nouns.randomness import stream

ARRAYS = {"unknowns": np.arange(3.0), "qpos0": np.zeros((2, 1))}


def test_a_stage_comes_back_as_it_was(tmp_path: Path) -> None:
    keep = Checkpoint(tmp_path / "fit", "question")
    assert keep.load("stage0") is None
    keep.save("stage0", ARRAYS)
    keep.save("stage1", {"unknowns": np.ones(1)})
    found = keep.load("stage0")
    assert found is not None
    assert set(found) == set(ARRAYS)
    np.testing.assert_array_equal(found["unknowns"], ARRAYS["unknowns"])
    assert keep.load("stage2") is None
    assert sorted(path.name for path in keep.folder.iterdir()) == ["key.json", "stage0.npz", "stage1.npz"]


def test_another_question_starts_afresh(tmp_path: Path) -> None:
    Checkpoint(tmp_path / "fit", "question").save("stage0", ARRAYS)
    other = Checkpoint(tmp_path / "fit", "another")
    assert other.load("stage0") is None
    other.save("stage1", ARRAYS)
    assert sorted(path.name for path in other.folder.iterdir()) == ["key.json", "stage1.npz"]
    assert Checkpoint(tmp_path / "fit", "question").load("stage1") is None


def test_a_damaged_stage_or_key_counts_as_not_done(tmp_path: Path) -> None:
    keep = Checkpoint(tmp_path / "fit", "question")
    keep.save("stage0", ARRAYS)
    stage = keep.folder / "stage0.npz"
    whole = stage.read_bytes()
    for damaged in (b"", b"not an archive", whole[: len(whole) // 2], whole[:40] + b"\0" * 40 + whole[80:]):
        stage.write_bytes(damaged)
        assert keep.load("stage0") is None
    keep.save("stage0", ARRAYS)
    for text in ("", "{}", "[]", '{"format": "twinproof/fit-checkpoint/1"}'):
        (keep.folder / "key.json").write_text(text)
        assert keep.load("stage0") is None
        assert keep.load_key() is None


def test_it_is_gone_when_the_answer_is_written(tmp_path: Path) -> None:
    keep = Checkpoint(tmp_path / "fit", "question")
    keep.clear()  # nothing there yet
    keep.save("stage0", ARRAYS)
    keep.clear()
    assert not keep.folder.exists()


def test_parts_of_the_work_have_names_of_their_own(tmp_path: Path) -> None:
    keep = Checkpoint(tmp_path / "fit", "question")
    keep.within("start0").save("stage0", {"unknowns": np.zeros(1)})
    keep.within("start1").save("stage0", {"unknowns": np.ones(1)})
    assert keep.load("stage0") is None
    assert [float(keep.within(f"start{k}").load("stage0")["unknowns"][0]) for k in (0, 1)] == [0.0, 1.0]


def test_a_generator_goes_on_where_it_stood() -> None:
    rng = stream(0, "somewhere")
    rng.normal(size=7)
    stood = chance(rng)
    told = rng.normal(size=5)
    other = stream(1, "elsewhere")
    resume(other, stood)
    np.testing.assert_array_equal(other.normal(size=5), told)
