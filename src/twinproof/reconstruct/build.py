"""A Twin from a Calibration part: the blocks in order, each kept in a work folder so that a stopped run goes on.

calibrate   the robot's pictures         -> cameras, clocks, joint offsets
hands       the table's pictures         -> cameras that ride on a link
boards      tags and chessboards         -> the cameras that see them, where the user names some
object      masks, hull, refined surface -> mesh and surfels; the background behind it -> surfels
motion      the object followed          -> its pose over time, in an episode in which it moves
joint       a rollout and all pictures   -> poses, friction, mass; or the joint of a drawer, a door, a lid
assemble    robot + table + object       -> scene.xml, splats.ply, collision parts, audits -> Twin
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from twinproof import __version__
from twinproof.nouns.errors import ConfigError, TwinError
from twinproof.nouns.hashing import content_hash, hash_file
from twinproof.nouns.ledger import LedgerHead
from twinproof.nouns.parts import Calibration
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.store import Store
from twinproof.nouns.strict import plain
from twinproof.nouns.twin import Twin
from twinproof.reconstruct.assemble import Physical, Room, Thing, assembled
from twinproof.reconstruct.board_block import Board, FoundBoards, found_boards
from twinproof.reconstruct.calibration_block import FORMAT as CALIBRATION_FORMAT
from twinproof.reconstruct.calibration_block import FoundRobot, found_robot, robot_of
from twinproof.reconstruct.clips import clips_of, hand_clip, offsets_of
from twinproof.reconstruct.depth_beside import depth_notes
from twinproof.reconstruct.given import given_room, turned
from twinproof.reconstruct.hand_block import FoundHands, found_hands
from twinproof.reconstruct.moving import Workbench, jointed, refined
from twinproof.reconstruct.object_block import FORMAT as OBJECT_FORMAT
from twinproof.reconstruct.object_block import FoundObject, Shaping, found_object
from twinproof.reconstruct.robot_frames import joint_angles
from twinproof.sim.grid import Plane
from twinproof.sim.scene import Scene
from twinproof.sim.splat.placed import placed

if TYPE_CHECKING:
    from twinproof.nouns.episode import Episode
    from twinproof.nouns.rig import Rig

RIDING_FRAMES = 60  # pictures of a riding camera that show the object
OBJECT = "object"  # its name in the scene where neither a prompt nor a label names it


@dataclass(frozen=True)
class Building:
    """What a reconstruction is asked to do; what no picture tells is declared here."""

    object: str = ""  # the label of the object; "": of the episode in which a riding camera goes farthest
    table: Plane = field(default_factory=Plane)
    physical: Physical = field(default_factory=Physical)
    shaping: Shaping = field(default_factory=lambda: Shaping(background=800))
    pictures: int = 40  # of the robot, by each still camera
    boards: tuple[Board, ...] = ()
    joint: bool = True  # refine together with physics, where the object is handled
    joint_of: str = ""  # the object is held by a joint (a drawer, a door), and is called so
    scale: float = 1.0  # a hand-made correction of the object's size; declared
    place_m: tuple[float, float, float] = (0.0, 0.0, 0.0)  # … and of its place

    def __post_init__(self) -> None:
        if not 0.1 <= self.scale <= 10:
            raise ConfigError(f"--scale {self.scale} is no correction of a size. Give a factor near 1.")


def built(
    calibration: Calibration,
    robot_model: Path | None,
    how: Building,
    work: Path,
    folder: Path,
    *,
    progress: Progress = quiet,
    ledger: LedgerHead | None = None,
) -> Twin:
    """The Twin, its files in an empty `folder`. What is already in `work` is not made again.

    Without a robot's model cameras are as the rig gives them, and objects are all that is found.
    """
    store = Store(work)
    room, key, notes = room_of(calibration, robot_model, how, store, progress)
    episode = episode_with(calibration, how.object, room)
    found = objects_of(calibration, episode, room, how, Kept(store, key, progress))
    asked, thing = next(iter(found.items()))
    bench = Workbench(calibration, room, episode, store, asked, progress)
    if how.joint_of:
        whole, said = jointed(bench, thing, how.shaping)
    elif room.robot is None:
        whole, said = turned(bench, thing, how.shaping)
    elif how.joint:
        whole, said = refined(bench, thing, how.shaping)
    else:
        whole, said = Thing(thing), ("no joint refinement with physics: it was switched off",)
    whole, by_hand = corrected(whole, how)
    more = [Thing(each) for each in list(found.values())[1:]]
    table = f"the table is the plane {_words(how.table)}: declared"
    left = tuple(f"{each.found.name} stands as it was found: {thing.name} alone was followed" for each in more)
    return assembled(
        room, [whole, *more], calibration, folder, notes=(table, *notes, *said, *by_hand, *left), ledger=ledger
    )


@dataclass(frozen=True, eq=False)
class Kept:
    """Where finished blocks are kept, the key of all that went before, and who is told how far it is."""

    store: Store
    key: str
    progress: Progress


def objects_of(
    calibration: Calibration, episode: Episode, room: Room, how: Building, kept: Kept
) -> dict[str, FoundObject]:
    """Every object that is asked for, by its key, the one that is followed first; the first brings the background."""
    found = dict[str, FoundObject]()
    for k, name in enumerate(_names(how, episode)):
        own = how if k == 0 else replace(how, shaping=replace(how.shaping, background=0))
        key = content_hash([kept.key, episode.id, name, _told(own.shaping), OBJECT_FORMAT])

        def make(name: str = name, own: Building = own) -> FoundObject:
            return _object(episode, calibration, room, own, name, kept.progress)

        found[key] = kept.store.once(key, make, FoundObject)
    return found


def room_of(
    calibration: Calibration, robot_model: Path | None, how: Building, store: Store, progress: Progress
) -> tuple[Room, str, tuple[str, ...]]:
    """Robot and cameras, calibrated or given; the key of all that decided them; and what to say."""
    if robot_model is None:
        key = content_hash([calibration.hash, __version__, plain(how.table), "given"])
        return given_room(calibration, how.table, how.physical), key, ()
    scene, rig = Scene.read(robot_model), calibration.recording.rig
    if rig.model is not None and rig.model.hash and rig.model.hash != hash_file(robot_model):
        raise TwinError(
            f"{robot_model} is not the robot's model that rig.toml states: its hash is {hash_file(robot_model)[:16]}, "
            f"stated is {rig.model.hash[:16]}. Name the right file, or ingest again with the new one."
        )
    robot = robot_of(scene, rig)
    key = content_hash([calibration.hash, hash_file(robot_model), __version__, how.pictures, CALIBRATION_FORMAT])
    found = store.once(key, lambda: found_robot(calibration, robot, how.pictures, progress)[0], FoundRobot)
    key = content_hash([key, plain(how.table), "hands"])
    hands = store.once(key, lambda: found_hands(calibration, robot, found, how.table, progress), FoundHands)
    room = Room(scene, robot, found, hands.cameras, how.table, how.physical)
    if not how.boards:
        return room, key, hands.notes
    key = content_hash([key, plain(how.boards), "boards"])
    seen = store.once(key, lambda: found_boards(calibration, room, how.boards, progress), FoundBoards)
    return seen.applied(room), key, (*hands.notes, *seen.notes)


def _object(
    episode: Episode, calibration: Calibration, room: Room, how: Building, name: str, progress: Progress
) -> FoundObject:
    fresh, rig = episode.fresh(), calibration.recording.rig
    clips = clips_of(fresh, rig, room.found, room.robot, progress=progress)
    for each, camera in room.riding.items():
        if each in fresh.videos:
            every = max(1, len(fresh.videos[each]) // RIDING_FRAMES)
            assert room.robot is not None, "nothing rides without one"
            clips[each] = hand_clip(fresh, rig, each, camera, room.robot, room.found, how.table, every)
    notes = (f"from episode {episode.id[:8]}", *depth_notes(rig, fresh, tuple(clips)))
    return replace(found_object(clips, name, how.table, how.shaping, notes, progress), episode=episode.id)


def episode_with(calibration: Calibration, label: str, room: Room) -> Episode:
    """The episode with this object, or any, in which a riding camera goes farthest; without one, the longest."""
    episodes = calibration.recording.episodes
    known = sorted({e.labels["object"] for e in episodes if "object" in e.labels})
    fitting = [e for e in episodes if not label or e.labels.get("object") == label]
    if not fitting:
        raise TwinError(
            f"no calibration episode has the object {label!r}; there are {', '.join(known) or 'none'}. Name "
            "one of these with --object."
        )
    rig, robot = calibration.recording.rig, room.robot

    def way_m(episode: Episode) -> float:
        riding = [_link(rig, name) for name in room.riding if name in episode.videos]
        if robot is None or not riding:
            return 0.0
        own = [robot.fine.splats.groups.index(link) for link in riding]
        rows = joint_angles(episode.fresh(), rig).value[::5] - offsets_of(rig, room.found)
        places = np.stack([robot.poses.at(row)[own, :3, 3] for row in rows])
        return float(np.linalg.norm(np.diff(places, axis=0), axis=2).sum())

    return max(fitting, key=lambda e: (round(way_m(e), 3), e.span_s[1] - e.span_s[0], e.id))


def _link(rig: Rig, camera: str) -> str:
    mount = rig.cameras[camera].mount
    assert mount is not None
    return mount.parent


def _names(how: Building, episode: Episode) -> tuple[str, ...]:
    """What the objects are called, the one that is followed and may be corrected by hand first."""
    asked = () if how.shaping.prompts is None else how.shaping.prompts.names
    if len(asked) < 2:
        label: Mapping[str, str] = episode.labels
        return (how.joint_of or (asked[0] if asked else label.get("object", OBJECT)),)
    if how.joint_of and how.joint_of not in asked:
        raise ConfigError(
            f"--joint-of {how.joint_of}: prompts name {', '.join(asked)}. Say which of these is held by a joint."
        )
    if (how.scale, how.place_m) != (1.0, (0.0, 0.0, 0.0)):
        raise ConfigError(
            f"--scale and --place correct one object, and prompts name {', '.join(asked)}. Prompt one, or correct "
            "places afterwards with twinproof compose --move."
        )
    first = how.joint_of or asked[0]
    return (first, *(name for name in asked if name != first))


def _told(shaping: Shaping) -> list[str | int | None]:
    """All of it that decides an object: models are named by what they were constructed with."""
    prompts = None if shaping.prompts is None else content_hash(plain(shaping.prompts))
    return [prompts, repr(shaping.segmenter), repr(shaping.generator), shaping.background]


def corrected(thing: Thing, how: Building) -> tuple[Thing, tuple[str, ...]]:
    """The object after hand-made corrections, its joint moved along, and what to say about them."""
    if how.scale == 1.0 and how.place_m == (0.0, 0.0, 0.0):
        return thing, ()
    found, joint = thing.found, thing.joint
    T = _shifted(found.T_world_object, how.place_m)
    splats = placed(found.splats, np.eye(4), how.scale)
    found = replace(found, mesh=found.mesh.moved(np.eye(4), how.scale), splats=splats, T_world_object=T)
    if joint is not None and joint.origin is not None:
        origin = joint.origin + np.array(how.place_m)
        joint = replace(joint, T_parent_body=_shifted(joint.T_parent_body, how.place_m), origin=origin)
    said = f"{found.name} was scaled by {how.scale:g} and moved by {how.place_m} m by hand: declared"
    return replace(thing, found=found, joint=joint), (said,)


def _shifted(T: np.ndarray, by_m: tuple[float, float, float]) -> np.ndarray:
    moved = np.array(T)
    moved[:3, 3] += by_m
    return moved


def _words(table: Plane) -> str:
    return f"{table.normal} · p = {table.offset_m:g} m"
