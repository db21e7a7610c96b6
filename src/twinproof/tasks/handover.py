"""Handover: one arm picks up an object and passes it to the other, which puts it down at a mark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from twinproof.nouns.errors import TaskError
from twinproof.nouns.policy import Channel, Contract
from twinproof.nouns.twin import Twin
from twinproof.sim.scene import Scene
from twinproof.tasks.handling import AT_REST_M_S, FALLEN_M, Handling
from twinproof.tasks.machine import Machine
from twinproof.tasks.sensed import Array, Fixed, Sensed, Situation, distance
from twinproof.tasks.task import Setup, TaskSpec, action_channels, time_channel, time_left
from twinproof.tasks.things import gripper_of, thing_of

STAGES = ("grasp", "pick_up", "align", "second_grasp", "release", "place")
UP_M, MEET_M, NEAR_M = 0.02, 0.03, 0.035
MEETING_HEIGHT_M = 0.24  # above the arms' feet, halfway between them
PICK_M, MARK_M = (0.26, 0.33), 0.29  # from a foot towards the other: where the object lies, where it goes
BUMP_S = 0.5  # between two bumps of the clock
HELD_M, PRESSED_M = 0.045, 0.004  # where no contact is known: how near a tip is, how far fingers are kept from closing
FREED_M, DOWN_M = 0.006, 0.01  # … how far they are open beyond the object when they let go, and how low it is then


def of(
    scene: Scene | Twin,
    *,
    home: Mapping[str, float] | None = None,
    giver: str = "",
    taker: str = "",
    body: str = "",
    rate_hz: float | None = None,
    relative: bool = False,
    horizon_s: float = 14.0,
) -> TaskSpec:
    """The task for a scene with two arms; `giver` and `taker` are their tips, the first and second where not given."""
    machine = Machine.of(scene, home=home, rate_hz=rate_hz, tips=(giver, taker) if giver and taker else ())
    if len(machine.arms) != 2:
        found = ", ".join(arm.tip for arm in machine.arms) or "none"
        raise TaskError(
            f"a handover needs two arms, and the scene's tips are: {found}. Give the two as giver=… and taker=…."
        )
    first, second = machine.arms
    hand, other = (Handling.of(machine, arm, thing_of(machine.scene, body)) for arm in (first, second))
    name = hand.thing.body
    meeting = Fixed(meeting_m(hand, other))
    pads = [gripper_of(machine.scene, arm) for arm in (first, second)]
    touch = tuple((finger, name) for fingers in pads for finger in fingers)
    bumps = Fixed(np.arange(0.0, horizon_s, BUMP_S))
    places = (slice(0, len(pads[0])), slice(len(pads[0]), len(touch)))
    grips = [[machine.joints.index(finger) for finger in arm.fingers] for arm in machine.arms]

    def draw(rng: np.random.Generator) -> Setup:
        along = _towards(hand, other)
        side = np.array([-along[1], along[0]])
        at = hand.base_m + rng.uniform(*PICK_M) * along + rng.uniform(-0.09, 0.09) * side
        mark = other.base_m - MARK_M * along + rng.normal(0, 0.008, 2)
        z = hand.thing.at_m[2]
        return Setup((*mark.tolist(), float(z)), (float(at[0]), float(at[1])), float(rng.uniform(-0.45, 0.45)))

    def observe(sensed: Sensed) -> dict[str, Array]:
        seen = hand.seen(sensed)
        return {
            **seen,
            "second_tip": other.tip(sensed.position, sensed.xp),
            "goal": sensed.goal,
            "object_to_goal": sensed.goal - seen["object_position"],
            **time_left(sensed, horizon_s),
            "clock": _clock(sensed.time_s, bumps, sensed.xp),
        }

    def held(situation: Situation, arm: int) -> Array:
        """Whether all fingers of an arm touch the object; on a robot, whether it keeps them from closing."""
        if situation.touching is not None:
            return situation.touching[:, places[arm]].all(-1)
        apart = (situation.position - situation.command)[:, grips[arm]] > PRESSED_M
        return near(situation, arm) & apart.all(-1)

    def near(situation: Situation, arm: int) -> Array:
        tip = situation.tips[machine.arms[arm].tip]
        return distance(tip, situation.objects[name][:, :3]) < HELD_M

    def freed(situation: Situation, arm: int) -> Array:
        """Whether not all fingers of an arm touch the object; on a robot, whether they are wide open, or elsewhere."""
        if situation.touching is not None:
            return ~held(situation, arm)
        wide = situation.position[:, grips[arm]] > float(hand.thing.half_m[:2].max()) + FREED_M
        return wide.all(-1) | ~near(situation, arm)

    def notes(situation: Situation) -> dict[str, Array]:
        """The stage reached: how many of STAGES have happened, in their order."""
        xp, pose = situation.xp, situation.objects[name]
        gives, takes = held(situation, 0), held(situation, 1)
        lifted, slow = hand.height(situation) > UP_M, hand.at_rest(situation)
        aligned = gives & (distance(pose[:, :3], meeting.like(pose)) < MEET_M) & slow
        gave, took = freed(situation, 0), freed(situation, 1)
        down = ~lifted if situation.touching is not None else hand.height(situation) < DOWN_M
        rules = (gives, gives & lifted, aligned, gives & takes, takes & gave, gave & took & down & slow)
        stage = situation.notes["stage"]
        for k, holds in enumerate(rules):
            stage = xp.where((stage == k) & holds, stage + 1.0, stage)
        return {"stage": stage}

    def error(situation: Situation) -> Array:
        return distance(situation.objects[name][:, :3], situation.goal)

    def succeeded(situation: Situation) -> Array:
        done = situation.notes["stage"] >= len(STAGES)
        return done & (error(situation) < NEAR_M) & hand.at_rest(situation)

    def reward(situation: Situation) -> dict[str, Array]:
        xp, pose, stage = situation.xp, situation.objects[name][:, :3], situation.notes["stage"]
        near = distance(situation.tips[first.tip], pose)
        far = distance(situation.tips[second.tip], pose)
        met = distance(pose, meeting.like(pose))
        return {
            "stage": stage / len(STAGES),
            "tip_near": xp.where(stage < 1, -1.0 * xp.clip(near - 0.02, 0.0, 1.0), 0.0),
            "meet": xp.where((stage >= 2) & (stage < 4), -1.0 * met - 0.5 * far, 0.0),
            "put": xp.where(stage >= 5, -1.0 * error(situation), 0.0),
            "there": 5.0 * succeeded(situation),
            "cost_smooth": -0.02 * ((situation.command - situation.before) ** 2).sum(-1) / 0.125**2,
            "cost_fallen": -5.0 * hand.fallen(situation),
        }

    def privileged(situation: Situation) -> dict[str, Array]:
        more = {"stage": situation.notes["stage"][:, None], "contact_force": situation.force_n}
        return {**hand.privileged(situation), **more}

    seen = (
        *hand.channels(),
        Channel("second_tip", "m", shape=(3,), frame="world"),
        Channel("goal", "m", shape=(3,), frame="world"),
        Channel("object_to_goal", "m", shape=(3,), frame="world"),
        time_channel(),
        Channel("clock", "1", shape=(len(bumps.host),)),
        Channel("stage", "1", shape=(1,), privileged=True),
        Channel("contact_force", "N", shape=(len(touch),), privileged=True),
    )
    return TaskSpec(
        "handover",
        machine,
        Contract(seen, action_channels(machine, relative), machine.rate_hz),
        horizon_s,
        f"{', '.join(STAGES)} in this order, and the object within {NEAR_M:g} m of the mark, slower than "
        f"{AT_REST_M_S:g} m/s",
        f"the object more than {FALLEN_M:g} m below where it began, or not done when the time is over",
        draw,
        observe,
        reward,
        succeeded,
        error,
        failed=hand.fallen,
        remembers=("stage",),
        notes=notes,
        privileged=privileged,
        touch=touch,
        tracked=(name,),
        place=name,
        relative=relative,
    )


def _clock(time_s: Array, bumps: Fixed, xp: Any) -> Array:
    """The time as bumps, each high at its own moment: what is done when is then nearly linear in it (N, B)."""
    off = (time_s[:, None] - bumps.like(time_s)[None, :]) / BUMP_S
    return xp.exp(-off * off)


def meeting_m(hand: Handling, other: Handling) -> np.ndarray:
    """Where the object changes hands."""
    foot = float(hand.thing.at_m[2] + hand.thing.middle_m[2] - hand.thing.half_m[2])
    return np.array([*(hand.base_m + other.base_m) / 2, foot + MEETING_HEIGHT_M])


def _towards(hand: Handling, other: Handling) -> np.ndarray:
    way = other.base_m - hand.base_m
    return np.array(way / np.linalg.norm(way))
