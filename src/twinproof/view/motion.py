"""An episode to be shown: where every link was over time, what happened when, and how far another one is from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import TraceError
from twinproof.nouns.trace import Event, Trace
from twinproof.view.look import Look

if TYPE_CHECKING:
    from jaxtyping import Float

Place = Callable[[Trace, np.ndarray], np.ndarray]  # a trace at times (T) -> T_world_links (T, L, 4, 4)
RATE_HZ = 50.0
MOST_FRAMES = 1500


@dataclass(frozen=True, eq=False)
class Motion:
    """All links over time, evenly sampled from 0 on. `begin_s` is 0 on the clock of the trace."""

    label: str
    step_s: float
    T_world_links: Float[np.ndarray, "T L 4 4"]
    events: tuple[Event, ...] = ()
    begin_s: float = 0.0

    @property
    def frames(self) -> int:
        """How many moments there are."""
        return len(self.T_world_links)

    @property
    def time_s(self) -> Float[np.ndarray, "T"]:
        """The moments."""
        return np.arange(self.frames) * self.step_s

    def at(self, time_s: float) -> Float[np.ndarray, "L 4 4"]:
        """Where the links are at the moment nearest to a time; before and after all of it they stand still."""
        return np.asarray(self.T_world_links[int(np.clip(round(time_s / self.step_s), 0, self.frames - 1))])


def motion_of(trace: Trace, place: Place, label: str, most: int = MOST_FRAMES, begin_s: float | None = None) -> Motion:
    """A trace as a motion, at most 50 frames a second and `most` in all; times count from its own start.

    A replay begins where readings and commands have both begun: with `begin_s` its times count from the start of what
    it replays, and until it begins it stands still.
    """
    first, end = trace.span_s
    begin = first if begin_s is None else begin_s
    frames = int(np.clip((end - begin) * RATE_HZ, 1, most - 1)) + 1
    step_s = max((end - begin) / (frames - 1), 1e-6)
    poses = place(trace, begin + np.arange(frames) * step_s)
    if not np.isfinite(poses).all():
        raise TraceError(f"{label}: links are at places that are no numbers. Look at the trace's positions.")
    events = tuple(Event(event.name, event.time_s - begin) for event in trace.events)
    return Motion(label, step_s, poses, events, begin)


@dataclass(frozen=True, eq=False)
class Apart:
    """Two episodes against each other over time: joints (root mean square) and the part that is farthest off.

    Joints in radians and joints in metres have no mean: those of the unit that most have are taken. Where neither
    episode has a joint, as when a free body is thrown, it is the root mean square of the moving parts' distances.
    """

    time_s: Float[np.ndarray, "T"]
    rmse: Float[np.ndarray, "T"]
    unit: str
    farthest_m: Float[np.ndarray, "T"]

    @property
    def total_rmse(self) -> float:
        """Over all of the common time."""
        return float(np.sqrt(np.mean(np.square(self.rmse))))


def apart(one: tuple[Trace, Motion], two: tuple[Trace, Motion], look: Look) -> Apart:
    """How far two episodes are apart, over the time that both of them tell of."""
    first, second = (_joints(trace, motion.begin_s) for trace, motion in (one, two))
    names = sorted(first.keys() & second.keys())
    if not names and (first or second):
        raise TraceError(
            f"{one[1].label} and {two[1].label} have no joint in common, so no error can be shown. Compare episodes of "
            "one robot."
        )
    spans = [[t - motion.begin_s for t in trace.span_s] for trace, motion in (one, two)]
    begin_s, end_s = max(span[0] for span in spans), min(span[1] for span in spans)
    time_s = np.linspace(begin_s, max(begin_s, end_s), max(2, min(one[1].frames, two[1].frames)))
    moving = [look.links.index(name) for name in look.moving]
    centres = look.centres()
    places = [np.stack([_points(motion.at(t), centres) for t in time_s]) for _, motion in (one, two)]
    off = np.linalg.norm(places[0] - places[1], axis=2)
    if not names:
        return Apart(time_s, np.sqrt(np.mean(off[:, moving] ** 2, axis=1)), "m", off.max(axis=1))
    units = [first[name][2] for name in names]
    unit = max(sorted(set(units)), key=units.count)
    alike = [name for name in names if first[name][2] == unit]
    gaps = np.stack([np.interp(time_s, *first[name][:2]) - np.interp(time_s, *second[name][:2]) for name in alike])
    return Apart(time_s, np.sqrt(np.mean(gaps**2, axis=0)), unit, off.max(axis=1))


def _points(T: np.ndarray, centres: np.ndarray) -> np.ndarray:
    return np.asarray(np.einsum("lij,lj->li", T[:, :3, :3], centres) + T[:, :3, 3])


def _joints(trace: Trace, begin_s: float) -> dict[str, tuple[np.ndarray, np.ndarray, str]]:
    """Times from the start, positions and unit of every joint that was read."""
    found = dict[str, tuple[np.ndarray, np.ndarray, str]]()
    for signal in trace.signals.values():
        if signal.kind == "joint_position":
            for k, column in enumerate(signal.columns):
                good = np.ones(len(signal.time_s), bool) if signal.missing is None else ~signal.missing[:, k]
                if good.any():
                    found[column.name] = (signal.time_s[good] - begin_s, signal.value[good, k], column.unit)
    return found
