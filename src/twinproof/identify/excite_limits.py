"""What a robot may do while it is excited: where its joints may be, how fast, how strongly, how near to anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from twinproof.nouns.errors import ConfigError
from twinproof.sim.parameters.actuators import is_servo
from twinproof.sim.parameters.base import names, nearest

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from twinproof.sim.free_air import Clearance

SPEED = {"position": (2.0, 0.25), "torque": (12.0, 1.0)}  # rad/s of hinges, m/s of slides, where nobody says more
TURN_RAD = np.pi  # a joint without stops still has cables
SLIDE_M = 0.5
NO_ROOM = 0.02  # of a joint's range: with less to either side of home nothing can be designed


@dataclass(frozen=True)
class Asked:
    """Limits as a user states them: a range (rad, m) and a speed by joint, shares of what the motors can give."""

    ranges: Mapping[str, tuple[float, float]]
    speeds: Mapping[str, float]
    torque_share: float = 0.8
    margin_share: float = 0.05  # of a joint's range, kept free at both ends
    clearance_m: float = 0.02


NOTHING_ASKED = Asked({}, {})


@dataclass(frozen=True, eq=False)
class MotionLimits:
    """For each actuator: its joint's range, speed and force, and which joints may move at all."""

    kind: Literal["position", "torque"]
    joints: tuple[str, ...]
    units: tuple[str, ...]
    moves: np.ndarray  # bool, J
    qpos: Int[np.ndarray, "J"]
    dof: Int[np.ndarray, "J"]
    home: Float[np.ndarray, "J"]
    low: Float[np.ndarray, "J"]
    high: Float[np.ndarray, "J"]
    speed: Float[np.ndarray, "J"]
    torque: Float[np.ndarray, "J"]
    clearance_m: float

    @property
    def rest(self) -> Float[np.ndarray, "J"]:
        """The command at rest: home, or no torque."""
        return self.home if self.kind == "position" else np.zeros(len(self.home))

    @property
    def room(self) -> Float[np.ndarray, "J"]:
        """How far a command may go from rest, to either side."""
        way = np.minimum(self.high - self.home, self.home - self.low) if self.kind == "position" else self.torque
        found: np.ndarray = np.where(self.moves, way, 0.0)
        return found


@dataclass(frozen=True)
class Margins:
    """How far one joint went: shares of what is allowed, 1 is the limit."""

    joint: str
    position: float
    speed: float
    torque: float


def motion_limits(
    model: Any, home: np.ndarray, joints: Sequence[str] = (), asked: Asked = NOTHING_ASKED
) -> MotionLimits:
    """The limits of a model's driven joints. `home` is a whole qpos; only `joints` move (all by default)."""
    kind, driven = _driven(model)
    known = tuple(names(model, "joint")[j] for j in driven)
    for name in (*joints, *asked.ranges, *asked.speeds):
        if name not in known:
            raise ConfigError(f"no actuator drives a joint {name!r}. {nearest(name, known)}")
    q, v = model.jnt_qposadr[driven].astype(np.int64), model.jnt_dofadr[driven].astype(np.int64)
    slides = model.jnt_type[driven] == 2
    low, high = _ranges(model, driven, home[q], slides, asked)
    usual = np.where(slides, SPEED[kind][1], SPEED[kind][0])
    speed = np.array([asked.speeds.get(name, float(each)) for name, each in zip(known, usual, strict=True)])
    moves = np.array([not joints or name in joints for name in known])
    limits = MotionLimits(
        kind,
        known,
        tuple("m" if s else "rad" for s in slides)
        if kind == "position"
        else tuple("N" if s else "N m" for s in slides),
        moves,
        q,
        v,
        np.array(home[q]),
        low,
        high,
        speed,
        asked.torque_share * _torques(model, kind, known),
        asked.clearance_m,
    )
    _check_room(limits)
    return limits


