"""The store: once, whole or not at all, whoever races and whoever is killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from tests.nouns import examples
from twinproof.nouns.errors import StoreError, TwinproofError
from twinproof.nouns.files import file_hashes
from twinproof.nouns.hashing import content_key
from twinproof.nouns.posterior import Posterior
from twinproof.nouns.store import Store

KEY = content_key("twin", "calibration", 7)


def leftovers(root: Path) -> list[str]:
    return [path.name for path in root.rglob("*") if path.name.endswith(".tmp")]


def test_an_answer_is_made_once_and_then_found(tmp_path):
    made = []

    def make() -> Posterior:
        made.append(1)
        return examples.posterior()

    store = Store(tmp_path)
    assert not store.has(KEY)
    first = store.once(KEY, make, Posterior)
    second = Store(tmp_path).once(KEY, make, Posterior)
    assert first == second == examples.posterior()
    assert len(made) == 1
    assert store.has(KEY)
    assert (tmp_path / KEY[:2] / KEY / "posterior.json").is_file()
    assert leftovers(tmp_path) == []


def test_other_keys_are_other_answers(tmp_path):
    store = Store(tmp_path)
    a = store.once_folder(content_key(1), lambda folder: (folder / "a").write_text("1"))
    b = store.once_folder(content_key(2), lambda folder: (folder / "a").write_text("2"))
    assert a != b
    assert (a / "a").read_text() == "1"


@pytest.mark.parametrize("key", ["", "../escape", "ab", "Z" * 64, KEY + "0"])
def test_what_is_no_key_is_refused(tmp_path, key):
    with pytest.raises(StoreError, match="no store key"):
        Store(tmp_path).once_folder(key, lambda folder: None)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_maker_that_fails_leaves_nothing_and_the_next_one_works(tmp_path, error):
    store = Store(tmp_path)

    def half(folder: Path) -> None:
        (folder / "half").write_text("…")
        raise error("stopped")

    with pytest.raises(error):
        store.once_folder(KEY, half)
    assert not store.path(KEY).exists()
    assert leftovers(tmp_path) == []

    def interrupted() -> Posterior:
        raise error("stopped")

    with pytest.raises(error):
        store.once(KEY, interrupted, Posterior)
    assert store.once(KEY, examples.posterior, Posterior) == examples.posterior()


def spoil_byte(entry: Path) -> None:
    data = bytearray((entry / "samples.npz").read_bytes())
    data[len(data) // 2] ^= 1
    (entry / "samples.npz").write_bytes(data)


def remove_file(entry: Path) -> None:
    (entry / "samples.npz").unlink()


def add_file(entry: Path) -> None:
    (entry / "more.txt").write_text("who put me here")


def remove_manifest(entry: Path) -> None:
    (entry / "entry.json").unlink()


def spoil_manifest(entry: Path) -> None:
    (entry / "entry.json").write_text("{")


def empty(entry: Path) -> None:
    for path in entry.iterdir():
        path.unlink()


SPOILS = {
    spoil_byte: "samples.npz was changed",
    remove_file: "samples.npz is missing",
    add_file: "more.txt is new",
    remove_manifest: "entry.json does not exist",
    spoil_manifest: "entry.json is not readable JSON",
    empty: "entry.json does not exist",
}


@pytest.mark.parametrize("spoil", SPOILS, ids=lambda spoil: spoil.__name__)
def test_a_changed_entry_is_set_aside_made_again_and_told(tmp_path, spoil):
    notes: list[str] = []
    store = Store(tmp_path, notes.append)
    store.once(KEY, examples.posterior, Posterior)
    spoil(store.path(KEY))
    assert store.once(KEY, examples.posterior, Posterior) == examples.posterior()
    assert len(notes) == 1
    assert SPOILS[spoil] in notes[0]
    aside = [path for path in store.path(KEY).parent.iterdir() if path.name.startswith(".corrupt-")]
    assert len(aside) == 1
    assert aside[0].name in notes[0]
    store.once(KEY, pytest.fail, Posterior)
    assert len(notes) == 1


def test_an_entry_of_another_kind_is_set_aside_too(tmp_path, caplog):
    store = Store(tmp_path)
    store.once_folder(KEY, lambda folder: (folder / "posterior.json").write_text('{"format": "twinproof/posterior/0"}'))
    assert store.once(KEY, examples.posterior, Posterior) == examples.posterior()
    assert "this version reads 'twinproof/posterior/1'" in caplog.text


def test_an_entry_under_another_key_is_not_believed(tmp_path):
    notes: list[str] = []
    store = Store(tmp_path, notes.append)
    other = content_key("other")
    store.once_folder(other, lambda folder: (folder / "a").write_text("other"))
    store.path(KEY).parent.mkdir(exist_ok=True)
    store.path(other).rename(store.path(KEY))
    path = store.once_folder(KEY, lambda folder: (folder / "a").write_text("right"))
    assert (path / "a").read_text() == "right"
    assert "belongs to another entry" in notes[0]


def test_a_store_that_cannot_be_written_says_so(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match="cannot write below the store"):
        Store(tmp_path / "file").once_folder(KEY, lambda folder: None)


def test_threads_that_race_for_one_key_make_it_once(tmp_path):
    made, found = [], []

    def write(folder: Path) -> None:
        made.append(threading.get_ident())
        time.sleep(0.1)
        (folder / "a").write_text("x")

    workers = [threading.Thread(target=lambda: found.append(Store(tmp_path).once_folder(KEY, write))) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(made) == 1
    assert len(found) == 8
    assert len(set(found)) == 1


WORKER = """
import sys, time
from pathlib import Path
from twinproof.nouns.hashing import content_key
from twinproof.nouns.store import Store
root, log = Path(sys.argv[1]), Path(sys.argv[2])
def write(folder):
    with log.open("a") as handle:
        handle.write(folder.name.split(".")[1] + chr(10))
    for n in range(4):
        (folder / f"part{n}").write_bytes(bytes([n]) * 20000)
        time.sleep(0.001)
