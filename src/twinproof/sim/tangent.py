"""Positions with quaternions, added and subtracted in tangent space as MuJoCo does it, many rows at once."""

from __future__ import annotations

import mujoco
import numpy as np


def integrate_pos(model: mujoco.MjModel, qpos: np.ndarray, change: np.ndarray) -> np.ndarray:
    """`qpos` (…, nq) moved by `change` (…, nv): mj_integratePos with a time step of one."""
    shape = np.broadcast_shapes(qpos.shape[:-1], change.shape[:-1])
    moved = np.array(np.broadcast_to(qpos, (*shape, model.nq)))
    change = np.broadcast_to(change, (*shape, model.nv))
    plain_q, plain_v = _plain(model)
    moved[..., plain_q] += change[..., plain_v]
    for q, v in _quaternions(model):
        moved[..., q : q + 4] = _times(moved[..., q : q + 4], _turn(change[..., v : v + 3]))
    return moved


def differentiate_pos(model: mujoco.MjModel, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """The change (…, nv) that leads from `start` to `end` (…, nq): mj_differentiatePos with a time step of one."""
    shape = np.broadcast_shapes(start.shape[:-1], end.shape[:-1])
    start, end = np.broadcast_to(start, (*shape, model.nq)), np.broadcast_to(end, (*shape, model.nq))
    change = np.empty((*shape, model.nv))
    plain_q, plain_v = _plain(model)
    change[..., plain_v] = end[..., plain_q] - start[..., plain_q]
    for q, v in _quaternions(model):
        change[..., v : v + 3] = between_quaternions(start[..., q : q + 4], end[..., q : q + 4])
    return change


def between_quaternions(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """The rotation vector (…, 3), in the start's own frame, that turns `start` (…, 4) into `end`."""
    return _rotation(_times(start * np.array([1.0, -1.0, -1.0, -1.0]), end))


def turned(quat: np.ndarray, turn: np.ndarray) -> np.ndarray:
    """`quat` (…, 4) turned by the rotation vectors `turn` (…, 3) in its own frame."""
    return _times(*np.broadcast_arrays(quat, _turn(turn)))


def _quaternions(model: mujoco.MjModel) -> list[tuple[int, int]]:
    """Where each quaternion begins in qpos, and its turn in qvel."""
    found = []
    for joint in range(model.njnt):
        q, v = int(model.jnt_qposadr[joint]), int(model.jnt_dofadr[joint])
        if model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE:
            found.append((q + 3, v + 3))
        elif model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_BALL:
            found.append((q, v))
    return found


def _plain(model: mujoco.MjModel) -> tuple[np.ndarray, np.ndarray]:
    """The entries of qpos and of qvel that add like numbers."""
    q_kept, v_kept = np.ones(model.nq, dtype=bool), np.ones(model.nv, dtype=bool)
    for q, v in _quaternions(model):
        q_kept[q : q + 4] = False
        v_kept[v : v + 3] = False
    return np.flatnonzero(q_kept), np.flatnonzero(v_kept)


def _times(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The product of quaternions wxyz."""
    a, b, c, d = np.moveaxis(left, -1, 0)
    w, x, y, z = np.moveaxis(right, -1, 0)
    parts = (
        a * w - b * x - c * y - d * z,
        a * x + b * w + c * z - d * y,
        a * y - b * z + c * w + d * x,
        a * z + b * y - c * x + d * w,
    )
    return np.stack(parts, axis=-1)


def _turn(rotation: np.ndarray) -> np.ndarray:
    """The quaternion of a rotation vector."""
    angle = np.linalg.norm(rotation, axis=-1, keepdims=True)
    # sin(angle/2)/angle, which is 1/2 at zero
    share = 0.5 * np.sinc(angle / (2 * np.pi))
    return np.concatenate([np.cos(angle / 2), share * rotation], axis=-1)


def _rotation(quat: np.ndarray) -> np.ndarray:
    """The rotation vector of a quaternion, the shorter way round."""
    norm = np.linalg.norm(quat[..., 1:], axis=-1, keepdims=True)
    angle = 2 * np.arctan2(norm, quat[..., :1])
    angle = np.where(angle > np.pi, angle - 2 * np.pi, angle)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(norm > 0, angle / norm, 2.0)
    rotation: np.ndarray = share * quat[..., 1:]
    return rotation
