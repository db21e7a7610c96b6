"""Where the tip of an arm is, for many joint angles at once: the serial chain of an MJCF or URDF model."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.nouns.errors import RigError

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

    from twinproof.sim.scene import Scene


@dataclass(frozen=True, eq=False)
class Chain:
    """A tip that some joints move. `T_before[k]` leads from the frame behind joint k - 1 to the frame of joint k.

    The last entry of `T_before` leads to the tip; the first starts in the world. `zero` is the value at which a joint
    changes nothing.
    """

    joints: tuple[str, ...]
    T_before: Float[np.ndarray, "n+1 4 4"]
    axis: Float[np.ndarray, "n 3"]
    slides: Bool[np.ndarray, "n"]
    zero: Float[np.ndarray, "n"]

    def poses(self, q: Float[np.ndarray, "T n"]) -> Float[np.ndarray, "T 4 4"]:
        """T_world_tip for every row of joint values."""
        pose = np.tile(self.T_before[0], (len(q), 1, 1))
        for k in range(len(self.joints)):
            moved = _slid if self.slides[k] else _turned
            pose = pose @ moved(self.axis[k], q[:, k] - self.zero[k]) @ self.T_before[k + 1]
        return pose


def chain_of(scene: Scene, joints: tuple[str, ...], tip: str) -> Chain:
    """The chain from the world to a body (or site) of a model. Joints on the way that are not named stay at rest."""
    import mujoco

    hinge, slide = int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE)
    model = scene.nominal()
    body, pose = _tip(model, tip)
    before, axes, slides, zero, found = [], [], [], [], []
    while body > 0:
        first = int(model.body_jntadr[body])
        for joint in reversed(range(first, first + int(model.body_jntnum[body]))):
            name = model.joint(joint).name
            if name not in joints:
                continue
            kind = int(model.jnt_type[joint])
            if kind not in (hinge, slide):
                raise RigError(f"joint {name!r} of the model is no hinge or slide. Name joints with one number each.")
            anchor = _shift(model.jnt_pos[joint])
            before.append(np.linalg.inv(anchor) @ pose)
            pose = anchor
            axes.append(model.jnt_axis[joint])
            slides.append(kind == slide)
            zero.append(float(model.qpos0[model.jnt_qposadr[joint]]))
            found.append(name)
        pose = _placed(model.body_pos[body], model.body_quat[body]) @ pose
        body = int(model.body_parentid[body])
    missing = [name for name in joints if name not in found]
    if missing:
        known = [model.joint(i).name for i in range(model.njnt)]
        near = difflib.get_close_matches(missing[0], known, n=1)
        where = f"it is not on the way to {tip!r}" if missing[0] in known else "the model has no such joint"
        hint = f"Did you mean {near[0]!r}?" if near and near[0] != missing[0] else "Mend [[arms]] in the rig."
        raise RigError(f"joint {missing[0]!r} of the rig moves nothing: {where}. {hint}")
    order = found[::-1]
    turn = [order.index(name) for name in joints]
    if turn != sorted(turn):
        raise RigError(f"the rig lists the joints of {tip!r} as {list(joints)}; in the model they follow as {order}.")
    return Chain(
        tuple(order),
        np.array([pose, *before[::-1]]),
        np.array(axes[::-1]),
        np.array(slides[::-1]),
        np.array(zero[::-1]),
    )


def _tip(model: Any, name: str) -> tuple[int, np.ndarray]:
    import mujoco

    body = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, name)
    if body >= 0:
        return int(body), np.eye(4)
    site = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SITE, name)
    if site < 0:
        known = [model.body(i).name for i in range(1, model.nbody)]
        raise RigError(
            f"the model has no body or site {name!r}, which an arm of the rig has as its tip. {_near(name, known)}"
        )
    return int(model.site_bodyid[site]), _placed(model.site_pos[site], model.site_quat[site])


def _near(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"Did you mean {near[0]!r}?" if near else f"It has {', '.join(known)}."


def _shift(by_m: np.ndarray) -> np.ndarray:
    pose = np.eye(4)
    pose[:3, 3] = by_m
    return pose


def _placed(position_m: np.ndarray, quat_wxyz: np.ndarray) -> np.ndarray:
    import mujoco

    rotation = np.empty(9)
    mujoco.mju_quat2Mat(rotation, quat_wxyz)
    pose = _shift(position_m)
    pose[:3, :3] = rotation.reshape(3, 3)
    return pose


def _turned(axis: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """Rodrigues: one rotation an angle."""
    x, y, z = axis
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    pose = np.tile(np.eye(4), (len(angle), 1, 1))
    s, c = np.sin(angle)[:, None, None], np.cos(angle)[:, None, None]
    pose[:, :3, :3] += s * cross + (1 - c) * (cross @ cross)
    return pose


def _slid(axis: np.ndarray, by_m: np.ndarray) -> np.ndarray:
    pose = np.tile(np.eye(4), (len(by_m), 1, 1))
    pose[:, :3, 3] = by_m[:, None] * axis
    return pose
