"""What tasks with an arm and an object share: what is seen of the object, and where it lies at the beginning."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twinproof.nouns.policy import Channel
from twinproof.tasks.machine import Arm, Machine
from twinproof.tasks.sensed import Array, Sensed, Situation, turn
from twinproof.tasks.task import robot_channels, robot_seen
from twinproof.tasks.things import Thing
from twinproof.tasks.tips import TipPosition

RADIUS_M, TURN_RAD, YAW_RAD = 0.04, 0.45, 0.6  # about where the object lies in the scene, seen from the arm
AT_REST_M_S = 0.05
FALLEN_M = 0.05  # below where it began


@dataclass(frozen=True, eq=False)
class Handling:
    """An arm and the object that it handles."""

    machine: Machine
    arm: Arm
    thing: Thing
    tip: TipPosition
    base_m: np.ndarray  # (2,) where the arm stands

    @classmethod
    def of(cls, machine: Machine, arm: Arm, thing: Thing) -> Handling:
        chain = machine.chain(arm)
        columns = [machine.joints.index(name) for name in arm.joints]
        return cls(machine, arm, thing, TipPosition(chain, columns), np.array(chain.T_before[0][:2, 3]))

    def channels(self) -> tuple[Channel, ...]:
        """What a policy sees of robot and object, and what only a teacher sees."""
        return (
            *robot_channels(self.machine),
            Channel("tip", "m", shape=(3,), frame="world"),
            Channel("object_position", "m", shape=(3,), frame="world"),
            Channel("object_rotation", "1", shape=(6,), frame="world"),
            Channel("tip_to_object", "m", shape=(3,), frame="world"),
            Channel("true_object_position", "m", shape=(3,), frame="world", privileged=True),
            Channel("true_object_rotation", "1", shape=(6,), frame="world", privileged=True),
            Channel("true_object_speed", "m/s", shape=(1,), privileged=True),
            Channel("true_velocity", "rad/s or m/s", shape=(len(self.machine.joints),), privileged=True),
        )

    def seen(self, sensed: Sensed) -> dict[str, Array]:
        """The deployable ones of `channels`."""
        at, pose = self.tip(sensed.position, sensed.xp), sensed.objects[self.thing.body]
        return {
            **robot_seen(sensed),
            "tip": at,
            "object_position": pose[:, :3],
            "object_rotation": turn(pose[:, 3:]),
            "tip_to_object": pose[:, :3] - at,
        }

    def privileged(self, situation: Situation) -> dict[str, Array]:
        """The privileged ones."""
        pose = situation.objects[self.thing.body]
        return {
            "true_object_position": pose[:, :3],
            "true_object_rotation": turn(pose[:, 3:]),
            "true_object_speed": situation.speed[self.thing.body][:, None],
            "true_velocity": situation.velocity,
        }

    def lying(self, rng: np.random.Generator) -> tuple[tuple[float, float], float]:
        """Where the object lies when an episode begins, and how it is turned."""
        reach = self.thing.at_m[:2] - self.base_m
        radius = np.linalg.norm(reach) + rng.uniform(-RADIUS_M, RADIUS_M)
        about = rng.uniform(-TURN_RAD, TURN_RAD)
        angle = np.arctan2(reach[1], reach[0]) + about
        x, y = self.base_m + radius * np.array([np.cos(angle), np.sin(angle)])
        return (float(x), float(y)), float(about + rng.uniform(-YAW_RAD, YAW_RAD))

    def height(self, situation: Situation) -> Array:
        """How high the object is above where it began (N,), m."""
        return situation.objects[self.thing.body][:, 2] - situation.first[self.thing.body][:, 2]

    def fallen(self, situation: Situation) -> Array:
        """Whether the object is off the table."""
        return self.height(situation) < -FALLEN_M

    def at_rest(self, situation: Situation) -> Array:
        """Whether the object stays where it is."""
        return situation.speed[self.thing.body] < AT_REST_M_S
