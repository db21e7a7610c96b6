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
from twinproof.nouns.mesh_files import write_mesh
from twinproof.nouns.parts import Calibration
from twinproof.nouns.source import Declared, Inferred, Source
from twinproof.nouns.splat_files import write_ply
from twinproof.nouns.splats import Splats, joined
from twinproof.nouns.strict import plain
from twinproof.nouns.theta import Theta
from twinproof.nouns.twin import Alignment, Body, CollisionPart, Twin, TwinCamera
from twinproof.reconstruct.calibration_block import FoundCamera, FoundRobot
from twinproof.reconstruct.collision import (
    Decomposing,
    MassProperties,
    convex_parts,
    mass_properties,
    mjcf_body,
    written_parts,
)
from twinproof.reconstruct.gap import collision_gap
from twinproof.reconstruct.object_block import FoundObject
from twinproof.reconstruct.robot_fit import Robot
from twinproof.sim.references import files_of
from twinproof.sim.scene import Scene, engine
from twinproof.sim.splat.placed import placed

if TYPE_CHECKING:
    from twinproof.sim.grid import Plane

TABLE = "table"


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
    audits: Mapping[str, Json] | None = None,
    notes: Sequence[str] = (),
    ledger: LedgerHead | None = None,
) -> Twin:
    """The Twin in an empty folder."""
    tree = ET.fromstring(robot_scene.xml)
    _copied(robot_scene, folder)
    bodies, parts, gaps = list[Body](), dict[str, tuple[CollisionPart, ...]](), dict[str, Json]()
    world, assets = _section(tree, "worldbody"), _section(tree, "asset")
    _table(world, table, physical)
    source: Source = Inferred(calibration.split)
    masses = dict[str, MassProperties]()
    for thing in objects:
        convex = convex_parts(thing.mesh, Decomposing())
        masses[thing.name] = mass_properties(thing.mesh, density_kgm3=physical.density_kgm3)
        parts[thing.name] = written_parts(folder, thing.name, convex)
        visual = f"meshes/{thing.name}.obj"
        write_mesh(folder / visual, thing.mesh)
        more, body = mjcf_body(thing.name, visual, [p.path for p in parts[thing.name]], masses[thing.name])
        body.set("pos", " ".join(f"{x:.9g}" for x in thing.T_world_object[:3, 3]))
        for geom in body.iter("geom"):
            if geom.get("group") == "3":
                geom.set("friction", f"{physical.friction:g} 0.005 0.0001")
        assets.extend(more)
        world.append(body)
        gaps[thing.name] = collision_gap(thing.mesh, convex).as_json()
    for name, camera in {**found.cameras, **riding}.items():
        _carrier(tree, world, camera).append(_camera(name, camera))
    ET.indent(tree)
    (folder / "scene.xml").write_text(ET.tostring(tree, encoding="unicode"), encoding="utf-8")
    runs = _write_splats(folder, robot, found, objects, background)
    model: Any = Scene.read(folder / "scene.xml").nominal()
    made = {thing.name: thing for thing in objects}
    for k in range(1, model.nbody):
        name = model.body(k).name
        bodies.append(_body(name, made.get(name), parts.get(name, ()), runs, masses.get(name), source))
    if background is not None:
        bodies.append(
            Body(
                "background",
                source,
                "background",
                splats=runs["background"],
                lacks={"mesh": "free surfels; the table is a plane"},
            )
        )
    told: dict[str, Json] = {"visual_against_collision": dict(gaps), "robot_links_agree": dict(found.links)}
    told["silhouette_iou"] = {thing.name: dict(thing.silhouette_iou) for thing in objects}
    told["pictures_used"] = dict(found.frames)
    told["held_out_views"] = {thing.name: dict(thing.held_out) for thing in objects}
    return Twin(
        root=folder,
        bodies=tuple(bodies),
        alignment=_alignment(found, objects, source),
        engine=engine(),
        episodes=calibration.ids,
        parents={"split": calibration.split},
        cameras={name: _twin_camera(camera, source) for name, camera in {**found.cameras, **riding}.items()},
        start=Theta({f"joint.{name}.offset": value for name, value in found.offsets.items()}),
        audits={**told, **(audits or {}), "calibration": _told(found)},
        notes=(*notes, *found.weak, *(note for thing in objects for note in (*thing.notes, *thing.declared))),
        ledger=ledger,
    )


def _told(found: FoundRobot) -> Json:
    return {"offset_sd_rad": dict(found.offset_sd), "cameras": {n: plain(c) for n, c in found.cameras.items()}}


def _copied(scene: Scene, folder: Path) -> None:
    import shutil

    for file in files_of(scene.xml):
        assert scene.root is not None, "a scene that names files has a root"
        target = folder / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(scene.root / file, target)


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
        group="3",
        friction=f"{physical.friction:g} 0.005 0.0001",
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


def _body(
    name: str,
    thing: FoundObject | None,
    parts: tuple[CollisionPart, ...],
    runs: Mapping[str, tuple[int, int]],
    mass: MassProperties | None,
    source: Source,
) -> Body:
    if thing is None:
        lacks = {"mesh": "the robot model's own geoms", "splats": "no surface of it is drawn"}
        return Body(name, Declared("the robot's model"), "robot", splats=runs.get(name), lacks=lacks)
    assert mass is not None
    return Body(
        name,
        source,
        "object",
        visual=f"meshes/{name}.obj",
        collision=parts,
        splats=runs.get(name),
        mass_kg=mass.mass_kg,
        com_m=mass.com_m,
        inertia_kgm2=mass.inertia_kgm2,
    )


def _write_splats(
    folder: Path, robot: Robot, found: FoundRobot, objects: Sequence[FoundObject], background: Splats | None
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
    pieces += [(placed(thing.splats, thing.T_world_object), thing.name) for thing in objects]
    runs, first = dict[str, tuple[int, int]](), 0
    for splats, name in pieces:
        runs[name] = (first, len(splats))
        first += len(splats)
    write_ply(folder / "splats.ply", joined([splats for splats, _ in pieces]))
    return runs


def _alignment(found: FoundRobot, objects: Sequence[FoundObject], source: Source) -> Alignment:
    """The robot's own size is the scale; its error is that of the focal lengths and distances."""
    scale = float(np.mean([c.focal_sd for c in found.cameras.values()]))
    position = float(np.mean([c.mount.position_sd_m for c in found.cameras.values()]))
    rotation = float(np.mean([c.mount.rotation_sd_rad for c in found.cameras.values()]))
    worst = max((splat_mesh_gap_m(thing) for thing in objects), default=0.0)
    return Alignment(source, 1.0, scale, position, rotation, worst, max(0.005, worst))


def splat_mesh_gap_m(thing: FoundObject) -> float:
    """How far the surfels' centres are from the mesh, in the mean."""
    from twinproof.reconstruct.gap import one_way

    return one_way(thing.splats.means.astype(float), thing.mesh).mean_m


def _twin_camera(camera: FoundCamera, source: Source) -> TwinCamera:
    return TwinCamera(camera.width, camera.height, camera.intrinsics, camera.mount, source)
