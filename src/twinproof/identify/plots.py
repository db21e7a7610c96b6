"""All pictures of an answer, PNGs in a new folder: what fits, what was learnt, what stays open, what is predicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.identify.plots_fit import BAND, draw_fits, draw_spectra, signals_of
from twinproof.identify.plots_parameters import draw_pairs, draw_priors, draw_weak
from twinproof.identify.plots_style import (
    BLACK,
    BLUE,
    GREY,
    LINES,
    LOOK,
    VERMILLION,
    legend_below,
    log_axis,
    save,
    sheet,
)
from twinproof.nouns.files import new_folder
from twinproof.nouns.hashing import Json

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from twinproof.identify.infer import Found


def draw_all(
    found: Found, folder: Path, validation: Json | None = None, ranked: Json | None = None
) -> tuple[Path, ...]:
    """Draws everything into a new folder, all of it or nothing, and returns the pictures' paths.

    fit_SIGNAL.png          measured and simulated, with the residuals
    prior_posterior.png     what was believed before and after; from the second page on prior_posterior_2.png, …
    pairs.png               how the unknowns hang together, where there are two or more
    weak_directions.png     what the recording says of combinations of unknowns
    residual_spectra.png    what the fit leaves over, where windows are long enough
    predictive.png          how bands cover unseen episodes, where `validation` (of `Found.coverage_on`) tells
    delay_scan.png          where a delay was asked for
    calibration_ranks.png   where truths rank, with a calibration check (`ranked`, of the posterior's diagnostics)
    """
    import matplotlib

    scan = found.diagnostics.get("delay_scan")
    with new_folder(folder) as scratch, matplotlib.rc_context(LOOK):
        paths = draw_fits(found, scratch)
        paths += draw_priors(found, scratch)
        if len(found.problem.names) > 1:
            paths.append(draw_pairs(found, scratch / "pairs.png"))
        paths.append(draw_weak(found.fitted, scratch / "weak_directions.png"))
        paths += draw_spectra(found, scratch)
        if validation is not None and validation["by_signal"]:
            paths.append(draw_predictive(found, validation, scratch / "predictive.png"))
        if scan:
            paths.append(draw_delays(scan, scratch / "delay_scan.png"))
        if ranked is not None:
            paths.append(draw_ranks(ranked, scratch / "calibration_ranks.png"))
    return tuple(folder / path.name for path in paths)


def draw_predictive(found: Found, validation: Json, path: Path) -> Path:
    """Above: the share of unseen readings inside the bands, by horizon. Below: how far off, and how wide the bands."""
    names = sorted(signals_of(found.fitted), key=len, reverse=True)
    groups: dict[tuple[str, str], dict[str, list[Mapping[str, Any]]]] = {}
    for row in validation["by_signal"]:
        entry = str(row["signal"])
        signal = next((name for name in names if entry.startswith(f"{name}.")), entry.rpartition(".")[0])
        groups.setdefault((signal, str(row["unit"])), {}).setdefault(entry, []).append(row)
    columns = min(4, len(groups))
    blocks = -(-len(groups) // columns)
    level, episodes = float(validation["level"]), len(validation["episodes"])
    title = f"Predictions of {episodes} unseen episode{'s' if episodes != 1 else ''}: {100 * level:g} % bands"
    if validation.get("covered") is not None:
        title += f" cover {100 * validation['covered']:.0f} % of readings"
    figure = sheet(max(6.5, 0.6 + 3.3 * columns), 0.9 + 5.6 * blocks, title)
    grid = figure.add_gridspec(2 * blocks, columns)
    for k, ((signal, unit), members) in enumerate(groups.items()):
        block, column = divmod(k, columns)
        share = figure.add_subplot(grid[2 * block, column])
        error = figure.add_subplot(grid[2 * block + 1, column], sharex=share)
        for n, (entry, rows) in enumerate(members.items()):
            colour = LINES[n % len(LINES)]
            horizon = [row["horizon_s"] for row in rows]
            label = entry.removeprefix(signal + ".")
            share.plot(horizon, [row["covered"] for row in rows], "o-", color=colour, markersize=3.5, label=label)
            error.plot(horizon, [row["rms"] for row in rows], "o-", color=colour, markersize=3.5)
            # a band that fits has an rms of its half width over 1.645
            error.plot(horizon, [row["band"] / 2 / BAND for row in rows], "--", color=colour, linewidth=1)
        share.axhline(level, color=BLACK, linestyle="--", linewidth=1)
        share.set(ylim=(0, 1.03), title=f"{signal}, {unit}")
        share.tick_params(labelbottom=False)
        error.set(xlabel="horizon, s", ylabel=f"error, {unit}")
        if column == 0:
            share.set_ylabel("share inside the band")
        for axes in (share, error):
            axes.grid(alpha=0.25)
        every = [row for rows in members.values() for row in rows]
        sizes = [size for row in every for size in (row["rms"], row["band"] / 2 / BAND) if size > 0]
        log_axis(error, "y", min(sizes, default=1.0), max(sizes, default=1.0))
        _plain_horizons(error, sorted({row["horizon_s"] for row in every}))
        error.legend(*share.get_legend_handles_labels(), loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=3)
    _key(figure, level)
    return save(figure, path)


def _plain_horizons(axes: Axes, horizons_s: Sequence[float]) -> None:
    from matplotlib.ticker import NullLocator

    every = 1 if len(horizons_s) < 6 else 2
    log_axis(axes, "x", horizons_s[0], horizons_s[-1])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(list(horizons_s[::every]), labels=[f"{h:g}" for h in horizons_s[::every]])


def _key(figure: Figure, level: float) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=GREY, marker="o", markersize=3.5, label="above: covered; below: rms error"),
        Line2D([], [], color=GREY, linestyle="--", linewidth=1, label="below: rms error that the band expects"),
        Line2D([], [], color=BLACK, linestyle="--", linewidth=1, label=f"{100 * level:g} %"),
    ]
    legend_below(figure, handles)


def draw_delays(scan: Json, path: Path) -> Path:
    """The misfit of short windows by the common delay that was tried."""
    delay_ms = 1e3 * np.array([row[0] for row in scan], dtype=float)
    misfit = np.array([row[1] for row in scan], dtype=float)
    best = int(np.argmin(misfit))
    figure = sheet(6.5, 3.8, f"Delay scan: of those tried, {delay_ms[best]:g} ms fits best")
    axes = figure.add_subplot()
    axes.plot(delay_ms, misfit, "o-", color=BLUE, markersize=4)
    axes.plot(delay_ms[best], misfit[best], "o", color=VERMILLION, markersize=9)
    axes.set(xlabel="delay of all commands, ms", ylabel="misfit above the best\n(log likelihood)")
    axes.set_ylim(bottom=-0.06 * max(float(misfit.max()), 1.0))
    axes.grid(alpha=0.25)
    return save(figure, path)


def draw_ranks(ranked: Json, path: Path) -> Path:
    """For every unknown the share of truths below each rank; inside the grey band nine even samples in ten stay."""
    from scipy.stats import beta

    told = ranked["unknowns"]
    columns = min(4, len(told))
    rows = -(-len(told) // columns)
    figure = sheet(
        max(6.5, 0.6 + 2.6 * columns),
        1.0 + 2.7 * rows,
        f"Ranks of truths in {ranked['recordings']} simulated recordings: 90 % intervals cover {ranked['covered']:.0%}",
    )
    count = int(ranked["recordings"])
    share = np.arange(1, count + 1) / count
    low, high = (beta.ppf(q, np.arange(1, count + 1), count - np.arange(count)) for q in (0.05, 0.95))
    for k, (name, each) in enumerate(told.items()):
        axes = figure.add_subplot(rows, columns, k + 1)
        axes.fill_betweenx(share, low, high, color=GREY, alpha=0.25, linewidth=0)
        axes.plot([0, 1], [0, 1], "--", color=BLACK, linewidth=1)
        axes.step(np.sort(np.array(each["ranks"], dtype=float)), share, where="post", color=BLUE)
        axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="rank", title=f"{name}\np = {each['p_value']:.2g}")
        if k % columns == 0:
            axes.set_ylabel("share of truths")
        axes.grid(alpha=0.25)
    return save(figure, path)
