"""Single trials against their traces: how each ended, where it ran, and its metrics, computed anew.

What a trace alone tells (time_s, final_error, the outcome) is computed here. What needs a simulator or a robot's ranges
(apart_rmse, replay_rmse, replay_tip_m) is measured by whoever calls the audit, with the same functions as in evaluate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from twinproof.evidence.findings import Finding, broken, confirmed, opened
from twinproof.nouns.errors import TwinproofError
from twinproof.nouns.panel import Panel
from twinproof.nouns.trace import Trace
from twinproof.nouns.trial import Trial

SHOWN = 3  # breaks of one kind that are told one by one
CLOSE = 1e-6  # share by which a number may differ: another machine rounds otherwise, and a simulation carries that on


@dataclass(frozen=True)
class Measured:
    """Metrics of trials, by row and name, of the metrics in `names`; what could not be measured is said in `left`."""

    names: tuple[str, ...]
    values: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    left: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Rows:
    """What trials.parquet holds, the panel it was run for, and the traces that could be read."""

    panel: Panel
    trials: Sequence[Trial]
    traces: Mapping[str, Trace]

    def trace(self, trial: Trial) -> Trace | None:
        """What happened in a trial, where that was kept and can be read."""
        return None if trial.trace is None else self.traces.get(trial.trace)


Measure = Callable[[Rows, Mapping[str, Any]], Measured]  # with the folders that were given, by kind


def trial_findings(rows: Rows, nouns: Mapping[str, Any], measure: Measure | None) -> Iterator[Finding]:
    """Every trial that kept a trace, held against it."""
    if not any(rows.trace(trial) is not None for trial in rows.trials):
        yield opened("trials", "single trials: none has a trace that could be read, so all are taken as stated.")
        return
    yield from _worlds(rows)
    yield from _outcomes(rows)
    asked = {metric.name for metric in rows.panel.metrics}
    found = [_from_traces(rows)]
    if measure is not None:
        try:
            found.append(measure(rows, nouns))
        except TwinproofError as problem:
            yield opened("trials", f"metrics that need more than a trace: {problem}")
    for each in found:
        yield from _compared(rows, each, asked)
        yield from (opened("trials", text) for text in each.left)
    left = sorted(asked - {name for each in found for name in each.names})
    if left:
        yield opened("trials", f"{', '.join(left)} of single trials: taken as stated; nothing here measures them.")


def _worlds(rows: Rows) -> Iterator[Finding]:
    """A trial's trace is from the trial's own world."""
    kinds = {domain.name: domain.kind for domain in rows.panel.domains}
    wrong = []
    for trial in rows.trials:
        trace = rows.trace(trial)
        if trace is not None and trace.domain not in (trial.domain, kinds.get(trial.domain)):
            wrong.append(f"{trial.where}: its trace is from the domain {trace.domain!r}")
    yield from _told(wrong, "")


def _outcomes(rows: Rows) -> Iterator[Finding]:
    """What a trace says about its end."""
    wrong, good, silent = [], 0, 0
    for trial in rows.trials:
        trace = rows.trace(trial)
        if trace is None:
            continue
        ended = _ended(trace)
        if ended is None:
            silent += 1
        elif ended != trial.success:
            words = ("failure", "success") if ended else ("success", "failure")
            wrong.append(f"{trial.where}: stated as a {words[0]}, its trace says {words[1]}")
        else:
            good += 1
    yield from _told(wrong, f"{good} trials ended as their traces say." if good else "")
    if silent:
        yield opened("trials", f"how {silent} trials ended: their traces do not say it.")


def _ended(trace: Trace) -> bool | None:
    """Whether a trace says that it succeeded; None where it says neither."""
    if "succeeded" in trace.notes:
        return True
    return False if any(n == "did not succeed" or n.startswith("failed: ") for n in trace.notes) else None


def _from_traces(rows: Rows) -> Measured:
    """The metrics that a trace alone tells."""
    values: dict[int, dict[str, float]] = {}
    for k, trial in enumerate(rows.trials):
        trace = rows.trace(trial)
        if trace is not None:
            begin, end = trace.span_s
            values[k] = {"time_s": end - begin}
            error = trace.signals.get("error")
            if error is not None and (error.missing is None or not error.missing[-1].any()):
                values[k]["final_error"] = float(error.value[-1, 0])
    told = any("final_error" in found for found in values.values())
    return Measured(("time_s", "final_error") if told else ("time_s",), values)


def _compared(rows: Rows, found: Measured, asked: set[str]) -> Iterator[Finding]:
    """Stated metrics against measured ones: a difference, one that is left out, and one that nobody could measure."""
    names = [name for name in found.names if name in asked]
    wrong, good = [], 0
    for k, known in found.values.items():
        trial = rows.trials[k]
        for name in names:
            stated, anew = trial.metrics.get(name), known.get(name)
            if stated is None and anew is None:
                continue
            if stated is None or anew is None or not math.isclose(stated, anew, rel_tol=CLOSE, abs_tol=1e-9):
                said = ["nothing" if value is None else f"{value:.6g}" for value in (stated, anew)]
                wrong.append(f"{trial.where}: {name} is stated as {said[0]}; computed anew it is {said[1]}")
            else:
                good += 1
    text = f"{good} numbers of single trials ({', '.join(names)}), computed anew from traces, are those stated."
    yield from _told(wrong, text if good else "")


def _told(wrong: Sequence[str], right: str) -> Iterator[Finding]:
    """The first breaks one by one and the count of the rest, or what holds."""
    yield from (broken("trials", f"{text}.") for text in wrong[:SHOWN])
    if len(wrong) > SHOWN:
        yield broken("trials", f"and {len(wrong) - SHOWN} more like these.")
    if right and not wrong:
        yield confirmed("trials", right)
