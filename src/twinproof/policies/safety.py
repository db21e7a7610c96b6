"""The safety filter between a policy and a robot: joint, speed, effort and workspace limits, every violation counted.

command ─> range ─> speed ─> workspace ─> effort ─> what is sent
            clip     clip     hold last    go to where the joints are (torque-driven: no torque)

A command that is no number is never repaired: it is an error, and who drives stops the robot.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from twinproof.nouns.errors import PolicyError
from twinproof.nouns.frozen import frozen_array, settle
from twinproof.nouns.hashing import Json
from twinproof.nouns.robot import Limits
from twinproof.sim.kinematics import Chain

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

RANGE, SPEED, WORKSPACE, EFFORT = "joint limit", "speed limit", "workspace", "effort limit"
KINDS = (RANGE, SPEED, WORKSPACE, EFFORT)
SLACK = 1e-9  # rounding is no violation


@dataclass(frozen=True, eq=False)
class Workspace:
    """A box in the world that the tips stay in; the table's top is its floor."""

    chains: tuple[Chain, ...]
    low_m: np.ndarray
    high_m: np.ndarray

    def __post_init__(self) -> None:
        low, high = frozen_array(self.low_m), frozen_array(self.high_m)
        if low.shape != (3,) or high.shape != (3,) or not (low < high).all() or not self.chains:
            raise PolicyError(
                f"a workspace of {len(self.chains)} tips has the corners {low.tolist()} and {high.tolist()} m; give at "
                "least one tip, and x, y, z of the low and the high corner."
            )
        settle(self, low_m=low, high_m=high)

    def outside_m(self, joints: tuple[str, ...], position: Float[np.ndarray, "N J"]) -> Float[np.ndarray, "N"]:
        """How far the farthest tip is outside the box, zero inside."""
        worst = np.zeros(len(position))
        for chain in self.chains:
            tip = chain.poses(position[:, [joints.index(name) for name in chain.joints]])[:, :3, 3]
            past = np.maximum(self.low_m - tip, tip - self.high_m).max(axis=1)
            worst = np.maximum(worst, past)
        return worst


@dataclass(frozen=True, eq=False)
class Safety:
    """What a robot with these joints may be told: range and speed of a command, effort sensed, room for its tips."""

    joints: tuple[str, ...]
    limits: Limits
    rate_hz: float
    effort: np.ndarray | None = None  # largest |torque| or |force| sensed, one a joint; infinite: no limit
    workspace: Workspace | None = None
    torque_driven: bool = False  # commands are torques, not positions
    beyond: Literal["clip", "stop"] = "clip"  # repair and count, or stop the trial

    def __post_init__(self) -> None:
        if len(self.limits.low) != len(self.joints):
            raise PolicyError(f"{len(self.limits.low)} limits for {len(self.joints)} joints. Give one for each.")
        if self.effort is not None:
            effort = frozen_array(self.effort)
            if effort.shape != (len(self.joints),) or not (effort > 0).all():
                raise PolicyError(f"effort limits are {effort.tolist()}; give one above zero for each joint.")
            settle(self, effort=effort)
        for chain in self.workspace.chains if self.workspace else ():
            unknown = sorted(set(chain.joints) - set(self.joints))
            if unknown:
                raise PolicyError(f"the workspace's tip hangs on {', '.join(unknown)}, which the robot does not drive.")

    def told(self) -> Json:
        """The limits as plain data: what names them."""
        rows = {"low": self.limits.low, "high": self.limits.high, "speed": self.limits.speed, "effort": self.effort}
        if self.workspace is not None:
            rows |= {"low_m": self.workspace.low_m, "high_m": self.workspace.high_m}
        numbers = {name: [str(float(value)) for value in row] for name, row in rows.items() if row is not None}
        tips = [list(chain.joints) for chain in self.workspace.chains] if self.workspace is not None else []
        kind = {"torque_driven": self.torque_driven, "beyond": self.beyond, "rate_hz": self.rate_hz}
        return {"joints": list(self.joints), "tips": tips, **numbers, **kind}

    def rest(self, position: np.ndarray) -> np.ndarray:
        """The command that stops: stay where you are, or no torque."""
        return np.zeros_like(position) if self.torque_driven else np.array(position, dtype=np.float64)


