"""Lift: take an object, hold it up, and put it back where it stood."""

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
from twinproof.tasks.things import gripper_of, thing_of

UP_M, UP_S, BACK_M = 0.09, 0.8, 0.01


def of(
    scene: Scene | Twin,
    *,
    home: Mapping[str, float] | None = None,
    tip: str = "",
    body: str = "",
    rate_hz: float | None = None,
    relative: bool = False,
    put_back: bool = True,
    horizon_s: float = 8.0,
) -> TaskSpec:
    """The task for a scene's arm and its free object. Without `put_back` holding it up is enough."""
    machine = Machine.of(scene, home=home, rate_hz=rate_hz, tips=(tip,) if tip else ())
    hand = Handling.of(machine, machine.arm(tip), thing_of(machine.scene, body))
    name, fingers = hand.thing.body, gripper_of(machine.scene, hand.arm)

    def draw(rng: np.random.Generator) -> Setup:
        at, yaw = hand.lying(rng)
        return Setup((), at, yaw)

    def observe(sensed: Sensed) -> dict[str, Array]:
        return {**hand.seen(sensed), **time_left(sensed, horizon_s)}

    def notes(situation: Situation) -> dict[str, Array]:
        return {"up_s": situation.notes["up_s"] + situation.period_s * (hand.height(situation) > UP_M)}

    def held_up(situation: Situation) -> Array:
        return situation.notes["up_s"] >= UP_S - 1e-6

    def succeeded(situation: Situation) -> Array:
        if not put_back:
            return held_up(situation)
        back = abs(hand.height(situation)) < BACK_M
        return held_up(situation) & back & hand.at_rest(situation)

    def error(situation: Situation) -> Array:
        """Metres that are still to go: up first, then down."""
        xp, height = situation.xp, hand.height(situation)
        down = abs(height) if put_back else 0 * height
        return xp.where(held_up(situation), down, xp.clip(UP_M - height, 0.0, 1.0) + UP_M * put_back)

    def reward(situation: Situation) -> dict[str, Array]:
        xp, height = situation.xp, hand.height(situation)
        apart = distance(situation.tips[hand.arm.tip], situation.objects[name][:, :3])
        up, touching = held_up(situation), situation.touching
        return {
            "tip_near": -1.0 * xp.clip(apart - 0.02, 0.0, 1.0),
            "held": 0.3 * (up if touching is None else touching.all(-1)),
            "height": xp.where(up, 0.0, 8.0 * xp.clip(height, 0.0, UP_M + 0.02)),
            "back": xp.where(up, 1.5 - 8.0 * xp.clip(abs(height), 0.0, 0.15), 0.0) * put_back,
            "there": 3.0 * succeeded(situation),
            "cost_smooth": -0.02 * ((situation.command - situation.before) ** 2).sum(-1) / 0.125**2,
            "cost_fallen": -5.0 * hand.fallen(situation),
        }

    def privileged(situation: Situation) -> dict[str, Array]:
        more = {"up_s": situation.notes["up_s"][:, None], "contact_force": situation.force_n}
        return {**hand.privileged(situation), **more}

    seen = (
        *hand.channels(),
        time_channel(),
        Channel("up_s", "s", shape=(1,), privileged=True),
        Channel("contact_force", "N", shape=(len(fingers),), privileged=True),
    )
    words = f"the object more than {UP_M:g} m above where it began for {UP_S:g} s in all"
    back = f", then within {BACK_M:g} m of that height and slower than {AT_REST_M_S:g} m/s" if put_back else ""
    return TaskSpec(
        "lift",
        machine,
        Contract(seen, action_channels(machine, relative), machine.rate_hz),
        horizon_s,
        words + back,
        f"the object more than {FALLEN_M:g} m below where it began, or not done when the time is over",
        draw,
        observe,
        reward,
        succeeded,
        error,
        failed=hand.fallen,
        remembers=("up_s",),
        notes=notes,
        privileged=privileged,
        touch=tuple((finger, name) for finger in fingers),
        tracked=(name,),
        place=name,
        relative=relative,
    )
