"""Joint refinement with physics as a block: an object's poses are simulated, and all that shapes them fitted at once.

What comes out goes into the twin as a start for `identify`, and is never its prior: it is declared with how it came.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.nouns.artifact import read_arrays, write_arrays
from twinproof.nouns.errors import TwinError
from twinproof.nouns.files import read_json, write_json
from twinproof.nouns.hashing import Json
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.theta import Theta
from twinproof.reconstruct.calibration_block import FoundRobot
from twinproof.reconstruct.couple import Coupled, Coupling, Seen, couple
from twinproof.reconstruct.motion_block import FIELDS, FoundMotion
from twinproof.sim.handled import Handling, qpos_of
from twinproof.sim.track_fit import Pixels
from twinproof.sim.track_pose import Track

if TYPE_CHECKING:
    from twinproof.nouns.clip import Clip
    from twinproof.reconstruct.robot_frames import Angles
    from twinproof.sim.scene import Scene

FORMAT = "twinproof/reconstruct-joint/2"
DARKEST = 0.5  # a shadow leaves so much of the light, at least


@dataclass(frozen=True, eq=False)
class FoundJoint:
    """What moving the object told. `start` are parameters by id, `sd` their errors (of the logarithm, if it has one).

    `cameras` are T_world_camera as this episode alone would have them: the twin keeps calibration's, which all episodes
    made. The cost fell from `first_cost` to `cost`.
    """

    name: str
    episode: str
    track: Track
    start: Mapping[str, float]
    sd: Mapping[str, float]
    cameras: Mapping[str, np.ndarray]
    first_cost: float
    cost: float
    moves: int
    weak: tuple[str, ...]
    scale: float = 1.0  # of the object as the pictures have it, over what it began with

    def save(self, folder: Path) -> None:
        """Writes joint.json and joint.npz."""
        write_arrays(folder / "joint.npz", {name: np.asarray(getattr(self.track, name)) for name in FIELDS})
        head = {
            "name": self.name,
            "episode": self.episode,
            "start": dict(self.start),
            "sd": dict(self.sd),
            "cameras": {name: T.tolist() for name, T in self.cameras.items()},
            "first_cost": self.first_cost,
            "cost": self.cost,
            "moves": self.moves,
            "weak": list(self.weak),
            "scale": self.scale,
        }
        write_json(folder / "joint.json", {"format": FORMAT, **head})

    @classmethod
    def load(cls, folder: Path) -> FoundJoint:
        """Reads it back."""
        head: Any = dict(read_json(folder / "joint.json", FORMAT, TwinError))
        arrays = read_arrays(folder / "joint.npz", TwinError)
        track = Track(*(arrays[name] for name in FIELDS))
        cameras = {name: np.array(T) for name, T in head["cameras"].items()}
        return cls(
            head["name"], head["episode"], track, head["start"], head["sd"], cameras, head["first_cost"],
            head["cost"], head["moves"], tuple(head["weak"]), head["scale"],
        )  # fmt: skip

    @property
    def theta(self) -> Theta:
        """Where `identify` starts."""
        return Theta(dict(self.start))

    @property
    def sentence(self) -> str:
        """What was done, for the twin's notes."""
        values = ", ".join(f"{id} = {value:.4g}" for id, value in self.start.items() if not id.endswith(".offset"))
        return (
            f"joint refinement of {self.name} over episode {self.episode[:8]}: cost {self.first_cost:.0f} to "
            f"{self.cost:.0f} in {self.moves} moves, scale {self.scale:.4f}; {values} are a start for identify, "
            "declared, and no prior"
        )

    def as_json(self) -> dict[str, Json]:
        """For the twin's audits: values, errors, costs, and the object's poses over time."""
        return {
            "episode": self.episode,
            "start": dict(self.start),
            "sd": dict(self.sd),
            "cost": [self.first_cost, self.cost],
            "scale": self.scale,
            "time_s": np.round(self.track.time_s, 4).tolist(),
            "pose": [np.round(qpos_of(T), 6).tolist() for T in self.track.T_world_object],
            "sd_m": np.round(self.track.sd_m, 6).tolist(),
            "sd_rad": np.round(self.track.sd_rad, 6).tolist(),
            "cameras": {name: np.round(T, 6).tolist() for name, T in self.cameras.items()},
        }


def found_joint(
    scene: Scene,
    motion: FoundMotion,
    clips: Sequence[Clip],
    angles: Angles,
    found: FoundRobot,
    joints: tuple[str, ...],
    tracks: Sequence[Track] = (),
    progress: Progress = quiet,
) -> FoundJoint:
    """One episode refined together. `angles` are the encoders' less the offsets found; `scene` has the object free.

    `tracks` are poses of it that the recording holds (recorded_track).
    """
    if not motion.moves:
        raise TwinError(
            f"{motion.name} hardly moves in episode {motion.episode[:8]}: there is no motion to refine together with. "
            "Leave it out with --no-joint, or record an episode in which the robot pushes it."
        )
    plates = {name: plate.astype(np.float32) / 255 for name, plate in motion.plates.items()}
    seen = Seen(tuple(clips), plates, motion.splats, Pixels(darkest=DARKEST))
    low, high = _span(motion.track, angles)
    inside = (angles.time_s >= low) & (angles.time_s <= high)
    handling = Handling(scene.leaner(), motion.name, joints, angles.time_s[inside], angles.value[inside])
    ids = (f"body.{motion.name}.friction_slide", f"body.{motion.name}.mass")
    done = couple(handling, seen, motion.track, ids, _believed(found), tracks=tracks, progress=progress)
    return _told(motion, done)


def _span(track: Track, angles: Angles) -> tuple[float, float]:
    """The times that pictures and joints both cover."""
    good = track.time_s[~track.lost]
    if len(good) < 2:
        raise TwinError("the object is lost in nearly all pictures: nothing can be refined together. See the masks.")
    return max(float(good[0]), float(angles.time_s[0])), min(float(good[-1]), float(angles.time_s[-1]))


def _believed(found: FoundRobot) -> Coupling:
    """What calibration states of cameras and offsets is what refinement believes beforehand."""
    shift = np.mean([c.mount.position_sd_m for c in found.cameras.values()]) / np.sqrt(3)
    turn = np.mean([c.mount.rotation_sd_rad for c in found.cameras.values()]) / np.sqrt(3)
    offset = np.mean(list(found.offset_sd.values())) if found.offset_sd else Coupling.offset_sd_rad
    size = np.mean([c.focal_sd for c in found.cameras.values()])  # a longer lens makes all that it shows smaller
    return Coupling(
        camera_sd_m=float(shift), camera_sd_rad=float(turn), offset_sd_rad=float(offset), scale_sd=float(size)
    )


def _told(motion: FoundMotion, done: Coupled) -> FoundJoint:
    start = {id: float(value) for id, value in done.start.items()}
    first, last = (float(sum(each.values())) for each in (done.first_cost, done.cost))
    return FoundJoint(
        motion.name, motion.episode, done.track, start, {id: float(sd) for id, sd in done.sd.items()},
        dict(done.cameras), first, last, done.moves, done.weak, float(done.scale),
    )  # fmt: skip
