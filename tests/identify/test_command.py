"""`twinproof identify` as a user meets it: from folders to a Posterior, a ledger that knows, and errors that help."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.identify.folders import TRUTH, split_folder
from twinproof import cli
from twinproof.guard.audit import audit
from twinproof.identify.cloud import CloudNewton
from twinproof.identify.command import Asked, horizons_of, method_of, number, pairs, point_of, run
from twinproof.identify.fit import GaussNewton
from twinproof.identify.laplace import Laplace
from twinproof.nouns.errors import ConfigError, StoreError, TwinproofError
from twinproof.nouns.posterior import Posterior
from twinproof.nouns.progress import quiet
from twinproof.nouns.split import Split
from twinproof.nouns.twin import Twin


def command(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stop:
        cli.main([str(argument) for argument in arguments])
    return int(stop.value.code or 0)


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with split, scene and twin."""
    folder = tmp_path_factory.mktemp("command")
    split_folder(folder, seconds=1.0)
    assert command("reconstruct", folder / "split", "--scene", folder / "scene.xml", "--out", folder / "twin") == 0
    return folder


@pytest.fixture
def folder(once: Path, tmp_path: Path) -> Path:
    shutil.copytree(once, tmp_path / "work")
    return tmp_path / "work"


def asked(folder: Path, **changes: object) -> Asked:
    settings: dict[str, object] = {
        "twin": folder / "twin",
        "split": folder / "split",
        "parameters": ("joint.hinge.damping", "joint.hinge.frictionloss"),
        "out": folder / "posterior",
        "prior": (),
        "differ": (),
        "scenes": None,
        "fix": ("body.bob.mass=0.6", "actuator.hinge.gain=1.2"),
        "method": "laplace",
        "fit": "steps",
        "horizons": None,
        "starts": 1,
        "seed": 0,
        "plots": None,
        "actuators": None,
        "residual": None,
    }
    return Asked(**{**settings, **changes})  # type: ignore[arg-type]


def fits(folder: Path) -> list[str]:
    return [str(line.fields["name"]) for line in Split.load(folder / "split").ledger.lines() if line.kind == "fit"]


