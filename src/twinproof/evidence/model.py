"""What the report says, as plain data: report.json. The page and the Markdown are made of it and of nothing else.

evidence  computed from the evidence alone, so that an audit can compute it again
inputs    from the folders it stands on: what was reconstructed, inferred, randomised, trained
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from twinproof.evidence.gather import Gathered
from twinproof.evidence.model_inputs import inputs_of
from twinproof.evidence.model_traces import divergence_of, strips_of
from twinproof.nouns.evidence import Evidence
from twinproof.nouns.hashing import Json
from twinproof.nouns.policy import Channel
from twinproof.nouns.strict import plain

FORMAT = "twinproof/report/1"


def model_of(evidence: Evidence, found: Gathered) -> dict[str, Json]:
    """All that the report says."""
    return {"format": FORMAT, "hash": evidence.hash, "evidence": evidence_of(evidence), "inputs": inputs_of(found)}


def evidence_of(evidence: Evidence) -> dict[str, Json]:
    """The part of the report that follows from the evidence alone."""
    lines = [json.loads(text) for text in evidence.ledger_lines]
    return {
        "title": evidence.panel.task.name,
        "reality": evidence.figures.get("reality", ""),
        "as_of": str(lines[-1].get("at", "")) if lines else "",
        "twinproof": evidence.versions.get("twinproof", ""),
        "claims": [plain(claim) for claim in evidence.claims],
        "task": _task(evidence),
        "holdout": {
            "episodes": list(evidence.holdout),
            "attempts": evidence.attempt,
            "openings": [
                {name: line.get(name) for name in ("at", "attempt", "by", "change")}
                for line in lines
                if line.get("kind") == "opened"
            ],
            "resumed": sum(line.get("kind") == "resumed" for line in lines),
            "panel": evidence.panel.hash,
        },
        "domains": [plain(domain) for domain in evidence.panel.domains],
        "conditions": [plain(condition) for condition in evidence.panel.conditions],
        "figures": plain(evidence.figures),
        "failed": list(_failed(evidence)),
        "divergence": divergence_of(evidence),
        "strips": strips_of(evidence),
        "estimates": [plain(estimate) for estimate in evidence.estimates],
        "named": {
            "inputs": {name: plain(entry) for name, entry in evidence.inputs.items()},
            "fits": [plain(fit) for fit in evidence.fits],
            "parts": {
                part: len(_strings(evidence.split.get(part))) for part in ("calibration", "validation", "holdout")
            },
            "grouping": list(_strings(evidence.split.get("keys"))),
            "versions": dict(evidence.versions),
            "seeds": dict(evidence.seeds),
            "machine": dict(evidence.machine),
        },
        "ledger": [_line(line) for line in lines],
    }


def _strings(value: Any) -> Sequence[str]:
    return [str(item) for item in value] if isinstance(value, (list, tuple)) else []


def _task(evidence: Evidence) -> dict[str, Json]:
    task = evidence.panel.task
    contract = task.contract
    return {
        "name": task.name,
        "success": task.success,
        "failure": task.failure,
        "horizon_s": task.horizon_s,
        "rate_hz": contract.rate_hz,
        "delay_s": contract.delay_s,
        "history": contract.history,
        "chunk": contract.chunk,
        "observations": [_channel(channel) for channel in contract.observations],
        "actions": [_channel(channel) for channel in contract.actions],
    }


def _channel(channel: Channel) -> dict[str, Json]:
    told: dict[str, Json] = plain(channel)
    return told


def _failed(evidence: Evidence) -> Iterable[dict[str, Json]]:
    """Every trial that failed, with its label and where its trace lies."""
    kinds = {domain.name: domain.kind for domain in evidence.panel.domains}
    for trial in evidence.trials:
        if trial.failure is not None:
            yield {
                "policy": trial.policy,
                "domain": trial.domain,
                "kind": kinds[trial.domain],
                "condition": trial.condition,
                "repeat": trial.repeat,
                "label": trial.failure.label,
                "note": trial.note,
                "trace": trial.trace,
            }


def _line(line: Mapping[str, Any]) -> dict[str, Json]:
    """A line of the ledger for people: when, what, and a sentence."""
    match line.get("kind"):
        case "created":
            said = f"split {str(line.get('split'))[:12]} made, holdout sealed"
        case "fit":
            count, made = len(line.get("episodes", [])), str(line.get("artifact"))[:12]
            said = f"{line.get('name')} read {count} episodes, made {made}"
        case "opened":
            change = f", after the change “{line['change']}”" if line.get("change") else ""
            said = f"holdout opened, attempt {line.get('attempt')}, by {str(line.get('by'))[:12]}{change}"
        case "resumed":
            said = f"attempt {line.get('attempt')} resumed by {str(line.get('by'))[:12]}"
        case "panel":
            about = f"task {line.get('task')}, {line.get('conditions')} conditions"
            said = f"panel {str(line.get('panel'))[:12]} fixed: {about}"
        case "rebuilt":
            said = f"a twin was rebuilt from the holdout ({str(line.get('artifact'))[:12]}), for comparison only"
        case other:
            said = f"{other}"
    return {"n": line.get("n"), "at": line.get("at"), "kind": line.get("kind"), "said": said, "hash": line.get("hash")}
