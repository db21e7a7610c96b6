"""An object that a robot handles, the robot moved exactly as it was recorded: rollouts of the object alone.

joints of the robot      set at every physics step to what was recorded; nothing pushes them away
driven joints (a grip)   left to their own actuators, which are sent the recorded commands
the object               free: it rests, is pushed, gripped, lifted, dropped
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np

from twinproof.nouns.errors import RecordingError, SimError
from twinproof.nouns.frozen import frozen_array, settle
from twinproof.nouns.theta import Theta
from twinproof.sim.divergence import quiet
from twinproof.sim.instantiate import fast, instantiate, poke_model

if TYPE_CHECKING:
    from jaxtyping import Float

    from twinproof.nouns.hashing import Json
    from twinproof.sim.scene import Scene
    from twinproof.sim.track_pose import Track

HEAVY = 1e5  # kg m² or kg on joints that move as recorded: no contact slows them
SMOOTH_S = 0.012  # encoders count in steps: their speeds are of angles smoothed over this
LOOK = 5  # physics steps between two looks at what touches
CONTACT_M = 5e-4  # nearer than this counts as touching


@dataclass(frozen=True, eq=False)
class Handling:
    """A scene with one free object, and what the robot did. Angles are the joints' own: encoder less offset."""

    scene: Scene
    body: str
    joints: tuple[str, ...]
    time_s: Float[np.ndarray, "T"]
    angle: Float[np.ndarray, "T J"]
    driven: tuple[str, ...] = ()
    command_time_s: Float[np.ndarray, "C"] | None = None
    command: Float[np.ndarray, "C J"] | None = None  # one column for each joint, as the angles

    def __post_init__(self) -> None:
        time_s, angle = frozen_array(self.time_s), frozen_array(self.angle)
        if angle.shape != (len(time_s), len(self.joints)) or not np.isfinite(angle).all() or len(time_s) < 2:
            raise RecordingError(
                f"joint angles have the shape {angle.shape} at {len(time_s)} times for {len(self.joints)} joints; "
                "needed is one finite row a time, two at least."
            )
        if (np.diff(time_s) <= 0).any():
            raise RecordingError("the times of the joint angles do not increase. Sort them.")
        if self.driven and (self.command is None or self.command_time_s is None):
            raise RecordingError(
                f"{', '.join(self.driven)} are to follow their commands, and there are none. Give them."
            )
        settle(self, time_s=time_s, angle=angle)

    def replay(self) -> Replay:
        """The recording on the physics clock."""
        return Replay(self)


@dataclass(frozen=True, eq=False)
class Piece:
    """What became of the object in one stretch: poses (qpos of its free joint) at the steps asked for, and its end.

    `load` is the mean torque (N m, or N) that each recorded joint had to bear because of touch; 0 for driven ones.
    """

    qpos: Float[np.ndarray, "K 7"]
    end_qpos: Float[np.ndarray, "7"]
    end_qvel: Float[np.ndarray, "6"]
    touched: bool
    load: Float[np.ndarray, "J"]


@dataclass(frozen=True, eq=False)
class Variant:
    """One world to roll out: its parameters, and how far each joint is from where the recording says."""

    theta: Theta = field(default_factory=Theta)
    offset: Float[np.ndarray, "J"] | None = None


