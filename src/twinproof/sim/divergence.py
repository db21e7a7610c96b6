"""Worlds that blow up: found for all worlds at once at every step, explained one by one when somebody asks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import mujoco
import numpy as np

_BAD = (mujoco.mjtWarning.mjWARN_BADQPOS, mujoco.mjtWarning.mjWARN_BADQVEL, mujoco.mjtWarning.mjWARN_BADQACC)
_BAD_ROWS = slice(int(_BAD[0]), int(_BAD[-1]) + 1)
_WORDS = {_BAD[0]: "position", _BAD[1]: "velocity", _BAD[2]: "acceleration"}


@dataclass(frozen=True)
class Limits:
    """Beyond these a world counts as diverged. MuJoCo's own limit is 1e10, far too late to say what went wrong."""

    workspace_m: float = 100.0  # of free bodies from the origin, of sliding joints from their zero
    turn_rad: float = 1e6
    speed: float = 1e5  # m/s or rad/s

    def row(self, model: mujoco.MjModel) -> np.ndarray:
        """The largest allowed magnitude of each entry of qpos and then of qvel."""
        row = np.full(model.nq + model.nv, self.speed)
        for joint in range(model.njnt):
            first = int(model.jnt_qposadr[joint])
            match int(model.jnt_type[joint]):
                case mujoco.mjtJoint.mjJNT_FREE:
                    row[first : first + 3] = self.workspace_m
                    row[first + 3 : first + 7] = self.turn_rad
                case mujoco.mjtJoint.mjJNT_SLIDE:
                    row[first] = self.workspace_m
                case mujoco.mjtJoint.mjJNT_BALL:
                    row[first : first + 4] = self.turn_rad
                case _:
                    row[first] = self.turn_rad
        return row


@dataclass(frozen=True)
class Divergence:
    """The physics step (counted from the world's reset) at which a world diverged, its time, and the likely cause."""

    step: int
    time_s: float
    cause: str

    def __str__(self) -> str:
        return f"diverged at step {self.step} ({self.time_s:.4f} s): {self.cause}"


def warned(warning: np.ndarray) -> np.ndarray:
    """Which worlds have a bad position, velocity or acceleration among their MuJoCo warning counters (N, 7, 2)."""
    return np.asarray(warning[:, _BAD_ROWS, 1].any(axis=1))


@contextmanager
def quiet() -> Iterator[None]:
    """Keeps MuJoCo from printing and from writing MUJOCO_LOG.TXT: what it warns of is counted and flagged per world."""
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(_hear)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)


def _hear(text: str) -> None:
    """Takes the warning; the counters hold it."""


def explain(
    model: mujoco.MjModel, state: np.ndarray, controls: np.ndarray, limits: Limits, before: int = 0
) -> Divergence | None:
    """Replays one world from its last good state, `controls` (steps, nu), until it diverges; None if it does not.

    `before` is how many steps the world had taken in `state`.
    """
    data = mujoco.MjData(model)
    kept = model.opt.disableflags
    model.opt.disableflags = kept | mujoco.mjtDisableBit.mjDSBL_AUTORESET  # look at the wreck, not at a fresh start
    allowed = limits.row(model)
    try:
        with quiet():
            mujoco.mj_setState(model, data, state, mujoco.mjtState.mjSTATE_INTEGRATION)
            for k, control in enumerate(controls):
                data.ctrl[:] = control
                time_s = float(data.time)
                mujoco.mj_step(model, data)
                found = _bad_entry(model, data, allowed)
                if found is not None:
                    cause = f"{found[1]}; {_push(model, data, found[0])}"
                    return Divergence(before + k + 1, time_s + model.opt.timestep, cause)
    finally:
        model.opt.disableflags = kept
    return None


def _bad_entry(model: mujoco.MjModel, data: mujoco.MjData, allowed: np.ndarray) -> tuple[int, str] | None:
    """The degree of freedom that is off and what it did, or None."""
    for kind in _BAD:
        if data.warning[int(kind)].number:
            qacc = np.where(np.isfinite(data.qacc), np.abs(data.qacc), np.inf)
            dof = int(np.argmax(qacc)) if kind == _BAD[2] else int(data.warning[int(kind)].lastinfo)
            dof = min(dof, model.nv - 1)
            return dof, f"{_name(model, dof)} reached a {_WORDS[kind]} that is not finite or beyond 1e10"
    values = np.concatenate([data.qpos, data.qvel])
    over = np.flatnonzero(~(np.abs(values) <= allowed))
    if not over.size:
        return None
    entry = int(over[0])
    value, limit = values[entry], allowed[entry]
    if entry >= model.nq:
        dof = entry - model.nq
        return dof, f"{_name(model, dof)} moves at {value:.3g}, beyond {limit:.3g} m/s or rad/s"
    joint = int(np.searchsorted(model.jnt_qposadr, entry, side="right")) - 1
    dof = int(model.jnt_dofadr[joint])
    return dof, f"{_name(model, dof)} is at {value:.3g}, outside the limit of {limit:.3g} m or rad"


def _name(model: mujoco.MjModel, dof: int) -> str:
    joint = model.joint(int(model.dof_jntid[dof])).name
    body = model.body(int(model.dof_bodyid[dof])).name or f"number {int(model.dof_bodyid[dof])}"
    return f"joint {joint!r} of body {body!r}" if joint else f"body {body!r}"


def _push(model: mujoco.MjModel, data: mujoco.MjData, dof: int) -> str:
    """Which force on the degree of freedom is largest, and what that most likely means."""
    forces = {
        "actuator": data.qfrc_actuator[dof],
        "contact": data.qfrc_constraint[dof],
        "passive": data.qfrc_passive[dof],
        "applied": data.qfrc_applied[dof] + data.xfrc_applied[int(model.dof_bodyid[dof])].sum(),
        "inertial": data.qfrc_bias[dof],
    }
    sizes = {name: abs(value) if np.isfinite(value) else np.inf for name, value in forces.items()}
    largest = max(sizes, key=lambda name: sizes[name])
    said = f"the largest force on it is {sizes[largest]:.3g} N or N m"
    step_s = model.opt.timestep
    match largest:
        case "actuator":
            return f"{said}, from {_actuator(model, data)}: its gain is too stiff for the time step of {step_s:g} s"
        case "contact":
            return f"{said}, from a constraint: {_deepest(model, data)}"
        case "passive":
            return f"{said}, from its own spring or damper: too stiff for the time step of {step_s:g} s"
        case "applied":
            return f"{said}, applied from outside"
        case _:
            return f"{said}, from gravity and motion: its mass or inertia is too small, or nothing holds it"


def _actuator(model: mujoco.MjModel, data: mujoco.MjData) -> str:
    force = np.where(np.isfinite(data.actuator_force), np.abs(data.actuator_force), np.inf)
    return f"actuator {model.actuator(int(np.argmax(force))).name!r}"


def _deepest(model: mujoco.MjModel, data: mujoco.MjData) -> str:
    if not data.ncon:
        return "a joint limit, a friction loss or an equality, with no contact near"
    deepest = min(data.contact, key=lambda contact: contact.dist)
    first, second = (model.geom(int(geom)).name or f"number {int(geom)}" for geom in deepest.geom)
    return f"geoms {first!r} and {second!r} overlap by {-deepest.dist:.3g} m"
