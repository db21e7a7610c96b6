"""Whether ranges cover validation: figures by signal and parameter, misses by name, and which episodes judged.

coverage.json lies beside randomization.json. `covered` is the share of readings inside the bands, on `episodes` alone;
where ranges were widened, `episodes` are those that did not widen them, and `before` is what they gave before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import bdtrc, ndtri

from twinproof.nouns.belief import Discrepancy
from twinproof.nouns.files import write_json
from twinproof.nouns.hashing import Json
from twinproof.nouns.strict import plain
from twinproof.randomize.against import ODDS, SUSPECTED, Against, Told
from twinproof.sim.predictive import LEVEL, Bands, Prediction, coverage_rows, interval_score

FORMAT = "twinproof/coverage/1"
LENIENT = 0.05  # bands of 90 % that surely cover less than 85 % miss


@dataclass(frozen=True)
class Share:
    """A share of readings inside their bands, with a 95 % interval: windows are the units, not readings."""

    covered: float
    low: float
    high: float
    windows: int


@dataclass(frozen=True)
class SignalCover:
    """How the bands of one signal cover it, over all horizons."""

    signal: str
    unit: str
    share: Share
    interval_score: float
    missed: bool


@dataclass(frozen=True)
class ParameterCheck:
    """What validation says of one range."""

    id: str
    missed: bool
    sentence: str
    told: Told | None = None


@dataclass(frozen=True)
class Judgement:
    """Some episodes against some ranges."""

    episodes: tuple[str, ...]
    whole: Share
    alone: float  # the share that the spread of the parameters alone covers
    signals: tuple[SignalCover, ...]
    parameters: tuple[ParameterCheck, ...]
    rows: tuple[Json, ...]

    @property
    def misses(self) -> tuple[str, ...]:
        """What is missed, in sentences."""
        missed = [_signal_sentence(each) for each in self.signals if each.missed]
        return (*missed, *(each.sentence for each in self.parameters if each.missed))


@dataclass(frozen=True)
class Coverage:
    """The result of the range-miss test, and all that it stands on."""

    randomization: str
    posterior: str
    split: str
    judged: Judgement
    widened_on: tuple[str, ...] = ()
    widened: tuple[str, ...] = ()  # what was widened, in sentences
    before: Judgement | None = None  # the same episodes before anything was widened
    notes: tuple[str, ...] = ()

    @property
    def half(self) -> str:
        """Who judged."""
        if self.widened_on:
            return f"the validation episodes that widened nothing ({len(self.judged.episodes)})"
        return f"all validation episodes ({len(self.judged.episodes)})"

    def save(self, folder: Path) -> None:
        """Writes coverage.json into the randomisation's folder."""
        write_json(folder / "coverage.json", self.plain())

    def plain(self) -> dict[str, Json]:
        """As JSON; `covered`, `interval` and `episodes` are what the claim is judged by."""
        whole, before = self.judged.whole, self.before
        return {
            "format": FORMAT,
            **{name: getattr(self, name) for name in ("randomization", "posterior", "split")},
            "level": LEVEL,
            "covered": round(whole.covered, 4),
            "interval": [round(whole.low, 4), round(whole.high, 4)],
            "covered_by_parameters_alone": round(self.judged.alone, 4),
            "episodes": list(self.judged.episodes),
            "judged_on": self.half,
            "widened_on": list(self.widened_on),
            "widened": list(self.widened),
            "before": None
            if before is None
            else {"covered": round(before.whole.covered, 4), "misses": list(before.misses)},
            "misses": list(self.judged.misses),
            "signals": [plain(each) for each in self.judged.signals],
            "parameters": [plain(each) for each in self.judged.parameters],
            "by_signal": list(self.judged.rows),
            "notes": list(self.notes),
        }


