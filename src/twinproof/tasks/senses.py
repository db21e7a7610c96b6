"""Worlds as a robot and its tracker report them: biased, noisy, coarse, late, and sometimes not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from twinproof.tasks.backing import Backing
from twinproof.tasks.conditions import SENSORS, TRACKER, sensor_columns
from twinproof.tasks.machine import joint_places
from twinproof.tasks.sensed import Array

NOISE, TURN_NOISE, DELAY, DROPOUT, *BIAS = range(len(TRACKER))  # BIAS: of place and turn
READING, LOST_READING, TRACK, LOST_TRACK = 1, 2, 3, 4  # purposes of random numbers


class JointSenses:
    """Positions, velocities and torques of the joints, (N, 3J) in one array."""

    def __init__(self, backing: Backing, model: Any, joints: Sequence[str]) -> None:
        self._backing, self._count = backing, len(joints)
        at, dof = joint_places(model, joints)
        columns = [sensor_columns(model, joints, what) for what in SENSORS]
        state = (("qpos", at), ("qvel", dof), ("actuator_force", np.arange(len(joints))))
        self._parts = [
            ("sensordata", backing.array(mine)) if (mine >= 0).all() else (name, backing.array(places))
            for mine, (name, places) in zip(columns, state, strict=True)
        ]
        self._all = backing.array(np.concatenate(columns)) if all((mine >= 0).all() for mine in columns) else None
        self._held: Array = None

    def true(self) -> Array:
        """Without any error but a sensor's own delay; from the state itself where joints have no sensors."""
        if self._all is not None:
            return self._backing.view("sensordata")[:, self._all]
        return self._backing.xp.concatenate([self._backing.view(name)[:, at] for name, at in self._parts], -1)

    def read(self, rows: Mapping[str, Array], flags: Mapping[str, int], fresh: Array | None) -> Array:
        """What the robot reports now. Where `fresh` is given, only the worlds of that mask are read, and nothing of
        theirs is lost; the others keep what they read."""
        xp, noise = self._backing.xp, self._backing.noise
        read = self.true() + rows["bias"]
        if flags["noisy"]:
            read = read + rows["noise"] * noise.normal(3 * self._count, READING)
        if flags["coarse"]:
            step = xp.where(rows["quantum"] > 0, rows["quantum"], 1.0)
            read = xp.where(rows["quantum"] > 0, xp.round(read / step) * step, read)
        if fresh is not None and self._held is not None:
            read = xp.where(fresh[:, None], read, self._held)
        elif flags["lossy"] and fresh is None:
            read = xp.where(noise.uniform(1, LOST_READING) < rows["dropout"], self._held, read)
        self._held = read
        return read


class Tracker:
    """Poses of bodies (N, 7) as a tracker gives them: shifted, noisy, whole ticks late, now and then the last one."""

    def __init__(self, backing: Backing, bodies: Mapping[str, int], tick_s: float) -> None:
        self._backing, self._bodies, self._tick_s = backing, dict(bodies), tick_s
        self._lag = 0  # ticks of the longest delay
        self._past: dict[str, list[Array]] = {}  # the newest first
        self._held: dict[str, Array] = {}

    def true(self) -> dict[str, Array]:
        """Where the bodies are."""
        xpos, xquat = self._backing.view("xpos"), self._backing.view("xquat")
        return {
            name: self._backing.xp.concatenate([xpos[:, body], xquat[:, body]], -1)
            for name, body in self._bodies.items()
        }

    def read(
        self, rows: Mapping[str, Array], flags: Mapping[str, int], true: Mapping[str, Array], fresh: Array | None
    ) -> dict[str, Array]:
        """What the tracker says now. Where `fresh` is given, only the worlds of that mask are looked at, which see
        their first pose however late the tracker is."""
        if not flags["tracking"]:
            return dict(true)
        self._lag = flags["lag"]
        row, off = rows["tracker"], rows["tracked_off"]
        return {name: self._one(k, name, (row, off[:, k], pose), fresh) for k, (name, pose) in enumerate(true.items())}

    def _one(self, k: int, name: str, seen: tuple[Array, Array, Array], fresh: Array | None) -> Array:
        xp, noise, (row, off, pose) = self._backing.xp, self._backing.noise, seen
        old = self._past.get(name) or [pose]
        old = old + [old[-1]] * (self._lag + 1 - len(old))
        past = [pose, *old[:-1]] if fresh is None else [xp.where(fresh[:, None], pose, each) for each in old]
        self._past[name] = past
        late = xp.round(row[:, DELAY, None] / self._tick_s)
        for age in range(1, self._lag + 1):
            pose = xp.where(late >= age, past[age], pose)
        draw = noise.normal(6, TRACK + 10 * k)
        place = pose[:, :3] + off[:, :3] + row[:, NOISE, None] * draw[:, :3]
        turn = rotated(pose[:, 3:], off[:, 3:] + row[:, TURN_NOISE, None] * draw[:, 3:], xp)
        said = xp.concatenate([place, turn], -1)
        if name in self._held:
            keep = (
                ~fresh[:, None] if fresh is not None else noise.uniform(1, LOST_TRACK + 10 * k) < row[:, DROPOUT, None]
            )
            said = xp.where(keep, self._held[name], said)
        self._held[name] = said
        return said


def rotated(quat_wxyz: Array, by_rad: Array, xp: Any) -> Array:
    """The orientation turned by a small rotation vector in its own axes, to second order."""
    w, x, y, z = (quat_wxyz[:, k] for k in range(4))
    a, b, c = (by_rad[:, k] / 2 for k in range(3))
    d = 1 - (a * a + b * b + c * c) / 2
    found = xp.stack(
        [
            w * d - x * a - y * b - z * c,
            w * a + x * d + y * c - z * b,
            w * b - x * c + y * d + z * a,
            w * c + x * b - y * a + z * d,
        ],
        -1,
    )
    return found / ((found * found).sum(-1)[:, None] ** 0.5)
