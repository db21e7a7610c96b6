"""Folders are born whole or not at all: errors, Ctrl-C, kills, full disks and links."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from twinproof.nouns.errors import RecordingError, StoreError
from twinproof.nouns.files import inside, new_folder, read_json, write_json, write_whole


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.endswith(".tmp")]


@pytest.mark.parametrize("problem", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_error_or_ctrl_c_leaves_nothing(tmp_path, problem):
    with pytest.raises(problem), new_folder(tmp_path / "out") as scratch:  # noqa: PT012
        (scratch / "half").write_text("half")
        raise problem
    assert list(tmp_path.iterdir()) == []


def test_a_block_that_ends_well_appears_whole(tmp_path):
    with new_folder(tmp_path / "deep" / "out") as scratch:
        (scratch / "sub").mkdir()
        (scratch / "sub" / "a").write_text("1")
        assert not (tmp_path / "deep" / "out").exists()
    assert (tmp_path / "deep" / "out" / "sub" / "a").read_text() == "1"
    assert leftovers(tmp_path / "deep") == []


WRITER = """
import sys, time
from pathlib import Path
from twinproof.nouns.files import new_folder
with new_folder(Path(sys.argv[1])) as scratch:
    (scratch / "half").write_text("half")
    print("writing", flush=True)
    time.sleep(60)
"""


def test_a_killed_writer_leaves_no_output_and_the_next_one_sweeps_up(tmp_path):
    out = tmp_path / "out"
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(out)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert not out.exists()
    assert len(leftovers(tmp_path)) == 1
    with new_folder(out) as scratch:
        (scratch / "whole").write_text("whole")
    assert leftovers(tmp_path) == []
    assert (out / "whole").exists()


def test_a_living_writers_scratch_is_left_alone(tmp_path):
    with new_folder(tmp_path / "out") as first:
        (first / "a").touch()
        with new_folder(tmp_path / "out") as second:
            (second / "b").touch()
            assert first.exists()
        time.sleep(0)
        (tmp_path / "out" / "b").unlink()
    assert (tmp_path / "out" / "a").exists()


def test_a_full_disk_is_said_and_leaves_nothing(tmp_path, small_disk):
    with pytest.raises(StoreError, match="disk is full"), new_folder(small_disk / "out") as scratch:
        (scratch / "big").write_bytes(os.urandom(8 << 20))
    assert not (small_disk / "out").exists()
    assert leftovers(small_disk) == []


def test_write_whole_keeps_the_old_file_when_it_fails(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"format": "x", "value": 1})
    with pytest.raises(ValueError, match="Out of range"):
        write_json(path, {"value": float("nan")})
    assert read_json(path, "x", RecordingError)["value"] == 1
    with pytest.raises(TypeError):
        write_whole(path, "text")  # type: ignore[arg-type]
    assert read_json(path, "x", RecordingError)["value"] == 1
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"format": "other"}', b"\xff\xfe", b'"' + b"[" * 100_000])
def test_json_of_another_kind_is_refused(tmp_path, content):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(RecordingError):
        read_json(tmp_path / "a.json", "x", RecordingError)


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../../x", "link/x", "a\x00b"])
def test_no_path_leaves_its_folder(tmp_path, name):
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to(tmp_path)
    with pytest.raises((RecordingError, ValueError)):
        inside(root, name, RecordingError)
    assert inside(root, "a/b", RecordingError) == root / "a/b"
