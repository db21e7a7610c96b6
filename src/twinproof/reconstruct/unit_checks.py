"""Units that cannot be: a robot's model in millimetres, joint angles in degrees. Found before anything is fitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.nouns.errors import RecordingError, TwinError
from twinproof.reconstruct.robot_frames import Angles, joint_angles

if TYPE_CHECKING:
    from twinproof.nouns.parts import Calibration
    from twinproof.reconstruct.robot_fit import Robot

SIZES_M = (0.02, 20.0)  # of a robot from end to end, as its model stands
BEYOND, SLACK_RAD = 1.5, 0.1  # a hinge goes so many times as far as its stops, and a little, only in another unit
TURNS_RAD = 4 * np.pi  # who turns less far than this is not asked how fast
FAST_RADPS, OFTEN = 12.0, 0.95  # of a hinge without stops: faster than this, for one time in twenty, no arm turns


def check_units(robot: Robot, calibration: Calibration) -> None:
    """Refuses a robot that is no robot's size, and hinges that turn as far or as fast as degrees would have them."""
    poses, splats = robot.poses.at_rest(), robot.fine.splats
    places = np.einsum("nij,nj->ni", poses[splats.group, :3, :3], splats.means) + poses[splats.group, :3, 3]
    size = float(np.ptp(places, axis=0).max())
    if not SIZES_M[0] < size < SIZES_M[1]:
        raise TwinError(
            f"the robot's model is {size:.3g} m from end to end; robots are {SIZES_M[0]:g} to {SIZES_M[1]:g} m. Is it "
            "in millimetres? MJCF and URDF are in metres: scale its meshes (scale='0.001 0.001 0.001') and its places."
        )
    for episode in calibration.recording.episodes:
        angles = joint_angles(episode.fresh(), calibration.recording.rig)
        for joint in robot.sought:
            _check_turns(robot, episode.id, calibration.recording.rig.joint_names[joint], angles, joint)


def _check_turns(robot: Robot, episode: str, name: str, angles: Angles, joint: int) -> None:
    """A hinge with stops does not go far beyond them; one without may turn for ever, but not at any speed."""
    model: Any = robot.poses.model
    value, hinge = angles.value[:, joint], model.joint(name)
    far = float(np.abs(value).max())
    if model.jnt_limited[hinge.id]:
        room = float(np.abs(hinge.range).max())
        if far > BEYOND * room + SLACK_RAD:
            raise RecordingError(
                f"episode {episode[:8]}: joint {name} is at {far:.1f} rad, and its model stops it at {room:.2f} rad. "
                "Is it in degrees? State the unit of its signal in rig.toml (unit = 'deg') and ingest again."
            )
    elif far > TURNS_RAD and len(value) > 1:
        fast = float(np.quantile(np.abs(np.diff(value) / np.diff(angles.time_s)), OFTEN))
        if fast > FAST_RADPS:
            raise RecordingError(
                f"episode {episode[:8]}: joint {name} goes to {far:.1f} rad, {far / (2 * np.pi):.0f} turns, at up to "
                f"{fast:.0f} rad/s; arms turn at {FAST_RADPS:g} rad/s at most. Is it in degrees? State the unit of its "
                "signal in rig.toml (unit = 'deg') and ingest again."
            )
