"""Units that cannot be: a robot's model in millimetres, joint angles in degrees. Found before anything is fitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.nouns.errors import RecordingError, TwinError
from twinproof.reconstruct.robot_frames import joint_angles

if TYPE_CHECKING:
    from twinproof.nouns.parts import Calibration
    from twinproof.reconstruct.robot_fit import Robot

SIZES_M = (0.02, 20.0)  # of a robot from end to end, as its model stands
TURNS_RAD = 4 * np.pi  # farther than this from 0 an arm's hinge does not turn


def check_units(robot: Robot, calibration: Calibration) -> None:
    """Refuses a robot that is no robot's size, and hinges that turn as far as degrees would have them."""
    poses, splats = robot.poses.at_rest(), robot.fine.splats
    places = np.einsum("nij,nj->ni", poses[splats.group, :3, :3], splats.means) + poses[splats.group, :3, 3]
    size = float(np.ptp(places, axis=0).max())
    if not SIZES_M[0] < size < SIZES_M[1]:
        raise TwinError(
            f"the robot's model is {size:.3g} m from end to end; robots are {SIZES_M[0]:g} to {SIZES_M[1]:g} m. Is it "
            "in millimetres? MJCF and URDF are in metres: scale its meshes (scale='0.001 0.001 0.001') and its places."
        )
    rig: Any = calibration.recording.rig
    for episode in calibration.recording.episodes:
        angles = joint_angles(episode.fresh(), rig).value
        far = {j: float(np.abs(angles[:, j]).max()) for j in robot.sought}
        worst = max(far, key=lambda j: far[j], default=None)
        if worst is not None and far[worst] > TURNS_RAD:
            raise RecordingError(
                f"episode {episode.id[:8]}: joint {rig.joint_names[worst]} is at {far[worst]:.1f} rad, which is "
                f"{far[worst] / (2 * np.pi):.0f} turns. Is it in degrees? State the unit of its signal in rig.toml "
                "(unit = 'deg') and ingest again."
            )
