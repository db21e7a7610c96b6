"""A 6-joint arm with a parallel gripper, in the size and style of ALOHA-class arms, made of plain shapes.

    base - waist(z) - shoulder(y) - elbow(y) - forearm_roll(x) - wrist(y) - wrist_rotate(x) - hand - two fingers
At zero the upper arm stands up and the forearm points forward (+x); the tip is 0.53 m ahead and 0.41 m up.
"""

from __future__ import annotations

from dataclasses import dataclass

from twinproof.lab.models.text import Values, box_inertia, inertial, numbers, turned

FINGER_TRAVEL_M = 0.042  # each
ARM_JOINTS = ("waist", "shoulder", "elbow", "forearm_roll", "wrist", "wrist_rotate")
GRIPPER = "gripper"


@dataclass(frozen=True)
class Link:
    """One body and the joint that carries it, as the maker's sheet states them."""

    body: str
    joint: str
    at_m: tuple[float, float, float]
    axis: tuple[int, int, int]
    range_rad: tuple[float, float]
    mass_kg: float
    com_m: tuple[float, float, float]
    half_m: tuple[float, float, float]  # a box of this size has the link's inertia
    damping: float
    frictionloss: float
    armature: float
    kp: float
    kv: float
    torque_nm: float


LINKS = (
    Link("turret", "waist", (0, 0, 0.08), (0, 0, 1), (-3.1, 3.1), 0.70, (0, 0, 0.025), (0.045, 0.045, 0.045),
         1.2, 0.35, 0.060, 180, 12, 35),
    Link("upper_arm", "shoulder", (0, 0, 0.05), (0, 1, 0), (-1.85, 1.55), 0.75, (0.02, 0, 0.14), (0.025, 0.03, 0.15),
         1.6, 0.45, 0.120, 320, 22, 60),
    Link("forearm", "elbow", (0.05, 0, 0.28), (0, 1, 0), (-1.75, 1.75), 0.55, (0.08, 0, 0), (0.10, 0.025, 0.025),
         1.1, 0.35, 0.080, 220, 15, 40),
    Link("forearm_link", "forearm_roll", (0.18, 0, 0), (1, 0, 0), (-3.1, 3.1), 0.28, (0.05, 0, 0), (0.06, 0.02, 0.02),
         0.35, 0.10, 0.020, 60, 3.0, 12),
    Link("wrist_link", "wrist", (0.12, 0, 0), (0, 1, 0), (-1.9, 2.1), 0.24, (0.03, 0, 0), (0.035, 0.02, 0.02),
         0.35, 0.10, 0.020, 60, 3.0, 12),
    Link("hand", "wrist_rotate", (0.065, 0, 0), (1, 0, 0), (-3.1, 3.1), 0.30, (0.03, 0, 0), (0.04, 0.05, 0.025),
         0.20, 0.06, 0.010, 30, 1.5, 8),
)  # fmt: skip


@dataclass(frozen=True)
class Placed:
    """An arm at a place: `prefix` starts every name, `mask` keeps two arms apart in collision bits."""

    prefix: str = ""
    at_m: tuple[float, float, float] = (0.0, 0.0, 0.0)
    yaw_rad: float = 0.0
    second: bool = False
    accent: tuple[float, float, float] = (0.86, 0.42, 0.10)

    @property
    def joints(self) -> tuple[str, ...]:
        """The six joints and the gripper, in order."""
        return tuple(f"{self.prefix}{name}" for name in (*ARM_JOINTS, GRIPPER))

    @property
    def tip(self) -> str:
        """The site between the finger pads."""
        return f"{self.prefix}tip"

    @property
    def hand(self) -> str:
        """The body that carries fingers and wrist camera."""
        return f"{self.prefix}hand"


def arm_defaults() -> str:
    """Default classes for both arms."""
    return """<default class="link"><geom type="capsule" material="anodised" group="1"/></default>
    <default class="trim"><geom contype="0" conaffinity="0" mass="0" group="2"/></default>
    <default class="pad"><geom type="box" material="rubber" condim="4" group="1" solref="0.006 1"
      solimp="0.95 0.99 0.001" friction="1.1 0.01 0.0002" priority="1"/></default>"""


def arm_materials() -> str:
    """Materials of the arm's parts."""
    return """<material name="anodised" rgba="0.17 0.18 0.20 1" specular="0.6" shininess="0.6"/>
    <material name="motor" rgba="0.07 0.07 0.08 1" specular="0.4" shininess="0.5"/>
    <material name="steel" texture="metal" rgba="0.8 0.8 0.82 1" specular="0.7" shininess="0.7"/>
    <material name="rubber" rgba="0.12 0.12 0.13 1" specular="0.05" shininess="0.1"/>"""


