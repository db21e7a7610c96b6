"""An episode as the motion of the rig's joints: found by name, on the robot's clock, sampled wherever one asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import RecordingError, RigError
from twinproof.nouns.rig import Arm, Rig
from twinproof.nouns.signal import Signal

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

KINDS = ("joint_position", "gripper")


@dataclass(frozen=True, eq=False)
class Scale:
    """What a joint's difference is measured in: the weights and ranges that the rig states, in the rig's order."""

    joints: tuple[str, ...]
    arms: tuple[Arm, ...]
    weight: Float[np.ndarray, "J"]
    range: Float[np.ndarray, "J"]
    low: Float[np.ndarray, "J"]  # the lower end of each range

    def of_arm(self, arm: Arm) -> list[int]:
        """Where the arm's joints and then its gripper stand."""
        return [self.joints.index(name) for name in (*arm.joints, *([arm.gripper] if arm.gripper else []))]


def scale_of(rig: Rig) -> Scale:
    """The joints of the rig's arms with weights and ranges. A rig without arms is one arm of all joints."""
    if not rig.joints:
        raise RigError("the rig lists no [[joints]]: nothing can be compared. State them with range and weight.")
    arms = rig.arms or (Arm("robot", rig.joint_names),)
    used = {name for arm in arms for name in (*arm.joints, *([arm.gripper] if arm.gripper else []))}
    chosen = [joint for joint in rig.joints if joint.name in used]
    for joint in chosen:
        if joint.range is None:
            raise RigError(
                f"joint {joint.name!r} has no range in the rig, and the measure divides by it. State range = "
                "[low, high]."
            )
        if not (np.isfinite(joint.weight) and joint.weight >= 0):
            raise RigError(f"joint {joint.name!r} has the weight {joint.weight} in the rig. It is zero or more.")
    if not any(joint.weight > 0 for joint in chosen):
        raise RigError("all joints have the weight 0 in the rig: nothing would be compared. Give some a weight.")
    low, high = np.array([joint.range for joint in chosen], dtype=float).T
    return Scale(tuple(joint.name for joint in chosen), arms, np.array([j.weight for j in chosen]), high - low, low)


@dataclass(frozen=True, eq=False)
class Motion:
    """The joints' known samples, each on its own clock, which is the robot's: stamps plus the stated offset."""

    where: str  # "real episode 3f2a… (episode 0)"
    joints: tuple[str, ...]
    units: tuple[str, ...]
    time_s: tuple[Float[np.ndarray, "S"], ...]
    value: tuple[Float[np.ndarray, "S"], ...]
    step_s: float  # the usual time between samples of the slowest joint
    lost: int  # samples that were marked missing

    @property
    def span_s(self) -> tuple[float, float]:
        """From when to when all joints are known."""
        return max(float(t[0]) for t in self.time_s), min(float(t[-1]) for t in self.time_s)

    def at(
        self, time_s: Float[np.ndarray, "T"], max_gap_s: float
    ) -> tuple[Float[np.ndarray, "T J"], Bool[np.ndarray, "T J"]]:
        """Values by straight lines between samples, and which are known: not beyond the ends, not across long gaps."""
        value = np.empty((len(time_s), len(self.joints)))
        known = np.empty(value.shape, dtype=bool)
        clock: np.ndarray | None = None
        for k, (stamp, sample) in enumerate(zip(self.time_s, self.value, strict=True)):
            if stamp is not clock:
                clock, near = stamp, _near(stamp, time_s, max_gap_s)
            value[:, k], known[:, k] = np.interp(time_s, stamp, sample), near
        return value, known


def _near(stamp: np.ndarray, time_s: np.ndarray, max_gap_s: float) -> np.ndarray:
    """Whether a time lies on a sample or between two that are not too far apart."""
    slack = 1e-9 + 1e-6 * max_gap_s
    after = np.clip(np.searchsorted(stamp, time_s - slack), 1, len(stamp) - 1)
    left, right = stamp[after - 1], stamp[after]
    inside = (time_s >= left - slack) & (time_s <= right + slack)
    on = np.minimum(np.abs(time_s - left), np.abs(time_s - right)) <= slack
    near: np.ndarray = inside & (on | (right - left <= max_gap_s))
    return near


def motion_of(episode: Episode, rig: Rig, joints: Sequence[str], side: str, signals: Sequence[str] = ()) -> Motion:
    """The motion of these joints. `rig` is the recording's own, for its clocks; `signals` names the ones to look in."""
    where = f"{side} episode {episode.id[:8]} ({episode.source or 'without a name'})"
    _check_named(episode, signals, where)
    chosen = [episode.signals[name] for name in sorted(episode.signals) if not signals or name in signals]
    chosen = [signal for signal in chosen if signals or signal.kind in KINDS]
    times, values, units, steps, lost = [], [], [], [], 0
    clocks: dict[str, np.ndarray] = {}
    for joint in joints:
        signal, place = _find(chosen, joint, where)
        if signal.name not in clocks:
            rule = rig.signals.get(signal.name)
            clocks[signal.name] = signal.time_s + (rule.clock_offset_s if rule else 0.0)
        time_s, value = clocks[signal.name], signal.value[:, place]
        if signal.missing is not None and signal.missing[:, place].any():
            kept = ~signal.missing[:, place]
            lost += int((~kept).sum())
            time_s, value = time_s[kept], value[kept]
        if len(time_s) < 2:
            raise RecordingError(
                f"{where}: joint {joint!r} has {len(time_s)} known samples in {signal.name!r}; two are needed. "
                "Leave the episode out, or record it again."
            )
        times.append(time_s)
        values.append(value)
        units.append(signal.columns[place].unit)
        steps.append(float(np.median(np.diff(signal.time_s))))
    return Motion(where, tuple(joints), tuple(units), tuple(times), tuple(values), max(steps), lost)


def _check_named(episode: Episode, signals: Sequence[str], where: str) -> None:
    for name in signals:
        if name not in episode.signals:
            raise RecordingError(f"{where} has no signal {name!r}. It has {', '.join(sorted(episode.signals))}.")


def _find(signals: Sequence[Signal], joint: str, where: str) -> tuple[Signal, int]:
    """The one signal that has a column of this name, and the column's place."""
    found = [(signal, k) for signal in signals for k, column in enumerate(signal.columns) if column.name == joint]
    if not found:
        names = ", ".join(column.name for signal in signals for column in signal.columns) or "none"
        raise RecordingError(
            f"{where} has no position of joint {joint!r}; its joint positions are: {names}. Give the column this name "
            "where it is ingested, or take the joint out of [[arms]]."
        )
    if len(found) > 1:
        raise RecordingError(
            f"{where}: joint {joint!r} is in the signals {', '.join(signal.name for signal, _ in found)}. Name the one "
            "that was measured with --signals."
        )
    return found[0]


def check_units(real: Motion, sim: Motion) -> None:
    """Both sides measure a joint in the same unit."""
    for joint, one, other in zip(real.joints, real.units, sim.units, strict=True):
        if one != other:
            raise RecordingError(
                f"joint {joint!r} is in {one!r} in {real.where} and in {other!r} in {sim.where}. State both "
                "units where they are ingested."
            )