class Note:
    def save(self, folder):
        from twinproof.nouns.files import new_folder, write_json
        with new_folder(folder) as scratch:
            write(folder)
            for path in folder.iterdir():
                path.rename(scratch / path.name)
            write_json(scratch / "note.json", {"format": "note"})
    @staticmethod
    def load(folder):
        assert (folder / "note.json").is_file()
        return folder
print("ready", flush=True)
sys.stdin.readline()
for n in range(int(sys.argv[3])):
    Store(root).once_folder(content_key("folder", n), write)
    Store(root).once(content_key("noun", n), Note, Note)
print("done", flush=True)
"""


def worker(root: Path, log: Path, count: int) -> subprocess.Popen[str]:
    script = root.parent / "worker.py"
    if not script.exists():  # a worker that is just starting may be reading it
        script.write_text(textwrap.dedent(WORKER))
    return subprocess.Popen(
        [sys.executable, str(script), str(root), str(log), str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def start(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def check_whole(root: Path) -> int:
    """Every entry that exists is whole: makers would fail the test."""
    count = 0
    for entry in root.glob("??/[0-9a-f]*"):
        hashes = file_hashes(Store(root).once_folder(entry.name, pytest.fail))
        assert {"part0", "part1", "part2", "part3", "entry.json"} <= set(hashes)
        count += 1
    return count


def test_processes_that_race_for_the_same_keys_make_each_once(tmp_path):
    root, log, count = tmp_path / "store", tmp_path / "log", 15
    workers = [worker(root, log, count) for _ in range(3)]
    for process in workers:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in workers:
        start(process)
    for process in workers:
        assert process.communicate(timeout=60)[0] == "done\n"
        assert process.returncode == 0
    made = log.read_text().split()
    assert len(made) == len(set(made)) == 2 * count
    assert check_whole(root) == 2 * count
    assert leftovers(root) == []


def test_after_a_kill_at_any_moment_an_entry_is_absent_or_whole(tmp_path):
    root, log, dice = tmp_path / "store", tmp_path / "log", random.Random(0)
    kills, ends, deadline = 0, 0, time.monotonic() + 15
    while kills < 25 and time.monotonic() < deadline:
        process = worker(root, log, 60)
        assert process.stdout is not None
        process.stdout.readline()
        start(process)
        time.sleep(dice.uniform(0, 0.06))
        os.kill(process.pid, signal.SIGKILL)
        ends += process.communicate()[0] == "done\n"
        kills += 1
        check_whole(root)
    assert kills >= 8
    assert ends < kills
    process = worker(root, log, 60)
    assert process.communicate("go\n", timeout=60)[0] == "ready\ndone\n"
    assert check_whole(root) == 120
    assert leftovers(root) == []


def test_a_full_disk_leaves_nothing_behind(small_disk):
    store = Store(small_disk)
    with pytest.raises((OSError, TwinproofError)):
        store.once_folder(KEY, lambda folder: (folder / "large").write_bytes(bytes(8 << 20)))
    assert not store.path(KEY).exists()
    assert leftovers(small_disk) == []
    store.once_folder(KEY, lambda folder: (folder / "small").write_bytes(bytes(1 << 10)))
