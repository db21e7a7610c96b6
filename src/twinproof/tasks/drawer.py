"""Drawer: take the handle of a drawer and pull it open."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from twinproof.nouns.policy import Channel, Contract
from twinproof.nouns.twin import Twin
from twinproof.sim.scene import Scene
from twinproof.tasks.machine import Machine
from twinproof.tasks.sensed import Array, Fixed, Sensed, Situation, distance
from twinproof.tasks.task import (
    Setup,
    TaskSpec,
    action_channels,
    robot_channels,
    robot_seen,
    time_channel,
    time_left,
)
from twinproof.tasks.things import pads_of, slider_of
from twinproof.tasks.tips import TipPosition

OPEN_M = 0.09
AJAR_M = 0.012  # a drawer is not always quite shut when an episode begins


def of(
    scene: Scene | Twin,
    *,
    home: Mapping[str, float] | None = None,
    tip: str = "",
    joint: str = "",
    handle: str = "",
    rate_hz: float | None = None,
    relative: bool = False,
    horizon_s: float = 6.0,
) -> TaskSpec:
    """The task for a scene's arm and its drawer: the sliding joint that nothing drives, and what is called handle."""
    machine = Machine.of(scene, home=home, rate_hz=rate_hz, tips=(tip,) if tip else ())
    arm, drawer = machine.arm(tip), slider_of(machine.scene, machine, joint, handle)
    position = TipPosition(machine.chain(arm), [machine.joints.index(name) for name in arm.joints])
    fingers, name = pads_of(machine.scene, arm), drawer.body
    shut, opens, grip_at = Fixed(drawer.shut_m), Fixed(drawer.opens), Fixed(drawer.handle_m)

    def opening(pose: Array) -> Array:
        return ((pose[:, :3] - shut.like(pose)) * opens.like(pose)).sum(-1)

    def handle_at(pose: Array) -> Array:
        return pose[:, :3] + grip_at.like(pose)

    def draw(rng: np.random.Generator) -> Setup:
        return Setup(joints={drawer.joint: float(rng.uniform(0.0, AJAR_M))})

    def observe(sensed: Sensed) -> dict[str, Array]:
        at, pose = position(sensed.position, sensed.xp), sensed.objects[name]
        hold = handle_at(pose)
        return {
            **robot_seen(sensed),
            "tip": at,
            "handle": hold,
            "tip_to_handle": hold - at,
            "opening": opening(pose)[:, None],
            **time_left(sensed, horizon_s),
        }

    def error(situation: Situation) -> Array:
        return situation.xp.clip(OPEN_M - opening(situation.objects[name]), 0.0, 1.0)

    def succeeded(situation: Situation) -> Array:
        return opening(situation.objects[name]) > OPEN_M

    def reward(situation: Situation) -> dict[str, Array]:
        xp, pose = situation.xp, situation.objects[name]
        apart = distance(situation.tips[arm.tip], handle_at(pose))
        held = apart < 0.02 if situation.touching is None else situation.touching.all(-1)
        return {
            "tip_near": -1.0 * xp.clip(apart - 0.01, 0.0, 1.0),
            "held": 0.3 * held,
            "opening": 10.0 * xp.clip(opening(pose), 0.0, OPEN_M + 0.02),
            "there": 2.0 * succeeded(situation),
            "cost_smooth": -0.02 * ((situation.command - situation.before) ** 2).sum(-1) / 0.125**2,
        }

    def privileged(situation: Situation) -> dict[str, Array]:
        pose = situation.objects[name]
        return {
            "true_tip_to_handle": handle_at(pose) - situation.tips[arm.tip],
            "true_opening": opening(pose)[:, None],
            "true_velocity": situation.velocity,
            "contact_force": situation.force_n,
        }

    seen = (
        *robot_channels(machine),
        Channel("tip", "m", shape=(3,), frame="world"),
        Channel("handle", "m", shape=(3,), frame="world"),
        Channel("tip_to_handle", "m", shape=(3,), frame="world"),
        Channel("opening", "m", shape=(1,)),
        time_channel(),
        Channel("true_tip_to_handle", "m", shape=(3,), frame="world", privileged=True),
        Channel("true_opening", "m", shape=(1,), privileged=True),
        Channel("true_velocity", "rad/s or m/s", shape=(len(machine.joints),), privileged=True),
        Channel("contact_force", "N", shape=(len(fingers),), privileged=True),
    )
    return TaskSpec(
        "drawer",
        machine,
        Contract(seen, action_channels(machine, relative), machine.rate_hz),
        horizon_s,
        f"the drawer more than {OPEN_M:g} m open",
        "not open when the time is over",
        draw,
        observe,
        reward,
        succeeded,
        error,
        privileged=privileged,
        touch=tuple((finger, name) for finger in fingers),
        tracked=(name,),
        relative=relative,
    )
