"""A MuJoCo model in one state, as the arrays that the ray caster's kernels read."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.nouns.errors import SimError
from twinproof.nouns.hashing import hash_array
from twinproof.sim.ray_lights import Lights
from twinproof.sim.ray_shade import Looks, Scene
from twinproof.sim.ray_shapes import BOX, CAPSULE, CYLINDER, ELLIPSOID, MESH, PLANE, SPHERE, Shapes, skip_nodes
from twinproof.sim.ray_textures import CUBE, FLAT, PLAIN, UV, WRAP, Mapping, Textures

if TYPE_CHECKING:
    from mujoco import MjData, MjModel

DRAWN = (PLANE, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX, MESH)
GREY = np.array([0.5, 0.5, 0.5, 1.0], np.float32)  # a geom's default colour, which a material's replaces
RGB_ROLE = 1  # mjTEXROLE_RGB
TEXTURE_2D, TEXTURE_SKYBOX = 0, 2  # mjtTexture
DARK_ROOM = 0.3  # MuJoCo's ambient light where a scene has no light at all


def visible(model: MjModel, groups: tuple[int, ...]) -> Any:
    """The ids of the geoms that are drawn: in one of the groups, not wholly transparent."""
    alpha = geom_rgba(model)[:, 3]
    ids = np.flatnonzero(np.isin(model.geom_group, groups) & (alpha > 0))
    strange = ids[~np.isin(model.geom_type[ids], DRAWN)]
    if strange.size or model.nflex or model.nskin:
        what = f"geom {model.geom(int(strange[0])).name or int(strange[0])!r}" if strange.size else "a flex or a skin"
        raise SimError(
            f"the ray caster draws planes, spheres, capsules, ellipsoids, cylinders, boxes and meshes; {what} is none "
            "of these. Render with GL(), or put it into a geom group that is not shown."
        )
    return ids


def geom_rgba(model: MjModel) -> Any:
    """The colour of each geom: its own where one was given, else its material's."""
    rgba = np.array(model.geom_rgba)
    of_material = (model.geom_matid >= 0) & (rgba == GREY).all(axis=1)
    rgba[of_material] = model.mat_rgba[model.geom_matid[of_material]]
    return rgba


def scene(model: MjModel, data: MjData, ids: Any, eye_pos: Any, lamp: tuple[Any, Any, float]) -> Scene:
    """All arrays for one state. `lamp`: the disc's and the dome's points, and the dome's reach."""
    textures, sky = textures_of(model)
    return Scene(
        _shapes(model, data, ids), _looks(model, ids, sky), texture_mapping(model, ids), textures,
        _lights(model, data, eye_pos, *lamp),
    )  # fmt: skip


def linear(display: Any) -> Any:
    """Linear light of display-referred sRGB in 0 … 1."""
    c = np.asarray(display, float)
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def _shapes(model: MjModel, data: MjData, ids: Any) -> Shapes:
    rot = np.array(data.geom_xmat[ids]).reshape(-1, 9)
    if ids.size and not np.abs(rot).sum(axis=1).all():
        raise SimError("the state has no poses yet: all is zero. Call mujoco.mj_forward(model, data) before rendering.")
    kind, size = model.geom_type[ids].astype(np.int32), np.array(model.geom_size[ids])
    mesh = np.full((ids.size, 4), -1, np.int32)
    which = model.geom_dataid[ids]
    of = kind == MESH
    for column, first in enumerate((model.mesh_vertadr, model.mesh_faceadr, model.mesh_bvhadr, model.mesh_normaladr)):
        mesh[of, column] = first[which[of]]
    return Shapes(
        kind, np.array(data.geom_xpos[ids]), rot, size, _bounds(kind, size, model.geom_rbound[ids]),
        geom_rgba(model)[ids, 3] >= 0.995, mesh,
        model.mesh_vert, model.mesh_face, model.bvh_aabb, _skips(model, np.unique(which[of])), model.bvh_nodeid,
    )  # fmt: skip


def _skips(model: MjModel, meshes: Any) -> Any:
    """For each tree node of these meshes the one after its last descendant; MuJoCo stores trees depth first."""
    skip = np.zeros(model.nbvh, np.int32)
    for mesh in meshes:
        first, n = int(model.mesh_bvhadr[mesh]), int(model.mesh_bvhnum[mesh])
        skip_nodes(model.bvh_child[first : first + n], first, skip[first : first + n])
    return skip


