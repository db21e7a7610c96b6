"""Robot, table, objects and cameras become one scene and one Twin, with sources and audits of every part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import numpy as np

from twinproof.nouns.errors import TwinError
from twinproof.nouns.hashing import Json
from twinproof.nouns.ledger import LedgerHead
from twinproof.nouns.parts import Calibration
from twinproof.nouns.source import Declared, Inferred, Source
from twinproof.nouns.splat_files import write_ply
from twinproof.nouns.splats import Splats, joined
from twinproof.nouns.strict import plain
from twinproof.nouns.theta import Theta
from twinproof.nouns.twin import Alignment, Body, Twin, TwinCamera
from twinproof.reconstruct.background_fill import MADE_UP, WHY
from twinproof.reconstruct.calibration_block import FoundCamera, FoundRobot
from twinproof.reconstruct.collision import COLLISION_GROUP
from twinproof.reconstruct.declare import copy_files
from twinproof.reconstruct.object_block import FoundObject
from twinproof.reconstruct.object_parts import Making, ObjectParts, write_object
from twinproof.reconstruct.robot_fit import Robot
from twinproof.sim.handled import track_json
from twinproof.sim.parameters.base import names
from twinproof.sim.scene import Scene, engine
from twinproof.sim.separation import overlaps
from twinproof.sim.splat.placed import placed

if TYPE_CHECKING:
    from twinproof.reconstruct.articulation import Articulation
    from twinproof.reconstruct.joint_block import FoundJoint
    from twinproof.sim.grid import Plane
    from twinproof.sim.track_pose import Track

TABLE = "table"
CONTACT_M = 0.005  # of two surfaces that are each right to a few millimetres
ROLLING = "0.005 0.0001"  # torsional and rolling friction, MuJoCo's own defaults


@dataclass(frozen=True)
class Physical:
    """What nothing in a picture tells: density of the objects, friction. All of it is declared."""

    density_kgm3: float = 500.0
    friction: float = 0.5


@dataclass(frozen=True, eq=False)
class Room:
    """What objects stand in: the robot's own scene, what calibration found, cameras that ride, the table.

    Without a robot the scene is empty, and `found` has the cameras as the rig gives them (given.py).
    """

    scene: Scene
    robot: Robot | None
    found: FoundRobot
    riding: Mapping[str, FoundCamera]
    table: Plane
    physical: Physical

    @property
    def cameras(self) -> dict[str, FoundCamera]:
        """All of them, still and riding."""
        return {**self.found.cameras, **self.riding}

    def cameras_from(self, split: str) -> Source:
        """Who told where the cameras are: pictures of the robot, or the rig."""
        return Declared("the cameras of rig.toml") if self.robot is None else Inferred(split)


@dataclass(frozen=True, eq=False)
class Thing:
    """An object as it goes into the scene: what was found of it, the joint that holds it, and what moving it told."""

    found: FoundObject
    joint: Articulation | None = None
    moved: FoundJoint | None = None
    followed: Track | None = None  # its poses over time in the episode of its shape, where nothing else tells them

    @property
    def T_world_object(self) -> np.ndarray:
        """Where it stands; a jointed one where its track began."""
        return self.found.T_world_object if self.joint is None else self.joint.T_parent_body

    def source(self, split: str) -> Source:
        """Where its shape came from."""
        return Declared(self.found.made_by) if self.found.made_by else Inferred(split)


def assembled(
    room: Room,
    things: Sequence[Thing],
    calibration: Calibration,
    folder: Path,
    *,
    notes: Sequence[str] = (),
    ledger: LedgerHead | None = None,
) -> Twin:
    """The Twin in an empty folder. The background of the first object that has one is the scene's."""
    source, cameras = Inferred(calibration.split), room.cameras_from(calibration.split)
    parts = write_scene(room, things, folder)
    touching = _touching(folder, parts)
    background = next((thing.found.background for thing in things if thing.found.background is not None), None)
    runs = write_splats(folder, room, list(parts.values()), background)
    said = [note for thing in things for note in (*_said(thing), *parts[thing.found.name].notes)]
    physics = {id: v for thing in things if thing.moved for id, v in thing.moved.theta.items()}
    offsets = {f"joint.{name}.offset": value for name, value in room.found.offsets.items()}
    sources = {thing.found.name: thing.source(calibration.split) for thing in things}
    return Twin(
        root=folder,
        bodies=_bodies(folder, parts, runs, sources, source),
        alignment=alignment_of(room.found, list(parts.values()), cameras),
        engine=engine(),
        episodes=calibration.ids,
        parents={"split": calibration.split},
        cameras={n: TwinCamera(c.width, c.height, c.intrinsics, c.mount, cameras) for n, c in room.cameras.items()},
        start=Theta({**{id: v for id, v in physics.items() if not id.endswith(".offset")}, **offsets}),
        audits=_audits(room.found, things, parts),
        notes=(*notes, *room.found.weak, *said, *touching),
        ledger=ledger,
    )


