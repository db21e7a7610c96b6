"""Where an object is, told from a robot's pictures while it runs: the twin's splats followed by the streaming tracker.

pictures (stamps of their own clocks) ─┐
joint angles at that time ─ robot drawn ┴─> sights ─> Tracker ─> pose of the body, late by what pictures take
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.nouns.errors import RobotError, TwinError
from twinproof.nouns.rig import Rig
from twinproof.nouns.robot import Observation
from twinproof.nouns.splat_files import read_ply
from twinproof.nouns.twin import Twin
from twinproof.sim.render_camera import Camera, Lens
from twinproof.sim.render_rays import Rays
from twinproof.sim.scene import Scene
from twinproof.sim.splat.placed import placed
from twinproof.sim.track import Following, Rest, Tracker
from twinproof.sim.track_pose import Pose
from twinproof.sim.track_sight import Sight, background_plate, sight
from twinproof.sim.world import World
from twinproof.tasks.machine import joint_places
from twinproof.tasks.task import Setup

if TYPE_CHECKING:
    from jaxtyping import Float

MEMORY_S = 0.5  # joint angles that are kept, to know where the robot was when a picture was taken
LOST_S = 1.0  # an object that was last seen longer ago is not known any more


@dataclass(frozen=True)
class Looked:
    """What the tracker said of one picture time."""

    time_s: float  # on the robot's clock
    pose: Pose


class TwinSight:
    """Follows one body of a twin in the pictures of its still cameras. Poses are of the body's frame, in the world."""

    def __init__(
        self, twin: Twin, body: str, joints: Sequence[str], offset_s: Mapping[str, float] | None = None
    ) -> None:
        """`offset_s`: robot time minus a camera's stamps, where they are known."""
        thing = twin.body(body)
        if thing.splats is None:
            raise TwinError(
                f"the body {body!r} has no splats, so it cannot be followed in pictures ({thing.lacks.get('splats')}). "
                "Reconstruct it from pictures, or give a sight of your own."
            )
        self.body, self._joints, self._offset_s = body, tuple(joints), dict(offset_s or {})
        scene = Scene.of(twin)
        world = World(scene)
        self._model: Any = scene.nominal()
        stood = world.body_pose(body)
        splats = read_ply(twin.path("splats.ply"))
        first, count = thing.splats
        self._tracker = Tracker(
            placed(splats.take(np.arange(first, first + count)), np.linalg.inv(stood)), Following(rest=Rest(stood))
        )
        self.cameras = _still(twin)
        keep = np.ones(len(splats), bool)
        for each in twin.bodies:
            if each.splats and (each.layer == "robot" or each.name == body):
                keep[each.splats[0] : each.splats[0] + each.splats[1]] = False
        if not keep.any():
            raise TwinError("the twin has no background in splats, and nothing tells an object from what is behind it.")
        behind = splats.take(keep)
        self._plates = {name: background_plate(behind, camera) for name, camera in self.cameras.items()}
        mine = {each.name for each in twin.bodies if each.layer == "robot"}
        self._robot = np.array([self._model.body(k).name in mine for k in range(self._model.nbody)])
        self._at = joint_places(self._model, self._joints)[0]
        self._shift = np.array([twin.start.get(f"joint.{name}.offset", 0.0) for name in self._joints])
        self._qpos = np.array(world.qpos)
        self._stood = stood
        self._forget()

    def begin(self, seen: Observation, setup: Setup) -> None:
        """A new episode: the object stands where it was put, or, where nobody says, anywhere."""
        self._forget()
        if setup.at_m is not None:
            turn = np.eye(4)
            c, s = np.cos(setup.yaw_rad), np.sin(setup.yaw_rad)
            turn[:2, :2] = [[c, -s], [s, c]]
            expected = turn @ self._stood
            expected[:3, 3] = [*setup.at_m, self._stood[2, 3]]
            self._tracker.restart(expected, seen.stamp_s)

    def _forget(self) -> None:
        self._tracker.restart()
        self._angles: deque[tuple[float, np.ndarray]] = deque()
        self._stamps: dict[str, float] = {}
        self.last: Looked | None = None

    def look(self, seen: Observation) -> Mapping[str, Float[np.ndarray, "7"]]:
        """The newest pose; nothing where the object was lost for long. Pictures that were seen before cost nothing."""
        self._angles.append((seen.stamp_s, np.array(seen.position)))
        while self._angles[-1][0] - self._angles[0][0] > MEMORY_S:
            self._angles.popleft()
        unknown = sorted(set(self.cameras) - set(seen.images))
        if len(unknown) == len(self.cameras):
            raise RobotError(
                f"the robot shows none of the twin's still cameras ({', '.join(unknown)}); it shows "
                f"{', '.join(seen.images) or 'none'}. Switch one of them on."
            )
        new = {n: p for n, p in seen.images.items() if n in self.cameras and self._stamps.get(n) != p.stamp_s}
        if new:
            self._stamps |= {name: picture.stamp_s for name, picture in new.items()}
            taken = {name: picture.stamp_s + self._offset_s.get(name, 0.0) for name, picture in new.items()}
            now = max(taken.values())
            sights = [self._sight(name, picture.rgb, taken[name], now) for name, picture in new.items()]
            pose = self._tracker.step(sights, now)
            if not pose.lost:
                self.last = Looked(now, pose)
        if self.last is None or seen.stamp_s - self.last.time_s > LOST_S:
            return {}
        return {self.body: seven(self.last.pose.T_world_object)}

    def _sight(self, name: str, rgb: np.ndarray, taken_s: float, now_s: float) -> Sight:
        camera = self.cameras[name]
        return sight(camera, rgb, self._plates[name], self._drawn(camera, taken_s), lead_s=taken_s - now_s)

    def _drawn(self, camera: Camera, time_s: float) -> Float[np.ndarray, "H W"]:
        """Depth of the robot, zero where it is not, as its joints were when the picture was taken."""
        times = np.array([t for t, _ in self._angles])
        angles = np.stack([q for _, q in self._angles])
        self._qpos[self._at] = [np.interp(time_s, times, column) for column in angles.T] - self._shift
        drawn = Rays(threads=1, edge_samples=1, shadow_samples=1).render(
            self._model, self._qpos, camera, ("depth", "segmentation")
        )
        assert drawn.depth_m is not None
        assert drawn.body is not None
        there = (drawn.body >= 0) & self._robot[np.maximum(drawn.body, 0)]
        return np.where(there, drawn.depth_m, 0.0)


