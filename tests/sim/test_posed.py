"""Where links were while something was recorded."""

from __future__ import annotations

import numpy as np
import pytest

from twinproof.nouns.signal import Column, Signal
from twinproof.sim.posed import Posed
from twinproof.sim.scene import Scene

XML = """<mujoco><worldbody>
 <body name="arm" pos="0 0 1"><joint name="hinge" axis="0 1 0"/><geom size=".1" mass="1"/>
  <body name="tip" pos="0.5 0 0"><joint name="slide" type="slide" axis="1 0 0"/><geom size=".1" mass="1"/></body></body>
 <body name="cube" pos="1 0 0"><freejoint/><geom size="0.1" mass="1"/></body>
</worldbody></mujoco>"""
POSE = tuple(Column(name, "m" if len(name) == 1 else "") for name in ("x", "y", "z", "qw", "qx", "qy", "qz"))


def test_joints_and_objects_move_their_links_and_what_was_not_read_stays(tmp_path):
    (tmp_path / "scene.xml").write_text(XML)
    time_s = np.array([0.0, 1.0])
    turned = [2.0, 0, 0, np.sqrt(0.5), 0, 0, np.sqrt(0.5)]
    signals = {
        "state": Signal("state", "joint_position", (Column("hinge", "rad"),), time_s, np.array([[0.0], [np.pi / 2]])),
        "cube_pose": Signal("cube_pose", "pose", POSE, time_s, np.array([[1.0, 0, 0, 1, 0, 0, 0], turned])),
    }
    poses = Posed(Scene.read(tmp_path / "scene.xml")).poses(signals, np.array([-1.0, 0.5, 2.0]))
    assert poses.shape == (3, 4, 4, 4)
    assert poses[0, 2, :3, 3] == pytest.approx([0.5, 0, 1])  # before the first reading it stands as then read
    assert poses[1, 2, :3, 3] == pytest.approx([0.5 * np.sqrt(0.5), 0, 1 - 0.5 * np.sqrt(0.5)])
    assert poses[2, 2, :3, 3] == pytest.approx([0, 0, 0.5])  # the slide was not read
    assert poses[1, 3, :3, 3] == pytest.approx([1.5, 0, 0])
    assert poses[2, 3, :3, 1] == pytest.approx([-1, 0, 0])
