"""What came of a transfer study: success of every variant, who beats whom over seeds and why, how the twin ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from twinproof.nouns.errors import ConfigError
from twinproof.nouns.files import read_json
from twinproof.nouns.randomization import Randomization
from twinproof.study_plan import WRONG, Plan, said, stated, told

LEVEL = 0.9
SMALL = 0.05  # a share of success below which a drop is called small
LEARNED = 0.8  # of its own worlds: a policy below has not learned them
BESTS = {"posterior": "the posterior's ranges", "posterior_error": "the posterior's ranges with its model error"}
RIVALS = (
    "point",
    "wide",
    "nominal",
    "stated",
    "wide_identified",
    "mild",
    "strong",
    "posterior",
)  # what the posterior's ranges, and these with its model error, are held against

OWN = "own worlds"

ALONE = "Not tested: nothing stands beside the posterior's ranges in this study."

Interval = tuple[float, float, float]  # mean, low, high


@dataclass(frozen=True)
class Row:
    """One variant: the success of each of its units in each domain. Units are seeds, or robots in a pool of studies."""

    variant: str
    rates: dict[str, tuple[float, ...]]  # domain -> unit -> share
    unit: str = "seed"

    @property
    def units(self) -> int:
        """How many policies it has, or how many robots."""
        return len(next(iter(self.rates.values()), ()))

    @property
    def success(self) -> dict[str, Interval]:
        """Domain -> mean over units with a 90 % interval in which they are independent, inside 0 to 1."""
        found = {}
        for domain, rates in self.rates.items():
            mean, low, high = over_units(rates)
            found[domain] = (mean, max(0.0, low), min(1.0, high))
        return found


def table(plan: Plan, trials: Path, own: Mapping[str, Sequence[float]] | None = None) -> tuple[Row, ...]:
    """What came of every variant; `own` is the success of its seeds in worlds as they were trained in."""
    counts = summary_of(trials)["success"]
    rows = []
    for name in plan.variants:
        rates: dict[str, list[float]] = {} if own is None else {OWN: list(own[name])}
        for k in range(plan.seeds):
            for domain, rate in counts[f"{name}_{k}"].items():
                rates.setdefault(domain, []).append(rate["successes"] / rate["trials"])
        rows.append(Row(name, {domain: tuple(values) for domain, values in rates.items()}))
    return tuple(rows)


def summary_of(trials: Path) -> dict[str, Any]:
    """The figures of the trials that the policies sat."""
    return read_json(trials / "summary.json", "twinproof/trials-summary/1", ConfigError)


def over_units(values: Sequence[float]) -> Interval:
    """The mean with Student's 90 % interval; one unit knows nothing of its spread."""
    from scipy.stats import t

    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, -np.inf, np.inf
    half = float(t.ppf((1 + LEVEL) / 2, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values)))
    return mean, mean - half, mean + half


def beyond(better: Row, other: Row, domain: str) -> Interval:
    """How much more often one variant succeeds than another: units are paired, as each begins and is tried alike."""
    pairs = zip(better.rates[domain], other.rates[domain], strict=True)
    return over_units([one - two for one, two in pairs])


def verdicts(rows: Sequence[Row]) -> list[str]:
    """The verdict, with and without reconstruction where both were asked for, and what reconstruction is worth."""
    endings = sorted({row.variant.partition("-")[2] for row in rows})
    tails = [f"-{ending}" if ending else "" for ending in endings]
    more = [tail for tail in tails if any(row.variant == f"posterior_error{tail}" for row in rows)]
    found = [said for tail in tails if (said := verdict(rows, ending=tail)) != ALONE or tail not in more]
    found += [verdict(rows, ending=tail, best="posterior_error") for tail in more]
    by_name = {row.variant: row for row in rows}
    for name in [name.removesuffix("-on") for name in by_name if name.endswith("-on")]:
        one, other = by_name[f"{name}-on"], by_name.get(f"{name}-off")
        if other is not None and "real" in one.rates:
            worth = _points(*beyond(one, other, "real"))
            found.append(f"Zeros of encoders from pictures are worth to {name} in reality, in points: {worth}.")
    return found