def _driven(model: Any) -> tuple[Literal["position", "torque"], np.ndarray]:
    """The joints of the actuators, and whether these are servos or motors."""
    if not model.nu:
        raise ConfigError("the scene has no actuators: nothing can be excited. Give the robot its motors.")
    kinds = set()
    for a in range(model.nu):
        name = names(model, "actuator")[a]
        motor = model.actuator_gaintype[a] == 0 and model.actuator_biastype[a] == 0
        if model.actuator_trntype[a] != 0 or not (motor or is_servo(model, a)):
            raise ConfigError(
                f"actuator {name!r} is neither a position servo nor a motor of one joint: no trajectory can be "
                "designed for it. Take it out of the scene."
            )
        kinds.add("torque" if motor else "position")
    if len(kinds) > 1:
        raise ConfigError("some actuators are servos and some motors. Design for one kind at a time: take one out.")
    return ("position" if kinds == {"position"} else "torque"), model.actuator_trnid[:, 0].astype(np.int64)


def _ranges(
    model: Any, driven: np.ndarray, home: np.ndarray, slides: np.ndarray, asked: Asked
) -> tuple[np.ndarray, np.ndarray]:
    stops = model.jnt_limited[driven].astype(bool)
    far = np.where(slides, SLIDE_M, TURN_RAD)
    low = np.where(stops, model.jnt_range[driven, 0], home - far)
    high = np.where(stops, model.jnt_range[driven, 1], home + far)
    margin = np.where(stops, asked.margin_share * (high - low), 0.0)
    low, high = low + margin, high - margin
    for k, j in enumerate(driven):
        name = names(model, "joint")[j]
        if name in asked.ranges:
            first, last = asked.ranges[name]
            if not first < last:
                raise ConfigError(f"the range {first:g}..{last:g} of {name} does not rise. Give the lower end first.")
            low[k], high[k] = max(low[k], first), min(high[k], last)
    return low, high


def _torques(model: Any, kind: str, known: Sequence[str]) -> np.ndarray:
    found = np.full(model.nu, np.inf)
    for a in range(model.nu):
        if model.actuator_forcelimited[a]:
            found[a] = min(found[a], float(np.abs(model.actuator_forcerange[a]).min()))
        if kind == "torque" and model.actuator_ctrllimited[a]:
            gain = abs(float(model.actuator_gainprm[a, 0]))
            found[a] = min(found[a], gain * float(np.abs(model.actuator_ctrlrange[a]).min()))
    if kind == "torque" and not np.isfinite(found).all():
        name = known[int(np.argmax(~np.isfinite(found)))]
        raise ConfigError(f"the motor of {name!r} has no limit. Give it a ctrlrange or forcerange in the scene.")
    return found


def _check_room(limits: MotionLimits) -> None:
    """There is room around home, and something to move."""
    for k in np.flatnonzero(limits.moves):
        name, home = limits.joints[k], limits.home[k]
        little = NO_ROOM * (SLIDE_M / 10 if limits.units[k] in ("m", "N") else TURN_RAD)
        if min(limits.high[k] - home, home - limits.low[k]) < little:
            raise ConfigError(
                f"the limits leave no room for {name!r}: home is {home:.4g} and the allowed range {limits.low[k]:.4g} "
                f"to {limits.high[k]:.4g}. Widen the range or move home."
            )
        if not (limits.speed[k] > 0 and limits.torque[k] > 0):
            raise ConfigError(f"{name!r} may not move: its speed and torque limits must be above zero.")


def shares(
    limits: MotionLimits, qpos: np.ndarray, qvel: np.ndarray, force: np.ndarray
) -> Float[np.ndarray, "rows J 3"]:
    """How much of its position, speed and torque limit each joint used in each motion (rows, samples, …); 1 is all.

    A motion that diverged used infinitely much.
    """
    middle, half = (limits.high + limits.low) / 2, (limits.high - limits.low) / 2
    with np.errstate(invalid="ignore"):
        used = np.stack(
            [
                np.abs(qpos[..., limits.qpos] - middle).max(axis=-2) / half,
                np.abs(qvel[..., limits.dof]).max(axis=-2) / limits.speed,
                np.abs(force[..., limits.dof]).max(axis=-2) / limits.torque,
            ],
            axis=-1,
        )
    used[..., ~limits.moves, :] = 0.0
    found: np.ndarray = np.where(np.isfinite(used), used, np.inf)
    return found


def too_near(clearance: Clearance, qpos: np.ndarray) -> float:
    """By how much a motion (samples, nq) comes nearer than allowed, as a share of the clearance; 0 is not at all."""
    if not np.isfinite(qpos).all():
        return np.inf
    return (clearance.reach_m - clearance.least(qpos)[0]) / max(clearance.reach_m, 1e-6)
