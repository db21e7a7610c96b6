"""The ledger: lines are chained, durable, never lost between processes, and every tampering has a name."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from twinproof.nouns.errors import LedgerError
from twinproof.nouns.hashing import canonical, content_hash
from twinproof.nouns.ledger import Ledger, LedgerHead, read_chain

APPENDING = """
import sys
from pathlib import Path
from twinproof.nouns.ledger import Ledger
ledger = Ledger(Path(sys.argv[1]))
for k in range(int(sys.argv[2])):
    ledger.append("fit", {"name": sys.argv[3], "k": k, "padding": "x" * 5000})
    print(k, flush=True)
"""


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger(tmp_path / "openings.jsonl")
    made.append("created", {"split": "s"})
    for name in ("twin", "posterior", "ranges", "policy"):
        made.append("fit", {"name": name})
    return made


def kinds(ledger: Ledger) -> set[tuple[int, str]]:
    return {(found.line, found.kind) for found in ledger.chain().breaks}


def test_lines_are_numbered_and_each_names_the_one_before(ledger: Ledger) -> None:
    lines = ledger.lines()
    assert [line.n for line in lines] == [1, 2, 3, 4, 5]
    assert [line.prev for line in lines] == ["", *(line.hash for line in lines[:-1])]
    assert ledger.head() == LedgerHead(5, lines[-1].hash)
    assert lines[1].fields == {"name": "twin"}
    assert lines[0].at <= lines[-1].at
    assert lines[0].at.endswith("+00:00")


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_an_edited_line_is_named(ledger: Ledger, n: int) -> None:
    raw = ledger.path.read_bytes().split(b"\n")
    for edited in (raw[n - 1].replace(b'"n":', b'"n": '), raw[n - 1].replace(b"2", b"3", 1), b"{}", b"\xff", b""):
        ledger.path.write_bytes(b"\n".join([*raw[: n - 1], edited, *raw[n:]]))
        assert (n, "changed") in kinds(ledger)
        with pytest.raises(LedgerError, match=f"line {n} was changed"):
            ledger.append("fit", {"name": "more"})


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_a_removed_line_is_named(ledger: Ledger, n: int) -> None:
    raw = ledger.path.read_bytes().split(b"\n")
    ledger.path.write_bytes(b"\n".join(raw[: n - 1] + raw[n:]))
    assert kinds(ledger) == {(n, "removed")}
    with pytest.raises(LedgerError, match=f"line {n} was removed"):
        ledger.lines()


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_swapped_lines_are_named(ledger: Ledger, n: int) -> None:
    raw = ledger.path.read_bytes().split(b"\n")
    raw[n - 1], raw[n] = raw[n], raw[n - 1]
    ledger.path.write_bytes(b"\n".join(raw))
    assert kinds(ledger) == {(n, "reordered")}


def test_a_repeated_line_is_named(ledger: Ledger) -> None:
    raw = ledger.path.read_bytes().split(b"\n")
    ledger.path.write_bytes(b"\n".join([*raw[:3], raw[2], *raw[3:]]))
    assert kinds(ledger) == {(3, "repeated")}


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_a_line_forged_with_a_fitting_hash_is_named_by_the_line_after_it(ledger: Ledger, n: int) -> None:
    raw = ledger.path.read_bytes().split(b"\n")
    value = {**json.loads(raw[n - 1]), "name": "forged"}
    del value["hash"]
    raw[n - 1] = canonical({**value, "hash": content_hash(value)})
    ledger.path.write_bytes(b"\n".join(raw))
    assert kinds(ledger) == {(n, "rewritten")}


def test_a_second_first_line_is_named(ledger: Ledger) -> None:
    lines = ledger.path.read_bytes()
    value = {"n": 6, "kind": "created", "at": "now", "prev": ledger.head().hash, "split": "other"}
    ledger.path.write_bytes(lines + canonical({**value, "hash": content_hash(value)}) + b"\n")
    assert kinds(ledger) == {(6, "rewritten")}


def test_lines_cut_from_the_end_are_found_by_whoever_saw_them(ledger: Ledger) -> None:
    head = ledger.head()
    raw = ledger.path.read_bytes().split(b"\n")
    ledger.path.write_bytes(b"\n".join(raw[:4]) + b"\n")
    assert kinds(ledger) == set()
    assert "shortened: it had 5 lines, now it has 4" in ledger.chain().saw(head)
    ledger.append("fit", {"name": "another"})
    assert "rewritten: its line 5" in ledger.chain().saw(head)
    assert ledger.chain().saw(ledger.head()) == ""
    assert "rewritten" in ledger.chain().saw(LedgerHead(0, ""))


def test_a_torn_line_is_named_and_the_next_append_keeps_its_bytes(ledger: Ledger) -> None:
    whole = ledger.path.read_bytes()
    ledger.path.write_bytes(whole + b'{"at":"2026-01-0')
    assert kinds(ledger) == {(6, "truncated")}
    assert len(ledger.lines()) == 5
    head = ledger.append("fit", {"name": "after"})
    assert [line.kind for line in ledger.lines()[-2:]] == ["torn", "fit"]
    assert ledger.lines()[-2].fields["text"] == '{"at":"2026-01-0'
    assert (head.count, kinds(ledger)) == (7, set())


def test_a_whole_line_that_lacks_only_its_newline_is_kept(ledger: Ledger) -> None:
    ledger.path.write_bytes(ledger.path.read_bytes()[:-1])
    assert (kinds(ledger), len(ledger.lines())) == (set(), 5)
    ledger.append("fit", {"name": "after"})
    assert [line.n for line in ledger.lines()] == [1, 2, 3, 4, 5, 6]


def test_every_cut_of_the_file_is_found_by_the_chain_or_by_a_head(ledger: Ledger) -> None:
    whole, head = ledger.path.read_bytes(), ledger.head()
    for size in range(len(whole) - 1):
        chain = read_chain(whole[:size])
        assert chain.breaks or chain.saw(head), size


def test_a_missing_or_empty_ledger_is_an_error(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "openings.jsonl")
    with pytest.raises(LedgerError, match="is missing"):
        ledger.lines()
    with pytest.raises(LedgerError, match="does not exist"):
        ledger.append("fit", {})
    ledger.path.touch()
    with pytest.raises(LedgerError, match="every line was removed"):
        ledger.head()


def test_a_ledger_is_created_once(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="already has its first line"):
        ledger.append("created", {"split": "other"})


def test_a_torn_first_line_leaves_no_head(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "openings.jsonl")
    ledger.path.write_bytes(b'{"at"')
    with pytest.raises(LedgerError, match="every line was removed"):
        ledger.head()


def test_a_full_disk_leaves_the_ledger_as_it_was(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    before = ledger.path.read_bytes()
    real = os.write

    def half(handle: int, data: bytes) -> int:
        if len(data) > 20:
            return real(handle, data[:20])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(LedgerError, match="No space left on device"):
        ledger.append("fit", {"name": "too much", "padding": "x"})
    monkeypatch.undo()
    assert ledger.path.read_bytes() == before


def test_a_ledger_in_a_folder_that_is_gone_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="no line can be added"):
        Ledger(tmp_path / "gone" / "openings.jsonl").append("created", {})


def test_a_ledger_without_its_lock_can_be_read(ledger: Ledger) -> None:
    ledger.path.with_suffix(".lock").unlink()
    assert len(ledger.lines()) == 5
    assert not ledger.path.with_suffix(".lock").exists()


def test_two_processes_appending_at_once_keep_one_chain(ledger: Ledger) -> None:
    command = [sys.executable, "-c", APPENDING, str(ledger.path), "25"]
    running = [subprocess.Popen([*command, name], stdout=subprocess.DEVNULL) for name in ("a", "b")]
    assert [process.wait() for process in running] == [0, 0]
    lines = ledger.lines()
    assert len(lines) == 55
    for name in ("a", "b"):
        assert [line.fields["k"] for line in lines if line.fields.get("name") == name] == list(range(25))


def test_a_kill_during_an_append_loses_no_line_that_was_reported(ledger: Ledger) -> None:
    for attempt in range(6):
        command = [sys.executable, "-c", APPENDING, str(ledger.path), "100000", f"run{attempt}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            reported = [process.stdout.readline() for _ in range(3)]
            time.sleep(0.002 * attempt)
            process.send_signal(signal.SIGKILL)
            reported += process.stdout.readlines()
        whole = [int(line) for line in reported if line.endswith(b"\n")]
        kept = [line.fields["k"] for line in ledger.lines() if line.fields.get("name") == f"run{attempt}"]
        assert set(whole) <= set(kept) == set(range(len(kept)))
        ledger.append("fit", {"name": "between"})
    assert ledger.lines()[-1].fields["name"] == "between"
