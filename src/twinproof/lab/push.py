"""The push bench: a 6-joint arm pushes, lifts and drops boxes, cans and tees under three cameras."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from twinproof.lab import behaviours as do
from twinproof.lab.bench import Bench, Snap
from twinproof.lab.hidden import View
from twinproof.lab.models import room, things
from twinproof.lab.models.arm import Placed, arm_actuators, arm_body, arm_couplings
from twinproof.lab.models.text import Values, looking_at
from twinproof.lab.population import Instance

if TYPE_CHECKING:
    from twinproof.lab.motion import Planner, Style
    from twinproof.sim.world import World

FIXED_FOVY_RAD, WRIST_FOVY_RAD = float(np.radians(38)), float(np.radians(62))
T_HAND_CAMERA = looking_at((0.022, 0.0, 0.072), (0.16, 0.0, 0.0))
REST = (0.0, -0.75, 0.65, 0.0, 0.75, 0.0, 0.02)  # a raised, folded pose that hides little

ARM = Placed()


class Push(Bench):
    """One arm, one object on a mat."""

    name = "push"
    robot = "lab_arm"
    rate_hz, sensor_hz, camera_hz = 20, 100, 20
    arms = (ARM,)
    families = ("box", "can", "tee")
    behaviours = ("push", "lift", "push", "drop", "push", "shake")
    phases = (
        "approach",
        "push",
        "retreat",
        "grasp",
        "lift",
        "sway",
        "lower",
        "drop",
        "release",
        "shake",
        "scan",
        "home",
    )
    tasks: Mapping[str, str] = {
        "push": "push the object to the mark",
        "lift": "lift the object, sway it and put it back",
        "drop": "lift the object and let it fall",
        "shake": "move all joints in free air",
        "scan": "carry the wrist camera around the scene",
    }
    goals: Mapping[str, int] = {"push": 2}
    views = (
        View("front", "world", looking_at((0.98, 0.08, 0.50), (0.28, 0.0, 0.09)), FIXED_FOVY_RAD),
        View("left", "world", looking_at((0.42, 0.74, 0.52), (0.28, 0.0, 0.08)), FIXED_FOVY_RAD),
        View("right", "world", looking_at((0.02, -0.62, 0.66), (0.28, 0.0, 0.05)), FIXED_FOVY_RAD),
        View("wrist", "hand", T_HAND_CAMERA, WRIST_FOVY_RAD),
    )
    home: Mapping[str, float] = dict(zip(ARM.joints, REST, strict=True))

    def scene_text(
        self, values: Values, look: room.Look, thing: Instance | None, cameras: Mapping[str, str], flex: bool
    ) -> str:
        assert thing is not None
        fixed = "\n    ".join(cameras[view.name] for view in self.views if view.parent == "world")
        arm = self.arms[0]
        robot = arm_body(values, arm, cameras["wrist"])
        world = f"""{room.surroundings(look)}
    {fixed}
    {room.table(look, robot, flex)}
    {things.object_body(values, thing)}"""
        parts = {
            "world": world,
            "actuator": arm_actuators(values, arm),
            "equality": arm_couplings(arm),
            "sensor": self.sensor_text(),
            "option": room.gravity_option(values),
        }
        return room.model_text(self.name, look, parts, things.object_material(thing))

    def robot_text(self) -> str:
        arm, values = self.arms[0], Values()
        return room.robot_text(
            self.robot, arm_body(values, arm, ""), arm_actuators(values, arm), arm_couplings(arm), self.sensor_text()
        )

    def place(self, world: World, thing: Instance | None, rng: np.random.Generator) -> None:
        assert thing is not None
        radius, turn, yaw = rng.uniform(0.28, 0.36), rng.uniform(-0.45, 0.45), rng.uniform(-0.6, 0.6)
        put_object(world, thing, (radius * np.cos(turn), radius * np.sin(turn)), turn + yaw)

    def plan(self, behaviour: str, planner: Planner, style: Style, rng: np.random.Generator) -> None:
        thing = self.thing_of(planner)
        match behaviour:
            case "push":
                do.push(planner, thing, style, rng)
            case "lift":
                do.lift(planner, thing, style, rng)
            case "drop":
                do.drop(planner, thing, style, rng)
            case "scan":
                do.scan(planner, "", np.array([0.32, 0.0, 0.03]), style)
            case _:
                do.shake(planner, 1, rng)

    @staticmethod
    def thing_of(planner: Planner) -> Instance:
        """The object that the operator has before them."""
        assert planner.thing is not None
        return planner.thing

    def succeeded(self, behaviour: str, snaps: list[Snap], goal: np.ndarray | None) -> bool:
        first, last = snaps[0].object_m, snaps[-1].object_m
        heights = np.array([snap.object_m[2] for snap in snaps]) - first[2]
        match behaviour:
            case "push":
                assert goal is not None
                return bool(np.linalg.norm(last[:2] - goal[:2]) < 0.03)
            case "lift":
                return bool((heights > 0.09).sum() >= 0.8 * self.rate_hz and abs(heights[-1]) < 0.01)
            case "drop":
                return bool(heights.max() > 0.035 and heights[-1] < 0.5 * heights.max())
            case _:
                return True


def put_object(world: World, thing: Instance, at_m: tuple[float, float], yaw_rad: float) -> None:
    """Stands the object on the table, a hair above it."""
    pose = [*at_m, thing.half_m[2] + 0.0005, np.cos(yaw_rad / 2), 0, 0, np.sin(yaw_rad / 2)]
    world.set_joint(things.OBJECT, np.array(pose))
