"""A small lab with two arms on a wooden table: something to look at, and to measure renderers with."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

ARM = """
<body name="{n}base" pos="{x} {y} 0.76" euler="0 0 {yaw}">
  <geom type="cylinder" size=".062 .02" pos="0 0 .02" material="dark"/>
  <geom type="cylinder" size=".045 .04" pos="0 0 .08" material="{m}"/>
  <body name="{n}shoulder" pos="0 0 .13"><joint name="{n}j0" axis="0 0 1"/>
    <geom type="cylinder" size=".04 .035" material="dark"/>
    <geom type="box" size=".03 .045 .035" pos="0 0 .05" material="{m}"/>
    <body name="{n}upper" pos="0 0 .07"><joint name="{n}j1" axis="0 1 0"/>
      <geom type="cylinder" size=".035 .05" euler="90 0 0" material="dark"/>
      <geom type="capsule" fromto="0 0 0 .03 0 .24" size=".026" material="{m}"/>
      <geom type="box" size=".012 .03 .07" pos=".016 0 .12" euler="0 7 0" material="dark"/>
      <body name="{n}fore" pos=".03 0 .24"><joint name="{n}j2" axis="0 1 0"/>
        <geom type="cylinder" size=".03 .045" euler="90 0 0" material="dark"/>
        <geom type="capsule" fromto="0 0 0 .2 0 0" size=".022" material="{m}"/>
        <body name="{n}wrist" pos=".21 0 0"><joint name="{n}j3" axis="0 1 0"/>
          <geom type="sphere" size=".027" material="dark"/>
          <geom type="cylinder" size=".022 .03" pos=".04 0 0" euler="0 90 0" material="{m}"/>
          <geom type="box" size=".012 .045 .018" pos=".08 0 0" material="dark"/>
          <geom type="box" size=".015 .012 .012" pos=".05 0 .034" material="dark"/>
          <geom type="cylinder" size=".007 .003" pos=".067 0 .034" euler="0 90 0" material="glass"/>
          <geom type="box" size=".03 .006 .012" pos=".12 .03 0" material="steel"/>
          <geom type="box" size=".03 .006 .012" pos=".12 -.03 0" material="steel"/>
          <geom type="box" size=".012 .003 .011" pos=".137 .022 0" material="rubber"/>
          <geom type="box" size=".012 .003 .011" pos=".137 -.022 0" material="rubber"/>
        </body>
      </body>
    </body>
  </body>
</body>"""

LAB = """
<mujoco>
  <compiler angle="degree"/>
  <visual>
    <headlight ambient=".06 .06 .065" diffuse=".05 .05 .05" specular="0 0 0"/>
    <global offwidth="1280" offheight="960"/><quality shadowsize="2048"/>
  </visual>
  <asset>
    <texture name="sky" type="skybox" builtin="gradient" rgb1=".75 .8 .86" rgb2=".35 .38 .42" width="128" height="128"/>
    <texture name="wood" type="2d" file="wood.png"/>
    <texture name="plaster" type="2d" file="plaster.png"/>
    <texture name="tiles" type="2d" builtin="checker" rgb1=".44 .45 .47" rgb2=".39 .4 .42" mark="edge"
             markrgb=".3 .3 .3" width="256" height="256"/>
    <texture name="crate" type="cube" builtin="flat" rgb1=".85 .62 .18" rgb2=".8 .56 .15" mark="edge"
             markrgb=".35 .22 .05" width="64" height="64"/>
    <material name="wood" texture="wood" specular=".25" shininess=".35" texrepeat="1 1"/>
    <material name="plaster" texture="plaster" specular="0" texrepeat="2 2" texuniform="true"/>
    <material name="floor" texture="tiles" texrepeat="2.5 2.5" texuniform="true" specular=".1"/>
    <material name="white" rgba=".88 .88 .86 1" specular=".4" shininess=".6"/>
    <material name="orange" rgba=".9 .36 .1 1" specular=".4" shininess=".6"/>
    <material name="dark" rgba=".1 .1 .11 1" specular=".35" shininess=".4"/>
    <material name="steel" rgba=".62 .64 .67 1" specular=".9" shininess=".8" reflectance=".25"/>
    <material name="rubber" rgba=".05 .05 .05 1" specular=".05"/>
    <material name="glass" rgba=".02 .03 .06 1" specular="1" shininess="1" reflectance=".4"/>
    <material name="red" rgba=".78 .1 .1 1" specular=".4" shininess=".7"/>
    <material name="blue" rgba=".1 .25 .65 1" specular=".4" shininess=".7"/>
    <material name="green" rgba=".15 .5 .2 1" specular=".1"/>
    <material name="clear" rgba=".7 .85 .9 .35" specular=".9" shininess=".9"/>
    <material name="crate" texture="crate" specular=".1"/>
    <mesh name="wedge" vertex="0 0 0  .08 0 0  0 .06 0  .08 .06 0  0 0 .05  0 .06 .05"/>
  </asset>
  <worldbody>
    <light name="key" pos="-1.0 -.5 1.75" dir=".62 .3 -.72" cutoff="75" exponent="2" diffuse="1.15 1.1 1.02"
           ambient=".04 .04 .04" bulbradius=".05"/>
    <light name="window" type="directional" pos="-2 0 2" dir="-.5 .35 -.8" diffuse=".25 .28 .34" specular=".1 .1 .1"
           bulbradius=".06"/>
    <geom name="floor" type="plane" size="4 4 .1" material="floor"/>
    <geom name="wall" type="plane" size="4 2 .1" pos="0 .9 1.4" euler="90 0 0" material="plaster"/>
    <geom name="table" type="box" size=".75 .45 .02" pos="0 0 .74" material="wood"/>
    <geom type="box" size=".025 .025 .36" pos="-.7 -.4 .36" material="steel"/>
    <geom type="box" size=".025 .025 .36" pos=".7 -.4 .36" material="steel"/>
    <geom type="box" size=".025 .025 .36" pos="-.7 .4 .36" material="steel"/>
    <geom type="box" size=".025 .025 .36" pos=".7 .4 .36" material="steel"/>
    <body pos=".05 -.05 .785"><freejoint/><geom name="cube" type="box" size=".025 .025 .025" material="red"/></body>
    <body pos="-.12 -.15 .79"><geom type="cylinder" size=".028 .03" material="blue"/></body>
    <body pos=".2 -.2 .782"><geom type="sphere" size=".022" material="green"/></body>
    <body pos=".12 .2 .82" euler="0 0 30"><geom type="box" size=".07 .05 .06" material="crate"/></body>
    <body pos="-.1 .18 .76" euler="0 0 -25"><geom type="mesh" mesh="wedge" material="orange"/></body>
    <body pos="-.02 .12 .81"><geom type="cylinder" size=".03 .05" material="clear"/></body>
    <body pos=".28 .02 .776"><geom type="ellipsoid" size=".03 .02 .016" material="orange"/></body>
    ARMS
    <camera name="front" pos="0 -1.25 1.45" xyaxes="1 0 0 0 .5 .87" fovy="48"/>
    <camera name="side" pos="1.0 -.75 1.25" xyaxes=".6 .8 0 -.28 .21 .93" fovy="50"/>
    <camera name="top" pos="0 -.1 2.0" xyaxes="1 0 0 0 1 0" fovy="45"/>
  </worldbody>
