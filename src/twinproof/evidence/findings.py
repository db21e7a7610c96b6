"""What an audit says, and evidence.json as it reads it: with nothing taken for granted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

Verdict = Literal["confirmed", "broken", "open"]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: confirmed, broken, or open, and a sentence that says what and where."""

    verdict: Verdict
    about: str  # seal, files, laws, split, ledger, fits, trials, traces, figures, claims, report, inputs, limits
    text: str


def confirmed(about: str, text: str) -> Finding:
    """A finding that holds."""
    return Finding("confirmed", about, text)


def broken(about: str, text: str) -> Finding:
    """A finding that does not."""
    return Finding("broken", about, text)


def opened(about: str, text: str) -> Finding:
    """A thing that cannot be confirmed from what is here."""
    return Finding("open", about, text)


def of_split(ok: bool, text: str) -> Finding:
    """A finding of the audit of a split."""
    return Finding("confirmed" if ok else "broken", "split", f"split: {text}")


@dataclass(frozen=True)
class Audited:
    """All findings."""

    findings: tuple[Finding, ...]

    @property
    def breaks(self) -> tuple[Finding, ...]:
        """The findings that are breaks."""
        return tuple(finding for finding in self.findings if finding.verdict == "broken")

    @property
    def ok(self) -> bool:
        """Whether nothing is broken."""
        return not self.breaks


@dataclass(frozen=True)
class Held:
    """What evidence.json holds. It may have been changed, so every look at it expects anything."""

    data: Mapping[str, Any]

    def table(self, name: str) -> dict[str, Any]:
        """The table of this name, empty where there is none."""
        value = self.data.get(name)
        return dict(value) if isinstance(value, Mapping) else {}

    def tables(self, name: str) -> list[dict[str, Any]]:
        """The tables in the list of this name."""
        value = self.data.get(name)
        return [dict(item) for item in value if isinstance(item, Mapping)] if isinstance(value, (list, tuple)) else []

    def texts(self, name: str) -> tuple[str, ...]:
        """The texts in the list of this name."""
        value = self.data.get(name)
        return tuple(item for item in value if isinstance(item, str)) if isinstance(value, (list, tuple)) else ()

    @cached_property
    def lines(self) -> tuple[dict[str, Any], ...]:
        """The ledger's lines that are tables."""
        found = []
        for text in self.texts("ledger_lines"):
            try:
                value = json.loads(text)
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                found.append(value)
        return tuple(found)
