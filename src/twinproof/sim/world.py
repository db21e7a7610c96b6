"""One world with names instead of indices: what a practice reality, an IK solver or a small test needs.

Many worlds at once are `Worlds`; this one is for code that looks at a single world after every step.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np

from twinproof.nouns.errors import SimError
from twinproof.sim.untimed import stop_clocks

if TYPE_CHECKING:
    from jaxtyping import Float

    from twinproof.sim.scene import Scene

JOINT_WIDTH = {0: (7, 6), 1: (4, 3), 2: (1, 1), 3: (1, 1)}  # free, ball, slide, hinge -> (qpos, qvel)


def compile_text(xml: str, assets: Mapping[str, bytes] | None = None) -> Any:
    """The MjModel of an MJCF text of our own; `assets` are its files by name. Foreign models go through `Scene`."""
    stop_clocks()
    try:
        return mujoco.MjModel.from_xml_string(xml, dict(assets or {}))
    except ValueError as problem:
        raise SimError(f"the model does not compile: {problem}. Mend the MJCF.") from None


@dataclass(frozen=True)
class Contact:
    """Two geoms that touch: where, how deep, and with what force along the normal."""

    first: str
    second: str
    bodies: tuple[str, str]
    position_m: tuple[float, float, float]
    depth_m: float
    force_n: float


class World:
    """A model and its state. Arrays are live views; names that the model lacks are errors with the nearest one."""

    def __init__(self, model: Any | Scene) -> None:
        self.model: Any = model if isinstance(model, mujoco.MjModel) else model.compile()
        self.data: Any = mujoco.MjData(self.model)
        self._joints: dict[str, tuple[slice, slice]] = {}
        mujoco.mj_forward(self.model, self.data)

    @property
    def qpos(self) -> Float[np.ndarray, "nq"]:
        """Positions of all joints, live."""
        view: np.ndarray = self.data.qpos
        return view

    @property
    def qvel(self) -> Float[np.ndarray, "nv"]:
        """Velocities of all joints, live."""
        view: np.ndarray = self.data.qvel
        return view

    @property
    def ctrl(self) -> Float[np.ndarray, "nu"]:
        """Controls, live."""
        view: np.ndarray = self.data.ctrl
        return view

    @property
    def time(self) -> float:
        """Simulated seconds since the last reset."""
        return float(self.data.time)

    @property
    def timestep_s(self) -> float:
        """Seconds of one step."""
        return float(self.model.opt.timestep)

    @property
    def actuators(self) -> tuple[str, ...]:
        """Names of the actuators, in the order of `ctrl`."""
        return tuple(self.model.actuator(i).name for i in range(self.model.nu))

    def reset(self, keyframe: str | None = None) -> None:
        """Back to the model's initial state, or to one of its keyframes; applied forces are gone."""
        if keyframe is None:
            mujoco.mj_resetData(self.model, self.data)
        else:
            mujoco.mj_resetDataKeyframe(self.model, self.data, self._id("key", keyframe))
        self.forward()

    def forward(self) -> None:
        """Everything that follows from the state: poses, contacts, forces."""
        mujoco.mj_forward(self.model, self.data)

    def kinematics(self) -> None:
        """Poses of bodies, sites, cameras and lights only."""
        mujoco.mj_kinematics(self.model, self.data)
        mujoco.mj_comPos(self.model, self.data)
        mujoco.mj_camlight(self.model, self.data)

    def step(self, count: int = 1) -> None:
        """Advances by some steps; a state that is no longer finite or explodes is an error."""
        mujoco.mj_step(self.model, self.data, count)
        for kind in (
            mujoco.mjtWarning.mjWARN_BADQPOS,
            mujoco.mjtWarning.mjWARN_BADQVEL,
            mujoco.mjtWarning.mjWARN_BADQACC,
        ):
            if self.data.warning[kind].number:
                raise SimError(
                    f"the world diverged before {self.time:.4f} s ({kind.name}, degree of freedom "
                    f"{self.data.warning[kind].lastinfo}). Check masses, gains and the time step."
                )

    def set_state(self, qpos: np.ndarray | None = None, qvel: np.ndarray | None = None, time_s: float = 0.0) -> None:
        """Sets positions and velocities (zero where None) and computes what follows."""
        for name, width, value in (("qpos", self.model.nq, qpos), ("qvel", self.model.nv, qvel)):
            if value is not None and np.shape(value) != (width,):
                raise SimError(f"{name} has shape {np.shape(value)}; this model needs ({width},).")
        if qpos is not None:
            self.data.qpos[:] = qpos
        self.data.qvel[:] = 0.0 if qvel is None else qvel
        self.data.time = time_s
        self.forward()

    def joint_slices(self, name: str) -> tuple[slice, slice]:
        """Where a joint's numbers lie in qpos and in qvel."""
        if name not in self._joints:
            i = self._id("joint", name)
            q, v = JOINT_WIDTH[int(self.model.jnt_type[i])]
            first_q, first_v = int(self.model.jnt_qposadr[i]), int(self.model.jnt_dofadr[i])
            self._joints[name] = slice(first_q, first_q + q), slice(first_v, first_v + v)
        return self._joints[name]

    def joint_indices(self, names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Places in qpos and qvel of hinge or slide joints, in the order of the names."""
        places = [self.joint_slices(name) for name in names]
        return np.array([q.start for q, _ in places], int), np.array([v.start for _, v in places], int)

    def joint_range(self, name: str) -> tuple[float, float]:
        """Lower and upper limit; infinite where the joint has none."""
        i = self._id("joint", name)
        if not self.model.jnt_limited[i]:
            return -np.inf, np.inf
        low, high = self.model.jnt_range[i]
        return float(low), float(high)

    def set_joint(self, name: str, value: float | np.ndarray) -> None:
        """Puts one joint somewhere; call `forward` after the last one."""
        self.data.qpos[self.joint_slices(name)[0]] = value

    def joint_force(self, name: str, value: float | np.ndarray) -> None:
        """The force (N) or torque (N m) applied to a joint from outside, until it is set again."""
        self.data.qfrc_applied[self.joint_slices(name)[1]] = value

    def body_force(self, name: str, force_n: np.ndarray, torque_nm: np.ndarray | None = None) -> None:
        """The force at a body's centre of mass and the torque on it, in world axes, until they are set again."""
        i = self._id("body", name)
        self.data.xfrc_applied[i, :3] = force_n
        self.data.xfrc_applied[i, 3:] = 0.0 if torque_nm is None else torque_nm

    def body_pose(self, name: str) -> Float[np.ndarray, "4 4"]:
        """T_world_body."""
        i = self._id("body", name)
        return _pose(self.data.xpos[i], self.data.xmat[i])

    def site_pose(self, name: str) -> Float[np.ndarray, "4 4"]:
        """T_world_site."""
        i = self._id("site", name)
        return _pose(self.data.site_xpos[i], self.data.site_xmat[i])

    def camera_pose(self, name: str) -> Float[np.ndarray, "4 4"]:
        """T_world_camera, the camera looking along +z, x right, y down, as everywhere outside MuJoCo."""
        i = self._id("camera", name)
        return _pose(self.data.cam_xpos[i], self.data.cam_xmat[i]) @ np.diag([1.0, -1.0, -1.0, 1.0])

    def site_jacobian(self, name: str) -> Float[np.ndarray, "6 nv"]:
        """How the site moves (three rows) and turns (three rows, world axes) with the joint velocities."""
        jacobian = np.zeros((6, self.model.nv))
        mujoco.mj_jacSite(self.model, self.data, jacobian[:3], jacobian[3:], self._id("site", name))
        return jacobian

    def bias_force(self) -> Float[np.ndarray, "nv"]:
        """Gravity and velocity forces that actuators have to carry, joint by joint."""
        force: np.ndarray = self.data.qfrc_bias.copy()
        return force

    def actuator_force(self) -> Float[np.ndarray, "nu"]:
        """The force of each actuator at the last step."""
        force: np.ndarray = self.data.actuator_force.copy()
        return force

    def sensor(self, name: str) -> np.ndarray:
        """The numbers of one sensor at the last step."""
        value: np.ndarray = self.data.sensor(self._name("sensor", name)).data.copy()
        return value

    def contacts(self) -> tuple[Contact, ...]:
        """All contacts of the last step."""
        found, force = [], np.zeros(6)
        for k in range(self.data.ncon):
            contact = self.data.contact[k]
            mujoco.mj_contactForce(self.model, self.data, k, force)
            geoms = [self.model.geom(int(g)) for g in contact.geom]
            bodies = tuple(self.model.body(int(geom.bodyid[0])).name for geom in geoms)
            x, y, z = (float(v) for v in contact.pos)
            found.append(
                Contact(
                    geoms[0].name,
                    geoms[1].name,
                    (bodies[0], bodies[1]),
                    (x, y, z),
                    -float(contact.dist),
                    float(force[0]),
                )
            )
        return tuple(found)

    def touching(self, first: str, second: str) -> bool:
        """Whether any geom of one body touches any of another."""
        a, b = self._id("body", first), self._id("body", second)
        owner = self.model.geom_bodyid
        pairs = [{int(owner[g]) for g in self.data.contact[k].geom} for k in range(self.data.ncon)]
        return {a, b} in pairs

    def has(self, kind: str, name: str) -> bool:
        """Whether the model has a body, joint, site, camera, … of this name."""
        return bool(mujoco.mj_name2id(self.model, _KINDS[kind], name) >= 0)

    def _id(self, kind: str, name: str) -> int:
        i = int(mujoco.mj_name2id(self.model, _KINDS[kind], name))
        if i < 0:
            have = [mujoco.mj_id2name(self.model, _KINDS[kind], k) or "" for k in range(self._count(kind))]
            near = difflib.get_close_matches(name, have, n=1)
            cure = f"Did you mean {near[0]!r}?" if near else f"It has {', '.join(n for n in have if n) or 'none'}."
            raise SimError(f"the model has no {kind} {name!r}. {cure}")
        return i

    def _name(self, kind: str, name: str) -> str:
        self._id(kind, name)
        return name

    def _count(self, kind: str) -> int:
        field = {
            "body": "nbody",
            "joint": "njnt",
            "site": "nsite",
            "camera": "ncam",
            "sensor": "nsensor",
            "key": "nkey",
        }
        return int(getattr(self.model, field[kind]))


_KINDS = {
    "body": mujoco.mjtObj.mjOBJ_BODY,
    "joint": mujoco.mjtObj.mjOBJ_JOINT,
    "site": mujoco.mjtObj.mjOBJ_SITE,
    "camera": mujoco.mjtObj.mjOBJ_CAMERA,
    "sensor": mujoco.mjtObj.mjOBJ_SENSOR,
    "key": mujoco.mjtObj.mjOBJ_KEY,
}


def _pose(position: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = np.reshape(matrix, (3, 3)), position
    return pose