def _still(twin: Twin) -> dict[str, Camera]:
    """The twin's cameras that stand in the world."""
    found = {}
    for name, camera in twin.cameras.items():
        if camera.mount.parent == "world":
            k = camera.intrinsics
            lens = Lens(camera.width, camera.height, k.fx, k.fy, k.cx, k.cy, k.distortion)
            found[name] = Camera(lens, camera.mount.T_parent_camera)
    if not found:
        raise TwinError("the twin has no camera that stands in the world, so nothing can be followed by it.")
    return found


def seven(T_world_body: Float[np.ndarray, "4 4"]) -> Float[np.ndarray, "7"]:
    """Position and quaternion wxyz of a pose."""
    from scipy.spatial.transform import Rotation

    x, y, z, w = Rotation.from_matrix(T_world_body[:3, :3]).as_quat(canonical=True)
    return np.array([*T_world_body[:3, 3], w, x, y, z])


def clock_offsets(twin: Twin, rig: Rig) -> dict[str, float]:
    """Robot time minus each camera's stamps: what the rig states, and what reconstruction found beyond it."""
    calibration: Any = twin.audits.get("calibration") or {}
    found: Any = calibration.get("cameras", {})
    return {
        name: camera.clock_offset_s + float(found.get(name, {}).get("clock_offset_s", 0.0))
        for name, camera in rig.cameras.items()
    }
