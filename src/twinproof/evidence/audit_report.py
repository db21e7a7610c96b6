"""Whether the report says what the evidence says: its JSON is computed anew, and the pages are made anew from that."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from twinproof import __version__
from twinproof.evidence.drawing import DRAWN, drawing
from twinproof.evidence.figures import same
from twinproof.evidence.findings import Finding, broken, confirmed, opened
from twinproof.evidence.markdown import markdown
from twinproof.evidence.model import evidence_of
from twinproof.evidence.page import page
from twinproof.nouns.errors import TwinproofError
from twinproof.nouns.evidence import PICTURES, Evidence


def report_findings(folder: Path, evidence: Evidence | None) -> Iterator[Finding]:
    """report.json against the evidence, report.html and report.md against report.json."""
    path = folder / "report.json"
    if not path.is_file():
        yield opened("report", "the report: there is no report.json to compare it with.")
        return
    try:
        told: Any = json.loads(path.read_bytes())
        if evidence is not None:
            yield from _against(told, evidence)
        else:
            yield opened("report", "whether report.json says what the evidence says: the evidence itself is broken.")
        named = told["evidence"]["named"]["versions"]
        alike = told["evidence"]["twinproof"] == __version__ and named.get(DRAWN) == drawing()
        yield from _pages(folder, told, alike)
    except (ValueError, OSError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        yield broken("report", f"report.json cannot be read as a report ({problem!r}).")


def _against(told: Any, evidence: Evidence) -> Iterator[Finding]:
    try:
        anew = evidence_of(evidence)
    except TwinproofError as problem:  # a trace that cannot be read
        yield broken("report", f"the report cannot be computed from the evidence: {problem}")
        return
    wrong = sorted(name for name in {*anew, *told["evidence"]} if not same(anew.get(name), told["evidence"].get(name)))
    if told.get("hash") != evidence.hash:
        wrong.append("hash")
    for name in wrong:
        yield broken("report", f"report.json: what it says of {name!r} does not follow from the evidence.")
    if not wrong:
        text = "report.json: claims, task, holdout, success, metrics, failures, divergence, events and ledger follow"
        yield confirmed("report", f"{text} from evidence.json, trials.parquet and the traces.")


def _pages(folder: Path, told: Any, alike: bool) -> Iterator[Finding]:
    """The pages byte by byte; code that is not alike may draw them otherwise."""
    pictures = {path.name: path.read_bytes() for path in sorted((folder / PICTURES).glob("*"))}
    scene = folder / "scene.html"
    anew = {
        "report.html": page(told, pictures, scene.read_text(encoding="utf-8") if scene.is_file() else None),
        "report.md": markdown(told),
    }
    for name, content in anew.items():
        path = folder / name
        if not path.is_file():
            yield opened("report", f"{name} is not there.")
        elif path.read_bytes() == content.encode():
            yield confirmed("report", f"{name}: made anew from report.json, it is the same, byte by byte.")
        elif not alike:
            text = f"{name}: other code drew it (twinproof {told['evidence']['twinproof']}; this is {__version__})"
            yield opened("report", f"{text}. Its words were not compared.")
        else:
            yield broken("report", f"{name} does not say what report.json says.")