def judge(
    against: Against, more: Sequence[ParameterCheck] = (), model_error: Sequence[Discrepancy] | None = None
) -> Judgement:
    """The figures of some episodes; `more` are checks of ranges that no simulation tests."""
    told, made = against.prediction, against.bands(model_error)
    horizons_s = tuple(sorted({h for each in against.randomization.discrepancy for h in each.horizon_s})) or (0.5,)
    signals = tuple(_signal(told, made, i) for i in range(len(told.shooting.entries)))
    missed = {each.id for each in against.missed(SUSPECTED if any(each.missed for each in signals) else ODDS)}
    checks = [ParameterCheck(each.id, each.id in missed, _told_sentence(against, each), each) for each in against.told]
    seen = told.seen
    alone = float(np.mean(np.abs(told.gap[seen]) <= made.alone[seen])) if seen.any() else 0.0
    rows = tuple(coverage_rows(told, made, horizons_s))
    return Judgement(against.episodes, _share(told, made, seen), alone, signals, (*checks, *more), rows)


def _signal(told: Prediction, made: Bands, i: int) -> SignalCover:
    mine = (told.shooting.entry == i) & told.seen
    share = _share(told, made, mine)
    score = float(np.mean(interval_score(told.gap[mine], made.half[mine]))) if mine.any() else 0.0
    missed = bool(mine.any() and share.high < LEVEL - LENIENT)
    return SignalCover(told.shooting.entries[i], told.shooting.units[i], share, float(f"{score:.5g}"), missed)


def _share(told: Prediction, made: Bands, mine: np.ndarray) -> Share:
    """Readings of a window hang together: the interval is Wilson's for as many as the windows' scatter is worth."""
    if not mine.any():
        return Share(0.0, 0.0, 1.0, 0)
    inside = (np.abs(told.gap) <= made.half)[mine].astype(float)
    window = told.shooting.window[mine]
    counts = np.bincount(window)
    per = np.bincount(window, inside)[counts > 0]
    counts = counts[counts > 0]
    p, n = float(inside.mean()), len(counts)
    variance = float(np.sum((per - p * counts) ** 2)) / counts.sum() ** 2 * n / max(n - 1, 1)
    worth = min(max(p * (1 - p) / variance, 1.0), float(len(inside))) if variance > 0 else float(n)
    z = float(ndtri(0.975))
    middle, half = p + z * z / 2 / worth, z * np.sqrt(p * (1 - p) / worth + (z / 2 / worth) ** 2)
    scale = 1 + z * z / worth
    return Share(p, float(max((middle - half) / scale, 0.0)), float(min((middle + half) / scale, 1.0)), n)


def _signal_sentence(each: SignalCover) -> str:
    return (
        f"{each.signal}: bands of {LEVEL:.0%} cover {each.share.covered:.0%} of its readings (95 % interval "
        f"{each.share.low:.0%} to {each.share.high:.0%}, {each.share.windows} windows)"
    )


def _told_sentence(against: Against, each: Told) -> str:
    entry, unit = against.randomization.range(each.id), against.randomization.range(each.id).parameter.unit
    if each.pull == 0.0:
        return f"{each.id}: validation says nothing about it"
    where = "outside" if each.value > entry.high or each.value < entry.low else "inside"
    return (
        f"{each.id}: validation points to {each.value:.4g} ({each.low:.4g} to {each.high:.4g}) {unit}, {where} "
        f"the range {entry.low:.4g} to {entry.high:.4g}, pulled by {abs(each.pull):.1f} sd"
    )


def check_measured(against: Against, seen: Mapping[str, Sequence[float]]) -> list[ParameterCheck]:
    """Ranges of noise and starts against the same numbers measured on validation.

    One in ten may lie outside; so many that this would happen once in fifty times are a miss. A range without width,
    such as at strength 0, says nothing that could be tested.
    """
    found: list[ParameterCheck] = []
    known = {entry.id: entry for entry in against.randomization.ranges}
    for id, values in sorted(seen.items()):
        if id in known and known[id].low < known[id].high:
            low, high = known[id].low, known[id].high
            out = [value for value in values if not low <= value <= high]
            told = f"{id}: {len(values) - len(out)} of {len(values)} validation episodes lie in {low:.4g} to {high:.4g}"
            furthest = f"; the furthest has {max(out, key=lambda x: max(low - x, x - high)):.4g}" if out else ""
            found.append(
                ParameterCheck(id, bool(out) and float(bdtrc(len(out) - 1, len(values), 0.1)) < 0.02, told + furthest)
            )
    return found
