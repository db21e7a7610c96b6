"""Pictures of parameters: before and after, how they hang together, and what the recording leaves open."""

from __future__ import annotations

import itertools
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.identify.identifiability import WEAK
from twinproof.identify.plots_style import (
    BLACK,
    BLUE,
    FAINT,
    GREY,
    ORANGE,
    SMALL,
    VERMILLION,
    interval,
    legend_below,
    log_axis,
    number,
    paged,
    save,
    sheet,
    shortened,
    ticks_in_si,
    unit_of,
)
from twinproof.nouns.belief import weighted_quantile

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from twinproof.identify.beliefs import Belief
    from twinproof.identify.fit import Fit
    from twinproof.identify.infer import Found
    from twinproof.nouns.posterior import Posterior

PAGE = 20  # parameters in one picture
ACROSS = 4
TITLE = 42  # characters over one parameter
BINS = 36
NARROWEST = 1e-4  # half of the view, as a share of the prior's range: below, ticks would all read alike
CLOSE = 0.35  # a posterior narrower than this share of the prior's range is drawn from nearby
MOST_PAIRED = 8
MOST_DOTS = 500
MOST_BARS = 8
WEAKEST = 3
LEAST_PART = 0.02  # of a direction, to get a bar
FLOOR = 1e-4  # information below this is drawn there: the prior is ten thousand times surer
THRESHOLD = 1 / WEAK**2 - 1  # information that leaves WEAK of the prior's sd


def draw_priors(found: Found, folder: Path) -> list[Path]:
    """What was believed of every parameter before and after, page by page."""
    told = _noun(found)
    count = len(found.problem.beliefs)
    pages = paged(count, PAGE, lambda k: "prior_posterior.png" if k == 0 else f"prior_posterior_{k + 1}.png")
    return [_draw_page(found, told, range(count)[part], folder / name) for part, name in pages]


def _noun(found: Found) -> Posterior:
    """The posterior as it is written down: it knows the intervals and what is unidentified."""
    episodes = tuple(each.id for each in found.problem.experiments)
    return found.posterior(episodes=episodes, parents={}, diagnostics={}, settings={}, method="", seed=0)


