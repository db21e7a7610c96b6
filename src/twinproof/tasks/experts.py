"""A scripted expert for every task: it sees what a policy sees, and knows the nominal model."""

from __future__ import annotations

import numpy as np

from twinproof.nouns.actor import Actor
from twinproof.nouns.errors import TaskError
from twinproof.nouns.theta import Theta
from twinproof.tasks.experts_handover import handover_script
from twinproof.tasks.experts_track import Follower
from twinproof.tasks.grasp import DOWN, PRESS_M, UP, boundary, hold_of, nearer, taken, widest_m
from twinproof.tasks.inverse import NOMINAL, Weight, tools
from twinproof.tasks.machine import joint_places
from twinproof.tasks.script import Move, Script, Scripted, Seen, Tool, at_rest, offsets_of
from twinproof.tasks.task import TaskSpec
from twinproof.tasks.things import slider_of, thing_of

TIP_HALF_M = 0.012  # from the tip's axis to the outside of closed fingers
CLEAR_M = 0.09
FREE_TURN_M = 0.002  # a hand that only has to be somewhere turns as it likes


def expert_of(task: TaskSpec, theta: Theta = NOMINAL) -> Actor:
    """The expert of one of our tasks, for the nominal robot or for one as a Theta describes it, such as a posterior's
    point: an arm whose encoders are off by degrees is then led to where they should be."""
    match task.name:
        case "reach" if task.machine.torque_driven:
            return Braced(task, theta=theta)
        case "reach":
            return Scripted(task, _reach(task), FREE_TURN_M, theta)
        case "push":
            return Scripted(task, _push(task), theta=theta)
        case "lift":
            return Scripted(task, _lift(task), theta=theta)
        case "drawer":
            return Scripted(task, _drawer(task), theta=theta)
        case "handover":
            return Scripted(task, handover_script(task), theta=theta)
        case "track":
            return Follower(task, theta)
        case _:
            raise TaskError(f"there is no scripted expert for the task {task.name!r}. Write one: see nouns/actor.py.")


def expert_by_name(name: str, task: TaskSpec, theta: Theta = NOMINAL) -> Actor | None:
    """The expert of the task that `task_named` gives for a name; None for a file of the user's own."""
    return None if name.endswith(".py") else expert_of(task, theta)


class Braced:
    """Torques that hold joints against gravity and draw them to their goal like springs with dampers."""

    def __init__(self, task: TaskSpec, hertz: float = 2.5, theta: Theta = NOMINAL) -> None:
        machine = task.machine
        self.contract, self._task = task.deployable, task
        at, dof = joint_places(machine.scene.nominal(), machine.joints)
        self._weight = Weight(machine.scene, at, dof, at_rest(machine.scene, machine.joints, theta))
        self._offset = offsets_of(machine, theta)
        # What a joint feels while the others are free to yield: with its inertia against locked ones a late command
        # of 25 ms makes the outer joints swing for ever.
        self._inertia = 1.0 / np.array(machine.scene.nominal().dof_invweight0[dof])
        self._stiff, self._damp = (2 * np.pi * hertz) ** 2, 2 * 2 * np.pi * hertz

    def reset(self, count: int, seed: int, which: np.ndarray | None = None) -> None:
        """Nothing to forget."""

    def act(self, observations: Seen) -> np.ndarray:
        """(N, 1, A)."""
        seen = {name: np.asarray(rows, dtype=np.float64) for name, rows in observations.items()}
        pull = self._stiff * (seen["to_goal"] + self._offset) - self._damp * seen["joint_velocity"]
        torque: np.ndarray = self._weight(seen["joint_position"] - self._offset) + self._inertia * pull
        return torque[:, None]


def _reach(task: TaskSpec) -> Script:
    tip = task.machine.arms[0].tip

    def script(seen: Seen) -> list[Move]:
        return [Move(1.2, {tip: Tool(seen["goal"])}), Move(1.0, {})]

    return script


