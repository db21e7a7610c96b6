"""What traces of paired trials show: how far reality and the twin drift apart, and whose events come when."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from twinproof.nouns.evidence import Evidence
from twinproof.nouns.hashing import Json
from twinproof.nouns.panel import Domain
from twinproof.nouns.signal import Signal
from twinproof.nouns.trace import Trace
from twinproof.nouns.trial import Trial

MOMENTS = 120  # of a course in the report
STRIPS = 3  # pairs whose events are drawn
MOST_PAIRS = 200  # of a domain that are read


def short(value: float) -> float:
    """A number with as many digits as a picture can show."""
    return float(f"{value:.5g}")


def pairs_of(evidence: Evidence, domain: Domain) -> Iterator[tuple[Trial, Trial]]:
    """Trials of the judged policy in reality and in a domain, of one condition and seed; both kept their traces."""
    judged = evidence.figures["judged"]
    real = next((d.name for d in evidence.panel.domains if d.kind == "real"), None)
    kept = {(t.domain, t.condition, t.repeat): t for t in evidence.trials if t.policy == judged and t.trace}
    for (where, condition, repeat), trial in kept.items():
        if where == real and (domain.name, condition, repeat) in kept:
            yield trial, kept[domain.name, condition, repeat]


def divergence_of(evidence: Evidence) -> list[dict[str, Json]]:
    """For each simulated domain: RMS difference of the joints from reality over time, and 10 to 90 % of pairs."""
    found = []
    for domain in evidence.panel.domains:
        if domain.kind == "real":
            continue
        courses, unit = [], ""
        for k, (one, other) in enumerate(pairs_of(evidence, domain)):
            if k == MOST_PAIRS:
                break
            course = _course(_joints(evidence.trace(one)), _joints(evidence.trace(other)))
            if course is not None:
                courses.append(course[:2])
                unit = course[2]
        if courses:
            found.append({"domain": domain.name, "kind": domain.kind, "unit": unit, **band_of(courses)})
    return found


def _joints(trace: Trace | None) -> Signal | None:
    signals = trace.signals.values() if trace is not None else ()
    return next((signal for signal in signals if signal.kind == "joint_position"), None)


def _course(real: Signal | None, twin: Signal | None) -> tuple[np.ndarray, np.ndarray, str] | None:
    """Times and the RMS difference over the joints that both know and that share the first one's unit."""
    if real is None or twin is None:
        return None
    there = {column.name: k for k, column in enumerate(twin.columns)}
    unit = real.columns[0].unit
    both = [(k, there[c.name]) for k, c in enumerate(real.columns) if c.name in there and c.unit == unit]
    start, end = max(real.time_s[0], twin.time_s[0]), min(real.time_s[-1], twin.time_s[-1])
    if not both or not end > start:
        return None
    grid = np.linspace(start, end, MOMENTS)
    squares = [np.square(_at(real, a, grid) - _at(twin, b, grid)) for a, b in both]
    return grid, np.sqrt(np.mean(squares, axis=0)), unit


def _at(signal: Signal, column: int, grid: np.ndarray) -> np.ndarray:
    known = np.ones(len(signal.time_s), bool) if signal.missing is None else ~signal.missing[:, column]
    values: np.ndarray = np.interp(grid, signal.time_s[known], signal.value[known, column])
    return values


def band_of(courses: list[tuple[np.ndarray, np.ndarray]]) -> dict[str, Json]:
    """Median and the band of four in five at each moment, while half of the courses run."""
    grid = np.linspace(min(t[0] for t, _ in courses), max(t[-1] for t, _ in courses), MOMENTS)
    rows = np.full((len(courses), MOMENTS), np.nan)
    for row, (time_s, value) in zip(rows, courses, strict=True):
        inside = (grid >= time_s[0] - 1e-9) & (grid <= time_s[-1] + 1e-9)
        row[inside] = np.interp(grid[inside], time_s, value)
    running = np.isfinite(rows).sum(axis=0) >= (len(courses) + 1) // 2
    low, middle, high = (
        [short(float(np.quantile(rows[np.isfinite(rows[:, k]), k], share))) for k in np.flatnonzero(running)]
        for share in (0.1, 0.5, 0.9)
    )
    times = [short(float(t)) for t in grid[running]]
    return {"pairs": len(courses), "time_s": times, "low": low, "median": middle, "high": high}


def strips_of(evidence: Evidence) -> list[dict[str, Json]]:
    """Events of a few pairs side by side: those whose outcomes differ come first."""
    twins = [d for kind in ("twin", "draws", "nominal", "rebuilt") for d in evidence.panel.domains if d.kind == kind]
    if not twins:
        return []
    both = list(pairs_of(evidence, twins[0]))
    both.sort(key=lambda pair: pair[0].success == pair[1].success)  # stable: the panel's order otherwise
    found: list[dict[str, Json]] = []
    for pair in both:
        traces = [evidence.trace(trial) for trial in pair]
        if len(found) < STRIPS and all(trace is not None and trace.events for trace in traces):
            lanes = [_lane(trial, trace) for trial, trace in zip(pair, traces, strict=True) if trace is not None]
            found.append({"condition": pair[0].condition, "repeat": pair[0].repeat, "lanes": lanes})
    return found


def _lane(trial: Trial, trace: Trace) -> dict[str, Json]:
    begin, end = trace.span_s
    events: Iterable[Json] = ([event.name, short(event.time_s)] for event in trace.events)
    return {
        "domain": trial.domain,
        "success": trial.success,
        "begin_s": short(begin),
        "end_s": short(end),
        "events": list(events),
        "trace": trial.trace,
    }
