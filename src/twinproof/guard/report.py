"""What split and audit print."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from twinproof.guard.audit import AuditResult
from twinproof.nouns.split import Split


def split(made: Split, folder: Path) -> None:
    """What `split` made, and how well the sizes asked for were met."""
    sys.stdout.write(f"{folder}: split {made.hash[:16]}\n{made.summary()}\n")
    sys.stdout.write(f"the holdout is sealed; every opening and every fit is a line in {folder / 'openings.jsonl'}\n")


def audit(result: AuditResult, *, as_json: bool) -> int:
    """Every finding as a sentence; the exit code is 1 when one is a break."""
    if as_json:
        findings = [asdict(finding) for finding in result.findings]
        sys.stdout.write(
            json.dumps({"ok": result.ok, "attempts": result.attempts, "findings": findings}, indent=1) + "\n"
        )
    else:
        for finding in result.findings:
            sys.stdout.write(f"{'holds ' if finding.ok else 'BREAK '} {finding.text}\n")
        count = len(result.breaks)
        verdict = "nothing is broken" if result.ok else f"{count} break{'s' if count > 1 else ''}"
        sys.stdout.write(f"{verdict}; the holdout was {_opened(result.attempts)}\n")
    return 0 if result.ok else 1


def _opened(count: int | None) -> str:
    if count is None:
        return "opened nobody knows how often"
    return {0: "never opened", 1: "opened once", 2: "opened twice"}.get(count, f"opened {count} times")
