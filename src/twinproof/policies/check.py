"""One logged episode through a policy, before anything moves: what it would have done against what was done.

Units, signs, order and offsets that were mapped wrongly show here as numbers and as sentences, and so does a policy
that is too slow for its rate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.actor import Actor
from twinproof.nouns.errors import PolicyError
from twinproof.nouns.hashing import Json
from twinproof.nouns.policy import Channel, Contract
from twinproof.nouns.progress import Progress, quiet
from twinproof.policies.logged import Logged
from twinproof.policies.sight import limits_of
from twinproof.policies.timing import Timed, Timing

if TYPE_CHECKING:
    from jaxtyping import Float

DEGREES = 180 / np.pi
ENOUGH = 8  # predictions that a sentence on one action rests on
STILL, FROZEN = 1e-3, 1e-6  # shares of its range: less than this a logged or a predicted action does not move


@dataclass(frozen=True)
class Agreement:
    """One action, predicted against logged. `hold_rmse` is what repeating the last logged action would miss by."""

    action: str
    unit: str
    rmse: float
    bias: float
    worst: float
    share: float  # rmse as a share of the action's range
    hold_rmse: float
    correlation: float | None  # None where one of the two stands still
    beyond_limits: int


@dataclass(frozen=True, eq=False)
class Checked:
    """What came out: chunks (P, chunk, A) asked at `asked` (ticks), beside the logged actions."""

    contract: Contract
    episode: str
    time_s: Float[np.ndarray, "T"]
    logged: Float[np.ndarray, "T A"]
    asked: np.ndarray
    chunks: Float[np.ndarray, "P H A"]
    agreement: tuple[Agreement, ...]
    answers_s: tuple[float, ...]  # how long each answer took
    problems: tuple[str, ...]  # in sentences
    failed: str  # the error that ended the check, or ""
    sources: tuple[str, ...]

    @property
    def timing(self) -> Timing | None:
        """How fast answers came; None where none did."""
        return Timing.of(list(self.answers_s)) if self.answers_s else None

    def table(self) -> dict[str, Json]:
        """Everything but the arrays' pictures, as JSON."""
        return {
            "episode": self.episode,
            "sources": list(self.sources),
            "rate_hz": self.contract.rate_hz,
            "chunk": self.contract.chunk,
            "asked": len(self.asked),
            "actions": [asdict(each) for each in self.agreement],
            "latency_s": asdict(self.timing) if self.timing else None,
            "answers_s": list(self.answers_s),  # what chunks.Latency takes
            "problems": list(self.problems),
            "failed": self.failed,
            "time_s": self.time_s.round(6).tolist(),
            "logged": self.logged.tolist(),
            "asked_at": self.asked.tolist(),
            "predicted": self.chunks.tolist(),
        }


def check(actor: Actor, log: Logged, every: int | None = None, progress: Progress = quiet) -> Checked:
    """Asks once a chunk, or at every so many ticks, and compares each chunk with what was done in its time.

    A policy that fails is a result: what it said until then, and its error.
    """
    contract, timed = actor.contract, Timed(actor)
    step = contract.chunk if every is None else every
    if step < 1:
        raise PolicyError(f"a policy is to be asked at every {step} ticks. Give 1 or more.")
    ticks, chunks, failed = np.arange(0, len(log.time_s), step), list[np.ndarray](), ""
    try:
        timed.reset(1, 0)
        for done, seen in enumerate(log.observations(ticks)):
            chunks.append(timed.act(seen)[0])
            progress(done + 1, f"tick {ticks[done]}", len(ticks))
    except PolicyError as problem:
        failed = str(problem)
    shape = (contract.chunk, len(contract.actions))
    given = np.array(chunks).reshape(-1, *shape)
    asked = ticks[: len(given)]
    agreement = tuple(_agreement(contract, log, asked, given)) if len(given) else ()
    found = Checked(
        contract,
        log.episode,
        log.time_s,
        log.actions,
        asked,
        given,
        agreement,
        tuple(timed.latency_s),
        (),
        failed,
        log.told,
    )
    problems = [*suspicions(contract, log, asked, given), *_slow(contract, found.timing, step)]
    return replace(found, problems=tuple(problems))


