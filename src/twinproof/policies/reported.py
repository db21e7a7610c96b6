"""What a robot reports, under the names of a policy's contract: for policies that see joints and cameras as they are.

joint_position, joint_velocity, joint_torque, last_command   the robot's joints in its order; NAME/JOINT is one of them
time                                                         since the first observation, s
NAME or image.NAME                                           the picture of the camera NAME
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from twinproof.nouns.errors import PolicyError
from twinproof.nouns.policy import Channel, Contract
from twinproof.nouns.robot import Observation

ROWS = {"joint_position": "position", "joint_velocity": "velocity", "joint_torque": "torque"}
LAST, TIME, OF_CAMERA = "last_command", "time", "image."


class Reported:
    """An `observe` for policies.drive. A new one for each trial: its clock begins with the first observation.

    `maps` says what a channel is called above, where the contract calls it otherwise: {"state": "joint_position"}.
    `fixed` are channels that no sensor gives, such as a goal.
    """

    def __init__(
        self,
        contract: Contract,
        joints: tuple[str, ...],
        maps: Mapping[str, str] | None = None,
        fixed: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        self._contract, self._joints = contract, joints
        self._maps, self._fixed = dict(maps or {}), dict(fixed or {})
        self._begun_s: float | None = None
        for channel in contract.observations:
            _, _, joint = self._name(channel).partition("/")
            if joint and joint not in joints:
                raise PolicyError(
                    f"the policy observes {channel.name!r} of joint {joint!r}; the robot has {', '.join(joints)}."
                )

    def __call__(self, seen: Observation, last: np.ndarray) -> dict[str, np.ndarray]:
        """{channel: (1, *shape)}; what the robot does not report, or in another shape, is an error."""
        if self._begun_s is None:
            self._begun_s = seen.stamp_s
        found = {}
        for channel in self._contract.observations:
            value = np.asarray(self._value(channel, seen, last))
            if value.shape != channel.shape:
                raise PolicyError(
                    f"the robot reports {self._name(channel)!r} of shape {value.shape}; the policy observes "
                    f"{channel.name!r} as {channel.shape}."
                )
            found[channel.name] = value[None]
        return found

    def _name(self, channel: Channel) -> str:
        return self._maps.get(channel.name, channel.name)

    def _value(self, channel: Channel, seen: Observation, last: np.ndarray) -> object:
        name, _, joint = self._name(channel).partition("/")
        if channel.name in self._fixed:
            return self._fixed[channel.name]
        if name == TIME:
            return seen.stamp_s - (self._begun_s or 0.0)
        if name == LAST or name in ROWS:
            row = last if name == LAST else getattr(seen, ROWS[name])
            return row[self._joints.index(joint)] if joint else row
        name = name.removeprefix(OF_CAMERA)
        if name not in seen.images:
            known = [*ROWS, LAST, TIME, *seen.images]
            raise PolicyError(
                f"the policy observes {channel.name!r}, and the robot reports {', '.join(known)}. Map it to one of "
                "these, or give its value."
            )
        return seen.images[name].rgb
