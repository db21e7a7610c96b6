"""An object of a stated scene that pictures show: shape, looks and mass are found, and joint and touch stay as stated.

taken = taken_over(folder, found, density_kgm3, table)      folder/scene.xml has a body of the found object's name

It touches by as many convex parts as the scene states geoms. The stated shape is laid onto the found one (place and
turn about the vertical): so the body's frame stays the stated one, which trackers and tasks know it by.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import numpy as np

from twinproof.nouns.errors import TwinError
from twinproof.nouns.hashing import Json
from twinproof.nouns.mesh import Mesh
from twinproof.reconstruct.collision import COLLISION_GROUP, Decomposing
from twinproof.reconstruct.compose_scene import compiler_value
from twinproof.reconstruct.gap import gap, points_on
from twinproof.reconstruct.object_block import FoundObject
from twinproof.reconstruct.object_parts import Making, ObjectParts, write_object
from twinproof.sim.anatomy import pose
from twinproof.sim.parameters.base import names
from twinproof.sim.scene import Scene
from twinproof.sim.splat.placed import placed
from twinproof.sim.tessellate import geom_triangles

if TYPE_CHECKING:
    from jaxtyping import Float

    from twinproof.sim.grid import Plane

TOUCH = (
    *("class", "contype", "conaffinity", "condim", "priority", "friction"),
    *("solref", "solimp", "solmix", "margin", "gap"),
)
FREE = 0  # mjtJoint
ANOTHER = 0.2  # of the stated size: two shapes that are farther apart are not the same thing
COARSE, FINE = 300, 2000  # points on each shape
TURNS = 24  # first guesses of the turn, all around


@dataclass(frozen=True, eq=False)
class Taken:
    """An object that took a stated body's place: its files and numbers, and what to say of how the two compare."""

    parts: ObjectParts
    against_stated: dict[str, Json]
    notes: tuple[str, ...]


def taken_over(folder: Path, found: FoundObject, density_kgm3: float, table: Plane) -> Taken:
    """Writes the object's meshes into the folder and into the body of its name in the folder's scene.xml."""
    name, path = found.name, folder / "scene.xml"
    model: Any = Scene.read(path).nominal()
    tree = ET.fromstring(path.read_text(encoding="utf-8"))
    body = _element(tree, name, _free(model))
    geoms = [geom for geom in body.findall("geom") if _touches(model, geom)]
    shape, T_scene = _shape(model, name), pose(model.body(name).pos, model.body(name).quat)
    standing = found.mesh.moved(found.T_world_object)
    T_world = laid_onto(standing, shape.moved(_turn(T_scene))) @ _turn(T_scene)
    against = gap(shape.moved(T_world), standing)
    _check_same(name, against.chamfer_m, shape)
    move = T_scene @ np.linalg.inv(T_world)
    rise = float(shape.moved(T_scene).vertices[:, 2].min() - standing.moved(move).vertices[:, 2].min())
    move[2, 3] += rise
    T_scene[2, 3] += rise
    whole, splats = found.shape_at(move @ found.T_world_object), placed(found.splats, move @ found.T_world_object)
    how = Making(
        density_kgm3=density_kgm3,
        decomposing=Decomposing(most_parts=max(1, len(geoms))),
        convex=len(geoms) == 1 and geoms[0].get("type") != "mesh",
    )
    parts = write_object(folder, name, whole, splats, T_scene, how, table)
    _replace(tree, body, parts, geoms)
    _bring(tree, folder, parts)
    body.set("pos", " ".join(f"{x:.9g}" for x in T_scene[:3, 3]))
    ET.indent(tree)
    path.write_text(ET.tostring(tree, encoding="unicode"), encoding="utf-8")
    told: dict[str, Json] = {
        "chamfer_m": against.chamfer_m,
        "p95_m": against.p95_m,
        "volume_ratio": against.volume_ratio,
        "raised_m": rise,
    }
    said = (
        f"{name} has the shape, looks and mass that pictures of episode {found.episode[:8]} show, at the frame, joint "
        f"and touch that the scene states; found and stated shape are {1e3 * against.chamfer_m:.1f} mm apart on "
        f"average, the found volume is {against.volume_ratio:.2f} times the stated",
    )
    return Taken(parts, told, (*said, *found.notes, *found.declared, *parts.notes))


def laid_onto(found: Mesh, stated: Mesh) -> Float[np.ndarray, "4 4"]:
    """The place and the turn about the vertical that bring the stated shape nearest to the found one."""
    target, shape = points_on(found, COARSE), points_on(stated, COARSE)
    guesses = [_laid(target, shape, turn, 10) for turn in np.arange(TURNS) * 2 * np.pi / TURNS]
    _, turn, _ = min(guesses, key=lambda guess: guess[0])
    _, turn, shift = _laid(points_on(found, FINE), points_on(stated, FINE), turn, 30)
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = _about_z(turn), shift
    return T


