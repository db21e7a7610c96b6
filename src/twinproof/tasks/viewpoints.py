"""Cameras as Thetas have them: how far each is off and what its lens does, as rows that worlds take on at a reset.

camera.X.x, .y, .z, .pitch, .yaw, .roll     T_usual_drawn, from where the camera stands to where a draw puts it
camera.X.fovy, or .fx, .fy, .cx, .cy        factors on the focal lengths, shifts of the middle in shares of the picture
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.nouns.theta import Theta
from twinproof.sim.instantiate import poke_worlds
from twinproof.sim.parameters.base import names
from twinproof.sim.render_camera import FLIP
from twinproof.tasks.sensed import Array

if TYPE_CHECKING:
    from jaxtyping import Float

USUAL = (1.0, 1.0, 0.0, 0.0)  # a lens that nothing changes


@dataclass(frozen=True, eq=False)
class Viewpoints:
    """The cameras of N worlds, off from where they stand; see the module."""

    T_usual_drawn: Array  # (N, C, 4, 4)
    lens: Array  # (N, C, 4)

    def of(self, camera: int, rows: np.ndarray) -> Viewpoints:
        """Those of one camera in some worlds, on the host."""
        one = slice(camera, camera + 1)
        return Viewpoints(np.asarray(self.T_usual_drawn)[rows, one], np.asarray(self.lens)[rows, one])


def viewpoints(model: Any, cameras: Sequence[str], thetas: Sequence[Theta]) -> Viewpoints:
    """One row for each Theta. A camera that the model lacks stands where it is."""
    here = [Theta({id: value for id, value in theta.items() if _camera(id) in cameras}) for theta in thetas]
    moved = np.tile(np.eye(4), (len(thetas), len(cameras), 1, 1))
    lens = np.tile(USUAL, (len(thetas), len(cameras), 1))
    if not any(here):
        return Viewpoints(moved, lens)
    drawn, known = poke_worlds(model, here), names(model, "camera")
    for k, name in enumerate(cameras):
        if name in known:
            i = known.index(name)
            usual = _poses(np.array(model.cam_pos[i])[None], np.array(model.cam_quat[i])[None])
            moved[:, k] = np.linalg.inv(usual) @ _poses(drawn["cam_pos"][:, i], drawn["cam_quat"][:, i])
            lens[:, k] = _lens(model, i, drawn["cam_fovy"][:, i], drawn["cam_intrinsic"][:, i])
    return Viewpoints(moved, lens)


def _camera(id: str) -> str:
    kind, _, rest = id.partition(".")
    return rest.rpartition(".")[0] if kind == "camera" else ""


def _poses(place: Float[np.ndarray, "K 3"], quat_wxyz: Float[np.ndarray, "K 4"]) -> Float[np.ndarray, "K 4 4"]:
    """T_body_camera, with our axes."""
    from scipy.spatial.transform import Rotation

    found = np.tile(np.eye(4), (len(place), 1, 1))
    found[:, :3, :3] = Rotation.from_quat(np.roll(quat_wxyz, -1, axis=1)).as_matrix() @ FLIP
    found[:, :3, 3] = place
    return found


def _lens(model: Any, i: int, fovy_deg: np.ndarray, intrinsic: np.ndarray) -> Float[np.ndarray, "K 4"]:
    """What changes in a camera's lens."""
    sensor, usual = np.array(model.cam_sensorsize[i], float), np.array(model.cam_intrinsic[i], float)
    found = np.tile(USUAL, (len(fovy_deg), 1))
    if sensor[1] == 0:
        wide, was = (np.tan(np.radians(view) / 2) for view in (fovy_deg, float(model.cam_fovy[i])))
        found[:, 0] = found[:, 1] = was / wide
    else:
        found[:, :2] = intrinsic[:, :2] / usual[:2]
        found[:, 2:] = (usual[2:] - intrinsic[:, 2:]) / sensor  # MuJoCo's principal point counts from the right
    return found