def write_scene(
    room: Room, things: Sequence[Thing], folder: Path, making: Making | None = None
) -> dict[str, ObjectParts]:
    """scene.xml with all files that it names, and what was written of each object, cut as `making` says."""
    copy_files(room.scene, folder)
    parts = {thing.found.name: _written(folder, thing, room, making or Making()) for thing in things}
    _write_scene(folder, room, list(parts.values()))
    return parts


def _touching(folder: Path, parts: Mapping[str, ObjectParts]) -> tuple[str, ...]:
    """Objects that are a little inside each other, as things that touch come out; deeper ones are refused."""
    if len(parts) < 2:
        return ()
    said = list[str]()
    for found in overlaps(Scene.read(folder / "scene.xml"), 0.0):
        if {found.first, found.second} <= set(parts):
            if found.depth_m > CONTACT_M:
                raise TwinError(
                    f"{found.first} and {found.second} are {1e3 * found.depth_m:.1f} mm inside each other; things that "
                    f"touch are up to {1e3 * CONTACT_M:.0f} mm, as surfaces are that far off. One may have pixels of "
                    "the other: point at both with more clicks, show them from more sides, or prompt one alone and "
                    "bring the other with twinproof compose --add."
                )
            said.append(f"{found.first} and {found.second} touch: {1e3 * found.depth_m:.1f} mm inside each other")
    return tuple(said)


def _said(thing: Thing) -> list[str]:
    more = [] if thing.joint is None else [f"{thing.found.name} is held by a {thing.joint.kind}: {thing.joint.reason}"]
    if thing.moved is not None:
        more += [thing.moved.sentence, *thing.moved.weak]
    return [*thing.found.notes, *thing.found.declared, *more]


def _written(folder: Path, thing: Thing, room: Room, making: Making) -> ObjectParts:
    """An object's files and MJCF; its looks and shape are handed over in the scene's frame."""
    T, found, joint = thing.T_world_object, thing.found, thing.joint
    making = replace(making, density_kgm3=room.physical.density_kgm3, free=joint is None)
    support = room.table if joint is None else None
    parts = write_object(folder, found.name, found.shape_at(T), placed(found.splats, T), T, making, support)
    for geom in parts.element.iter("geom"):  # priority: what it touches has its friction, whatever the other's is
        geom.set("friction", f"{room.physical.friction:g} {ROLLING}")
        if geom.get("group") == str(COLLISION_GROUP):
            geom.set("priority", "1")
    if joint is not None:
        compiler = ET.fromstring(room.scene.xml).find("compiler")
        degrees = compiler is None or compiler.get("angle", "degree") != "radian"
        parts.element.insert(0, ET.fromstring(joint.mjcf(found.name, degrees)))
    return parts


def _write_scene(folder: Path, room: Room, parts: Sequence[ObjectParts]) -> None:
    """scene.xml: the robot's own, and the table, the objects and the cameras beside it."""
    tree = ET.fromstring(room.scene.xml)
    world, assets = _section(tree, "worldbody"), _section(tree, "asset")
    _table(world, room.table, room.physical)
    for each in parts:
        assets.extend(each.assets)
        world.append(each.element)
    for name, camera in room.cameras.items():
        carrier_of(tree, world, camera).append(camera_element(name, camera))
    ET.indent(tree)
    (folder / "scene.xml").write_text(ET.tostring(tree, encoding="unicode"), encoding="utf-8")


def _audits(found: FoundRobot, things: Sequence[Thing], parts: Mapping[str, ObjectParts]) -> dict[str, Json]:
    audits: dict[str, Json] = {
        **object_audits(things, parts),
        "robot_links_agree": dict(found.links),
        "pictures_used": pictures_used(found, things),
        "reprojection_px": dict(found.reprojection_px),
        "calibration": {
            "offset_sd_rad": dict(found.offset_sd),
            "cameras": {n: plain(c) for n, c in found.cameras.items()},
            "starts": {n: plain(each) for n, each in found.starts.items()},
        },
    }
    joints = {thing.found.name: thing.joint.as_json() for thing in things if thing.joint is not None}
    moved = {thing.found.name: thing.moved.as_json() for thing in things if thing.moved is not None}
    followed = {thing.found.name: track_json(thing.followed) for thing in things if thing.followed is not None}
    more = {"joints": joints, "joint_refinement": moved, "followed": followed}
    return audits | {name: each for name, each in more.items() if each}


def object_audits(things: Sequence[Thing], parts: Mapping[str, ObjectParts]) -> dict[str, Json]:
    """How well objects stand, cover their outlines and agree with what they touch by."""
    return {
        "visual_against_collision": {name: each.audits["collision_gap"] for name, each in parts.items()},
        "standing": {name: each.audits["standing"] for name, each in parts.items() if "standing" in each.audits},
        "silhouette_iou": {thing.found.name: dict(thing.found.silhouette_iou) for thing in things},
        "held_out_views": {thing.found.name: dict(thing.found.held_out) for thing in things},
    }


