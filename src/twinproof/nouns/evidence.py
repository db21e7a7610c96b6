"""Evidence: what was claimed, on what, and everything a stranger needs to check it.

evidence.json     hashes of all inputs, fits with the episodes they read, parameters, ranges, panel, versions, claims
trials.parquet    one row per trial; success, metrics, bias, failures, ranks are computed from it
traces/HASH/      what happened in each trial
report.html       for people; made from the rest, so the evidence's hash does not depend on it
report.md …       the documents beside it: the report in other forms, pictures, a scene, the crate's description
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from twinproof.nouns.artifact import Artifact
from twinproof.nouns.episode import Lazy
from twinproof.nouns.errors import EvidenceError
from twinproof.nouns.files import SAFE_NAME
from twinproof.nouns.frozen import Frozen, frozen_json, settle
from twinproof.nouns.hashing import Json
from twinproof.nouns.ledger import LedgerHead
from twinproof.nouns.panel import CLAIMS, ClaimName, Panel
from twinproof.nouns.randomization import Range
from twinproof.nouns.source import Source
from twinproof.nouns.theta import ParameterInfo
from twinproof.nouns.trace import Trace
from twinproof.nouns.trial import Trial, read_trials, trials_hash, write_trials

DOCUMENTS = ("report.md", "report.json", "scene.html", "ro-crate-metadata.json")
PICTURES = "pictures"


@dataclass(frozen=True)
class Input:
    """A noun or file that the evidence stands on, by its hash and size."""

    hash: str
    bytes: int = 0
    name: str = ""


@dataclass(frozen=True)
class Fit:
    """A stage that learned from data: what it gave, and the exact episodes it read."""

    stage: str  # reconstruct, identify, randomize, train, …
    result: str  # the hash of what it gave
    part: Literal["calibration", "validation"]
    episodes: tuple[str, ...]


@dataclass(frozen=True)
class Estimate:
    """A reconstructed or identified parameter: its mean, its interval and where it came from."""

    parameter: ParameterInfo
    mean: float
    low: float
    high: float
    level: float
    source: Source
    identified: bool = True


@dataclass(frozen=True)
class Claim:
    """One of the three claims: held, failed or not tested, with the number that decides."""

    name: ClaimName
    verdict: Literal["held", "failed", "not tested"]
    number: str = ""  # what the value is: "success in reality, 17 of 20 trials"
    value: float | None = None
    interval: tuple[float, float] | None = None
    threshold: float | None = None
    reason: str = ""  # why it was not tested, or what to keep in mind

    def __post_init__(self) -> None:
        if self.verdict == "not tested":
            if not self.reason.strip():
                raise EvidenceError(f"the claim {self.name!r} is not tested and does not say why. Add the reason.")
        elif self.value is None or not np.isfinite(self.value) or not self.number.strip():
            raise EvidenceError(f"the claim {self.name!r} is {self.verdict} without the number that decides. Name it.")


@dataclass(frozen=True, eq=False)
class Evidence(Artifact):
    """All of it. It cannot be built unless everything that makes it evidence is named."""

    NAME: ClassVar = "evidence"
    ERROR: ClassVar = EvidenceError
    PARTS: ClassVar = ("trials", "traces", "report", "documents")

    inputs: Mapping[str, Input]  # recording, split, twin, posterior, randomization, policy/NAME, …
    fits: tuple[Fit, ...]
    estimates: tuple[Estimate, ...]
    ranges: tuple[Range, ...]
    holdout: tuple[str, ...]  # episode ids
    panel: Panel
    claims: tuple[Claim, ...]
    trials: tuple[Trial, ...]
    ledger: LedgerHead | None
    traces: Mapping[str, Trace] = field(default_factory=dict)  # by hash
    attempt: int = 1  # how often this holdout has been opened, this time included
    split: Mapping[str, Json] = field(default_factory=dict)  # the split's manifest, as on disk
    ledger_lines: tuple[str, ...] = ()  # the ledger, line by line, as on disk
    figures: Mapping[str, Json] = field(default_factory=dict)  # metrics with intervals, computed from the trials
    versions: Mapping[str, str] = field(default_factory=dict)  # twinproof, engine, numpy, …
    seeds: Mapping[str, int] = field(default_factory=dict)
    machine: Mapping[str, str] = field(default_factory=dict)  # its kind, never its name
    report: str | None = None
    documents: Mapping[str, bytes] = field(default_factory=dict)  # file name -> content, beside the report

    def __post_init__(self) -> None:
        _check_complete(self)
        _check_leakage(self)
        _check_criteria(self)
        self.panel.check_holdout(self.holdout)
        self.panel.check_trials(self.trials)
        _check_traces(self)
        _check_documents(self)
        traces = self.traces if isinstance(self.traces, Lazy) else Frozen(self.traces)
        settle(self, traces=traces, inputs=Frozen(self.inputs), documents=Frozen(self.documents))
        for name in ("split", "figures", "versions", "seeds", "machine"):
            settle(self, **{name: frozen_json(getattr(self, name), name, EvidenceError)})

    def claim(self, name: ClaimName) -> Claim:
        """The claim of this name."""
        return next(claim for claim in self.claims if claim.name == name)

    def trace(self, trial: Trial) -> Trace | None:
        """What happened in a trial, where it was kept."""
        return None if trial.trace is None else self.traces[trial.trace]

    def part_hashes(self) -> dict[str, str]:
        return {"trials": trials_hash(self.trials)}  # a trial names its trace by hash

    def write_parts(self, folder: Path) -> None:
        write_trials(folder / "trials.parquet", self.trials)
        for hash in sorted(self.traces):
            place = folder / "traces" / hash
            place.mkdir(parents=True)
            self.traces[hash].write(place)  # the whole folder is made durable at once
        if self.report is not None:
            (folder / "report.html").write_bytes(self.report.encode())
        for name, content in self.documents.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(content)

    @classmethod
    def read_parts(cls, folder: Path, head: Mapping[str, Json]) -> dict[str, Any]:
        trials = read_trials(folder / "trials.parquet")
        names = tuple(sorted({trial.trace for trial in trials if trial.trace is not None}))
        report = folder / "report.html"
        beside = [folder / name for name in DOCUMENTS] + sorted(folder.glob(f"{PICTURES}/*"))
        return {
            "trials": trials,
            "traces": Lazy(names, lambda hash: _read_trace(folder / "traces" / hash)),
            "report": report.read_text(encoding="utf-8") if report.exists() else None,
            "documents": {path.relative_to(folder).as_posix(): path.read_bytes() for path in beside if path.is_file()},
        }


def _read_trace(folder: Path) -> Trace:
    trace = Trace.load(folder)
    if trace.hash != folder.name:
        raise EvidenceError(
            f"{folder} holds another trace ({trace.hash[:16]}). Restore it, or make the evidence again."
        )
    return trace


def _check_complete(evidence: Evidence) -> None:
    calibration = [fit for fit in evidence.fits if fit.part == "calibration" and fit.episodes]
    needed = {
        "the calibration data (a fit with the episodes it read)": bool(calibration),
        "the reconstructed parameters": bool(evidence.estimates),
        "the residual ranges": bool(evidence.ranges),
        "the final holdout": bool(evidence.holdout),
        "the leakage guard (the ledger's head)": evidence.ledger is not None,
        "the failure labels": bool(evidence.panel.failure_labels),
        "the trials": bool(evidence.trials),
        **{f"the hash of the {name}": name in evidence.inputs for name in ("recording", "split", "twin", "posterior")},
        **{f"the claim {name!r}": [c.name for c in evidence.claims].count(name) == 1 for name in CLAIMS},
    }
    lacking = [name for name, there in needed.items() if not there]
    if lacking:
        raise EvidenceError(f"evidence cannot be built: it lacks {'; '.join(lacking)}. Name each, once.")


def _check_leakage(evidence: Evidence) -> None:
    for fit in evidence.fits:
        leaked = sorted(set(fit.episodes) & set(evidence.holdout))
        if leaked:
            raise EvidenceError(
                f"the stage {fit.stage!r} read the episode {leaked[0]}, which is in the holdout ({len(leaked)} such). "
                "What was fitted on the holdout proves nothing: fit again without it."
            )


def _check_criteria(evidence: Evidence) -> None:
    for criterion in evidence.panel.criteria:
        claim = evidence.claim(criterion.claim)
        if claim.verdict != "not tested" and claim.threshold != criterion.threshold:
            raise EvidenceError(
                f"the claim {claim.name!r} is judged by the threshold {claim.threshold}; the panel stated "
                f"{criterion.threshold} before the first trial. Judge it by that."
            )


def _check_documents(evidence: Evidence) -> None:
    for name in evidence.documents:
        folder, _, file = name.rpartition("/")
        if name not in DOCUMENTS and not (folder == PICTURES and SAFE_NAME.fullmatch(file)):
            raise EvidenceError(
                f"the document {name!r} has no place in evidence. It is {', '.join(DOCUMENTS)}, or {PICTURES}/NAME."
            )


def _check_traces(evidence: Evidence) -> None:
    named = {trial.trace for trial in evidence.trials if trial.trace is not None}
    lost, spare = sorted(named - set(evidence.traces)), sorted(set(evidence.traces) - named)
    if lost or spare:
        raise EvidenceError(
            f"trials name {len(lost)} traces that are not there ({', '.join(lost[:1]) or 'none'}), and {len(spare)} "
            f"traces belong to no trial ({', '.join(spare[:1]) or 'none'}). Keep one for each trial that names one."
        )
    for hash in () if isinstance(evidence.traces, Lazy) else named:
        if evidence.traces[hash].hash != hash:
            raise EvidenceError(f"the trace under {hash} has the hash {evidence.traces[hash].hash}. Use its own hash.")
