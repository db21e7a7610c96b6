"""A pendulum with a camera before it: the practice robot, filmed, and policies that look at its pictures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from twinproof.lab.benches import bench
from twinproof.lab.robot import LabRobot
from twinproof.nouns.policy import Channel, Contract
from twinproof.nouns.robot import Observation, Picture, Start
from twinproof.sim.render_camera import Named
from twinproof.sim.render_rays import Rays
from twinproof.sim.scene import Scene
from twinproof.tasks.task import TaskSpec

SIZE = (48, 36)  # width and height of the pictures
CAMERA = '<camera name="front" pos="0 -1.6 0.55" xyaxes="1 0 0 0 0 1" fovy="50"/>'
LOW_M, TALL_M = 0.55, 1.6 * np.tan(np.radians(25.0))  # where the camera stands, and half of what it sees at the links
CHANNEL = Channel("image.cam_high", "1", 0.0, 255.0, (SIZE[1], SIZE[0], 3))  # as the policy calls it


def filmed_text() -> str:
    """The pendulum's scene with a camera and a light."""
    light = '<light pos="0 -2 3" dir="0 0.6 -1" diffuse="1 1 1"/>'
    return bench("pendulum").robot_text().replace("<worldbody>", f"<worldbody>{CAMERA}{light}", 1)


class Filmed:
    """The practice pendulum with a camera of its own before it; its pictures show what its encoders say."""

    def __init__(self) -> None:
        self._robot = LabRobot("pendulum", 0, effects="off")
        self.joints, self.rate_hz, self.limits = self._robot.joints, self._robot.rate_hz, self._robot.limits
        self.watchdog, self.counts = self._robot.watchdog, self._robot.counts
        self._model = Scene(filmed_text()).nominal()
        self._rays = Rays(threads=1, shadow_samples=1)

    def reset(self, start: Start) -> Observation:
        return self._seen(self._robot.reset(start))

    def observe(self) -> Observation:
        return self._seen(self._robot.observe())

    def _seen(self, told: Observation) -> Observation:
        large = Named("front", 2 * SIZE[0], 2 * SIZE[1])
        shot = self._rays.render(self._model, told.position, large, ("rgb",)).rgb
        return replace(told, images={"front": Picture(told.stamp_s, shot)})

    def act(self, command: np.ndarray) -> None:
        self._robot.act(command)

    def close(self) -> None:
        self._robot.close()


def elbow_link_px(joints: np.ndarray) -> tuple[int, int]:
    """The row and column where the middle of the orange link is seen, by the geometry of camera and arm."""
    first, both = joints[0], joints.sum()
    x = 0.3 * np.sin(first) + 0.11 * np.sin(both)  # the joints turn about -y: x to the right
    z = 0.85 - 0.3 * np.cos(first) - 0.11 * np.cos(both)
    away = (1.6 - 0.09) / 1.6  # the link hangs before the axis, nearer to the camera
    half = SIZE[1] / 2
    return round(half - 0.5 - (z - LOW_M) / (TALL_M * away) * half), round(
        SIZE[0] / 2 - 0.5 + x / (TALL_M * away) * half
    )


def orange_at(picture: np.ndarray, joints: np.ndarray) -> bool:
    """Whether the orange link is seen where the joints say that it is."""
    row, column = elbow_link_px(joints)
    patch = picture[max(0, row - 2) : row + 3, max(0, column - 2) : column + 3].reshape(-1, 3).astype(int)
    return bool(((patch[:, 0] > patch[:, 2] + 15) & (patch[:, 0] > patch[:, 1] + 10)).any())


def wanted(joints: np.ndarray, velocity: np.ndarray, to_goal: np.ndarray) -> np.ndarray:
    """Torques of a spring to the goal that also holds the links up."""
    first, both = joints[0], joints.sum()
    lower = 9.81 * 0.46 * 0.16 * np.sin(both)
    upper = 9.81 * (0.62 * 0.17 + 0.46 * 0.30) * np.sin(first) + lower
    return 0.4 * (np.array([12.0, 4.0]) * to_goal - np.array([1.2, 0.35]) * velocity) + np.array([upper, lower])


def contract_of(task: TaskSpec, chunk: int = 1, picture: Channel = CHANNEL) -> Contract:
    """What a policy sees that looks at a picture and at three rows of numbers."""
    named = {channel.name: channel for channel in task.deployable.observations}
    seen = (picture, *(named[name] for name in ("joint_position", "joint_velocity", "to_goal")))
    return replace(task.deployable, observations=seen, chunk=chunk)


def looked(seen: Mapping[str, np.ndarray]) -> np.ndarray:
    """Actions (N, 2) of the same policy in Python: nothing, where the picture does not show what the joints say."""
    rows = zip(seen[CHANNEL.name], seen["joint_position"], seen["joint_velocity"], seen["to_goal"], strict=True)
    return np.array([wanted(q, v, off) if orange_at(picture, q) else np.zeros(2) for picture, q, v, off in rows])
