"""The states that episodes begin in: setups as rows of positions, and the controls that hold an arm up there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from twinproof.nouns.errors import TaskError
from twinproof.nouns.theta import Theta
from twinproof.sim.disturb import started
from twinproof.sim.parameters.base import names, nearest
from twinproof.sim.scene import Scene
from twinproof.sim.worlds import Worlds
from twinproof.tasks.machine import FREE, SLIDE, Machine, follow
from twinproof.tasks.task import Setup, TaskSpec
from twinproof.tasks.things import Thing, thing_of

ABOVE_M = 0.0005  # an object is put down from a hair above
AT_ONCE = 64


@dataclass(frozen=True, eq=False)
class Starts:
    """One row for each episode: positions of the scene, controls, goal."""

    qpos: np.ndarray  # (K, nq)
    ctrl: np.ndarray  # (K, nu)
    goal: np.ndarray  # (K, G)


def starts_of(scene: Scene, task: TaskSpec, setups: Sequence[Setup], thetas: Sequence[Theta]) -> Starts:
    """The rows of setups, moved where a Theta says that something starts elsewhere. An object of another size stands as
    its own size does."""
    model: Any = scene.nominal()
    qpos = started(model, np.array([_row(model, task, setup) for setup in setups]), thetas)
    for row, theta in zip(qpos, thetas, strict=True):
        if any(id.endswith(".start") for id in theta):
            follow(model, row)
    sizes = np.array([theta.get(f"body.{task.place}.scale", 1.0) for theta in thetas])
    if (sizes != 1).any():
        at = free_place(model, task.place)
        qpos[:, at + 2] += (sizes - 1) * _depth_m(thing_of(scene, task.place), model.qpos0[at + 3 : at + 7])
    goal = np.array([setup.goal for setup in setups], dtype=np.float64).reshape(len(setups), -1)
    return Starts(qpos, held(scene, task.machine, qpos), goal)


def held(scene: Scene, machine: Machine, qpos: np.ndarray) -> np.ndarray:
    """The controls (K, J) at which the robot stays where it is: servos lead by what gravity takes; motors give none."""
    model: Any = scene.nominal()
    if machine.torque_driven:
        return np.zeros((len(qpos), model.nu))
    numbers = [model.joint(name).id for name in machine.joints]
    at, dof = model.jnt_qposadr[numbers], model.jnt_dofadr[numbers]
    poses, which = np.unique(qpos[:, at], axis=0, return_inverse=True)
    weight = np.empty((len(poses), len(numbers)))
    worlds = Worlds(scene, min(AT_ONCE, len(poses)))
    for begin in range(0, len(poses), AT_ONCE):
        some = poses[begin : begin + AT_ONCE]
        rows = np.repeat(np.array(model.qpos0)[None], worlds.count, axis=0)
        rows[: len(some), at] = some
        worlds.reset(qpos=rows)
        weight[begin : begin + AT_ONCE] = worlds.view("qfrc_bias")[: len(some), dof]
    slides = np.array([int(model.jnt_type[k]) == SLIDE for k in numbers])
    lead = np.where(slides, 0.0, weight / model.actuator_gainprm[:, 0] / model.actuator_gear[:, 0])
    told: np.ndarray = np.clip(poses + lead, machine.limits.low, machine.limits.high)
    return told[which.reshape(-1)]


def _row(model: Any, task: TaskSpec, setup: Setup) -> np.ndarray:
    machine = task.machine
    row = np.array(model.qpos0)
    values = dict(zip(machine.joints, machine.home, strict=True)) | dict(setup.joints)
    known = names(model, "joint")
    for name, value in values.items():
        if name not in known:
            raise TaskError(
                f"a setup puts the joint {name!r} somewhere, which the scene does not have. {nearest(name, known)}"
            )
        row[int(model.jnt_qposadr[known.index(name)])] = value
    follow(model, row)
    if setup.at_m is not None:
        place = free_place(model, task.place)
        row[place : place + 2] = setup.at_m
        row[place + 2] += ABOVE_M
        row[place + 3 : place + 7] = _turned(setup.yaw_rad, row[place + 3 : place + 7])
    return row


def free_place(model: Any, body: str) -> int:
    """Where the pose of a free body begins in qpos."""
    known = names(model, "body")
    if body not in known:
        raise TaskError(f"a setup puts an object somewhere, and the scene has no body {body!r}. {nearest(body, known)}")
    joint = int(model.body_jntadr[known.index(body)])
    if joint < 0 or int(model.jnt_type[joint]) != FREE:
        raise TaskError(f"a setup puts the body {body!r} somewhere, and it is not free. Give it a freejoint.")
    return int(model.jnt_qposadr[joint])


def _turned(yaw_rad: float, quat_wxyz: np.ndarray) -> np.ndarray:
    c, s = np.cos(yaw_rad / 2), np.sin(yaw_rad / 2)
    w, x, y, z = quat_wxyz
    return np.array([c * w - s * z, c * x - s * y, c * y + s * x, c * z + s * w])


def _depth_m(thing: Thing, quat_wxyz: np.ndarray) -> float:
    """How far an object that is turned like this reaches below its frame's origin, by the boxes around its parts."""
    w, x, y, z = quat_wxyz
    up = np.array([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)])  # world's z in its axes
    return -min(float(up @ part.middle_m - np.abs(up) @ part.half_m) for part in thing.parts)