def pictures_used(found: FoundRobot, things: Sequence[Thing]) -> dict[str, Json]:
    """Which pictures decided the robot's cameras and each object: camera, episode, numbers in the video."""
    robot: dict[str, Json] = {
        camera: {episode: list(numbers) for episode, numbers in each.items()} for camera, each in found.frames.items()
    }
    objects: dict[str, Json] = {
        thing.found.name: {name: {thing.found.episode: list(k)} for name, k in thing.found.pictures.items()}
        for thing in things
    }
    return {"robot": robot, "objects": objects}


def _section(tree: ET.Element, name: str) -> ET.Element:
    found = tree.find(name)
    return found if found is not None else ET.SubElement(tree, name)


def _table(world: ET.Element, table: Plane, physical: Physical) -> None:
    x, y, z = np.array(table.normal) * table.offset_m
    ET.SubElement(
        world,
        "geom",
        name=TABLE,
        type="plane",
        pos=f"{x:.9g} {y:.9g} {z:.9g}",
        zaxis=" ".join(f"{v:.9g}" for v in table.normal),
        size="2 2 0.1",
        group=str(COLLISION_GROUP),
        friction=f"{physical.friction:g} {ROLLING}",
    )


def carrier_of(tree: ET.Element, world: ET.Element, camera: FoundCamera) -> ET.Element:
    """The element that a camera is mounted on."""
    link = camera.mount.parent
    return next((body for body in tree.iter("body") if body.get("name") == link), world)


def camera_element(name: str, camera: FoundCamera) -> ET.Element:
    """MuJoCo's cameras look along -z with y up."""
    w, x, y, z = camera.mount.quat_wxyz
    turned = (-x, w, z, -y)  # half a turn about x
    fovy = float(np.degrees(2 * np.arctan(0.5 * camera.height / camera.intrinsics.fy)))
    place = " ".join(f"{v:.9g}" for v in camera.mount.position_m)
    return ET.Element("camera", name=name, pos=place, quat=" ".join(f"{v:.9g}" for v in turned), fovy=f"{fovy:.9g}")


def _bodies(
    folder: Path,
    parts: Mapping[str, ObjectParts],
    runs: Mapping[str, tuple[int, int]],
    sources: Mapping[str, Source],
    source: Source,
) -> tuple[Body, ...]:
    """Every body of the compiled scene: the objects that were found, and the robot's own."""
    model: Any = Scene.read(folder / "scene.xml").nominal()
    lacks = {"mesh": "the robot model's own geoms", "splats": "no surface of it is drawn"}
    bodies = list[Body]()
    for name in names(model, "body")[1:]:
        if name in parts:
            bodies.append(parts[name].body(sources[name], runs[name][0]))
        else:
            bodies.append(Body(name, Declared("the robot's model"), "robot", splats=runs.get(name), lacks=lacks))
    bare = {"mesh": "free surfels; the table is a plane"}
    for name, whence in (("background", source), (MADE_UP, Declared(WHY))):
        if name in runs:
            bodies.append(Body(name, whence, "background", splats=runs[name], lacks=bare))
    return tuple(bodies)


def write_splats(
    folder: Path, room: Room, parts: Sequence[ObjectParts], background: Splats | None
) -> dict[str, tuple[int, int]]:
    """splats.ply in the scene's frame, one run for each body, in the model's own posture."""
    pieces = [] if background is None else [(background.of(name), name) for name in background.groups]
    pieces += [] if room.robot is None else _links(room.robot, room.found)
    pieces += [(each.splats, each.name) for each in parts if each.splats is not None]
    runs, first = dict[str, tuple[int, int]](), 0
    for splats, name in pieces:
        runs[name] = (first, len(splats))
        first += len(splats)
    write_ply(folder / "splats.ply", joined([splats for splats, _ in pieces]))
    return runs


def _links(robot: Robot, found: FoundRobot) -> list[tuple[Splats, str]]:
    """The robot's surfels in the model's own posture, link by link."""
    links, poses = robot.fine, robot.poses.at_rest()
    colours, out = np.array([found.colours[str(g)] for g in links.geom]), list[tuple[Splats, str]]()
    for group, name in enumerate(links.splats.groups):
        mine = links.splats.group == group
        if mine.any():
            out.append((placed(links.coloured(colours).take(mine, (name,)), poses[group]), name))
    return out


def alignment_of(found: FoundRobot, parts: Sequence[ObjectParts], source: Source) -> Alignment:
    """The robot's own size is the scale; its error is that of the focal lengths and distances."""
    scale = float(np.mean([c.focal_sd for c in found.cameras.values()]))
    position = float(np.mean([c.mount.position_sd_m for c in found.cameras.values()]))
    rotation = float(np.mean([c.mount.rotation_sd_rad for c in found.cameras.values()]))
    gaps: list[Any] = [each.audits["splat_mesh_gap_m"] for each in parts]
    worst = max((float(gap["mean"]) for gap in gaps), default=0.0)
    return Alignment(source, 1.0, scale, position, rotation, worst, max(0.005, worst))
