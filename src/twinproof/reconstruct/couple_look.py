"""The pictures' side of joint refinement: every picture's pull on the simulated pose at its own time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.clip import Clip
from twinproof.reconstruct.couple_motion import Moved
from twinproof.sim.handled import pose_of
from twinproof.sim.render_camera import Camera
from twinproof.sim.track import surer
from twinproof.sim.track_clips import sight_of
from twinproof.sim.track_fit import Followed, Pixels, Pull, boxes, pulls, slopes
from twinproof.sim.track_pose import by_camera, nudged
from twinproof.sim.track_sight import Sight

if TYPE_CHECKING:
    from jaxtyping import Float

    from twinproof.nouns.splats import Splats
    from twinproof.sim.track_clips import Masks, Plates
    from twinproof.sim.track_fit import Slopes

MARGIN_PX = 8.0
STALE = 0.7  # px: slopes are taken anew where the object has moved by more


@dataclass(frozen=True, eq=False)
class Told:
    """All pulls: one for each row, with the clip it belongs to and how its camera moves what it sees."""

    pulls: tuple[Pull | None, ...]
    clip: tuple[int, ...]
    less: float  # by so much pixels are surer than they may be
    rate_hz: float  # of one camera's pictures
    by_camera: Float[np.ndarray, "R 6 6"]


class Looks:
    """The pictures of all clips, in the order of the rows; what is costly is kept between calls."""

    def __init__(
        self,
        clips: Sequence[Clip],
        plates: Plates | Splats,
        splats: Splats,
        how: Pixels,
        masks: Masks | None,
        scale: bool = False,
    ) -> None:
        self.clips, self.how, self.scale = tuple(clips), how, scale
        self.thing = Followed.of(splats)
        self.sights: list[Sight] = []
        self.clip: list[int] = []
        for c, clip in enumerate(clips):
            for k in range(len(clip)):
                self.sights.append(sight_of(clip, k, plates, masks))
                self.clip.append(c)
        self._crops: list[np.ndarray | None] | None = None
        self._by: list[Slopes | None] = []
        self._drawn: list[np.ndarray] = []
        self._sigmas: list[float] = []
        self.less = 1.0

    @property
    def rate_hz(self) -> float:
        """Pictures of one camera in a second."""
        spans = [(clip.time_s[-1] - clip.time_s[0]) / max(len(clip) - 1, 1) for clip in self.clips]
        return float(1 / max(np.median(spans), 1e-3))

    def pulls(
        self, moved: Moved, cameras: Float[np.ndarray, "C 6"], shows: Float[np.ndarray, "C 6"], scale: float
    ) -> Told:
        """Each picture's pull at the simulated pose, its camera moved, and the pose by what it shows wrong."""
        poses = list(nudged(pose_of(moved.qpos[: len(self.sights)]), shows[np.array(self.clip, int)]))
        sights = [
            replace(s, camera=Camera(s.camera.lens, nudged(s.camera.T_world_camera, cameras[c])))
            for s, c in zip(self.sights, self.clip, strict=True)
        ]
        thing = self.thing if scale == 1.0 else self.thing.scaled(scale)
        if self._crops is None:
            self._prepare(thing, sights, poses)
            sights = [replace(s, gain=m.gain) for s, m in zip(sights, self.sights, strict=True)]
        assert self._crops is not None
        seen_from = [np.linalg.inv(s.camera.T_world_camera) @ T for s, T in zip(sights, poses, strict=True)]
        stale = [k for k, T in enumerate(seen_from) if self._is_stale(k, T, sights[k])]
        fresh = slopes(
            thing, [sights[k] for k in stale], [poses[k] for k in stale], [self._crops[k] for k in stale], self.how,
            scale=self.scale,
        )  # fmt: skip
        for k, by in zip(stale, fresh, strict=True):
            self._by[k], self._drawn[k] = by, seen_from[k]
        found = pulls(thing, sights, poses, self._crops, self.how, self._sigmas or None, self._by)
        if not self._sigmas:
            self._sigmas = [0.0 if pull is None else pull.sigma for pull in found]
            self.less = float(np.median([surer([pull]) for pull in found if pull is not None] or [1.0]))
        turned = np.stack([by_camera(s.camera.T_world_camera, T[:3, 3]) for s, T in zip(sights, poses, strict=True)])
        return Told(tuple(found), tuple(self.clip), self.less, self.rate_hz, turned)

    def _prepare(self, thing: Followed, sights: Sequence[Sight], poses: Sequence[np.ndarray]) -> None:
        self._crops = boxes(thing, sights, poses, MARGIN_PX)
        ready = []
        for mine, box in zip(self.sights, self._crops, strict=True):
            apart = np.zeros(mine.hidden.shape, bool)
            if box is not None:
                apart[box[1] : box[3], box[0] : box[2]] = True
            ready.append(mine.exposed(apart))
        self.sights = ready
        self._by = [None] * len(ready)
        self._drawn = [np.full((4, 4), np.inf)] * len(ready)

    def _is_stale(self, k: int, T_camera_object: np.ndarray, sight: Sight) -> bool:
        off = T_camera_object - self._drawn[k]
        if not np.isfinite(off).all():
            return True
        depth = max(float(T_camera_object[2, 3]), 0.05)
        size = np.linalg.norm(off[:3, 3]) + np.linalg.norm(off[:3, :3]) / np.sqrt(2) * self.thing.radius_m
        return bool(size * sight.camera.lens.fx / depth > STALE)
