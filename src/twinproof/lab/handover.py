"""The handover bench: the left arm picks up a cube and passes it to the right arm, which puts it down."""

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
from twinproof.lab.motion import tool_pose, up
from twinproof.lab.population import Instance
from twinproof.lab.push import FIXED_FOVY_RAD, REST, T_HAND_CAMERA, WRIST_FOVY_RAD, put_object
from twinproof.nouns.trace import Event

if TYPE_CHECKING:
    from twinproof.lab.motion import Planner, Style
    from twinproof.sim.world import World

LEFT = Placed("left_", (-0.42, 0.0, 0.0), 0.0)
RIGHT = Placed("right_", (0.42, 0.0, 0.0), float(np.pi), second=True, accent=(0.14, 0.36, 0.66))
MEETING_M = np.array([0.0, 0.0, 0.24])
TARGET_M = np.array([0.13, 0.0])
TAKE_M = 0.008  # the tip stays this far short of the cube's middle
X, Y, Z = np.eye(3)
ORDER = ("home", "left_grasp", "pick_up", "align", "right_grasp", "release", "place", "home")


class Handover(Bench):
    """Two arms that face each other over a cube."""

    name = "handover"
    robot = "lab_two_arms"
    rate_hz, sensor_hz, camera_hz = 20, 100, 20
    arms = (LEFT, RIGHT)
    families = ("cube",)
    behaviours = ("handover",)
    phases = ("home", "left_grasp", "pick_up", "align", "right_grasp", "release", "place", "shake", "scan")
    tasks: Mapping[str, str] = {
        "handover": "pass the cube from the left to the right arm and put it down",
        "shake": "move all joints in free air",
        "scan": "carry the wrist camera around the scene",
    }
    goals: Mapping[str, int] = {"handover": 3}
    views = (
        View("front", "world", looking_at((0.0, -1.0, 0.55), (0.0, 0.0, 0.12)), 1.2 * FIXED_FOVY_RAD),
        View("high", "world", looking_at((0.10, -0.42, 0.98), (0.0, 0.02, 0.05)), FIXED_FOVY_RAD),
        View("back", "world", looking_at((-0.30, 0.88, 0.50), (0.02, 0.0, 0.12)), 1.2 * FIXED_FOVY_RAD),
        View("wrist", "left_hand", T_HAND_CAMERA, WRIST_FOVY_RAD),
    )
    home: Mapping[str, float] = dict(zip((*LEFT.joints, *RIGHT.joints), (*REST, *REST), strict=True))

    def scene_text(
        self, values: Values, look: room.Look, thing: Instance | None, cameras: Mapping[str, str], flex: bool
    ) -> str:
        assert thing is not None
        fixed = "\n    ".join(cameras[view.name] for view in self.views if view.parent == "world")
        robots = f"{arm_body(values, LEFT, cameras['wrist'])}\n    {arm_body(values, RIGHT, '')}"
        world = f"""{room.surroundings(look)}
    {fixed}
    {room.table(look, robots, flex, 0.0, mat_x_m=0.0)}
    {things.object_body(values, thing)}"""
        parts = {
            "world": world,
            "actuator": f"{arm_actuators(values, LEFT)}\n    {arm_actuators(values, RIGHT)}",
            "equality": f"{arm_couplings(LEFT)}\n    {arm_couplings(RIGHT)}",
            "sensor": self.sensor_text(),
            "option": room.gravity_option(values),
        }
        return room.model_text(self.name, look, parts, things.object_material(thing))

    def robot_text(self) -> str:
        values = Values()
        bodies = f"{arm_body(values, LEFT, '')}\n    {arm_body(values, RIGHT, '')}"
        motors = f"{arm_actuators(values, LEFT)}\n    {arm_actuators(values, RIGHT)}"
        return room.robot_text(
            self.robot, bodies, motors, f"{arm_couplings(LEFT)}\n    {arm_couplings(RIGHT)}", self.sensor_text()
        )

    def place(self, world: World, thing: Instance | None, rng: np.random.Generator) -> None:
        assert thing is not None
        at = (float(rng.uniform(-0.16, -0.09)), float(rng.uniform(-0.09, 0.09)))
        put_object(world, thing, at, float(rng.uniform(-0.45, 0.45)))

    def plan(self, behaviour: str, planner: Planner, style: Style, rng: np.random.Generator) -> None:
        if behaviour == "scan":
            do.scan(planner, "left_", np.array([-0.08, 0.0, 0.03]), style)
        elif behaviour == "shake":
            do.shake(planner, 2, rng)
        else:
            assert planner.thing is not None
            self._pass(planner, planner.thing, style, rng)

    def _pass(self, planner: Planner, thing: Instance, style: Style, rng: np.random.Generator) -> None:
        half = thing.half_m[0]
        self._pick_up(planner, half, style)
        planner.phase("align")
        ready = MEETING_M + (0.09 + TAKE_M) * X
        waiting = tool_pose(ready, -X, Z)
        planner.go({"left_": tool_pose(MEETING_M - TAKE_M * X, X, Y), "right_": waiting}, 1.4, bow_rad=3 * style.bow_m)
        planner.wait(0.35 + style.pause_s)
        planner.phase("right_grasp")
        planner.line("right_", tool_pose(MEETING_M + TAKE_M * X, -X, Z), 0.7)
        planner.wait(0.2)
        planner.grip("right_", half - 0.020, 0.4)
        planner.wait(0.15)
        planner.phase("release")
        planner.grip("left_", FINGER_TRAVEL_M, 0.35)
        planner.wait(0.05)
        planner.line("left_", tool_pose(MEETING_M - 0.09 * X, X, Y), 0.5)
        planner.phase("place")
        put = np.array([*(TARGET_M + rng.normal(0, 0.008, 2)), half + TAKE_M + 0.003])
        planner.goal_m = np.array([put[0], put[1], half])
        above = tool_pose(put + up(0.05 + style.clearance_m / 2), -Z, -Y)
        planner.go({"right_": above}, 1.2, homing="left_")
        planner.wait(0.15)
        planner.line("right_", tool_pose(put, -Z, -Y), 0.7)
        planner.wait(0.3)
        planner.grip("right_", FINGER_TRAVEL_M, 0.35)
        planner.line("right_", above, 0.5)
        planner.phase("home")
        planner.to(planner.home, 1.0)
        planner.wait(0.3)

    def _pick_up(self, planner: Planner, half: float, style: Style) -> None:
        centre, yaw = do.object_pose(planner)
        turn = (yaw + np.pi / 2) % np.pi
        fingers = np.array([np.cos(turn), np.sin(turn), 0.0])
        at = np.array([centre[0], centre[1], half + TAKE_M])
        planner.phase("home")
        planner.wait(0.2)
        planner.phase("left_grasp")
        planner.to(self._opened(planner), 0.3)
        planner.go({"left_": tool_pose(at + up(0.03 + style.clearance_m), -Z, fingers)}, 1.0, bow_rad=3 * style.bow_m)
        planner.wait(0.1)
        planner.line("left_", tool_pose(at, -Z, fingers), 0.6)
        planner.wait(0.15 + style.pause_s)
        planner.grip("left_", half - 0.020, 0.35)
        planner.wait(0.15)
        planner.phase("pick_up")
        planner.line("left_", tool_pose(at + up(0.12), -Z, fingers), 0.6)

    @staticmethod
    def _opened(planner: Planner) -> np.ndarray:
        target = planner.now.copy()
        target[[6, 13]] = FINGER_TRAVEL_M
        return target

    def succeeded(self, behaviour: str, snaps: list[Snap], goal: np.ndarray | None) -> bool:
        if behaviour != "handover":
            return True
        assert goal is not None
        names = [event.name for event in self.events(snaps)]
        return names == list(ORDER) and bool(np.linalg.norm(snaps[-1].object_m - goal) < 0.035)

    def events(self, snaps: list[Snap]) -> tuple[Event, ...]:
        """The eight events as they happened, by contact and height; a handover that failed lacks some."""
        left = np.array([snap.held[0] for snap in snaps])
        right = np.array([snap.held[1] for snap in snaps])
        place = np.stack([snap.object_m for snap in snaps])
        lifted = place[:, 2] - place[0, 2] > 0.02
        speed = np.linalg.norm(np.diff(place, axis=0, prepend=place[:1]), axis=1) * self.rate_hz
        aligned = left & (np.linalg.norm(place - MEETING_M, axis=1) < 0.03) & (speed < 0.05)
        found, after = [("home", 0)], 0
        rules = (
            ("left_grasp", left),
            ("pick_up", left & lifted),
            ("align", aligned),
            ("right_grasp", left & right),
            ("release", right & ~left),
            ("place", ~left & ~right & ~lifted & (speed < 0.05)),
        )
        for name, holds in rules:
            later = np.flatnonzero(holds[after:])
            if not len(later):
                break
            after += int(later[0])
            found.append((name, after))
        else:
            found.append(("home", len(snaps) - 1))
        return tuple(Event(name, snaps[k].time_s) for name, k in found)
