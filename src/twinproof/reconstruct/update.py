"""A twin kept up to date: objects are followed through a new recording; what moved is moved, what fits no more named.

updated = update(twin, clips, folder, recording=hash)      a new Twin in `folder`; the old one stays as it is
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from twinproof.nouns.clip import Clip
from twinproof.nouns.errors import ConfigError, RecordingError, TwinError
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.splat_files import read_ply, write_ply
from twinproof.nouns.splats import Splats
from twinproof.nouns.twin import Body, Twin
from twinproof.reconstruct.prompts import Prompts
from twinproof.reconstruct.update_bare import bare_of_robot, followed_bare, has_background
from twinproof.reconstruct.update_scene import has_keys, movable, moved_scene
from twinproof.sim.handled import track_json
from twinproof.sim.render_camera import Camera
from twinproof.sim.scene import Scene
from twinproof.sim.splat.placed import placed
from twinproof.sim.track import Following, Tracker
from twinproof.sim.track_clips import lens_of, sight_of, track
from twinproof.sim.track_pose import Track, move_between, nudged
from twinproof.sim.track_sight import background_plate
from twinproof.sim.world import World

if TYPE_CHECKING:
    from jaxtyping import Float

    from twinproof.nouns.hashing import Json

SURE = 22.46  # squared standard errors of six numbers that chance exceeds once in a thousand


@dataclass(frozen=True)
class Updating:
    """When an object has moved, and when the twin no longer fits. Thresholds are stated in the new twin's audit."""

    following: Following = field(default_factory=Following)
    moved_m: float = 0.002  # less than this is no move, however sure it is
    moved_rad: float = 0.02
    last_s: float = 0.5  # the pose at the end is the mean over this
    most_misfit: float = 0.06  # root mean square of an object's pixels, 0 … 1
    most_misfit_hidden: float = 0.25  # … where no robot is drawn, which then may hide a part of it
    most_lost: float = 0.5  # share of the pictures in which an object was not found
    background_differs: float = 0.15  # of a colour, 0 … 1
    most_differing: float = 0.1  # share of a camera's background pixels

    def __post_init__(self) -> None:
        if not 0 < self.most_lost <= 1 or not 0 < self.most_misfit < 1 or not self.last_s > 0:
            raise ConfigError(
                f"updating: most_lost {self.most_lost}, most_misfit {self.most_misfit} and last_s {self.last_s} "
                "must be above zero, the shares at most 1."
            )


@dataclass(frozen=True)
class Flag:
    """One thing that no longer fits, and why: the number that was found beside the one that was allowed."""

    what: str  # a body, or a camera's background
    kind: Literal["lost", "misfit", "fixed", "background"]
    found: float
    allowed: float

    @property
    def sentence(self) -> str:
        """The flag in words."""
        match self.kind:
            case "lost":
                why = f"was not found in {self.found:.0%} of the pictures ({self.allowed:.0%} are allowed)"
            case "misfit":
                why = f"looks otherwise: its pixels are off by {self.found:.3f} ({self.allowed:.3f} is allowed)"
            case "fixed":
                why = f"moved by {1e3 * self.found:.1f} mm, but hangs on another body and was left where it is"
            case _:
                why = f"differs in {self.found:.0%} of its background ({self.allowed:.0%} is allowed)"
        return f"{self.what} {why}."


@dataclass(frozen=True, eq=False)
class Updated:
    """The new twin, each object's poses over time, the move of those that moved (small moves, in m and rad), flags."""

    twin: Twin
    tracks: Mapping[str, Track]
    moves: Mapping[str, Float[np.ndarray, "6"]]
    flags: tuple[Flag, ...]


