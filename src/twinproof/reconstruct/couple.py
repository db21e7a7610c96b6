"""Joint refinement with physics: an object's pose over time is simulated, and all that shapes it is fitted at once.

unknown                                                     what tells of it
  where the object is at the start of each segment (x, y, yaw)   pixels around it, object tracks, the segment before
  friction, mass, … of the object (ids of the vocabulary)        how it moves when pushed, torques of that touch
  joint offsets that calibration left                            where and when the robot touches it
  cameras' poses                                                 pixels, and the error that calibration states
  what each camera always shows wrong of the object's pose       pixels against the rollout and other cameras
  the object's scale                                             pixels

Height and tilt follow from rest and contact: they are simulated, never fitted. Segments are short, since contact makes
long rollouts chaotic; a seam may jump by the process noise, so that what the model does not know bends no pose.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import ConfigError, RecordingError
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.theta import Theta
from twinproof.reconstruct.couple_look import Looks
from twinproof.reconstruct.couple_motion import Motion, Moved
from twinproof.reconstruct.couple_normal import (
    Believed,
    Equations,
    Layout,
    Measured,
    Part,
    Shared,
    assemble,
    surprise,
    told_of_shared,
    weak_sentences,
)
from twinproof.sim.handled import Handling, pose_of
from twinproof.sim.track_fit import Pixels
from twinproof.sim.track_pose import Track, nudged

if TYPE_CHECKING:
    from jaxtyping import Float

    from twinproof.nouns.clip import Clip
    from twinproof.nouns.splats import Splats
    from twinproof.sim.track_clips import Masks, Plates


PARTS: tuple[Part, ...] = ("all", "places")
WIDTHS = (1.0, 4.0, 0.3)  # of the differences' steps, in turn, as each leads no farther
TRIES = 6  # of one move: each part, then shorter
SCAN = (-0.6, -0.4, -0.2, 0.0, 0.2, 0.4, 0.6)  # moves of a parameter on its scale, tried where torques tell of it
LOOSE = (30.0, 6.0, 1.0)  # seams are first this many times wider
LOOSENED, SURPRISED = 2, 1.5  # seams that jump so many times too far are believed less, so often at most


@dataclass(frozen=True)
class Coupling:
    """How the joint problem is put and solved. Standard deviations are what is believed beforehand."""

    segment_s: float = 0.25
    pushed_sd_m: float = 0.0005  # what a seam may jump while something touches the object
    pushed_sd_rad: float = 0.006
    still_sd_m: float = 2e-5  # … and while nothing does
    still_sd_rad: float = 2e-4
    camera_sd_m: float = 0.002
    camera_sd_rad: float = 0.0035
    offset_sd_rad: float = 0.003
    parameter_sd: float = 0.4  # of the logarithm of friction, mass, …
    shows_sd_m: float = 0.001  # what each camera shows wrong alike at all times: shape, soft edges; 0: nothing
    shows_sd_rad: float = 0.05  # measured: a degree or two in each, and more of what shape and looks have wrong
    scale_sd: float = 0.0  # 0: the scale is known
    rest_sd_m: float = 0.0005  # of height and tilt, which are simulated
    rest_sd_rad: float = 0.005
    alike_s: float = 0.5  # pictures of one camera within this time err together
    moves: int = 16
    enough: float = 0.1  # a move that lowers the cost by less ends

    def loosened(self, times: float) -> Coupling:
        """The same with pushes that are known so many times less well."""
        return replace(self, pushed_sd_m=times * self.pushed_sd_m, pushed_sd_rad=times * self.pushed_sd_rad)

    def __post_init__(self) -> None:
        if not self.segment_s > 0 or self.moves < 1:
            raise ConfigError(f"coupling: segments of {self.segment_s} s, {self.moves} moves: both are positive.")


@dataclass(frozen=True, eq=False)
class Seen:
    """What the cameras recorded of the object: clips with the robot's masks, plates or background, its splats."""

    clips: tuple[Clip, ...]
    plates: Plates | Splats
    splats: Splats  # in the object's frame
    pixels: Pixels = field(default_factory=Pixels)
    masks: Masks | None = None


@dataclass(frozen=True, eq=False)
class Touch:
    """What the joints bore beyond moving the robot in free air: measured torques less the robot's own model.

    `sd` is of the mean over a segment, model errors included; 0 leaves a joint out.
    """

    time_s: Float[np.ndarray, "T"]
    torque: Float[np.ndarray, "T J"]
    sd: Float[np.ndarray, "J"]


