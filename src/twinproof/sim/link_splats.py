"""A robot's links as surfels on their known shapes, and where the links are for given joint angles.

Every triangle of a link's tessellated surface carries one disc, so that the links are covered without holes; discs
that lie inside another shape of the same link are left out. A group is a body; its frame is the body's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np

from twinproof.nouns.errors import SimError
from twinproof.nouns.splats import SH0, Splats
from twinproof.sim.ray_scene import geom_rgba, visible
from twinproof.sim.ray_shapes import BOX, CAPSULE, CYLINDER, ELLIPSOID, SPHERE
from twinproof.sim.tessellate import SOLID, geom_triangles

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from mujoco import MjModel

    from twinproof.sim.render_camera import Camera

# A disc's standard deviations over those of its triangle's area. It is then half transparent about where its triangle
# ends, so that outlines are neither fat nor thin, and the overlap of neighbours leaves no holes.
SPREAD = 1.45
OPTICAL_DEPTH = 4.0  # of the surface: e⁻⁴ of the light passes
DOT_PX2 = 0.5  # spread of the smallest dot, px²
INSET_PX = 0.6  # measured: outlines of links whose discs are about two pixels apart are then right to 0.1 px
OPACITY_LOGIT = 4.0  # 0.98
INSIDE_M = 5e-4  # a point deeper than this inside another shape of its body is not on the surface


@dataclass(frozen=True, eq=False)
class LinkSplats:
    """Surfels on links, in the links' frames; for each, the geom it lies on and its outward normal."""

    splats: Splats
    geom: Int[np.ndarray, "N"]
    normals: Float[np.ndarray, "N 3"]
    area_m2: Float[np.ndarray, "N"]  # of the triangle that carries it
    bodies: tuple[int, ...]  # ids of the groups' bodies

    def coloured(self, colours: Float[np.ndarray, "N 3"]) -> Splats:
        """The same surfels in other colours, 0 … 1."""
        s = self.splats
        sh = ((colours - 0.5) / SH0)[:, None].astype(np.float32)
        return Splats(s.means, s.quats_wxyz, s.log_scales, s.logit_opacities, sh, s.group, s.groups, s.flat)

    def towards(
        self,
        colours: Float[np.ndarray, "N 3"],
        poses: Float[np.ndarray, "G 4 4"],
        camera: Camera,
        swell_px: float = 0.0,
    ) -> Splats:
        """The surfels that look at the camera, as opaque as their number asks for, a little inside the surface.

        However small a disc is, it is drawn as a dot of about a pixel. The borders of those behind would peep out, and
        many in one pixel would draw the robot a pixel too large: so they share the light, and are drawn `INSET_PX`
        inside, where the middle of their soft border falls on the true outline; `swell_px` moves that outline outwards.
        """
        s = self.splats
        turns = poses[s.group, :3, :3]
        points = np.einsum("nij,nj->ni", turns, s.means) + poses[s.group, :3, 3]
        ray = camera.T_world_camera[:3, 3] - points
        distance = np.linalg.norm(ray, axis=1)
        cos = np.einsum("nij,nj,ni->n", turns, self.normals, ray) / distance
        piece_px = self.area_m2 * cos * (camera.lens.fx / distance) ** 2
        keep = piece_px > 1e-6
        spread_px = np.maximum(0.096 * SPREAD**2 * piece_px[keep], DOT_PX2)  # an even triangle's is 0.096 of its area
        opacity = np.clip(1 - np.exp(-1.15 * OPTICAL_DEPTH * piece_px[keep] / (2 * np.pi * spread_px)), 1e-4, 0.98)
        inset = ((INSET_PX - swell_px) * distance / camera.lens.fx)[keep, None]
        return Splats(
            s.means[keep] - inset * self.normals[keep], s.quats_wxyz[keep], s.log_scales[keep],
            np.log(opacity / (1 - opacity)), ((colours[keep] - 0.5) / SH0)[:, None], s.group[keep], s.groups, s.flat,
        )  # fmt: skip


