"""The figures of a comparison, as the paper has them: errors over time, their distribution, joints, timing, events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.evaluate.compare import Comparison, PairResult
from twinproof.evaluate.onset import Onset

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DPI = 110
WIDTH_IN = 8.2
# Okabe and Ito's palette: colour-blind eyes tell it apart
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
BLACK, GREY, FAINT = "#222222", "#8c8c8c", "#d9d9d9"
VERDICTS = {"same": "#009E73", "late": "#E69F00", "early": "#56B4E9", "missing": "#D55E00", "extra": "#CC79A7"}
LOOK: Any = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.titlelocation": "left",
    "text.parse_math": False,  # a $ in a name is a letter
}
Course = tuple[np.ndarray, np.ndarray]


def draw(found: Comparison, folder: Path) -> dict[str, Path]:
    """Draws every figure that there is something for, and says what each is called."""
    import matplotlib

    made = {}
    with matplotlib.rc_context(LOOK):
        names = [result.name for result in found.pairs[0].every]
        made["rmse"] = _save(_rmse(found, names), folder / "rmse.png")
        for what, unit, scale in (("position", "mm", 1e3), ("orientation", "degrees", 180 / np.pi)):
            courses = {name: _tips(found.pairs, name, what, scale) for name in names}
            if any(courses.values()):
                title = f"Tip {what} error over time"
                made[what] = _save(_over_time(title, f"{what} error / {unit}", courses), folder / f"{what}.png")
        made["distribution"] = _save(_distribution(found, names), folder / "distribution.png")
        made["joints"] = _save(_joints(found), folder / "joints.png")
        made["timing"] = _save(_timing(found), folder / "timing.png")
        for number, pair in enumerate(shown(found.pairs), 1):
            if pair.events:
                made[f"events_{number}"] = _save(_events(pair), folder / f"events_{number}.png")
    return made


def shown(pairs: Sequence[PairResult]) -> tuple[PairResult, ...]:
    """The pairs with the least, the median and the largest error: each once."""
    order = sorted(pairs, key=lambda pair: (pair.overall.gap.total_rmse, pair.real.id))
    places = dict.fromkeys((0, (len(order) - 1) // 2, len(order) - 1))
    return tuple(order[place] for place in places)


def _sheet(height_in: float, title: str, rows: int = 1) -> tuple[Figure, list[Axes]]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH_IN, height_in), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    axes = figure.subplots(rows, 1, squeeze=False)[:, 0]
    return figure, list(axes)


def _save(figure: Figure, path: Path) -> Path:
    figure.savefig(path, dpi=DPI, metadata={"Software": None})
    return path


def _colour(place: int, name: str) -> str:
    return BLACK if name == "overall" else COLOURS[place % len(COLOURS)]


def _on_grid(courses: Sequence[Course]) -> tuple[np.ndarray, np.ndarray]:
    """All courses on one grid of times; NaN where one has not begun, has ended or has a hole."""
    start, end = min(float(t[0]) for t, _ in courses), max(float(t[-1]) for t, _ in courses)
    grid = np.linspace(start, end, 500)
    rows = np.empty((len(courses), len(grid)))
    for row, (t, value) in zip(rows, courses, strict=True):
        hole = max(3 * float(np.median(np.diff(t))), 1.5 * (grid[1] - grid[0])) if len(t) > 1 else 1.0
        after = np.clip(np.searchsorted(t, grid), 1, max(len(t) - 1, 1))
        near = (t[after] - t[after - 1] <= hole) if len(t) > 1 else np.zeros(len(grid), dtype=bool)
        row[:] = np.where((grid >= t[0]) & (grid <= t[-1]) & near, np.interp(grid, t, value), np.nan)
    return grid, rows


def _band(axes: Axes, courses: Sequence[Course], colour: str, label: str) -> None:
    """The median with a band of four pairs in five, while half of the pairs run; few pairs are drawn one by one."""
    grid, rows = _on_grid(courses)
    if len(courses) <= 4:
        for k, row in enumerate(rows):
            axes.plot(grid, row, color=colour, lw=1.3, alpha=0.85, label=label if k == 0 else None)
        return
    running = np.isfinite(rows).sum(axis=0) >= (len(courses) + 1) // 2
    low, middle, high = np.full((3, len(grid)), np.nan)
    for k in np.flatnonzero(running).tolist():
        column = rows[np.isfinite(rows[:, k]), k]
        low[k], middle[k], high[k] = np.quantile(column, [0.1, 0.5, 0.9])
    axes.fill_between(grid, low, high, color=colour, alpha=0.16, lw=0)
    axes.plot(grid, middle, color=colour, lw=1.6, label=label)


def _over_time(title: str, label: str, courses: dict[str, list[Course]]) -> Figure:
    figure, (axes,) = _sheet(3.1, title)
    count = max(len(each) for each in courses.values())
    for place, (name, each) in enumerate(courses.items()):
        if each:
            _band(axes, each, _colour(place, name), name)
    axes.set(xlabel="time / s", ylabel=label)
    _headroom(axes)
    axes.legend(loc="upper left", ncols=4, title=None if count <= 4 else "median and 10–90 % of pairs")
    return figure


def _tips(pairs: Sequence[PairResult], name: str, what: str, scale: float) -> list[Course]:
    value: Callable[[Any], np.ndarray] = (
        (lambda tip: tip.position_m) if what == "position" else (lambda tip: tip.orientation_rad)
    )
    tips = (result.tip for pair in pairs for result in pair.arms if result.name == name)
    return [(tip.time_s, scale * value(tip)) for tip in tips if tip is not None]


def _rmse(found: Comparison, names: Sequence[str]) -> Figure:
    figure, (axes,) = _sheet(3.4, "Normalised joint RMSE over time")
    for place, name in enumerate(names):
        courses = [(r.gap.time_s, r.gap.rmse) for pair in found.pairs for r in pair.every if r.name == name]
        _band(axes, courses, _colour(place, name), name)
    onsets = [pair.overall.onset for pair in found.pairs if pair.overall.onset is not None]
    _mark_onsets(axes, onsets)
    axes.set(xlabel="time / s", ylabel="RMSE = √Σ w Δ² / range²")
    _headroom(axes)
    few = len(found.pairs) <= 4
    axes.legend(loc="upper left", ncols=5, title=None if few else "median and 10–90 % of pairs")
    return figure


def _headroom(axes: Axes) -> None:
    """From zero up, with room for a legend above the curves."""
    axes.set_ylim(0, 1.2 * axes.get_ylim()[1])


def _mark_onsets(axes: Axes, onsets: Sequence[Onset]) -> None:
    """Where divergence starts: a line with its interval for few pairs, ticks for many."""
    if len(onsets) <= 4:
        for k, onset in enumerate(onsets):
            axes.axvspan(onset.low_s, onset.high_s, color=GREY, alpha=0.18, lw=0)
            axes.axvline(onset.time_s, color=GREY, ls="--", lw=1, label="divergence starts" if k == 0 else None)
        return
    times = [onset.time_s for onset in onsets]
    axes.plot(times, np.zeros(len(times)), "|", color=BLACK, ms=10, mew=1, clip_on=False, label="divergence starts")


def _distribution(found: Comparison, names: Sequence[str]) -> Figure:
    figure, (axes,) = _sheet(3.0, "Distribution of the RMSE over all moments")
    values = {
        name: np.concatenate([r.gap.rmse for pair in found.pairs for r in pair.every if r.name == name])
        for name in names
    }
    top = max(float(np.quantile(v, 0.999)) for v in values.values()) or 1.0
    edges = np.linspace(0, top, 60)
    for place, (name, each) in enumerate(values.items()):
        share = np.histogram(np.minimum(each, top), edges)[0] / len(each)
        axes.stairs(
            100 * share, edges, color=_colour(place, name), lw=1.5, label=f"{name}: median {np.median(each):.3g}"
        )
        axes.axvline(float(np.median(each)), color=_colour(place, name), lw=1, ls=":")
    axes.set(xlabel="RMSE", ylabel="share of moments / %", xlim=(0, top))
    _headroom(axes)
    axes.legend(loc="upper left", ncols=4)
    return figure


def _joints(found: Comparison) -> Figure:
    """Which joints the error is made of, arm by arm."""
    arms = found.scale.arms
    rows = sum(len(found.scale.of_arm(arm)) for arm in arms)
    figure, (axes,) = _sheet(0.9 + 0.24 * rows, "Which joints the error is made of")
    labels, place = [], 0
    for number, arm in enumerate(arms):
        results = [r for pair in found.pairs for r in pair.arms if r.name == arm.name]
        size = np.array([float(r.gap.mse.mean()) for r in results])
        for joint in (found.scale.joints[k] for k in found.scale.of_arm(arm)):
            share = sum(r.gap.by_joint[joint] * s for r, s in zip(results, size, strict=True)) / max(size.sum(), 1e-300)
            axes.barh(place, 100 * share, color=_colour(number, arm.name), height=0.72)
            axes.text(100 * share + 0.8, place, f"{100 * share:.0f} %", va="center", fontsize=8)
            labels.append(joint)
            place += 1
    axes.set_yticks(range(place), labels)
    axes.invert_yaxis()
    axes.set(xlabel="share of the arm's mean MSE / %")
    axes.set_xlim(right=max(axes.get_xlim()[1] * 1.06, 10))
    return figure


def _timing(found: Comparison) -> Figure:
    """The error with clocks as they are, with aligned clocks, and along the best warp: timing against path."""
    figure, (axes,) = _sheet(0.9 + 0.75 * len(found.scale.arms), "Timing and path")
    kinds = ("clocks as they are", "clocks aligned", "time warped: path error")
    shades = (FAINT, GREY, BLACK)
    for number, arm in enumerate(found.scale.arms):
        results = [r for pair in found.pairs for r in pair.arms if r.name == arm.name]
        values = (
            [r.as_stamped_rmse for r in results if r.as_stamped_rmse is not None],
            [r.gap.total_rmse for r in results],
            [r.warped.path_rmse for r in results if r.warped is not None],
        )
        for k, (kind, each) in enumerate(zip(kinds, values, strict=True)):
            at = number + 0.27 * (k - 1)
            mean = float(np.mean(each)) if each else 0.0
            axes.barh(at, mean, color=shades[k], height=0.25, label=kind if number == 0 else None)
            axes.text(mean, at, f" {mean:.3g}", va="center", fontsize=8)
    axes.set_yticks(range(len(found.scale.arms)), [arm.name for arm in found.scale.arms])
    axes.invert_yaxis()
    axes.set(xlabel="RMSE, mean over pairs")
    axes.set_xlim(right=axes.get_xlim()[1] * 1.12)
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.32 if len(found.scale.arms) > 1 else -0.45), ncols=3)
    return figure


def _events(pair: PairResult) -> Figure:
    """Both timelines as strips, one line an owner; matched events are joined, others stand alone in their colour."""
    owners = list(dict.fromkeys(event.of for event in pair.events))
    figure, (axes,) = _sheet(1.1 + 1.15 * len(owners), f"Events: {pair.real.source or pair.real.id[:8]} and its twin")
    for row, owner in enumerate(owners):
        base = -1.6 * row
        axes.text(-0.01, base, "real  ", transform=axes.get_yaxis_transform(), ha="right", va="center", fontsize=8)
        axes.text(
            -0.01, base - 0.6, "twin  ", transform=axes.get_yaxis_transform(), ha="right", va="center", fontsize=8
        )
        axes.text(0.0, base + 0.62, owner, transform=axes.get_yaxis_transform(), fontsize=9, color=BLACK, weight="bold")
        axes.axhline(base, color=FAINT, lw=5, zorder=0)
        axes.axhline(base - 0.6, color=FAINT, lw=5, zorder=0)
        for place, event in enumerate(event for event in pair.events if event.of == owner):
            colour = VERDICTS[event.verdict]
            times = [t for t in (event.real_s, event.sim_s) if t is not None]
            levels = [y for t, y in ((event.real_s, base), (event.sim_s, base - 0.6)) if t is not None]
            axes.plot(times, levels, "-o", color=colour, ms=6, lw=1.4)
            text = event.name if event.verdict == "same" else f"{event.name}: {event.verdict}"
            axes.text(min(times), base + 0.16 + 0.22 * (place % 2), f" {text}", fontsize=8, color=BLACK)
    if pair.overall.onset is not None:
        axes.axvspan(pair.overall.onset.low_s, pair.overall.onset.high_s, color=GREY, alpha=0.2, lw=0)
        axes.axvline(pair.overall.onset.time_s, color=BLACK, ls="--", lw=1)
        axes.text(pair.overall.onset.time_s, 1.0, " divergence starts", fontsize=8, color=BLACK)
    axes.set(xlabel="real time / s", yticks=[], ylim=(-1.6 * (len(owners) - 1) - 0.95, 1.25))
    ends = [t for event in pair.events for t in (event.real_s, event.sim_s) if t is not None]
    start, end = (f([*ends, *pair.overall.gap.time_s[[0, -1]]]) for f in (min, max))
    axes.set_xlim(start, end + 0.06 * (end - start))
    axes.spines["left"].set_visible(False)
    return figure
