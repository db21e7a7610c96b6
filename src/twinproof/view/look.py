"""What is shown of a twin, as plain data: links, coloured surfaces, collision parts, splats, cameras.

view simulates nothing and compiles nothing: whoever calls it (the command) reads these from the scene.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.baked import Baked
from twinproof.nouns.errors import TwinError
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.randomness import stream
from twinproof.nouns.splats import SH0, Splats

if TYPE_CHECKING:
    from jaxtyping import Float

HALF_TURN = np.sqrt(0.5)


@dataclass(frozen=True, eq=False)
class Piece:
    """A surface that moves with a link, in the link's frame; colours of its own, or a texture, or plain grey."""

    name: str
    link: str
    shape: Mesh | Baked

    @property
    def mesh(self) -> Mesh:
        """Its triangles."""
        return self.shape.mesh if isinstance(self.shape, Baked) else self.shape


@dataclass(frozen=True, eq=False)
class Eye:
    """A camera: where it rides (+z ahead, y down), and what it sees."""

    name: str
    link: str
    T_link_camera: Float[np.ndarray, "4 4"]
    height_rad: float  # angle between the upper and the lower edge
    aspect: float  # width through height


@dataclass(frozen=True, eq=False)
class Look:
    """A twin to be shown. The first link is the world; splats and surfaces are in their links' frames."""

    title: str
    links: tuple[str, ...]
    T_world_links: Float[np.ndarray, "L 4 4"]  # at rest
    pieces: tuple[Piece, ...] = ()
    collision: tuple[Piece, ...] = ()
    gaps: tuple[Piece, ...] = ()  # visual meshes, coloured by their distance to the collision parts
    gap_m: float = 0.0  # the distance that has the last colour
    splats: Mapping[str, Splats] = field(default_factory=dict)
    eyes: tuple[Eye, ...] = ()
    moving: tuple[str, ...] = ()  # links that can move against the world: these have ghosts
    free: tuple[str, ...] = ()  # links that float: a hand may take them
    notes: tuple[str, ...] = ()  # what is not shown as it is, in sentences

    def __post_init__(self) -> None:
        if not self.links or self.T_world_links.shape != (len(self.links), 4, 4):
            raise TwinError(
                f"{self.title}: {len(self.links)} links have poses of the shape {self.T_world_links.shape}; needed is "
                "one 4 × 4 matrix for each, and one link at least."
            )
        named = [part.link for parts in (self.pieces, self.collision, self.gaps, self.eyes) for part in parts]
        for link in (*named, *self.splats, *self.moving, *self.free):
            if link not in self.links:
                raise TwinError(f"{self.title}: something hangs on the link {link!r}, which the scene does not have.")

    @property
    def splat_count(self) -> int:
        """How many splats there are on all links."""
        return sum(len(each) for each in self.splats.values())

    def thinned(self, most: int) -> Look:
        """The same with at most so many splats.

        Those that stay are drawn by lot, and widened so that together they cover the area that all did.
        """
        count = self.splat_count
        if count <= most:
            return self
        share = most / count
        kept = {link: _thin(each, share, link) for link, each in self.splats.items()}
        note = f"{most} of {count} splats are shown, widened to cover as much"
        return replace(self, splats={k: v for k, v in kept.items() if len(v)}, notes=(*self.notes, note))

    def centres(self) -> Float[np.ndarray, "L 3"]:
        """The middle of what is seen of each link, in its frame: where distances between two motions are taken."""
        middle = np.zeros((len(self.links), 3))
        for k, link in enumerate(self.links):
            points = [piece.mesh.vertices for piece in (*self.pieces, *self.collision) if piece.link == link]
            if points:
                middle[k] = (np.concatenate(points).min(axis=0) + np.concatenate(points).max(axis=0)) / 2
        return middle


def _thin(splats: Splats, share: float, link: str) -> Splats:
    count = int(len(splats) * share)
    keep = np.sort(stream(0, "view", "thinned", link).choice(len(splats), count, replace=False))
    fewer = splats.take(keep)
    return replace(fewer, log_scales=fewer.log_scales - np.float32(np.log(share) / 2))


def covariances(splats: Splats) -> Float[np.ndarray, "N 3 3"]:
    """The spread of each splat, m²."""
    w, x, y, z = (splats.quats_wxyz / np.linalg.norm(splats.quats_wxyz, axis=1, keepdims=True)).T
    R = np.stack([
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    ], axis=1).reshape(-1, 3, 3)  # fmt: skip
    M = R * np.exp(splats.log_scales)[:, None, :]
    return np.asarray(M @ M.transpose(0, 2, 1))


def base_colours(splats: Splats) -> Float[np.ndarray, "N 3"]:
    """The colour of each splat without what depends on the direction, 0 … 1."""
    return np.clip(0.5 + SH0 * splats.sh[:, 0], 0, 1)


def opacities(splats: Splats) -> Float[np.ndarray, "N"]:
    """0 … 1."""
    return np.asarray(1 / (1 + np.exp(-splats.logit_opacities.clip(-50, 50))))


def heat(distance_m: Float[np.ndarray, "V"], most_m: float) -> Float[np.ndarray, "V 3"]:
    """Colours of distances: blue for none, through green and yellow, to red for `most_m` and more."""
    stops = np.array([(0.13, 0.25, 0.65), (0.1, 0.65, 0.6), (0.95, 0.85, 0.25), (0.85, 0.15, 0.1)])
    at = np.clip(distance_m / most_m, 0, 1) * (len(stops) - 1)
    return np.stack([np.interp(at, np.arange(len(stops)), stops[:, k]) for k in range(3)], axis=1)


def quats_wxyz(T: Float[np.ndarray, "*n 4 4"]) -> Float[np.ndarray, "*n 4"]:
    """The turns of rigid transforms."""
    from scipy.spatial.transform import Rotation

    flat = Rotation.from_matrix(np.asarray(T, float)[..., :3, :3].reshape(-1, 3, 3)).as_quat()
    return np.asarray(np.roll(flat, 1, axis=1).reshape(*T.shape[:-2], 4))