class Safe:
    """The filter for N robots at once. `counts` tells in how many ticks of all robots each limit was met."""

    def __init__(self, safety: Safety) -> None:
        self.safety = safety
        self.counts: Counter[str] = Counter()
        self.violations: dict[str, np.ndarray] = {}  # limit -> ticks (N,), since each robot's reset
        self._last = np.zeros((0, len(safety.joints)))

    def reset(self, position: Float[np.ndarray, "N J"], which: Bool[np.ndarray, "N"] | None = None) -> None:
        """Begins anew where the joints are, for all robots or for those of the mask."""
        rest = self.safety.rest(np.asarray(position, dtype=np.float64))
        if which is None or len(rest) != len(self._last):
            self._last = rest
            self.violations = {name: np.zeros(len(rest), np.int64) for name in KINDS}
        else:
            self._last[which] = rest[which]
            for ticks in self.violations.values():
                ticks[which] = 0

    def filter(
        self,
        command: Float[np.ndarray, "N J"],
        position: Float[np.ndarray, "N J"],
        effort: Float[np.ndarray, "N J"] | None = None,
    ) -> Float[np.ndarray, "N J"]:
        """What may be sent instead of the command: the same where it is safe. What is no number is refused."""
        safety, wanted = self.safety, np.asarray(command, dtype=np.float64)
        if wanted.shape != self._last.shape or not np.isfinite(wanted).all():
            raise PolicyError(
                f"a command of shape {wanted.shape} with {int((~np.isfinite(wanted)).sum())} non-finite values; needed "
                f"are {self._last.shape[1]} finite numbers for each of {len(self._last)} robots."
            )
        step = safety.limits.speed / safety.rate_hz
        inside = np.clip(wanted, safety.limits.low, safety.limits.high)
        self._met(RANGE, np.abs(inside - wanted) > SLACK, wanted)
        slow = np.clip(inside, self._last - step, self._last + step)
        self._met(SPEED, np.abs(slow - inside) > SLACK, inside)
        sent = self._in_workspace(slow, position)
        if safety.effort is not None:
            if effort is None:
                raise PolicyError("effort is limited, and none was measured. Give the torques, or no limit.")
            over = np.abs(effort) > safety.effort
            self._met(EFFORT, over, np.asarray(effort))
            hold = np.clip(safety.rest(position), self._last - step, self._last + step)
            sent = np.where(over.any(axis=1, keepdims=True), hold, sent)
        self._last = sent
        return sent.copy()

    def sent(self, command: Float[np.ndarray, "N J"]) -> None:
        """What was sent instead of what `filter` gave, where somebody slowed it down: speeds are counted from there."""
        self._last = np.array(command, dtype=np.float64)

    def _in_workspace(self, command: np.ndarray, position: np.ndarray) -> np.ndarray:
        """The command, or the last one where it would take a tip out of the box, or farther out."""
        safety = self.safety
        if safety.workspace is None:
            return command
        if safety.torque_driven:
            out = safety.workspace.outside_m(safety.joints, np.asarray(position)) > SLACK
            stay = np.zeros_like(command)
        else:
            before = safety.workspace.outside_m(safety.joints, self._last)
            out = safety.workspace.outside_m(safety.joints, command) > before + SLACK
            stay = self._last
        self._met(WORKSPACE, np.repeat(out[:, None], command.shape[1], axis=1), command)
        return np.where(out[:, None], stay, command)

    def _met(self, kind: str, met: np.ndarray, value: np.ndarray) -> None:
        if not met.any():
            return
        self.violations[kind] += met.any(axis=1)
        self.counts[kind] += int(met.any(axis=1).sum())
        if self.safety.beyond == "stop":
            i, k = np.argwhere(met)[0]
            raise PolicyError(
                f"the policy meets the {kind} of {self.safety.joints[k]!r} in world {i} with {value[i, k]:.4g}, and "
                "that is to stop it. Nothing more is sent."
            )
