"""The chain is built once; tests copy what they change."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.evidence import chain
from tests.view.conftest import pytest_runtest_makereport as pytest_runtest_makereport  # a stuck browser is no failure
from twinproof.evidence.assemble import assemble
from twinproof.evidence.gather import Folders, Gathered, gather


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return chain.build(tmp_path_factory.mktemp("chain") / "pendulum")


@pytest.fixture(scope="session")
def gathered(folders: Folders) -> Gathered:
    return gather(folders)


@pytest.fixture(scope="session")
def saved(gathered: Gathered, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("evidence") / "evidence"
    assemble(gathered).save(out)
    return out


@pytest.fixture
def copied(saved: Path, tmp_path: Path) -> Path:
    shutil.copytree(saved, tmp_path / "evidence")
    return tmp_path / "evidence"