def link_splats(model: MjModel, bodies: Sequence[str], edge_m: float = 0.010) -> LinkSplats:
    """Surfels on what is drawn of the named bodies (geom groups 0 to 2; group 3, MuJoCo's collision group, if bare)."""
    ids = [_body(model, name) for name in bodies]
    kept = list[tuple[int, int, np.ndarray]]()
    for group, body in enumerate(ids):
        geoms = shapes_of(model, body)
        for geom in geoms:
            triangles = shape_triangles(model, geom, edge_m)
            centres = triangles.mean(axis=1)
            hidden = np.zeros(len(centres), bool)
            for other in geoms:
                if other != geom:
                    hidden |= _inside(model, other, centres)
            kept.append((group, geom, triangles[~hidden]))
    kept = [entry for entry in kept if len(entry[2])]
    if not kept:
        raise SimError(
            f"none of the bodies {', '.join(bodies)} has a shape that can be drawn. Give the robot's model its visual "
            "or collision geoms."
        )
    return _assembled(model, tuple(bodies), tuple(ids), kept)


def _assembled(
    model: MjModel, names: tuple[str, ...], ids: tuple[int, ...], kept: Sequence[tuple[int, int, np.ndarray]]
) -> LinkSplats:
    triangles = np.concatenate([t for _, _, t in kept])
    counts = [len(t) for _, _, t in kept]
    group, geom = (np.repeat([entry[k] for entry in kept], counts) for k in (0, 1))
    means, quats, scales, normals = discs_on(triangles)
    colours = geom_rgba(model)[geom, :3]
    splats = Splats(
        means, quats, np.log(np.maximum(scales, 1e-5)), np.full(len(means), OPACITY_LOGIT),
        ((colours - 0.5) / SH0)[:, None], group, names, flat=True,
    )  # fmt: skip
    area = 0.5 * np.linalg.norm(np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0]), axis=1)
    return LinkSplats(splats, geom, normals, area, ids)


def discs_on(triangles: Float[np.ndarray, "F 3 3"]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """One disc for each triangle: centre, rotation (wxyz; z is the normal), three standard deviations, normal."""
    from scipy.spatial.transform import Rotation

    centres = triangles.mean(axis=1)
    normals = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    arms = triangles - centres[:, None]
    spread = np.einsum("fki,fkj->fij", arms, arms) / 3
    values, axes = np.linalg.eigh(spread)
    x = axes[:, :, 2]
    turn = np.stack([x, np.cross(normals, x), normals], axis=-1)
    quats = Rotation.from_matrix(turn).as_quat()[:, [3, 0, 1, 2]]
    sd = SPREAD * np.sqrt(np.maximum(values, 0)) / 2  # the corners' deviations are twice the area's
    return centres, quats, np.stack([sd[:, 2], sd[:, 1], np.full(len(sd), 1e-4)], 1), normals


def shapes_of(model: MjModel, body: int) -> list[int]:
    """The geoms of a body that are drawn (groups 0 to 2); all solid ones where none of them is."""
    first = int(model.body_geomadr[body])
    drawn = set(visible(model, (0, 1, 2)).tolist())
    all_of = [g for g in range(first, first + int(model.body_geomnum[body])) if model.geom_type[g] in SOLID]
    return [g for g in all_of if g in drawn] or all_of


def shape_triangles(model: MjModel, geom: int, edge_m: float) -> Float[np.ndarray, "F 3 3"]:
    """The geom's surface in its body's frame."""
    turn = np.empty(9)
    mujoco.mju_quat2Mat(turn, model.geom_quat[geom])
    return np.asarray(geom_triangles(model, geom, edge_m) @ turn.reshape(3, 3).T + model.geom_pos[geom])


def _inside(model: MjModel, geom: int, points: Float[np.ndarray, "N 3"]) -> Any:
    """Whether points of the body's frame lie well inside a plain shape of it; a mesh is not looked into."""
    turn = np.empty(9)
    mujoco.mju_quat2Mat(turn, model.geom_quat[geom])
    p, size = (points - model.geom_pos[geom]) @ turn.reshape(3, 3), model.geom_size[geom]
    match int(model.geom_type[geom]):
        case kind if kind == SPHERE:
            return np.linalg.norm(p, axis=1) < size[0] - INSIDE_M
        case kind if kind == BOX:
            return (np.abs(p) < size - INSIDE_M).all(axis=1)
        case kind if kind == CYLINDER:
            return (np.hypot(p[:, 0], p[:, 1]) < size[0] - INSIDE_M) & (np.abs(p[:, 2]) < size[1] - INSIDE_M)
        case kind if kind == CAPSULE:
            above = np.maximum(np.abs(p[:, 2]) - size[1], 0)
            return np.sqrt(p[:, 0] ** 2 + p[:, 1] ** 2 + above**2) < size[0] - INSIDE_M
        case kind if kind == ELLIPSOID:
            return ((p / size) ** 2).sum(axis=1) < 1 - INSIDE_M / size.min()
        case _:
            return np.zeros(len(p), bool)


def _body(model: MjModel, name: str) -> int:
    body = int(mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, name))
    if body < 0:
        known = ", ".join(model.body(k).name for k in range(1, model.nbody))
        raise SimError(f"the model has no body {name!r}. Its bodies: {known}.")
    return body


