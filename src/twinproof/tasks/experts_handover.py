"""The script of a handover: grasp, pick up, align, second grasp, release, place."""

from __future__ import annotations

import numpy as np

from twinproof.tasks.grasp import UP, columns, hold_of, kinematics, taken, widest_m
from twinproof.tasks.handling import Handling
from twinproof.tasks.handover import meeting_m
from twinproof.tasks.inverse import tools
from twinproof.tasks.script import Move, Script, Seen, Tool
from twinproof.tasks.task import TaskSpec
from twinproof.tasks.things import thing_of

TAKE_M = 0.008  # a tip stays this far short of the object's middle
PRESS_M = 0.020


def handover_script(task: TaskSpec) -> Script:
    """The first arm gives, the second takes."""
    machine = task.machine
    giver, taker = machine.arms
    thing = thing_of(machine.scene, task.tracked[0])
    hand, other = (Handling.of(machine, arm, thing) for arm in (giver, taker))
    meet, way = meeting_m(hand, other), other.base_m - hand.base_m
    x = np.array([*(way / np.linalg.norm(way)), 0.0])
    y = np.cross(UP, x)
    wide = min(widest_m(machine, giver), widest_m(machine, taker))
    hold = hold_of(thing, wide)
    narrow = hold.half_m - PRESS_M

    def script(seen: Seen) -> list[Move]:
        rows = np.ones((len(seen["goal"]), 1))
        at, turn = taken(machine, giver, thing, hold, seen)
        at[:, 2] = seen["object_position"][:, 2] + thing.middle_m[2] + TAKE_M
        home = kinematics(machine, giver).poses(seen["joint_position"][:, columns(machine, giver)])
        ahead, back = tools(x * rows, y * rows), tools(-x * rows, UP * rows)
        put = seen["goal"] + (TAKE_M + 0.003) * UP
        above, down = put + 0.09 * UP, tools(-UP * rows, -y * rows)
        left, right = giver.tip, taker.tip
        return [
            Move(0.3, {left: Tool(grip_m=wide), right: Tool(grip_m=wide)}),
            Move(1.1, {left: Tool(at + 0.12 * UP, turn, swing=True)}),
            Move(0.7, {left: Tool(at)}),
            Move(0.2, {}),
            Move(0.4, {left: Tool(grip_m=narrow)}),
            Move(0.2, {}),
            Move(0.7, {left: Tool(at + 0.12 * UP)}),
            Move(
                1.6,
                {
                    left: Tool(meet - TAKE_M * x * rows, ahead, swing=True),
                    right: Tool(meet + (0.09 + TAKE_M) * x * rows, back, swing=True),
                },
            ),
            Move(0.5, {}),
            Move(0.8, {right: Tool(meet + TAKE_M * x * rows)}),
            Move(0.3, {}),
            Move(0.4, {right: Tool(grip_m=narrow)}),
            Move(0.2, {}),
            Move(0.35, {left: Tool(grip_m=wide)}),
            Move(0.1, {}),
            Move(0.5, {left: Tool(meet - 0.09 * x * rows)}),
            Move(1.4, {right: Tool(above, down, swing=True), left: Tool(home[0], home[1], swing=True)}),
            Move(0.2, {}),
            Move(0.8, {right: Tool(put)}),
            Move(0.3, {}),
            Move(0.4, {right: Tool(grip_m=wide)}),
            Move(0.5, {right: Tool(above)}),
        ]

    return script
