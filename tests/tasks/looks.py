"""A twin that can be seen: a red cube on a grey table, under a camera that stands and one on the hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from twinproof.nouns.rig import Intrinsics, Mount
from twinproof.nouns.source import Declared
from twinproof.nouns.splat_files import write_ply
from twinproof.nouns.splats import Splats
from twinproof.nouns.twin import Alignment, Body, Twin, TwinCamera
from twinproof.sim.scene import engine

SCENE = """
<mujoco>
  <compiler angle="radian"/>
  <worldbody>
    <geom name="table" type="plane" size="1 1 .1"/>
    <body name="hand" pos="0 0 .3">
      <joint name="turn" axis="0 0 1" range="-2 2" limited="true" damping="1"/>
      <geom type="sphere" size=".02" contype="0" conaffinity="0" mass=".2"/>
      <site name="tip" pos=".2 0 0"/>
    </body>
    <body name="cube" pos=".3 0 .03"><freejoint/><geom type="box" size=".03 .03 .03" mass=".1"/></body>
  </worldbody>
  <actuator><position name="turn" joint="turn" kp="20" kv="2"/></actuator>
</mujoco>
"""
DOWN = (0.0, 1.0, 0.0, 0.0)  # a camera that looks straight down, its picture's right along +x
DEAR = Declared("planted")


def red_cube(root: Path) -> Twin:
    """The twin, its files in a folder."""
    (root / "scene.xml").write_text(SCENE)
    table = np.stack([*np.meshgrid(np.linspace(-0.1, 0.7, 25), np.linspace(-0.4, 0.4, 25), [0.0])], -1).reshape(-1, 3)
    cube = np.random.default_rng(0).uniform([0.27, -0.03, 0.0], [0.33, 0.03, 0.06], (300, 3))
    means = np.concatenate([table, cube])
    count, red = len(means), np.arange(len(means)) >= len(table)
    colour = np.where(red[:, None], [0.9, 0.1, 0.1], 0.5)
    scale = np.where(red, 0.008, 0.03)
    splats = Splats(
        means,
        np.tile([1.0, 0, 0, 0], (count, 1)),
        np.log(np.repeat(scale[:, None], 3, axis=1)),
        np.full(count, 5.0),
        ((colour - 0.5) / 0.28209479)[:, None],
        np.zeros(count, dtype=int),
    )
    write_ply(root / "splats.ply", splats)
    lens = Intrinsics(60.0, 60.0, 31.5, 23.5)
    cameras = {
        "above": TwinCamera(64, 48, lens, Mount("world", (0.3, 0.0, 0.8), DOWN), DEAR),
        "wrist": TwinCamera(64, 48, lens, Mount("hand", (0.3, 0.0, 0.5), DOWN), DEAR),
    }
    bodies = (
        Body("cube", DEAR, splats=(len(table), len(cube)), lacks={"mesh": "a box"}),
        Body("hand", DEAR, "robot", lacks={"mesh": "a ball", "splats": "not seen"}),
    )
    return Twin(root, bodies, Alignment(DEAR), engine(), (), {}, cameras=cameras)