class Replay:
    """Rolls out stretches of a recording; step k is k · step_s after `begin_s`."""

    def __init__(self, handling: Handling) -> None:
        self.handling = handling
        model: Any = handling.scene.nominal()
        self.step_s = float(model.opt.timestep)
        self.begin_s, self.end_s = float(handling.time_s[0]), float(handling.time_s[-1])
        self.steps = int((self.end_s - self.begin_s) / self.step_s)
        self._models: dict[Theta, Any] = {}
        self._places(model)
        grid = self.begin_s + np.arange(self.steps + 2) * self.step_s
        smooth = _smoothed(handling.time_s, handling.angle)
        self._angle = np.stack([np.interp(grid, handling.time_s, column) for column in smooth.T], axis=1)
        self._speed = np.gradient(self._angle, self.step_s, axis=0)
        self._sent = self._commands(grid, model)

    def _places(self, model: Any) -> None:
        handling = self.handling
        body = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, handling.body)
        joint = int(model.body_jntadr[body]) if body >= 0 else -1
        if joint < 0 or model.jnt_type[joint] != mujoco.mjtJoint.mjJNT_FREE:
            raise SimError(
                f"the scene has no free body {handling.body!r} to be handled. Name a body with a free joint."
            )
        q, v = int(model.jnt_qposadr[joint]), int(model.jnt_dofadr[joint])
        self._object_q, self._object_v = slice(q, q + 7), slice(v, v + 6)
        self._body = body
        rows, columns, factors, shifts = [], [], [], []
        self._bears = np.array([name not in handling.driven for name in handling.joints])
        self._dof = np.zeros(len(handling.joints), int)
        for k, name in enumerate(handling.joints):
            i = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, name)
            if i < 0:
                raise SimError(f"the scene has no joint {name!r} that the recording moves. Use the scene's names.")
            self._dof[k] = int(model.jnt_dofadr[i])
            if name not in handling.driven:
                for j, factor, shift in [(i, 1.0, 0.0), *coupled(model, i)]:
                    rows.append(j)
                    columns.append(k)
                    factors.append(factor)
                    shifts.append(shift)
        self._column = np.array(columns, int)
        self._factor, self._shift = np.array(factors), np.array(shifts)
        self._q = np.array([model.jnt_qposadr[j] for j in rows], int)
        self._v = np.array([model.jnt_dofadr[j] for j in rows], int)
        mine = model.geom_bodyid == body
        weld = np.array(model.body_weldid)
        self._mine, self._moving = mine, (weld[model.geom_bodyid] != 0) & ~mine

    def _commands(self, grid: np.ndarray, model: Any) -> np.ndarray | None:
        handling = self.handling
        if not handling.driven:
            return None
        assert handling.command is not None
        assert handling.command_time_s is not None
        sent = np.zeros((len(grid), model.nu))
        at = np.clip(np.searchsorted(handling.command_time_s, grid, side="right") - 1, 0, None)
        for name in handling.driven:
            joint = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, name)
            motor = [i for i in range(model.nu) if model.actuator_trnid[i, 0] == joint]
            if not motor:
                raise SimError(f"the joint {name!r} has no actuator to follow commands with. Let it move as recorded.")
            sent[:, motor[0]] = np.asarray(handling.command)[at, handling.joints.index(name)]
        return sent

    def step_at(self, time_s: Float[np.ndarray, "K"]) -> np.ndarray:
        """The nearest physics step to each time, inside the recording."""
        nearest = np.rint((np.asarray(time_s) - self.begin_s) / self.step_s).astype(int)
        return np.asarray(np.clip(nearest, 0, self.steps))

    def model(self, theta: Theta) -> Any:
        """The scene's model under these parameters, its recorded joints made immovable."""
        if theta not in self._models:
            nominal: Any = self.handling.scene.nominal()
            made: Any = (
                poke_model(nominal, theta) if fast(nominal, [theta]) else instantiate(self.handling.scene, theta)
            )
            made.dof_armature[self._v] = HEAVY
            made.dof_frictionloss[self._v] = 0.0
            mujoco.mj_setConst(made, mujoco.MjData(made))
            if len(self._models) > 64:
                self._models.clear()
            self._models[theta] = made
        return self._models[theta]

    def roll(
        self, variant: Variant, first: int, last: int, qpos: np.ndarray, qvel: np.ndarray, wanted: Sequence[int]
    ) -> Piece:
        """The object from step `first` to `last`, beginning at qpos (7) with qvel (6), at the steps `wanted`."""
        model = self.model(variant.theta)
        data: Any = mujoco.MjData(model)
        offset = np.zeros(len(self.handling.joints)) if variant.offset is None else np.asarray(variant.offset)
        angle = (self._angle[first : last + 2] + offset)[:, self._column] * self._factor + self._shift
        speed = self._speed[first : last + 2][:, self._column] * self._factor
        if self._sent is not None:
            self._begin_driven(model, data, first)
        data.qpos[self._object_q], data.qvel[self._object_v] = qpos, qvel
        found, touched, load = np.empty((len(wanted), 7)), False, np.zeros(len(self._dof))
        order = {int(step): np.flatnonzero(np.asarray(wanted) == step) for step in set(wanted)}
        with quiet():
            for k in range(last - first + 1):
                if first + k in order:
                    found[order[first + k]] = data.qpos[self._object_q]
                if k == last - first:
                    break
                data.qpos[self._q], data.qvel[self._v] = angle[k], speed[k]
                if self._sent is not None:
                    data.ctrl[:] = self._sent[first + k]
                mujoco.mj_step(model, data)
                load -= data.qfrc_constraint[self._dof]
                if not touched and k % LOOK == 0:
                    touched = self._touches(data)
        if not np.isfinite(data.qpos).all() or data.warning[mujoco.mjtWarning.mjWARN_BADQACC].number:
            found[:], data.qpos[self._object_q], data.qvel[self._object_v] = qpos, qpos, 0.0
        load *= self._bears / max(last - first, 1)
        return Piece(found, np.array(data.qpos[self._object_q]), np.array(data.qvel[self._object_v]), touched, load)

    def _begin_driven(self, model: Any, data: Any, first: int) -> None:
        """Driven joints begin where the recording shows them."""
        for name in self.handling.driven:
            joint = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, name)
            shown = float(self._angle[first, self.handling.joints.index(name)])
            for j, factor, shift in [(joint, 1.0, 0.0), *coupled(model, joint)]:
                data.qpos[model.jnt_qposadr[j]] = shown * factor + shift

    def _touches(self, data: Any) -> bool:
        """Whether something that moves touches the object."""
        if not data.ncon:
            return False
        pairs = np.asarray(data.contact.geom[: data.ncon])
        near = np.asarray(data.contact.dist[: data.ncon]) < CONTACT_M
        one, two = pairs[:, 0], pairs[:, 1]
        met = (self._mine[one] & self._moving[two]) | (self._moving[one] & self._mine[two])
        return bool((near & met).any())