def update(
    twin: Twin,
    clips: Sequence[Clip],
    folder: Path,
    recording: str,
    how: Updating | None = None,
    *,
    prompts: Prompts | None = None,
    progress: Progress = quiet,
) -> Updated:
    """A new twin in an empty `folder`, brought up to the end of the clips of one episode.

    Objects are bodies of the layer "object" that have splats. All else that has splats, but the robot, is background:
    the robot's pixels must be masked in the clips. Without a background one object before still cameras is followed by
    masks; `prompts` then point at it. `recording` is the hash of the recording that the clips are from.
    """
    how = how or Updating()
    objects = [body for body in twin.bodies if body.layer == "object" and body.splats]
    if not objects:
        raise TwinError("the twin has no object with splats, so nothing can be followed. Reconstruct one first.")
    if not clips:
        raise RecordingError("updating was given no clip. Give the clips of one episode.")
    if prompts is not None and has_background(twin):
        raise ConfigError("the twin's background tells its objects: --click would do nothing. Leave it out.")
    splats = read_ply(twin.path("splats.ply"))
    world = World(Scene.of(twin))
    stood = {body.name: world.body_pose(body.name) for body in objects}
    tracks: dict[str, Track] = {}
    now, bare = dict(stood), not has_background(twin)
    if bare and bare_of_robot(clips):
        how = replace(how, most_misfit=how.most_misfit_hidden)
    for k, body in enumerate(objects):
        if bare:
            own = placed(_run(splats, body), np.linalg.inv(stood[body.name]))
            tracks[body.name] = followed_bare(twin, objects, own, clips, world, prompts, progress)
            now[body.name] = _ended(stood[body.name], tracks[body.name], how)
            continue
        behind = _placed(twin, splats, objects, body.name, stood, now)
        thing = placed(_run(splats, body), np.linalg.inv(stood[body.name]))
        tracker = Tracker(thing, how.following)
        progress(k, f"following {body.name}", len(objects))
        tracks[body.name] = track(tracker, clips, _plates(clips, behind), stood[body.name])
        now[body.name] = _ended(stood[body.name], tracks[body.name], how)
    flags = _flags(twin, tracks, stood, now, how)
    moves = {}
    for name in now:
        move = move_between(stood[name], now[name])
        if move.any() and not any(flag.what == name for flag in flags):
            moves[name] = move
    if not bare:
        flags = (*flags, *_background_flags(clips, _placed(twin, splats, objects, "", stood, now), how))
    made = _made(twin, splats, {name: now[name] for name in moves}, stood, folder)
    audits = {**twin.audits, "update": _audit(tracks, moves, flags, how)}
    notes = (*twin.notes, *(f"update: {flag.sentence}" for flag in flags))
    if bare:
        notes = (
            *notes,
            "update: the twin has no background: its object was followed by masks and plates.",
        )
    if moves and has_keys(twin.path()):
        notes = (*notes, "update: key frames were left out: they held objects where they no longer are.")
    parents = {**twin.parents, "twin": twin.hash, "update": recording}
    new = replace(twin, root=made, parents=parents, audits=audits, notes=notes)
    return Updated(new, tracks, moves, flags)


def _run(splats: Splats, body: Body) -> Splats:
    assert body.splats is not None
    first, count = body.splats
    return splats.take(np.arange(first, first + count))


def _placed(
    twin: Twin,
    splats: Splats,
    objects: Sequence[Body],
    but: str,
    stood: Mapping[str, np.ndarray],
    now: Mapping[str, np.ndarray],
) -> Splats:
    """What is behind one object: the background, and the other objects where they are."""
    keep = np.ones(len(splats), bool)
    for body in twin.bodies:
        if body.splats and (body.layer == "robot" or body.name == but):
            keep[body.splats[0] : body.splats[0] + body.splats[1]] = False
    moves = {body.name: now[body.name] @ np.linalg.inv(stood[body.name]) for body in objects}
    return _relocated(twin, splats, moves).take(keep)


def _relocated(twin: Twin, splats: Splats, moves: Mapping[str, np.ndarray]) -> Splats:
    """All splats, those of the named bodies moved."""
    means, quats, sh = splats.means.copy(), splats.quats_wxyz.copy(), splats.sh.copy()
    for name, move in moves.items():
        body = twin.body(name)
        assert body.splats is not None
        run = slice(body.splats[0], body.splats[0] + body.splats[1])
        there = placed(_run(splats, body), move)
        means[run], quats[run], sh[run] = there.means, there.quats_wxyz, there.sh
    return replace(splats, means=means, quats_wxyz=quats, sh=sh)


def _plates(clips: Sequence[Clip], behind: Splats) -> Mapping[str, np.ndarray] | Splats:
    """One plate for each camera where all stand still: drawn once instead of at every picture."""
    if not all(clip.still for clip in clips):
        return behind
    return {clip.camera: background_plate(behind, Camera(lens_of(clip), clip.T_world_camera[0])) for clip in clips}


