"""Scripted experts: moves of tools and fingers, planned when an episode begins and followed by inverse kinematics.

observations ─(first of an episode)─> moves: pose of each tool, opening of its fingers, seconds
every tick: the pose on the way ─> joints ─> plus what gravity takes ─> action
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from twinproof.nouns.errors import PolicyError
from twinproof.nouns.theta import Theta
from twinproof.sim.channels import joint_offsets
from twinproof.sim.instantiate import poke_model
from twinproof.sim.scene import Scene
from twinproof.tasks.conditions import physics
from twinproof.tasks.inverse import NOMINAL, PER_RAD_M, ArmKinematics, Weight, rotation_vectors, turned_by
from twinproof.tasks.machine import SLIDE, Machine, joint_places
from twinproof.tasks.sensed import Sensed
from twinproof.tasks.task import TaskSpec

Seen = Mapping[str, np.ndarray]
WAIT_RAD = 0.3  # behind the plan


@dataclass(frozen=True, eq=False)
class Tool:
    """Where a tip is to be and how it is to be turned, (N, …); None stays as it was. `grip_m` is a finger's opening.

    A tip goes straight to its place, or, where the arm swings, its joints do: far turns are then the same however they
    begin, where a straight way may pass a pose in which the hand can roll either way.
    """

    place_m: np.ndarray | None = None  # (N, 3)
    turn: np.ndarray | None = None  # (N, 3, 3)
    grip_m: np.ndarray | float | None = None  # (N,)
    swing: bool = False


@dataclass(frozen=True, eq=False)
class Move:
    """What the tools do for some seconds, by tip; those that are not named stay."""

    seconds: np.ndarray | float  # (N,) or one for all
    tools: Mapping[str, Tool]


Script = Callable[[Seen], list[Move]]  # the observations of worlds whose episodes begin -> what to do in each


@dataclass(eq=False)
class _Way:
    """The poses between which one tool moves: before the first move, and after each."""

    place: np.ndarray  # (N, S + 1, 3)
    turn: np.ndarray  # (N, S + 1, 3, 3)
    spin: np.ndarray  # (N, S, 3) rotation vector from one to the next
    grip: np.ndarray  # (N, S + 1)
    joints: np.ndarray  # (N, S, n) where a swing ends; NaN where the tip goes straight


class Scripted:
    """An actor that plans `script(observations) -> moves` at the first tick of an episode. It sees what the deployable
    contract lets it see, and knows the nominal model, or what a Theta says of it: encoder offsets, gains, masses.
    """

    def __init__(self, task: TaskSpec, script: Script, per_rad_m: float = PER_RAD_M, theta: Theta = NOMINAL) -> None:
        machine = task.machine
        self.contract, self._task, self._script, self._per_rad_m = task.deployable, task, script, per_rad_m
        self._arms = {arm.tip: [machine.joints.index(name) for name in arm.joints] for arm in machine.arms}
        self._fingers = {arm.tip: [machine.joints.index(name) for name in arm.fingers] for arm in machine.arms}
        limits = machine.limits
        self._kinematics = {
            arm.tip: ArmKinematics(
                machine.chain(arm), limits.low[self._arms[arm.tip]], limits.high[self._arms[arm.tip]]
            )
            for arm in machine.arms
        }
        self._lead, self._offset = Lead(machine, theta), offsets_of(machine, theta)
        self._moving = sorted({column for columns in self._arms.values() for column in columns})
        self._count = 0
        self._joints = np.zeros((0, len(machine.joints)))
        self._from, self._leg = self._joints, np.zeros(0, dtype=np.int64)  # where the present move began, and which
        self._ways: dict[str, _Way] = {}

    def reset(self, count: int, seed: int, which: np.ndarray | None = None) -> None:
        """Plans anew in the worlds of the mask; with another count in all."""
        if count != self._count:
            self._count, self._tick, self._new = count, np.zeros(count, dtype=np.int64), np.ones(count, dtype=bool)
            self._ways = {}
        self._new |= True if which is None else which

    def act(self, observations: Seen) -> np.ndarray:
        """(N, 1, A)."""
        seen = {name: np.asarray(observations[name], dtype=np.float64) for name in observations}
        if len(seen["joint_position"]) != self._count:
            raise PolicyError(
                f"{len(seen['joint_position'])} worlds are to be acted in, and the expert was reset for {self._count}. "
                "Reset it with that count."
            )
        seen["joint_position"] = seen["joint_position"] - self._offset
        if self._new.any():
            self._plan({name: rows[self._new] for name, rows in seen.items()})
        share, leg = self._progress()
        begun = leg != self._leg
        self._from[begun], self._leg = self._joints[begun], leg
        wanted = self._joints.copy()
        for tip, way in self._ways.items():
            place, turn, grip = _between(way, leg, share)
            columns = self._arms[tip]
            straight = self._kinematics[tip].towards(wanted[:, columns], place, turn, self._per_rad_m)
            before, end = self._from[:, columns], way.joints[np.arange(self._count), leg]
            wanted[:, columns] = np.where(np.isnan(end), straight, before + share[:, None] * (end - before))
            wanted[:, self._fingers[tip]] = grip[:, None]
        far = np.abs(seen["joint_position"] - self._joints)[:, self._moving].max(axis=1, initial=0.0)
        self._tick += far < WAIT_RAD  # a robot that was pushed, or that another one drives, is waited for
        self._joints = wanted
        limits = self._task.machine.limits
        told = np.clip(wanted + self._lead(wanted) + self._offset, limits.low, limits.high)
        action: np.ndarray = self._task.action(_as_sensed(seen), told)
        return action[:, None]

    def _progress(self) -> tuple[np.ndarray, np.ndarray]:
        """How far along its present move each world is, smoothly, and which move that is."""
        now = (self._tick + 1)[:, None]
        leg = np.minimum((now > self._ends).sum(axis=1), self._ends.shape[1] - 1)
        rows = np.arange(self._count)
        end = self._ends[rows, leg]
        begin = np.where(leg > 0, self._ends[rows, leg - 1], 0)
        s = np.clip((now[:, 0] - begin) / np.maximum(end - begin, 1), 0.0, 1.0)
        return s**3 * (10 - 15 * s + 6 * s * s), leg

    def _plan(self, seen: Seen) -> None:
        """Fills the rows of new worlds; all worlds have as many moves."""
        rows, moves = np.flatnonzero(self._new), self._script(seen)
        count = len(rows)
        ticks = [np.broadcast_to(np.round(np.asarray(m.seconds) * self.contract.rate_hz), (count,)) for m in moves]
        ends = np.cumsum(np.maximum(np.stack(ticks, axis=1), 1), axis=1)
        fresh = {tip: self._way(tip, seen["joint_position"], moves) for tip in self._arms}
        if not self._ways:
            self._ends = np.zeros((self._count, len(moves)))
            self._joints = np.zeros((self._count, len(self._task.machine.joints)))
            self._from, self._leg = self._joints.copy(), np.zeros(self._count, dtype=np.int64)
            self._ways = {tip: _empty(way, self._count) for tip, way in fresh.items()}
        self._ends[rows], self._joints[rows] = ends, seen["joint_position"]
        self._leg[rows] = -1
        for tip, way in fresh.items():
            mine = self._ways[tip]
            mine.place[rows], mine.turn[rows], mine.spin[rows] = way.place, way.turn, way.spin
            mine.grip[rows], mine.joints[rows] = way.grip, way.joints
        self._tick[rows], self._new[:] = 0, False

    def _way(self, tip: str, joints: np.ndarray, moves: list[Move]) -> _Way:
        place, turn, _ = self._kinematics[tip].poses(joints[:, self._arms[tip]])
        fingers = self._fingers[tip]
        grip = joints[:, fingers[0]] if fingers else np.zeros(len(joints))
        places, turns, grips, swings = [place], [turn], [grip], []
        mine = self._arms[tip]
        home = self._task.machine.home[mine]
        for move in moves:
            tool = move.tools.get(tip, Tool())
            places.append(places[-1] if tool.place_m is None else tool.place_m)
            turns.append(turns[-1] if tool.turn is None else tool.turn)
            wide = (
                grips[-1] if tool.grip_m is None else np.broadcast_to(np.asarray(tool.grip_m, dtype=float), grip.shape)
            )
            grips.append(wide)
            end = np.full((len(joints), len(mine)), np.nan)
            if tool.swing:
                end = self._kinematics[tip].solved(home, places[-1], turns[-1], self._per_rad_m)
            swings.append(end)
        spins = [rotation_vectors(b @ a.transpose(0, 2, 1)) for a, b in pairwise(turns)]
        return _Way(
            np.stack(places, 1), np.stack(turns, 1), np.stack(spins, 1), np.stack(grips, 1), np.stack(swings, 1)
        )


class Lead:
    """How far servos must be told to lead so that gravity brings them where they should be; nothing for fingers."""

    def __init__(self, machine: Machine, theta: Theta = NOMINAL) -> None:
        scene: Scene = machine.scene
        model, inside = scene.nominal(), at_rest(scene, machine.joints, theta)
        self._weight = Weight(scene, *joint_places(model, machine.joints), inside)
        slides = np.array([int(model.joint(name).type[0]) == SLIDE for name in machine.joints])
        fitted = poke_model(model, inside)
        gain = np.array(fitted.actuator_gainprm[:, 0] * fitted.actuator_gear[:, 0])
        self._share = np.where(slides, 0.0, 1.0 / gain)

    def __call__(self, joints: np.ndarray) -> np.ndarray:
        """(N, J) rad."""
        return self._weight(joints) * self._share


def at_rest(scene: Scene, joints: Sequence[str], theta: Theta) -> Theta:
    """What of a Theta a robot feels that does not move: no channels, and no delays."""
    inside = physics(scene.nominal(), joints, [theta], lean=True)[0]
    return Theta({id: value for id, value in inside.items() if not id.endswith(".delay")})


def offsets_of(machine: Machine, theta: Theta) -> np.ndarray:
    """What the encoders show beyond the truth (J,), as a Theta has it."""
    model = machine.scene.nominal()
    found: np.ndarray = joint_offsets(model, theta)[[model.joint(name).id for name in machine.joints]]
    return found


def _between(way: _Way, leg: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows = np.arange(len(leg))
    place = way.place[rows, leg] + share[:, None] * (way.place[rows, leg + 1] - way.place[rows, leg])
    turn = turned_by(share[:, None] * way.spin[rows, leg]) @ way.turn[rows, leg]
    return place, turn, way.grip[rows, leg] + share * (way.grip[rows, leg + 1] - way.grip[rows, leg])


def _empty(way: _Way, count: int) -> _Way:
    shapes = (way.place, way.turn, way.spin, way.grip, way.joints)
    return _Way(*(np.zeros((count, *array.shape[1:])) for array in shapes))


def _as_sensed(seen: Seen) -> Sensed:
    position = seen["joint_position"]
    return Sensed(np, position[:, 0], position, seen["joint_velocity"], position[:, :0], seen["last_command"])
