"""The audit of evidence: every file hashed again, the ledger replayed, the figures of the trials computed anew.

It reads, and changes nothing. Each finding is a plain sentence: confirmed, broken, or open (cannot be confirmed here).

evidence.json -> seal, files -> split, ledger, fits -> traces, trials -> figures, claims -> report -> folders
                                                               one after another, as far as each can be read
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from twinproof.evidence.audit_inputs import given
from twinproof.evidence.audit_ledger import history
from twinproof.evidence.audit_report import report_findings
from twinproof.evidence.audit_shown import Agree, shown_findings
from twinproof.evidence.audit_trials import Measure, Rows, trial_findings
from twinproof.evidence.claims import judge
from twinproof.evidence.figures import figures_of, same
from twinproof.evidence.findings import Audited, Finding, Held, broken, confirmed, opened
from twinproof.evidence.sign import ENVELOPE
from twinproof.nouns.errors import EvidenceError, TwinproofError
from twinproof.nouns.evidence import Evidence
from twinproof.nouns.files import inside, read_sealed
from twinproof.nouns.hashing import hash_file
from twinproof.nouns.panel import Panel
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.strict import build, plain
from twinproof.nouns.trace import Trace
from twinproof.nouns.trial import Trial, read_trials

FORMAT = "twinproof/evidence/1"
BESIDE = ("evidence.json", ENVELOPE)  # may lie in the folder without a hash in evidence.json


def audit(
    folder: Path,
    artifacts: Sequence[Path] = (),
    progress: Progress = quiet,
    measure: Measure | None = None,
    agree: Agree | None = None,
) -> Audited:
    """Findings about the evidence in a folder, and about the folders it stands on where they are given.

    `measure` computes metrics of single trials that need a simulator, `agree` how policies rank in twin and reality;
    without them these are taken as stated, and named.
    """
    if not (folder / "evidence.json").is_file():
        raise EvidenceError(f"{folder} holds no evidence.json, so there is nothing to audit. Name an Evidence folder.")
    findings: list[Finding] = []
    head = _head(folder, findings)
    if head is None:
        return Audited(tuple(findings))
    findings += _files(folder, head)
    whole = _whole(folder, findings)
    findings += history(head)
    trials = _trials(folder, findings)
    panel = _panel(head, trials, findings)
    traces = dict[str, Trace]()
    findings += _traces(folder, trials, traces, progress)
    inputs, found = given(head, artifacts)
    if panel is not None and trials:
        findings += trial_findings(Rows(panel, trials, traces), found.nouns, measure)
        findings += _figures(head, panel, trials)
    findings += report_findings(folder, whole)
    findings += inputs
    findings += shown_findings(folder, head, found, None if panel is None or not trials else (panel, trials), agree)
    findings += _limits(folder)
    return Audited(tuple(findings))


def _head(folder: Path, findings: list[Finding]) -> Held | None:
    """What evidence.json holds, even where its seal is broken; None where it cannot be read at all."""
    path = folder / "evidence.json"
    try:
        head = read_sealed(path, FORMAT, EvidenceError)
        findings.append(confirmed("seal", "evidence.json: every byte is as it was written."))
        return Held(head)
    except EvidenceError as problem:
        findings.append(broken("seal", str(problem)))
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, OSError, RecursionError):
        value = None
    return Held(value) if isinstance(value, dict) else None


def _files(folder: Path, head: Held) -> Iterator[Finding]:
    stated = head.table("files")
    good = 0
    for name, hash in stated.items():
        try:
            path = inside(folder, name, EvidenceError)
        except EvidenceError as problem:
            yield broken("files", str(problem))
            continue
        if not path.is_file():
            yield broken("files", f"{name} is missing.")
        elif hash_file(path) != hash:
            yield broken("files", f"{name} was changed since the evidence was made.")
        else:
            good += 1
    here = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_symlink() or path.is_file()}
    for name in sorted(here - set(stated) - set(BESIDE)):
        yield broken("files", f"{name} lies in the folder and does not belong to the evidence.")
    if good == len(stated) and stated:
        yield confirmed("files", f"all {good} files have the hashes that evidence.json states.")


def _whole(folder: Path, findings: list[Finding]) -> Evidence | None:
    """The evidence with all its laws, or None and the law that it breaks."""
    try:
        found = Evidence.load(folder)
    except TwinproofError as problem:
        findings.append(broken("laws", str(problem)))
        return None
    named = "calibration data, parameters, ranges, holdout, ledger, failure labels and three claims are all named"
    findings.append(confirmed("laws", f"the evidence is whole ({found.hash[:16]}): {named}."))
    return found


def _trials(folder: Path, findings: list[Finding]) -> tuple[Trial, ...]:
    try:
        return read_trials(folder / "trials.parquet")
    except TwinproofError as problem:
        findings.append(broken("trials", str(problem)))
        return ()


def _panel(head: Held, trials: tuple[Trial, ...], findings: list[Finding]) -> Panel | None:
    """The panel, held against the holdout and against the trials that were run for it."""
    try:
        panel = build(Panel, head.table("panel"), "evidence.json: panel", EvidenceError)
        panel.check_holdout(head.texts("holdout"))
        if trials:
            panel.check_trials(trials)
            text = f"all {len(trials)} trials of the panel are there, once each, with its seeds; none is left out"
            findings.append(confirmed("trials", f"{text}."))
    except TwinproofError as problem:
        findings.append(broken("trials", str(problem)))
        try:
            return build(Panel, head.table("panel"), "evidence.json: panel", EvidenceError)
        except TwinproofError:
            return None
    stated = head.table("inputs").get("panel", {}).get("hash")
    if stated not in (None, panel.hash):
        findings.append(broken("trials", f"the panel has the hash {panel.hash[:16]}, the inputs state {stated[:16]}."))
    return panel


def _traces(folder: Path, trials: tuple[Trial, ...], sound: dict[str, Trace], progress: Progress) -> Iterator[Finding]:
    """Every trace hashed again; those that are what their name says are put into `sound`."""
    named = sorted({trial.trace for trial in trials if trial.trace is not None})
    good = 0
    for k, hash in enumerate(named):
        try:
            found = Trace.load(inside(folder / "traces", hash, EvidenceError))
        except TwinproofError as problem:
            yield broken("traces", str(problem))
            continue
        progress(k + 1, hash[:12], len(named))
        if found.hash != hash:
            yield broken("traces", f"traces/{hash[:16]} holds another trace ({found.hash[:16]}).")
        else:
            sound[hash] = found
            good += 1
    if named and good == len(named):
        yield confirmed("traces", f"{good} traces are those that the trials name.")
    without = sum(trial.trace is None for trial in trials)
    if without:
        yield opened("traces", f"{without} trials kept no trace: what happened in them cannot be looked at.")


def _figures(head: Held, panel: Panel, trials: tuple[Trial, ...]) -> Iterator[Finding]:
    stated = head.table("figures")
    before, judged = stated.get("before", {}), str(stated.get("judged", ""))
    try:
        anew: Any = figures_of(panel, trials, judged)
        told = {name: value for name, value in stated.items() if name not in ("before", "reality")}
        wrong = sorted(name for name in {*anew, *told} if not same(anew.get(name), told.get(name)))
        for name in wrong:
            yield broken("figures", f"the figures of {name.replace('_', ' ')} do not follow from trials.parquet.")
        if not wrong:
            rows = sum(len(value) for value in anew.values() if isinstance(value, list))
            yield confirmed("figures", f"{rows} rows of figures, computed anew from trials.parquet, are those stated.")
        yield from _claims(head, panel, anew, before)
    except (TwinproofError, KeyError, TypeError, AttributeError) as problem:
        yield broken("figures", f"the figures cannot be computed from trials.parquet: {problem}")


def _claims(head: Held, panel: Panel, figures: dict[str, Any], before: dict[str, Any]) -> Iterator[Finding]:
    was_opened = any(line.get("kind") == "opened" and line.get("by") == panel.hash for line in head.lines)
    stated = {claim.get("name"): claim for claim in head.tables("claims")}
    for claim in judge(panel, figures, before, was_opened):
        if same(plain(claim), stated.get(claim.name)):
            text = f"{claim.name!r}: {claim.verdict}, as its number and the panel's criterion say"
            yield confirmed("claims", f"{text}{'' if claim.value is None else f' ({claim.value:.4g})'}.")
        else:
            told = stated.get(claim.name, {}).get("verdict")
            text = f"{claim.name!r} is stated as {told}; computed anew it is {claim.verdict}"
            yield broken(
                "claims", f"{text}{'' if claim.value is None else f' ({claim.value:.4g})'}, or its number differs."
            )


def _limits(folder: Path) -> Iterator[Finding]:
    """What no audit can confirm."""
    yield opened("limits", "that the trials happened as their traces say: only who ran them knows.")
    yield opened("limits", "the reality, versions, seeds and kind of machine that are named: they are as stated.")
    if (folder / ENVELOPE).is_file():
        yield opened("limits", f"who signed it: {ENVELOPE} is there; twinproof verify EVIDENCE --key PUBLIC_KEY tells.")
    else:
        text = "that it was not made anew as a whole: it is not signed (twinproof sign EVIDENCE --key KEY)"
        yield opened("limits", f"{text}.")
