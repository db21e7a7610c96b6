"""What tests of evaluation share: one practice recording, made once a file."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.evaluate.practice import Practice, pendulum


@pytest.fixture(scope="session")
def practice_once(tmp_path_factory: pytest.TempPathFactory) -> Practice:
    return pendulum(tmp_path_factory.mktemp("practice"))


@pytest.fixture
def practice(practice_once: Practice, tmp_path: Path) -> Practice:
    """A copy whose ledger may grow."""
    shutil.copytree(practice_once.split, tmp_path / "split")
    return Practice(tmp_path / "split", practice_once.twin)