def verdict(rows: Sequence[Row], domain: str = "real", ending: str = "", best: str = "posterior") -> str:
    """Whether ranges of the posterior beat the others, decided by paired differences over units, in plain sentences."""
    by_name = {row.variant.removesuffix(ending): row for row in rows if row.variant.endswith(ending)}
    mine = by_name.get(best)
    if mine is None or domain not in mine.rates:
        return "Not tested: the posterior's ranges, or reality, are not in this study."
    beaten, level, behind = list[str](), list[str](), list[str]()
    for other in (by_name[name] for name in RIVALS if name in by_name and name != best):
        mean, low, high = beyond(mine, other, domain)
        kind = beaten if low > 0 else behind if high < 0 else level
        kind.append(f"{other.variant} ({_points(mean, low, high)})")
    found = [f"beat {', '.join(beaten)}"] if beaten else []
    found += [f"fall behind {', '.join(behind)}"] if behind else []
    units = f"{mine.units} {mine.unit}{'s' * (mine.units > 1)}"
    found += [f"show no difference from {', '.join(level)} that {units} could tell"] if level else []
    if not found:
        return ALONE
    where = {"": "", "-on": " with zeros from pictures", "-off": " without zeros from pictures"}[ending]
    return (
        f"In reality{where} {BESTS[best]} {'; '.join(found)}. Paired differences in points, {LEVEL:.0%} over "
        f"{mine.unit}s."
    )


def gap_lines(rows: Sequence[Row]) -> list[str]:
    """The gap analysis in Markdown: what one wrong thing costs and what each remedy wins back, in points of success."""
    by_name = {row.variant: row for row in rows}
    wrong = [what for what in WRONG if f"wrong_{what}" in by_name]
    point, both = by_name.get("point"), by_name.get("posterior")
    if not wrong or point is None or "real" not in point.rates:
        return []
    found = [
        "| wrong in training | own worlds to reality | costs in the twin | costs in reality | "
        "randomisation wins back | identification | both |",
        "|---|---|---|---|---|---|---|",
    ]
    for what in wrong:
        bad, drawn = by_name[f"wrong_{what}"], by_name.get(f"wrong_{what}_wide")
        fall = [real - own for real, own in zip(bad.rates["real"], bad.rates.get(OWN, ()), strict=False)]
        cells = [
            _cell(over_units(fall) if fall else None),
            _cell(beyond(bad, point, "twin") if "twin" in bad.rates else None),
            _cell(beyond(bad, point, "real")),
            *(_cell(beyond(cure, bad, "real") if cure else None) for cure in (drawn, point, both)),
        ]
        found.append(f"| {what} | {' | '.join(cells)} |")
    return found


def _cell(found: Interval | None) -> str:
    return "not run" if found is None else _points(*found)


def _points(mean: float, low: float, high: float) -> str:
    ends = "one alone" if not np.isfinite(low) else f"{100 * low:+.0f} to {100 * high:+.0f}"
    return f"{100 * mean:+.0f}, {ends}"


def reasons(rows: Sequence[Row], width: float | None = None) -> list[str]:
    """Why the posterior's ranges win or do not, as far as the numbers say: one sentence for each thing they show.

    `width` is what the posterior's ranges are wide, as a share of hand-set ones.
    """
    by_name = {row.variant.removesuffix("-on"): row for row in rows}
    best, point, wide = (by_name.get(name) for name in ("posterior", "point", "wide"))
    if best is None or "real" not in best.rates:
        return []
    found = []
    own, drawn = _mean(best, OWN), _mean(best, "draws")
    if own is not None and own < LEARNED:
        found.append(
            f"Policies of the posterior succeed in {own:.0%} of worlds as they were trained in: they have not learned "
            "all of them, so that training decides here beside ranges."
        )
    if own is not None and drawn is not None and own - drawn > SMALL:
        found.append(
            f"The panel's conditions are harder than those of training: they cost {100 * (own - drawn):.0f} points in "
            "draws of the posterior already, which ranges of dynamics cannot win back."
        )
    if width is not None:
        found.append(f"The posterior's ranges are {width:.0%} as wide as those set by hand (median over parameters).")
    if point is not None:
        found += _of_point(best, point)
    if wide is not None and point is not None and "twin" in point.rates:
        at, reached = _mean(point, "twin"), _mean(wide, "twin")
        if at is not None and reached is not None:
            lacks = at - reached > SMALL
            found.append(
                f"In the identified twin wide ranges about the nominal reach {reached:.0%}, the point {at:.0%}: "
                + (
                    "hand-set ranges do not do for it."
                    if lacks
                    else "hand-set ranges do for it, narrower ones win little."
                )
            )
    return found