@dataclass(frozen=True, eq=False)
class Coupled:
    """What came out. `start` is where identify begins, and never its prior.

    track        poses over time with their covariance, simulated between the seams
    start        refined parameters and joint offsets, by id
    sd           their standard errors (of the logarithm, where the parameter has one)
    cameras      T_world_camera of each camera, refined, and the standard errors of its move
    cost         by block: pixels, tracks, torques, seams, cameras, offsets, parameters, shows, scale
    weak         what the recording does not tell, in sentences
    """

    track: Track
    start: Theta
    sd: Mapping[str, float]
    cameras: Mapping[str, Float[np.ndarray, "4 4"]]
    camera_sd: Mapping[str, Float[np.ndarray, "6"]]
    scale: float
    cost: Mapping[str, float]
    first_cost: Mapping[str, float]
    weak: tuple[str, ...]
    moves: int
    told: Shared  # what this episode alone says of offsets and cameras


def couple(
    handling: Handling,
    seen: Seen | None,
    track: Track,
    parameters: Sequence[str] = (),
    how: Coupling | None = None,
    *,
    tracks: Sequence[Track] = (),
    touch: Touch | None = None,
    shared: Shared | None = None,
    progress: Progress = quiet,
) -> Coupled:
    """Refines everything together, beginning at a track of the same object (the tracker's).

    `parameters` are ids of the object's physics; they begin at the scene's values. `tracks` are further measurements of
    its pose (a tag, motion capture) that join the residual with their own covariances; without pictures (`seen` None)
    they are all that is fitted. `touch` are torques, in the order of the handling's joints.
    `shared` is what other episodes told of offsets and cameras (couple_episodes).
    """
    how = how or Coupling()
    good = ~track.lost
    if good.sum() < 2:
        raise RecordingError(
            f"the object was seen in {int(good.sum())} of {len(track)} pictures of the track that begins it; "
            "two are needed. Track it first."
        )
    motion = Motion(handling, track, tuple(parameters), how.segment_s, _times(seen, tracks))
    sized = how.scale_sd > 0 and seen is not None
    looks = Looks(seen.clips, seen.plates, seen.splats, seen.pixels, seen.masks, scale=sized) if seen else None
    shown = min(how.shows_sd_m, how.shows_sd_rad) > 0 and seen is not None
    cameras = len(seen.clips) if seen else 0
    layout = Layout(motion.segments, len(parameters), len(handling.joints), cameras, sized, shown)
    if touch is not None and touch.torque.shape != (len(touch.time_s), len(handling.joints)):
        raise RecordingError(
            f"torques of touch have the shape {touch.torque.shape}; needed are {len(touch.time_s)} rows, one for "
            f"each time, and {len(handling.joints)} columns, one for each joint."
        )
    load = None if touch is None else motion.loads(touch.time_s, touch.torque)
    told = Measured(tracks, sum(map(len, seen.clips)) if seen else 0, load, None if touch is None else touch.sd)
    state = _State(motion, looks, layout, how, told, shared)
    begun = state.before(layout.zero(), motion.nodes, track)
    first = state.at(begun.values, begun.moved.nodes)
    here, moves = _descend(state.at, first, layout, motion, how.moves, how.enough, progress)
    for _ in range(LOOSENED):
        more = surprise(here.moved, state.how)
        if more < SURPRISED:
            break
        state = replace(state, how=state.how.loosened(more))
        here, again = _descend(state.at, state.at(here.values, here.moved.nodes), layout, motion, how.moves, how.enough)
        moves += again
    return _finished(state, here, first, moves)


def _descend(
    at: Callable[[np.ndarray, np.ndarray, float], _Here],
    here: _Here,
    layout: Layout,
    motion: Motion,
    moves: int,
    enough: float,
    progress: Progress = quiet,
) -> tuple[_Here, int]:
    """Levenberg-Marquardt. Contact is not smooth: a move that fails is tried for places alone, then shorter, and then
    with slopes over wider and narrower steps. Slopes are taken after a move that lowers the cost."""
    damping, move, width = 1e-3, 0, 0
    for move in range(1, moves + 1):
        progress(move, f"joint refinement, cost {here.total:.1f}", moves)
        before = here.total
        for tried in range(TRIES):
            step = layout.held(layout.step(here.equations, damping, PARTS[tried % 2]))
            values, nodes = here.values + layout.shared(step), motion.stepped(here.moved, layout.nodes(step))
            if at(values, nodes, 0.0).total < here.total:
                here, damping = at(values, nodes, WIDTHS[width]), max(damping / 5, 1e-7)
                break
            damping *= 10 if tried % 2 == 1 else 1
        if before - here.total < enough:
            width += 1
            if width == len(WIDTHS):
                break
            here, damping = at(here.values, here.moved.nodes, WIDTHS[width]), 1e-3
    return here, move


@dataclass(frozen=True, eq=False)
class _Here:
    """One point of the search."""

    values: np.ndarray  # shared unknowns: parameters, offsets, cameras, scale, as moves from where they began
    moved: Moved
    equations: Equations
    total: float


