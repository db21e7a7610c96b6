"""Pictures of many worlds at once on a CPU: what keeps its place is drawn once, what moves is laid over it by depth.

A backdrop is what a camera sees of the background and of groups that stand. It is kept by the camera's pose, its lens
and where those groups are: worlds that share them share it, and where a new episode moves one of them another is drawn.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit

from twinproof.nouns.errors import SplatError
from twinproof.nouns.splats import Splats
from twinproof.sim.render_camera import Lens
from twinproof.sim.splat import engine
from twinproof.sim.splat.blend import Picture
from twinproof.sim.splat.lens import EXACT, packed
from twinproof.sim.splat.project import Cloud, Eye
from twinproof.sim.threads import threads_usable

if TYPE_CHECKING:
    from jaxtyping import Float, UInt8

ZERO, ONE, WHITE = np.float32(0), np.float32(1), np.float32(255)
KEPT_BYTES = 2**28  # beyond it, backdrops that the newest call does not need are dropped, the oldest first


@dataclass(frozen=True, eq=False)
class Views:
    """Where the cameras and the groups of B worlds are; `changes` is what `Lens.changed` takes, for each world."""

    lens: Lens
    T_world_camera: Float[np.ndarray, "B 4 4"]
    T_world_group: Float[np.ndarray, "B M 4 4"]
    changes: Float[np.ndarray, "B 4"] | None = None

    def __post_init__(self) -> None:
        for what, poses in (("camera", self.T_world_camera), ("group", self.T_world_group)):
            turn = poses[..., :3, :3]
            off = np.abs(turn @ turn.swapaxes(-1, -2) - np.eye(3)).max(initial=0)
            if not (np.isfinite(poses).all() and off <= 1e-4 and (np.linalg.det(turn) > 0).all()):
                raise SplatError(f"splats: a {what} is placed by a matrix that is not rigid. Scale and shear nothing.")

    def lens_of(self, world: int) -> np.ndarray:
        """The lens in a world, as the kernels take it."""
        return packed(self.lens if self.changes is None else self.lens.changed(*map(float, self.changes[world])))


class Backdrop(NamedTuple):
    """What one camera sees of all that stands."""

    T_camera_world: np.ndarray  # (4, 4)
    lens: np.ndarray  # as the kernels take it
    colour: np.ndarray  # (H, W, 3) float32
    light: np.ndarray  # (H, W) float32: what passes
    depth: np.ndarray  # (H, W) float32, m; 0: nothing is seen
    shown: np.ndarray  # (H, W, 3) bytes: the colour over black


class LayeredWorlds:
    """Draws bytes (B, H, W, 3) of B worlds that share splats and differ in where groups and cameras are.

    Views place the groups `placed`, in that order; those of them that `standing` names too belong to the backdrops.
    A group that is not placed stays where it is. `threads`: 0 is all that the process may use.
    """

    def __init__(self, splats: Splats, placed: Sequence[str], standing: Collection[str] = (), threads: int = 0) -> None:
        unknown = sorted({*placed, *standing} - set(splats.groups))
        if unknown:
            raise SplatError(
                f"splats: there is no group {', '.join(map(repr, unknown))} to place; there are "
                f"{', '.join(splats.groups)}."
            )
        self._splats, self._threads = splats, threads
        self._placed = [splats.groups.index(name) for name in placed]
        self._standing = [k for k, name in enumerate(placed) if name in standing]
        self._moves = np.isin(splats.group, [splats.groups.index(name) for name in placed if name not in standing])
        self._kept: dict[tuple[Lens, bytes], Backdrop] = {}

    def over(self, views: Views) -> UInt8[np.ndarray, "B H W 3"]:
        """Pictures by cameras that stand still for many calls: the moving groups over their backdrops, by depth at
        every pixel."""
        poses = self._poses(views)
        behind = self._backdrops(views, poses)
        at = np.stack([each.T_camera_world for each in behind])
        moving = self._drawn(self._moving, at, poses, [each.lens for each in behind], depth=True)
        pictures = np.empty((len(behind), *behind[0].shown.shape), np.uint8)
        engine.spread(lambda k: _lay(moving[k], behind[k], pictures[k]), range(len(behind)), self._cores)
        return pictures

    def together(self, views: Views) -> UInt8[np.ndarray, "B H W 3"]:
        """Pictures by cameras that move at every call: all splats blended together."""
        lenses = [views.lens_of(k) for k in range(len(views.T_world_group))]
        drawn = self._drawn(self._whole, np.linalg.inv(views.T_world_camera), self._poses(views), lenses, depth=False)
        return np.stack([_bytes(picture.colour) for picture in drawn])

    def _poses(self, views: Views) -> np.ndarray:
        """T_world_group (B, G, 4, 4) of every group."""
        poses = np.tile(np.eye(4), (len(views.T_world_group), len(self._splats.groups), 1, 1))
        poses[:, self._placed] = views.T_world_group
        return poses

    def _backdrops(self, views: Views, poses: np.ndarray) -> list[Backdrop]:
        """Each world's, drawn where it is not yet known."""
        count = len(poses)
        rows = [np.asarray(views.T_world_camera, float), np.asarray(views.T_world_group[:, self._standing], float)]
        rows += [] if views.changes is None else [np.asarray(views.changes, float)]
        decides = np.concatenate([row.reshape(count, -1) for row in rows], axis=1)
        keys = [(views.lens, row.tobytes()) for row in decides]
        new = {key: k for k, key in reversed(list(enumerate(keys))) if key not in self._kept}
        if new:
            which = list(new.values())
            at, lenses = np.linalg.inv(views.T_world_camera[which]), [views.lens_of(k) for k in which]
            drawn = self._drawn(self._still, at, poses[which], lenses, depth=True)
            self._kept |= zip(new, map(_backdrop, at, lenses, drawn), strict=True)
        for key in dict.fromkeys(keys):
            self._kept[key] = self._kept.pop(key)  # the newest last
        if new:
            self._forget(len(set(keys)))
        return [self._kept[key] for key in keys]

    def _forget(self, needed: int) -> None:
        """Drops the oldest backdrops where there are too many, but the `needed` newest."""
        held = sum(sum(array.nbytes for array in each) for each in self._kept.values())
        for key in list(self._kept)[: len(self._kept) - needed]:
            if held <= KEPT_BYTES:
                break
            held -= sum(array.nbytes for array in self._kept.pop(key))

    def _drawn(
        self, cloud: Cloud, at: np.ndarray, poses: np.ndarray, lenses: Iterable[np.ndarray], depth: bool
    ) -> list[Picture]:
        """A cloud by cameras at T_camera_world, its groups at `poses`."""
        placed, bands = np.ascontiguousarray((at[:, None] @ poses)[:, :, :3]), self._splats.sh.shape[1]
        eyes = [Eye(V, lens, engine.NEAR, bands) for V, lens in zip(placed, lenses, strict=True)]
        return [kept.picture for kept in engine.forward_batch(cloud, eyes, self._splats.flat, depth, self._cores)]

    @property
    def _cores(self) -> int:
        return self._threads or threads_usable()

    @cached_property
    def _still(self) -> Cloud:
        return self._cloud(self._splats.take(~self._moves))

    @cached_property
    def _moving(self) -> Cloud:
        return self._cloud(self._splats.take(self._moves))

    @cached_property
    def _whole(self) -> Cloud:
        return self._cloud(self._splats)

    def _cloud(self, s: Splats) -> Cloud:
        packed_once = engine.cloud_of(s.means, s.quats_wxyz, s.log_scales, s.logit_opacities, s.sh, s.group)
        return engine.readied(packed_once, self._cores)


