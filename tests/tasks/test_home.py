"""Where a robot begins: stated, told by a split, or not at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.evaluate.practice import rig
from tests.evidence import chain
from tests.sim.motions import PENDULUM
from twinproof.cli import main
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import ConfigError, TaskError
from twinproof.nouns.policy import Policy
from twinproof.nouns.randomization import Randomization
from twinproof.nouns.recording import Recording
from twinproof.nouns.signal import Column, Signal
from twinproof.nouns.split import Split
from twinproof.nouns.twin import Twin
from twinproof.reconstruct.declare import declared
from twinproof.sim.scene import Scene
from twinproof.tasks.home import driven, home_of, recorded_home, texts_of


@pytest.fixture(scope="module")
def servo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose pendulum has a servo, and no keyframe that says where it begins."""
    folder = tmp_path_factory.mktemp("home")
    chain.build(folder / "run")
    (folder / "files").mkdir()
    tipped = PENDULUM.replace("<joint", '<site name="tip" pos="0 0 .3"/><joint range="-3 3"', 1)
    scene = Scene(tipped.replace("<motor", '<position kp="3"').replace('"0.004"', '"0.002"'))
    twin = declared(scene, "scene.xml", Split.load(folder / "run" / "split").parts()[0], folder / "files")
    twin.save(folder / "twin")
    ranges = Randomization.load(folder / "run" / "randomization")
    replace(ranges, parents={"twin": twin.hash}).save(folder / "ranges")
    return folder


def test_a_home_is_stated_joint_by_joint_or_as_a_split(servo: Path) -> None:
    twin, split = Twin.load(servo / "twin"), servo / "run" / "split"
    assert home_of(("elbow=0.9", "waist = -1"), twin) == {"elbow": 0.9, "waist": -1.0}
    assert home_of((), twin) is None
    recorded = [each.signals["state"].value[0, 0] for each in Split.load(split).parts()[0].recording.episodes]
    assert home_of((str(split),), twin) == {"hinge": float(np.median(recorded))}
    assert texts_of({"a": 0.1, "b": -1e-7}) == ("a=0.1", "b=-1e-07")
    assert home_of(texts_of({"a": 0.1, "b": -1e-7}), twin) == {"a": 0.1, "b": -1e-7}
    spoken = twin.path().read_text().replace("</mujoco>", '<keyframe><key name="home" qpos="0.3"/></keyframe></mujoco>')
    (servo / "more").mkdir()
    said = declared(Scene(spoken), "scene.xml", Split.load(split).parts()[0], servo / "more")
    assert home_of(split, said) is None, "as a panel has it: the scene's keyframe comes first"
    assert texts_of(None) == ()
    assert home_of({"a": 0.1}, twin) == {"a": 0.1}
    assert home_of(split, twin) == home_of(str(split), twin) == home_of((str(split),), twin)
    assert driven(twin) == ["hinge"]
    for text in ("elbow", "elbow=high", str(servo / "nothing")):
        with pytest.raises(TaskError, match="is no position of a joint, and no Split folder"):
            home_of((text,), twin)


def test_a_policy_is_learned_from_where_a_split_begins(servo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["train", servo / "twin", servo / "ranges", "--task", "reach", "--worlds", 8, "--steps", 192, "--judged", 4]
    with pytest.raises(SystemExit) as ended:
        main([*map(str, [*asked, "--hidden", 8, "--out", servo / "no"])])
    assert ended.value.code == 1
    assert "nothing says where the arm begins. Give --home SPLIT" in capsys.readouterr().err
    home = texts_of(home_of((str(servo / "run" / "split"),), Twin.load(servo / "twin")))
    for out, how in (("by_split", (servo / "run" / "split",)), ("stated", home)):
        with pytest.raises(SystemExit) as ended:
            main([*map(str, [*asked, "--hidden", 8, "--no-probe", "--home", *how, "--out", servo / out])])
        assert not ended.value.code
    assert Policy.load(servo / "by_split").part_hashes() == Policy.load(servo / "stated").part_hashes()
    seen = ["policy", "check", servo / "by_split", "--recording", servo / "run" / "split", "--twin", servo / "twin"]
    with pytest.raises(SystemExit) as ended:  # the policy's contract says that its actions are steps
        main(
            [*map(str, [*seen, "--task", "reach", "--home", *home, "--set", "goal=0.1,0,1.2", "--out", servo / "seen"])]
        )
    assert not ended.value.code


def recording_of(*first: float, missing: tuple[bool, ...] = ()) -> Recording:
    """An episode of one joint for each first reading, of which some are missing."""
    columns = (Column("a", "rad"),)
    made = [
        Signal("state", "joint_position", columns, np.arange(2.0), np.array([[k], [9.0]]), np.array([[lost], [False]]))
        for k, lost in zip(first, missing or (False,) * len(first), strict=True)
    ]
    return Recording(rig(), tuple(Episode.of({"state": s}, {}) for s in made), {})


def test_what_calibration_does_not_record_is_named() -> None:
    with pytest.raises(ConfigError, match="nothing says where wrist begins"):
        recorded_home(recording_of(0.0), ("a", "wrist"))


def test_a_first_reading_that_is_missing_does_not_count_as_a_home() -> None:
    assert recorded_home(recording_of(0.0, 1.0, missing=(False, True)), ("a",)) == {"a": 0.0}
    assert recorded_home(recording_of(0.0, 1.0, 5.0), ("a",)) == {"a": 1.0}
