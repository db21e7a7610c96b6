"""The robot in a scene: which joints it drives, what it may be told, where its tips are, and where it rests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from twinproof.nouns.errors import TaskError
from twinproof.nouns.robot import Limits
from twinproof.nouns.twin import Twin
from twinproof.sim.kinematics import Chain, chain_of
from twinproof.sim.parameters.actuators import is_servo
from twinproof.sim.parameters.base import names, nearest
from twinproof.sim.scene import Scene

FREE, SLIDE, HINGE = 0, 2, 3  # mjtJoint
ON_JOINT = 0  # mjtTrn
COUPLED = 2  # mjtEq: one joint follows another
SERVO_SPEED = {HINGE: 2.5, SLIDE: 0.3}  # rad/s, m/s: what lab robots allow, unless limits are given
BEYOND = 0.25  # of a joint's range: encoders that are off read beyond its ends
RATES_HZ = {"servo": 20.0, "torque": 100.0}


@dataclass(frozen=True)
class Arm:
    """Joints that move a tip (a site or body), and the driven fingers beyond it."""

    tip: str
    joints: tuple[str, ...]
    fingers: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Machine:
    """A scene's robot. Joints are the driven ones in the order of the actuators, as a robot's driver lists them."""

    scene: Scene
    joints: tuple[str, ...]
    arms: tuple[Arm, ...]
    torque_driven: bool
    rate_hz: float
    limits: Limits
    home: np.ndarray  # (J,) rad or m

    @classmethod
    def of(
        cls,
        scene: Scene | Twin,
        *,
        home: Mapping[str, float] | None = None,
        rate_hz: float | None = None,
        limits: Limits | None = None,
        tips: Sequence[str] = (),
    ) -> Machine:
        """The robot that a scene's actuators drive.

        What is not given is looked for: `tips` among sites called tip or …_tip, `home` in a keyframe "home" (a
        torque-driven robot hangs at the model's own zero), `limits` in the joints' ranges at 2.5 rad/s and 0.3 m/s,
        the rate is 20 Hz for servos and 100 Hz for torques. What cannot be found is an error that says so.
        """
        scene = Scene.of(scene) if isinstance(scene, Twin) else scene
        model: Any = scene.nominal()
        joints, torque_driven = _driven(model)
        arms = tuple(_arm(model, joints, tip) for tip in tips or _tips(model))
        return cls(
            scene,
            joints,
            arms,
            torque_driven,
            rate_hz or RATES_HZ["torque" if torque_driven else "servo"],
            limits or _limits(model, joints, torque_driven),
            _home(model, joints, home, torque_driven),
        )

    @property
    def command_units(self) -> tuple[str, ...]:
        """The unit of each joint's command."""
        model: Any = self.scene.nominal()
        slides = [int(model.joint(name).type[0]) == SLIDE for name in self.joints]
        return tuple(("N" if s else "N·m") if self.torque_driven else ("m" if s else "rad") for s in slides)

    @property
    def fingers(self) -> tuple[int, ...]:
        """Places of the driven fingers among the joints."""
        return tuple(self.joints.index(name) for arm in self.arms for name in arm.fingers)

    @property
    def qpos_at(self) -> np.ndarray:
        """Where the joints lie in qpos."""
        return joint_places(self.scene.nominal(), self.joints)[0]

    @property
    def qvel_at(self) -> np.ndarray:
        """Where the joints lie in qvel."""
        return joint_places(self.scene.nominal(), self.joints)[1]

    @property
    def substeps(self) -> int:
        """Physics steps in a tick."""
        step_s = float(self.scene.nominal().opt.timestep)
        count = max(1, round(1 / (self.rate_hz * step_s)))
        if abs(count * step_s * self.rate_hz - 1) > 1e-6:
            raise TaskError(
                f"a tick at {self.rate_hz:g} Hz is {1 / (self.rate_hz * step_s):.3f} physics steps of {step_s:g} s; it "
                "must be a whole number of them. Change the rate, the scene's timestep, or how coarse it is."
            )
        return count

    def chain(self, arm: Arm) -> Chain:
        """The way from the world to an arm's tip."""
        return chain_of(self.scene, arm.joints, arm.tip)

    def arm(self, tip: str = "") -> Arm:
        """The arm of this tip, or the only one."""
        if not tip and len(self.arms) != 1:
            found = ", ".join(arm.tip for arm in self.arms) or "none"
            raise TaskError(
                f"the task needs an arm with one tip, and the scene's tips are: {found}. Give the site or body between "
                "the fingers as tip=…, or name a site 'tip'."
            )
        for arm in self.arms:
            if tip in ("", arm.tip):
                return arm
        return _arm(self.scene.nominal(), self.joints, tip)

    def qpos(self, joints: np.ndarray) -> np.ndarray:
        """The scene's qpos with the robot's joints at these values, and what is coupled to them along."""
        model: Any = self.scene.nominal()
        found = np.array(model.qpos0)
        found[self.qpos_at] = joints
        follow(model, found)
        return found


def joint_places(model: Any, joints: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Where joints lie in qpos and in qvel."""
    found = [model.joint(name).id for name in joints]
    return np.array(model.jnt_qposadr[found], dtype=np.int64), np.array(model.jnt_dofadr[found], dtype=np.int64)


def follow(model: Any, qpos: np.ndarray) -> None:
    """Sets joints that an equality couples to another one where it wants them."""
    for k in range(model.neq):
        first, second = int(model.eq_obj1id[k]), int(model.eq_obj2id[k])
        if int(model.eq_type[k]) != COUPLED or second < 0:
            continue
        at, by = int(model.jnt_qposadr[first]), int(model.jnt_qposadr[second])
        x = qpos[by] - model.qpos0[by]
        qpos[at] = model.qpos0[at] + sum(float(c) * x**p for p, c in enumerate(model.eq_data[k, :5]))


def _driven(model: Any) -> tuple[tuple[str, ...], bool]:
    on_joint = [k for k in range(model.nactuator) if int(model.actuator_trntype[k]) == ON_JOINT]
    if not on_joint or len(on_joint) != model.nu:
        raise TaskError(
            f"the scene has {model.nu} controls, and {len(on_joint)} of them drive a joint. A task needs a robot whose "
            "actuators each drive one hinge or slide."
        )
    joints = tuple(model.joint(int(model.actuator_trnid[k, 0])).name for k in on_joint)
    servos = [is_servo(model, k) for k in on_joint]
    if any(servos) and not all(servos):
        torque = [joints[k] for k, servo in enumerate(servos) if not servo]
        raise TaskError(
            f"{', '.join(torque)} take torques and the other joints positions. A task needs all of one kind."
        )
    return joints, not servos[0]


def _tips(model: Any) -> list[str]:
    sites = [model.site(k).name for k in range(model.nsite)]
    return [name for name in sites if name == "tip" or name.endswith("_tip")]


def _arm(model: Any, joints: tuple[str, ...], tip: str) -> Arm:
    sites = {model.site(k).name: int(model.site_bodyid[k]) for k in range(model.nsite)}
    bodies = names(model, "body")
    if tip not in sites and tip not in bodies:
        raise TaskError(f"the scene has no site or body {tip!r} as a tip. {nearest(tip, [*sites, *bodies])}")
    body = sites[tip] if tip in sites else bodies.index(tip)
    above = set(_above(model, body))
    carrier = {name: int(model.jnt_bodyid[model.joint(name).id]) for name in joints}
    moving = tuple(name for name in joints if carrier[name] in above)
    beyond = tuple(name for name in joints if carrier[name] not in above and body in _above(model, carrier[name]))
    if not moving:
        raise TaskError(f"no actuator moves the tip {tip!r}. Name the site or body at the end of a driven arm.")
    return Arm(tip, moving, beyond)


def _above(model: Any, body: int) -> list[int]:
    """The body and what carries it."""
    found = []
    while body > 0:
        found.append(body)
        body = int(model.body_parentid[body])
    return found


def _limits(model: Any, joints: tuple[str, ...], torque_driven: bool) -> Limits:
    numbers = [model.joint(name).id for name in joints]
    if torque_driven:
        limited = np.array(model.actuator_ctrllimited, dtype=bool)
        span = np.where(limited[:, None], model.actuator_ctrlrange, model.actuator_forcerange)
        if (span[:, 0] >= span[:, 1]).any():
            free = joints[int(np.argmax(span[:, 0] >= span[:, 1]))]
            raise TaskError(f"the motor of {free!r} has no limit. Give it a ctrlrange, or give limits=….")
        return Limits(span[:, 0].copy(), span[:, 1].copy(), np.full(len(joints), np.inf))
    free_joints = [name for name, k in zip(joints, numbers, strict=True) if not model.jnt_limited[k]]
    if free_joints:
        raise TaskError(f"the joint {free_joints[0]!r} has no range. Give it one in the scene, or give limits=….")
    span = np.array(model.jnt_range[numbers])
    speed = np.array([SERVO_SPEED[int(model.jnt_type[k])] for k in numbers])
    return Limits(span[:, 0].copy(), span[:, 1].copy(), speed)


def _check_inside(model: Any, joints: tuple[str, ...], home: np.ndarray) -> None:
    for name, at in zip(joints, home.tolist(), strict=True):
        joint = model.joint(name).id
        low, high = model.jnt_range[joint].tolist() if model.jnt_limited[joint] else (-np.inf, np.inf)
        slack = BEYOND * (high - low) if np.isfinite(high - low) else 0.0
        if not low - slack <= at <= high + slack or not np.isfinite(at):
            raise TaskError(
                f"home has {name!r} at {at:g}, and that joint goes from {low:g} to {high:g}. Give a position inside, "
                "in rad or m."
            )


def _home(model: Any, joints: tuple[str, ...], home: Mapping[str, float] | None, torque_driven: bool) -> np.ndarray:
    at, _ = joint_places(model, joints)
    if home is not None:
        strange = [name for name in home if name not in joints]
        if strange:
            raise TaskError(f"home names {strange[0]!r}, which nothing drives. {nearest(strange[0], joints)}")
        missing = [name for name in joints if name not in home]
        if missing:
            raise TaskError(f"home has no value for {', '.join(missing)}. Give one for every driven joint.")
        stated = np.array([float(home[name]) for name in joints])
        _check_inside(model, joints, stated)
        return stated
    keys = [model.key(k).name for k in range(model.nkey)]
    if "home" in keys:
        return np.array(model.key_qpos[keys.index("home")][at])
    if torque_driven:
        return np.array(model.qpos0[at])
    raise TaskError(
        "the scene has no keyframe 'home', so nothing says where the arm begins. Give --home SPLIT, where its recorded "
        "episodes begin, or --home with 'joint=value' for every driven joint; in Python home={joint: value}."
    )
