"""Robot, table, objects and cameras become one scene and one Twin, with sources and audits of every part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import numpy as np

from twinproof.nouns.hashing import Json
from twinproof.nouns.ledger import LedgerHead
from twinproof.nouns.parts import Calibration
from twinproof.nouns.source import Declared, Inferred, Source
from twinproof.nouns.splat_files import write_ply
from twinproof.nouns.splats import Splats, joined
from twinproof.nouns.strict import plain
from twinproof.nouns.theta import Theta
from twinproof.nouns.twin import Alignment, Body, Twin, TwinCamera
from twinproof.reconstruct.calibration_block import FoundCamera, FoundRobot
from twinproof.reconstruct.collision import COLLISION_GROUP
from twinproof.reconstruct.declare import copy_files
from twinproof.reconstruct.object_block import FoundObject
from twinproof.reconstruct.object_parts import Making, ObjectParts, write_object
from twinproof.reconstruct.robot_fit import Robot
from twinproof.sim.parameters.base import names
from twinproof.sim.scene import Scene, engine
from twinproof.sim.splat.placed import placed

if TYPE_CHECKING:
    from twinproof.sim.grid import Plane

TABLE = "table"
ROLLING = "0.005 0.0001"  # torsional and rolling friction, MuJoCo's own defaults


@dataclass(frozen=True)
class Physical:
    """What nothing in a picture tells: density of the objects, friction. All of it is declared."""

    density_kgm3: float = 500.0
    friction: float = 0.5


def assembled(
    robot_scene: Scene,
    robot: Robot,
    found: FoundRobot,
    riding: Mapping[str, FoundCamera],
    objects: Sequence[FoundObject],
    background: Splats | None,
    table: Plane,
    physical: Physical,
    calibration: Calibration,
    folder: Path,
    *,
    notes: Sequence[str] = (),
    ledger: LedgerHead | None = None,
) -> Twin:
    """The Twin in an empty folder."""
    source: Source = Inferred(calibration.split)
    cameras = {**found.cameras, **riding}
    copy_files(robot_scene, folder)
    parts = {thing.name: _written(folder, thing, table, physical) for thing in objects}
    _write_scene(folder, robot_scene, cameras, list(parts.values()), table, physical)
    runs = _write_splats(folder, robot, found, list(parts.values()), background)
    said = [note for thing in objects for note in (*thing.notes, *thing.declared, *parts[thing.name].notes)]
    return Twin(
        root=folder,
        bodies=_bodies(folder, parts, runs, source),
        alignment=_alignment(found, list(parts.values()), source),
        engine=engine(),
        episodes=calibration.ids,
        parents={"split": calibration.split},
        cameras={n: TwinCamera(c.width, c.height, c.intrinsics, c.mount, source) for n, c in cameras.items()},
        start=Theta({f"joint.{name}.offset": value for name, value in found.offsets.items()}),
        audits=_audits(found, objects, parts),
        notes=(*notes, *found.weak, *said),
        ledger=ledger,
    )


def _written(folder: Path, thing: FoundObject, table: Plane, physical: Physical) -> ObjectParts:
    """An object's files and MJCF; its looks and shape are handed over in the scene's frame."""
    T, making = thing.T_world_object, Making(density_kgm3=physical.density_kgm3)
    parts = write_object(folder, thing.name, thing.mesh.moved(T), placed(thing.splats, T), T, making, table)
    for geom in parts.element.iter("geom"):
        if geom.get("group") == str(COLLISION_GROUP):
            geom.set("friction", f"{physical.friction:g} {ROLLING}")
    return parts


def _write_scene(
    folder: Path,
    robot_scene: Scene,
    cameras: Mapping[str, FoundCamera],
    parts: Sequence[ObjectParts],
    table: Plane,
    physical: Physical,
) -> None:
    """scene.xml: the robot's own, and the table, the objects and the cameras beside it."""
    tree = ET.fromstring(robot_scene.xml)
    world, assets = _section(tree, "worldbody"), _section(tree, "asset")
    _table(world, table, physical)
    for each in parts:
        assets.extend(each.assets)
        world.append(each.element)
    for name, camera in cameras.items():
        _carrier(tree, world, camera).append(_camera(name, camera))
    ET.indent(tree)
    (folder / "scene.xml").write_text(ET.tostring(tree, encoding="unicode"), encoding="utf-8")


