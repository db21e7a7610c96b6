"""A twin of a stated scene: its files travel with it, every part says that nobody measured it, and it moves alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.identify.folders import split_folder
from tests.nouns.examples import write_obj
from tests.sim.models import ARM
from tests.sim.motions import PENDULUM, moved
from twinproof import cli
from twinproof.guard.audit import audit
from twinproof.nouns.errors import StoreError
from twinproof.nouns.parts import Calibration
from twinproof.nouns.source import Declared
from twinproof.nouns.split import Split
from twinproof.nouns.twin import Twin
from twinproof.reconstruct.declare import declared
from twinproof.sim.scene import Scene, engine

MESHED = """
<mujoco>
  <compiler meshdir="meshes"/>
  <asset><mesh name="cube" file="cube.obj"/></asset>
  <worldbody>
    <body name="table" pos="0 0 -.1"><geom type="box" size="1 1 .1"/></body>
    <body name="cube" pos="0 0 .2"><freejoint/><geom type="mesh" mesh="cube"/></body>
  </worldbody>
</mujoco>
"""


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Split:
    return split_folder(tmp_path_factory.mktemp("declared"))


@pytest.fixture
def calibration(split: Split) -> Calibration:
    return split.parts()[0]


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stop:
        cli.main([str(argument) for argument in arguments])
    return int(stop.value.code or 0)


def made(text: str, calibration: Calibration, folder: Path, root: Path | None = None) -> Twin:
    folder.mkdir()
    return declared(Scene(text, root), "room.xml", calibration, folder)


def test_every_part_says_that_the_user_stated_it(calibration: Calibration, tmp_path: Path) -> None:
    twin = made(PENDULUM, calibration, tmp_path / "scratch")
    assert [body.name for body in twin.bodies] == ["bob"]
    for each in (*twin.bodies, twin.alignment):
        assert each.source == Declared("the user's scene room.xml")
    assert set(twin.bodies[0].lacks) == {"mesh", "splats"}
    assert twin.notes == ("the scene is room.xml, as the user states it; no image was looked at",)
    assert twin.engine == engine()
    assert twin.episodes == calibration.ids
    assert dict(twin.parents) == {"split": calibration.split}


def test_driven_bodies_are_the_robots_and_free_ones_objects(calibration: Calibration, tmp_path: Path) -> None:
    text = ARM.replace(
        "</worldbody>",
        '<body name="shelf"><geom size=".1"/><body name="hook"><geom size=".1"/></body></body></worldbody>',
    )
    twin = made(text, calibration, tmp_path / "scratch")
    assert {body.name: body.layer for body in twin.bodies} == {
        "upper": "robot",
        "lower": "robot",
        "cube": "object",
        "shelf": "background",
        "hook": "background",
    }


def test_the_scenes_files_travel_with_the_twin(calibration: Calibration, tmp_path: Path) -> None:
    root = tmp_path / "mine"
    write_obj(root / "meshes" / "cube.obj")
    twin = made(MESHED, calibration, tmp_path / "scratch", root)
    twin.save(tmp_path / "twin")
    (root / "meshes" / "cube.obj").unlink()
    loaded = Twin.load(tmp_path / "twin")
    assert loaded == twin
    assert loaded.hash == twin.hash
    one = moved(Scene.of(loaded), seconds=0.2)
    assert one.qpos[-1, 2] < 0.2


def test_a_loaded_twin_moves_like_the_scene_it_was_made_of(calibration: Calibration, tmp_path: Path) -> None:
    made(PENDULUM, calibration, tmp_path / "scratch").save(tmp_path / "twin")
    start = np.array([0.5])
    one, other = (
        moved(scene, seconds=0.4, qpos=start) for scene in (Scene(PENDULUM), Scene.of(Twin.load(tmp_path / "twin")))
    )
    np.testing.assert_array_equal(one.qpos, other.qpos)


def test_the_command_makes_a_twin_and_the_ledger_and_the_audit_know(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    split = split_folder(tmp_path)
    assert run("reconstruct", tmp_path / "split", "--scene", tmp_path / "scene.xml", "--out", tmp_path / "twin") == 0
    assert "1 bodies (1 declared)" in capsys.readouterr().out
    twin = Twin.load(tmp_path / "twin")
    (line,) = [line for line in split.ledger.lines() if line.kind == "fit"]
    assert (line.fields["name"], line.fields["artifact"]) == ("reconstruct", twin.hash)
    assert line.fields["episodes"] == sorted(split.calibration)
    assert audit(tmp_path / "split", (tmp_path / "twin",)).ok


def test_an_existing_folder_is_refused_before_the_ledger_hears_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    split = split_folder(tmp_path)
    (tmp_path / "twin").mkdir()
    (tmp_path / "twin" / "mine.txt").write_text("keep")
    before = len(split.ledger.lines())
    assert run("reconstruct", tmp_path / "split", "--scene", tmp_path / "scene.xml", "--out", tmp_path / "twin") == 1
    assert "exists" in capsys.readouterr().err
    assert len(split.ledger.lines()) == before
    assert (tmp_path / "twin" / "mine.txt").read_text() == "keep"


def test_a_scene_that_does_not_compile_makes_no_twin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    split = split_folder(tmp_path)
    (tmp_path / "scene.xml").write_text(PENDULUM.replace('joint="hinge"', 'joint="hing"'))
    assert run("reconstruct", tmp_path / "split", "--scene", tmp_path / "scene.xml", "--out", tmp_path / "twin") == 1
    assert "hing" in capsys.readouterr().err
    assert not (tmp_path / "twin").exists()
    assert [line.kind for line in split.ledger.lines()] == ["created"]


def test_a_twin_is_not_written_over_another(calibration: Calibration, tmp_path: Path) -> None:
    twin = made(PENDULUM, calibration, tmp_path / "scratch")
    twin.save(tmp_path / "twin")
    with pytest.raises(StoreError, match="exists"):
        twin.save(tmp_path / "twin")
