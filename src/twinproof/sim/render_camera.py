"""A camera to render with: a lens (pinhole with OpenCV's distortion) and where it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from twinproof.nouns.errors import SimError

if TYPE_CHECKING:
    from jaxtyping import Float
    from mujoco import MjData, MjModel

COEFFICIENTS = (0, 4, 5, 8, 12)  # k1 k2 p1 p2 [k3 [k4 k5 k6 [s1 s2 s3 s4]]]
FLIP = np.diag([1.0, -1.0, -1.0])  # OpenGL cameras look along -z with y up; ours along +z with y down


@dataclass(frozen=True)
class Lens:
    """Pinhole in pixels as OpenCV counts them: the centre of the first pixel is (0, 0)."""

    width: int
    height: int
    fx: float
    fy: float
    cx: float
    cy: float
    distortion: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        numbers = (self.fx, self.fy, self.cx, self.cy, *self.distortion)
        if self.width < 1 or self.height < 1 or not np.isfinite(numbers).all() or min(self.fx, self.fy) <= 0:
            raise SimError(
                f"lens: {self.width} × {self.height} pixels with fx {self.fx}, fy {self.fy}, cx {self.cx}, cy {self.cy}"
                f" and distortion {self.distortion} cannot be. Sizes and focal lengths are positive, all is finite."
            )
        if len(self.distortion) not in COEFFICIENTS:
            raise SimError(
                f"lens: {len(self.distortion)} distortion coefficients; OpenCV's model has 4, 5, 8 or 12 "
                "(k1 k2 p1 p2 k3 k4 k5 k6 s1 s2 s3 s4). Fill up with zeros."
            )

    @classmethod
    def of_fovy(cls, width: int, height: int, fovy_deg: float) -> Lens:
        """The lens of a MuJoCo camera that is given by its vertical field of view."""
        f = 0.5 * height / np.tan(np.radians(fovy_deg) / 2)
        return cls(width, height, float(f), float(f), (width - 1) / 2, (height - 1) / 2)

    def changed(self, fx: float, fy: float, cx: float, cy: float) -> Lens:
        """The lens with its focal lengths times `fx` and `fy`, its middle shifted by shares of its width and height."""
        x, y = self.cx + cx * self.width, self.cy + cy * self.height
        return replace(self, fx=self.fx * fx, fy=self.fy * fy, cx=x, cy=y)

    @property
    def bent(self) -> bool:
        """Whether straight lines come out curved."""
        return any(self.distortion)


@dataclass(frozen=True, eq=False)
class Camera:
    """A lens at a pose: +z ahead, x right, y down."""

    lens: Lens
    T_world_camera: Float[np.ndarray, "4 4"]

    def __post_init__(self) -> None:
        pose = np.array(self.T_world_camera, float)
        turn = pose[:3, :3] if pose.shape == (4, 4) else np.zeros((3, 3))
        rigid = np.isfinite(pose).all() and np.allclose(turn @ turn.T, np.eye(3), atol=1e-6) and np.linalg.det(turn) > 0
        if not rigid or not np.allclose(pose[3], (0, 0, 0, 1), atol=1e-6):
            raise SimError(
                f"camera: T_world_camera of shape {pose.shape} is not a rigid pose. Needed is a 4 × 4 matrix whose "
                "upper left 3 × 3 block is a rotation, not a reflection, and whose last row is 0 0 0 1."
            )
        pose.setflags(write=False)
        object.__setattr__(self, "T_world_camera", pose)

    def at(self, model: MjModel, data: MjData) -> Camera:
        """Itself: a camera that is given by its pose does not follow the model."""
        return self


@dataclass(frozen=True)
class Named:
    """A camera of the model, by name; `lens` replaces what the model says about its picture."""

    name: str
    width: int = 320
    height: int = 240
    lens: Lens | None = None

    def at(self, model: MjModel, data: MjData) -> Camera:
        """Where it is now. The data's kinematics must be current."""
        import mujoco

        index = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_CAMERA, self.name)
        if index < 0:
            known = ", ".join(model.camera(k).name or f"(unnamed {k})" for k in range(model.ncam)) or "none"
            raise SimError(f"the model has no camera {self.name!r}. Its cameras: {known}.")
        if model.cam_projection[index] != mujoco.mjtProjection.mjPROJ_PERSPECTIVE:
            raise SimError(f"camera {self.name!r} is orthographic; only perspective cameras are rendered.")
        pose = np.eye(4)
        pose[:3, :3] = data.cam_xmat[index].reshape(3, 3) @ FLIP
        pose[:3, 3] = data.cam_xpos[index]
        return Camera(self.lens or _lens_of(model, index, self.width, self.height), pose)