def _of_point(best: Row, point: Row) -> list[str]:
    """What drawing could win back from the point: what its policies lose over draws; the rest is outside the ranges."""
    at, drawn, real = (_mean(point, domain) for domain in ("twin", "draws", "real"))
    mine, mine_real = _mean(best, "draws"), _mean(best, "real")
    if at is None or drawn is None or real is None or mine is None or mine_real is None:
        return []
    if at < SMALL:
        return [
            f"Policies of the point succeed in {at:.0%} at the point itself: what ranges could win back is not told."
        ]
    lost, outside = at - drawn, drawn - real
    found = [
        f"Policies of the point succeed in {at:.0%} at the point and {drawn:.0%} over draws of the posterior: "
        + (
            "what stays uncertain costs them little, so there is little for ranges to win back."
            if lost < SMALL
            else f"what stays uncertain costs them {100 * lost:.0f} points, which ranges could win back."
        )
    ]
    if outside > SMALL and mine - mine_real > SMALL:
        found.append(
            f"Both lose in reality what draws of the posterior do not show ({100 * outside:.0f} points of point, "
            f"{100 * (mine - mine_real):.0f} of posterior): that lies outside of what was identified."
        )
    return found


def _mean(row: Row, domain: str) -> float | None:
    return float(np.mean(row.rates[domain])) if domain in row.rates else None


def relative_width(plan: Plan) -> float | None:
    """How wide the posterior's ranges are as a share of the hand-set ones: the median over inferred parameters, each on
    its own scale."""
    from twinproof.nouns.twin import Twin
    from twinproof.randomize.hand_set import hand_set
    from twinproof.sim.scene import Scene

    base = Randomization.load(plan.run / "randomization")
    inferred = [entry for entry in base.ranges if told(entry) and not stated(base, entry)]
    wide = hand_set([entry.parameter for entry in inferred], Scene.of(Twin.load(plan.run / "twin")).nominal())
    shares = [
        float(np.diff(mine.parameter.to_scale(np.array([mine.low, mine.high])))[0]) / by_hand
        for mine, theirs in zip(inferred, wide, strict=True)
        if (by_hand := float(np.diff(theirs.parameter.to_scale(np.array([theirs.low, theirs.high])))[0])) > 0
    ]
    return float(np.median(shares)) if shares else None


def lines(rows: Sequence[Row]) -> list[str]:
    """The table of success in Markdown."""
    domains = list(rows[0].rates)
    found = [f"| variant | what it is | {rows[0].unit}s | {' | '.join(domains)} |"]
    found.append("|---|---|---|" + "---|" * len(domains))
    for row in rows:
        success = row.success
        cells = [f"{100 * success[d][0]:.0f} % ({100 * success[d][1]:.0f}–{100 * success[d][2]:.0f})" for d in domains]
        found.append(f"| {row.variant} | {said(row.variant)} | {row.units} | {' | '.join(cells)} |")
    return found


def ranks(summary: Mapping[str, Any]) -> list[str]:
    """How the twin ranks policies beside reality, in Markdown: r and MMRV with intervals, and a perfect twin's."""
    agreement = summary.get("agreement") or {}
    if not agreement:
        return []
    found = [
        "| ranked in | policies | r (95 %) | a perfect twin's r | MMRV (95 %) | a perfect twin's MMRV |",
        "|---|---|---|---|---|---|",
    ]
    for domain, each in agreement.items():
        r, wrong, ceiling = each["pearson"], each["mmrv"], each["ceiling"]
        value = "one side does not vary" if r is None else f"{r['value']:.2f} ({r['low']:.2f} to {r['high']:.2f})"
        best, most = ceiling["pearson"], ceiling["mmrv"]
        found.append(
            f"| {domain} | {each['policies']} | {value} | {best[1]:.2f} ({best[0]:.2f} to {best[2]:.2f}) | "
            f"{wrong['value']:.3f} ({wrong['low']:.3f} to {wrong['high']:.3f}) | {most[0]:.3f}, below {most[1]:.3f} |"
        )
    return found
