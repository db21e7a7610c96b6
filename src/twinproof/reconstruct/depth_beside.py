"""Depth beside colour: the depth camera that belongs to a colour camera, its pictures in metres on the colour's pixels.

A camera `front` has its depth from one called `front_depth`, or else from a depth camera on the same mount. Registered
depth has the picture's size, and its lens and mount where it states any. One that states a lens and a mount of its own
is laid onto the colour picture: the two keep the places to each other that the rig states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.episode import Episode
from twinproof.nouns.rig import Camera, Mount, Rig
from twinproof.nouns.video import Video, VideoReader
from twinproof.sim.render_camera import Lens, distort, pixel_rays

if TYPE_CHECKING:
    from jaxtyping import Float

DEPTH = "_depth"  # what a depth camera is called beside its colour camera
UNKNOWN_DEPTH = 65535  # some sensors write it, others 0


@dataclass(frozen=True, eq=False)
class Apart:
    """A depth camera's own lens, and where it is in the colour camera's frame."""

    lens: Lens
    T_colour_depth: Float[np.ndarray, "4 4"]

    def onto(self, depth_m: Float[np.ndarray, "H W"], lens: Lens) -> Float[np.ndarray, "h w"]:
        """Depth as the colour camera would have measured it: the nearest surface in each pixel, 0 where none fell."""
        some = depth_m > 0
        rays, far = pixel_rays(self.lens)[some], depth_m[some].astype(float)
        points = np.c_[rays, np.ones(len(rays))] * far[:, None]
        points = points @ self.T_colour_depth[:3, :3].T + self.T_colour_depth[:3, 3]
        points = points[points[:, 2] > 0]
        xy = points[:, :2] / points[:, 2:]
        bent = distort(xy, lens.distortion) if any(lens.distortion) else xy
        wide = int(np.ceil(lens.fx / self.lens.fx))  # colour pixels that one of depth covers, along a side
        corner = np.floor(bent * (lens.fx, lens.fy) + (lens.cx, lens.cy) + 1 - 0.5 * wide).astype(int)
        out = np.full((lens.height, lens.width), np.inf, np.float32)
        for right in range(wide):
            for down in range(wide):
                x, y = corner[:, 0] + right, corner[:, 1] + down
                inside = (x >= 0) & (y >= 0) & (x < lens.width) & (y < lens.height)
                np.minimum.at(out, (y[inside], x[inside]), points[inside, 2].astype(np.float32))
        return np.where(np.isfinite(out), out, np.float32(0))


@dataclass(frozen=True, eq=False)
class Depth:
    """A depth video on its colour camera's clock."""

    video: Video
    time_s: Float[np.ndarray, "F"]
    unit_m: float  # of a count
    apart: Apart | None = None  # None: registered, pixel by pixel

    def at(self, time_s: float, reader: VideoReader, lens: Lens) -> Float[np.ndarray, "H W"] | None:
        """Metres on the pixels of the colour camera's lens, 0 where unknown; None: no picture within half a period."""
        gap = np.abs(self.time_s - time_s)
        period = float(np.median(np.diff(self.time_s))) if len(self.time_s) > 1 else np.inf
        if gap.min() > 0.5 * period + 1e-6:
            return None
        counts = reader.frame(int(np.argmin(gap)))
        if self.video.pixels == "depth_m":
            metres = np.where(np.isfinite(counts) & (counts > 0), counts, 0).astype(np.float32)
        else:
            metres = np.where(counts == UNKNOWN_DEPTH, 0, counts).astype(np.float32) * np.float32(self.unit_m)
        return metres if self.apart is None else self.apart.onto(metres, lens)


def is_depth(video: Video) -> bool:
    """Whether its pictures are depth, not colour."""
    return video.pixels.startswith("depth")


def depth_beside(rig: Rig, episode: Episode, name: str) -> tuple[Depth | None, str]:
    """The depth that belongs to a colour camera of the rig; or none, and why, where there might have been some."""
    camera, beside = rig.cameras[name], _called(rig, episode, name)
    if beside is None:
        return None, ""
    video, of = episode.videos[beside], rig.cameras[beside]
    if not is_depth(video):
        return None, f"{beside} holds {video.pixels} pictures, not depth, and is not used"
    time_s = video.time_s + of.clock_offset_s - camera.clock_offset_s
    size = episode.videos[name].width, episode.videos[name].height
    same = (video.width, video.height) == size and of.intrinsics in (None, camera.intrinsics)
    if same and (of.mount is None or camera.mount is None or _one_place(of.mount, camera.mount)):
        return Depth(video, time_s, of.depth_unit_m), ""
    apart = _apart(video, of, camera)
    if apart is None:
        return None, (
            f"{beside} has another size, lens or mount than {name} and is not used; register it, or state both its "
            f"intrinsics and its mount on {camera.mount.parent if camera.mount else 'what carries the camera'} in the "
            "rig"
        )
    return Depth(video, time_s, of.depth_unit_m, apart), ""


def depth_of(
    rig: Rig, episode: Episode, name: str, lens: Lens, picked: Sequence[int]
) -> Float[np.ndarray, "T H W"] | None:
    """Depth of some pictures of a colour camera on its pixels, 0 where unknown; None where it has none."""
    depth, _ = depth_beside(rig, episode, name)
    if depth is None:
        return None
    times = episode.videos[name].time_s
    out = np.zeros((len(picked), lens.height, lens.width), np.float32)
    with depth.video.reader() as reader:
        for plane, k in zip(out, picked, strict=True):
            found = depth.at(float(times[k]), reader, lens)
            if found is not None:
                plane[:] = found
    return out if out.any() else None


def depth_notes(rig: Rig, episode: Episode, cameras: Sequence[str]) -> tuple[str, ...]:
    """What became of an episode's depth cameras: whose depth they are, or why they are not used."""
    notes, used = list[str](), set[str]()
    for name in (each for each in cameras if each in episode.videos):
        depth, why = depth_beside(rig, episode, name)
        used.add(_called(rig, episode, name) or "")
        if depth is not None:
            notes.append(f"depth of {name} is from {depth.video.camera}")
        elif why:
            notes.append(why)
    alone = sorted(n for n, v in episode.videos.items() if is_depth(v) and n not in used)
    return (
        *notes,
        *(f"{n} is a depth camera beside no colour camera, and is not used: call it NAME{DEPTH}" for n in alone),
    )


def _called(rig: Rig, episode: Episode, name: str) -> str | None:
    """The depth camera beside a colour camera: by its name, else by its place."""
    if name + DEPTH in episode.videos and name + DEPTH in rig.cameras:
        return name + DEPTH
    own = rig.cameras[name].mount
    for other, video in episode.videos.items():
        mount = rig.cameras[other].mount if other in rig.cameras else None
        named = other.removesuffix(DEPTH) != other and other.removesuffix(DEPTH) in episode.videos
        if is_depth(video) and not named and own is not None and mount is not None and _one_place(own, mount):
            return other
    return None


def _apart(video: Video, of: Camera, camera: Camera) -> Apart | None:
    """The lens and place that a depth camera states, where both it and the colour camera state all of it."""
    k = of.intrinsics
    if k is None or of.mount is None or camera.mount is None or of.mount.parent != camera.mount.parent:
        return None
    lens = Lens(video.width, video.height, k.fx, k.fy, k.cx, k.cy, k.distortion)
    return Apart(lens, np.linalg.inv(camera.mount.T_parent_camera) @ of.mount.T_parent_camera)


def _one_place(one: Mount, other: Mount) -> bool:
    return one.parent == other.parent and np.allclose(one.T_parent_camera, other.T_parent_camera, atol=1e-6)
