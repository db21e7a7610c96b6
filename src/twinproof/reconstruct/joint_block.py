"""Joint refinement with physics as a block: an object's poses are simulated, and all that shapes them fitted at once.

What comes out goes into the twin as a start for `identify`, and is never its prior: it is declared with how it came.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import block_diag

from twinproof.nouns.artifact import read_arrays, write_arrays
from twinproof.nouns.errors import TwinError
from twinproof.nouns.files import read_json, write_json
from twinproof.nouns.hashing import Json
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.theta import Theta
from twinproof.reconstruct.calibration_block import FoundRobot
from twinproof.reconstruct.couple import Coupled, Coupling, Seen, couple
from twinproof.reconstruct.couple_normal import Shared
from twinproof.reconstruct.motion_block import FIELDS, FoundMotion
from twinproof.reconstruct.object_block import FoundObject
from twinproof.reconstruct.touch_felt import felt
from twinproof.sim.handled import Handling, qpos_of
from twinproof.sim.track_fit import Pixels
from twinproof.sim.track_pose import Track

if TYPE_CHECKING:
    from jaxtyping import Float

    from twinproof.nouns.clip import Clip
    from twinproof.reconstruct.robot_frames import Angles
    from twinproof.sim.scene import Scene

FORMAT = "twinproof/reconstruct-joint/3"
DARKEST = 0.5  # a shadow leaves so much of the light, at least
LEAST_SD_M, LEAST_SD_RAD = 2e-4, 2e-4  # of a camera, however sure calibration is
NO_TORQUES = "torques of touch are not part of it: none were recorded"


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
    scale: float = 1.0  # of the object as the pictures have it, over what it began with: `shape`, if there is one
    shape: FoundObject | None = None  # with vertices and looks that were refined by turns with the poses
    reshaped: str = ""  # how far vertices moved, or why they did not
    torques: str = ""  # whether those of touch joined, or why they did not

    def save(self, folder: Path) -> None:
        """Writes joint.json, joint.npz, and the folder shape where vertices moved."""
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
            "reshaped": self.reshaped,
            "torques": self.torques,
        }
        write_json(folder / "joint.json", {"format": FORMAT, **head})
        if self.shape is not None:
            (folder / "shape").mkdir(exist_ok=True)
            self.shape.save(folder / "shape")

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
            FoundObject.load(folder / "shape") if (folder / "shape").is_dir() else None, head["reshaped"],
            head["torques"],
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
            "declared, and no prior" + "".join(f"; {said}" for said in (self.reshaped, self.torques) if said)
        )

    def as_json(self) -> dict[str, Json]:
        """For the twin's audits: values, errors, costs, and the object's poses over time."""
        return {
            "episode": self.episode,
            "start": dict(self.start),
            "sd": dict(self.sd),
            "cost": [self.first_cost, self.cost],
            "scale": self.scale,
            "reshaped": self.reshaped,
            "torques": self.torques,
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
    torque: Float[np.ndarray, "T J"] | None = None,
    progress: Progress = quiet,
) -> FoundJoint:
    """One episode refined together. `angles` are the encoders' less the offsets found; `scene` has the object free.

    `tracks` are poses of it that the recording holds (recorded_track), `torque` are those of the joints at the times of
    the angles (recorded_torques).
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
    how = _believed(found)
    touch, said = None, NO_TORQUES
    if torque is not None:
        touch, said = felt(handling.scene, joints, angles, torque, motion.track, how.segment_s)
    done = couple(
        handling, seen, motion.track, ids, how, tracks=tracks, touch=touch, progress=progress,
        shared=calibrated(found, [clip.camera for clip in clips], joints, how),
    )  # fmt: skip
    return replace(_told(motion, done), torques=said)


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


def calibrated(found: FoundRobot, cameras: Sequence[str], joints: Sequence[str], how: Coupling) -> Shared:
    """What calibration knows of offsets and cameras, in the order and by the moves of joint refinement.

    A camera's turn and shift are known together better than each: pictures tell well where it looks at.
    """
    offset = [found.offset_sd.get(name, how.offset_sd_rad) ** -2 for name in joints]
    blocks = [np.diag(offset)]
    for name in cameras:
        camera = found.cameras[name]
        if not camera.covariance:
            blocks.append(np.diag(np.repeat([how.camera_sd_m, how.camera_sd_rad], 3) ** -2.0))
            continue
        by = np.zeros((6, 6))  # (turn in the camera's axes, shift) -> (shift, turn in the world's)
        by[:3, 3:], by[3:, :3] = np.eye(3), camera.mount.T_parent_camera[:3, :3]
        spread = by @ np.array(camera.covariance)[:6, :6] @ by.T
        blocks.append(np.linalg.inv(spread + np.diag(np.square(np.repeat([LEAST_SD_M, LEAST_SD_RAD], 3)))))
    precision = block_diag(*blocks)
    return Shared(precision, np.zeros(len(precision)))


def _told(motion: FoundMotion, done: Coupled) -> FoundJoint:
    start = {id: float(value) for id, value in done.start.items()}
    first, last = (float(sum(each.values())) for each in (done.first_cost, done.cost))
    return FoundJoint(
        motion.name, motion.episode, done.track, start, {id: float(sd) for id, sd in done.sd.items()},
        dict(done.cameras), first, last, done.moves, done.weak, float(done.scale),
    )  # fmt: skip
