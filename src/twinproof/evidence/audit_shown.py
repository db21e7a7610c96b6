"""What the report shows of the folders that evidence stands on, computed anew where they are given, and named as open
where they are not: nothing that stands on the page is passed over."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twinproof.evidence.figures import same
from twinproof.evidence.findings import Finding, Held, broken, confirmed, opened
from twinproof.evidence.gather import COVERAGE, curve_of
from twinproof.evidence.model_inputs import coverage_of, policy_of, posterior_of, ranges_of, twin_of
from twinproof.evidence.model_summary import curves_of, summary_of
from twinproof.nouns.errors import EvidenceError, TwinproofError
from twinproof.nouns.evidence import PICTURES
from twinproof.nouns.files import read_json
from twinproof.nouns.hashing import Json
from twinproof.nouns.panel import Panel
from twinproof.nouns.trial import Trial

PARTS = ("robot", "twin", "posterior", "ranges", "coverage", "training", "policies", "pictures", "summary")
NEEDED = {"robot": "recording", "twin": "twin", "posterior": "posterior", "coverage": "randomization"}
STATED = ("decomposition", "replay", "recorded_in", "notes")  # of the summary: evaluate computed them beside the trials
Agree = Callable[
    [Panel, Sequence[Trial], Json], Json
]  # how policies rank in twin and reality, where the last is stated


@dataclass(frozen=True)
class Given:
    """The folders that were given and are the right ones, by the names that the evidence has for them."""

    nouns: dict[str, Any] = field(default_factory=dict)
    places: dict[str, Path] = field(default_factory=dict)


@dataclass(frozen=True)
class Part:
    """A part of the report as it stands there, and as the folders say it."""

    name: str
    stated: Any
    anew: Any


def recorded_in(folder: Path) -> dict[str, dict[str, str]]:
    """The hashes of the scenes in which recordings were replayed, as the report states them; empty where none was."""
    try:
        told = json.loads((folder / "report.json").read_bytes())["inputs"]["summary"].get("recorded_in")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}  # what is wrong with the report is said where it is looked at
    return told if isinstance(told, dict) else {}


def shown_findings(
    folder: Path, head: Held, given: Given, trials: tuple[Panel, Sequence[Trial]] | None, agree: Agree | None
) -> Iterator[Finding]:
    """Every part of report.json's inputs: as the folders have it, otherwise, or open."""
    try:
        told = Held(json.loads((folder / "report.json").read_bytes())["inputs"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return  # said already where the report was looked at
    policies = [name.removeprefix("policy/") for name in head.table("inputs") if name.startswith("policy/")]
    yield from _strangers(told, policies)
    yield from _decided(head, told)
    try:
        parts = [*_of_folders(told, given), *_of_policies(told, given, policies)]
    except TwinproofError as problem:
        yield broken("report", f"what the report shows cannot be computed from the folders: {problem}")
        return
    parts.append(Part("pictures", told.data.get("pictures"), sorted(p.name for p in folder.glob(f"{PICTURES}/*"))))
    wrong = [part.name for part in parts if not same(part.anew, part.stated)]
    for name in wrong:
        yield broken("report", f"report.json: what it shows of the {name} is not what the folder holds.")
    if not wrong:
        yield confirmed(
            "report", f"report.json: {', '.join(part.name for part in parts)} are as the folders have them."
        )
    yield from _ranks(told, trials, agree)
    yield from _open(folder, told, given, {part.name for part in parts}, policies)


def _strangers(told: Held, policies: Sequence[str]) -> Iterator[Finding]:
    """Parts and policies that the evidence knows nothing of."""
    for name in sorted(set(told.data) - set(PARTS)):
        yield broken("report", f"report.json: {name!r} has no place among its inputs.")
    for part in ("training", "policies"):
        for name in sorted(set(told.table(part)) - set(policies)):
            yield broken("report", f"report.json: its {part} tell of {name!r}, which is no policy of the evidence.")


def _decided(head: Held, told: Held) -> Iterator[Finding]:
    """The coverage that is shown is the one that the claim stands on."""
    stated, shown = head.table("figures").get("before", {}).get("coverage on validation"), told.table("coverage")
    low, high = shown.get("interval") or (None, None)
    names = ("value", "low", "high")
    numbers = dict(zip(names, (shown.get("covered"), low, high), strict=True))
    if any(not same((stated or {}).get(name), number) for name, number in numbers.items()):
        yield broken("report", "report.json: the coverage is not the one that the claim 'the ranges cover' stands on.")


def _of_folders(told: Held, given: Given) -> Iterator[Part]:
    nouns, shown = given.nouns, told.data
    if "recording" in nouns:
        yield Part("robot", shown.get("robot"), nouns["recording"].rig.robot)
    if "twin" in nouns:
        yield Part("twin", shown.get("twin"), twin_of(nouns["twin"]))
    if "posterior" in nouns:
        yield Part("posterior", shown.get("posterior"), posterior_of(nouns["posterior"]))
    if {"posterior", "randomization"} <= set(nouns):
        yield Part("ranges", shown.get("ranges"), ranges_of(nouns["randomization"], nouns["posterior"]))
    if "randomization" in nouns:
        path = given.places["randomization"] / "coverage.json"
        found = coverage_of(read_json(path, COVERAGE, EvidenceError)) if path.is_file() else None
        yield Part("coverage", shown.get("coverage"), found)
    if "trials" in nouns:
        yield Part("summary", shown.get("summary"), summary_of(nouns["trials"].summary))


def _of_policies(told: Held, given: Given, policies: Sequence[str]) -> Iterator[Part]:
    for name in policies:
        if f"policy/{name}" in given.nouns:
            policy, place = given.nouns[f"policy/{name}"], given.places[f"policy/{name}"]
            yield Part(f"policy {name}", told.table("policies").get(name), policy_of(policy))
            yield Part(f"training of {name}", told.table("training").get(name, []), curves_of(curve_of(place)))


def _ranks(told: Held, trials: tuple[Panel, Sequence[Trial]] | None, agree: Agree | None) -> Iterator[Finding]:
    """r and MMRV, which follow from the trials alone."""
    stated = told.table("summary").get("agreement")
    if trials is None or agree is None:
        if stated:
            yield opened("report", "how policies rank in twin and reality: taken as stated; it was not computed anew.")
        return
    if not same(agree(*trials, stated), stated):
        yield broken(
            "report", "report.json: how policies rank in twin and reality does not follow from trials.parquet."
        )
    elif stated:
        text = "r, MMRV and their intervals, computed anew from trials.parquet, are those stated"
        yield confirmed("report", f"report.json: {text}.")


def _open(folder: Path, told: Held, given: Given, compared: set[str], policies: Sequence[str]) -> Iterator[Finding]:
    """What the report shows and nothing here could confirm."""
    shown = {**NEEDED, "ranges": "randomization and posterior"}
    left = [f"the {name} ({needs})" for name, needs in shown.items() if name not in compared and told.data.get(name)]
    for name in (name for name in policies if f"policy/{name}" not in given.nouns):
        left += [f"the policy {name} and its training (policy/{name})"]
    summary = told.table("summary")
    parts = [name for name in STATED if summary.get(name)]
    if parts and "summary" not in compared:
        left.append(f"{', '.join(parts)} of the summary (trials)")
    if left:
        yield opened("report", f"what the report shows of {'; '.join(left)}: taken as stated without these folders.")
    if "summary" in compared and (measured := [name for name in parts if name != "notes"]):
        text = f"{' and '.join(measured)}: as the trials' folder has them"
        yield opened("report", f"{text}; evaluate computed them, and this audit did not.")
    if any(name.startswith("training of") for name in compared):
        yield opened(
            "report", "curves of training: as metrics.jsonl beside the policies has them; no hash holds that file."
        )
    if any(folder.glob(f"{PICTURES}/*")) or (folder / "scene.html").is_file():
        yield opened("report", "what pictures and the scene show: they are hashed, and were not drawn anew.")
