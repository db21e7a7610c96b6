"""What `compare` prints."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def comparison(told: Mapping[str, Any], out: Path) -> None:
    """A line an arm, what could not be paired, and where the page is."""
    count = len(told["pairs"])
    lines = [f"{out}: {count} pair{'s' if count != 1 else ''}"]
    for name, arm in told["arms"].items():
        rmse, position = arm["rmse"], arm["position_m"]
        text = f"  {name}: RMSE {rmse['value']:.4f}{_between(rmse, 1.0, 4)}"
        if position is not None:
            turn = 57.29577951308232 * arm["orientation_rad"]["mean_over_pairs"]["value"]
            text += f", tip {1e3 * position['mean_over_pairs']['value']:.1f} mm and {turn:.2f}°"
        if arm["warped"] is not None:
            text += f", timing's share {100 * arm['warped']['timing_share']:.0f} %"
        onset = arm["onset"]
        text += f", diverges in {onset['pairs']} of {onset['of']}"
        lines.append(text + (f" (median at {onset['median_s']:.2f} s)" if onset["pairs"] else ""))
    counts: dict[str, int] = {}
    for verdicts in told["events"]["verdicts"].values():
        for verdict, count in verdicts.items():
            counts[verdict] = counts.get(verdict, 0) + count
    lines.append("  events: " + (", ".join(f"{count} {verdict}" for verdict, count in counts.items()) or "none found"))
    for side, key in (("real", "only_real"), ("simulated", "only_sim")):
        if told[key]:
            names = ", ".join(f"{episode['id'][:8]} ({episode['source']})" for episode in told[key][:3])
            more = f" and {len(told[key]) - 3} more" if len(told[key]) > 3 else ""
            lines.append(f"  {side} without a partner: {names}{more}")
    lines += [f"  {note}" for note in told["notes"]]
    lines.append(f"  open {out / 'report.html'}")
    sys.stdout.write("\n".join(lines) + "\n")


def _between(found: Mapping[str, Any], scale: float, digits: int) -> str:
    if found["low"] is None:
        return ""
    return f" ({scale * found['low']:.{digits}f} … {scale * found['high']:.{digits}f})"
