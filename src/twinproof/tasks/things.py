"""Things of a scene that tasks are about: a free object, a drawer with its handle, the fingers that may hold them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from twinproof.nouns.errors import TaskError
from twinproof.sim.parameters.base import names, nearest
from twinproof.sim.scene import Scene
from twinproof.tasks.machine import FREE, SLIDE, Arm, Machine

ROUND = (2, 3, 5)  # mjtGeom: sphere, capsule, cylinder
MESH = 7  # mjtGeom


@dataclass(frozen=True, eq=False)
class Box:
    """A box along the axes of a body's frame."""

    middle_m: np.ndarray  # (3,)
    half_m: np.ndarray  # (3,)


@dataclass(frozen=True, eq=False)
class Thing:
    """A free body: where it lies in the scene, and the boxes around it and around each of its geoms, in its axes."""

    body: str
    at_m: np.ndarray  # (3,) of the body's frame
    middle_m: np.ndarray  # (3,) of the box, in the body's frame
    half_m: np.ndarray  # (3,) of the box
    parts: tuple[Box, ...]  # of the geoms that touch
    round: bool  # a cylinder or a sphere: no direction is across a face


def thing_of(scene: Scene, body: str = "") -> Thing:
    """The free body of this name, or the only one."""
    model: Any = scene.nominal()
    free = [k for k in range(model.njnt) if int(model.jnt_type[k]) == FREE]
    found = {names(model, "body")[int(model.jnt_bodyid[k])]: k for k in free}
    if not body and len(found) == 1:
        body = next(iter(found))
    if body not in found:
        told = ", ".join(found) or "none"
        asked = f"no free body {body!r}" if body else "no single free body"
        raise TaskError(f"the task needs an object, and the scene has {asked}: its free bodies are {told}. Name one.")
    at = int(model.jnt_qposadr[found[body]])
    parts, kinds = _boxes(model, names(model, "body").index(body))
    low = np.min([part.middle_m - part.half_m for part in parts], axis=0)
    high = np.max([part.middle_m + part.half_m for part in parts], axis=0)
    is_round = len(kinds) == 1 and kinds[0] in ROUND
    return Thing(body, np.array(model.qpos0[at : at + 3]), (low + high) / 2, (high - low) / 2, parts, is_round)


def _boxes(model: Any, body: int) -> tuple[tuple[Box, ...], list[int]]:
    """Boxes along the body's axes around its geoms that touch, and the kinds of those geoms. A mesh, which the compiler
    turns to its own principal axes, is measured by its corners."""
    found, kinds = [], []
    for geom in np.flatnonzero(np.array(model.geom_bodyid) == body):
        if model.geom_contype[geom] or model.geom_conaffinity[geom]:
            turn, at = _matrix(model.geom_quat[geom]), np.array(model.geom_pos[geom])
            if int(model.geom_type[geom]) == MESH:
                mesh = int(model.geom_dataid[geom])
                first = int(model.mesh_vertadr[mesh])
                corners = at + model.mesh_vert[first : first + int(model.mesh_vertnum[mesh])] @ turn.T
                low, high = corners.min(axis=0), corners.max(axis=0)
                found.append(Box((low + high) / 2, (high - low) / 2))
            else:
                middle = at + turn @ model.geom_aabb[geom, :3]
                found.append(Box(middle, np.abs(turn) @ model.geom_aabb[geom, 3:]))
            kinds.append(int(model.geom_type[geom]))
    if not found:
        name = names(model, "body")[body]
        raise TaskError(f"the body {name!r} has no geom that touches anything: it cannot be handled. Give it one.")
    return tuple(found), kinds


@dataclass(frozen=True, eq=False)
class Slider:
    """A drawer: its joint and body, where the body is when shut, which way it opens, and its handle in its frame."""

    joint: str
    body: str
    shut_m: np.ndarray  # (3,) world
    opens: np.ndarray  # (3,) world, a unit vector
    handle_m: np.ndarray  # (3,) in the body's frame, whose axes do not turn
    most_m: float