@dataclass(frozen=True, eq=False)
class _State:
    motion: Motion
    looks: Looks | None
    layout: Layout
    how: Coupling
    measured: Measured
    shared: Shared | None

    def believed(self, values: np.ndarray) -> Believed:
        """What is believed of the shared unknowns, seen from these values."""
        return Believed(self._sd(), values, self.shared)

    def at(self, values: np.ndarray, nodes: np.ndarray, wide: float = 1.0) -> _Here:
        """Rolls out, looks, and writes the normal equations."""
        parameters, offsets, cameras, shows, scale = self.layout.split(values)
        moved = self.motion.roll(nodes, parameters, offsets, wide)
        told = self.looks.pulls(moved, cameras, shows, 1.0 + scale) if self.looks else None
        equations = assemble(self.layout, moved, told, self.believed(values), self.how, self.measured)
        return _Here(values, moved, equations, float(sum(equations.cost.values())))

    def before(self, values: np.ndarray, nodes: np.ndarray, track: Track) -> _Here:
        """A rollout that follows the track, from wide seams to narrow ones: where pictures begin to count."""
        followed = replace(self.measured, tracks=(track,), first_row=int(self.motion.track_rows[0]))
        here: _Here | None = None
        for loose in LOOSE:

            def at(values: np.ndarray, nodes: np.ndarray, wide: float = 1.0, loose: float = loose) -> _Here:
                parameters, offsets, *_ = self.layout.split(values)
                moved = self.motion.roll(nodes, parameters, offsets, wide)
                equations = assemble(self.layout, moved, None, self.believed(values), self.how, followed, loose)
                return _Here(values, moved, equations, float(sum(equations.cost.values())))

            if here is None and self.measured.load is not None:
                values = self._scanned(at, values, nodes)
            here = at(values, nodes) if here is None else at(here.values, here.moved.nodes)
            here, _ = _descend(at, here, self.layout, self.motion, 2, 1.0)
        assert here is not None
        return here

    def _scanned(self, at: Callable[..., _Here], values: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """Parameters, one after the other, at the best of some values: slopes of a touch reach not far."""
        for p in range(self.layout.parameters):
            tried = [values + move * np.eye(len(values))[p] for move in SCAN]
            values = min(tried, key=lambda each: at(each, nodes, 0.0).total)
        return values

    def _sd(self) -> np.ndarray:
        return self.layout.sd(self.how)


def _times(seen: Seen | None, tracks: Sequence[Track]) -> np.ndarray:
    clips = seen.clips if seen else ()
    if not clips and not tracks:
        raise RecordingError("coupling was given neither clips nor tracks. Give what was seen of the object.")
    return np.concatenate([*(clip.time_s for clip in clips), *(each.time_s for each in tracks)])


def _finished(state: _State, here: _Here, first: _Here, moves: int) -> Coupled:
    layout, motion = state.layout, state.motion
    covariance = np.linalg.inv(here.equations.hessian)
    spread = np.sqrt(np.diag(covariance))
    parameters, offsets, cameras, _, scale = layout.split(here.values)
    sd_parameters, sd_offsets, sd_cameras, *_ = layout.split(spread[layout.first_shared :])
    joints = motion.handling.joints
    start = motion.theta(parameters) | {
        f"joint.{name}.offset": -float(o) for name, o in zip(joints, offsets, strict=True)
    }
    sd = dict(zip(motion.parameters, map(float, sd_parameters), strict=True))
    sd |= {f"joint.{name}.offset": float(s) for name, s in zip(joints, sd_offsets, strict=True)}
    clips = state.looks.clips if state.looks else ()
    names = [clip.camera for clip in clips]
    placed = {clip.camera: nudged(clip.T_world_camera[0], cameras[c]) for c, clip in enumerate(clips)}
    return Coupled(
        _track(state, here, covariance),
        start,
        sd,
        placed,
        {name: sd_cameras[c] for c, name in enumerate(names)},
        1.0 + scale,
        here.equations.cost,
        first.equations.cost,
        weak_sentences(layout, motion, here.moved, names, covariance, state.how),
        moves,
        told_of_shared(layout, here.equations, state.believed(here.values)),
    )


def _track(state: _State, here: _Here, covariance: np.ndarray) -> Track:
    """Poses at the times of the track that began it, from the rollout, and what is known of each."""
    at = state.motion.track_rows
    moved, layout = here.moved, state.layout
    poses = pose_of(moved.qpos[at])
    spread = np.empty((len(at), 6, 6))
    rest = np.diag(np.square([1e-5, 1e-5, state.how.rest_sd_m, *[state.how.rest_sd_rad] * 2, 1e-4]))
    for i, row in enumerate(at):
        J = layout.row(moved, int(row))
        spread[i] = J @ covariance @ J.T + rest
    began = state.motion.track
    return replace(began, T_world_object=poses, covariance=spread, lost=np.zeros(len(at), bool))
