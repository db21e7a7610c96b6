"""What happened when: home, grasp, lift, contact, release, place, by stated rules, from signals that both domains have.

grasp     the gripper has closed by `close_share` of its range and comes to rest, open by more than `empty_share`;
          where its command is recorded too, open by `squeeze_share` more than it was told
release   after a grasp it opens by `close_share`; the moment is when that opening begins
lift      a tracked object is `lift_m` above where it lay; without a track, the tip is `lift_m` above its grasp
place     a lifted object is back within `place_m` of the height where it lay; without a track, the tip of a
          lifted grasp has come within `place_m` of the height at which it releases, for good
contact   a tracked object has first moved by `touch_m`, or the force of a wrench signal is `contact_n` above its start
home      an arm has been three times `home_share` away from its first posture and is back within `home_share`

A state counts when it lasts `hold_s`. Where `stated` names a signal, its columns that are called like an event
(`grasp`, or `left_grasp` for the arm `left`) are taken at their word: their rising edges stand instead of the rule's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from twinproof.nouns.errors import ConfigError

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

    Track = tuple[Float[np.ndarray, "S"], Float[np.ndarray, "S 3"]]

NAMES = ("home", "contact", "grasp", "lift", "release", "place")
FIRST_S = 0.2  # what was at rest in the beginning is told from this long


@dataclass(frozen=True)
class EventRules:
    """Thresholds of the rules above. Shares are of the range that the rig states."""

    closed_at: Literal["low", "high"] = "low"  # the end of the gripper's range at which it is shut
    close_share: float = 0.15
    empty_share: float = 0.10
    squeeze_share: float = 0.05
    still_per_s: float = 0.10  # a gripper slower than this share of its range a second is at rest
    lift_m: float = 0.015
    place_m: float = 0.010
    touch_m: float = 0.005
    contact_n: float = 2.0
    home_share: float = 0.03
    hold_s: float = 0.10
    stated: str = ""  # a signal whose columns say when events happen

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name not in ("closed_at", "stated") and not (np.isfinite(value) and value > 0):
                raise ConfigError(f"the event rule {name} is {value}. It is above zero and finite.")


@dataclass(frozen=True)
class Happening:
    """An event of an arm, or of a tracked object or a force sensor, and what told of it."""

    name: str
    of: str
    time_s: float
    by: str  # gripper, height, track, force, posture or stated


@dataclass(frozen=True, eq=False)
class ArmView:
    """What the rules look at on one arm, on one grid: opening 0 (shut) to 1, way from the first posture, height."""

    time_s: Float[np.ndarray, "T"]
    away: Float[np.ndarray, "T"]  # root mean square of joints, in shares of their ranges
    opening: Float[np.ndarray, "T"] | None = None
    told: Float[np.ndarray, "T"] | None = None  # the opening that was commanded
    height_m: Float[np.ndarray, "T"] | None = None


@dataclass(frozen=True, eq=False)
class View:
    """One episode as the rules see it."""

    arms: Mapping[str, ArmView]
    objects: Mapping[str, Track]
    forces: Mapping[str, Track]
    stated: Mapping[str, tuple[Float[np.ndarray, "S"], Float[np.ndarray, "S"]]]  # column -> time, value


def events_of(view: View, rules: EventRules) -> tuple[Happening, ...]:
    """All events in the order of time."""
    found: list[Happening] = []
    for name, arm in view.arms.items():
        found += [Happening("home", name, t, "posture") for t in _homes(arm, rules)]
        grasps = [] if arm.opening is None else _grasps(arm.time_s, arm.opening, arm.told, rules)
        by = "gripper" if arm.told is None else "gripper and command"
        for start, end in grasps:
            found.append(Happening("grasp", name, start, by))
            if end is not None:
                found.append(Happening("release", name, end, "gripper"))
        if not view.objects and arm.height_m is not None:
            found += _carried(name, arm.time_s, arm.height_m, grasps, rules)
    for name, (time_s, position_m) in view.objects.items():
        found += _moved(name, time_s, position_m, rules)
    for name, (time_s, force_n) in view.forces.items():
        strength = np.linalg.norm(force_n, axis=1)
        rest = float(np.median(strength[time_s <= time_s[0] + FIRST_S]))
        found += [
            Happening("contact", name, t, "force") for t in _rises(time_s, strength > rest + rules.contact_n, rules)
        ]
    return tuple(sorted(_with_stated(found, view), key=lambda event: (event.time_s, event.of, event.name)))


def _rises(time_s: np.ndarray, state: Bool[np.ndarray, "T"], rules: EventRules) -> list[float]:
    """When a state begins that lasts `hold_s`. It may be interrupted for shorter than that: the first moment counts."""
    edge = np.flatnonzero(np.diff(state.astype(np.int8), prepend=0, append=0))
    runs = [(float(time_s[a]), float(time_s[b - 1])) for a, b in zip(edge[::2], edge[1::2], strict=True)]
    joined: list[tuple[float, float]] = []
    for start, end in runs:
        if joined and start - joined[-1][1] < rules.hold_s:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return [start for start, end in joined if end - start >= rules.hold_s or end == float(time_s[-1])]


def _homes(arm: ArmView, rules: EventRules) -> list[float]:
    """Every return to the first posture."""
    gone = np.flatnonzero(arm.away > 3 * rules.home_share)
    homes: list[float] = []
    for t in _rises(arm.time_s, arm.away <= rules.home_share, rules):
        since = homes[-1] if homes else -np.inf
        if ((arm.time_s[gone] > since) & (arm.time_s[gone] < t)).any():
            homes.append(t)
    return homes


def _grasps(
    time_s: np.ndarray, opening: np.ndarray, told: np.ndarray | None, rules: EventRules
) -> list[tuple[float, float | None]]:
    """(grasp, release) of every grasp; None where it is held to the end."""
    step = float(np.median(np.diff(time_s)))
    smooth = _mean_over(opening, max(1, round(rules.hold_s / 2 / step)))
    slow = np.abs(np.gradient(smooth, time_s)) < rules.still_per_s
    found: list[tuple[float, float | None]] = []
    k, top = 0, float(smooth[0])
    while k < len(smooth):
        top = max(top, float(smooth[k]))
        if smooth[k] > top - rules.close_share:
            k += 1
            continue
        rest = _first_hold(slow, k, max(1, round(rules.hold_s / step)))
        if rest is None:
            break
        opens, start = _opening(smooth, rest, rules.close_share)
        squeezed = told is None or smooth[rest] - told[rest] > rules.squeeze_share
        if smooth[rest] > rules.empty_share and squeezed:
            found.append((float(time_s[rest]), None if opens is None else float(time_s[start])))
        if opens is None:
            break
        k, top = opens, float(smooth[opens])
    return found


def _first_hold(state: np.ndarray, start: int, length: int) -> int | None:
    """The first place from `start` on from which the state lasts for so many samples, or to the end."""
    for k in range(start, len(state)):
        if state[k : k + length].all():
            return k
    return None


def _opening(smooth: np.ndarray, rest: int, share: float) -> tuple[int | None, int]:
    """Where a shut gripper has opened by a share of its range, and where that opening began."""
    low, lowest = float(smooth[rest]), rest
    for k in range(rest, len(smooth)):
        if smooth[k] <= low + 0.1 * share:
            low, lowest = min(low, float(smooth[k])), k
        if smooth[k] >= low + share:
            return k, lowest
    return None, rest


def _mean_over(values: np.ndarray, half: int) -> np.ndarray:
    """A mean over 2 half + 1 samples; the ends are held."""
    width = 2 * half + 1
    padded = np.pad(values, half, mode="edge")
    mean: np.ndarray = np.convolve(padded, np.full(width, 1 / width), mode="valid")
    return mean


def _moved(name: str, time_s: np.ndarray, position_m: np.ndarray, rules: EventRules) -> list[Happening]:
    """First contact, lifts and places of a tracked object."""
    first = np.median(position_m[time_s <= time_s[0] + FIRST_S], axis=0)
    touched = _rises(time_s, np.linalg.norm(position_m - first, axis=1) > rules.touch_m, rules)[:1]
    found = [Happening("contact", name, t, "track") for t in touched]
    up = position_m[:, 2] - first[2]
    lifts = _rises(time_s, up > rules.lift_m, rules)
    downs = _rises(time_s, up < rules.place_m, rules)
    last = -np.inf
    for t in lifts:
        if t < last:
            continue  # a lift counts once the last one was put down
        found.append(Happening("lift", name, t, "track"))
        last = next((down for down in downs if down > t), np.inf)
        if np.isfinite(last):
            found.append(Happening("place", name, last, "track"))
    return found


def _carried(
    name: str, time_s: np.ndarray, height_m: np.ndarray, grasps: list[tuple[float, float | None]], rules: EventRules
) -> list[Happening]:
    """Lift and place of what the gripper holds, from the height of the tip."""
    found = []
    for start, end in grasps:
        held = (time_s >= start) & (time_s <= (np.inf if end is None else end))
        t, height = time_s[held], height_m[held]
        lifts = _rises(t, height > height[0] + rules.lift_m, rules) if len(t) else []
        if not lifts:
            continue
        found.append(Happening("lift", name, lifts[0], "height"))
        if end is None:
            continue
        above = np.flatnonzero(height > height[-1] + rules.place_m)
        if len(above) and above[-1] + 1 < len(t) and t[above[-1]] > lifts[0]:
            found.append(Happening("place", name, float(t[above[-1] + 1]), "height"))
    return found


def _with_stated(found: list[Happening], view: View) -> list[Happening]:
    """Events that a column states, instead of those that a rule found."""
    stated: list[Happening] = []
    for column, (time_s, value) in view.stated.items():
        for name in NAMES:
            of = column.removesuffix(name).rstrip("_")
            if column.endswith(name) and (of in view.arms or not of):
                rises = np.flatnonzero((value[1:] > 0.5) & (value[:-1] <= 0.5)) + 1
                stated += [Happening(name, of, float(time_s[k]), "stated") for k in rises]
    replaced = {(event.name, event.of) for event in stated} | {(e.name, "") for e in stated if not e.of}
    every = {name for name, of in replaced if not of}
    return [e for e in found if (e.name, e.of) not in replaced and e.name not in every] + stated
