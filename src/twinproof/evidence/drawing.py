"""Which code draws the report: pages of other code look otherwise, and are not held against their JSON byte by byte."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

DRAWN = "drawing of the report"  # its name among the versions in evidence
DRAWS = ("charts", "markdown", "page", "page_inputs", "page_parts", "page_trials", "style", "svg")


@cache
def drawing() -> str:
    """The hash of the modules that make report.html and report.md."""
    found = hashlib.sha256()
    for name in DRAWS:
        found.update((Path(__file__).parent / f"{name}.py").read_bytes())
    return found.hexdigest()[:16]
