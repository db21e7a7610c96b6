"""One small run for all tests of the viewer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.view.made import write_run
from twinproof.cli_view import handed_for
from twinproof.view.live import Handed
from twinproof.view.opened import Opened, open_folder


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """RUN with twin, trials and posterior."""
    return write_run(tmp_path_factory.mktemp("view") / "run")


@pytest.fixture(scope="session")
def opened(run_folder: Path) -> Opened:
    """The run, read."""
    return open_folder(run_folder)


@pytest.fixture(scope="session")
def handed(opened: Opened) -> Handed:
    """What the command hands to the viewer."""
    return handed_for(opened)