def slider_of(scene: Scene, machine: Machine, joint: str = "", handle: str = "") -> Slider:
    """The sliding joint that nothing drives, or the one named, and a site or geom called handle."""
    from twinproof.sim.worlds import Worlds

    model: Any = scene.nominal()
    known = names(model, "joint")
    fingers = {name for arm in machine.arms for name in fingers_of(scene, arm)[1]}
    free = [
        name
        for k, name in enumerate(known)
        if int(model.jnt_type[k]) == SLIDE and name not in machine.joints and name not in fingers
    ]
    if not joint and len(free) == 1:
        joint = free[0]
    if joint not in free:
        told = ", ".join(free) or "none"
        raise TaskError(f"the task needs a drawer, and the sliding joints that nothing drives are: {told}. Name one.")
    number = known.index(joint)
    body = int(model.jnt_bodyid[number])
    worlds = Worlds(scene, 1)
    qpos = np.array(model.qpos0)
    qpos[int(model.jnt_qposadr[number])] = 0.0
    worlds.reset(qpos=qpos)
    turn = _matrix(worlds.xquat[0, body])
    return Slider(
        joint,
        names(model, "body")[body],
        np.array(worlds.xpos[0, body]),
        turn @ np.array(model.jnt_axis[number]),
        turn @ _handle(model, body, handle),
        float(model.jnt_range[number, 1]),
    )


def _handle(model: Any, body: int, handle: str) -> np.ndarray:
    sites = {model.site(k).name: k for k in range(model.nsite) if int(model.site_bodyid[k]) == body}
    geoms = {name: k for k, name in enumerate(names(model, "geom")) if int(model.geom_bodyid[k]) == body}
    wanted = handle or "handle"
    if wanted in sites:
        return np.array(model.site_pos[sites[wanted]])
    if wanted in geoms:
        return np.array(model.geom_pos[geoms[wanted]])
    raise TaskError(
        f"the drawer has no site or geom {wanted!r} to take hold of. {nearest(wanted, [*sites, *geoms])} Give its name "
        "as handle=…, or add a site."
    )


def pads_of(scene: Scene, arm: Arm) -> tuple[str, ...]:
    """The bodies with which an arm touches things: its fingers, or what its tip is on."""
    model: Any = scene.nominal()
    return fingers_of(scene, arm)[0] or (names(model, "body")[_hand(model, arm)],)


def gripper_of(scene: Scene, arm: Arm) -> tuple[str, ...]:
    """The fingers of an arm that has to hold something."""
    fingers = fingers_of(scene, arm)[0]
    if not fingers or not arm.fingers:
        raise TaskError(f"the arm of {arm.tip!r} has no driven fingers, and the task takes hold of something.")
    return fingers


def _hand(model: Any, arm: Arm) -> int:
    sites = {model.site(k).name: int(model.site_bodyid[k]) for k in range(model.nsite)}
    return sites[arm.tip] if arm.tip in sites else names(model, "body").index(arm.tip)


def fingers_of(scene: Scene, arm: Arm) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The bodies that slide beyond an arm's tip, and their joints: both fingers, driven or coupled."""
    model: Any = scene.nominal()
    bodies, joints = [], []
    known, hand = names(model, "body"), _hand(model, arm)
    for k, name in enumerate(names(model, "joint")):
        body = int(model.jnt_bodyid[k])
        carrier = body
        while carrier > 0 and carrier != hand:
            carrier = int(model.body_parentid[carrier])
        if int(model.jnt_type[k]) == SLIDE and carrier == hand:
            bodies.append(known[body])
            joints.append(name)
    return tuple(bodies), tuple(joints)


def _matrix(quat_wxyz: np.ndarray) -> np.ndarray:
    w, x, y, z = quat_wxyz
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
