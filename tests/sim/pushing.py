"""A box on a floor before a pusher that slides along x: the smallest robot that handles something."""

from __future__ import annotations

import numpy as np

from tests.sim.tracking import HALF, standing
from twinproof.sim.handled import Handling
from twinproof.sim.scene import Scene

SCENE = f"""<mujoco><option timestep="0.004"/><worldbody>
  <geom name="floor" type="plane" size="1 1 0.1" friction="0.01 0.001 0.0001"/>
  <body name="pusher" pos="0 0 0.035"><joint name="push" type="slide" axis="1 0 0"/>
    <geom name="pusher" type="box" size="0.01 0.03 0.02" mass="0.5" contype="2" conaffinity="1"/>
    <body name="flag" pos="0 0 1"><joint name="idle" type="hinge" axis="0 0 1"/>
      <geom type="sphere" size="0.01" mass="0.01" contype="0" conaffinity="0"/></body></body>
  <body name="box" pos="0 0 {HALF[2]}"><freejoint name="box"/>
    <geom name="box" type="box" size="{HALF[0]} {HALF[1]} {HALF[2]}" mass="0.1" friction="0.4 0.005 0.0001"
      priority="1" condim="4" contype="1" conaffinity="3"/></body>
</worldbody><actuator><position name="push" joint="push" kp="400" kv="30"/></actuator></mujoco>"""
__all__ = ["HALF", "SCENE", "pushing", "standing"]


def angle_at(time_s: np.ndarray) -> np.ndarray:
    """The pusher comes, pushes by some three centimetres, and stays."""
    share = np.clip((np.asarray(time_s) - 0.2) / 0.6, 0, 1)
    return -0.06 + 0.055 * share * share * (3 - 2 * share)


def pushing(driven: bool = False) -> Handling:
    """The recorded push."""
    time_s = np.arange(0, 1.2001, 0.01)
    angle = angle_at(time_s)[:, None]
    if driven:
        return Handling(Scene(SCENE), "box", ("push",), time_s, angle, ("push",), time_s, angle + 0.03)
    return Handling(Scene(SCENE), "box", ("push",), time_s, angle)
