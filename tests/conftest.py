"""What several tests share."""

from __future__ import annotations

import gc
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The same examples in every run, however slow the machine: a test that fails by luck tells nobody anything.
settings.register_profile("house", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")

SCHEDULED = os.sched_getscheduler(0) if hasattr(os, "sched_getscheduler") else None


@pytest.fixture(autouse=True)
def ordinary_priority() -> Iterator[None]:
    """No test leaves its worker real-time, as nouns/priority.py says: the browsers of later tests would starve."""
    yield
    assert SCHEDULED is None or os.sched_getscheduler(0) == SCHEDULED


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a file system of 4 MiB."""
    folder = tmp_path / "small_disk"
    folder.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], capture_output=True)
    if mount.returncode != 0:
        pytest.skip(f"a small file system cannot be mounted here: {mount.stderr.decode().strip()}")
    yield folder
    gc.collect()  # an error's traceback may still hold a file
    subprocess.run(["umount", "--lazy", str(folder)], check=True)  # or a child that another test has started does