def _draw_page(found: Found, told: Posterior, places: range, path: Path) -> Path:
    across = min(ACROSS, len(places))
    rows = -(-len(places) // across)
    figure = sheet(max(6.5, 0.4 + 3.0 * across), 0.9 + 2.25 * rows, "Before and after the recording")
    grid = figure.add_gridspec(rows, across)
    for k, p in enumerate(places):
        inner = grid[k // across, k % across].subgridspec(2, 1, height_ratios=[1, 7], hspace=0.02)
        strip, axes = figure.add_subplot(inner[0]), figure.add_subplot(inner[1])
        _parameter(strip, axes, found, told, p)
    _prior_legend(figure, found)
    return save(figure, path)


def _parameter(strip: Axes, axes: Axes, found: Found, told: Posterior, p: int) -> None:
    """One parameter: a strip over the whole prior, and below it the posterior from nearby."""
    belief = found.problem.beliefs[p]
    info, open_ = belief.info, belief.id in told.unidentified
    colour = GREY if open_ else BLUE
    draws, weights = info.to_scale(found.draws[:, p]), np.exp(told.log_weights)
    low, high = (float(x) for x in info.to_scale(np.array(told.interval(belief.id))))
    family = found.population
    new = members = None
    if family is not None and belief.id in family.parameters:
        column = family.parameters.index(belief.id)
        new = info.to_scale(family.predictive[:, column])
        members = info.to_scale(np.median(family.values[:, :, column], axis=0))
    parts = [draws] if new is None else [draws, new]
    view = _view(belief, np.concatenate(parts), np.tile(weights, len(parts)))
    _strip(strip, belief, (low, high), view, colour)
    edges = np.linspace(*view, BINS + 1)
    heights = np.histogram(draws, edges, weights=weights)[0] / np.diff(edges)
    axes.stairs(heights, edges, fill=True, color=colour, alpha=0.25)
    inside = [(max(a, low), min(b, high)) for a, b in itertools.pairwise(edges)]
    for (a, b), height in zip(inside, heights, strict=True):
        if b > a:
            axes.fill_between([a, b], [height, height], color=colour, alpha=0.55, linewidth=0)
    if new is not None and members is not None:
        axes.stairs(np.histogram(new, edges, weights=weights)[0] / np.diff(edges), edges, color=VERMILLION, lw=1.4)
        axes.plot(members, np.zeros(len(members)), "|", color=VERMILLION, markersize=14, clip_on=False)
    x = np.linspace(*view, 200)
    axes.plot(x, _density(belief, x), color=BLACK, linewidth=1)
    nominal = float(info.to_scale(belief.nominal))
    if view[0] <= nominal <= view[1]:
        axes.axvline(nominal, color=ORANGE, linestyle="--", linewidth=1.3)
    axes.set(xlim=view, ylim=(0, None), yticks=[])
    axes.spines["left"].set_visible(False)
    ticks_in_si(axes.xaxis, info)
    if open_:
        style: dict[str, Any] = {"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}
        axes.text(0.5, 0.5, "not determined", transform=axes.transAxes, ha="center", va="center", bbox=style)
    a, b = told.interval(belief.id)
    about = "\n".join(textwrap.wrap(f"{interval(a, b)} {unit_of(info)}", TITLE))
    strip.set_title(f"{shortened(belief.id, TITLE)}\n{about}", fontsize=SMALL)


def _view(belief: Belief, draws: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """The whole prior, or the draws with some room where they are close together."""
    low, high = belief.span
    near, far = (weighted_quantile(draws, weights, share) for share in (0.002, 0.998))
    room = 0.25 * (far - near) + NARROWEST * (high - low)
    if far - near + 2 * room > CLOSE * (high - low):
        return low, high
    return max(low, near - room), min(high, far + room)


def _strip(axes: Axes, belief: Belief, interval: tuple[float, float], view: tuple[float, float], colour: str) -> None:
    """The prior's whole range, where on it the posterior lies, and which part is drawn below."""
    low, high = belief.span
    axes.axvspan(low, high, color=FAINT, alpha=0.6, linewidth=0)
    axes.axvspan(*view, color=GREY, alpha=0.25, linewidth=0)
    least = 0.008 * (high - low)  # a narrow interval stays visible
    middle, half = sum(interval) / 2, max((interval[1] - interval[0]) / 2, least / 2)
    axes.axvspan(middle - half, middle + half, color=colour, linewidth=0)
    axes.axvline(float(belief.info.to_scale(belief.nominal)), color=ORANGE, linestyle="--", linewidth=1.3)
    axes.set(xlim=(low, high), xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set_visible(False)
    info = belief.info
    for x, side, value in ((0.0, "left", info.low), (1.0, "right", info.high)):
        axes.annotate(
            number(value), (x, 0.5), (3 if side == "left" else -3, 0), xycoords="axes fraction",
            textcoords="offset points", ha=side, va="center_baseline", fontsize=SMALL, color=BLACK,
        )  # fmt: skip


def _density(belief: Belief, x: np.ndarray) -> np.ndarray:
    """The prior's density on the natural scale."""
    low, high = belief.span
    if belief.prior.shape == "uniform":
        return np.where((x >= low) & (x <= high), 1 / (high - low), 0.0)
    values = belief.info.from_scale(x)
    step = 1e-4 * (high - low)
    after = belief.info.from_scale(np.minimum(x + step, high))
    share = belief.prior.cumulative(belief.info, after) - belief.prior.cumulative(belief.info, values)
    return np.asarray(share / step)


def _prior_legend(figure: Figure, found: Found) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [
        Patch(color=FAINT, label="range of the prior"),
        Line2D([], [], color=BLACK, linewidth=1, label="prior"),
        Patch(color=BLUE, alpha=0.65, label="posterior, 90 % dark"),
        Patch(color=GREY, alpha=0.65, label="not determined"),
        Line2D([], [], color=ORANGE, linestyle="--", label="nominal"),
    ]
    if found.population is not None:
        family = found.population.family
        handles[2].set_label("posterior of the centre, 90 % dark")
        handles.append(Line2D([], [], color=VERMILLION, label=f"a new {family}"))
        handles.append(
            Line2D([], [], color=VERMILLION, marker="|", markersize=9, linestyle="", label=f"each {family} measured")
        )
    legend_below(figure, handles)


def paired(draws: np.ndarray, weights: np.ndarray, most: int = MOST_PAIRED) -> tuple[list[int], np.ndarray]:
    """The unknowns in the strongest correlations, in their own order, and all correlations (G, G)."""
    centred = draws - weights @ draws
    covariance = (centred * weights[:, None]).T @ centred
    sd = np.sqrt(np.diag(covariance))
    told = sd > 1e-12 * np.maximum(np.abs(draws).max(axis=0), 1e-300)
    scale = np.where(told, sd, np.inf)
    correlation = covariance / np.outer(scale, scale)
    strength = np.abs(np.triu(correlation, 1))
    chosen: list[int] = []
    for flat in np.argsort(-strength, axis=None, kind="stable"):
        for u in divmod(int(flat), len(sd)):
            if u not in chosen and len(chosen) < most and told[u]:
                chosen.append(u)
    return sorted(chosen), correlation


def draw_pairs(found: Found, path: Path) -> Path:
    """Scatter below, histograms between, correlations above, of the unknowns that hang together most."""
    problem, weights = found.problem, np.exp(found.drawn.log_weights)
    draws = found.drawn.unknowns
    chosen, correlation = paired(draws, weights / weights.sum())
    size = len(chosen)
    some = "" if size == len(problem.names) else f": the {size} of {len(problem.names)} unknowns most tied together"
    figure = sheet(max(6.0, 1.2 + 1.4 * size), max(4.5, 1.0 + 1.4 * size), f"Posterior draws in pairs{some}")
    shares = (np.arange(MOST_DOTS) + 0.5) / MOST_DOTS
    dots = draws[np.minimum(np.searchsorted(np.cumsum(weights), shares), len(draws) - 1)]
    for row, u in enumerate(chosen):
        for column, v in enumerate(chosen):
            axes = figure.add_subplot(size, size, row * size + column + 1)
            if column > row:
                _correlation(axes, float(correlation[u, v]))
                continue
            if column == row:
                axes.hist(draws[:, u], 24, weights=weights, color=BLUE, alpha=0.6)
                axes.spines["left"].set_visible(False)
                axes.set_yticks([])
            else:
                axes.plot(dots[:, v], dots[:, u], ".", color=BLUE, markersize=2, alpha=0.5)
                _pair_ticks(axes.yaxis, problem, u, column == 0)
            _pair_ticks(axes.xaxis, problem, v, row == size - 1)
            if row == size - 1:
                axes.set_xlabel(_pair_label(problem, v), fontsize=SMALL)
                axes.tick_params(axis="x", rotation=90)
            if column == 0:
                axes.set_ylabel(_pair_label(problem, u), fontsize=SMALL)
    figure.align_labels()
    return save(figure, path)


def _pair_label(problem: Any, u: int) -> str:
    unit = unit_of(problem.beliefs[problem.parameter_of[u]].info)
    return "\n".join([shortened(problem.names[u], 14), *textwrap.wrap(unit, 16)])


def _pair_ticks(axis: Any, problem: Any, u: int, labelled: bool) -> None:
    ticks_in_si(axis, problem.beliefs[problem.parameter_of[u]].info, 2)
    if not labelled:
        axis.set_ticklabels([])


def _correlation(axes: Axes, rho: float) -> None:
    import matplotlib

    axes.set(xticks=[], yticks=[], facecolor=matplotlib.colormaps["PuOr"](0.5 + 0.4 * rho))
    for spine in axes.spines.values():
        spine.set_visible(False)
    ink = "white" if abs(rho) > 0.6 else BLACK
    axes.text(0.5, 0.5, f"{rho:+.2f}", transform=axes.transAxes, ha="center", va="center", color=ink)


def draw_weak(fitted: Fit, path: Path) -> Path:
    """How much the recording says along each direction of the unknowns, and what the least told ones are made of."""
    from matplotlib.ticker import MaxNLocator

    problem = fitted.problem
    width = problem.width
    values, vectors = np.linalg.eigh(fitted.information * np.outer(width, width))
    count = min(WEAKEST, len(values))
    bars = min(MOST_BARS, len(values))
    figure = sheet(12.5, max(4.2, 1.2 + count * (0.5 + 0.2 * bars)), "What the recording says, direction by direction")
    grid = figure.add_gridspec(count, 2, width_ratios=[1, 1.15])
    axes = figure.add_subplot(grid[:, 0])
    shown = np.maximum(values[::-1], FLOOR)
    place = np.arange(1, len(values) + 1)
    weak = shown < THRESHOLD
    axes.plot(place[~weak], shown[~weak], "o", color=BLUE, markersize=5, label="determined")
    if weak.any():
        axes.plot(place[weak], shown[weak], "X", color=VERMILLION, markersize=7, label="weak")
    axes.axhline(
        THRESHOLD, color=BLACK, linestyle="--", linewidth=1, label=f"{_percent(WEAK)} of the prior's sd remains"
    )
    axes.set(xlabel="direction, the best told first", xlim=(0.4, len(values) + 0.6))
    axes.set_ylabel("information in units of the prior's\n(1: as much as the prior)")
    log_axis(axes, "y", min(0.5, float(shown.min())), max(10.0, float(shown.max())))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(axis="y", alpha=0.25)
    axes.legend(loc="lower left")
    for k in range(count):
        _direction(figure.add_subplot(grid[k, 1]), problem, float(values[k]), vectors[:, k], bars, k)
    return save(figure, path)


def _direction(axes: Axes, problem: Any, value: float, parts: np.ndarray, bars: int, rank: int) -> None:
    order = np.argsort(-np.abs(parts), kind="stable")[:bars]
    order = order[np.abs(parts[order]) >= LEAST_PART]
    parts = parts * np.sign(parts[order[0]])
    sd = 1 / np.sqrt(max(value, 0.0) + 1.0)
    colour = VERMILLION if sd > WEAK else BLUE
    place = np.arange(len(order))
    axes.barh(place, parts[order], color=colour, height=0.7)
    axes.axvline(0, color=GREY, linewidth=1)
    axes.set_yticks(place, [problem.names[u] for u in order])
    axes.set(xlim=(-1.05, 1.05), ylim=(bars - 0.4, -0.6))
    name = ("told least", "told second least", "told third least")[rank]
    axes.set_title(f"{name}: {_percent(sd)} of the prior's sd remains along it", color=colour)
    axes.tick_params(axis="x", labelbottom=rank == min(WEAKEST, len(parts)) - 1)
    if rank == min(WEAKEST, len(parts)) - 1:
        axes.set_xlabel("part in the direction, each in its prior's sd")


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.995 else "100 %"
