"""The audit: an untouched split holds; every kind of tampering and of peeking has a sentence of its own."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.guard.recordings import recording
from twinproof.guard.audit import audit
from twinproof.guard.make import Grouping, make
from twinproof.nouns.errors import SplitError
from twinproof.nouns.files import write_json
from twinproof.nouns.hashing import canonical, content_hash
from twinproof.nouns.split import FORMAT, Split

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audit")
    make(recording([{"object": str(k)} for k in range(5)], folder / "videos"), folder / "split", Grouping())
    return folder / "split"


@pytest.fixture
def split(made_once: Path, tmp_path: Path) -> Split:
    shutil.copytree(made_once, tmp_path / "split")
    return Split.load(tmp_path / "split")


def place(split: Split) -> Path:
    assert split.folder is not None
    return split.folder


def fit(split: Split, artifact: str = "a1") -> None:
    split.log_fit("identify", artifact, split.calibration, NOW, NOW + timedelta(hours=1))


def broken(split: Split, *artifacts: Path) -> list[str]:
    return [finding.text for finding in audit(place(split), artifacts).breaks]


def flip(path: Path, at: int) -> None:
    path.chmod(0o600)
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.unlink()  # a hard link elsewhere keeps its own bytes
    path.write_bytes(data)


def artifact(folder: Path, split: Split, **more: object) -> Path:
    folder.mkdir()
    head = split.ledger.head()
    content = {"format": "twinproof/posterior/1", "ledger": {"count": head.count, "hash": head.hash}, **more}
    write_json(folder / "posterior.json", content)
    return folder


def test_an_untouched_split_holds_through_fit_opening_and_declared_change(split: Split) -> None:
    assert audit(place(split)).ok
    fit(split)
    split.parts()[2].open(by="A").close()
    fit(split, "a2")
    split.parts()[2].open(by="A", change="friction range widened").close()
    split.parts()[2].open(by="A").close()
    result = audit(place(split))
    assert (result.ok, result.attempts) == (True, 2)
    texts = " ".join(finding.text for finding in result.findings)
    assert "attempt 2 at" in texts
    assert 'after the declared change "friction range widened"' in texts
    assert "saw 3 episodes, none of the holdout" in texts


def test_an_undeclared_refit_is_a_break_until_it_is_declared(split: Split) -> None:
    fit(split)
    split.parts()[2].open(by="A").close()
    fit(split)  # the same artifact: no refit
    assert audit(place(split)).ok
    fit(split, "a2")
    (text,) = broken(split)
    assert "undeclared refit: the holdout was opened (line 3) before the fit 'identify' ended (line 5" in text
    split.parts()[2].open(by="A", change="delay added").close()
    assert audit(place(split)).ok


def test_a_fit_that_claims_a_later_end_than_the_opening_behind_it_is_a_break(split: Split) -> None:
    future = datetime.now(UTC) + timedelta(days=1)
    split.log_fit("identify", "a1", split.calibration, NOW, future)
    split.parts()[2].open(by="A").close()
    assert "says it ended after the opening in line 3" in broken(split)[0]


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"episodes": "holdout"}, "has holdout episodes among its parents"),
        ({"episodes": ["nobody"]}, "has parents that are in no part: nobody"),
        ({"split": "another"}, "names another split"),
    ],
)
def test_a_fit_line_that_went_round_log_fit_is_a_break(split: Split, fields: dict[str, object], match: str) -> None:
    line = {"name": "sneaky", "artifact": "x", "episodes": list(split.calibration), "split": split.hash, **fields}
    if line["episodes"] == "holdout":
        line["episodes"] = list(split.holdout)
    split.ledger.append("fit", line)
    (text,) = broken(split)
    assert match in text
    assert "line 2" in text


def test_an_opening_that_skips_an_attempt_or_says_nothing_is_a_break(split: Split) -> None:
    split.ledger.append("opened", {"by": "A", "attempt": 1, "change": None, "ids": []})
    split.ledger.append("opened", {"by": "B", "attempt": 2, "change": None, "ids": []})
    split.ledger.append("opened", {"by": "B", "attempt": 5, "change": "something", "ids": []})
    texts = broken(split)
    assert len(texts) == 2
    assert "with no change declared: it should be attempt 2" in texts[0]
    assert "it should be attempt 3" in texts[1]


def test_each_line_changed_removed_swapped_or_cut_is_named(split: Split, tmp_path: Path) -> None:
    for name in ("a1", "a2", "a3"):
        fit(split, name)
    carrier = artifact(tmp_path / "posterior", split)
    path = place(split) / "openings.jsonl"
    good = path.read_bytes()
    lines = good.split(b"\n")[:-1]
    for k in range(4):
        tampered = {
            f"line {k + 1} was changed": [*lines[:k], lines[k].replace(b":", b" :", 1), *lines[k + 1 :]],
            f"line {k + 1} was removed": [*lines[:k], *lines[k + 1 :]],
            f"line {k + 1} stands after line {k + 2}": [*lines[:k], *lines[k : k + 2][::-1], *lines[k + 2 :]],
        }
        for text, changed in tampered.items():
            if k == 3 and "changed" not in text:
                continue
            path.write_bytes(b"\n".join(changed) + b"\n")
            assert any(text in found for found in broken(split)), text
        path.write_bytes(b"\n".join(lines[:k]) + (b"\n" if k else b""))
        assert any("was shortened: it had 4 lines" in found for found in broken(split, carrier))
    path.write_bytes(good[:-30])
    assert any("line, 4, is truncated" in found for found in broken(split))
    path.unlink()
    assert any("is missing" in found for found in broken(split))


def test_a_torn_append_that_was_mended_is_told_and_is_no_break(split: Split) -> None:
    with (place(split) / "openings.jsonl").open("ab") as handle:
        handle.write(b'{"half a li')
    fit(split)
    result = audit(place(split))
    assert result.ok
    assert any("an append that was killed" in finding.text for finding in result.findings)


def test_a_chain_forged_whole_is_found_by_an_artifact(split: Split, tmp_path: Path) -> None:
    fit(split)
    carrier = artifact(tmp_path / "posterior", split)
    assert audit(place(split), [carrier]).ok
    path = place(split) / "openings.jsonl"
    first, second = path.read_bytes().split(b"\n")[:2]
    value = {**json.loads(second), "artifact": "nicer"}
    del value["hash"]
    path.write_bytes(b"\n".join([first, canonical({**value, "hash": content_hash(value)}), b""]))
    assert audit(place(split)).ok  # from inside, a forged last line looks right
    (text,) = broken(split, carrier)
    assert "was rewritten: its line 2" in text
    assert "posterior.json" in text


def test_artifacts_that_saw_the_holdout_or_another_split_are_breaks(split: Split, tmp_path: Path) -> None:
    seen = artifact(tmp_path / "a", split, parents={"split": split.hash, "calibration": [split.holdout[0]]})
    assert "has holdout episodes among its parents" in broken(split, seen)[0]
    listed = artifact(tmp_path / "b", split, episodes={split.holdout[0]: "hash"})
    assert "has holdout episodes among its parents" in broken(split, listed)[0]
    other = artifact(tmp_path / "c", split, parents={"split": "another"})
    assert "was made with another split (another)" in broken(split, other)[0]
    fine = artifact(tmp_path / "d", split, parents={"split": split.hash, "episodes": list(split.calibration)})
    assert audit(place(split), [fine, fine / "posterior.json"]).ok
    panel = artifact(tmp_path / "e", split, format="twinproof/panel/1", parents={"episodes": list(split.holdout)})
    assert audit(place(split), [panel]).ok


def test_artifacts_that_cannot_be_checked_are_breaks(split: Split, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "no JSON that carries a ledger head" in broken(split, tmp_path / "empty")[0]
    (tmp_path / "bad.json").write_text("{")
    assert "cannot be read" in broken(split, tmp_path / "bad.json")[0]
    (tmp_path / "odd.json").write_text('{"ledger": {"count": "many"}}')
    assert "not a count and a hash" in broken(split, tmp_path / "odd.json")[0]


def test_one_byte_of_any_file_is_found(split: Split, made_once: Path) -> None:
    folder = place(split)
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.parent != folder]
    assert len(files) > 15
    for path in files:
        if path.name == "key":
            continue
        flip(path, path.stat().st_size // 2)
        assert not audit(folder).ok, path
        path.unlink()
        assert not audit(folder).ok, path
        shutil.copy(made_once / path.relative_to(folder), path)
    assert audit(folder).ok


def test_a_part_rewritten_with_fitting_hashes_and_a_stray_file_are_found_by_the_first_line(split: Split) -> None:
    folder = place(split)
    head = folder / "calibration" / "recording.json"
    text = head.read_text()
    head.write_text(text.replace("made here", "made there"))  # no hash covers the source's name
    assert any("calibration: a file was changed, added or removed" in found for found in broken(split))
    head.write_text(text)
    (folder / "validation" / "notes.txt").write_text("the third holdout episode fails")
    assert any("validation: a file was changed, added or removed" in found for found in broken(split))
    (folder / "validation" / "notes.txt").unlink()
    (folder / "holdout" / "plain.npz").write_text("x")
    assert any("plain.npz lies beside the seal" in found for found in broken(split))
    (folder / "holdout" / "plain.npz").unlink()
    shutil.rmtree(folder / "validation")
    assert any("validation: the folder is missing" in found for found in broken(split))


def test_ids_swapped_between_parts_are_found_even_with_a_fitting_hash(split: Split) -> None:
    path = place(split) / "split.json"
    good = json.loads(path.read_text())
    swapped = {**good, "calibration": good["holdout"], "holdout": good["calibration"]}
    path.write_text(json.dumps(swapped))
    (finding,) = audit(place(split)).breaks
    assert "split.json was changed" in finding.text
    content = {name: value for name, value in swapped.items() if name not in ("format", "hash")}
    path.write_text(json.dumps({**content, "format": FORMAT, "hash": content_hash(content)}))
    texts = broken(Split.load(place(split)))
    assert any("the ledger was created for" in text for text in texts)
    assert any("calibration: the folder holds other episodes" in text for text in texts)
    assert any("holdout.json names other episodes" in text for text in texts)


def test_a_folder_without_a_split_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SplitError, match="nothing to audit"):
        audit(tmp_path)


def test_the_audit_changes_nothing(split: Split) -> None:
    fit(split)
    (place(split) / "openings.lock").unlink()

    def state() -> dict[str, int]:
        return {str(path): path.stat().st_mtime_ns for path in place(split).rglob("*")}

    before = state()
    audit(place(split))
    assert state() == before


def test_a_lost_or_foreign_key_a_link_and_a_plain_copy_are_breaks(split: Split, tmp_path: Path) -> None:
    folder = place(split)
    key = folder / "holdout" / "key"
    secret = key.read_bytes()
    key.unlink()
    assert any("the key is missing" in text for text in broken(split))
    key.write_bytes(secret[::-1])
    assert any("the key is not the one" in text for text in broken(split))
    key.write_bytes(secret)
    assert broken(split) == []
    (folder / "calibration" / "link").symlink_to(tmp_path)
    assert any("calibration: a file was changed, added or removed" in text for text in broken(split))
    (folder / "calibration" / "link").unlink()
    (folder / "plain").mkdir()
    assert broken(split) == ["plain lies in the split's folder and does not belong there."]


def test_without_a_readable_ledger_nobody_knows_how_often_the_holdout_was_opened(split: Split) -> None:
    with split.parts()[2].open(by="panel"):
        pass
    ledger = place(split) / "openings.jsonl"
    lines = ledger.read_bytes()
    path = place(split) / "split.json"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'"seed": 0', b'"seed": 1'))
    result = audit(place(split))
    assert result.attempts == 1  # the ledger tells, also when split.json is broken
    assert not result.ok
    path.write_bytes(whole)
    for content in (b"", b"\x00\xff"):
        ledger.write_bytes(content)
        result = audit(place(split))
        assert result.attempts is None
        assert any("nobody can say whether the holdout was opened" in finding.text for finding in result.breaks)
    ledger.unlink()
    ledger.mkdir()
    assert audit(place(split)).attempts is None
    ledger.rmdir()
    ledger.write_bytes(lines)
    assert audit(place(split)).ok


def test_whoever_may_not_read_the_key_can_still_audit(split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    import twinproof.guard.audit as module
    from twinproof.nouns.hashing import hash_file

    def refused(path: Path) -> str:
        if path.name == "key":
            raise PermissionError(13, "Permission denied")
        return hash_file(path)

    monkeypatch.setattr(module, "hash_file", refused)
    result = audit(place(split))
    assert result.ok
    assert any("the key is its owner's to read" in finding.text for finding in result.findings)