def _audits(found: FoundRobot, objects: Sequence[FoundObject], parts: Mapping[str, ObjectParts]) -> dict[str, Json]:
    return {
        "visual_against_collision": {name: each.audits["collision_gap"] for name, each in parts.items()},
        "standing": {name: each.audits["standing"] for name, each in parts.items()},
        "robot_links_agree": dict(found.links),
        "silhouette_iou": {thing.name: dict(thing.silhouette_iou) for thing in objects},
        "held_out_views": {thing.name: dict(thing.held_out) for thing in objects},
        "pictures_used": dict(found.frames),
        "calibration": {
            "offset_sd_rad": dict(found.offset_sd),
            "cameras": {n: plain(c) for n, c in found.cameras.items()},
        },
    }


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


def _carrier(tree: ET.Element, world: ET.Element, camera: FoundCamera) -> ET.Element:
    """The element that a camera is mounted on."""
    link = camera.mount.parent
    return next((body for body in tree.iter("body") if body.get("name") == link), world)


def _camera(name: str, camera: FoundCamera) -> ET.Element:
    """MuJoCo's cameras look along -z with y up."""
    w, x, y, z = camera.mount.quat_wxyz
    turned = (-x, w, z, -y)  # half a turn about x
    fovy = float(np.degrees(2 * np.arctan(0.5 * camera.height / camera.intrinsics.fy)))
    place = " ".join(f"{v:.9g}" for v in camera.mount.position_m)
    return ET.Element("camera", name=name, pos=place, quat=" ".join(f"{v:.9g}" for v in turned), fovy=f"{fovy:.9g}")


def _bodies(
    folder: Path, parts: Mapping[str, ObjectParts], runs: Mapping[str, tuple[int, int]], source: Source
) -> tuple[Body, ...]:
    """Every body of the compiled scene: the objects that were found, and the robot's own."""
    model: Any = Scene.read(folder / "scene.xml").nominal()
    lacks = {"mesh": "the robot model's own geoms", "splats": "no surface of it is drawn"}
    bodies = list[Body]()
    for name in names(model, "body")[1:]:
        if name in parts:
            bodies.append(parts[name].body(source, runs[name][0]))
        else:
            bodies.append(Body(name, Declared("the robot's model"), "robot", splats=runs.get(name), lacks=lacks))
    if "background" in runs:
        bare = {"mesh": "free surfels; the table is a plane"}
        bodies.append(Body("background", source, "background", splats=runs["background"], lacks=bare))
    return tuple(bodies)


def _write_splats(
    folder: Path, robot: Robot, found: FoundRobot, parts: Sequence[ObjectParts], background: Splats | None
) -> dict[str, tuple[int, int]]:
    """splats.ply in the scene's frame, one run for each body, in the model's own posture."""
    links = robot.fine
    colours = np.array([found.colours[str(g)] for g in links.geom])
    poses = robot.poses.at_rest()
    pieces = [(background, "background")] if background is not None else []
    for group, name in enumerate(links.splats.groups):
        mine = links.splats.group == group
        if mine.any():
            pieces.append((placed(links.coloured(colours).take(mine, (name,)), poses[group]), name))
    pieces += [(each.splats, each.name) for each in parts if each.splats is not None]
    runs, first = dict[str, tuple[int, int]](), 0
    for splats, name in pieces:
        runs[name] = (first, len(splats))
        first += len(splats)
    write_ply(folder / "splats.ply", joined([splats for splats, _ in pieces]))
    return runs


def _alignment(found: FoundRobot, parts: Sequence[ObjectParts], source: Source) -> Alignment:
    """The robot's own size is the scale; its error is that of the focal lengths and distances."""
    scale = float(np.mean([c.focal_sd for c in found.cameras.values()]))
    position = float(np.mean([c.mount.position_sd_m for c in found.cameras.values()]))
    rotation = float(np.mean([c.mount.rotation_sd_rad for c in found.cameras.values()]))
    gaps: list[Any] = [each.audits["splat_mesh_gap_m"] for each in parts]
    worst = max((float(gap["mean"]) for gap in gaps), default=0.0)
    return Alignment(source, 1.0, scale, position, rotation, worst, max(0.005, worst))
