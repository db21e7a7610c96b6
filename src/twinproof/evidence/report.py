"""What the commands of evidence print."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from twinproof.nouns.evidence import Evidence

if TYPE_CHECKING:
    from twinproof.evidence.findings import Audited


def say(text: str) -> None:
    """A line on stdout."""
    sys.stdout.write(f"{text}\n")


def evidence(made: Evidence, folder: Path) -> None:
    """What was assembled: the three claims, and where the report is."""
    say(f"{folder}: evidence {made.hash[:16]}, {len(made.trials)} trials, holdout opened {made.attempt} times")
    for claim in made.claims:
        value = "" if claim.value is None else f"  {claim.value:.4g}"
        say(f"  {claim.name:<21} {claim.verdict:<10}{value}  {claim.number or claim.reason}")
    say(f"report: {folder / 'report.html'}")


def audit(found: Audited, *, as_json: bool) -> int:
    """Every finding as a sentence; the exit code is 1 when one is a break."""
    if as_json:
        say(json.dumps({"ok": found.ok, "findings": [asdict(finding) for finding in found.findings]}, indent=1))
        return 0 if found.ok else 1
    words = {"confirmed": "holds ", "broken": "BREAK ", "open": "open  "}
    for finding in found.findings:
        say(f"{words[finding.verdict]} {finding.text}")
    counts = {verdict: sum(f.verdict == verdict for f in found.findings) for verdict in words}
    told = ", ".join(f"{counts[verdict]} {verdict}" for verdict in ("confirmed", "broken"))
    say(f"{told}, {counts['open']} that could not be confirmed from what is here")
    return 0 if found.ok else 1
