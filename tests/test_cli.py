"""The command line as a user meets it."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.generator import main as write_practice
from tests.generator import practice_recording
from twinproof import cli
from twinproof.nouns.recording import Recording

PYTHON = sys.executable
# Splats are fitted and differentiated with torch (extra learn); drawing them on the CPU needs none.
NEED_LEARN = ("torch_render", "picture_loss", "splat.cuda", "splat.worlds", "splat_fit", "splat_state", "splat_density",
              "splat_cuda", "splat_judge", "splat_command", "splat_shape", "reconstruct.surface",
              "surface_refine", "surface_draw", "surface_smooth", "surface_colour", "surface_target",
              "surface_among")  # fmt: skip


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stop:
        cli.main([str(argument) for argument in arguments])
    return int(stop.value.code or 0)


@pytest.fixture(scope="module")
def practice(tmp_path_factory) -> Path:
    """A practice dataset with its rig, and the recording made of it."""
    folder = tmp_path_factory.mktemp("practice")
    write_practice(folder / "dataset", episodes=8, seconds=0.5, size=(64, 48))
    assert run("ingest", folder / "dataset", "--rig", folder / "rig.toml", "--out", folder / "recording") == 0
    return folder


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_shows_examples(command, capsys):
    assert run(command, "--help") == 0
    shown = capsys.readouterr().out
    assert "examples:" in shown
    assert f"twinproof {command}" in shown


def test_help_names_every_command(capsys):
    assert run("--help") == 0
    shown = capsys.readouterr().out
    assert all(f"  {command} " in shown for command in cli.COMMANDS)


@pytest.mark.parametrize("arguments", [["--help"], ["ingest", "--help"]])
def test_a_reader_that_stops_early_sees_no_trace(arguments):
    command = subprocess.Popen(
        [PYTHON, "-m", "twinproof", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    command.stdout.close()  # like `| head` after its last line
    assert command.stderr.read() == ""
    assert command.wait() == 128 + signal.SIGPIPE
    command.stderr.close()


def test_another_pipe_that_breaks_is_not_hidden(monkeypatch):
    def broken(arguments):
        raise BrokenPipeError("the robot's socket")

    monkeypatch.setattr(cli, "_main", broken)
    with pytest.raises(BrokenPipeError, match="robot"):
        cli.main([])


def test_nothing_heavy_is_imported_before_parsing():
    code = (
        "import sys, twinproof.cli as cli\n"
        "try: cli.main(['ingest', '--help'])\n"
        "except SystemExit: print(*sys.modules)\n"
    )
    out = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"torch", "mujoco", "numba", "av", "pyarrow", "matplotlib", "scipy", "rosbags", "cryptography"}
    assert heavy.isdisjoint(out)


def test_the_core_needs_neither_torch_nor_the_extras():
    """Every module of the package imports with the optional packages out of reach."""
    code = (
        "import sys, pkgutil, importlib, twinproof\n"
        "for name in ('torch', 'rosbags', 'mcap', 'mujoco_warp', 'gsplat', 'viser'): sys.modules[name] = None\n"
        "for module in pkgutil.walk_packages(twinproof.__path__, 'twinproof.'):\n"
        f"    if not module.name.endswith({(*NEED_LEARN, '_gpu', '_kernels')}): importlib.import_module(module.name)\n"
    )
    subprocess.run([PYTHON, "-c", code], check=True)


def test_a_command_that_needs_torch_says_so_with_the_cure(tmp_path):
    code = (
        "import sys\n"
        "class Gone:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'torch': raise ImportError(name)\n"
        "sys.meta_path.insert(0, Gone())\n"
        "from twinproof.cli import main\n"
        f"main(['splat', 'fit', {str(tmp_path)!r}, '--out', {str(tmp_path / 'scene')!r}])\n"
    )
    done = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "pip install 'twinproof[learn]'" in done.stderr


def test_a_dataset_goes_all_the_way_to_an_audited_split(practice, tmp_path, capsys):
    assert run("inspect", practice / "recording", "--png", tmp_path / "t.png") == 0
    assert "joint_position" in capsys.readouterr().out
    assert (tmp_path / "t.png").read_bytes()[:4] == b"\x89PNG"
    assert run("split", practice / "recording", "--group-by", "object,session", "--out", tmp_path / "split") == 0
    assert "asked 60.0%" in capsys.readouterr().out
    assert run("audit", tmp_path / "split") == 0
    assert "nothing is broken; the holdout was never opened" in capsys.readouterr().out
    victim = next((tmp_path / "split" / "calibration").rglob("signals.parquet"))
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    victim.unlink()
    victim.write_bytes(bytes(data))
    assert run("audit", tmp_path / "split") == 1
    assert "BREAK" in capsys.readouterr().out


def test_the_config_is_printed_saved_and_hashed(practice, tmp_path, capsys):
    out = tmp_path / "split"
    assert run("split", practice / "recording", "--seed", 3, "--group-by", "object", "--out", out) == 0
    shown = capsys.readouterr().err
    saved = json.loads((out / "config.json").read_text())
    assert saved["settings"]["seed"] == 3
    assert saved["hash"][:12] in shown
    (tmp_path / "job.toml").write_text("seed = 3\ngroup_by = 'object'\n")
    again = tmp_path / "again"
    assert run("split", practice / "recording", "--config", tmp_path / "job.toml", "--out", again) == 0
    assert json.loads((again / "config.json").read_text())["hash"] == saved["hash"]
    assert (
        run("split", practice / "recording", "--config", tmp_path / "job.toml", "--seed", 4, "--out", tmp_path / "c")
        == 0
    )
    assert json.loads((tmp_path / "c" / "config.json").read_text())["settings"]["seed"] == 4


@pytest.mark.parametrize(
    ("text", "words"), [("sede = 3", "unknown key 'sede'"), ("seed = 'x'", "a whole number"), ("seed =", "TOML")]
)
def test_a_config_that_no_command_knows_is_an_error(practice, tmp_path, capsys, text, words):
    (tmp_path / "job.toml").write_text(text)
    assert run("split", practice / "recording", "--config", tmp_path / "job.toml", "--out", tmp_path / "o") == 1
    assert words in capsys.readouterr().err


def test_unknown_flags_and_commands_are_errors(practice, tmp_path, capsys):
    assert run("split", practice / "recording", "--out", tmp_path / "o", "--colour", "red") == 2
    assert run("splt") == 1
    assert "there is no command 'splt'" in capsys.readouterr().err


def test_a_suggested_rig_reads_the_source_it_came_from(practice, tmp_path, capsys):
    rig = tmp_path / "rig.toml"
    assert run("ingest", practice / "dataset", "--suggest-rig", "--out", rig) == 0
    assert "CHECK" in rig.read_text()
    assert run("ingest", practice / "dataset", "--rig", rig, "--out", tmp_path / "recording") == 0
    made, known = Recording.load(tmp_path / "recording"), Recording.load(practice / "recording")
    assert len(made.episodes) == len(known.episodes)
    (signal,) = made.episodes[0].of_kind("joint_position")
    assert np.array_equal(signal.value, known.episodes[0].signals["state"].value)
    assert run("ingest", practice / "dataset", "--suggest-rig", "--out", rig) == 1
    assert "Nothing is overwritten" in capsys.readouterr().err


def test_a_source_without_a_rig_names_the_command_that_writes_one(practice, tmp_path, capsys):
    assert run("ingest", practice / "dataset", "--out", tmp_path / "o") == 1
    assert "--suggest-rig" in capsys.readouterr().err


@pytest.mark.parametrize("to", ["lerobot", "mcap"])
def test_a_recording_travels_out_and_back(practice, tmp_path, to):
    assert run("convert", practice / "recording", "--to", to, "--out", tmp_path / "out") == 0
    assert run("ingest", tmp_path / "out", "--out", tmp_path / "back") == 0
    first, back = Recording.load(practice / "recording"), Recording.load(tmp_path / "back")
    assert len(first.episodes) == len(back.episodes)
    for a, b in zip(first.episodes, back.episodes, strict=True):
        assert a.signals["state"] == b.signals["state"]
        assert a.signals["command"] == b.signals["command"]
        assert (a.labels, a.outcome, a.start_ns) == (b.labels, b.outcome, b.start_ns)
        for camera in a.videos:
            assert np.allclose(a.videos[camera].time_s, b.videos[camera].time_s, atol=1e-9)
            (_, one), (_, two) = a.videos[camera].at(0.2), b.videos[camera].at(0.2)
            assert np.abs(one.astype(int) - two.astype(int)).mean() < (0.5 if to == "mcap" else 6)


def test_doctor_says_what_is_here_and_how_to_add_the_rest(capsys):
    assert run("doctor", "--json") == 0
    checks = {check["what"]: check for check in json.loads(capsys.readouterr().out)}
    assert checks["core"]["ok"]
    assert checks["extra ros"]["ok"]
    for name in ("learn", "gpu", "sfm", "view", "usd", "sbi", "policies", "robots", "ray", "dev", "tags"):
        check = checks[f"extra {name}"]
        assert check["ok"] or check["cure"] == f"pip install 'twinproof[{name}]'"
    assert run("doctor") == 0
    assert "threads" in capsys.readouterr().out


def test_inspect_sees_gaps_jitter_and_missing_values(tmp_path, capsys):
    from twinproof.nouns.episode import Episode
    from twinproof.nouns.signal import Column, Signal

    rng = np.random.default_rng(0)
    times = np.arange(200) / 100 + rng.uniform(0, 2e-3, 200)
    keep = np.r_[0:50, 70:200]
    value = np.zeros((180, 1))
    value[7] = np.nan
    made = Signal(
        "q", "joint_position", (Column("a", "rad"),), times[keep], value, np.isnan(value), times[keep] + 0.012
    )
    recording = practice_recording(tmp_path, 1, seconds=0.3, size=(64, 48))
    episode = Episode.of({"q": made}, recording.episodes[0].videos)
    Recording(recording.rig, (episode,), {}).save(tmp_path / "r")
    assert run("inspect", tmp_path / "r", "--json") == 0
    (shown,) = json.loads(capsys.readouterr().out)["episodes"]
    track = shown["tracks"][0]
    assert (track["gaps"], track["dropped"], track["missing"]) == (1, 20, 1)
    assert track["rate_hz"] == pytest.approx(100, rel=0.1)
    assert track["latency_s"] == pytest.approx(0.012)
    assert 0 < track["jitter_s"] < 2e-3
    assert run("inspect", tmp_path / "r", "--episode", episode.id[:6], "--verify") == 0
    assert "q/a" in capsys.readouterr().out


def test_ctrl_c_leaves_nothing_behind(tmp_path):
    write_practice(tmp_path / "in" / "dataset", episodes=8, seconds=1.0, size=(160, 120))
    out = tmp_path / "out" / "recording"
    command = [PYTHON, "-m", "twinproof.cli", "ingest", str(tmp_path / "in/dataset")]
    command += ["--rig", str(tmp_path / "in/rig.toml"), "--out", str(out)]
    for wait_for_work in (True, False):
        process = subprocess.Popen(command, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 30
        while (
            wait_for_work and time.monotonic() < deadline and not list(tmp_path.glob("out/.recording.*.tmp/episodes/*"))
        ):
            time.sleep(0.002)
        process.send_signal(signal.SIGINT)
        _, text = process.communicate(timeout=60)
        if out.exists():  # it was faster than the signal, which may still come while Python ends
            assert len(Recording.load(out).episodes) == 8
            shutil.rmtree(out)
            continue
        if wait_for_work:
            assert process.returncode == 130, text.decode()
            assert b"no result was written" in text
        assert not out.exists()
        assert list(tmp_path.glob("out/.*")) == []


def test_a_full_disk_is_said_and_loses_nothing(practice, small_disk, capsys):
    out = small_disk / "recording"
    (small_disk / "filler").write_bytes(b"\0" * ((4 << 20) - (64 << 10)))
    assert run("ingest", practice / "dataset", "--rig", practice / "rig.toml", "--out", out) == 1
    assert "disk is full" in capsys.readouterr().err
    assert [path.name for path in small_disk.iterdir()] == ["filler"]


@pytest.mark.parametrize(
    "flags",
    [
        ["--sizes", "nan", "0.5", "0.5"],
        ["--threshold", "inf"],
        ["--seed", "-1"],
        ["--spans", "--gap-s", "nan"],
    ],
)
def test_numbers_that_make_no_sense_are_errors(practice, tmp_path, capsys, flags):
    assert run("split", practice / "recording", "--out", tmp_path / "o", *flags) == 1
    assert "needed" in capsys.readouterr().err


def test_a_timeline_needs_a_place(practice, tmp_path, capsys):
    for path in (tmp_path / "none" / "x.png", tmp_path / "x.xyz"):
        assert run("inspect", practice / "recording", "--png", path) == 1
        assert "the timeline cannot go to" in capsys.readouterr().err


def test_a_recording_is_no_source_and_a_saved_config_runs_again(practice, tmp_path, capsys):
    assert run("ingest", practice / "recording", "--out", tmp_path / "o") == 1
    assert "is a twinproof Recording already" in capsys.readouterr().err
    again = tmp_path / "again"
    assert run("ingest", "--config", practice / "recording" / "config.json", "--out", again) == 0
    assert Recording.load(again) == Recording.load(practice / "recording")


def test_a_terminated_split_clears_its_scratch(practice, tmp_path):
    command = [PYTHON, "-m", "twinproof.cli", "split", str(practice / "recording"), "--out", str(tmp_path / "split")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 30
    while (
        time.monotonic() < deadline and not list(tmp_path.glob(".split.*.tmp/calibration")) and process.poll() is None
    ):
        time.sleep(0.001)
    process.send_signal(signal.SIGTERM)
    _, text = process.communicate(timeout=60)
    if process.returncode != 0:  # it was not faster than the signal
        assert process.returncode == 130, text.decode()
        assert list(tmp_path.iterdir()) == []