</mujoco>"""


def wood(height: int = 384, width: int = 640) -> Any:
    """Planks with grain, as bytes."""
    rng = np.random.default_rng(3)
    y, x = np.mgrid[0:height, 0:width] / width
    out = np.zeros((height, width, 3))
    plank = (y * 8).astype(int)
    for p in range(plank.max() + 1):
        mask = plank == p
        shift, wave = rng.uniform(0, 10), rng.uniform(0.004, 0.012)
        rings = (y + wave * np.sin(6 * x + shift) + 0.3 * wave * np.sin(23 * x + 2 * shift)) * 110 + shift
        fine = np.repeat(rng.normal(size=(height, 1 + width // 24)), 24, axis=1)[:, :width]
        tone = 0.5 + 0.28 * np.sin(rings) * np.abs(np.sin(0.37 * rings)) + 0.06 * fine + rng.uniform(-0.12, 0.12)
        colour = np.array([0.50, 0.33, 0.19]) + tone[..., None] * np.array([0.2, 0.17, 0.12])
        out[mask] = colour[mask]
    seam = (y * 8) % 1 < 0.03
    out[seam] *= 0.55
    return (np.clip(out, 0, 1) * 255).astype(np.uint8)


def plaster(size: int = 256) -> Any:
    """A painted wall, a little uneven."""
    rng = np.random.default_rng(4)
    spectrum = np.fft.rfft2(rng.normal(size=(size, size)))
    f = np.hypot(np.fft.fftfreq(size)[:, None], np.fft.rfftfreq(size)[None])
    noise = np.fft.irfft2(spectrum / np.maximum(f, 1 / size) ** 0.8, (size, size))
    grey = 0.78 + 0.012 * noise / noise.std()
    return (np.clip(grey[..., None] * [1.0, 0.985, 0.95], 0, 1) * 255).astype(np.uint8)


def png(pixels: Any) -> bytes:
    """The bytes of a PNG file."""
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "png")
    return out.getvalue()


def lab_model() -> Any:
    """The compiled lab."""
    import mujoco

    arms = ARM.format(n="l", x=-0.5, y=0, yaw=0, m="white") + ARM.format(n="r", x=0.5, y=0.05, yaw=180, m="orange")
    pictures = {"wood.png": png(wood()), "plaster.png": png(plaster())}
    return mujoco.MjModel.from_xml_string(LAB.replace("ARMS", arms), pictures)


def lab_state(model: Any, t: float = 0.0) -> Any:
    """A pose of both arms that moves slowly with t."""
    import mujoco

    data = mujoco.MjData(model)
    for arm, sign in (("l", 1.0), ("r", -1.0)):
        pose = (0.35 * sign + 0.2 * t, 0.35 + 0.1 * t, 0.55, 0.8)
        for k, angle in enumerate(pose):
            data.joint(f"{arm}j{k}").qpos[0] = angle
    mujoco.mj_forward(model, data)
    return data
