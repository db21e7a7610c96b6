"""Sections of a bench on a machine that is lent for minutes: one that fails is told, and the others still run."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any


def run_sections(result: dict[str, Any], sections: dict[str, Callable[[], dict[str, Any]]], path: Path | None) -> None:
    """Adds what each section finds to `result`, prints it, and writes the JSON anew after each."""
    for name, section in sections.items():
        begun = time.perf_counter()
        try:
            result[name] = section()
        except Exception:  # noqa: BLE001  a section that fails is told with its traceback, and the others still run
            result[name] = {"failed": traceback.format_exc()}
        print(f"== {name} ({time.perf_counter() - begun:.1f} s)")
        for key, value in result[name].items():
            print(f"   {key}: {value:,.4g}" if isinstance(value, float) else f"   {key}: {value}", flush=True)
        if path is not None:
            path.write_text(json.dumps(result, indent=2))
