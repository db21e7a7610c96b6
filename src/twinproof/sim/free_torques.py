"""What the joints of a robot bear in free air, moved as it was recorded: inverse dynamics of its model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np

from twinproof.nouns.errors import SimError
from twinproof.sim.divergence import quiet
from twinproof.sim.free_air import free_air
from twinproof.sim.handled import coupled

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

    from twinproof.sim.scene import Scene

NEAR_S = 0.05  # speed and acceleration are of a parabola through the samples this near
FEWEST = 7  # samples of a parabola


@dataclass(frozen=True, eq=False)
class FreeTorques:
    """Torque (N m, or N) of each joint at each time, and its speed. What is `tied` to other joints bears theirs too."""

    torque: Float[np.ndarray, "T J"]
    speed: Float[np.ndarray, "T J"]
    tied: Bool[np.ndarray, "J"]


def free_torques(
    scene: Scene, joints: Sequence[str], time_s: Float[np.ndarray, "T"], angle: Float[np.ndarray, "T J"]
) -> FreeTorques:
    """By the robot's model alone: nothing that moves freely is there, and nothing touches."""
    from scipy.signal import savgol_filter

    model: Any = free_air(scene).nominal()
    places = [mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, name) for name in joints]
    if min(places) < 0:
        raise SimError(f"the scene has no joint {joints[int(np.argmin(places))]!r}. Use the scene's names.")
    step_s = float(np.median(np.diff(time_s)))
    grid = np.arange(time_s[0], time_s[-1] + step_s / 2, step_s)
    width = max(FEWEST, 2 * round(NEAR_S / step_s) + 1)
    if len(grid) < width:
        raise SimError(f"{len(grid)} samples of the joints are too few to tell how they speed up; {width} are needed.")
    even = np.stack([np.interp(grid, time_s, column) for column in angle.T], axis=1)
    q, v, a = (savgol_filter(even, width, 2, deriv=k, delta=step_s, axis=0) for k in (0, 1, 2))
    data: Any = mujoco.MjData(model)
    found = np.empty_like(q)
    ties = [[(k, 1.0, 0.0), *coupled(model, k)] for k in places]
    dofs = [int(model.jnt_dofadr[k]) for k in places]
    with quiet():
        for row in range(len(grid)):
            for j, tie in enumerate(ties):
                for k, factor, shift in tie:
                    data.qpos[model.jnt_qposadr[k]] = q[row, j] * factor + shift
                    data.qvel[model.jnt_dofadr[k]], data.qacc[model.jnt_dofadr[k]] = (
                        v[row, j] * factor,
                        a[row, j] * factor,
                    )
            mujoco.mj_inverse(model, data)
            found[row] = data.qfrc_inverse[dofs]
    torque, speed = (np.stack([np.interp(time_s, grid, column) for column in each.T], axis=1) for each in (found, v))
    return FreeTorques(torque, speed, np.array([len(tie) > 1 for tie in ties]))
