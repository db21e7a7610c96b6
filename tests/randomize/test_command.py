"""`twinproof randomize` from the command line to folders, pictures and the ledger."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from tests.randomize.made import made, posterior
from twinproof import cli
from twinproof.guard.audit import audit
from twinproof.nouns.errors import ConfigError, StoreError
from twinproof.nouns.randomization import Randomization
from twinproof.nouns.split import Split
from twinproof.randomize import report
from twinproof.randomize.residual import residuals


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """Split, twin and posterior, to be used by one test."""
    shutil.copytree(made().root / "split", tmp_path / "split")
    shutil.copytree(made().root / "twin", tmp_path / "twin")
    posterior({"joint.hinge.damping": -12.0}).save(tmp_path / "posterior")
    return tmp_path


def run(folder: Path, *more: str) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["randomize", str(folder / "posterior"), *more])
    assert ended.value.code == 0


def test_ranges_coverage_pictures_and_the_ledgers_line_are_written(
    folders: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, plots = folders / "ranges", folders / "plots"
    parts = ["--twin", str(folders / "twin"), "--split", str(folders / "split")]
    run(folders, *parts, "--widen", "--plots", str(plots), "--out", str(out))
    found = Randomization.load(out)
    told = json.loads((out / "coverage.json").read_text())
    assert told["randomization"] == found.hash
    assert sorted(path.name for path in plots.iterdir()) == ["correlations.png", "coverage.png", "ranges.png"]
    lines = [line for line in Split.load(folders / "split").ledger.lines() if line.kind == "fit"]
    assert lines[-1].fields["artifact"] == found.hash
    assert set(found.episodes) <= set(lines[-1].fields["episodes"])
    assert audit(folders / "split", (out,)).ok
    shown = capsys.readouterr().out
    assert "widened: joint.hinge.damping: widened from" in shown
    assert "before widening the same episodes were covered to" in shown
    assert "dynamics" in shown


def test_without_validation_the_report_says_that_nothing_was_tested(
    folders: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(folders, "--out", str(folders / "ranges"))
    assert "not tested against validation" in capsys.readouterr().out
    assert not (folders / "ranges" / "coverage.json").exists()


def test_what_is_unidentified_and_missed_is_said() -> None:
    import numpy as np

    known = posterior()
    even = np.random.default_rng(2).uniform(0.0, 0.5, size=800)
    known = posterior(draws=np.stack([known.draws[:, 0], even], axis=1), unidentified=("joint.hinge.damping",))
    found = residuals(known, made().validation, twin=made().twin)
    console = Console(file=io.StringIO(), width=160)
    report.randomization(found, known, Path("ranges"), console)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "unidentified: joint.hinge.damping is as wide as before the recordings" in shown


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--split", "split"], r"--split compares episodes with simulations of a twin. Name it: --twin TWIN"),
        (["--widen"], "--widen and --scenes are about validation episodes"),
    ],
)
def test_options_that_do_not_go_together_are_refused(folders: Path, more: list[str], message: str) -> None:
    from twinproof.cli_randomize import Randomize, randomize
    from twinproof.settings import parse

    arguments = [str(folders / "posterior"), "--out", str(folders / "ranges"), *more]
    with pytest.raises(ConfigError, match=message):
        randomize(parse(Randomize, arguments, "randomize"))


def test_nothing_is_overwritten(folders: Path) -> None:
    from twinproof.cli_randomize import Randomize, randomize
    from twinproof.randomize.plots import draw_all

    with pytest.raises(StoreError, match="exists. Nothing is overwritten"):
        randomize(Randomize(folders / "posterior", folders / "twin"))
    with pytest.raises(StoreError, match="exists. Nothing is overwritten"):
        draw_all(posterior(), residuals(posterior()), folders / "twin")
