"""The figures of a panel's trials: success in every domain, replays over time, the gap in four steps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.evaluate.figures import BLACK, COLOURS, DPI, FAINT, GREY, LOOK, WIDTH_IN
from twinproof.nouns.trials import Trials

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STEPS = ("replay of\ncommands", "actions on\nreported states", "timing\nand noise", "closed\nloop")


def draw_trials(found: Trials, folder: Path) -> tuple[Path, ...]:
    """Draws what there is something for into a new folder."""
    import matplotlib

    folder.mkdir(parents=True)
    told: Any = found.summary
    made = []
    with matplotlib.rc_context(LOOK):
        made.append(_save(_success(told, found.reality), folder / "success.png"))
        if any(world["course"] for world in told["replay"]["worlds"]):
            made.append(_save(_replays(told["replay"]["worlds"]), folder / "replay.png"))
        if told.get("decomposition"):
            made.append(_save(_steps(told["decomposition"]), folder / "gap.png"))
    return tuple(made)


def _figure(high_in: float, columns: int = 1) -> tuple[Figure, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH_IN, high_in), layout="constrained", dpi=DPI)
    return figure, figure.subplots(1, columns, squeeze=False)[0]


def _save(figure: Figure, path: Path) -> Path:
    figure.savefig(path)
    return path


def _success(told: Any, reality: str) -> Figure:
    """A point with its interval for every policy and domain."""
    policies = list(told["success"])
    domains = list(told["success"][policies[0]])
    figure, (axes,) = _figure(1.2 + 0.32 * len(policies) * len(domains) ** 0.7)
    for d, domain in enumerate(domains):
        colour = BLACK if domain == "real" else COLOURS[d % len(COLOURS)]
        for p, policy in enumerate(policies):
            rate = told["success"][policy][domain]
            y = p + 0.7 * ((d + 0.5) / len(domains) - 0.5)
            low, high, middle = (100 * rate["wilson"][key] for key in ("low", "high", "value"))
            axes.plot([low, high], [y, y], color=colour, lw=2.2, solid_capstyle="butt", label=domain if not p else None)
            axes.plot([middle], [y], "o", color=colour, ms=5)
            axes.annotate(f"{rate['successes']}/{rate['trials']}", (101.5, y), fontsize=7, color=GREY, va="center")
    axes.set_yticks(range(len(policies)), policies)
    axes.set_ylim(len(policies) - 0.5, -0.5)
    axes.set_xlim(-1, 108)
    axes.set_xlabel(f"success / %, {100 * told['level']:g} % Wilson intervals, {told['conditions']} conditions")
    axes.set_title(f"reality: {reality}" if reality else "nothing real was run")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=len(domains))
    axes.grid(axis="x", color=FAINT, lw=0.6)
    return figure


def _replays(worlds: Any) -> Figure:
    """The error of replays over time: a faint line for each condition, their mean in full."""
    domains = list(dict.fromkeys(world["domain"] for world in worlds if world["course"]))
    figure, all_axes = _figure(2.6, len(domains))
    top = 1.1 * max(max(world["course"]) for world in worlds if world["course"])
    for d, (domain, axes) in enumerate(zip(domains, all_axes, strict=True)):
        mine = [world for world in worlds if world["domain"] == domain and world["course"]]
        end = min(world["time_s"][-1] for world in mine)
        grid = np.linspace(0, end, 120)
        lines = [np.interp(grid, world["time_s"], world["course"]) for world in mine]
        for line in lines:
            axes.plot(grid, line, color=COLOURS[d % len(COLOURS)], lw=0.7, alpha=0.4)
        axes.plot(grid, np.mean(lines, axis=0), color=COLOURS[d % len(COLOURS)], lw=2)
        axes.set_title(f"{domain}: {len(mine)} holdout episodes")
        axes.set_xlabel("time / s")
        axes.set_ylim(0, top)
    all_axes[0].set_ylabel("RMSE of a replay that\nrestarts at the readings")
    return figure


def _steps(steps: Any) -> Figure:
    """The four steps with intervals."""
    figure, (axes,) = _figure(2.9)
    for k, step in enumerate(steps):
        if step["value"] is None:
            continue
        colour = COLOURS[1] if step["step"] == 2 else COLOURS[0]
        axes.bar([k], [step["value"]], 0.55, color=colour, alpha=0.85)
        if step["interval"]:
            axes.plot([k, k], step["interval"], color=BLACK, lw=1.4)
    axes.set_xticks(range(len(steps)), STEPS[: len(steps)])
    axes.set_ylim(bottom=0)
    axes.set_ylabel("share of joint ranges\n(orange: of actions)")
    axes.set_title(f"the gap in four steps, {max(step['trials'] for step in steps)} trials")
    return figure
