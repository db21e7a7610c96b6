"""Views of a recording: pictures of its cameras with the poses that a signal or the rig gives them.

A camera `front` gets its pose from the signal `front_pose` (x y z qw qx qy qz in the world), or stands where the rig's
mount says, if its parent is the world. Depth comes from the depth camera beside it (depth_beside). Cameras on moving
links and without intrinsics are left out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import SplatError
from twinproof.nouns.parts import Calibration
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import Camera, Intrinsics, Rig
from twinproof.nouns.signal import Signal
from twinproof.nouns.video import Video
from twinproof.nouns.views import PosedView, Views
from twinproof.reconstruct.depth_beside import Depth, depth_beside, is_depth
from twinproof.sim.depth_points import depth_points
from twinproof.sim.render_camera import Lens

POSE = ("x", "y", "z", "qw", "qx", "qy", "qz")


def views_of(
    source: Recording | Calibration, every_s: float | None = None, cameras: Sequence[str] | None = None
) -> Views:
    """The views of a recording's cameras (all, or those named), with points from depth where there is some.

    One picture every `every_s` seconds; None takes every picture of a camera that moves, and the first of each episode
    of one that stands still. What was left out stands in `notes`.
    """
    recording = source.recording if isinstance(source, Calibration) else source
    if every_s is not None and not 0 < every_s < np.inf:
        raise SplatError(f"every_s is {every_s}; a time above 0 s is needed.")
    colour = {name: None for e in recording.episodes for name in e.videos if not is_depth(e.videos[name])}
    unknown = sorted(set(cameras or ()) - set(colour))
    if unknown:
        raise SplatError(f"the recording has no colour camera {unknown[0]!r}; it has {', '.join(colour) or 'none'}.")
    views, notes = list[PosedView](), dict[str, None]()
    for episode in recording.episodes:
        fresh = episode.fresh()  # one episode's signals in memory at a time
        for name in sorted(name for name in fresh.videos if name in (cameras or colour)):
            found = _taken(recording.rig, fresh, name)
            if isinstance(found, str):
                notes[f"{name} is left out: {found}"] = None
                continue
            views += found.views(every_s)
            notes |= dict.fromkeys(found.notes)
    if not views:
        raise SplatError(
            f"no view is left of {len(colour)} colour cameras. {' '.join(f'{note}.' for note in notes)} Write into "
            "rig.toml, for a camera that stands still: [cameras.NAME.intrinsics] fx, fy, cx, cy and "
            "[cameras.NAME.mount] parent = 'world', position_m, quat_wxyz; for one that moves, record a signal "
            "NAME_pose of kind 'pose' with columns x y z qw qx qy qz."
        )
    points, colours = depth_points(views)
    if len(points):
        notes[f"{len(points)} points from depth"] = None
    return Views(tuple(views), points, colours, notes=tuple(notes))


@dataclass(frozen=True, eq=False)
class _Taken:
    """A colour camera in one episode, with all that its views need."""

    episode: Episode
    video: Video
    intrinsics: Intrinsics
    poses: np.ndarray  # T_world_camera for every frame; NaN where it is not known
    moving: bool
    depth: Depth | None
    notes: tuple[str, ...]

    def views(self, every_s: float | None) -> Iterator[PosedView]:
        """The chosen frames that have a pose."""
        k = self.intrinsics
        lens = Lens(self.video.width, self.video.height, k.fx, k.fy, k.cx, k.cy, k.distortion)
        with contextlib.ExitStack() as stack:
            reader = stack.enter_context(self.video.reader())
            deep = stack.enter_context(self.depth.video.reader()) if self.depth is not None else None
            for index in self._chosen(every_s):
                picture = reader.frame(index)
                rgb = picture if picture.ndim == 3 else np.repeat(picture[..., None], 3, axis=2)
                name = f"{self.episode.id[:8]}/{self.video.camera}/{index:06d}"
                time_s = float(self.video.time_s[index])
                depth = self.depth.at(time_s, deep, lens) if self.depth is not None and deep is not None else None
                yield PosedView(name, rgb, self.intrinsics, self.poses[index], depth)

    def _chosen(self, every_s: float | None) -> list[int]:
        known = np.flatnonzero(np.isfinite(self.poses).all(axis=(1, 2)))
        if every_s is None:
            return [int(k) for k in (known if self.moving else known[:1])]
        times, chosen, next_s = self.video.time_s, list[int](), -np.inf
        for k in known.tolist():
            if times[k] >= next_s - 1e-9:
                chosen.append(k)
                next_s = times[k] + every_s
        return chosen


def _taken(rig: Rig, episode: Episode, name: str) -> _Taken | str:
    """A camera whose pictures can be posed; or why it cannot, in words."""
    video, camera = episode.videos[name], rig.cameras.get(name)
    if camera is None or camera.intrinsics is None:
        return f"it has no intrinsics. Add [cameras.{name}.intrinsics] with fx, fy, cx, cy"
    signal = episode.signals.get(f"{name}_pose")
    notes = list[str]()
    if signal is not None:
        found = _signal_poses(rig, signal, camera, video)
        if isinstance(found, str):
            return found
        poses = found
        lost = int((~np.isfinite(poses).all(axis=(1, 2))).sum())
        if lost:
            notes.append(f"{lost} of {len(video)} pictures of {name} have no pose in {signal.name} and are left out")
    elif camera.mount is None:
        return f"neither a signal {name}_pose nor a mount says where it is"
    elif camera.mount.parent != "world":
        return f"it is mounted on {camera.mount.parent!r}, which moves, and no signal {name}_pose follows it"
    else:
        poses = np.broadcast_to(camera.mount.T_parent_camera, (len(video), 4, 4))
    depth, why = depth_beside(rig, episode, name)
    notes += [why] if why else []
    known = poses[np.isfinite(poses).all(axis=(1, 2))]
    moving = bool((np.abs(known - known[:1]) > 1e-9).any())
    return _Taken(episode, video, camera.intrinsics, poses, moving, depth, tuple(notes))


def _signal_poses(rig: Rig, signal: Signal, camera: Camera, video: Video) -> np.ndarray | str:
    """The pose at every frame, between the two samples around it; NaN before the first, after the last, in gaps."""
    from scipy.spatial.transform import Rotation, Slerp

    if {column.name for column in signal.columns} != set(POSE):
        return f"{signal.name} has not the columns {' '.join(POSE)}"
    if {column.frame for column in signal.columns} - {"", "world"}:
        return f"{signal.name} is given in the frame {signal.columns[0].frame!r}, not in the world"
    rows = np.stack([signal.column(name) for name in POSE], axis=1)
    whole = np.isfinite(rows).all(axis=1)
    length = np.linalg.norm(rows[whole, 3:], axis=1)
    if not whole.any() or (np.abs(length - 1) > 0.01).any():
        return f"{signal.name} holds no finite poses with unit quaternions"
    rule = rig.signals.get(signal.name)
    at = signal.time_s + (rule.clock_offset_s if rule is not None else 0.0)
    when = video.time_s + camera.clock_offset_s
    slack = 1e-6 + (0.5 * float(np.median(np.diff(at))) if len(at) > 1 else 0.0)
    after = np.searchsorted(at, when).clip(0, len(at) - 1)
    before = np.where(at[after] <= when, after, np.maximum(after - 1, 0))
    usable = whole[before] & whole[after] & (when >= at[0] - slack) & (when <= at[-1] + slack)
    poses = np.full((len(when), 4, 4), np.nan)
    if not usable.any():
        return poses
    inside, time = when[usable].clip(at[whole][0], at[whole][-1]), at[whole]
    turns = Rotation.from_quat(rows[whole][:, [4, 5, 6, 3]])
    poses[usable] = np.eye(4)
    poses[usable, :3, :3] = (Slerp(time, turns)(inside) if len(time) > 1 else turns).as_matrix()
    for k in range(3):
        poses[usable, k, 3] = np.interp(inside, time, rows[whole, k])
    return poses
