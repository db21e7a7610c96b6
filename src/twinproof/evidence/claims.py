"""The three claims, judged by one function: the panel's criteria against numbers that are known by name.

the twin fits         "model error of SIGNAL at 0.5 s", "bands cover validation", "twin: PATH", "posterior: PATH"
the ranges cover      "coverage on validation", "coverage on validation, lower bound"
the policy transfers  "success in DOMAIN", "success of POLICY in DOMAIN", "METRIC in DOMAIN",
                      "bias of DOMAIN in points"; each also as ", lower bound" and ", upper bound"
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twinproof.nouns.evidence import Claim
from twinproof.nouns.hashing import Json
from twinproof.nouns.panel import CLAIMS, ClaimName, Criterion, Panel
from twinproof.nouns.posterior import Posterior
from twinproof.nouns.randomization import Randomization
from twinproof.nouns.twin import Twin

BOUNDS = {", lower bound": "low", ", upper bound": "high"}


@dataclass(frozen=True)
class Number:
    """A number that may decide a claim: its interval where it has one, and what it was counted on."""

    value: float
    low: float | None = None
    high: float | None = None
    of: str = ""  # "17 of 20 trials"
    domain: str = ""  # where it was measured

    @property
    def interval(self) -> tuple[float, float] | None:
        """Low and high, where both are known."""
        return None if self.low is None or self.high is None else (self.low, self.high)


def measured_before(
    twin: Twin, posterior: Posterior, randomization: Randomization, coverage: Mapping[str, Json] | None
) -> dict[str, Json]:
    """What earlier stages measured and the claims may stand on, kept with the evidence: {number: value, low, high}."""
    found: dict[str, Json] = {}
    for each in posterior.discrepancy:
        for horizon_s, sd in zip(each.horizon_s, each.sd, strict=True):
            of = f"{each.unit}, episodes predicted by the others' fit"
            found[f"model error of {each.signal} at {horizon_s:g} s"] = {"value": sd, "of": of}
    for name, tree in (("posterior", posterior.diagnostics), ("twin", twin.audits)):
        found |= {f"{name}: {path}": {"value": value} for path, value in _leaves(tree)}
    validation: Any = posterior.diagnostics.get("validation")
    if isinstance(validation, Mapping) and validation.get("covered") is not None:
        of = f"bands of level {validation.get('level')}, {_episodes(validation.get('episodes', ()))}"
        found["bands cover validation"] = {"value": validation["covered"], "of": of}
    if coverage is not None:
        low, high = coverage.get("interval") or (None, None)
        entry = {"value": coverage["covered"], "low": low, "high": high, "of": _episodes(coverage["episodes"])}
        widened = sorted(set(randomization.episodes) & set(coverage["episodes"]))
        if widened:
            entry["spoilt"] = f"{len(widened)} of the episodes that judge had widened the ranges before"
        found["coverage on validation"] = {name: value for name, value in entry.items() if value is not None}
    return found


def _episodes(ids: Sequence[str]) -> str:
    return "1 episode" if len(ids) == 1 else f"{len(ids)} episodes"


def _leaves(tree: Any, path: str = "", depth: int = 0) -> list[tuple[str, float]]:
    """Every number of a tree of tables by its path; lists are left out."""
    if isinstance(tree, Mapping) and depth < 6:
        return [
            leaf for name, item in tree.items() for leaf in _leaves(item, f"{path}.{name}" if path else name, depth + 1)
        ]
    return [(path, float(tree))] if isinstance(tree, (int, float)) and not isinstance(tree, bool) else []


def numbers_of(figures: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Number]:
    """Every number that a criterion may name."""
    found: dict[str, Number] = {}
    for row in figures["success"]:
        of = f"{row['successes']} of {row['trials']} trials"
        number = Number(row["value"], row["low"], row["high"], of, row["domain"])
        found[f"success of {row['policy']} in {row['domain']}"] = number
        if row["policy"] == figures["judged"]:
            found[f"success in {row['domain']}"] = number
    for row in figures["metrics"]:
        number = Number(row["value"], row["low"], row["high"], f"{row['count']} {row['over']}", row["domain"])
        found[f"{row['metric']} of {row['policy']} in {row['domain']}"] = number
        if row["policy"] == figures["judged"]:
            found[f"{row['metric']} in {row['domain']}"] = number
    for row in figures["bias"]:
        if row["policy"] == figures["judged"]:
            number = Number(row["value"], row["low"], row["high"], f"against {row['against']}", row["against"])
            found[f"bias of {row['domain']} in points"] = number
    for name, entry in before.items():
        found[name] = Number(entry["value"], entry.get("low"), entry.get("high"), entry.get("of", ""))
    return found


def judge(panel: Panel, figures: Mapping[str, Any], before: Mapping[str, Any], opened: bool) -> tuple[Claim, ...]:
    """The three claims. `opened` says whether the ledger has an opening of the holdout by this panel."""
    numbers = numbers_of(figures, before)
    criteria = {criterion.claim: criterion for criterion in panel.criteria}
    claims = []
    for name in CLAIMS:
        why = _untestable(name, panel, before, opened)
        criterion = criteria.get(name)
        if why or criterion is None:
            why = why or "the panel states no criterion for it"
            claims.append(Claim(name, "not tested", reason=f"{why}."))
        else:
            claims.append(_judged(criterion, numbers, panel))
    return tuple(claims)


def _untestable(name: ClaimName, panel: Panel, before: Mapping[str, Any], opened: bool) -> str:
    if name == "the policy transfers":
        if not any(domain.kind == "real" for domain in panel.domains):
            return "no robot and no logged real trials: the panel has no real domain"
        if not opened:
            return "the ledger has no opening of the holdout by this panel"
    if name == "the ranges cover":
        if "coverage on validation" not in before:
            return "the ranges were not held against validation episodes"
        return str(before["coverage on validation"].get("spoilt", ""))
    return ""


def _judged(criterion: Criterion, numbers: Mapping[str, Number], panel: Panel) -> Claim:
    text, bound = criterion.number, ""
    for ending, side in BOUNDS.items():
        if text.endswith(ending):
            text, bound = text.removesuffix(ending), side
    number = numbers.get(text)
    reason = _unusable(criterion, number, text, bound, numbers, panel)
    if reason or number is None:
        return Claim(criterion.claim, "not tested", criterion.number, threshold=criterion.threshold, reason=reason)
    alone = bool(bound) and number.interval is None
    value = getattr(number, bound) if bound and not alone else number.value
    held = value >= criterion.threshold if criterion.better == "higher" else value <= criterion.threshold
    said = f"{criterion.number} ({number.of})" if number.of else criterion.number
    wanted = "at least" if criterion.better == "higher" else "at most"
    reason = f"{wanted} {criterion.threshold:g} was stated before the first trial."
    reason += " A single value has no interval, so it decides by itself." if alone else ""
    return Claim(
        criterion.claim, "held" if held else "failed", said, float(value), number.interval, criterion.threshold, reason
    )


def _unusable(
    criterion: Criterion, number: Number | None, text: str, bound: str, numbers: Mapping[str, Number], panel: Panel
) -> str:
    if number is None:
        near = difflib.get_close_matches(text, numbers, n=2) or sorted(numbers)[:2]
        return f"the panel's number {text!r} is not among those computed; near it are {_quoted(near)}."
    if bound and number.interval is None and not number.domain:
        return f"{text!r} has no interval here, so it has no bound."
    kinds = {domain.name: domain.kind for domain in panel.domains}
    if criterion.claim == "the policy transfers" and kinds.get(number.domain) != "real":
        return f"{text!r} is not measured in reality, and transfer is judged there alone."
    return ""


def _quoted(names: Sequence[str]) -> str:
    return " and ".join(repr(name) for name in names)
