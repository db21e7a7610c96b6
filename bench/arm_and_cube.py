"""The scene of the world benches: a six-joint arm with a two-finger gripper over a table with a cube."""

from __future__ import annotations

from collections.abc import Sequence

from twinproof.nouns.randomness import stream
from twinproof.nouns.theta import Theta
from twinproof.sim.scene import Scene

# name, axis, radius, length, parent's length
LINKS = (
    ("base", "0 0 1", 0.05, 0.12, 0.02),
    ("shoulder", "0 1 0", 0.04, 0.25, 0.12),
    ("elbow", "0 1 0", 0.035, 0.25, 0.25),
    ("wrist_1", "0 1 0", 0.03, 0.08, 0.25),
    ("wrist_2", "0 0 1", 0.03, 0.08, 0.08),
    ("wrist_3", "1 0 0", 0.025, 0.05, 0.08),
)
SUBSTEPS = 10  # physics steps for one control: 2 ms and 20 ms
RANGES = {
    "body.cube.mass": (0.05, 0.2),
    "geom.cube.friction_slide": (0.4, 1.0),
    "joint.elbow.damping": (0.3, 0.8),
    "joint.shoulder.frictionloss": (0.0, 0.2),
    "actuator.elbow.gain": (60.0, 100.0),
    "actuator.base.delay": (0.0, 0.01),
}


def text() -> str:
    """The scene in MJCF."""
    arm, actuators, sensors = "", "", ""
    for name, axis, radius, length, below in LINKS:
        arm += (
            f'<body name="{name}" pos="0 0 {below}"><joint name="{name}" axis="{axis}" range="-2.5 2.5"/>'
            f'<geom name="{name}" type="capsule" size="{radius}" fromto="0 0 0 0 0 {length}" mass=".5" contype="0" '
            'conaffinity="0"/>'
        )
        actuators += f'<position name="{name}" joint="{name}" ctrlrange="-2.5 2.5" forcerange="-60 60"/>'
        sensors += f'<jointpos name="{name}" joint="{name}" noise=".001"/>'
        sensors += f'<jointvel name="{name}_speed" joint="{name}" noise=".01"/>'
    fingers = ""
    for name, x, axis in (("left", 0.04, "-1 0 0"), ("right", -0.04, "1 0 0")):
        fingers += (
            f'<body name="{name}" pos="{x} 0 .03"><joint name="{name}" type="slide" axis="{axis}" range="0 .035" '
            f'limited="true"/><geom name="{name}_finger" type="box" size=".005 .01 .03" mass=".05"/></body>'
        )
        actuators += f'<position name="{name}" joint="{name}" kp="200" kv="5" ctrlrange="0 .035" forcerange="-20 20"/>'
    palm = '<geom name="palm" type="box" size=".04 .02 .01" mass=".1" contype="0" conaffinity="0"/>'
    hand = f'<body name="hand" pos="0 0 .05">{palm}{fingers}</body>'
    return f"""<mujoco model="arm and cube">
<compiler angle="radian"/><option timestep="0.002" integrator="implicitfast" cone="elliptic"/>
<default><joint damping=".5" armature=".02"/><position kp="80" kv="4"/></default>
<worldbody><geom name="table" type="plane" size="1 1 .1"/>{arm}{hand}{"</body>" * len(LINKS)}
<body name="cube" pos=".35 0 .025"><freejoint name="cube"/>
<geom name="cube" type="box" size=".025 .025 .025" mass=".1" friction=".8 .005 .0001" condim="4"/></body></worldbody>
<actuator>{actuators}</actuator>
<sensor>{sensors}<framepos name="cube" objtype="body" objname="cube" noise=".002"/>
<framequat name="cube_turn" objtype="body" objname="cube" noise=".01"/></sensor></mujoco>"""


def scene() -> Scene:
    """The scene, with room for delays of commands up to 10 ms."""
    return Scene(text(), control_delay_s=0.01)


def thetas(count: int, ranges: Sequence[str] = tuple(RANGES)) -> list[Theta]:
    """Different physics for each world."""
    rng = stream(0, "bench", "thetas")
    return [Theta({id: float(rng.uniform(*RANGES[id])) for id in ranges}) for _ in range(count)]