def _bounds(kind: Any, size: Any, of_mesh: Any) -> Any:
    """The radius of the ball around each shape, from the sizes as they are now; -1 for planes."""
    return np.select(
        [kind == PLANE, kind == SPHERE, kind == CAPSULE, kind == CYLINDER, kind == ELLIPSOID, kind == BOX],
        [
            np.full(kind.size, -1.0), size[:, 0], size[:, 0] + size[:, 1], np.hypot(size[:, 0], size[:, 1]),
            size.max(axis=1, initial=0.0), np.linalg.norm(size, axis=1),
        ],
        of_mesh,
    ) * (1 + 1e-9)  # fmt: skip


def _looks(model: MjModel, ids: Any, sky: int) -> Looks:
    material = model.geom_matid[ids]
    has = material >= 0

    def of(field: Any, default: float) -> Any:
        out = np.full(ids.size, default)
        out[has] = field[material[has]]
        return out

    rgba = geom_rgba(model)[ids].astype(float)
    rgba[:, :3] = linear(np.clip(rgba[:, :3], 0, 1))
    first = np.zeros(ids.size, np.int32)
    mesh = model.geom_type[ids] == MESH
    first[mesh] = model.mesh_normaladr[model.geom_dataid[ids][mesh]]
    return Looks(
        rgba, of(model.mat_emission, 0.0), of(model.mat_specular, 0.5), 1 + 127 * of(model.mat_shininess, 0.5),
        of(model.mat_reflectance, 0.0), first, model.mesh_normal, model.mesh_facenormal,
        linear(np.array(model.vis.rgba.fog[:3])), sky,
    )  # fmt: skip


def texture_mapping(model: MjModel, ids: Any) -> Mapping:
    """As MuJoCo's own renderer maps textures."""
    n = ids.size
    mode, texture = np.full(n, PLAIN, np.int32), np.full(n, -1, np.int32)
    scale, first = np.zeros((n, 3)), np.zeros(n, np.int32)
    for i, geom in enumerate(ids):
        material = model.geom_matid[geom]
        if material < 0 or model.mat_texid[material, RGB_ROLE] < 0:
            continue
        texture[i] = model.mat_texid[material, RGB_ROLE]
        kind, mesh, size = model.geom_type[geom], model.geom_dataid[geom], _drawn_size(model, geom)
        uniform = bool(model.mat_texuniform[material])
        repeat = model.mat_texrepeat[material]
        if kind == MESH and model.mesh_texcoordadr[mesh] >= 0:
            mode[i], first[i] = UV, model.mesh_texcoordadr[mesh]
            scale[i, :2] = repeat * size[:2] if uniform else repeat
        elif model.tex_type[texture[i]] != TEXTURE_2D:
            mode[i] = CUBE
            whole = kind in (MESH, PLANE)  # drawn in metres; all others as a unit shape that is then scaled
            scale[i] = size if whole and uniform else 1.0 if whole or uniform else 1.0 / size
        elif kind == MESH or (kind == PLANE and size[:2].min() <= 0):
            mode[i] = FLAT
            scale[i, :2] = 0.5 * repeat / np.where(uniform | (size <= 0), 1.0, size)[:2]
        else:
            mode[i] = WRAP
            scale[i, :2] = repeat * size[:2] if uniform else repeat
    return Mapping(mode, texture, scale, first, model.mesh_texcoord, model.mesh_facetexcoord)


def _drawn_size(model: MjModel, geom: int) -> Any:
    """Half-sizes along x, y, z, as MuJoCo's abstract geoms have them."""
    size = model.geom_size[geom]
    match model.geom_type[geom]:
        case 2:
            return size[[0, 0, 0]]
        case 3 | 5:
            return size[[0, 0, 1]]
        case _:
            return np.array(size)


