"""Small scenes, a camera that looks somewhere, and pictures as files: what the tests of renderers share."""

from __future__ import annotations

import io

import mujoco
import numpy as np

from twinproof.sim.render import Image
from twinproof.sim.render_camera import Camera, Lens, pixel_rays

FLAT_LIGHT = '<visual><headlight ambient="1 1 1" diffuse="0 0 0" specular="0 0 0"/></visual>'
LENS = Lens(64, 48, 60.0, 55.0, 30.0, 25.0)
MANY = """
<mujoco>
  <asset>
    <mesh name="gem" vertex="0 0 .3  .2 0 0  0 .2 0  -.2 0 0  0 -.2 0  0 0 -.15  .15 .15 .1"/>
    <mesh name="ball" builtin="sphere" params="3" scale=".25 .25 .25"/>
  </asset>
  <worldbody>
    <light pos="0 0 3"/>
    <geom type="plane" size="2 2 .1"/>
    <geom type="plane" size="0 0 .1" pos="0 3 0" euler="90 0 0"/>
    <body pos="-.5 0 .4" euler="10 20 30"><geom type="box" size=".2 .1 .15"/>
      <geom type="capsule" size=".08 .2" pos=".3 0 .1"/></body>
    <body pos=".5 .2 .4" euler="40 20 80"><geom type="mesh" mesh="gem"/>
      <geom type="cylinder" size=".1 .2" pos="0 -.3 .1"/></body>
    <body pos="0 .5 .5" euler="70 -20 10"><freejoint/><geom type="ellipsoid" size=".3 .1 .2"/>
      <geom size=".1" pos=".2 .2 .2"/></body>
    <body pos="0 -.5 .3" euler="5 -20 10"><geom type="mesh" mesh="ball"/></body>
    <geom type="sphere" size=".4" pos="0 -1 1" group="4"/>
    <geom type="sphere" size=".4" pos="0 -1 1" rgba="1 1 1 0"/>
    <camera name="front" pos="0 -2 1" xyaxes="1 0 0 0 .5 1" fovy="60"/>
    <camera name="sensor" pos="0 -2 1" xyaxes="1 0 0 0 .5 1" focal="0.004 0.005" sensorsize="0.0064 0.0048"
            principal="0.0004 0.0003" resolution="64 48"/>
    <camera name="straight" projection="orthographic"/>
  </worldbody>
</mujoco>"""


def ready(xml: str, assets: dict[str, bytes] | None = None) -> tuple[mujoco.MjModel, mujoco.MjData]:
    model = mujoco.MjModel.from_xml_string(xml, assets or {})
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return model, data


def looking(at: tuple[float, float, float], start: tuple[float, float, float], lens: Lens = LENS) -> Camera:
    ahead = np.subtract(at, start) / np.linalg.norm(np.subtract(at, start))
    down = np.array([0.0, 0.0, -1.0]) if abs(ahead[2]) < 0.9 else np.array([0.0, -1.0, 0.0])
    right = np.cross(down, ahead)
    right /= np.linalg.norm(right)
    pose = np.eye(4)
    pose[:3, :3] = np.stack([right, np.cross(ahead, right), ahead], axis=1)
    pose[:3, 3] = start
    return Camera(lens, pose)


def points(image: Image, camera: Camera) -> np.ndarray:
    """Where each pixel's ray ends, in the world."""
    rays = np.concatenate([pixel_rays(camera.lens), np.ones((*image.depth_m.shape, 1))], axis=-1)
    return camera.T_world_camera[:3, 3] + image.depth_m[..., None] * (rays @ camera.T_world_camera[:3, :3].T)


def png(pixels: np.ndarray) -> bytes:
    from PIL import Image as Picture

    out = io.BytesIO()
    Picture.fromarray(pixels.astype(np.uint8)).save(out, "png")
    return out.getvalue()


QUARTERS = np.zeros((64, 64, 3))
QUARTERS[:32, :32], QUARTERS[:32, 32:], QUARTERS[32:, :32] = [200, 30, 30], [30, 180, 30], [30, 30, 160]
QUARTERS[32:, 32:] = [150, 150, 20]
