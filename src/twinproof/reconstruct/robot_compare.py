"""What is compared when the robot is drawn over a picture: where it is (far from the answer) or how it looks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.reconstruct.robot_frames import RobotFrames, averaged
from twinproof.reconstruct.robot_slopes import slopes_of
from twinproof.sim.splat.render import SplatImage

if TYPE_CHECKING:
    from jaxtyping import Float

SHADOW = (0.45, 1.1)  # a shadow leaves so much of the light
NEAR, FAR = 0.04, 0.09  # colours closer to the plate than this are the plate's, those farther are not
KNOWN = 0.9  # trust in the plate below which nothing tells the robot from what is behind it


@dataclass(frozen=True, eq=False)
class Compared:
    """A picture with the robot drawn into it, cut to where it is: drawn, wanted, trust in each pixel.

    `slopes` (along x and y) are of what moves: less by them along its way is what a pixel becomes.
    """

    drawn: Float[np.ndarray, "H W C"]
    wanted: Float[np.ndarray, "H W C"]
    trust: Float[np.ndarray, "H W"]
    slopes: Float[np.ndarray, "H W C 2"]


@dataclass(frozen=True)
class Outlines:
    """Where the robot is drawn against where the picture is not the plate: no colour is needed."""

    def over(self, image: SplatImage, frames: RobotFrames, k: int, cut: Cut) -> Compared:
        """Of picture k."""
        known = cut.of(frames.trust)
        wanted = cut.of(foreground(frames.rgb[k], frames.plate))[..., None]
        drawn = cut.inside(image.alpha)[..., None]
        return Compared(drawn, wanted, known * (known > KNOWN), slopes_of(drawn))


@dataclass(frozen=True)
class Colours:
    """The robot in its learnt colours over the plate against the picture."""

    def over(self, image: SplatImage, frames: RobotFrames, k: int, cut: Cut) -> Compared:
        """Of picture k; the plate behind stays where it is."""
        plate, alpha = cut.of(frames.plate), cut.inside(image.alpha)[..., None]
        layer = cut.inside(image.colour)
        moving = slopes_of(layer) - slopes_of(alpha) * plate[..., None]
        drawn = layer + (1 - alpha) * plate
        return Compared(drawn, cut.of(frames.rgb[k]), np.maximum(cut.of(frames.trust), alpha[..., 0]), moving)


@dataclass(frozen=True)
class Cut:
    """The part of a picture, averaged over blocks, that shows the robot."""

    block: int
    rows: slice
    cols: slice

    def of(self, picture: np.ndarray) -> np.ndarray:
        """Of a whole picture."""
        return np.asarray(averaged(picture, self.block)[self.rows, self.cols])

    def inside(self, small: np.ndarray) -> np.ndarray:
        """Of one that is averaged already."""
        return np.asarray(small[self.rows, self.cols])


def foreground(rgb: np.ndarray, plate: np.ndarray) -> Float[np.ndarray, "H W"]:
    """How sure it is, 0 … 1, that a pixel shows something else than the plate, or the plate in shadow."""
    shade = np.clip((rgb * plate).sum(axis=2) / np.maximum((plate * plate).sum(axis=2), 1e-4), *SHADOW)
    far = np.linalg.norm(rgb - shade[..., None] * plate, axis=2)
    share = np.clip((far - NEAR) / (FAR - NEAR), 0, 1)
    return np.asarray(share * share * (3 - 2 * share), np.float32)