def pose_of(qpos: Float[np.ndarray, "... 7"]) -> Float[np.ndarray, "... 4 4"]:
    """T_world_object of a free joint's position and quaternion."""
    qpos = np.asarray(qpos, float)
    w, x, y, z = np.moveaxis(qpos[..., 3:] / np.linalg.norm(qpos[..., 3:], axis=-1, keepdims=True), -1, 0)
    T = np.zeros((*qpos.shape[:-1], 4, 4))
    T[..., 0, 0], T[..., 0, 1], T[..., 0, 2] = 1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)
    T[..., 1, 0], T[..., 1, 1], T[..., 1, 2] = 2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)
    T[..., 2, 0], T[..., 2, 1], T[..., 2, 2] = 2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)
    T[..., :3, 3], T[..., 3, 3] = qpos[..., :3], 1.0
    return T


def qpos_of(T: Float[np.ndarray, "4 4"]) -> Float[np.ndarray, "7"]:
    """Position and quaternion (wxyz) of a pose."""
    from scipy.spatial.transform import Rotation

    x, y, z, w = Rotation.from_matrix(T[:3, :3]).as_quat()
    return np.array([*T[:3, 3], w, x, y, z])


def track_json(track: Track) -> dict[str, Json]:
    """Poses over time with their errors, rounded for an audit."""
    return {
        "time_s": np.round(track.time_s, 4).tolist(),
        "pose": [np.round(qpos_of(T), 6).tolist() for T in track.T_world_object],
        "sd_m": np.round(track.sd_m, 6).tolist(),
        "sd_rad": np.round(track.sd_rad, 6).tolist(),
        "lost": track.lost.tolist(),
        "residual": np.round(track.residual, 4).tolist(),
    }


def resting_height(
    scene: Scene, body: str, T_world_object: Float[np.ndarray, "4 4"], fall_s: float = 0.6
) -> np.ndarray:
    """T_world_object after the object was let go a little above where it stands, the robot out of its way.

    Geoms of whatever moves but the object are taken out of collision.
    """
    model: Any = scene.compile()
    index = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, body)
    joint = int(model.body_jntadr[index]) if index >= 0 else -1
    if joint < 0 or model.jnt_type[joint] != mujoco.mjtJoint.mjJNT_FREE:
        raise SimError(f"the scene has no free body {body!r} that could rest. Name a body with a free joint.")
    other = (np.array(model.body_weldid)[model.geom_bodyid] != 0) & (model.geom_bodyid != index)
    model.geom_contype[other] = model.geom_conaffinity[other] = 0
    data: Any = mujoco.MjData(model)
    q = int(model.jnt_qposadr[joint])
    lifted = np.array(T_world_object, float)
    lifted[2, 3] += 0.001
    data.qpos[q : q + 7] = qpos_of(lifted)
    mujoco.mj_step(model, data, int(fall_s / model.opt.timestep))
    return pose_of(data.qpos[q : q + 7])


def coupled(model: Any, joint: int) -> list[tuple[int, float, float]]:
    """Joints that an equality ties to this one: number, factor and shift."""
    found = []
    for e in range(model.neq):
        if model.eq_type[e] == mujoco.mjtEq.mjEQ_JOINT and model.eq_obj2id[e] == joint:
            found.append((int(model.eq_obj1id[e]), float(model.eq_data[e, 1]), float(model.eq_data[e, 0])))
        if model.eq_type[e] == mujoco.mjtEq.mjEQ_JOINT and model.eq_obj1id[e] == joint and model.eq_obj2id[e] >= 0:
            factor = float(model.eq_data[e, 1])
            found.append((int(model.eq_obj2id[e]), 1 / factor, -float(model.eq_data[e, 0]) / factor))
    return found


def _smoothed(time_s: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """Angles under a Gaussian window; at the ends the window is cut and weighed anew."""
    step = float(np.median(np.diff(time_s)))
    reach = max(1, int(np.ceil(3 * SMOOTH_S / step)))
    weight = np.exp(-np.square(np.arange(-reach, reach + 1) * step / SMOOTH_S) / 2)
    if len(weight) > len(time_s):
        return angle
    norm = np.convolve(np.ones(len(time_s)), weight, "same")
    return np.stack([np.convolve(column, weight, "same") / norm for column in angle.T], axis=1)