def _ended(T: np.ndarray, found: Track, how: Updating) -> Float[np.ndarray, "4 4"]:
    """Where the object is at the end; where it was, unless it surely moved by more than what counts as a move."""
    late = ~found.lost & (found.time_s >= found.time_s[-1] - how.last_s)
    if not late.any():
        return T
    H, g = np.zeros((6, 6)), np.zeros(6)
    last = found.T_world_object[np.flatnonzero(late)[-1]]
    for k in np.flatnonzero(late):
        weight = np.linalg.inv(found.covariance[k])
        H, g = H + weight, g + weight @ move_between(last, found.T_world_object[k])
    end = nudged(last, np.linalg.solve(H, g))
    move = move_between(T, end)
    # neighbouring pictures err together: the end is as sure as its surest picture, not as their sum
    sure = min((found.covariance[k] for k in np.flatnonzero(late)), key=lambda C: float(np.trace(C[:3, :3])))
    far = np.linalg.norm(move[:3]) > how.moved_m or np.linalg.norm(move[3:]) > how.moved_rad
    return end if far and float(move @ np.linalg.solve(sure, move)) > SURE else T


def _flags(
    twin: Twin,
    tracks: Mapping[str, Track],
    stood: Mapping[str, np.ndarray],
    now: Mapping[str, np.ndarray],
    how: Updating,
) -> tuple[Flag, ...]:
    free, flags = movable(twin.path()), []
    for name, found in tracks.items():
        lost = float(found.lost.mean())
        late = ~found.lost & (found.time_s >= found.time_s[-1] - how.last_s)
        misfit = float(np.median(found.residual[late])) if late.any() else 1.0
        moved = move_between(stood[name], now[name])
        if lost > how.most_lost or not late.any():
            flags.append(Flag(name, "lost", max(lost, float(not late.any())), how.most_lost))
        elif misfit > how.most_misfit:
            flags.append(Flag(name, "misfit", misfit, how.most_misfit))
        elif moved.any() and name not in free:
            flags.append(Flag(name, "fixed", float(np.linalg.norm(moved[:3])), how.moved_m))
    return tuple(flags)


def _background_flags(clips: Sequence[Clip], everything: Splats, how: Updating) -> tuple[Flag, ...]:
    """Cameras whose last picture, exposure evened, differs from the whole updated twin in too many pixels."""
    flags = []
    for clip in clips:
        last = sight_of(clip, len(clip) - 1, everything).exposed()
        assert last.colour is not None
        assert last.plate is not None
        assert last.gain is not None
        off = np.abs(last.colour - last.plate * last.gain).max(axis=-1) > how.background_differs
        seen = ~last.hidden
        share = float(off[seen].mean()) if seen.any() else 0.0
        if share > how.most_differing:
            flags.append(Flag(f"camera {clip.camera}", "background", share, how.most_differing))
    return tuple(flags)


def _made(
    twin: Twin, splats: Splats, poses: Mapping[str, np.ndarray], stood: Mapping[str, np.ndarray], folder: Path
) -> Path:
    """The twin's files in the new folder, with objects and their splats where they are now."""
    if any(folder.iterdir()):
        raise TwinError(f"{folder} is not empty. An updated twin is made in an empty folder: name another one.")
    for name in twin.files:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(twin.path(name), target)
    (folder / "scene.xml").write_text(moved_scene(twin.path(), poses), encoding="utf-8")
    moves = {name: T @ np.linalg.inv(stood[name]) for name, T in poses.items()}
    write_ply(folder / "splats.ply", _relocated(twin, splats, moves))
    return folder


def _audit(
    tracks: Mapping[str, Track], moves: Mapping[str, np.ndarray], flags: Sequence[Flag], how: Updating
) -> dict[str, Json]:
    """All of it for the twin: thresholds, flags, and each object's poses over time with their errors."""
    objects: dict[str, Json] = {}
    for name, found in tracks.items():
        objects[name] = {
            **track_json(found),
            "moved": np.round(moves[name], 6).tolist() if name in moves else [],
        }
    allowed: dict[str, Json] = {
        "moved_m": how.moved_m, "moved_rad": how.moved_rad, "squared_errors": SURE, "misfit": how.most_misfit,
        "lost": how.most_lost, "background_differs": how.background_differs, "differing": how.most_differing,
    }  # fmt: skip
    return {"objects": objects, "thresholds": allowed, "flags": [flag.sentence for flag in flags]}
