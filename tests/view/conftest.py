"""One small run for all tests of the viewer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.view.browsing import STUCK, Browser
from tests.view.made import write_run
from twinproof.cli_view import handed_for
from twinproof.view.opened import Opened, open_folder
from twinproof.view.playing import Handed


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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[Any]:
    """A test whose browser was ended because it no longer answered has seen nothing: it is skipped, not failed."""
    report: pytest.TestReport = yield
    used = getattr(item, "funcargs", {}).get("browser")
    if report.failed and isinstance(used, Browser) and used.stuck:
        report.outcome, report.longrepr = "skipped", (str(item.path), 0, STUCK)
    return report
