"""What one camera sees at one time, made ready for following an object: picture, background, what hides it.

level 0 is the picture itself, each further level has half its size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import SplatError
from twinproof.sim.render_camera import Camera, Lens

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

    from twinproof.nouns.splats import Splats

DARK = 0.08  # plate pixels below this tell nothing of an exposure
HIDES_M = 0.004  # a robot that is nearer by this hides the object


@dataclass(frozen=True, eq=False)
class Sight:
    """One picture, 0 … 1, with what is behind the object and where the object cannot be judged.

    colour     the picture; None where only a mask is known
    plate      the same view without the object, in the plates' exposure; None where only a mask is known
    hidden     pixels that are not looked at: the robot is there, or nothing is known of the background
    robot_m    depth of the robot, 0 where it is not; a pixel counts again where the object is in front of it
    mask       where the object was found, for following by its outline alone
    lead_s     time of the picture after the time of the pose
    """

    camera: Camera
    colour: Float[np.ndarray, "H W 3"] | None
    plate: Float[np.ndarray, "H W 3"] | None
    hidden: Bool[np.ndarray, "H W"]
    robot_m: Float[np.ndarray, "H W"] | None = None
    mask: Bool[np.ndarray, "H W"] | None = None
    gain: Float[np.ndarray, "3"] | None = None
    lead_s: float = 0.0

    @property
    def channels(self) -> int:
        """Numbers compared at each pixel: three colours, or one share of cover."""
        return 1 if self.colour is None else 3

    def half(self) -> Sight:
        """The same at half the size."""
        lens = self.camera.lens
        width, height = lens.width // 2, lens.height // 2
        small = Lens(
            width, height, lens.fx / 2, lens.fy / 2, (lens.cx + 0.5) / 2 - 0.5, (lens.cy + 0.5) / 2 - 0.5,
            lens.distortion,
        )  # fmt: skip
        return replace(
            self,
            camera=Camera(small, self.camera.T_world_camera),
            colour=None if self.colour is None else _mean(self.colour, height, width),
            plate=None if self.plate is None else _mean(self.plate, height, width),
            hidden=np.asarray(_cells(self.hidden, height, width).any(axis=(1, 3))),
            robot_m=None if self.robot_m is None else _cells(self.robot_m, height, width).max(axis=(1, 3)),
            mask=None if self.mask is None else _mean(self.mask.astype(np.float32), height, width) >= 0.5,
        )

    def exposed(self, apart: Bool[np.ndarray, "H W"] | None = None) -> Sight:
        """The same with its gain against the plate: the median ratio of pixels that neither is hidden nor `apart`."""
        if self.colour is None or self.plate is None:
            return self
        open_ = ~self.hidden if apart is None else ~(self.hidden | apart)
        some = open_ & (self.plate > DARK).all(axis=-1)
        if some.sum() < 50:
            return replace(self, gain=np.ones(3, np.float32))
        ratio = self.colour[some] / self.plate[some]
        return replace(self, gain=np.median(ratio, axis=0).astype(np.float32))

    def crop(self, box: Int[np.ndarray, "4"]) -> Camera:
        """The camera of a part of the picture: first column and row, and those behind the last."""
        left, top, right, bottom = (int(v) for v in box)
        lens = self.camera.lens
        part = replace(lens, width=right - left, height=bottom - top, cx=lens.cx - left, cy=lens.cy - top)
        return Camera(part, self.camera.T_world_camera)

    def box_of(self, points: Float[np.ndarray, "N 3"], margin_px: float) -> Int[np.ndarray, "4"] | None:
        """The part of the picture in which points of the world fall, with a margin; None where it sees none."""
        pixels, depth = projected(points, self.camera)
        ahead = depth > 0.02
        if not ahead.any():
            return None
        lens = self.camera.lens
        low = np.floor(pixels[ahead].min(axis=0) - margin_px).astype(int)
        high = np.ceil(pixels[ahead].max(axis=0) + margin_px).astype(int) + 1
        low, high = np.maximum(low, 0), np.minimum(high, (lens.width, lens.height))
        if (high - low < 3).any():
            return None
        return np.array([*low, *high])


def projected(
    points: Float[np.ndarray, "N 3"], camera: Camera
) -> tuple[Float[np.ndarray, "N 2"], Float[np.ndarray, "N"]]:
    """Pixels (column, row) and depths of points of the world; distortion is left out: it places boxes only."""
    pose = camera.T_world_camera
    at = (np.asarray(points) - pose[:3, 3]) @ pose[:3, :3]
    depth = at[:, 2]
    safe = np.maximum(depth, 1e-6)
    lens = camera.lens
    pixels = np.stack([lens.fx * at[:, 0] / safe + lens.cx, lens.fy * at[:, 1] / safe + lens.cy], axis=-1)
    return pixels, depth


def pyramid(sight: Sight, levels: int) -> list[Sight]:
    """The sight and so many smaller ones."""
    made = [sight]
    for _ in range(levels):
        if min(made[-1].camera.lens.width, made[-1].camera.lens.height) < 32:
            break
        made.append(made[-1].half())
    return made


def sight(
    camera: Camera,
    picture: np.ndarray | None,
    plate: np.ndarray | None,
    robot: np.ndarray | None = None,
    mask: np.ndarray | None = None,
    lead_s: float = 0.0,
) -> Sight:
    """A picture (uint8 or 0 … 1) made ready. `robot`: a bool mask, or its depth in m (0 where it is not).

    Plate pixels that are not finite are unknown, and left out.
    """
    shape = (camera.lens.height, camera.lens.width)
    if picture is None and mask is None:
        raise SplatError("a camera that follows an object was given neither a picture nor a mask. Give one of them.")
    if picture is not None and plate is None:
        raise SplatError("a picture without a plate tells no object from its background. Give a plate, or masks.")
    for name, plane, needed in (
        ("picture", picture, (*shape, 3)),
        ("plate", plate, (*shape, 3)),
        ("robot", robot, shape),
        ("mask", mask, shape),
    ):
        if plane is not None and np.shape(plane) != needed:
            raise SplatError(f"the {name} has the shape {np.shape(plane)}; the camera's lens needs {needed}.")
    hidden, robot_m = np.zeros(shape, bool), None
    if robot is not None:
        there = np.asarray(robot)
        hidden = there > 0
        robot_m = None if there.dtype == bool else there.astype(np.float32)
    colour = background = None
    if picture is not None:
        colour, background = _unit(picture), _unit(plate)
        known = np.isfinite(background).all(axis=-1)
        hidden = hidden | ~known
        background = np.where(known[..., None], background, np.float32(0))
    found = None if mask is None or picture is not None else np.asarray(mask, bool)
    return Sight(camera, colour, background, hidden, robot_m, found, None, lead_s)


def _unit(picture: np.ndarray | None) -> np.ndarray:
    values = np.asarray(picture)
    return values.astype(np.float32) / np.float32(255 if values.dtype == np.uint8 else 1)


def _cells(plane: np.ndarray, height: int, width: int) -> np.ndarray:
    return plane[: 2 * height, : 2 * width].reshape(height, 2, width, 2, *plane.shape[2:])


def _mean(plane: np.ndarray, height: int, width: int) -> np.ndarray:
    mean: np.ndarray = _cells(plane, height, width).mean(axis=(1, 3), dtype=np.float32)
    return mean


def plate_of(pictures: Sequence[np.ndarray], apart: Sequence[np.ndarray]) -> Float[np.ndarray, "H W 3"]:
    """The median picture of a camera that stands still, 0 … 1, over the pixels that are not `apart` (robot, objects).

    Each picture's exposure is first brought to the first one's. NaN where nothing but what is apart was ever seen.
    """
    stack = np.stack([_unit(picture) for picture in pictures])
    seen = ~np.stack([np.asarray(each, bool) for each in apart])
    base = stack[0]
    for k in range(1, len(stack)):
        both = seen[0] & seen[k] & (base > DARK).all(axis=-1)
        if both.sum() >= 50:
            stack[k] /= np.maximum(np.median(stack[k][both] / base[both], axis=0), 0.05)
    stack[~seen] = np.nan
    plate = np.full(base.shape, np.nan, np.float32)
    some = seen.any(axis=0)
    plate[some] = np.nanmedian(stack[:, some], axis=0)
    return plate


def background_plate(splats: Splats, camera: Camera, threads: int = 1) -> Float[np.ndarray, "H W 3"]:
    """What a camera would see of background splats; NaN where they do not cover."""
    from twinproof.sim.splat.render import Device, render

    drawn = render(splats, camera, Device(threads=threads))
    plate: np.ndarray = np.clip(drawn.colour, 0, 1).astype(np.float32)
    plate[drawn.alpha < 0.9] = np.nan
    return plate