def arm_body(values: Values, arm: Placed, camera: str) -> str:
    """The body tree of an arm; `camera` is the text of what sits on the hand."""
    bits = 'contype="4" conaffinity="3"' if arm.second else 'contype="2" conaffinity="1"'
    trim = numbers(arm.accent, 1.0)
    shapes = {
        "turret": f'<geom class="link" type="cylinder" fromto="0 0 -0.02 0 0 0.03" size="0.045" {bits}/>'
        f'<geom class="trim" type="cylinder" fromto="0 -0.048 0.05 0 0.048 0.05" size="0.032" material="motor"/>',
        "upper_arm": f'<geom class="link" fromto="0 0 0.03 0 0 0.27" size="0.028" {bits}/>'
        f'<geom class="trim" type="capsule" fromto="0 0 0.28 0.05 0 0.28" size="0.026" material="anodised"/>'
        f'<geom class="trim" type="box" pos="0.012 0 0.15" size="0.020 0.0295 0.055" rgba="{trim}"/>'
        f'<geom class="trim" type="cylinder" fromto="0.05 -0.042 0.28 0.05 0.042 0.28" size="0.029" material="motor"/>',
        "forearm": f'<geom class="link" fromto="0.02 0 0 0.16 0 0" size="0.025" {bits}/>'
        f'<geom class="trim" type="box" pos="0.09 0 0.012" size="0.045 0.0265 0.016" rgba="{trim}"/>',
        "forearm_link": f'<geom class="link" fromto="0.01 0 0 0.10 0 0" size="0.021" {bits}/>'
        f'<geom class="trim" type="cylinder" fromto="0.12 -0.030 0 0.12 0.030 0" size="0.022" material="motor"/>',
        "wrist_link": f'<geom class="link" fromto="0.01 0 0 0.05 0 0" size="0.021" {bits}/>',
        "hand": _hand(values, arm, bits, camera),
    }
    text = ""
    for link in reversed(LINKS):
        text = _link(values, arm, link, shapes[link.body] + text)
    return f"""<body name="{arm.prefix}base" pos="{numbers(arm.at_m)}" quat="{turned(arm.yaw_rad)}">
      <geom type="box" pos="-0.01 0 0.012" size="0.085 0.075 0.012" material="steel" {bits} group="1"/>
      <geom type="cylinder" fromto="0 0 0.024 0 0 0.062" size="0.058" material="motor" {bits} group="1"/>
      {text}
    </body>"""


def _link(values: Values, arm: Placed, link: Link, inside: str) -> str:
    body, joint = f"{arm.prefix}{link.body}", f"{arm.prefix}{link.joint}"
    kinds = ("damping", "frictionloss", "armature")
    felt = " ".join(f'{kind}="{numbers(values(f"joint.{joint}.{kind}", getattr(link, kind)))}"' for kind in kinds)
    return f"""<body name="{body}" pos="{numbers(link.at_m)}">
      {inertial(values, body, link.mass_kg, link.com_m, box_inertia(link.mass_kg, link.half_m))}
      <joint name="{joint}" axis="{numbers(link.axis)}" range="{numbers(link.range_rad)}" {felt}/>
      {inside}
    </body>
    """


def _hand(values: Values, arm: Placed, bits: str, camera: str) -> str:
    kinds = {"damping": 6.0, "frictionloss": 1.0, "armature": 0.05}
    fingers = ""
    for side, sign in (("left", 1), ("right", -1)):
        body, joint = f"{arm.prefix}{side}_finger", f"{arm.prefix}{GRIPPER}" + ("" if side == "left" else "_mirror")
        felt = " ".join(
            f'{kind}="{numbers(values(f"joint.{joint}.{kind}", nominal))}"' for kind, nominal in kinds.items()
        )
        fingers += f"""<body name="{body}" pos="0.062 {sign * 0.006} 0">
          {inertial(values, body, 0.035, (0.03, 0, 0), box_inertia(0.035, (0.03, 0.005, 0.01)))}
          <joint name="{joint}" type="slide" axis="0 {sign} 0" range="-0.003 {FINGER_TRAVEL_M}" {felt}/>
          <geom type="box" pos="0.020 {sign * 0.004} 0" size="0.022 0.005 0.011" material="steel" {bits} group="1"/>
          <geom class="pad" name="{body}_pad" pos="0.049 {-sign * 0.002} 0" size="0.015 0.004 0.011" {bits}/>
        </body>"""
    return f"""<geom type="box" pos="0.030 0 0" size="0.030 0.052 0.024" material="anodised" {bits} group="1"/>
      <geom class="trim" type="box" pos="0.062 0 0" size="0.003 0.050 0.012" material="steel"/>
      <geom class="trim" type="box" pos="0.004 0 0.042" size="0.005 0.012 0.020" material="steel"/>
      <geom class="trim" type="box" pos="0.008 0 0.070" size="0.010 0.032 0.011" material="motor"/>
      {camera}
      <site name="{arm.tip}" pos="0.112 0 0" size="0.004" rgba="0 0 0 0"/>
      {fingers}"""


def arm_actuators(values: Values, arm: Placed) -> str:
    """Position servos: the six joints, and the gripper in metres of one finger."""
    lines = []
    for link in LINKS:
        name = f"{arm.prefix}{link.joint}"
        lines.append(_servo(values, name, link.kp, link.kv, link.torque_nm, link.range_rad))
    lines.append(_servo(values, f"{arm.prefix}{GRIPPER}", 900.0, 30.0, 22.0, (-0.003, FINGER_TRAVEL_M)))
    return "\n    ".join(lines)


def _servo(values: Values, name: str, kp: float, kv: float, limit: float, reach: tuple[float, float]) -> str:
    gain, most = values(f"actuator.{name}.gain", kp), values(f"actuator.{name}.force_limit", limit)
    return (
        f'<position name="{name}" joint="{name}" kp="{numbers(gain)}" kv="{numbers(kv)}" '
        f'forcerange="{numbers(-most, most)}" ctrlrange="{numbers(reach)}"/>'
    )


def arm_couplings(arm: Placed) -> str:
    """The rack that moves both fingers alike."""
    finger = f"{arm.prefix}{GRIPPER}"
    return (
        f'<joint joint1="{finger}_mirror" joint2="{finger}" polycoef="0 1 0 0 0" solref="0.004 1" '
        'solimp="0.98 0.999 0.0005"/>'
    )
