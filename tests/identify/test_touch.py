"""A servo that pushes a box: joints begin where the fit puts them, the box where it was seen; jumps weigh little."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tests.identify.arms import asked, told
from tests.sim.motions import Motion, gaussian, joint_signals, moved, pose_signal, signal
from twinproof.identify.fit import Fit, GaussNewton, fit
from twinproof.identify.problem import _bent
from twinproof.identify.weigh import gap_sd, weights
from twinproof.nouns.episode import Episode
from twinproof.nouns.signal import Signal
from twinproof.sim.experiment import Experiment, experiment
from twinproof.sim.scene import Scene

PUSHER = """
<mujoco>
  <option timestep=".002"/>
  <worldbody>
    <geom name="floor" type="plane" size="2 2 .1"/>
    <body name="pusher" pos="-.12 0 .05">
      <joint name="pusher" type="slide" axis="1 0 0" damping="20" frictionloss=".5"/>
      <geom type="box" size=".02 .04 .03" mass=".5" contype="2" conaffinity="2"/>
    </body>
    <body name="box" pos="0 0 .03">
      <freejoint name="box"/>
      <geom name="box" type="box" size=".05 .04 .03" mass=".2" priority="1" friction=".4 .005 .0001" contype="3"
        conaffinity="3"/>
    </body>
  </worldbody>
  <actuator><position name="pusher" joint="pusher" kp="400"/></actuator>
</mujoco>
"""
TRUTH = {"geom.box.friction_slide": 0.3, "joint.pusher.damping": 26.0, "actuator.pusher.gain": 450.0}


def seen(motion: Motion, seed: int, shift_z: float = 0.0) -> Signal:
    """The box as a tracker sees it."""
    track, rng = pose_signal(motion, "box", "object_pose", every=5), np.random.default_rng(seed)
    sd = {name: 2e-4 if name in "xyz" else 1e-3 for name in ("x", "y", "z", "qx", "qy", "qz")}
    columns = {
        c.name: track.column(c.name) + sd.get(c.name, 0.0) * rng.normal(size=len(track.time_s)) for c in track.columns
    }
    columns["z"] = columns["z"] + shift_z
    return signal("object_pose", "pose", columns, track.time_s, "m")


def pushed(seed: int) -> Experiment:
    scene, steps = Scene(PUSHER), 700
    rate = np.random.default_rng(seed).uniform(0.12, 0.2)
    t = np.arange(steps) * 0.002
    sent = (np.minimum(t, 1.0) * rate + 0.01 * np.sin(25 * t))[:, None]
    motion = moved(scene, sent, TRUTH, seconds=steps * 0.002, qpos=np.array([0, 0, 0, 0.03, 1, 0, 0, 0.0]))
    noise = gaussian(seed, state=2e-4, velocity=5e-3)
    signals = joint_signals(motion, sent, 5, noise, ("state", "velocity"))
    return experiment(Episode.of({**signals, "object_pose": seen(motion, seed, -0.003)}, {}), scene)


@cache
def found() -> Fit:
    problem = asked(PUSHER, [*TRUTH, "signal.object_pose.offset_z"], [pushed(k) for k in range(2)])
    return fit(problem, GaussNewton())


def test_joints_starts_are_free_and_the_boxs_are_as_seen() -> None:
    (stage,) = found().stages
    assert stage.free is not None
    assert stage.free.tolist() == [True] + 6 * [False]
    np.testing.assert_array_equal(stage.starts[0][:, 1:], stage.shooting.starts[0][:, 1:])
    assert np.abs(stage.starts[0][:, 0] - stage.shooting.starts[0][:, 0]).max() > 0


def test_a_pushed_box_gives_up_its_friction_and_the_servo_its_own() -> None:
    values = told(found())
    assert values["joint.pusher.damping"] == pytest.approx(26.0, rel=0.1)
    assert values["actuator.pusher.gain"] == pytest.approx(450.0, rel=0.1)
    assert values["geom.box.friction_slide"] == pytest.approx(0.3, rel=0.25)
    assert values["signal.object_pose.offset_z"] == pytest.approx(-0.003, abs=5e-4)


def test_gaps_that_leave_a_straight_line_count_as_noisier() -> None:
    here, low, high = np.array([0.0, 0.0, 1.0]), np.array([[-1.0, 0.0, 0.0]]), np.array([[1.0, 2.0, 2.0]])
    np.testing.assert_allclose(_bent(here, low, high, np.array([0.5])), [0.0, 1.0, 0.0])
    assert _bent(here, np.full((1, 3), np.nan), high, np.array([0.5])).min() > 1e9  # lost: it says nothing
    (stage,) = found().stages
    assert stage.linear is not None
    assert stage.linear.bent is not None
    assert (gap_sd(stage) >= stage.sd[stage.shooting.entry]).all()
    jumps = stage.linear.bent > stage.sd[stage.shooting.entry] ** 2
    weight = weights(stage, stage.linear.gap, 4.0) * stage.sd[stage.shooting.entry] ** 2
    assert (weight[jumps] < 0.5 + 1e-9).all()
