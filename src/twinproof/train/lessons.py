"""What recordings show somebody doing, as rows to clone: what was seen at each tick, and the action that followed.

Nobody wrote down what the operator wanted. What came about a little later is taken as the goal (hindsight, as in
goal-conditioned supervised learning, Ghosh et al. 2019): that is what these actions lead to from here. Where an
object was passed on, its goal is where it came to lie in the end, and only successes show that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import ConfigError, RecordingError
from twinproof.nouns.parts import Calibration
from twinproof.nouns.randomness import stream
from twinproof.sim.readings import Reading, commands, readings
from twinproof.tasks.sensed import Sensed
from twinproof.tasks.task import TaskSpec
from twinproof.train.groups import action_scale, flat
from twinproof.train.imitate import Rows

SOON_S = 0.1  # a goal lies at least this far ahead


@dataclass(frozen=True, eq=False)
class Lessons:
    """Rows, and the ids of the calibration episodes that they are from."""

    rows: Rows
    episodes: tuple[str, ...]


def lessons_of(calibration: Calibration, task: TaskSpec, history: int = 1, seed: int = 0) -> Lessons:
    """The rows of all calibration episodes that have what the task's robot reports."""
    achieved = _achieved(task)
    seen, wanted, shown = [], [], _showing(calibration.recording.episodes, task)
    for episode in shown:
        sensed, command = at_ticks(episode.fresh(), task)
        goal = achieved(sensed)
        ahead = _ahead(len(goal), task, stream(seed, "train", "lessons", episode.id))
        sensed = _with_goal(sensed, goal[ahead])
        rows = flat(task.observe(sensed), task.deployable.observations)
        centre, half = action_scale(task.contract)
        y = (np.asarray(task.action(sensed, command)) - centre) / half
        keep = slice(0, len(goal) - max(1, round(SOON_S * task.contract.rate_hz)))
        seen.append(_stacked(rows, history)[keep])
        wanted.append(np.clip(y, -1.0, 1.0)[keep].astype(np.float32))
    ids = {episode.id for episode in shown}
    return Lessons(Rows(np.concatenate(seen), np.concatenate(wanted)), tuple(id for id in calibration.ids if id in ids))


def _showing(episodes: Sequence[Episode], task: TaskSpec) -> list[Episode]:
    """All of them; for a handover those that were one, and succeeded."""
    if task.name != "handover":
        return list(episodes)
    found = [
        each for each in episodes if each.outcome == "success" and each.labels.get("behaviour", task.name) == task.name
    ]
    if not found:
        raise RecordingError(
            "no calibration episode is a handover that succeeded, so none shows how it is done. Label such episodes "
            "with outcome = 'success' in rig.toml, or leave --split out."
        )
    return found


def at_ticks(episode: Episode, task: TaskSpec) -> tuple[Sensed, np.ndarray]:
    """What the robot reported at each of the task's ticks, and what it was told then, (T, J): T ticks as T worlds.

    Between samples positions are interpolated and commands held; the goal is empty.
    """
    model = task.machine.scene.nominal()
    sent_s, sent, _ = commands(episode, model)
    found, _ = readings(episode, model)
    begin_s = max([sent_s[0], *(reading.time_s[0] for reading in found)])
    end_s = min([sent_s[-1], *(reading.time_s[-1] for reading in found)])
    ticks = np.arange(begin_s, end_s, task.period_s)
    position = _joints(found, "position", task.machine.qpos_at, ticks)
    velocity = _joints(found, "velocity", task.machine.qvel_at, ticks)
    if velocity is None and position is not None:
        velocity = np.gradient(position, task.period_s, axis=0)
    if position is None or velocity is None or len(ticks) < 3:
        raise RecordingError(
            f"{episode.source or episode.id}: cloning needs the positions of {', '.join(task.machine.joints)} over "
            f"some ticks of {task.period_s:g} s; the recording lacks them. Add the signal to the rig."
        )
    command = sent[np.searchsorted(sent_s, ticks + 1e-9, side="right") - 1]
    last = np.concatenate([(0 * position if task.machine.torque_driven else position)[:1], command[:-1]])
    objects = _objects(episode, found, task, ticks)
    return Sensed(np, ticks - begin_s, position, velocity, np.zeros((len(ticks), 0)), last, None, objects), command


def _joints(found: Sequence[Reading], kind: str, places: np.ndarray, ticks: np.ndarray) -> np.ndarray | None:
    columns: dict[int, np.ndarray] = {}
    for reading in found:
        if reading.kind == kind:
            for k, place in enumerate(reading.place):
                read = np.isfinite(reading.value[:, k])
                columns[int(place)] = np.interp(ticks, reading.time_s[read], reading.value[read, k])
    if not all(int(place) in columns for place in places):
        return None
    return np.stack([columns[int(place)] for place in places], axis=1)


def _objects(episode: Episode, found: Sequence[Reading], task: TaskSpec, ticks: np.ndarray) -> Mapping[str, np.ndarray]:
    """Tracked poses (T, 7), the newest one at each tick."""
    tracks = [reading for reading in found if reading.kind == "pose"]
    poses = {}
    for name in task.tracked:
        track = next((each for each in tracks if each.name.startswith(name)), tracks[0] if len(tracks) == 1 else None)
        if track is None:
            raise RecordingError(
                f"{episode.source or episode.id}: the task {task.name!r} looks at {name!r}, and the recording has no "
                "track of it. Record with a tracker, or use --algo dagger."
            )
        newest = np.maximum(np.searchsorted(track.time_s, ticks + 1e-9, side="right") - 1, 0)
        poses[name] = track.value[newest]
    return poses


def _achieved(task: TaskSpec) -> Callable[[Sensed], np.ndarray]:
    """What of a moment would be a goal of this task."""
    match task.name:
        case "reach" if task.machine.torque_driven:
            return lambda sensed: np.asarray(sensed.position)
        case "reach":
            return lambda sensed: np.asarray(task.observe(_with_goal(sensed, np.zeros((len(sensed.time_s), 3))))["tip"])
        case "push":
            return lambda sensed: np.asarray(sensed.objects[task.tracked[0]][:, :2])
        case "handover":
            return lambda sensed: np.repeat(sensed.objects[task.tracked[0]][-1:, :3], len(sensed.time_s), axis=0)
        case _:
            raise ConfigError(
                f"the goal of the task {task.name!r} does not show in a recording: only reach, push and handover are "
                "cloned from one. Leave --split out."
            )


def _with_goal(sensed: Sensed, goal: np.ndarray) -> Sensed:
    return replace(sensed, goal=goal)


def _ahead(count: int, task: TaskSpec, rng: np.random.Generator) -> np.ndarray:
    """For each tick a later one, up to the task's horizon ahead."""
    soonest, latest = max(1, round(SOON_S * task.contract.rate_hz)), task.ticks
    drawn = np.arange(count) + rng.integers(soonest, max(latest, soonest + 1), count)
    found: np.ndarray = np.minimum(drawn, count - 1)
    return found


def _stacked(rows: np.ndarray, history: int) -> np.ndarray:
    """(T, history, width): the newest last, the first row in all places before it."""
    places = np.maximum(np.arange(len(rows))[:, None] - np.arange(history)[None, ::-1], 0)
    found: np.ndarray = rows[places]
    return found
