"""Real trials that were run and recorded elsewhere: each episode says which cell of the panel it is.

labels: policy, condition, repeat [, failure]     outcome: success or failure
signals: joint positions [, velocities, commands, poses of the task's objects]
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from twinproof.evaluate.deploy import begins
from twinproof.evaluate.runs import POSE, Course, Run, run_of
from twinproof.evaluate.sheet import SHEET
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import PanelError
from twinproof.nouns.failure import Failure
from twinproof.nouns.panel import Cell, Panel
from twinproof.nouns.recording import Recording
from twinproof.tasks.sight import LOST_S
from twinproof.tasks.task import TaskSpec

LABELS = ("policy", "condition", "repeat")


def logged_trials(recording: Recording, task: TaskSpec, panel: Panel) -> Callable[[Cell], Run]:
    """What gives the real run of a cell. Every episode is labelled and decided; the panel's conditions are known."""
    known: dict[tuple[str, ...], Episode] = {}
    names = {condition.name for condition in panel.conditions}
    for episode in recording.episodes:
        key = tuple(episode.labels.get(label, "") for label in LABELS)
        where = f"the logged trial {episode.source or episode.id}"
        if not all(key) or not key[2].isdigit() or key[1] not in names:
            raise PanelError(
                f"{where} is labelled policy {key[0]!r}, condition {key[1]!r}, repeat {key[2]!r}. Label each with a "
                f"policy, a condition of the panel ({', '.join(sorted(names))}) and a number from 0."
            )
        if episode.outcome == "unknown":
            raise PanelError(f"{where} does not say whether it succeeded. Set its outcome to success or failure.")
        if key in known:
            raise PanelError(
                f"{where} stands twice: policy {key[0]!r}, condition {key[1]!r}, repeat {key[2]}. Keep one."
            )
        known[key] = episode
    return partial(_run, known, task)


def _run(known: dict[tuple[str, ...], Episode], task: TaskSpec, cell: Cell) -> Run:
    key = (cell.policy, cell.condition.name, str(cell.repeat))
    if key not in known:
        raise PanelError(
            f"no logged trial is labelled policy {key[0]!r}, condition {key[1]!r}, repeat {key[2]}. Run it on the "
            f"robot as the panel's {SHEET} says it begins, or freeze a panel with fewer real trials."
        )
    episode = known[key].fresh()
    success = episode.outcome == "success"
    failure = Failure.of(episode.labels.get("failure", Failure.UNDECIDED.label))
    note = "" if success else "; ".join(episode.notes) or "logged as a failure"
    return run_of(task, _course(episode, task, cell), success, failure, domain=cell.domain.name, note=note)


def _course(episode: Episode, task: TaskSpec, cell: Cell) -> Course:
    """The joints at the stamps of their positions; what was not recorded is marked missing."""
    joints, where = task.machine.joints, f"the logged trial {episode.source or episode.id}"
    stamps = next((s.time_s for s in episode.of_kind("joint_position")), None)
    if stamps is None or len(stamps) < 2:
        raise PanelError(f"{where} has no joint positions, so nothing can be told of it. Record them.")
    position = _joints(episode, ("joint_position", "gripper"), joints, stamps)
    lacking = [name for k, name in enumerate(joints) if not np.isfinite(position[:, k]).any()]
    if lacking:
        raise PanelError(f"{where} has no position of {', '.join(lacking)}. Name the columns as the twin's joints.")
    return Course(
        stamps - stamps[0],
        position,
        _joints(episode, ("joint_velocity",), joints, stamps),
        _joints(episode, ("joint_command",), joints, stamps[:-1]),
        np.array(begins(task, cell).goal),
        np.full(len(stamps), np.nan),
        _objects(episode, task.tracked, stamps),
    )


def _objects(episode: Episode, tracked: tuple[str, ...], stamps: np.ndarray) -> dict[str, np.ndarray]:
    """Poses (T, 7) by body, the newest that was seen; NaN where it was lost for long. A body that no signal is called
    after (nor the only one) was not tracked, and is left out."""
    tracks = [signal for signal in episode.of_kind("pose") if set(POSE) <= {c.name for c in signal.columns}]
    found = {}
    for name in tracked:
        only = tracks[0] if len(tracks) == len(tracked) == 1 else None
        track = next((each for each in tracks if each.name.startswith(name)), only)
        if track is None:
            continue
        value = np.stack([track.column(axis) for axis in POSE], axis=1)
        seen = np.isfinite(value).all(axis=1)
        if seen.any():
            time_s, value = track.time_s[seen], value[seen]
            newest = np.clip(np.searchsorted(time_s, stamps + 1e-9, side="right") - 1, 0, None)
            lost = np.abs(stamps - time_s[newest]) > LOST_S
            found[name] = np.where(lost[:, None], np.nan, value[newest])
    return found


def _joints(episode: Episode, kinds: tuple[str, ...], joints: tuple[str, ...], stamps: np.ndarray) -> np.ndarray:
    """Newest values at some times (T, J); NaN where nothing was recorded."""
    found = np.full((len(stamps), len(joints)), np.nan)
    for kind in kinds:
        for signal in episode.of_kind(kind):
            at = np.clip(np.searchsorted(signal.time_s, stamps + 1e-9, side="right") - 1, 0, None)
            for column in (c.name for c in signal.columns if c.name in joints):
                found[:, joints.index(column)] = signal.column(column)[at]
    return found
