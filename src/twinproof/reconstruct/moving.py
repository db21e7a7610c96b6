"""What an object's own motion tells: physics where it is handled, a joint where it is held by one."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import ConfigError, RecordingError, SimError, TwinError
from twinproof.nouns.hashing import content_hash
from twinproof.nouns.parts import Calibration
from twinproof.nouns.progress import Progress
from twinproof.nouns.store import Store
from twinproof.reconstruct.articulation import Articulation, Kind, articulation
from twinproof.reconstruct.assemble import Room, Thing, write_scene
from twinproof.reconstruct.clips import clips_of, offsets_of
from twinproof.reconstruct.collision import Decomposing
from twinproof.reconstruct.joint_block import FORMAT as JOINT_FORMAT
from twinproof.reconstruct.joint_block import FoundJoint, found_joint
from twinproof.reconstruct.joint_shape import resized, together
from twinproof.reconstruct.joint_world import with_cameras
from twinproof.reconstruct.motion_block import MOVED_M, FoundMotion, found_motion
from twinproof.reconstruct.object_parts import Making
from twinproof.reconstruct.recorded_track import recorded_track
from twinproof.reconstruct.robot_frames import Angles, joint_angles
from twinproof.reconstruct.touch_felt import recorded_torques
from twinproof.sim.grid import Plane
from twinproof.sim.scene import Scene

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twinproof.nouns.clip import Clip
    from twinproof.nouns.episode import Episode
    from twinproof.reconstruct.calibration_block import FoundCamera
    from twinproof.reconstruct.object_block import FoundObject, Shaping
    from twinproof.sim.track_pose import Track

NOT_REFINED = "no joint refinement with physics"
MOST = 3  # episodes that are looked through for one in which the object moves
NO_TURN_RAD = 1.0  # an error of turns with which they count for nothing
ROLLED = Making(cut_faces=600, decomposing=Decomposing(threshold=0.07, most_parts=12))  # for rollouts
LEAST_SD_M, LEAST_SD_RAD = 0.001, 0.01  # of a tracked pose, whatever the tracker states: cameras are off by more


@dataclass(frozen=True, eq=False)
class Workbench:
    """Where an object's motion is looked for: the recording, what was calibrated, and the episode of its shape."""

    calibration: Calibration
    room: Room
    shaped_in: Episode
    store: Store
    key: str  # of the object
    progress: Progress

    def episodes(self, thing: FoundObject) -> list[Episode]:
        """Other episodes with the same object first; then its own, if it moved there.

        Without a robot's model its own alone: elsewhere what moves may be the robot, and nothing points at the object.
        """
        label = self.shaped_in.labels.get("object") if self.room.robot is not None else None
        same = [e for e in self.calibration.recording.episodes if label and e.labels.get("object") == label]
        others = [e for e in same if e.id != self.shaped_in.id]
        return [*others, *([self.shaped_in] if thing.went_m > MOVED_M else [])][:MOST]

    def clips(self, episode: Episode) -> tuple[Clip, ...]:
        """What the still cameras saw."""
        rig = self.calibration.recording.rig
        return tuple(clips_of(episode.fresh(), rig, self.room.found, self.room.robot).values())

    def motion(self, thing: FoundObject, shaping: Shaping, table: Plane | None) -> tuple[FoundMotion, Episode] | None:
        """The first episode in which it moves; None where there is none."""
        for episode in self.episodes(thing):
            prompts = shaping.prompts if episode.id == self.shaped_in.id else None

            def make(episode: Episode = episode, prompts: object = prompts) -> FoundMotion:
                clips = {clip.camera: clip for clip in self.clips(episode)}
                asked = shaping.prompts if prompts is not None else None
                return found_motion(clips, thing, episode.id, table, asked, shaping.segmenter, self.progress)

            key = content_hash([self.key, episode.id, "upright" if table is None else "stands", "motion"])
            found = self.store.once(key, make, FoundMotion)
            if found.moves:
                return found, episode
        return None