def pairs(log: Logged, asked: np.ndarray, chunks: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Predicted and logged actions of the same ticks, (M, A) each, and the logged ones before each question."""
    when = asked[:, None] + np.arange(chunks.shape[1])
    inside = when < len(log.time_s)
    before = np.repeat(log.actions[np.maximum(asked - 1, 0)][:, None], chunks.shape[1], axis=1)
    return chunks[inside], log.actions[when[inside]], before[inside]


def _agreement(contract: Contract, log: Logged, asked: np.ndarray, chunks: np.ndarray) -> Iterator[Agreement]:
    predicted, logged, before = pairs(log, asked, chunks)
    outside, span = _outside(contract, chunks), np.subtract(*limits_of(contract)[::-1])
    for k, action in enumerate(contract.actions):
        off = predicted[:, k] - logged[:, k]
        yield Agreement(
            action.name,
            action.unit,
            _rms(off),
            float(off.mean()),
            float(np.abs(off).max()),
            _rms(off) / float(span[k]),
            _rms(before[:, k] - logged[:, k]),
            _correlation(predicted[:, k], logged[:, k], float(span[k])),
            int(outside[k]),
        )


def _outside(contract: Contract, chunks: np.ndarray) -> np.ndarray:
    """How many predictions of each action are beyond its limits."""
    low, high = limits_of(contract)
    count: np.ndarray = ((chunks < low - 1e-9) | (chunks > high + 1e-9)).sum(axis=(0, 1))
    return count


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def _correlation(predicted: np.ndarray, logged: np.ndarray, span: float) -> float | None:
    """Of predicted and logged; None where one of the two stands still."""
    if predicted.std() < FROZEN * span or logged.std() < STILL * span or len(logged) < ENOUGH:
        return None
    return float(np.corrcoef(predicted, logged)[0, 1])


def suspicions(contract: Contract, log: Logged, asked: np.ndarray, chunks: np.ndarray) -> list[str]:
    """What looks like a mistake in units, sign, order, offset or limits, in sentences."""
    if not len(chunks):
        return []
    predicted, logged, _ = pairs(log, asked, chunks)
    outside, spans = _outside(contract, chunks), np.subtract(*limits_of(contract)[::-1])
    told = []
    for k, action in enumerate(contract.actions):
        if outside[k]:
            told.append(f"{action.name}: {outside[k]} of {chunks[..., k].size} predictions are beyond the limits.")
        here = _correlation(predicted[:, k], logged[:, k], float(spans[k]))
        if here is None:
            continue
        told += _misfit(action, predicted[:, k], logged[:, k], here, float(spans[k]))
        others = [_correlation(predicted[:, k], row, float(spans[k])) or 0.0 for row in logged.T]
        best = int(np.argmax(others))
        if best != k and others[best] > 0.9 and here < 0.5:
            told.append(f"{action.name}: moves like the logged {contract.actions[best].name!r}. Another order?")
    return told


def _misfit(action: Channel, predicted: np.ndarray, logged: np.ndarray, here: float, span: float) -> Iterator[str]:
    """Sign, scale and offset of one action whose correlation with the log is known."""
    slope, apart = float(np.polyfit(logged, predicted, 1)[0]), float(predicted.mean() - logged.mean())
    if here < -0.5:
        yield f"{action.name}: moves against the log (correlation {here:.2f}). Is its sign turned?"
    elif here > 0.8 and not 0.2 < slope < 5:
        unit = " Degrees for radians?" if 0.5 < slope / DEGREES < 2 or 0.5 < slope * DEGREES < 2 else ""
        yield f"{action.name}: moves with the log, {slope:.3g} times as far.{unit}"
    elif here > 0.8 and abs(apart) > max(0.1 * span, 3 * float((predicted - logged).std())):
        yield f"{action.name}: moves with the log, {apart:+.3g} {action.unit} apart. An offset?"


def _slow(contract: Contract, timing: Timing | None, step: int) -> list[str]:
    """Whether answers come later than the next question."""
    budget_s = step / contract.rate_hz
    if timing is None or timing.p95_s <= budget_s:
        return []
    return [
        f"latency: 95 % of the answers come within {timing.p95_s * 1e3:.0f} ms; asked at every {step} ticks of "
        f"{contract.rate_hz:g} Hz there are {budget_s * 1e3:.0f} ms. The robot would wait, or play old actions."
    ]