@dataclass(frozen=True, eq=False)
class OnBody:
    """A lens on a body of the model, by the body's name; "world" stands still."""

    lens: Lens
    body: str
    T_body_camera: Float[np.ndarray, "4 4"]

    def at(self, model: MjModel, data: MjData) -> Camera:
        """Where it is now. The data's kinematics must be current."""
        import mujoco

        index = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, self.body)
        if index < 0:
            raise SimError(
                f"a camera is mounted on {self.body!r}, and the model has no such body. Name one of its own."
            )
        T_world_body = np.eye(4)
        T_world_body[:3, :3], T_world_body[:3, 3] = data.xmat[index].reshape(3, 3), data.xpos[index]
        return Camera(self.lens, T_world_body @ self.T_body_camera)


@dataclass(frozen=True, eq=False)
class Off:
    """A view that is a little off: moved in the camera's own frame, its lens changed as `Lens.changed` says."""

    view: View
    T_usual_drawn: Float[np.ndarray, "4 4"]
    lens: Float[np.ndarray, "4"]

    def at(self, model: MjModel, data: MjData) -> Camera:
        """Where it is now. The data's kinematics must be current."""
        usual = self.view.at(model, data)
        return Camera(usual.lens.changed(*map(float, self.lens)), usual.T_world_camera @ self.T_usual_drawn)


class View(Protocol):
    """What can say, for a state, where the camera is: Camera, Named, OnBody or Off."""

    def at(self, model: MjModel, data: MjData) -> Camera:
        """The camera in that state."""


def _lens_of(model: MjModel, index: int, width: int, height: int) -> Lens:
    """What the model says: a vertical field of view, or focal length and principal point on a sensor."""
    sensor, (fx, fy, px, py) = model.cam_sensorsize[index], model.cam_intrinsic[index]
    if sensor[1] == 0:
        return Lens.of_fovy(width, height, float(model.cam_fovy[index]))
    per_x, per_y = width / float(sensor[0]), height / float(sensor[1])
    return Lens(
        width, height, float(fx) * per_x, float(fy) * per_y,
        (width - 1) / 2 - float(px) * per_x, (height - 1) / 2 - float(py) * per_y,
    )  # fmt: skip


@lru_cache(maxsize=32)
def pixel_rays(lens: Lens) -> Float[np.ndarray, "H W 2"]:
    """For every pixel the (x, y) of its ray (x, y, 1) in camera coordinates, distortion undone to 1e-12."""
    col, row = np.meshgrid(np.arange(lens.width, dtype=float), np.arange(lens.height, dtype=float))
    seen = np.stack([(col - lens.cx) / lens.fx, (row - lens.cy) / lens.fy], axis=-1)
    rays = _undistort(seen, lens) if lens.bent else seen
    rays.setflags(write=False)
    return rays


def distort(xy: Float[np.ndarray, "... 2"], distortion: tuple[float, ...]) -> Float[np.ndarray, "... 2"]:
    """Where OpenCV's model puts the ray (x, y, 1), in units of the focal length."""
    k = np.zeros(12)
    k[: len(distortion)] = distortion
    x, y = xy[..., 0], xy[..., 1]
    r2 = x * x + y * y
    radial = (1 + r2 * (k[0] + r2 * (k[1] + r2 * k[4]))) / (1 + r2 * (k[5] + r2 * (k[6] + r2 * k[7])))
    return np.stack(
        [
            x * radial + 2 * k[2] * x * y + k[3] * (r2 + 2 * x * x) + r2 * (k[8] + r2 * k[9]),
            y * radial + k[2] * (r2 + 2 * y * y) + 2 * k[3] * x * y + r2 * (k[10] + r2 * k[11]),
        ],
        axis=-1,
    )


def _undistort(seen: Any, lens: Lens) -> Any:
    """Newton's method on every pixel at once, with numerical derivatives."""
    xy, step = seen.copy(), 1e-7
    for _ in range(50):
        miss = distort(xy, lens.distortion) - seen
        if np.abs(miss).max() < 1e-12:
            return xy
        along_x, along_y = (
            (distort(xy + h, lens.distortion) - distort(xy - h, lens.distortion)) / (2 * step) for h in step * np.eye(2)
        )
        det = along_x[..., 0] * along_y[..., 1] - along_x[..., 1] * along_y[..., 0]
        if not (det > 1e-6).all():
            break
        step_x = (along_y[..., 1] * miss[..., 0] - along_y[..., 0] * miss[..., 1]) / det
        step_y = (along_x[..., 0] * miss[..., 1] - along_x[..., 1] * miss[..., 0]) / det
        xy -= np.clip(np.stack([step_x, step_y], axis=-1), -0.5, 0.5)
    raise SimError(
        f"lens: the distortion {lens.distortion} folds the picture over within {lens.width} × {lens.height} pixels, so "
        "some pixels have no single ray. Calibrate again with fewer coefficients, or crop the picture."
    )
