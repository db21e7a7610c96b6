"""The next experiment: commands within a robot's limits that tell most about named parameters, given today's draws.

random series ──made to fit the limits──> the most telling ──evolution──> checked under fresh draws ──> Excitation

How much a candidate tells is found by simulating it under several draws, with the sensors that the robot has, and by
adding its information to what is known today.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.identify.beliefs import Belief
from twinproof.identify.excitation import Design, Excitation, Judge, Today
from twinproof.identify.excite_information import Rehearsal, sensors_of, usual_sensors
from twinproof.identify.excite_limits import NOTHING_ASKED, Asked, motion_limits
from twinproof.identify.excite_search import Around, Search, home_of, unexcited
from twinproof.identify.trajectory import Series
from twinproof.nouns.errors import ConfigError, ParameterError, SimError
from twinproof.nouns.progress import Progress, quiet
from twinproof.sim.free_air import free_air
from twinproof.sim.parameters.base import names, nearest
from twinproof.sim.parameters.resolve import matching
from twinproof.sim.readings import readings
from twinproof.sim.scene import Scene
from twinproof.sim.smooth import states_at

if TYPE_CHECKING:
    from twinproof.nouns.episode import Episode

__all__ = ["Design", "Excitation", "Today", "design", "prepare"]
COARSE_S = 0.004  # candidates are judged with physics steps of this length, the chosen one with the scene's own


def design(
    scene: Scene,
    beliefs: Sequence[Belief],
    today: Today,
    how: Design,
    rng: np.random.Generator,
    *,
    parameters: Sequence[str] = (),
    reference: Episode | None = None,
    home: Mapping[str, float] | None = None,
    joints: Sequence[str] = (),
    asked: Asked = NOTHING_ASKED,
    progress: Progress = quiet,
) -> Excitation:
    """The experiment of this length that tells most about `parameters` (all by default), whichever draw is true.

    reference   an earlier episode of the robot: what it measures, how often and how well, and where it begins
    home        joint -> position at which it begins and ends: by default the reference's, else the scene's
    joints      those that may move; all driven ones by default
    """
    asking = {"parameters": parameters, "reference": reference, "home": home, "joints": joints, "asked": asked}
    return prepare(scene, beliefs, today, how, rng, **asking).run(progress)  # type: ignore[arg-type]


def prepare(
    scene: Scene,
    beliefs: Sequence[Belief],
    today: Today,
    how: Design,
    rng: np.random.Generator,
    *,
    parameters: Sequence[str] = (),
    reference: Episode | None = None,
    home: Mapping[str, float] | None = None,
    joints: Sequence[str] = (),
    asked: Asked = NOTHING_ASKED,
) -> Search:
    """The search that `design` runs, ready to judge commands of any kind."""
    named = _named(parameters, beliefs)
    alone = free_air(scene)
    kept = _kept(alone.reserving(0.1, 0.1).nominal(), beliefs, named)  # a delay is a parameter where there is room
    beliefs, today = tuple(beliefs[k] for k in kept), today.only(kept)
    model: Any = alone.nominal()
    seen = readings(reference, model)[0] if reference is not None else ()
    at = states_at(seen, model, np.array([max(each.time_s[0] for each in seen)])).qpos[0] if seen else home_of(model)
    _place(model, at, home or {})
    limits = motion_limits(model, at, joints, asked)
    series = Series(limits, how.rate_hz, how.seconds, how.harmonics)
    sensors = sensors_of(seen) if seen else usual_sensors(model, limits)
    coarse = free_air(scene, max(COARSE_S, float(model.opt.timestep)))
    size = how.rate_hz, series.count, how.window_s
    rough = Rehearsal(coarse, beliefs, sensors, limits, at, *size, jitter_s=how.jitter_s)
    exact = Rehearsal(alone, beliefs, sensors, limits, at, *size, jitter_s=how.jitter_s, jitters=8)
    judge = Judge(how.criterion, today.precision, [k for k, b in enumerate(beliefs) if b.id in named])
    return Search(how, series, (rough, exact), today, judge, Around(scene, model, at, limits), rng)


def _named(parameters: Sequence[str], beliefs: Sequence[Belief]) -> tuple[str, ...]:
    known = [b.id for b in beliefs]
    for id in parameters:
        if id not in known:
            raise ConfigError(f"{id} is none of the parameters that something is known of. {nearest(id, known)}")
    return tuple(parameters) or tuple(known)


def _kept(model: Any, beliefs: Sequence[Belief], named: Sequence[str]) -> np.ndarray:
    """The parameters that the robot alone has; one that was named and is not there cannot be excited."""
    kept, gone = [], []
    for k, belief in enumerate(beliefs):
        try:
            if not belief.id.startswith("signal."):
                matching(model, belief.id)
            kept.append(k)
        except (ParameterError, SimError):
            gone.append(belief.id)
    lost = [id for id in gone if id in named]
    if lost:
        raise unexcited(lost)
    return np.array(kept)


def _place(model: Any, qpos: np.ndarray, home: Mapping[str, float]) -> None:
    known = names(model, "joint")
    for name, value in home.items():
        if name not in known:
            raise ConfigError(f"home names the joint {name!r}, which the robot does not have. {nearest(name, known)}")
        qpos[int(model.jnt_qposadr[known.index(name)])] = value
