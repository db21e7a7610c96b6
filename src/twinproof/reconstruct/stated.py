"""A scene that the user states around a robot that pictures show: cameras and offsets found, and the objects that are
pointed at; the rest declared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

from twinproof.nouns.errors import TwinError
from twinproof.nouns.hashing import Json
from twinproof.nouns.ledger import LedgerHead
from twinproof.nouns.parts import Calibration
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.source import Inferred
from twinproof.nouns.store import Store
from twinproof.nouns.strict import plain
from twinproof.nouns.theta import Theta
from twinproof.nouns.twin import Body, Twin, TwinCamera
from twinproof.reconstruct.assemble import (
    Room,
    Thing,
    alignment_of,
    camera_element,
    carrier_of,
    object_audits,
    pictures_used,
    write_splats,
)
from twinproof.reconstruct.build import Building, Kept, episode_with, objects_of, room_of
from twinproof.reconstruct.declare import declared
from twinproof.reconstruct.object_block import FoundObject
from twinproof.reconstruct.stated_object import taken_over
from twinproof.sim.parameters.base import names
from twinproof.sim.scene import Scene


def stated(
    calibration: Calibration,
    robot_model: Path,
    scene: Path,
    how: Building,
    work: Path,
    folder: Path,
    *,
    progress: Progress = quiet,
    ledger: LedgerHead | None = None,
) -> Twin:
    """The twin of a stated scene, its files in an empty `folder`. What is already in `work` is not made again.

    The scene's cameras of the rig's names stand where the pictures say; surfels cover the robot's links, and objects
    that are pointed at: those take the place of the scene's bodies of their names.
    """
    store = Store(work)
    room, key, notes = room_of(calibration, robot_model, how, store, progress)
    things = list[FoundObject]()
    if how.shaping.prompts is not None:
        episode = episode_with(calibration, how.object, room)
        bare = replace(how, shaping=replace(how.shaping, background=0))  # the scene has its own
        things += objects_of(calibration, episode, room, bare, Kept(store, key, progress)).values()
    found = in_scene(Scene.read(scene), scene.name, room, calibration, folder, things)
    return replace(found, notes=(*found.notes, *notes, *room.found.weak), ledger=ledger)


def in_scene(
    scene: Scene, name: str, room: Room, calibration: Calibration, folder: Path, things: Sequence[FoundObject] = ()
) -> Twin:
    """The stated scene called `name` with what calibration found of its robot and of some of its objects, its files in
    an empty `folder`."""
    _check(scene, room, name)
    base, found = declared(scene, name, calibration, folder), room.found
    taken = {thing.name: taken_over(folder, thing, room.physical.density_kgm3, room.table) for thing in things}
    parts = {each: one.parts for each, one in taken.items()}
    runs = write_splats(folder, room, list(parts.values()), None)
    _place_cameras(folder / "scene.xml", room)
    source = Inferred(calibration.split)
    sources = {thing.name: Thing(thing).source(calibration.split) for thing in things}
    audits: dict[str, Json] = {
        "robot_links_agree": dict(found.links),
        "pictures_used": pictures_used(found, [Thing(thing) for thing in things]),
        "reprojection_px": dict(found.reprojection_px),
        "calibration": {
            "offset_sd_rad": dict(found.offset_sd),
            "cameras": {n: plain(c) for n, c in found.cameras.items()},
        },
    }
    if taken:
        audits |= object_audits([Thing(thing) for thing in things], parts)
        audits["against_stated"] = {each: one.against_stated for each, one in taken.items()}
    said = f"the scene is {name}, as the user states it; cameras and joint offsets are from pictures of the robot"
    return replace(
        base,
        bodies=tuple(
            parts[body.name].body(sources[body.name], runs[body.name][0])
            if body.name in parts
            else _covered(body, runs)
            for body in base.bodies
        ),
        alignment=alignment_of(found, list(parts.values()), source),
        cameras={n: TwinCamera(c.width, c.height, c.intrinsics, c.mount, source) for n, c in room.cameras.items()},
        start=Theta({f"joint.{joint}.offset": value for joint, value in found.offsets.items()}),
        audits=audits,
        notes=(said, *(note for one in taken.values() for note in one.notes)),
    )


def _check(scene: Scene, room: Room, name: str) -> None:
    """The robot that was looked at stands in the scene."""
    there = set(names(scene.nominal(), "body"))
    assert room.robot is not None, "a stated scene is looked at with its robot"
    lost = [link for link in room.robot.fine.splats.groups if link not in there]
    if lost:
        raise TwinError(
            f"{name} has no body {', '.join(lost)}, which the robot's model has. State a scene with that robot in it."
        )


def _covered(body: Body, runs: Mapping[str, tuple[int, int]]) -> Body:
    if body.name not in runs:
        return body
    return replace(body, splats=runs[body.name], lacks={"mesh": body.lacks["mesh"]})


def _place_cameras(path: Path, room: Room) -> None:
    """The cameras that were found instead of those that the scene states."""
    tree = ET.fromstring(path.read_text(encoding="utf-8"))
    world = tree.find("worldbody")
    assert world is not None, "a scene that compiles has a world"
    for parent in tree.iter():
        for element in [each for each in parent.findall("camera") if each.get("name") in room.cameras]:
            parent.remove(element)
    for name, camera in room.cameras.items():
        carrier_of(tree, world, camera).append(camera_element(name, camera))
    path.write_text(ET.tostring(tree, encoding="unicode"), encoding="utf-8")
