"""A safety.toml narrows what a robot may be told."""

from __future__ import annotations

import numpy as np
import pytest

from tests.policies.test_safety import ARM, LIMITS
from twinproof.nouns.errors import PolicyError, RigError
from twinproof.policies.safety import WORKSPACE, Safe
from twinproof.policies.safety_file import read_safety
from twinproof.sim.scene import Scene

TEXT = """format = "twinproof/safety/1"
commands = "position"
beyond = "clip"
joints.a = {range = [-0.5, 0.5], effort = 20.0}
joints.b = {speed = 1.0}
workspace = {low_m = [-3, -3, -0.5], high_m = [3, 3, 3], arms = [{tip = "tip", joints = ["a", "b"]}]}
"""


def read(tmp_path, text: str = TEXT, scene: Scene | None = None):
    (tmp_path / "safety.toml").write_text(text)
    return read_safety(tmp_path / "safety.toml", ("a", "b"), LIMITS, 10.0, scene)


def test_what_is_named_is_narrower_and_the_rest_is_the_robots(tmp_path):
    safety = read(tmp_path, scene=Scene(ARM))
    assert safety.limits.low.tolist() == [-0.5, -2.0]
    assert safety.limits.high.tolist() == [0.5, 2.0]
    assert safety.limits.speed.tolist() == [1.0, 1.0]
    assert safety.effort.tolist() == [20.0, np.inf]
    kept = Safe(safety)
    kept.reset(np.array([[0.2, 0.0]]))
    kept.filter(np.array([[0.3, 0.0]]), np.zeros((1, 2)), np.zeros((1, 2)))
    assert kept.counts == {WORKSPACE: 1}
    torque = read(tmp_path, 'format = "twinproof/safety/1"\ncommands = "torque"')
    assert torque.effort is None
    assert torque.torque_driven


def test_limits_of_a_robot_that_is_told_something_else_are_refused(tmp_path):
    (tmp_path / "safety.toml").write_text(TEXT)
    for torque_driven in (False, None):
        assert read_safety(tmp_path / "safety.toml", ("a", "b"), LIMITS, 10.0, Scene(ARM), torque_driven)
    with pytest.raises(PolicyError, match="says commands = 'position', and the robot is told torques. Mend that line"):
        read_safety(tmp_path / "safety.toml", ("a", "b"), LIMITS, 10.0, Scene(ARM), True)
    with pytest.raises(PolicyError, match=r"none.toml does not exist. docs/policies.md shows what a safety.toml holds"):
        read_safety(tmp_path / "none.toml", ("a", "b"), LIMITS, 10.0, None)
    with pytest.raises(PolicyError, match=r"gives 'a' 0.5 to -0.5 at .*The range goes up"):
        read(tmp_path, TEXT.replace("[-0.5, 0.5]", "[0.5, -0.5]"))


def test_what_cannot_be_kept_is_refused(tmp_path):
    for text, match in (
        (TEXT.replace("joints.b", "joints.c"), "limits c, and the robot has a, b"),
        (
            TEXT.replace("0.5], effort", "1.5], effort"),
            "'a' -0.5 to 1.5 at 1 a second, wider than the robot's own -1 to 1",
        ),
        (TEXT.replace("speed = 1.0", "speed = 99.0"), "wider than the robot's own"),
        (TEXT.replace("safety/1", "safety/2"), "says format 'twinproof/safety/2'"),
        (TEXT.replace("effort", "efort"), "unknown key 'efort'. Did you mean 'effort'"),
        (TEXT, "states a workspace, and there is no scene"),
        ("format = ", "is no readable TOML file"),
    ):
        with pytest.raises(PolicyError, match=match):
            read(tmp_path, text)
    with pytest.raises(RigError, match="no body or site 'nose'"):
        read(tmp_path, TEXT.replace('"tip"', '"nose"'), Scene(ARM))
