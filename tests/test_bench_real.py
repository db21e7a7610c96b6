"""Benchmarks on real recordings: their jobs can be read, and absent data is said."""

from __future__ import annotations

import tomllib

import numpy as np
import pytest
from bench.cube_tosses_data import Toss
from bench.real import cube_tosses, double_pendulum, hand_eye
from bench.real.public import recordings

from twinproof.job import read_job
from twinproof.nouns.rig import read_rig
from twinproof.run import SECTIONS


def test_absent_recordings_are_said_and_end_well(capsys):
    with pytest.raises(SystemExit) as ended:
        recordings("no_such_recording")
    assert ended.value.code == 0
    assert "skipped" in capsys.readouterr().out


def test_tosses_become_a_job_that_is_read(tmp_path):
    toss = Toss(3, np.tile([0, 0, 0.2, 1, 0, 0, 0], (4, 1)).astype(float), np.zeros((4, 6)))
    cube_tosses.write_source([toss], tmp_path)
    job = read_job(tmp_path / "job.toml", SECTIONS)
    assert list(job.sections) == ["ingest", "split", "reconstruct", "identify"]
    assert (tmp_path / "recordings" / "toss_003" / "cube.csv").read_text().startswith("time_s,x,y,z,qw")
    assert read_rig(tmp_path / "rig.toml").signals["cube"].kind == "pose"


def test_the_other_jobs_and_rigs_are_read(tmp_path):
    assert tomllib.loads(double_pendulum.JOB)["identify"]["actuators"] is True
    for k, text in enumerate((double_pendulum.RIG, hand_eye.RIG)):
        path = tmp_path / f"{k}.toml"
        path.write_text(text)
        assert read_rig(path).robot in ("double_pendulum", "franka")
