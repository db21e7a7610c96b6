"""The pendulum bench: two driven joints, direct torque, no camera; a desk toy of the underactuated-robotics kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from twinproof.lab.bench import Bench, Snap
from twinproof.lab.models import room
from twinproof.lab.models.text import Values, inertial, numbers
from twinproof.lab.motion import chirp, fourier
from twinproof.lab.population import Instance

if TYPE_CHECKING:
    from twinproof.lab.motion import Planner, Style
    from twinproof.sim.world import World

LENGTH_M = (0.30, 0.22)
TORQUE_NM = (6.0, 4.0)


class Pendulum(Bench):
    """Two links that hang from a stand; each joint has a torque motor."""

    name = "pendulum"
    robot = "lab_pendulum"
    rate_hz, sensor_hz, camera_hz = 100, 250, 0
    behaviours = ("free_swing", "chirp", "fourier")
    tasks: Mapping[str, str] = {
        "free_swing": "let the pendulum swing out",
        "chirp": "drive one joint with a rising sine",
        "fourier": "drive both joints with harmonics",
    }
    home: Mapping[str, float] = {"shoulder": 0.0, "elbow": 0.0}
    torque_driven = True
    effects = ("cable_drag", "gear_ripple", "table_flex")  # it has neither gripper nor camera

    @property
    def joints(self) -> tuple[str, ...]:
        """The two joints."""
        return ("shoulder", "elbow")

    def scene_text(
        self, values: Values, look: room.Look, thing: Instance | None, cameras: Mapping[str, str], flex: bool
    ) -> str:
        sway = (
            '<inertial pos="0 0 0" mass="3" diaginertia="0.05 0.05 0.05"/>'
            '<joint name="stand_sway" type="slide" axis="1 0 0" stiffness="9000" damping="12"/>'
            if flex
            else ""
        )
        world = f"""{room.surroundings(look)}
    <geom name="desk" class="trim" type="box" pos="0 0 0.15" size="0.5 0.35 0.02" material="wood"/>
    <body name="stand" pos="0 0 0.85">{sway}
      {self._links(values)}
    </body>"""
        parts = {
            "world": world,
            "actuator": self._motors(values),
            "sensor": self.sensor_text(),
            "option": room.gravity_option(values),
        }
        return room.model_text(self.name, look, parts)

    def robot_text(self) -> str:
        values = Values()
        return room.robot_text(
            self.robot,
            f'<body name="stand" pos="0 0 0.85">{self._links(values)}</body>',
            self._motors(values),
            "",
            self.sensor_text(),
        )

    def _links(self, values: Values) -> str:
        upper, lower = LENGTH_M
        joint = {}
        for name, damping, loss, armature in (("shoulder", 0.020, 0.035, 0.0018), ("elbow", 0.012, 0.022, 0.0012)):
            kinds = (("damping", damping), ("frictionloss", loss), ("armature", armature))
            felt = " ".join(f'{kind}="{numbers(values(f"joint.{name}.{kind}", value))}"' for kind, value in kinds)
            joint[name] = f'<joint name="{name}" axis="0 -1 0" {felt}/>'
        still = 'contype="0" conaffinity="0" group="1"'
        return f"""<geom type="box" pos="0 0.06 -0.2" size="0.03 0.02 0.5" material="steel" {still}/>
      <geom type="cylinder" fromto="0 -0.03 0 0 0.05 0" size="0.04" material="motor" {still}/>
      <body name="upper_link">
        {inertial(values, "upper_link", 0.62, (0, 0, -0.17), (0.0062, 0.0060, 0.0004))}
        {joint["shoulder"]}
        <geom type="capsule" fromto="0 -0.05 0 0 -0.05 {-upper}" size="0.014" material="anodised" {still}/>
        <geom type="cylinder" fromto="0 -0.09 {-upper} 0 -0.03 {-upper}" size="0.032" material="motor" {still}/>
        <body name="lower_link" pos="0 0 {-upper}">
          {inertial(values, "lower_link", 0.46, (0, 0, -0.16), (0.0030, 0.0029, 0.0003))}
          {joint["elbow"]}
          <geom type="capsule" fromto="0 -0.09 0 0 -0.09 {-lower}" size="0.012" rgba="0.86 0.42 0.10 1" {still}/>
          <geom type="sphere" pos="0 -0.09 {-lower}" size="0.032" material="steel" {still}/>
        </body>
      </body>"""

    def _motors(self, values: Values) -> str:
        lines = []
        for name, limit in zip(self.joints, TORQUE_NM, strict=True):
            gain = values(f"actuator.{name}.gain", 1.0)
            most = values(f"actuator.{name}.force_limit", limit)
            lines.append(
                f'<general name="{name}" joint="{name}" gainprm="{numbers(gain)}" forcerange="{numbers(-most, most)}" '
                f'ctrlrange="{numbers(-limit, limit)}"/>'
            )
        return "\n    ".join(lines)

    def place(self, world: World, thing: Instance | None, rng: np.random.Generator) -> None:
        """Nothing lies on this bench."""

    def start(self, behaviour: str, rng: np.random.Generator) -> np.ndarray:
        """Angles from which an episode begins: held up for a free swing, hanging otherwise."""
        if behaviour == "free_swing":
            return rng.choice([-1, 1], 2) * rng.uniform([0.7, 0.3], [2.2, 1.5])
        return np.zeros(2)

    def plan(
        self, behaviour: str, planner: Planner, style: Style, rng: np.random.Generator, seconds: float = 5.0
    ) -> None:
        time_s = np.arange(round(seconds * self.rate_hz)) / self.rate_hz
        torque = np.zeros((len(time_s), 2))
        if behaviour == "chirp":
            torque[:, int(rng.integers(2))] = chirp(time_s, 0.4, 3.5 * style.speed) * rng.uniform(0.6, 1.2)
            torque *= np.array([1.0, 0.5])
        elif behaviour == "fourier":
            terms = rng.normal(size=(6, 2, 2)) * np.array([0.4, 0.15])
            torque = fourier(time_s, terms, 0.35)
        planner.phase(behaviour)
        planner.follow(np.clip(torque, [-TORQUE_NM[0], -TORQUE_NM[1]], TORQUE_NM))

    def succeeded(self, behaviour: str, snaps: list[Snap], goal: np.ndarray | None) -> bool:
        return True
