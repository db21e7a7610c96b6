"""Trials as a Recording, so that they can travel on: into a LeRobot dataset to train on failures, or into `compare`."""

from __future__ import annotations

from collections.abc import Sequence

from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import TraceError
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import Arm, Camera, Joint, Rig, SignalRule
from twinproof.nouns.trace import Trace
from twinproof.nouns.trials import Trials
from twinproof.tasks.task import TaskSpec

KEPT = ("state", "velocity", "command")  # and poses: what every trial has


def trials_recording(found: Trials, task: TaskSpec, domain: str, policy: str = "") -> Recording:
    """The trials of one domain, of all policies or of one, as episodes with what their cameras showed, labelled by
    policy, condition, repeat and failure; outcomes are theirs.

    A trial that ended before its first command has nothing to learn from and is left out; the source says how many.
    """
    mine = [
        trial
        for trial in found.trials
        if trial.domain == domain and trial.policy in (policy or trial.policy,) and trial.trace is not None
    ]
    if not mine:
        whose = f" of the policy {policy!r}" if policy else ""
        have = sorted({trial.domain for trial in found.trials})
        names = sorted({trial.policy for trial in found.trials})
        raise TraceError(
            f"no trial of the domain {domain!r}{whose} has a trace; domains are {', '.join(have)}, policies "
            f"{', '.join(names)}."
        )
    episodes: list[Episode] = []
    empty = 0
    for trial in mine:
        trace = found.traces[str(trial.trace)]
        if "command" not in trace.signals:
            empty += 1
            continue
        failure = {} if trial.failure is None else {"failure": trial.failure.label}
        labels = {
            "task": f"{task.name}: {task.success}",
            "policy": trial.policy,
            "condition": trial.condition,
            "repeat": str(trial.repeat),
            "domain": trial.domain,
            **failure,
        }
        signals = {
            name: s for name, s in trace.signals.items() if name in KEPT or (s.kind == "pose" and s.missing is None)
        }
        outcome = "success" if trial.success else "failure"
        film = found.films.get(str(trial.trace))
        videos = {} if film is None else film.videos
        episodes.append(
            Episode.of(signals, videos, labels=labels, outcome=outcome, start_ns=len(episodes), source=trial.where)
        )
    if not episodes:
        raise TraceError(
            f"all {empty} trials of the domain {domain!r} ended before a command: there is nothing to write."
        )
    _check_cameras(episodes)
    source = {"kind": "trials", "name": f"{task.name} in {domain}", "left_out": empty}
    return Recording(_rig(task, found.traces[str(mine[0].trace)], tuple(episodes[0].videos)), tuple(episodes), source)


def _check_cameras(episodes: Sequence[Episode]) -> None:
    """All trials show the same cameras in one size, as one table of features needs."""
    sizes = [{name: f"{v.width} × {v.height}" for name, v in episode.videos.items()} for episode in episodes]
    other = next((k for k, each in enumerate(sizes) if each != sizes[0]), None)
    if other is not None:
        first, second = (", ".join(f"{n} {size}" for n, size in sizes[k].items()) or "none" for k in (0, other))
        raise TraceError(
            f"{episodes[0].source} shows {first}, and {episodes[other].source} {second}: one dataset has one set of "
            "cameras. Write the trials of one policy (--lerobot-policy)."
        )


def _rig(task: TaskSpec, trace: Trace, cameras: Sequence[str]) -> Rig:
    joints = task.machine.joints
    features = {"state": "observation.state", "command": "action"}
    signals = {
        name: SignalRule(
            features.get(name, f"observation.{name}"),
            signal.kind,
            units=tuple(column.unit for column in signal.columns),
            columns=tuple(column.name for column in signal.columns),
        )
        for name, signal in trace.signals.items()
        if name in KEPT or signal.kind == "pose"
    }
    seen = {name: Camera(f"observation.images.{name}", intrinsics_unknown=True) for name in cameras}
    return Rig("trials", tuple(Joint(name) for name in joints), (Arm("robot", joints),), None, signals, seen)
