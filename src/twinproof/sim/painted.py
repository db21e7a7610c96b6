"""What is seen of a scene's geoms, as triangles with colours or textures: MuJoCo's own rules, written out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.nouns.mesh import Mesh
from twinproof.nouns.mesh_files import welded
from twinproof.sim.anatomy import SHOWN_GROUPS, mesh_of, pose
from twinproof.sim.ray_scene import geom_rgba, texture_mapping, textures_of
from twinproof.sim.ray_shapes import BOX, CAPSULE, CYLINDER, MESH, PLANE
from twinproof.sim.ray_textures import CUBE, FLAT, PLAIN, UV, cube_face, sample, wrapped
from twinproof.sim.scene import Scene
from twinproof.sim.surface import Surface, display
from twinproof.sim.tessellate import SOLID, geom_triangles

if TYPE_CHECKING:
    from mujoco import MjModel

ENDLESS_M = 10.0  # half-size of a plane that has no end
ROUND = 8  # steps along the radius of a curved shape
FINE = 24  # steps along a shape that takes its colours from a cube map
RGB_ROLE = 1  # mjTEXROLE_RGB


def surfaces(scene: Scene) -> tuple[Surface, ...]:
    """Every geom that is drawn, in the order of the model."""
    model = scene.nominal()
    rgba = geom_rgba(model)
    shown = np.isin(model.geom_group, SHOWN_GROUPS) & (rgba[:, 3] > 0)
    shown &= np.isin(model.geom_type, (*SOLID, PLANE))
    ids = np.flatnonzero(shown)
    maps = texture_mapping(model, ids)
    return tuple(_surface(model, int(geom), k, maps, rgba[geom]) for k, geom in enumerate(ids))


def _surface(model: MjModel, geom: int, k: int, maps: Any, rgba: Any) -> Surface:
    mode = int(maps.mode[k])
    # A box whose cube map is stretched to fit shows one side of the map on each of its own: that is a plain texture.
    fitted = (
        mode == CUBE and int(model.geom_type[geom]) == BOX and np.allclose(maps.scale[k] * model.geom_size[geom], 1)
    )
    mesh, part = _triangles(model, geom, fine=mode == CUBE and not fitted)
    st, texture, said = None, None, ""
    if int(model.geom_type[geom]) == PLANE and model.geom_size[geom, :2].min() <= 0:
        said = f"an endless plane is cut to {2 * ENDLESS_M:g} × {2 * ENDLESS_M:g} m"
    if fitted:
        texture = _picture(model, int(maps.texture[k]))
        st = _box_st(mesh.vertices[mesh.faces] * maps.scale[k], part // 2, texture.shape[0] // texture.shape[1])
    elif mode == CUBE:
        mesh = Mesh(mesh.vertices, mesh.faces, _cube_colours(model, mesh.vertices, k, maps))
        said = said or "a cube map becomes colours of vertices"
    elif mode != PLAIN:
        texture = _picture(model, int(maps.texture[k]))
        st = _mesh_st(model, geom, k, maps) if mode == UV else _placed_st(model, geom, mesh, part, k, maps)
    T = pose(model.geom_pos[geom], model.geom_quat[geom])
    colour = tuple(float(x) for x in rgba)
    body = model.body(int(model.geom_bodyid[geom])).name
    return Surface(
        model.geom(geom).name, body, mesh.moved(T), (colour[0], colour[1], colour[2], colour[3]), st, texture, said
    )


def _triangles(model: MjModel, geom: int, *, fine: bool) -> tuple[Mesh, np.ndarray]:
    """Triangles in the geom's frame, and of each the side of a box or whether it is a lid: MuJoCo's `part`."""
    kind, size = int(model.geom_type[geom]), np.array(model.geom_size[geom])
    if kind == PLANE:
        x, y = (float(s) if s > 0 else ENDLESS_M for s in size[:2])
        corners = np.array([(-x, -y, 0), (x, -y, 0), (x, y, 0), (-x, y, 0.0)])
        return Mesh(corners, np.array([(0, 1, 2), (0, 2, 3)])), np.zeros(2, int)
    if kind == MESH and not fine:
        mesh = mesh_of(model, int(model.geom_dataid[geom]))
        return mesh, np.zeros(len(mesh.faces), int)
    reach = float(model.geom_rbound[geom])
    edge = reach / FINE if fine else np.inf if kind == BOX else float(size[0]) / ROUND
    soup = geom_triangles(model, geom, edge)
    mesh = welded(Mesh(soup.reshape(-1, 3), np.arange(3 * len(soup)).reshape(-1, 3)))
    a, b, c = (mesh.vertices[mesh.faces[:, i]] for i in range(3))
    normal = np.cross(b - a, c - a)
    side = np.abs(normal).argmax(axis=1)
    flat = np.abs(normal[:, 2]) > 0.9 * np.linalg.norm(normal, axis=1)
    return mesh, 2 * side if kind == BOX else flat.astype(int) if kind == CYLINDER else np.zeros(len(side), int)


def _mesh_st(model: MjModel, geom: int, k: int, maps: Any) -> np.ndarray:
    mesh = int(model.geom_dataid[geom])
    face, faces = int(model.mesh_faceadr[mesh]), int(model.mesh_facenum[mesh])
    corners = np.asarray(model.mesh_facetexcoord[face : face + faces]) + int(maps.uv_first[k])
    return np.asarray(model.mesh_texcoord[corners] * maps.scale[k, :2], float)


def _placed_st(model: MjModel, geom: int, mesh: Mesh, part: np.ndarray, k: int, maps: Any) -> np.ndarray:
    kind, size, (a, b) = int(model.geom_type[geom]), model.geom_size[geom], maps.scale[k, :2]
    points = mesh.vertices[mesh.faces]
    if int(maps.mode[k]) == FLAT:
        return np.stack([a * points[..., 0] + 0.5, 0.5 - b * points[..., 1]], axis=-1)
    st = np.array(
        [[wrapped(kind, p, *size, *corner)[:2] for corner in face] for face, p in zip(points, part, strict=True)]
    )
    if kind not in (BOX, PLANE):  # a face across the seam of what goes around: all its corners on one side of it
        seam = np.ptp(st[..., 0], axis=1) > 0.5
        around = seam & (part == 0 if kind in (CYLINDER, CAPSULE) else True)
        st[around, :, 0] += st[around, :, 0] < 0.5
    return np.asarray(st * (a, b))


def _box_st(points: np.ndarray, axis: np.ndarray, sides: int) -> np.ndarray:
    """Where corners of the unit cube's faces lie in a cube map of one side, or of six below one another."""
    st = np.empty((*points.shape[:2], 2))
    for row, face, k in zip(st, points, axis, strict=True):
        for place, corner in zip(row, face, strict=True):
            corner = corner.copy()
            corner[k] *= 1 + 1e-9  # a corner of the cube belongs to three sides: this one is meant
            side, s, t = cube_face(*(float(x) for x in corner))
            place[:] = s, (t + side) / sides if sides > 1 else t
    return st


def _cube_colours(model: MjModel, points: np.ndarray, k: int, maps: Any) -> np.ndarray:
    """Display-referred colours that a cube map gives to places in the geom's frame."""
    pyramids, _ = textures_of(model)
    rows = np.empty((len(points), 3))
    for row, point in zip(rows, points * maps.scale[k], strict=True):
        face, s, t = cube_face(*(float(x) for x in point))
        row[:] = sample(pyramids, int(maps.texture[k]), face, s, t, 1.0, False)
    return display(rows)


def _picture(model: MjModel, texture: int) -> np.ndarray:
    first, width, height = int(model.tex_adr[texture]), int(model.tex_width[texture]), int(model.tex_height[texture])
    channels = int(model.tex_nchannel[texture])
    pixels = np.array(model.tex_data[first : first + width * height * channels]).reshape(height, width, channels)
    return np.array(pixels[..., :3] if channels >= 3 else np.repeat(pixels[..., :1], 3, axis=2))
