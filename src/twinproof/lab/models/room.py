"""The room around a bench: floor, wall, lamp, table with a cutting mat, and things that stand about."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twinproof.lab.models import textures
from twinproof.lab.models.arm import arm_defaults, arm_materials
from twinproof.lab.models.text import Values, numbers, rotation, turned
from twinproof.nouns.randomness import stream

FLEX_JOINTS = ("table_sag", "table_roll", "table_pitch")
TABLE_KG = 24.0
TABLE_HALF_M = (0.62, 0.48, 0.02)


@dataclass(frozen=True)
class Look:
    """What changes from one session to the next: where the lamp hangs, how bright it is, what stands about."""

    name: str
    lamp_m: tuple[float, float, float]
    lamp: float
    warm: float  # red over blue
    ambient: float
    wood: tuple[float, float, float]
    mat_yaw_rad: float
    clutter: tuple[tuple[float, float, float], ...]  # x, y, yaw of what stands about

    @staticmethod
    def of(plant: int, session: str) -> Look:
        """The look of a session of one plant."""
        rng = stream(plant, "lab", "look", session)
        lamp = (rng.uniform(-0.5, 0.7), rng.choice([-1, 1]) * rng.uniform(0.5, 0.9), rng.uniform(1.3, 1.7))
        wood = np.array([1.0, 0.97, 0.93]) * rng.uniform(0.82, 1.0)
        places = [(-0.50, 0.36), (-0.52, -0.33), (-0.30, 0.42), (-0.34, -0.42)]
        clutter = tuple((x + rng.normal(0, 0.015), y + rng.normal(0, 0.015), rng.uniform(-3, 3)) for x, y in places)
        return Look(
            session, (float(lamp[0]), float(lamp[1]), float(lamp[2])), float(rng.uniform(0.55, 0.75)),
            float(rng.uniform(0.95, 1.12)), float(rng.uniform(0.25, 0.34)),
            (float(wood[0]), float(wood[1]), float(wood[2])), float(rng.normal(0, 0.06)), clutter,
        )  # fmt: skip


NOMINAL_LOOK = Look("nominal", (0.3, -0.7, 1.5), 0.65, 1.0, 0.3, (1, 1, 1), 0.0, ())


def model_text(name: str, look: Look, parts: dict[str, str], extra_assets: str = "") -> str:
    """A whole MJCF: `parts` may have world, actuator, equality, contact, sensor and option."""
    body = "\n".join(
        f"  <{tag}>\n    {parts[tag]}\n  </{tag}>"
        for tag in ("equality", "contact", "actuator", "sensor")
        if parts.get(tag)
    )
    red, blue = look.warm, 1 / look.warm
    return f"""<mujoco model="{name}">
  <compiler angle="radian" autolimits="true"/>
  <option timestep="0.002" integrator="implicitfast" cone="elliptic" impratio="5" {parts.get("option", "")}/>
  <visual>
    <headlight ambient="{numbers(look.ambient * np.array([red, 1, blue]))}" diffuse="0.12 0.12 0.12"
      specular="0 0 0"/>
    <map znear="0.01" zfar="12"/>
    <quality shadowsize="2048"/>
  </visual>
  <asset>
    {textures.elements()}
    {arm_materials()}
    <material name="felt" texture="wall" rgba="0.55 0.58 0.62 1" specular="0.02" shininess="0.05"/>
    <material name="ceramic" rgba="0.86 0.87 0.9 1" specular="0.6" shininess="0.8"/>
    <material name="paper" rgba="0.2 0.32 0.5 1" specular="0.1" shininess="0.2"/>
    <material name="paint" rgba="0.80 0.81 0.80 1" texture="wall" specular="0.15" shininess="0.3"/>
    {extra_assets}
  </asset>
  <default>
    {arm_defaults()}
    <geom friction="0.8 0.005 0.0001"/>
  </default>
  <worldbody>
    {parts["world"]}
  </worldbody>
{body}
</mujoco>
"""


def robot_text(name: str, world: str, actuator: str, equality: str, sensor: str) -> str:
    """The robot alone, as its maker would hand it out; no room, no cameras, no files."""
    coupling = f"\n  <equality>\n    {equality}\n  </equality>" if equality else ""
    return f"""<mujoco model="{name}">
  <compiler angle="radian" autolimits="true"/>
  <option timestep="0.002" integrator="implicitfast" cone="elliptic" impratio="5"/>
  <asset>
    {arm_materials().replace(' texture="metal"', "")}
  </asset>
  <default>
    {arm_defaults()}
  </default>
  <worldbody>
    {world}
  </worldbody>{coupling}
  <actuator>
    {actuator}
  </actuator>
  <sensor>
    {sensor}
  </sensor>