def refined(bench: Workbench, thing: FoundObject, shaping: Shaping) -> tuple[Thing, tuple[str, ...]]:
    """The object with what joint refinement told, where a calibration episode shows it handled; and what to say.

    An object that cannot be followed or refined is still an object: the twin says why it was not.
    """
    try:
        found = bench.motion(thing, shaping, bench.room.table)
        if found is None:
            return Thing(thing), (f"{NOT_REFINED}: {thing.name} is handled in no calibration episode",)
        motion, episode = found
        rig = bench.calibration.recording.rig
        told, said = recorded_track(episode.fresh(), rig, thing.name, motion.track)
        key = content_hash([bench.key, episode.id, repr(bench.room.physical), JOINT_FORMAT])
        moved = bench.store.once(key, lambda: _refined(bench, thing, motion, episode, told), FoundJoint)
    except (ConfigError, RecordingError, SimError, TwinError) as problem:
        return Thing(thing), (f"{NOT_REFINED}: {problem}",)
    notes = (*motion.notes, *((said,) if said else ()), *_hint(motion, _size_m(thing)))
    return Thing(resized(moved.shape or thing, moved.scale), moved=moved), notes


def _refined(
    bench: Workbench, thing: FoundObject, motion: FoundMotion, episode: Episode, told: Track | None
) -> FoundJoint:
    rig, room = bench.calibration.recording.rig, bench.room
    raw = joint_angles(episode.fresh(), rig)
    angles = Angles(raw.time_s, raw.value - offsets_of(rig, room.found))
    clips, tracks = bench.clips(episode), () if told is None else (told,)
    torque, silent = recorded_torques(episode.fresh(), rig, raw.time_s)

    def refine(thing: FoundObject, motion: FoundMotion) -> FoundJoint:
        with tempfile.TemporaryDirectory() as scratch:
            write_scene(room, [Thing(thing)], Path(scratch), ROLLED)
            scene = Scene.read(Path(scratch) / "scene.xml")
            joint = found_joint(
                scene, motion, clips, angles, room.found, rig.joint_names, tracks, torque, bench.progress
            )
            return replace(joint, torques=silent or joint.torques)

    return together(thing, motion, clips, room.table, refine, bench.progress)


def jointed(bench: Workbench, thing: FoundObject, shaping: Shaping) -> tuple[Thing, tuple[str, ...]]:
    """The object held by the joint that its motion shows."""
    found = bench.motion(thing, shaping, None)
    if found is None:
        raise TwinError(
            f"--joint-of {thing.name}: it moves in none of the calibration episodes that show it, so no joint can be "
            "told. Record it being opened, or leave --joint-of out."
        )
    motion, _ = found
    return held_by(thing, motion, bench.room.found.cameras), motion.notes


def held_by(thing: FoundObject, motion: FoundMotion, cameras: Mapping[str, FoundCamera]) -> Thing:
    """The object with the joint that explains its motion; refused where none does. The cameras' errors are in its."""
    joint = with_cameras(joint_of(motion, _size_m(thing)), cameras)
    if joint.kind not in (Kind.SLIDE, Kind.HINGE):
        raise TwinError(f"--joint-of {thing.name}: {joint.reason} Leave --joint-of out to have it stand free.")
    return Thing(replace(thing, T_world_object=joint.T_parent_body), joint)


def _size_m(thing: FoundObject) -> float:
    return float(np.ptp(thing.mesh.vertices, axis=0).max())


def joint_of(motion: FoundMotion, size_m: float) -> Articulation:
    """The joint that explains a track, with the errors that the tracker states, and no less than cameras leave.

    A hinge lies on the thing that it holds. One that seems farther away than the thing is long (`size_m`) is a turn of
    a thing that slides, tracked badly: then turns do not count.
    """
    good = ~motion.track.lost
    poses = motion.track.T_world_object[good]
    turn = np.maximum(motion.track.sd_rad[good] / np.sqrt(3), LEAST_SD_RAD)
    shift = np.maximum(motion.track.sd_m[good] / np.sqrt(3), LEAST_SD_M)
    found = articulation(poses, turn, shift)
    if found.kind is Kind.HINGE and found.origin is not None and found.axis is not None:
        arm = found.T_parent_body[:3, 3] - found.origin
        if np.linalg.norm(arm - (arm @ found.axis) * found.axis) > size_m:
            return articulation(poses, np.full(len(poses), NO_TURN_RAD), shift, hinges=False)
    return found


def _hint(motion: FoundMotion, size_m: float) -> tuple[str, ...]:
    """A thing that moves on one axis may be held by a joint: a person knows, a track does not."""
    if int((~motion.track.lost).sum()) < 8:
        return ()
    found = joint_of(motion, size_m)
    if found.kind not in (Kind.SLIDE, Kind.HINGE):
        return ()
    return (
        f"{motion.name} moved like a {found.kind} in episode {motion.episode[:8]}: if something holds it, say "
        f"--joint-of {motion.name}",
    )
