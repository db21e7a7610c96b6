"""The command: what it refuses, and what it writes."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from twinproof.cli_view import View, view
from twinproof.nouns.errors import ConfigError, TwinError


def test_another_address_has_to_be_meant(run_folder):
    with pytest.raises(ConfigError, match="Add --i-know if that is meant"):
        view(View(run_folder, host="192.0.2.1"))


def test_one_page_at_a_time(run_folder):
    with pytest.raises(ConfigError, match="Write one page at a time"):
        view(View(run_folder, html=Path("a"), vr=Path("b")))


def test_a_trial_that_is_not_there_is_refused(run_folder, tmp_path):
    with pytest.raises(ConfigError, match="--trial 7 is none of the 3 trials"):
        view(View(run_folder, html=tmp_path / "a.html", trial=7))


def test_the_page_is_one_file_with_nothing_from_elsewhere(run_folder, tmp_path, capsys):
    assert view(View(run_folder, html=tmp_path / "scene.html")) == 0
    page = (tmp_path / "scene.html").read_text()
    assert "TWINPROOF_DATA" in page
    assert "src=" not in page.split("<script>")[0]
    assert len(page) < 8_000_000
    assert "scene.html: " in capsys.readouterr().out


# What is started in the background of a shell ignores Ctrl-C, and its children too, until they say otherwise.
HEEDS_CTRL_C = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from twinproof.cli import main
main()
"""


def test_the_viewer_prints_its_address_and_ends_with_ctrl_c(run_folder):
    command = [sys.executable, "-c", HEEDS_CTRL_C, "view", str(run_folder), "--no-browser"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as viewer:
        try:
            assert viewer.stdout is not None
            address = viewer.stdout.readline().strip()
            assert address.startswith("http://127.0.0.1:")
            with urllib.request.urlopen(address, timeout=60) as page:
                assert page.status == 200
            with pytest.raises(urllib.error.HTTPError, match="403"):
                urllib.request.urlopen(address.rsplit("/", 2)[0], timeout=60).close()
            viewer.send_signal(signal.SIGINT)
            said, problems = viewer.communicate(timeout=60)
        finally:
            viewer.kill()  # a viewer that is not asked to end lives for ever, and `with` would wait for it
    assert viewer.returncode == 0
    assert said.endswith("the viewer is closed\n")
    assert "Traceback" not in problems


def test_a_run_gets_a_folder_with_the_page_of_a_trial(run_folder, tmp_path, monkeypatch):
    from twinproof.cli_view import ScenePage, scene_page
    from twinproof.view import static

    parts = {name: run_folder / name for name in ("trials", "twin", "posterior")}
    monkeypatch.setattr(static, "MOST_BYTES", 1_000)  # of a page that is sent about; a report has more room
    assert scene_page(ScenePage(**parts, out=tmp_path / "scene")) == 0
    monkeypatch.setattr(static, "REPORTED_BYTES", 1_000)
    with pytest.raises(TwinError, match=r"and may have 0\.0"):
        scene_page(ScenePage(**parts, out=tmp_path / "other"))
    assert [path.name for path in (tmp_path / "scene").iterdir()] == ["scene.html"]
