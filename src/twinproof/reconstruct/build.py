"""A Twin from a Calibration part: the blocks in order, each kept in a work folder so that a stopped run goes on.

calibrate   the robot's pictures         -> cameras, clocks, joint offsets
hands       the table's pictures         -> cameras that ride on a link
object      masks, hull, refined surface -> mesh and surfels; the background behind it -> surfels
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
from twinproof.reconstruct.assemble import Physical, assembled
from twinproof.reconstruct.calibration_block import FoundRobot, found_robot, robot_of
from twinproof.reconstruct.clips import clips_of, hand_clip, offsets_of
from twinproof.reconstruct.hand_block import FoundHands, found_hands
from twinproof.reconstruct.object_block import FoundObject, found_object
from twinproof.reconstruct.prompts import Prompts
from twinproof.reconstruct.robot_frames import joint_angles
from twinproof.sim.grid import Plane
from twinproof.sim.scene import Scene
from twinproof.sim.splat.placed import placed

if TYPE_CHECKING:
    from twinproof.nouns.episode import Episode
    from twinproof.nouns.rig import Rig
    from twinproof.reconstruct.robot_fit import Robot

RIDING_FRAMES = 60  # pictures of a riding camera that show the object
OBJECT = "object"  # its name in the scene where neither a prompt nor a label names it


@dataclass(frozen=True)
class Building:
    """What a reconstruction is asked to do; what no picture tells is declared here."""

    object: str = ""  # the label of the object; "": of the episode in which a riding camera goes farthest
    table: Plane = field(default_factory=Plane)
    physical: Physical = field(default_factory=Physical)
    prompts: Prompts | None = None
    pictures: int = 40  # of the robot, by each still camera
    background: int = 800  # steps of the background's fit; 0: none
    scale: float = 1.0  # a hand-made correction of the object's size; declared
    place_m: tuple[float, float, float] = (0.0, 0.0, 0.0)  # … and of its place

    def __post_init__(self) -> None:
        if not 0.1 <= self.scale <= 10:
            raise ConfigError(f"--scale {self.scale} is no correction of a size. Give a factor near 1.")


def built(
    calibration: Calibration,
    robot_model: Path,
    how: Building,
    work: Path,
    folder: Path,
    *,
    progress: Progress = quiet,
    ledger: LedgerHead | None = None,
) -> Twin:
    """The Twin, its files in an empty `folder`. What is already in `work` is not made again."""
    scene, rig, store = Scene.read(robot_model), calibration.recording.rig, Store(work)
    if rig.model is not None and rig.model.hash and rig.model.hash != hash_file(robot_model):
        raise TwinError(
            f"{robot_model} is not the robot's model that rig.toml states: its hash is {hash_file(robot_model)[:16]}, "
            f"stated is {rig.model.hash[:16]}. Name the right file, or ingest again with the new one."
        )
    robot = robot_of(scene, rig)
    key = content_hash([calibration.hash, hash_file(robot_model), __version__, how.pictures, "calibrate"])
    cameras = store.once(key, lambda: found_robot(calibration, robot, how.pictures, progress)[0], FoundRobot)
    riding = content_hash([key, plain(how.table), "hands"])
    hands = store.once(riding, lambda: found_hands(calibration, robot, cameras, how.table, progress), FoundHands)
    cameras = replace(cameras, cameras={**cameras.cameras, **hands.stills})
    episode = _episode(calibration, how.object, robot, cameras, tuple(hands.cameras))
    name = _name(how, episode)
    asked = content_hash(
        [riding, episode.id, name, plain(how.prompts) if how.prompts else None, how.background, "object"]
    )

    def make() -> FoundObject:
        return _object(episode, calibration, cameras, hands, robot, how, name, progress)

    thing = store.once(asked, make, FoundObject)
    declared = _by_hand(thing, how)
    return assembled(
        scene, robot, cameras, hands.cameras, [declared[0]], thing.background, how.table, how.physical,
        calibration, folder,
        notes=(f"the table is the plane {_words(how.table)}: declared", *hands.notes, *declared[1]), ledger=ledger,
    )  # fmt: skip


def _object(
    episode: Episode,
    calibration: Calibration,
    cameras: FoundRobot,
    hands: FoundHands,
    robot: Robot,
    how: Building,
    name: str,
    progress: Progress,
) -> FoundObject:
    fresh, rig = episode.fresh(), calibration.recording.rig
    clips = clips_of(fresh, rig, cameras, robot, progress=progress)
    for each, camera in hands.cameras.items():
        if each in fresh.videos:
            every = max(1, len(fresh.videos[each]) // RIDING_FRAMES)
            clips[each] = hand_clip(fresh, rig, each, camera, robot, cameras, every)
    return found_object(
        clips, name, how.prompts, how.table, (f"from episode {episode.id[:8]}",), how.background, progress
    )


def _episode(
    calibration: Calibration, label: str, robot: Robot, cameras: FoundRobot, riding: tuple[str, ...]
) -> Episode:
    """The episode with this object, or any, in which a riding camera goes farthest; without one, the longest."""
    episodes = calibration.recording.episodes
    known = sorted({e.labels["object"] for e in episodes if "object" in e.labels})
    fitting = [e for e in episodes if not label or e.labels.get("object") == label]
    if not fitting:
        raise TwinError(
            f"no calibration episode has the object {label!r}; there are {', '.join(known) or 'none'}. Name "
            "one of these with --object."
        )
    rig = calibration.recording.rig

    def way_m(episode: Episode) -> float:
        links = [robot.fine.splats.groups.index(_link(rig, name)) for name in riding if name in episode.videos]
        rows = joint_angles(episode.fresh(), rig).value[::5] - offsets_of(rig, cameras)
        places = np.stack([robot.poses.at(row)[links, :3, 3] for row in rows]) if links else np.zeros((2, 1, 3))
        return float(np.linalg.norm(np.diff(places, axis=0), axis=2).sum())

    return max(fitting, key=lambda e: (round(way_m(e), 3), e.span_s[1] - e.span_s[0], e.id))


def _link(rig: Rig, camera: str) -> str:
    mount = rig.cameras[camera].mount
    assert mount is not None
    return mount.parent


def _name(how: Building, episode: Episode) -> str:
    if how.prompts is not None and how.prompts.names:
        return how.prompts.names[0]
    label: Mapping[str, str] = episode.labels
    return label.get("object", OBJECT)


def _by_hand(thing: FoundObject, how: Building) -> tuple[FoundObject, tuple[str, ...]]:
    """The object after hand-made corrections, and what to say about them."""
    if how.scale == 1.0 and how.place_m == (0.0, 0.0, 0.0):
        return thing, ()
    T = np.array(thing.T_world_object)
    T[:3, 3] += how.place_m
    splats = placed(thing.splats, np.eye(4), how.scale)
    said = f"{thing.name} was scaled by {how.scale:g} and moved by {how.place_m} m by hand: declared"
    return replace(thing, mesh=thing.mesh.moved(np.eye(4), how.scale), splats=splats, T_world_object=T), (said,)


def _words(table: Plane) -> str:
    return f"{table.normal} · p = {table.offset_m:g} m"