</mujoco>
"""


def surroundings(look: Look) -> str:
    """Light, floor and walls; nothing here touches anything."""
    red, blue = look.lamp * look.warm, look.lamp / look.warm
    x, y, z = look.lamp_m
    aim = np.array([0.25 - x, -y, -z]) / np.linalg.norm([0.25 - x, -y, -z])
    still = 'contype="0" conaffinity="0" group="2"'
    return f"""<light name="lamp" pos="{numbers(look.lamp_m)}" dir="{numbers(aim)}" castshadow="true"
      diffuse="{numbers(red, look.lamp, blue)}" specular="0.35 0.35 0.35" cutoff="75" exponent="1" attenuation="1 0 0"/>
    <light name="window" pos="-1.5 1.5 2" dir="0.55 -0.5 -0.65" directional="true" castshadow="false"
      diffuse="0.16 0.17 0.2" specular="0.05 0.05 0.05"/>
    <geom name="floor" type="plane" pos="0 0 -0.74" size="4 4 0.1" material="felt" {still}/>
    <geom name="back_wall" type="plane" pos="-1.25 0 0.6" zaxis="1 0 0" size="1.5 2.6 0.1" material="paint" {still}/>
    <geom name="left_wall" type="plane" pos="0 1.9 0.6" zaxis="0 -1 0" size="2.6 1.5 0.1" material="paint" {still}/>
    <geom name="right_wall" type="plane" pos="0 -1.9 0.6" zaxis="0 1 0" size="2.6 1.5 0.1" material="paint" {still}/>
    <geom name="front_wall" type="plane" pos="2.3 0 0.6" zaxis="-1 0 0" size="1.5 2.6 0.1" material="paint" {still}/>
    <geom name="shelf" type="box" pos="-1.13 0.25 0.42" size="0.11 0.55 0.012" material="wood" {still}/>
    <geom name="box_a" type="box" pos="-1.13 0.02 0.50" size="0.08 0.10 0.07" material="card" {still}/>
    <geom name="box_b" type="box" pos="-1.13 0.32 0.52" size="0.07 0.08 0.09" material="paper" {still}/>
    <geom name="box_c" type="box" pos="-1.13 0.55 0.485" size="0.06 0.09 0.055" material="ceramic" {still}/>"""


def table(look: Look, inside: str, flex: bool, centre_x_m: float = 0.2, mat_x_m: float = 0.34) -> str:
    """The table, its top at z = 0, and what is bolted to it. With `flex` it gives way under load, as real ones do."""
    x, y, z = TABLE_HALF_M
    joints = _flex_joints(centre_x_m) if flex else ""
    legs = "".join(
        f'<geom class="trim" type="cylinder" fromto="{numbers(centre_x_m + sx * (x - 0.05), sy * (y - 0.05), -0.04)} '
        f'{numbers(centre_x_m + sx * (x - 0.05), sy * (y - 0.05), -0.74)}" size="0.025" material="steel"/>'
        for sx in (-1, 1)
        for sy in (-1, 1)
    )
    inertia = TABLE_KG / 3 * np.array([y * y, x * x, x * x + y * y])
    return f"""<body name="table">
      <inertial pos="{numbers(centre_x_m, 0, -0.03)}" mass="{TABLE_KG}" diaginertia="{numbers(inertia)}"/>
      {joints}
      <geom name="table" type="box" pos="{numbers(centre_x_m, 0, -z)}" size="{numbers(x, y, z)}" material="wood"
        rgba="{numbers(look.wood, 1)}" group="1"/>
      <geom name="mat" class="trim" type="box" pos="{numbers(mat_x_m, 0, 0.0006)}" quat="{turned(look.mat_yaw_rad)}"
        size="0.25 0.30 0.0006" material="mat"/>
      {legs}
      {_clutter(look)}
      {inside}
    </body>"""


def _flex_joints(centre_x_m: float) -> str:
    """Sag at 14 Hz, rocking at 6 Hz, 4 % of critical damping."""
    x, y, _ = TABLE_HALF_M
    lines = []
    for name, kind, axis, mass, hertz in (
        ("table_sag", "slide", "0 0 1", TABLE_KG, 14.0),
        ("table_roll", "hinge", "1 0 0", TABLE_KG / 3 * y * y, 6.0),
        ("table_pitch", "hinge", "0 1 0", TABLE_KG / 3 * x * x, 6.0),
    ):
        turn = 2 * np.pi * hertz
        stiffness, damping = mass * turn**2, 2 * 0.04 * mass * turn
        lines.append(
            f'<joint name="{name}" type="{kind}" axis="{axis}" pos="{numbers(centre_x_m, 0, 0)}" '
            f'stiffness="{numbers(stiffness)}" damping="{numbers(damping)}"/>'
        )
    return "\n      ".join(lines)


def _clutter(look: Look) -> str:
    shapes = (
        ('type="cylinder" size="0.038 0.045" material="ceramic"', 0.045),
        ('type="box" size="0.09 0.065 0.018" material="paper"', 0.018),
        ('type="cylinder" size="0.045 0.022" material="card"', 0.022),
        ('type="box" size="0.05 0.035 0.03" material="card"', 0.030),
    )
    return "\n      ".join(
        f'<geom class="trim" {shape} pos="{numbers(x, y, height)}" quat="{turned(yaw)}"/>'
        for (shape, height), (x, y, yaw) in zip(shapes, look.clutter, strict=False)
    )


def gravity_option(values: Values) -> str:
    """The gravity attribute, tilted where the table is not level."""
    about_x, about_y = values("gravity.tilt_x", 0.0), values("gravity.tilt_y", 0.0)
    down = rotation([0, about_y, 0]) @ rotation([about_x, 0, 0]) @ np.array([0, 0, -9.81])
    return f'gravity="{numbers(down)}"'
