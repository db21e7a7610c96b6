"""A trajectory: commands for a robot's joints at a fixed rate, in a JSON file that any robot interface can play.

{"format": "twinproof/trajectory/1", "kind": "position", "joints": [...], "units": [...], "rate_hz": 20.0,
 "low": [...], "high": [...], "speed": [...], "commands": [[...], ...], "about": {...}}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from twinproof.nouns.errors import RobotError
from twinproof.nouns.files import read_json, write_json
from twinproof.nouns.frozen import frozen_array, frozen_json, settle
from twinproof.nouns.hashing import Json
from twinproof.nouns.strict import build, plain

FORMAT = "twinproof/trajectory/1"
LONGEST = 1_000_000  # commands: more than a day at 10 Hz


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Commands (T, joints) at `rate_hz`: encoder angles and metres where `kind` is position, N m or N where torque.

    Every command is finite and inside `low` to `high`, and none differs from the last by more than `speed` allows.
    """

    kind: Literal["position", "torque"]
    joints: tuple[str, ...]
    units: tuple[str, ...]
    rate_hz: float
    low: tuple[float, ...]
    high: tuple[float, ...]
    speed: tuple[float, ...]  # largest change of a command in a second
    commands: np.ndarray  # T × J
    about: Mapping[str, Json] = field(default_factory=dict)  # what it is for

    def __post_init__(self) -> None:
        about = frozen_json(self.about, "about", RobotError)
        settle(self, commands=frozen_array(_table(self.commands, self.joints)), about=about)
        _check_head(self)
        _check_commands(self)

    @property
    def seconds(self) -> float:
        """How long it takes."""
        return len(self.commands) / self.rate_hz

    def for_robot(self, joints: Sequence[str], rate_hz: float) -> Trajectory:
        """The same, if the robot has these joints in this order and this rate; else an error says what differs."""
        if tuple(joints) != self.joints:
            same = "The order differs: " if sorted(joints) == sorted(self.joints) else ""
            raise RobotError(
                f"the trajectory moves {', '.join(self.joints)}; the robot has {', '.join(joints)}. {same}Design one "
                "for this robot."
            )
        if abs(rate_hz - self.rate_hz) > 1e-6 * self.rate_hz:
            raise RobotError(
                f"the trajectory has {self.rate_hz:g} commands a second; the robot takes {rate_hz:g}. Design one at "
                "the robot's rate."
            )
        return self

    def save(self, path: Path) -> None:
        """Writes the file whole."""
        head = {name: plain(getattr(self, name)) for name in ("kind", "joints", "units", "rate_hz", *BOUNDS)}
        told: dict[str, Json] = {
            "format": FORMAT,
            **head,
            "commands": self.commands.tolist(),
            "about": plain(self.about),
        }
        write_json(path, told)


BOUNDS = ("low", "high", "speed")


def read_trajectory(path: Path) -> Trajectory:
    """The trajectory in a file; whatever does not fit is a RobotError with its place."""
    found = {name: value for name, value in read_json(path, FORMAT, RobotError).items() if name != "format"}
    joints = found.get("joints")
    wanted = joints if isinstance(joints, (list, tuple)) else ()
    commands = _table(found.pop("commands", None), [str(name) for name in wanted])
    return build(Trajectory, found, str(path), RobotError, {"commands": commands})


def _table(value: Any, joints: Sequence[str]) -> np.ndarray:
    """Commands as an array; rows of another width or entries that are no numbers are named."""
    rows = value if isinstance(value, (list, tuple, np.ndarray)) else []
    if not 1 <= len(rows) <= LONGEST:
        raise RobotError(f"a trajectory has 1 to {LONGEST} commands, found {len(rows)}. Design it again.")
    for i, row in enumerate(rows):
        width = len(row) if isinstance(row, (list, tuple, np.ndarray)) else 1
        if width != len(joints):
            raise RobotError(
                f"command {i} has {width} numbers; needed are {len(joints)}, for {', '.join(joints)}. Mend the file, "
                "or design it again."
            )
    try:
        return np.array(rows, dtype=np.float64)
    except (TypeError, ValueError):
        raise RobotError("the trajectory's commands hold what is no number. Design it again.") from None


def _check_head(trajectory: Trajectory) -> None:
    width = len(trajectory.joints)
    if not width or len(set(trajectory.joints)) != width:
        raise RobotError(f"a trajectory names each joint once; found {', '.join(trajectory.joints) or 'none'}.")
    for name in ("units", *BOUNDS):
        row = getattr(trajectory, name)
        if len(row) != width:
            raise RobotError(f"the trajectory's {name} has {len(row)} entries for {width} joints. Give one for each.")
    if not (np.isfinite(trajectory.rate_hz) and 0 < trajectory.rate_hz <= 10_000):
        raise RobotError(f"a trajectory of {trajectory.rate_hz} commands a second cannot be played. Use 1 to 10000.")
    bounds = np.array([getattr(trajectory, name) for name in BOUNDS])
    if not np.isfinite(bounds).all() or not (bounds[0] <= bounds[1]).all() or not (bounds[2] > 0).all():
        raise RobotError("a trajectory's limits are finite, low is not above high, and speeds are above zero.")


def _check_commands(trajectory: Trajectory) -> None:
    commands, joints = trajectory.commands, trajectory.joints
    bad = np.argwhere(~np.isfinite(commands))
    if bad.size:
        i, k = bad[0]
        raise RobotError(f"command {i} for {joints[k]!r} is {commands[i, k]}. Every command is a finite number.")
    low, high = np.array(trajectory.low), np.array(trajectory.high)
    slack = 1e-9 * (1 + np.abs(high - low))
    beyond = np.argwhere((commands < low - slack) | (commands > high + slack))
    if beyond.size:
        i, k = beyond[0]
        raise RobotError(
            f"command {i} for {joints[k]!r} is {commands[i, k]:.6g}; its limits are {low[k]:.6g} to {high[k]:.6g}. "
            "Design it again inside them."
        )
    step = np.array(trajectory.speed) / trajectory.rate_hz
    fast = np.argwhere(np.abs(np.diff(commands, axis=0)) > step * (1 + 1e-9) + 1e-12)
    if fast.size:
        i, k = fast[0]
        moved = abs(float(commands[i + 1, k] - commands[i, k])) * trajectory.rate_hz
        raise RobotError(
            f"command {i + 1} for {joints[k]!r} is {moved:.6g} a second away from the one before; its limit is "
            f"{trajectory.speed[k]:.6g}. Design it again, slower."
        )
