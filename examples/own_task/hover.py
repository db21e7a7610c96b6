"""A task of one's own, in one file: bring the tip 12 cm above the object, and stay there.

Six plain functions over N worlds say all of it: how an episode begins, what a policy sees, what is good, when it is
done. They use only what numpy and torch share, so the same file trains on a CPU and on a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from twinproof.nouns.policy import Contract
from twinproof.nouns.twin import Twin
from twinproof.sim.scene import Scene
from twinproof.tasks.handling import Handling
from twinproof.tasks.machine import Machine
from twinproof.tasks.sensed import Array, Fixed, Sensed, Situation, distance
from twinproof.tasks.task import Setup, TaskSpec, action_channels
from twinproof.tasks.things import thing_of

ABOVE_M, NEAR_M, STAY_S = 0.12, 0.02, 0.5


def of(scene: Scene | Twin, *, home: Mapping[str, float] | None = None, relative: bool = False) -> TaskSpec:
    machine = Machine.of(scene, home=home)
    hand = Handling.of(machine, machine.arm(), thing_of(machine.scene))
    tip, body, above = hand.arm.tip, hand.thing.body, Fixed([0.0, 0.0, ABOVE_M])

    def draw(rng: np.random.Generator) -> Setup:
        at_m, yaw_rad = hand.lying(rng)
        return Setup(at_m=at_m, yaw_rad=yaw_rad)

    def observe(sensed: Sensed) -> dict[str, Array]:
        return hand.seen(sensed)  # joints, tip, and the object as a tracker sees it

    def error(situation: Situation) -> Array:
        at = situation.objects[body][:, :3]
        return distance(situation.tips[tip], at + above.like(at))

    def notes(situation: Situation) -> dict[str, Array]:
        stays = situation.notes["there_s"] + situation.period_s
        return {"there_s": situation.xp.where(error(situation) < NEAR_M, stays, 0.0)}

    def reward(situation: Situation) -> dict[str, Array]:
        off, moved = error(situation), situation.command - situation.before
        return {
            "closer": -off,
            "near": situation.xp.exp(-((off / 0.05) ** 2)),
            "cost_smooth": -3.0 * (moved * moved).sum(-1),
        }

    def succeeded(situation: Situation) -> Array:
        return situation.notes["there_s"] >= STAY_S

    return TaskSpec(
        name="hover",
        machine=machine,
        contract=Contract(hand.channels(), action_channels(machine, relative), machine.rate_hz),
        horizon_s=4.0,
        success=f"the tip within {NEAR_M} m of the place {ABOVE_M} m above the object for {STAY_S} s",
        failure="not there when the time is over",
        draw=draw,
        observe=observe,
        reward=reward,
        succeeded=succeeded,
        error=error,
        remembers=("there_s",),
        notes=notes,
        privileged=hand.privileged,
        tracked=(body,),
        place=body,
        relative=relative,
    )
