"""Trials that were run: how each ended, what its trace shows, and how that becomes a row of the panel.

runs.json     for each: success, failure label, time, what was left to do, a sentence, what was measured of the policy
              (how long it thought, limits it met), and the head of its trace
signals.npz   state, velocity, command, objects, goal, error of each, on one clock that begins at 0; ticks at which a
              policy was asked
films/        of trials with cameras, what each showed: videos on the same clock
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.nouns.artifact import read_arrays, write_arrays
from twinproof.nouns.episode import Episode
from twinproof.nouns.episode_files import read_episode, write_episode
from twinproof.nouns.errors import TraceError
from twinproof.nouns.failure import Failure
from twinproof.nouns.files import new_folder, read_sealed, write_sealed
from twinproof.nouns.panel import Cell
from twinproof.nouns.signal import Column, Signal
from twinproof.nouns.theta import Theta
from twinproof.nouns.trace import ARRAYS, Event, Trace, trace_from
from twinproof.nouns.trial import Trial
from twinproof.tasks.task import TaskSpec

if TYPE_CHECKING:
    from jaxtyping import Float, Int

FORMAT = "twinproof/runs/3"
ASKED = "asked"
FILMS = "films"
POSE = ("x", "y", "z", "qw", "qx", "qy", "qz")
POSE_UNITS = ("m", "m", "m", "1", "1", "1", "1")


@dataclass(frozen=True, eq=False)
class Course:
    """What happened tick by tick: T commands, and what was seen before the first and after each."""

    time_s: Float[np.ndarray, "T+1"]
    position: Float[np.ndarray, "T+1 J"]  # as the robot reports it
    velocity: Float[np.ndarray, "T+1 J"]
    command: Float[np.ndarray, "T J"]
    goal: Float[np.ndarray, "G"]
    error: Float[np.ndarray, "T+1"]  # how far from success, in the task's unit
    objects: Mapping[str, Float[np.ndarray, "T+1 7"]]


@dataclass(frozen=True, eq=False)
class Run:
    """A trial with its trace. A failure carries its label; 'undecided' until someone swaps factors."""

    success: bool
    failure: Failure | None
    time_s: float
    final_error: float | None  # not known where nothing finite was measured
    trace: Trace
    note: str = ""
    measured: Mapping[str, float] = field(default_factory=dict)  # how long answers took, limits met (evaluate.tally)
    film: Episode | None = None  # what its cameras showed, in videos without signals (evaluate.film)
    asked: Int[np.ndarray, "A"] | None = None  # ticks at which the policy was asked, where they are known

    def trial(self, cell: Cell, more: Mapping[str, float]) -> Trial:
        """The row of the panel. `more` are metrics that the run alone does not know."""
        known = {"time_s": self.time_s, **self.measured, **more}
        if self.final_error is not None:
            known["final_error"] = self.final_error
        return Trial(
            cell.policy,
            cell.condition.name,
            cell.domain.name,
            cell.seed,
            self.success,
            self.failure,
            known,
            self.trace.hash,
            cell.repeat,
            self.note,
        )


@dataclass(frozen=True, eq=False)
class Runs:
    """Runs that were made together, in one folder of two files: hundreds of traces are kept in a moment."""

    runs: tuple[Run, ...]

    def save(self, folder: Path) -> None:
        """Writes them into a new folder."""
        arrays: dict[str, np.ndarray] = {}
        told = []
        for k, run in enumerate(self.runs):
            for signal in run.trace.signals.values():
                pairs = ((array, getattr(signal, array)) for array in ARRAYS)
                arrays |= {f"{k}/{signal.name}/{array}": value for array, value in pairs if value is not None}
            if run.asked is not None:
                arrays[f"{k}/{ASKED}"] = run.asked
            failure = None if run.failure is None else run.failure.label
            own = {name: getattr(run, name) for name in ("success", "time_s", "final_error", "note")}
            own["measured"] = dict(run.measured)
            told.append({**own, "failure": failure, "trace": run.trace.head(), "hash": run.trace.hash})
        with new_folder(folder) as scratch:
            write_arrays(scratch / "signals.npz", arrays)
            for k, film in ((k, run.film) for k, run in enumerate(self.runs) if run.film is not None):
                write_episode(scratch / FILMS / str(k) / film.id, film)
            write_sealed(scratch / "runs.json", {"format": FORMAT, "runs": told})

    @staticmethod
    def load(folder: Path) -> Runs:
        """What lies in a folder; every trace is the one that was written."""
        arrays = read_arrays(folder / "signals.npz", TraceError)
        told = read_sealed(folder / "runs.json", FORMAT, TraceError)["runs"]
        return Runs(tuple(_run(one, arrays, k, folder) for k, one in enumerate(told)))


def _under(prefix: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _run(told: Mapping[str, Any], arrays: Mapping[str, np.ndarray], k: int, folder: Path) -> Run:
    mine = _under(f"{k}/", arrays)
    asked = mine.pop(ASKED, None)
    trace = trace_from(told["trace"], mine, str(folder))
    if trace.hash != told["hash"]:
        raise TraceError(f"{folder} holds another trace ({trace.hash[:16]}) than it states. Run the trials again.")
    failure = None if told["failure"] is None else Failure.of(told["failure"])
    own = (told["success"], failure, told["time_s"], told["final_error"], trace, told["note"], told["measured"])
    film = next((read_episode(each) for each in (folder / FILMS / str(k)).glob("*")), None)
    return Run(*own, film, asked)


def run_of(
    task: TaskSpec,
    course: Course,
    success: bool,
    failure: Failure | None,
    *,
    domain: str,
    note: str = "",
    engine: str = "",
    theta: Theta | None = None,
    measured: Mapping[str, float] | None = None,
) -> Run:
    """The run of a course; one function for reality and for twins."""
    last = float(course.error[-1])
    how = "succeeded" if success else f"failed: {note}" if note else "did not succeed"
    trace = Trace(
        domain,
        _signals(task, course),
        (Event("begin", float(course.time_s[0])), Event("end", float(course.time_s[-1]))),
        engine,
        Theta() if theta is None else theta,
        (how,),
    )
    spent = float(course.time_s[-1] - course.time_s[0])
    return Run(
        success,
        None if success else failure,
        spent,
        last if np.isfinite(last) else None,
        trace,
        note,
        dict(measured or {}),
    )


def _signals(task: TaskSpec, course: Course) -> dict[str, Signal]:
    joints = task.machine.joints
    units = tuple("m" if unit in ("m", "N") else "rad" for unit in task.machine.command_units)
    told = tuple(unit.replace("·", " ") for unit in task.machine.command_units)  # as recordings write it
    rates = tuple(f"{unit}/s" for unit in units)
    time_s, sent_s = course.time_s, course.time_s[: len(course.command)]

    def of(name: str, kind: str, columns: tuple[Column, ...], at_s: np.ndarray, value: np.ndarray) -> Signal:
        known = np.isfinite(value)
        missing = None if known.all() else ~known
        return Signal(name, kind, columns, at_s, np.where(known, value, 0.0), missing)

    found = [
        of("state", "joint_position", _columns(joints, units), time_s, course.position),
        of("velocity", "joint_velocity", _columns(joints, rates), time_s, course.velocity),
        of("error", "other", (Column("error", task.error_unit),), time_s, course.error[:, None]),
    ]
    if len(sent_s):
        found.append(of("command", "joint_command", _columns(joints, told), sent_s, course.command))
    if len(course.goal):
        names = tuple(f"goal_{k}" for k in range(len(course.goal)))
        found.append(of("goal", "other", _columns(names, ("",) * len(names)), time_s[:1], course.goal[None]))
    for name, pose in course.objects.items():
        found.append(of(f"{name}_pose", "pose", _columns(POSE, POSE_UNITS), time_s, pose))
    return {signal.name: signal for signal in found}


def _columns(names: tuple[str, ...], units: tuple[str, ...]) -> tuple[Column, ...]:
    return tuple(Column(name, unit) for name, unit in zip(names, units, strict=True))
