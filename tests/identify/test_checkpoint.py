"""Finished stages are kept whole, for one question, and are never trusted when damaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from twinproof.identify.checkpoint import Checkpoint

ARRAYS = {"unknowns": np.arange(3.0), "qpos0": np.zeros((2, 1))}


def test_a_stage_comes_back_as_it_was(tmp_path: Path) -> None:
    keep = Checkpoint(tmp_path / "fit", "question")
    assert keep.load(0) is None
    keep.save(0, ARRAYS)
    keep.save(1, {"unknowns": np.ones(1)})
    found = keep.load(0)
    assert found is not None
    assert set(found) == set(ARRAYS)
    np.testing.assert_array_equal(found["unknowns"], ARRAYS["unknowns"])
    assert keep.load(2) is None
    assert sorted(path.name for path in keep.folder.iterdir()) == ["key.json", "stage0.npz", "stage1.npz"]


def test_another_question_starts_afresh(tmp_path: Path) -> None:
    Checkpoint(tmp_path / "fit", "question").save(0, ARRAYS)
    other = Checkpoint(tmp_path / "fit", "another")
    assert other.load(0) is None
    other.save(1, ARRAYS)
    assert sorted(path.name for path in other.folder.iterdir()) == ["key.json", "stage1.npz"]
    assert Checkpoint(tmp_path / "fit", "question").load(1) is None


def test_a_damaged_stage_or_key_counts_as_not_done(tmp_path: Path) -> None:
    keep = Checkpoint(tmp_path / "fit", "question")
    keep.save(0, ARRAYS)
    stage = keep.folder / "stage0.npz"
    whole = stage.read_bytes()
    for damaged in (b"", b"not an archive", whole[: len(whole) // 2], whole[:40] + b"\0" * 40 + whole[80:]):
        stage.write_bytes(damaged)
        assert keep.load(0) is None
    keep.save(0, ARRAYS)
    for text in ("", "{}", "[]", '{"format": "twinproof/fit-checkpoint/1"}'):
        (keep.folder / "key.json").write_text(text)
        assert keep.load(0) is None
        assert keep.load_key() is None


def test_it_is_gone_when_the_answer_is_written(tmp_path: Path) -> None:
    keep = Checkpoint(tmp_path / "fit", "question")
    keep.clear()  # nothing there yet
    keep.save(0, ARRAYS)
    keep.clear()
    assert not keep.folder.exists()
