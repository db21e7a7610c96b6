"""`twinproof splat fit` and `splat convert`, from posed pictures on disk to a scene on disk."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.reconstruct.splat_captures import capture
from twinproof.cli import main
from twinproof.nouns.splat_files import read_ply


@pytest.fixture(scope="module")
def posed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A transforms.json with its pictures."""
    from matplotlib.image import imsave

    folder, frames = tmp_path_factory.mktemp("capture"), []
    flip = np.diag([1.0, -1.0, -1.0, 1.0])
    for view in capture(10).views:
        imsave(folder / f"{view.name}.png", view.rgb)
        frames.append({"file_path": f"{view.name}.png", "transform_matrix": (view.T_world_camera @ flip).tolist()})
    lens = {"fl_x": 45, "fl_y": 45, "cx": 24.0, "cy": 20.0, "w": 48, "h": 40}
    (folder / "transforms.json").write_text(json.dumps({**lens, "frames": frames}))
    return folder


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stopped:
        main([str(argument) for argument in arguments])
    return int(stopped.value.code or 0)


FEW = ("--iterations", 60, "--splats", 300, "--threads", 1)


def test_a_scene_is_fitted_judged_and_written(posed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "scene"
    assert run("splat", "fit", posed, "--out", out, *FEW) == 0
    said = capsys.readouterr().out
    assert "2 held-out views: PSNR" in said
    story = json.loads((out / "fit.json").read_bytes())
    assert story["steps"] == 60
    assert [view["name"] for view in story["held_out"]] == ["view_00.png", "view_08.png"]
    assert len(read_ply(out / "scene.ply")) == story["splats"]
    for name in ("scene.spz", "fit.png", "config.json"):
        assert (out / name).stat().st_size > 100
    assert len(list((out / "previews").iterdir())) >= 5
    assert not (out / "checkpoint.npz").exists()
    assert run("splat", "fit", posed, "--out", out, *FEW) == 1
    assert "already holds a fitted scene" in capsys.readouterr().err
    assert run("splat", "convert", out / "scene.ply", "--out", tmp_path / "small.spz") == 0
    assert run("splat", "convert", out / "scene.ply", "--out", tmp_path / "small.spz") == 1
    assert run("splat", "convert", out / "scene.ply", "--out", tmp_path / "scene.glb") == 1
    assert "neither .ply nor .spz" in capsys.readouterr().err


def test_a_stopped_fit_is_said_and_goes_on(
    posed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from twinproof.reconstruct import splat_command

    out, real = tmp_path / "scene", splat_command.fit

    def stopped(*arguments: object, **settings: object) -> object:
        def look(step: int, _: object) -> None:
            raise KeyboardInterrupt

        return real(*arguments, **{**settings, "look": look, "save_every_s": -1.0})  # type: ignore[arg-type]

    monkeypatch.setattr(splat_command, "fit", stopped)
    assert run("splat", "fit", posed, "--out", out, *FEW) == 130
    assert "goes on from the last checkpoint" in capsys.readouterr().err
    monkeypatch.setattr(splat_command, "fit", real)
    for changed in (("--seed", 5), ("--hold-out-every", 4), ("--longest-px", 32)):
        assert run("splat", "fit", posed, "--out", out, *FEW, *changed) == 1
        assert "a stopped fit with other settings or pictures" in capsys.readouterr().err
    assert run("splat", "fit", posed, "--out", out, *FEW) == 0


def test_a_source_that_is_no_folder_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("splat", "fit", tmp_path / "nothing", "--out", tmp_path / "scene") == 1
    assert "is no folder" in capsys.readouterr().err
