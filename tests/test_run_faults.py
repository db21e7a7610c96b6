"""Dead workers and two drivers on one store change no number of a run; for a full disk see test_run_whole.py."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from tests.test_run_kills import JOB as LOOP
from tests.test_run_kills import same
from twinproof.fleet.local import Pool
from twinproof.fleet.spread import Piece, spread
from twinproof.nouns.hashing import content_key
from twinproof.nouns.store import Store

PATIENCE_S = 300.0


def started(job: Path, out: Path, *more: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "twinproof.cli", "run", str(job), "--out", str(out), *more]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def test_workers_that_share_a_store_in_two_drivers_give_the_same_bytes(tmp_path):
    from tests.fleet import work

    pieces = [Piece(content_key("shared", k), (k, 4)) for k in range(6)]
    found: dict[int, list[Path]] = {}
    drivers = [
        threading.Thread(
            target=lambda k=k: found.update({k: spread(work.draw, pieces, Store(tmp_path / "store"), Pool(1))})
        )
        for k in range(2)
    ]
    for driver in drivers:
        driver.start()
    for driver in drivers:
        driver.join(PATIENCE_S)
    assert found[0] == found[1]
    alone = spread(work.draw, pieces, Store(tmp_path / "alone"), Pool(1))
    for one, other in zip(found[0], alone, strict=True):
        assert (one / "numbers.json").read_bytes() == (other / "numbers.json").read_bytes()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_evidence_survives_all_of_it(tmp_path):
    """The whole small loop: starts and seeds on a pool whose workers are killed, entries that are damaged."""
    job = tmp_path / "job.toml"
    job.write_text(LOOP.replace('horizons = "0.15"', 'horizons = "0.15"\nstarts = 3'))
    ended(started(job, tmp_path / "alone"))
    going = started(job, tmp_path / "hurt", "--on", "pool:2")
    killer = Killer(going.pid, most=2)
    killer.start()
    ended(going)
    killer.join(PATIENCE_S)
    assert killer.kills == 2
    same(tmp_path / "alone", tmp_path / "hurt")
    victim = tmp_path / "hurt" / "posterior" / "samples.npz"
    victim.write_bytes(victim.read_bytes()[:-1])
    ended(started(job, tmp_path / "hurt", "--until", "identify"))
    draws = [np.load(tmp_path / name / "posterior" / "samples.npz")["draws"] for name in ("alone", "hurt")]
    assert np.array_equal(draws[0], draws[1])


def ended(going: subprocess.Popen) -> None:
    """Waits for a run, and ends it where it takes too long."""
    try:
        told = going.communicate(timeout=4 * PATIENCE_S)[1]
    finally:
        going.kill()
    assert going.returncode == 0, told[-2000:]


class Killer(threading.Thread):
    """Kills workers of a run, one now and then, until it has killed enough of them or the run is over."""

    def __init__(self, driver: int, most: int) -> None:
        super().__init__(daemon=True)
        self.driver, self.most, self.kills = driver, most, 0

    def run(self) -> None:
        while self.kills < self.most and Path(f"/proc/{self.driver}").exists():
            for worker in workers_of(self.driver)[:1]:
                os.kill(worker, signal.SIGKILL)
                self.kills += 1
                time.sleep(5.0)
            time.sleep(0.5)


def workers_of(driver: int) -> list[int]:
    """Processes that a driver's pool started: spawned Python children, their resource tracker left out."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            status, line = (entry / "stat").read_text(), (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if int(status.rpartition(")")[2].split()[1]) == driver and b"spawn_main" in line:
            found.append(int(entry.name))
    return found