def robot_bodies(model: MjModel) -> tuple[str, ...]:
    """The robot in a scene: bodies that a driven joint moves, and the fixed bodies that carry them."""
    driven = {int(model.jnt_bodyid[j]) for j in model.actuator_trnid[:, 0] if j >= 0}
    moved, carriers = set[int](), set[int]()
    for body in range(1, model.nbody):
        chain = _chain(model, body)
        if driven & set(chain):
            moved.add(body)
            carriers |= {b for b in chain if not driven & set(_chain(model, b))}
    return tuple(model.body(b).name for b in sorted(moved | carriers))


def _chain(model: MjModel, body: int) -> list[int]:
    chain = []
    while body:
        chain.append(body)
        body = int(model.body_parentid[body])
    return chain


class LinkPoses:
    """Where links are for joint angles given by name; joints tied to others by the model follow, the rest stay."""

    def __init__(self, model: MjModel, joints: Sequence[str], bodies: Sequence[int]) -> None:
        self.model, self.data, self.bodies = model, mujoco.MjData(model), list(bodies)
        self.address = list[int]()
        for name in joints:
            joint = int(mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, name))
            if joint < 0 or model.jnt_type[joint] not in (2, 3):
                hinges = ", ".join(model.joint(k).name for k in range(model.njnt) if model.jnt_type[k] in (2, 3))
                raise SimError(
                    f"the robot's model has no hinge or slide {name!r}; it has {hinges or 'none'}. Rig and model must "
                    "use the same names."
                )
            self.address.append(int(model.jnt_qposadr[joint]))
        self.ties = _ties(model)

    def at(self, angles: Float[np.ndarray, "J"]) -> Float[np.ndarray, "G 4 4"]:
        """T_world_body of every link."""
        self.data.qpos[:] = self.model.qpos0
        self.data.qpos[self.address] = angles
        for slave, master, poly, at_slave, at_master in self.ties:
            x = self.data.qpos[master] - at_master
            self.data.qpos[slave] = at_slave + np.polyval(poly[::-1], x)
        mujoco.mj_kinematics(self.model, self.data)
        poses = np.zeros((len(self.bodies), 4, 4))
        poses[:, :3, :3] = self.data.xmat[self.bodies].reshape(-1, 3, 3)
        poses[:, :3, 3] = self.data.xpos[self.bodies]
        poses[:, 3, 3] = 1
        return poses

    def at_rest(self) -> Float[np.ndarray, "G 4 4"]:
        """T_world_body of every link in the model's own posture."""
        return self.at(np.array(self.model.qpos0)[self.address])

    def site(self, name: str) -> Float[np.ndarray, "3"]:
        """A site's place for the angles that were set last."""
        index = int(mujoco.mj_name2id(self.model, mujoco.mjtObj.mjOBJ_SITE, name))
        if index < 0:
            raise SimError(f"the model has no site {name!r}.")
        mujoco.mj_kinematics(self.model, self.data)
        return np.array(self.data.site_xpos[index])


def _ties(model: MjModel) -> list[tuple[int, int, np.ndarray, float, float]]:
    """Joints that an equality constraint ties to another: (address, address of the other, polynomial, zeros)."""
    out = []
    for k in np.flatnonzero((model.eq_type == mujoco.mjtEq.mjEQ_JOINT) & (model.eq_obj2id >= 0)):
        slave, master = (int(model.jnt_qposadr[model.eq_obj1id[k]]), int(model.jnt_qposadr[model.eq_obj2id[k]]))
        poly = np.array(model.eq_data[k, :5])
        out.append((slave, master, poly, float(model.qpos0[slave]), float(model.qpos0[master])))
    return out


def moved(links: LinkSplats, poses: Float[np.ndarray, "G 4 4"]) -> Mapping[str, np.ndarray]:
    """The groups' placements as `render` wants them."""
    return dict(zip(links.splats.groups, poses, strict=True))