def _lights(model: MjModel, data: MjData, eye_pos: Any, disc: Any, dome: Any, reach: float) -> Lights:
    active = np.flatnonzero(model.light_active & (model.light_type <= 2))  # type 3 is an image, which only PBR reads
    head = model.vis.headlight
    kind, cutoff = model.light_type[active].astype(np.int32), model.light_cutoff[active]
    rows: list[Any] = [
        kind, data.light_xpos[active], data.light_xdir[active], model.light_ambient[active],
        model.light_diffuse[active], model.light_specular[active], model.light_attenuation[active],
        np.where((kind == 0) & (cutoff < 180), np.cos(np.radians(cutoff)), -1.0),
        model.light_exponent[active], model.light_bulbradius[active], model.light_castshadow[active] != 0,
    ]  # fmt: skip
    extra: list[Any] | None = None
    if head.active:
        extra = [2, eye_pos, [0, 0, -1], head.ambient, head.diffuse, head.specular, [1, 0, 0], -1, 0, 0, False]
    elif not active.size:
        extra = [2, eye_pos, [0, 0, -1], [DARK_ROOM] * 3, [0] * 3, [0] * 3, [1, 0, 0], -1, 0, 0, False]
    if extra is not None:
        rows = [np.concatenate([row, np.asarray([last], row.dtype)]) for row, last in zip(rows, extra, strict=True)]
    rows = [row if k in (0, 10) else np.ascontiguousarray(row, dtype=float) for k, row in enumerate(rows)]
    fields: dict[str, Any] = dict(zip(Lights._fields, rows, strict=False))
    fields["shadow"] = fields["shadow"].astype(bool)
    return Lights(**fields, disc=disc, dome=dome, reach=float(reach))


def textures_of(model: MjModel) -> tuple[Textures, int]:
    """All textures of a model in linear light, and which is the sky (-1: none); made once for the same content."""
    sky = np.flatnonzero(model.tex_type == TEXTURE_SKYBOX)
    layout = tuple(zip(*(row.tolist() for row in (model.tex_adr, model.tex_width, model.tex_height, model.tex_nchannel,
                                                  model.tex_type)), strict=True))  # fmt: skip
    pixels = np.ascontiguousarray(model.tex_data)
    return _pyramids(_Bytes(hash_array(pixels), pixels), layout), int(sky[0]) if sky.size else -1


class _Bytes:
    """Pixels that are equal when their hashes are, so that they can be the key of a cache."""

    def __init__(self, key: str, pixels: Any) -> None:
        self.key, self.pixels = key, pixels

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Bytes) and self.key == other.key


@lru_cache(maxsize=8)
def _pyramids(data: _Bytes, layout: tuple[tuple[int, ...], ...]) -> Textures:
    table = linear(np.arange(256) / 255).astype(np.float32)
    depth = 2 + max((int(np.log2(max(width, height))) for _, width, height, _, _ in layout), default=0)
    first, texels, at = np.zeros((len(layout), 6, depth), np.int64), [np.zeros((1, 3), np.float32)], 1
    width, height = np.ones((2, len(layout), depth), np.int32)
    levels = np.ones(len(layout), np.int32)
    for k, (adr, w, h, channels, kind) in enumerate(layout):
        image = data.pixels[adr : adr + w * h * channels].reshape(h, w, channels)
        image = table[image[..., :3] if channels >= 3 else np.repeat(image[..., :1], 3, axis=-1)]
        faces = [image] if kind == TEXTURE_2D or h == w else np.split(image, 6)
        for face, picture in enumerate(faces):
            for level, smaller in enumerate(_halvings(picture)):
                first[k, face, level] = at
                height[k, level], width[k, level] = smaller.shape[:2]
                levels[k] = level + 1
                texels.append(smaller.reshape(-1, 3))
                at += len(texels[-1])
        for face in range(len(faces), 6):
            first[k, face] = first[k, 0]
    return Textures(np.concatenate(texels), first, width, height, levels)


def _halvings(picture: Any) -> list[Any]:
    """The picture and ever smaller averages of it, down to one texel; an odd row or column counts twice."""
    out = [picture]
    while max(out[-1].shape[:2]) > 1:
        last = out[-1]
        for axis in (0, 1):
            if last.shape[axis] > 1:
                if last.shape[axis] % 2:
                    last = np.concatenate([last, np.take(last, [-1], axis=axis)], axis=axis)
                last = 0.5 * (last[::2] + last[1::2]) if axis == 0 else 0.5 * (last[:, ::2] + last[:, 1::2])
        out.append(np.ascontiguousarray(last, np.float32))
    return out
