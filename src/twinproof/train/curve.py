"""The picture of a training run: success and return over environment steps, a line a seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

INK, MUTED, LINES = "#222222", "#888888", ("#1b6ca8", "#c8553d", "#3c8d5a", "#8a5fb0", "#b8860b")


def draw_curve(runs: Mapping[str, Sequence[Mapping[str, Any]]], title: str, path: Path) -> None:
    """Writes a PNG: success above, reward a step below, over environment steps; `runs` is name -> metrics lines."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 5.0), dpi=130, layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    for k, (name, lines) in enumerate(runs.items()):
        colour = LINES[k % len(LINES)]
        steps = np.array([line["steps"] for line in lines]) / 1e3
        success = np.array([np.nan if line["success"] is None else 100 * line["success"] for line in lines])
        above.plot(steps, success, color=colour, lw=1.6, marker="o" if len(lines) < 30 else "", ms=3, label=name)
        judged = [(line["steps"] / 1e3, 100 * line["judged"]) for line in lines if "judged" in line]
        if judged:
            above.plot(*zip(*judged, strict=True), "o", color=colour, ms=5, mfc="white", label=f"{name}, judged")
        below.plot(steps, [_reward(line) for line in lines], color=colour, lw=1.2)
    above.set(ylabel="success (%)", ylim=(-3, 103), title=title)
    above.axhline(95, color=MUTED, lw=0.8, ls=":")
    below.set(xlabel="environment steps (thousands)", ylabel="reward a step")
    for axis in (above, below):
        axis.grid(color="#e5e5e5", lw=0.6)
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(colors=INK)
    if above.get_legend_handles_labels()[1]:
        above.legend(frameon=False, loc="lower right")
    figure.savefig(path)


def _reward(line: Mapping[str, Any]) -> float:
    return sum(float(value) for name, value in line.items() if name.startswith("reward/"))
