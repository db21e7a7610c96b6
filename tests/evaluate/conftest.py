"""What tests of evaluation share: one practice recording, made once a file."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.evaluate.practice import Practice, pendulum
from tests.evaluate.shoving import shoving


@pytest.fixture(scope="session")
def practice_once(tmp_path_factory: pytest.TempPathFactory) -> Practice:
    return pendulum(tmp_path_factory.mktemp("practice"))


@pytest.fixture
def practice(practice_once: Practice, tmp_path: Path) -> Practice:
    """A copy whose ledger may grow."""
    shutil.copytree(practice_once.split, tmp_path / "split")
    return Practice(tmp_path / "split", practice_once.twin)


@pytest.fixture(scope="session")
def shoving_once(tmp_path_factory: pytest.TempPathFactory) -> Practice:
    return shoving(tmp_path_factory.mktemp("shoving"))


@pytest.fixture
def pushing(shoving_once: Practice, tmp_path: Path) -> Practice:
    """A copy whose ledger may grow, of an arm with an object."""
    shutil.copytree(shoving_once.split, tmp_path / "split")
    return Practice(tmp_path / "split", shoving_once.twin)