def test_a_recording_goes_all_the_way_to_an_audited_posterior(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked_for = ("--parameters", "joint.*.damping", "joint.*.frictionloss", "actuator.hinge.gain", "body.bob.mass")
    stated = ("--prior", "joint.*.damping=0.01..0.3", "--out", folder / "posterior")
    assert command("identify", folder / "twin", folder / "split", *asked_for, *stated) == 0
    shown = capsys.readouterr().out
    found = Posterior.load(folder / "posterior")
    assert found.hash[:16] in shown
    assert found.ids == ("actuator.hinge.gain", "body.bob.mass", "joint.hinge.damping", "joint.hinge.frictionloss")
    assert {"actuator.hinge.gain", "body.bob.mass"} <= set(found.unidentified)
    assert "unidentified" in shown
    assert "weak: only " in shown
    assert "validation: 90 % bands cover" in shown
    split, twin = Split.load(folder / "split"), Twin.load(folder / "twin")
    assert found.episodes == tuple(sorted(split.calibration))
    assert dict(found.parents) == {"twin": twin.hash, "split": split.hash}
    assert fits(folder) == ["reconstruct", "identify"]
    last = split.ledger.lines()[-1]
    assert last.fields["artifact"] == found.hash
    result = audit(folder / "split", (folder / "twin", folder / "posterior"))
    assert result.ok, [finding.text for finding in result.breaks]
    assert list(found.diagnostics["validation"]["episodes"]) == sorted(split.validation)
    settings = json.loads((folder / "posterior" / "config.json").read_text())
    assert settings["settings"]["prior"] == ["joint.*.damping=0.01..0.3"]
    assert not (folder / ".posterior.fit").exists()


def test_a_run_that_was_killed_goes_on_where_it_was(folder: Path) -> None:
    whole = run(asked(folder, out=folder / "whole"), quiet)

    def stop(done: int, name: str, total: int | None = None) -> None:
        if name.startswith("drawing"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(asked(folder), stop)
    assert (folder / ".posterior.fit" / "start0-stage0.npz").is_file()
    assert not (folder / "posterior").exists()
    assert fits(folder) == ["reconstruct", "identify"]  # that of the whole run: nothing half done is logged
    seen: list[str] = []
    resumed = run(asked(folder), lambda done, name, total=None: seen.append(name))
    assert not any(name.startswith("stage 1") for name in seen)
    np.testing.assert_array_equal(resumed.draws, whole.draws)
    costs = [found.diagnostics["cost"]["windows_rolled"] for found in (resumed, whole)]
    assert costs[0] == costs[1]  # stages that were finished before are counted
    assert not (folder / ".posterior.fit").exists()
    assert fits(folder) == ["reconstruct", "identify", "identify"]


CLOUD = {"fit": "cloud", "horizons": "0.2, inf", "parameters": ("joint.hinge.damping",)}


@pytest.mark.parametrize(
    ("changes", "finished", "at", "skipped"),
    [
        ({"starts": 3}, "start0-cost", "stage 2", 1),  # in the second start, whose first stage is finished too
        (CLOUD, "start0-cloud", "cost", 1),
        ({}, "draws", "predicting", 3),
    ],
)
def test_whatever_was_finished_is_not_done_again_and_the_answer_is_the_same(
    folder: Path, changes: dict[str, Any], finished: str, at: str, skipped: int
) -> None:
    names: list[str] = []
    whole = run(asked(folder, out=folder / "whole", **changes), lambda done, name, total=None: names.append(name))

    def stop(done: int, name: str, total: int | None = None) -> None:
        if (folder / ".posterior.fit" / f"{finished}.npz").is_file() and name.startswith(at):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(asked(folder, **changes), stop)
    again: list[str] = []
    resumed = run(asked(folder, **changes), lambda done, name, total=None: again.append(name))
    assert len(again) <= len(names) - skipped
    np.testing.assert_array_equal(resumed.draws, whole.draws)
    for name in ("unknowns", "starts", "cost_by_step", "validation"):
        assert resumed.diagnostics.get(name) == whole.diagnostics.get(name)
    assert not (folder / ".posterior.fit").exists()


def test_a_cloud_of_points_is_another_way_to_the_same_answer(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fixed = ("--fix", "body.bob.mass=0.6", "actuator.hinge.gain=1.2")
    asked_for = ("--parameters", "joint.hinge.damping", *fixed, "--fit", "cloud", "--horizons", "0.2, inf")
    assert command("identify", folder / "twin", folder / "split", *asked_for, "--out", folder / "cloud") == 0
    assert "joint.hinge.damping" in capsys.readouterr().out
    found = Posterior.load(folder / "cloud")
    stepped = run(asked(folder, parameters=("joint.hinge.damping",)), quiet)
    assert found.mean("joint.hinge.damping") == pytest.approx(stepped.mean("joint.hinge.damping"), rel=0.1)
    assert found.settings["point"]["horizons_s"] == (0.2, "inf")
    assert found.diagnostics["validation"]["covered"] > 0.5


def test_fits_are_named() -> None:
    assert point_of("steps", None) == GaussNewton()
    assert point_of("steps", "0.2; 0.5") == GaussNewton(((0.2,), (0.5,)))
    assert point_of("steps", "0.5", False) == GaussNewton(((0.5,),), free_starts=False)
    assert point_of("cloud", None) == CloudNewton()
    assert point_of("cloud", "0.2, inf") == CloudNewton((0.2, float("inf")))
    with pytest.raises(ConfigError, match="'0.2; 0.5' are 2 stages, and --fit cloud explains all lengths at once"):
        point_of("cloud", "0.2; 0.5")
    with pytest.raises(ConfigError, match="there is no fit 'luck'. Use steps or cloud"):
        point_of("luck", None)


def test_the_calibration_check_is_said_kept_and_drawn(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fixed = ("--fix", "body.bob.mass=0.6", "actuator.hinge.gain=1.2")
    given = ("--parameters", "joint.hinge.damping", *fixed, "--calibration-check", 6, "--plots", folder / "plots")
    assert command("identify", folder / "twin", folder / "split", *given, "--out", folder / "posterior") == 0
    assert "calibration check: 6 recordings simulated under draws of this posterior" in capsys.readouterr().out
    told = Posterior.load(folder / "posterior").diagnostics["calibration_check"]
    assert len(told["unknowns"]["joint.hinge.damping"]["ranks"]) == 6
    assert (folder / "plots" / "calibration_ranks.png").read_bytes()[:4] == b"\x89PNG"


def test_pictures_are_drawn_where_they_are_asked_for(folder: Path) -> None:
    run(asked(folder, plots=folder / "plots"), quiet)
    drawn = list((folder / "plots").glob("*.png"))
    assert drawn
    assert all(path.read_bytes()[:4] == b"\x89PNG" for path in drawn)


def test_existing_folders_are_refused_before_work(folder: Path) -> None:
    def never(done: int, name: str, total: int | None = None) -> None:
        raise AssertionError("work began")

    for name in ("out", "plots"):
        (folder / name).mkdir()
        with pytest.raises(StoreError, match=f"{name} exists. Nothing is overwritten"):
            run(asked(folder, **{name: folder / name}), never)
    assert fits(folder) == ["reconstruct"]


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"prior": ("joint.hinge.damping",)}, "the prior 'joint.hinge.damping' cannot be read. Write a range"),
        ({"prior": ("joint.knee.damping=0.1..0.2",)}, "a prior was stated for 'joint.knee.damping'"),
        (
            {"differ": ("body.bob.mass",)},
            "--differ 'body.bob.mass' cannot be read. Write NAME=VALUE, as in 'body.object.mass",
        ),
        ({"differ": ("body.bob.mass=object",)}, "'body.bob.mass' is to differ between episodes, and no parameter"),
        (
            {"differ": ("joint.hinge.damping=colour",)},
            "joint.hinge.damping is to differ by 'colour', and episode .* has no such label",
        ),
        ({"fix": ("actuator.hinge.gain",)}, "--fix 'actuator.hinge.gain' cannot be read. Write NAME=VALUE"),
        (
            {"fix": ("actuator.hinge.gain=strong",)},
            "actuator.hinge.gain is to be fixed at 'strong', which is no number",
        ),
        ({"fix": ("actuator.hinge.gain=nan",)}, "is to be fixed at 'nan', which is no number"),
        ({"fix": ("actuator.hing.gain=1",)}, "the model has no actuator 'hing'. Did you mean 'hinge'?"),
        ({"horizons": "short"}, "the horizons 'short' cannot be read. Write lengths above zero in s"),
        ({"horizons": "0.1;"}, "the horizons '0.1;' cannot be read"),
        ({"horizons": "-1"}, "the horizons '-1' cannot be read"),
        ({"scenes": "scene.xml"}, "--scenes 'scene.xml' names no label. Write it like 'practice/scene_{object}.xml'"),
        ({"scenes": "scene_{colour}.xml"}, "--scenes: no episode has a label 'colour'"),
        ({"scenes": "scene_{object}.xml"}, "--scenes: scene_bob.xml does not exist, and an episode has object 'bob'"),
        ({"parameters": ("joint.knee.damping",)}, "no parameter of the model fits 'joint.knee.damping'"),
        (
            {"parameters": ("signal.typo.delay",)},
            r"'signal.typo.delay' fits no signal that the model can be compared with. There are signal.state.delay\.",
        ),
        ({"parameters": ("signal.state.offset_*",)}, r"'signal.state.offset_\*' fits no signal .* signal.state.delay"),
        ({"fix": ("signal.typo.delay=0.01",)}, "'signal.typo.delay' fits no signal that the model can be compared"),
        ({"calibration_check": 3}, "a calibration check of 3 recordings tells nothing. Ask for 5 or more"),
        ({"parameters": ()}, "no parameters were named"),
        ({"method": "magic"}, "there is no method 'magic'. Use laplace, bootstrap, svgd, mdn or npe"),
    ],
)
def test_texts_that_cannot_be_meant_are_errors_that_say_how(once: Path, changes: dict[str, object], match: str) -> None:
    before = fits(once)
    with pytest.raises(TwinproofError, match=match):
        run(asked(once, **changes), quiet)
    assert fits(once) == before
    assert not (once / "posterior").exists()


