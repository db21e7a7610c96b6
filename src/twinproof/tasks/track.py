"""Track: follow a motion that was planned, so that the hand moves about the object as it did there.

`twinproof retarget` writes such motions from tracks of human hands: a Recording with the joints (state) and what servos
are told (command) at every tick, and where the object should be (object_pose).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import TaskError
from twinproof.nouns.policy import Channel, Contract
from twinproof.nouns.twin import Twin
from twinproof.sim.readings import POSE
from twinproof.sim.scene import Scene
from twinproof.tasks.handling import AT_REST_M_S, FALLEN_M, Handling
from twinproof.tasks.machine import Machine
from twinproof.tasks.sensed import Array, Fixed, Sensed, Situation, distance, yaw
from twinproof.tasks.task import Setup, TaskSpec, action_channels, time_channel, time_left
from twinproof.tasks.things import pads_of, thing_of

NEAR_M, THERE_M, LOST_M = 0.02, 0.03, 0.12
MOVED_M, TURNED_RAD = 0.02, 0.2  # how far an object may lie from where the motion has it at first
SIGNALS = ("state", "object_pose")


@dataclass(frozen=True, eq=False)
class Reference:
    """A planned motion at a robot's ticks."""

    joints: np.ndarray  # (T, J), columns as the machine's
    object_pose: np.ndarray  # (T, 7) world
    tip_m: np.ndarray  # (T, 3) world


def reference_of(episode: Episode, machine: Machine, tip: str = "") -> Reference:
    """The motion in an episode, which must have the machine's rate."""
    missing = [name for name in SIGNALS if name not in episode.signals]
    if missing:
        raise TaskError(
            f"{episode.source or episode.id}: a motion to follow needs the signals {', '.join(SIGNALS)}, and lacks "
            f"{', '.join(missing)}. Make one with twinproof retarget."
        )
    state, pose = (episode.signals[name] for name in SIGNALS)
    order = [column.name for column in state.columns]
    lacking = [name for name in machine.joints if name not in order]
    step_s = float(np.median(np.diff(state.time_s)))
    if lacking or abs(step_s * machine.rate_hz - 1) > 0.01 or len(state.time_s) != len(pose.time_s):
        raise TaskError(
            f"{episode.source or episode.id}: the motion has {len(state.time_s)} ticks of {step_s:.4f} s for "
            f"{', '.join(order)}; this robot has {', '.join(machine.joints)} at {machine.rate_hz:g} Hz. Retarget it."
        )
    joints = np.array(state.value)[:, [order.index(name) for name in machine.joints]]
    places = [[column.name for column in pose.columns].index(name) for name in POSE]
    arm = machine.arm(tip)
    mine = [machine.joints.index(name) for name in arm.joints]
    return Reference(joints, np.array(pose.value)[:, places], machine.chain(arm).poses(joints[:, mine])[:, :3, 3])


def of(
    scene: Scene | Twin,
    episode: Episode,
    *,
    home: Mapping[str, float] | None = None,
    tip: str = "",
    body: str = "",
    relative: bool = False,
) -> TaskSpec:
    """The task of following an episode's motion on a scene; the arm begins where the motion does."""
    machine = Machine.of(scene, home=home, tips=(tip,) if tip else ())
    hand = Handling.of(machine, machine.arm(tip), thing_of(machine.scene, body))
    plan, name, period_s = reference_of(episode, machine, tip), hand.thing.body, 1 / machine.rate_hz
    joints, poses, tips = Fixed(plan.joints), Fixed(plan.object_pose), Fixed(plan.tip_m)
    last = len(plan.joints) - 1
    first = dict(zip(machine.joints, plan.joints[0].tolist(), strict=True))
    facing = float(yaw(plan.object_pose[:1, 3:], np)[0])

    def at(time_s: Array, ahead: int = 0) -> Array:
        """The tick of the motion, or a later one."""
        ticks = time_s / period_s + (0.5 + ahead)
        whole = ticks.astype(np.int64) if isinstance(ticks, np.ndarray) else ticks.long()
        return whole.clip(0, last)

    def draw(rng: np.random.Generator) -> Setup:
        x, y = plan.object_pose[0, :2] + rng.uniform(-MOVED_M, MOVED_M, 2)
        return Setup((0.0,), (float(x), float(y)), facing + float(rng.uniform(-TURNED_RAD, TURNED_RAD)), first)

    def observe(sensed: Sensed) -> dict[str, Array]:
        seen, place = hand.seen(sensed), poses.like(sensed.position)[at(sensed.time_s)][:, :3]
        off = {"object_off": seen["object_position"] - place}
        ahead = {"reference_joints": joints.like(sensed.position)[at(sensed.time_s, 1)]}
        return {**seen, **off, **ahead, **time_left(sensed, last * period_s)}

    def off_object(situation: Situation) -> Array:
        place = poses.like(situation.position)[at(situation.time_s)]
        return distance(situation.objects[name][:, :3], place[:, :3])

    def missed(situation: Situation) -> Array:
        """How far the tip is from where it should be, seen from the object (N,)."""
        now = at(situation.time_s)
        wanted = tips.like(situation.position)[now] - poses.like(situation.position)[now][:, :3]
        return distance(situation.tips[hand.arm.tip] - situation.objects[name][:, :3], wanted)

    def notes(situation: Situation) -> dict[str, Array]:
        return {"missed": situation.notes["missed"] + missed(situation)}

    def error(situation: Situation) -> Array:
        """The mean of what was missed so far."""
        ticks = situation.time_s / period_s
        return situation.notes["missed"] / situation.xp.clip(ticks, 1.0, None)

    def succeeded(situation: Situation) -> Array:
        there = (off_object(situation) < THERE_M) & hand.at_rest(situation)
        return (situation.time_s > (last - 0.5) * period_s) & (error(situation) < NEAR_M) & there

    def failed(situation: Situation) -> Array:
        return hand.fallen(situation) | (off_object(situation) > LOST_M)

    def reward(situation: Situation) -> dict[str, Array]:
        xp, off = situation.xp, off_object(situation)
        return {
            "follow": xp.exp(-((missed(situation) / 0.02) ** 2)),
            "object": xp.exp(-((off / 0.03) ** 2)) - 2.0 * off,
            "there": 5.0 * succeeded(situation),
            "cost_smooth": -0.02 * ((situation.command - situation.before) ** 2).sum(-1) / 0.125**2,
            "cost_failed": -5.0 * failed(situation),
        }

    def privileged(situation: Situation) -> dict[str, Array]:
        return {**hand.privileged(situation), "contact_force": situation.force_n}

    touch = tuple((finger, name) for finger in pads_of(machine.scene, hand.arm))
    seen = (
        *hand.channels(),
        Channel("object_off", "m", shape=(3,), frame="world"),
        Channel("reference_joints", "rad or m", shape=(len(machine.joints),)),
        time_channel(),
        Channel("contact_force", "N", shape=(len(touch),), privileged=True),
    )
    return TaskSpec(
        "track",
        machine,
        Contract(seen, action_channels(machine, relative), machine.rate_hz),
        last * period_s,
        f"the tip was within {NEAR_M:g} m of the motion, seen from the object, in the mean; at the end the object is "
        f"within {THERE_M:g} m of where it should be, and slower than {AT_REST_M_S:g} m/s",
        f"the object more than {LOST_M:g} m from where it should be, or {FALLEN_M:g} m below where it began",
        draw,
        observe,
        reward,
        succeeded,
        error,
        failed=failed,
        remembers=("missed",),
        notes=notes,
        privileged=privileged,
        touch=touch,
        tracked=(name,),
        place=name,
        relative=relative,
    )
