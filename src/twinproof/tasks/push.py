"""Push: slide an object over the table to a mark."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from twinproof.nouns.policy import Channel, Contract
from twinproof.nouns.twin import Twin
from twinproof.sim.scene import Scene
from twinproof.tasks.handling import AT_REST_M_S, FALLEN_M, Handling
from twinproof.tasks.machine import Machine
from twinproof.tasks.sensed import Array, Sensed, Situation, distance
from twinproof.tasks.task import Setup, TaskSpec, action_channels, time_channel, time_left
from twinproof.tasks.things import pads_of, thing_of

NEAR_M = 0.03
LENGTH_M = (0.07, 0.12)  # of a push
REACH_M, SIDE_RAD = (0.20, 0.46), 1.2  # from the arm's foot: where an object may begin and end, with room behind it
BEHIND_M = 0.09


def of(
    scene: Scene | Twin,
    *,
    home: Mapping[str, float] | None = None,
    tip: str = "",
    body: str = "",
    rate_hz: float | None = None,
    relative: bool = False,
    horizon_s: float = 6.0,
) -> TaskSpec:
    """The task for a scene's arm and its free object `body` (the only one, where no name is given)."""
    machine = Machine.of(scene, home=home, rate_hz=rate_hz, tips=(tip,) if tip else ())
    hand = Handling.of(machine, machine.arm(tip), thing_of(machine.scene, body))
    name = hand.thing.body

    def draw(rng: np.random.Generator) -> Setup:
        at, yaw = hand.lying(rng)
        return Setup(_mark(hand, np.array(at), yaw, rng), at, yaw)

    def observe(sensed: Sensed) -> dict[str, Array]:
        seen = hand.seen(sensed)
        to_goal = {"goal": sensed.goal, "object_to_goal": sensed.goal - seen["object_position"][:, :2]}
        return {**seen, **to_goal, **time_left(sensed, horizon_s)}

    def error(situation: Situation) -> Array:
        return distance(situation.objects[name][:, :2], situation.goal)

    def succeeded(situation: Situation) -> Array:
        return (error(situation) < NEAR_M) & hand.at_rest(situation) & ~hand.fallen(situation)

    def reward(situation: Situation) -> dict[str, Array]:
        xp, off = situation.xp, error(situation)
        apart = distance(situation.tips[hand.arm.tip], situation.objects[name][:, :3])
        return {
            "closer": -4.0 * off,
            "near": xp.exp(-((off / 0.04) ** 2)),
            "there": 2.0 * succeeded(situation),
            "tip_near": -0.5 * xp.clip(apart - 0.05, 0.0, 1.0),
            "cost_smooth": -0.02 * ((situation.command - situation.before) ** 2).sum(-1) / 0.125**2,
            "cost_fallen": -5.0 * hand.fallen(situation),
        }

    def privileged(situation: Situation) -> dict[str, Array]:
        return {
            **hand.privileged(situation),
            "true_object_to_goal": situation.goal - situation.objects[name][:, :2],
            "contact_force": situation.force_n,
        }

    touch = tuple((finger, name) for finger in pads_of(machine.scene, hand.arm))
    seen = (
        *hand.channels(),
        Channel("goal", "m", shape=(2,), frame="world"),
        Channel("object_to_goal", "m", shape=(2,), frame="world"),
        time_channel(),
        Channel("true_object_to_goal", "m", shape=(2,), frame="world", privileged=True),
        Channel("contact_force", "N", shape=(len(touch),), privileged=True),
    )
    return TaskSpec(
        "push",
        machine,
        Contract(seen, action_channels(machine, relative), machine.rate_hz),
        horizon_s,
        f"the object within {NEAR_M:g} m of the mark and slower than {AT_REST_M_S:g} m/s",
        f"the object more than {FALLEN_M:g} m below where it began, or not at the mark when the time is over",
        draw,
        observe,
        reward,
        succeeded,
        error,
        failed=hand.fallen,
        privileged=privileged,
        touch=touch,
        tracked=(name,),
        place=name,
        relative=relative,
    )


def _mark(hand: Handling, at: np.ndarray, yaw: float, rng: np.random.Generator) -> tuple[float, float]:
    """Where to push it: across one of its faces (any way, where it is round), so far that all of it stays in reach."""
    turns = rng.uniform(-np.pi, np.pi, 16) if hand.thing.round else yaw + np.pi / 2 * rng.permutation(4)
    length = float(rng.uniform(*LENGTH_M))
    ahead = np.arctan2(*(hand.thing.at_m[:2] - hand.base_m)[::-1])
    for turn in turns:
        along = np.array([np.cos(turn), np.sin(turn)])
        if all(_reached(end - hand.base_m, ahead) for end in (at + length * along, at - BEHIND_M * along)):
            return tuple((at + length * along).tolist())
    away = at - hand.base_m
    return tuple((at + LENGTH_M[0] * away / np.linalg.norm(away)).tolist())


def _reached(off: np.ndarray, ahead: float) -> bool:
    side = (np.arctan2(off[1], off[0]) - ahead + np.pi) % (2 * np.pi) - np.pi
    return bool(REACH_M[0] < np.hypot(*off) < REACH_M[1] and abs(side) < SIDE_RAD)