def test_the_command_line_shows_the_error_and_writes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ("--parameters", "joint.*.damping", "--prior", "joint.*.damping=1..0", "--out", folder / "posterior")
    assert command("identify", folder / "twin", folder / "split", *given) == 1
    assert "error: joint.hinge.damping: the stated range 1..0 must rise" in capsys.readouterr().err
    assert not (folder / "posterior").exists()


def test_a_pattern_asks_for_the_delay_of_every_recorded_signal(folder: Path) -> None:
    found = run(asked(folder, parameters=("signal.*.delay",), fix=tuple(f"{id}={x}" for id, x in TRUTH.items())), quiet)
    assert found.ids == ("signal.state.delay",)
    assert not found.unidentified
    assert abs(found.mean("signal.state.delay")) < 0.002  # these stamps are right


# ---- texts


def test_horizons_are_stages_of_lengths() -> None:
    assert horizons_of("0.15; 0.6, 2") == ((0.15,), (0.6, 2.0))
    assert horizons_of("inf") == ((np.inf,),)


def test_pairs_and_numbers() -> None:
    assert pairs([" a = b ", "c=d=e"], "--fix", "x=1") == {"a": "b", "c": "d=e"}
    assert number("1e-3", "x") == 0.001


def test_methods_come_by_their_names() -> None:
    assert isinstance(method_of("laplace"), Laplace)
    assert [method_of(name).name for name in ("bootstrap", "svgd")] == ["bootstrap", "svgd"]