def _push(task: TaskSpec) -> Script:
    arm, thing = task.machine.arms[0], thing_of(task.machine.scene, task.tracked[0])
    tip = arm.tip

    def script(seen: Seen) -> list[Move]:
        at, goal = seen["object_position"], seen["goal"]
        off = goal - at[:, :2]
        length = np.linalg.norm(off, axis=1)
        along = np.concatenate([off / length[:, None], np.zeros((len(off), 1))], axis=1)
        gap = boundary(thing, seen["object_rotation"], -along) + TIP_HALF_M
        side = np.cross(UP, along)
        turn = tools(np.tile(DOWN, (len(at), 1)), nearer(task.machine, arm, seen, side))
        low = at[:, 2] + thing.middle_m[2] - thing.half_m[2]  # the table
        height = low + np.clip(0.8 * thing.half_m[2], 0.022, 0.034)

        def pose(back: np.ndarray, up: float) -> np.ndarray:
            place: np.ndarray = at - back[:, None] * along
            place[:, 2] = height + up
            return place

        return [
            Move(0.3, {tip: Tool(grip_m=0.0)}),
            Move(1.1, {tip: Tool(pose(gap + 0.035, CLEAR_M), turn)}),
            Move(0.5, {tip: Tool(pose(gap + 0.035, 0.0))}),
            Move(0.5 + length / 0.12, {tip: Tool(pose(gap - length, 0.0))}),
            Move(0.3, {}),
            Move(0.25, {tip: Tool(pose(gap - length + 0.025, 0.0))}),
            Move(0.4, {tip: Tool(pose(gap - length + 0.03, CLEAR_M))}),
        ]

    return script


def _lift(task: TaskSpec) -> Script:
    arm, thing = task.machine.arms[0], thing_of(task.machine.scene, task.tracked[0])
    tip, wide = arm.tip, widest_m(task.machine, arm)
    hold = hold_of(thing, wide)

    def script(seen: Seen) -> list[Move]:
        at, turn = taken(task.machine, arm, thing, hold, seen)

        def above(metres: float) -> np.ndarray:
            return at + metres * UP

        return [
            Move(0.3, {tip: Tool(grip_m=wide)}),
            Move(1.1, {tip: Tool(above(0.12), turn)}),
            Move(0.7, {tip: Tool(at)}),
            Move(0.2, {}),
            Move(0.4, {tip: Tool(grip_m=hold.half_m - PRESS_M)}),
            Move(0.2, {}),
            Move(0.8, {tip: Tool(above(0.125))}),
            Move(1.0, {}),
            Move(0.8, {tip: Tool(above(0.003))}),
            Move(0.2, {}),
            Move(0.35, {tip: Tool(grip_m=wide)}),
            Move(0.5, {tip: Tool(above(0.10))}),
        ]

    return script


def _drawer(task: TaskSpec) -> Script:
    arm = task.machine.arms[0]
    tip, wide = arm.tip, widest_m(task.machine, arm)
    drawer = slider_of(task.machine.scene, task.machine, _joint_of(task))

    def script(seen: Seen) -> list[Move]:
        hold = seen["handle"] + 0.004 * drawer.opens
        rows = np.ones((len(hold), 1))
        turn = tools(-drawer.opens * rows, nearer(task.machine, arm, seen, UP * rows))
        pulled = min(0.125, drawer.most_m - 0.02)

        def out(metres: float) -> np.ndarray:
            found: np.ndarray = hold + metres * drawer.opens
            return found

        return [
            Move(0.3, {tip: Tool(grip_m=wide)}),
            Move(1.3, {tip: Tool(out(0.07), turn)}),
            Move(0.2, {}),
            Move(0.6, {tip: Tool(hold)}),
            Move(0.2, {}),
            Move(0.4, {tip: Tool(grip_m=-0.003)}),
            Move(0.2, {}),
            Move(1.3, {tip: Tool(out(pulled))}),
            Move(0.3, {}),
            Move(0.4, {tip: Tool(grip_m=wide)}),
            Move(0.5, {tip: Tool(out(pulled + 0.06))}),
        ]

    return script


def _joint_of(task: TaskSpec) -> str:
    return next(iter(task.draw(np.random.default_rng(0)).joints))