def _laid(target: np.ndarray, shape: np.ndarray, turn: float, rounds: int) -> tuple[float, float, np.ndarray]:
    """Nearest points of either shape paired with the other's, again and again: mean distance, turn, shift."""
    from scipy.spatial import cKDTree

    there, error = cKDTree(target), np.inf
    shift = target.mean(axis=0) - shape.mean(axis=0) @ _about_z(turn).T
    for _ in range(rounds):
        placed_now = shape @ _about_z(turn).T + shift
        far, to = there.query(placed_now)
        back, of = cKDTree(placed_now).query(target)
        error = float(0.5 * (far.mean() + back.mean()))
        a, b = np.concatenate([shape, shape[of]]), np.concatenate([target[to], target])
        a0, b0 = a - a.mean(axis=0), b - b.mean(axis=0)
        turn = float(np.arctan2((a0[:, 0] * b0[:, 1] - a0[:, 1] * b0[:, 0]).sum(), (a0[:, :2] * b0[:, :2]).sum()))
        shift = b.mean(axis=0) - a.mean(axis=0) @ _about_z(turn).T
    return error, turn, shift


def _about_z(turn: float) -> Float[np.ndarray, "3 3"]:
    c, s = np.cos(turn), np.sin(turn)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def _turn(T: Float[np.ndarray, "4 4"]) -> Float[np.ndarray, "4 4"]:
    turned = np.eye(4)
    turned[:3, :3] = T[:3, :3]
    return turned


def _free(model: Any) -> tuple[str, ...]:
    """Bodies that nothing holds."""
    free = [int(model.jnt_bodyid[k]) for k in range(model.njnt) if int(model.jnt_type[k]) == FREE]
    return tuple(names(model, "body")[k] for k in free)


def _element(tree: ET.Element, name: str, free: Sequence[str]) -> ET.Element:
    """The body's element; only one that is free and stands alone can be taken over."""
    body = next((each for each in tree.iter("body") if each.get("name") == name), None)
    if body is None or name not in free or body.find("body") is not None:
        raise TwinError(
            f"the scene has no free body {name!r} without bodies inside it: it has {', '.join(free) or 'none'}. With "
            "--scene an object takes the place of the scene's body of its name: write --click camera,frame,x,y=NAME."
        )
    return body


def _touches(model: Any, geom: ET.Element) -> bool:
    name = geom.get("name")
    if not name:
        return geom.get("contype", "1") != "0" or geom.get("conaffinity", "1") != "0"
    found = model.geom(name)
    return bool(int(found.contype[0]) or int(found.conaffinity[0]))


def _shape(model: Any, name: str) -> Mesh:
    """The surface of the body's geoms that touch, in its frame."""
    body, soups = model.body(name).id, []
    for geom in np.flatnonzero(np.array(model.geom_bodyid) == body):
        if model.geom_contype[geom] or model.geom_conaffinity[geom]:
            T = pose(model.geom_pos[geom], model.geom_quat[geom])
            soup = geom_triangles(model, int(geom), float(model.geom_rbound[geom]))
            soups.append(soup.reshape(-1, 3) @ T[:3, :3].T + T[:3, 3])
    if not soups:
        raise TwinError(f"the scene's body {name!r} touches nothing, so it has no shape to lay onto. Give it a geom.")
    corners = np.concatenate(soups)
    return Mesh(corners, np.arange(len(corners)).reshape(-1, 3))


def _check_same(name: str, chamfer_m: float, shape: Mesh) -> None:
    size = float(np.ptp(shape.vertices, axis=0).max())
    if chamfer_m > ANOTHER * size:
        raise TwinError(
            f"{name}: what was found and what the scene states are {1e3 * chamfer_m:.0f} mm apart on average, and the "
            f"stated one is {1e3 * size:.0f} mm long: this is another thing. Click on {name!r}, or state its size."
        )


def _replace(tree: ET.Element, body: ET.Element, parts: ObjectParts, stated: Sequence[ET.Element]) -> None:
    """Found shape and mass instead of the stated; one part keeps the name of the one geom, so parameters know it."""
    for gone in [*body.findall("geom"), *body.findall("inertial")]:
        body.remove(gone)
    for element in [each for each in parts.element if each.tag in ("inertial", "geom")]:
        if element.get("group") == str(COLLISION_GROUP):
            element.attrib.update({key: stated[0].get(key, "") for key in TOUCH if stated[0].get(key)})
            if len(parts.collision) == 1 and len(stated) == 1 and stated[0].get("name"):
                element.set("name", stated[0].get("name", ""))
        body.append(element)
    assets = tree.find("asset")
    (assets if assets is not None else ET.SubElement(tree, "asset")).extend(parts.assets)


def _bring(tree: ET.Element, folder: Path, parts: ObjectParts) -> None:
    """Files once more where the scene's own folders of meshes and textures are."""
    for asset in parts.assets:
        file = asset.get("file")
        key = "texturedir" if asset.tag == "texture" else "meshdir"
        own = compiler_value(tree, key, compiler_value(tree, "assetdir", ""))
        if file is not None and own:
            target = PurePosixPath(own, PurePosixPath(file).name)
            (folder / target).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(folder / file, folder / target)
            asset.set("file", target.name)
