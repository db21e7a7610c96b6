"""The robot interface that policies are deployed through: what a robot reports, what it may be told, how it starts.

A real robot's driver implements the same small protocol; docs/robot_interface.md shows one in forty lines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np

from twinproof.nouns.errors import RobotError


@dataclass(frozen=True)
class Picture:
    """A camera's newest picture with the stamp of its own clock."""

    stamp_s: float
    rgb: np.ndarray


@dataclass(frozen=True)
class Observation:
    """What a robot reports at one tick. Arrays are in the order of `joints`."""

    stamp_s: float
    position: np.ndarray
    velocity: np.ndarray
    torque: np.ndarray
    images: Mapping[str, Picture] = field(default_factory=dict)
    stopped: bool = False  # the watchdog has taken over; commands are refused until a reset


@dataclass(frozen=True)
class Limits:
    """What a robot may be told. Beyond it a command is clipped and counted, or refused and counted.

    Bounds are finite and in order; a speed is positive, and infinite where there is no limit.
    """

    low: np.ndarray
    high: np.ndarray
    speed: np.ndarray  # largest change of a command in a second
    beyond: Literal["clip", "refuse"] = "clip"

    def __post_init__(self) -> None:
        if self.beyond not in ("clip", "refuse"):
            raise RobotError(f"limits with beyond={self.beyond!r} cannot be. Use clip or refuse.")
        for name in ("low", "high", "speed"):
            row = numbers(getattr(self, name))
            if row is None or row.ndim != 1:
                raise RobotError(f"limits.{name} is {getattr(self, name)!r:.80}. Give a row of numbers, one a joint.")
            row.setflags(write=False)
            object.__setattr__(self, name, row)
        if not len(self.low) == len(self.high) == len(self.speed):
            widths = f"{len(self.low)}, {len(self.high)} and {len(self.speed)}"
            raise RobotError(f"limits.low, high and speed have {widths} numbers. Give each one number a joint.")
        for wrong, what in (
            (~np.isfinite(self.low) | ~np.isfinite(self.high), "bounds must be finite"),
            (self.low > self.high, "low must not be above high"),
            (~(self.speed > 0), "a speed must be positive (infinite: no limit)"),
        ):
            if wrong.any():
                k = int(np.argmax(wrong))
                raise RobotError(
                    f"the limits of joint {k} are {self.low[k]} to {self.high[k]} at {self.speed[k]} a second; "
                    f"{what}. Correct them."
                )


@dataclass(frozen=True)
class Start:
    """The condition a trial begins from. Without `at_m` the object lies where the seed puts it."""

    object: str = ""
    session: str = "day_0"
    seed: int = 0
    at_m: tuple[float, float] | None = None
    yaw_rad: float = 0.0

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise RobotError(f"a trial cannot begin from seed {self.seed}. Use 0 or more.")
        if not np.isfinite([*(self.at_m or ()), self.yaw_rad]).all():
            raise RobotError(
                f"an object cannot lie at {self.at_m} m, turned by {self.yaw_rad} rad. Use finite numbers."
            )


class Robot(Protocol):
    """Anything that senses and obeys at a fixed rate.

    `reset` brings it to its start, `observe` waits for the next tick and reports, `act` sets the target until the next
    one: of several in one tick the last counts, and the speed limit holds from tick to tick. Without `act` for
    `watchdog` ticks in a row the robot holds still and stops. `counts` tells how often a limit was met.
    """

    joints: tuple[str, ...]
    rate_hz: float
    limits: Limits
    watchdog: int
    counts: Counter[str]

    def reset(self, condition: Start) -> Observation: ...

    def observe(self) -> Observation: ...

    def act(self, command: np.ndarray) -> None: ...

    def close(self) -> None: ...


def numbers(value: object) -> np.ndarray | None:
    """A copy as numbers, or None where it is none."""
    try:
        return np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        return None
