"""The drawer bench: the arm takes a handle and pulls drawers whose rails rub more or less."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from twinproof.lab import behaviours as do
from twinproof.lab.bench import Bench, Snap
from twinproof.lab.hidden import View
from twinproof.lab.models import room, things
from twinproof.lab.models.arm import FINGER_TRAVEL_M, Placed, arm_actuators, arm_body, arm_couplings
from twinproof.lab.models.text import Values, looking_at
from twinproof.lab.motion import tool_pose
from twinproof.lab.population import Instance
from twinproof.lab.push import FIXED_FOVY_RAD, REST, T_HAND_CAMERA, WRIST_FOVY_RAD

if TYPE_CHECKING:
    from twinproof.lab.motion import Planner, Style
    from twinproof.sim.world import World

AHEAD, UP = np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0])
ARM = Placed()


class Drawer(Bench):
    """One arm, a cabinet with one drawer; another instance is another cabinet."""

    name = "drawer"
    robot = "lab_arm"
    rate_hz, sensor_hz, camera_hz = 20, 100, 20
    arms = (ARM,)
    families = ("drawer",)
    behaviours = ("pull", "pull_back", "pull", "shake")
    phases = ("approach", "grasp", "pull", "push_back", "release", "shake", "scan", "home")
    tasks: Mapping[str, str] = {
        "pull": "pull the drawer open",
        "pull_back": "pull the drawer open and push it shut",
        "shake": "move all joints in free air",
        "scan": "carry the wrist camera around the scene",
    }
    views = (
        View("front", "world", looking_at((-0.05, -0.72, 0.52), (0.45, 0.02, 0.10)), FIXED_FOVY_RAD),
        View("left", "world", looking_at((0.30, 0.82, 0.58), (0.42, 0.0, 0.10)), FIXED_FOVY_RAD),
        View("right", "world", looking_at((0.12, -0.30, 1.00), (0.44, 0.0, 0.08)), FIXED_FOVY_RAD),
        View("wrist", "hand", T_HAND_CAMERA, WRIST_FOVY_RAD),
    )
    home: Mapping[str, float] = dict(zip(ARM.joints, REST, strict=True))

    def scene_text(
        self, values: Values, look: room.Look, thing: Instance | None, cameras: Mapping[str, str], flex: bool
    ) -> str:
        assert thing is not None
        fixed = "\n    ".join(cameras[view.name] for view in self.views if view.parent == "world")
        bolted = f"{arm_body(values, ARM, cameras['wrist'])}\n    {things.cabinet(values, thing)}"
        parts = {
            "world": f"{room.surroundings(look)}\n    {fixed}\n    {room.table(look, bolted, flex, 0.3)}",
            "actuator": arm_actuators(values, ARM),
            "equality": arm_couplings(ARM),
            "sensor": self.sensor_text(),
            "option": room.gravity_option(values),
        }
        return room.model_text(self.name, look, parts, things.object_material(thing))

    def robot_text(self) -> str:
        values = Values()
        return room.robot_text(
            self.robot, arm_body(values, ARM, ""), arm_actuators(values, ARM), arm_couplings(ARM), self.sensor_text()
        )

    def place(self, world: World, thing: Instance | None, rng: np.random.Generator) -> None:
        world.set_joint("drawer", float(rng.uniform(0.0, 0.012)))  # not always quite shut

    def plan(self, behaviour: str, planner: Planner, style: Style, rng: np.random.Generator) -> None:
        if behaviour == "scan":
            do.scan(planner, "", np.array([0.44, 0.0, 0.10]), style)
        elif behaviour == "shake":
            do.shake(planner, 1, rng)
        else:
            self._pull(planner, style, rng, back=behaviour == "pull_back")

    def _pull(self, planner: Planner, style: Style, rng: np.random.Generator, back: bool) -> None:
        planner.world.kinematics()
        handle = planner.world.site_pose("handle")[:3, 3] + [-0.004, rng.normal(0, 0.006), 0.0]
        length = float(rng.uniform(0.115, 0.135))
        drop = np.array([0.0, 0.0, style.bow_m * 0.1])
        planner.phase("approach")
        planner.grip("", FINGER_TRAVEL_M, 0.25)
        planner.go({"": tool_pose(handle - [0.07, 0, 0], AHEAD, UP)}, 1.1)
        planner.wait(0.1)
        planner.line("", tool_pose(handle, AHEAD, UP), 0.5)
        planner.wait(0.1 + style.pause_s)
        planner.phase("grasp")
        planner.grip("", -0.003, 0.35)
        planner.wait(0.1)
        planner.phase("pull")
        planner.line("", tool_pose(handle - [length, 0, 0], AHEAD, UP), 1.1, via=drop)
        planner.wait(0.2 + style.pause_s)
        if back:
            planner.phase("push_back")
            planner.line("", tool_pose(handle - [0.01, 0, 0], AHEAD, UP), 1.1)
            planner.wait(0.2)
        planner.phase("release")
        planner.grip("", FINGER_TRAVEL_M, 0.3)
        end = handle - [0.01 if back else length, 0, 0]
        planner.line("", tool_pose(end - [0.06, 0, 0], AHEAD, UP), 0.5)
        planner.phase("home")
        planner.to(planner.home, 0.9)

    def succeeded(self, behaviour: str, snaps: list[Snap], goal: np.ndarray | None) -> bool:
        opening = np.array([snap.opening_m for snap in snaps])
        match behaviour:
            case "pull":
                return bool(opening[-1] > 0.09)
            case "pull_back":
                return bool(opening.max() > 0.09 and opening[-1] < 0.03)
            case _:
                return True