def _backdrop(T_camera_world: np.ndarray, lens: np.ndarray, picture: Picture) -> Backdrop:
    alpha = 1 - picture.light
    seen = alpha > 0
    depth = np.where(seen, picture.more[..., 0] / np.where(seen, alpha, 1), 0).astype(np.float32)
    return Backdrop(T_camera_world, lens, picture.colour, picture.light, depth, _bytes(picture.colour))


def _bytes(colour: np.ndarray) -> np.ndarray:
    """Colours over black as bytes."""
    found: np.ndarray = np.rint(255 * np.clip(colour, 0, 1)).astype(np.uint8)
    return found


def _lay(front: Picture, behind: Backdrop, out: np.ndarray) -> None:
    lay_over(front.colour, front.light, front.more, behind, out)


@njit(**EXACT)
def lay_over(colour, light, more, behind, out):
    """Writes the bytes of a layer over its backdrop: whichever is nearer at a pixel dims the other."""
    height, width = light.shape
    for y in range(height):
        for x in range(width):
            passes = light[y, x]
            alpha = ONE - passes
            nearer = more[y, x, 0] < alpha * behind.depth[y, x]  # more is alpha times the depth
            for c in range(3):
                if alpha <= ZERO:
                    out[y, x, c] = behind.shown[y, x, c]
                else:
                    own, other = colour[y, x, c], behind.colour[y, x, c]
                    mixed = own + passes * other if nearer else other + behind.light[y, x] * own
                    out[y, x, c] = np.uint8(np.rint(WHITE * min(max(mixed, ZERO), ONE)))
