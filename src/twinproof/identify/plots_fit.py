"""Pictures of signals: the fit laid over what was measured, and the spectra of what it leaves."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from twinproof.identify.plots_style import (
    BLACK,
    BLUE,
    FAINT,
    GREY,
    LINES,
    ORANGE,
    VERMILLION,
    legend_below,
    log_axis,
    plain_numbers,
    save,
    sheet,
)
from twinproof.identify.predict import noise_by_entry
from twinproof.identify.weigh import Stage
from twinproof.identify.whiteness import spectrum
from twinproof.sim.predictive import LEVEL

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from twinproof.identify.fit import Fit
    from twinproof.identify.infer import Found
    from twinproof.sim.experiment import Experiment
    from twinproof.sim.readings import Reading

MOST_COLUMNS = 8  # of a signal in one picture: those that fit worst
MOST_EPISODES, MOST_PANELS = 4, 16
MOST_LETTERS = 42
SHOWN_S = 6.0  # of a longer episode its worst stretch is drawn: dots must stay apart
BAND = float(ndtri(0.5 + LEVEL / 2))  # half of the 90 % band, in sd
LEAST_SAMPLES = 8  # of a stretch whose spectrum is taken
PER_DECADE = 12  # points of a spectrum: more would hide one signal behind the other


@dataclass(frozen=True, eq=False)
class Trace:
    """One entry in one episode: what was measured and what the best parameters say, window by window."""

    time_s: np.ndarray
    measured: np.ndarray
    gap: np.ndarray
    window: np.ndarray

    def simulated(self) -> tuple[np.ndarray, np.ndarray]:
        """Times and values for a line that is broken where a new window begins."""
        cuts = np.flatnonzero(np.diff(self.window)) + 1
        return np.insert(self.time_s, cuts, np.nan), np.insert(self.measured - self.gap, cuts, np.nan)


@dataclass(frozen=True)
class Stretch:
    """The windows of an episode that are drawn."""

    episode: int
    windows: tuple[int, ...]


def signals_of(fitted: Fit) -> dict[str, list[str]]:
    """Each signal's entries, in the order of the recording."""
    found: dict[str, list[str]] = {}
    for each in fitted.problem.experiments:
        for reading in each.readings:
            known = found.setdefault(reading.name, [])
            known += [entry for entry in reading.entries if entry not in known]
    return found


def file_name(signal: str, taken: Sequence[str] = ()) -> str:
    """The picture of a signal's fit: odd characters become a line, and a name that is taken gets a number."""
    stem = f"fit_{re.sub(r'[^A-Za-z0-9.-]+', '_', signal).strip('_') or 'signal'}"
    names = itertools.chain([f"{stem}.png"], (f"{stem}_{k}.png" for k in itertools.count(2)))
    return next(name for name in names if name not in taken)


def draw_fits(found: Found, folder: Path) -> list[Path]:
    """One picture for each signal that was compared."""
    fitted = found.fitted
    stretches, paths, noise = _stretches(fitted), list[Path](), noise_by_entry(fitted)
    for signal, entries in signals_of(fitted).items():
        drawable = [each for each in entries if any(_reading(x, each) for x in fitted.problem.experiments)]
        shown = _worst(fitted, drawable, noise)
        if shown:
            some = (
                "" if len(shown) == len(drawable) else f": the {len(shown)} of {len(drawable)} columns that fit worst"
            )
            path = folder / file_name(signal, [each.name for each in paths])
            figure = _fit(found, signal, {each: noise[each] for each in shown}, stretches, f"Fit of {signal}{some}")
            paths.append(save(figure, path))
    return paths


def _stage(fitted: Fit) -> tuple[Stage, np.ndarray]:
    """The stage of the longest windows, and its gaps at the best parameters from the fitted starts."""
    stage = fitted.stages[-1]
    assert stage.linear is not None
    return stage, stage.linear.gap


def _stretches(fitted: Fit) -> list[Stretch]:
    """Episodes from the best fit to the worst, and of each the stretch to draw: all of it, or where it fits worst."""
    stage, gap = _stage(fitted)
    shooting = stage.shooting
    square = np.square(np.nan_to_num(gap / stage.sd[shooting.entry], nan=0.0))
    total = np.bincount(shooting.window, square, shooting.windows)
    count = np.maximum(np.bincount(shooting.window, minlength=shooting.windows), 1)
    rank = np.argsort(
        [total[shooting.episode == e].sum() / count[shooting.episode == e].sum() for e in _episodes(fitted)]
    )
    chosen = np.unique(rank[np.linspace(0, len(rank) - 1, min(MOST_EPISODES, len(rank))).round().astype(int)])
    found = []
    for e in chosen:
        mine = np.flatnonzero(shooting.episode == e)
        length_s = float(shooting.length[mine].max() * shooting.step_s)
        most = min(len(mine), max(1, int(SHOWN_S / length_s + 1e-6)))
        sums = np.convolve(total[mine], np.ones(most), "valid")
        first = int(np.argmax(sums))
        found.append(Stretch(int(e), tuple(int(w) for w in mine[first : first + most])))
    return found


def _episodes(fitted: Fit) -> range:
    return range(len(fitted.problem.experiments))


def _reading(experiment: Experiment, entry: str) -> tuple[Reading, int] | None:
    """The episode's reading that has this entry, and the entry's place in it. A pose's turns have no value to draw."""
    for reading in experiment.readings:
        if entry in reading.entries:
            k = reading.entries.index(entry)
            return None if reading.kind == "pose" and k >= 3 else (reading, k)
    return None


def trace(fitted: Fit, stretch: Stretch, entry: str) -> Trace | None:
    """What was measured and simulated of one entry; None where the episode has no such reading."""
    stage, gap = _stage(fitted)
    shooting = stage.shooting
    place = _reading(shooting.experiments[stretch.episode], entry)
    if place is None:
        return None
    reading, column = place
    rows = np.flatnonzero((shooting.entry == shooting.entries.index(entry)) & np.isin(shooting.window, stretch.windows))
    if not rows.size:
        return None
    window = shooting.window[rows]
    time_s = shooting.begin_s[window] + shooting.horizon[rows]
    sample = np.minimum(np.searchsorted(reading.time_s, time_s - 1e-6), len(reading.time_s) - 1)
    return Trace(time_s, reading.value[sample, column], gap[rows], window)


def _fit(found: Found, signal: str, noise: Mapping[str, float], stretches: Sequence[Stretch], title: str) -> Figure:
    """A row for each entry, a column for each episode. `noise` names the entries and their sensors' noise."""
    fitted = found.fitted
    columns = min(len(stretches), max(1, MOST_PANELS // len(noise)))
    stretches = [stretches[k] for k in np.linspace(0, len(stretches) - 1, columns).round().astype(int)]
    rows = len(noise)
    figure = sheet(max(6.5, 1.2 + 3.2 * columns), 1.8 + 2.3 * rows, title)
    grid = figure.add_gridspec(2 * rows, columns, height_ratios=[3, 1.3] * rows)
    for r, (entry, sd) in enumerate(noise.items()):
        pairs: list[tuple[Axes, Axes]] = []
        traces: list[Trace | None] = []
        for c, stretch in enumerate(stretches):
            above = figure.add_subplot(grid[2 * r, c])
            below = figure.add_subplot(grid[2 * r + 1, c], sharex=above, sharey=pairs[0][1] if pairs else None)
            pairs.append((above, below))
            traces.append(trace(fitted, stretch, entry))
            _overlay(above, below, fitted, stretch, traces[-1], sd)
            above.tick_params(labelbottom=False)
            below.tick_params(labelbottom=r == rows - 1, labelleft=c == 0)
            if r == 0:
                above.set_title(_about(found, stretch))
            if r == rows - 1:
                below.set_xlabel("time, s")
        unit = fitted.stages[-1].shooting.units[fitted.stages[-1].shooting.entries.index(entry)]
        pairs[0][0].set_ylabel(f"{entry.removeprefix(signal + '.')}, {unit}")
        pairs[0][1].set_ylabel(f"residual\n{unit}")
        _limits(pairs, traces, sd)
    figure.align_ylabels()
    _legend(figure, any(len(each.windows) > 1 for each in stretches))
    return figure


def _worst(fitted: Fit, entries: Sequence[str], noise: Mapping[str, float]) -> list[str]:
    """The entries whose residuals are largest against their sensor's noise, in their own order."""
    stage, gap = _stage(fitted)
    shooting, seen = stage.shooting, np.isfinite(gap)
    size = {
        entry: float(np.sqrt(np.mean(np.square(gap[seen & (shooting.entry == shooting.entries.index(entry))]))))
        / noise[entry]
        for entry in entries
        if (seen & (shooting.entry == shooting.entries.index(entry))).any()
    }
    kept = sorted(size, key=lambda entry: -size[entry])[:MOST_COLUMNS]
    return [entry for entry in entries if entry in kept]


def _about(found: Found, stretch: Stretch) -> str:
    """The episode's id, its object or task, what it was recognised as, and which part of it is drawn."""
    each = found.problem.experiments[stretch.episode]
    stage, _ = _stage(found.fitted)
    shooting, windows = stage.shooting, list(stretch.windows)
    label = each.labels.get("object") or each.labels.get("task") or ""
    told: Any = found.diagnostics.get("episodes") or []
    kind = next((str(row["kind"]) for row in told if row["id"] == each.id), "")
    whole = len(windows) == int((shooting.episode == stretch.episode).sum())
    begin = float(shooting.begin_s[windows[0]])
    end = float(shooting.begin_s[windows[-1]] + shooting.length[windows[-1]] * shooting.step_s)
    part = "" if whole else f"worst part, {begin:.1f} to {end:.1f} s"
    return "\n".join(filter(None, (", ".join(filter(None, (each.id[:8], kind, part))), label[:MOST_LETTERS])))


def _overlay(above: Axes, below: Axes, fitted: Fit, stretch: Stretch, told: Trace | None, noise: float) -> None:
    plain_numbers(above)
    plain_numbers(below)
    if told is None:
        above.text(0.5, 0.5, "not recorded", transform=above.transAxes, ha="center", color=GREY)
        return
    shooting = fitted.stages[-1].shooting
    for axes in (above, below):
        for begin in shooting.begin_s[list(stretch.windows[1:])]:
            axes.axvline(begin, color=FAINT, linewidth=1, zorder=0)
    above.plot(told.time_s, told.measured, ".", color=BLACK, markersize=3, zorder=2)
    above.plot(*told.simulated(), color=ORANGE, linewidth=1, zorder=3)
    above.set_xlim(told.time_s[0], told.time_s[-1])
    below.axhspan(-BAND * noise, BAND * noise, color=BLUE, alpha=0.2, linewidth=0)
    below.plot(told.time_s, told.gap, ".", color=VERMILLION, markersize=2)


def _limits(pairs: Sequence[tuple[Axes, Axes]], traces: Sequence[Trace | None], noise: float) -> None:
    """What was measured decides the view: a simulation that runs away must not squash it."""
    known = [each for each in traces if each is not None]
    if not known:
        return
    wide = 0.0
    for (above, _), each in zip(pairs, traces, strict=True):
        if each is not None:
            low, high = float(each.measured.min()), float(each.measured.max())
            room, wide = 0.08 * (high - low) + 4 * noise, max(wide, high - low)
            above.set_ylim(low - room, high + room)
    gap = np.abs(np.concatenate([each.gap for each in known]))
    most = float(np.max(gap[np.isfinite(gap)], initial=0.0))
    half = max(1.1 * min(most, wide + 8 * noise), 1.6 * BAND * noise)
    pairs[0][1].set_ylim(-half, half)


def _legend(figure: Figure, seams: bool) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [
        Line2D([], [], color=BLACK, marker=".", linestyle="", label="measured"),
        Line2D([], [], color=ORANGE, label="simulated open loop from each window's fitted start"),
        Line2D([], [], color=VERMILLION, marker=".", linestyle="", label="residual: measured − simulated"),
        Patch(color=BLUE, alpha=0.2, label="90 % of the sensor's noise"),
    ]
    if seams:
        handles.append(Line2D([], [], color=GREY, linewidth=1, label="a new window"))
    legend_below(figure, handles)


def draw_spectra(found: Found, folder: Path) -> list[Path]:
    """Residual power of every entry over what its sensor's noise alone would give: white and explained is one.

    Nothing is drawn where all windows are too short.
    """
    fitted = found.fitted
    noise = noise_by_entry(fitted)
    groups: dict[str, dict[str, tuple[np.ndarray, np.ndarray]]] = {}
    for signal, entries in signals_of(fitted).items():
        lines = {entry: _spectrum(fitted, entry, noise[entry]) for entry in _worst(fitted, entries, noise)}
        known = {entry: line for entry, line in lines.items() if line is not None}
        if known:
            groups[signal] = known
    if not groups:
        return []
    columns = min(3, len(groups))
    rows = -(-len(groups) // columns)
    figure = sheet(max(6.5, 0.6 + 4.0 * columns), 0.8 + 3.6 * rows, "Residual spectra against the sensors' noise")
    for k, (signal, known) in enumerate(groups.items()):
        axes = figure.add_subplot(rows, columns, k + 1)
        for n, (entry, (frequency, power)) in enumerate(known.items()):
            label = entry.removeprefix(signal + ".") + _colour_of(found, entry)
            axes.plot(frequency, power, color=LINES[n], linewidth=1.4, label=label)
        axes.axhline(1.0, color=BLACK, linestyle="--", linewidth=1, label="sensor noise alone")
        axes.set(xlabel="frequency, Hz", title=signal)
        paces, heights = (np.concatenate(part) for part in zip(*known.values(), strict=True))
        log_axis(axes, "y", max(float(heights.min()), 1e-3), max(float(heights.max()), 1.0))
        log_axis(axes, "x", float(paces.min()), float(paces.max()))
        if k % columns == 0:
            axes.set_ylabel("power / power of the sensor's noise")
        axes.grid(alpha=0.25)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
    return [save(figure, folder / "residual_spectra.png")]


def _spectrum(fitted: Fit, entry: str, noise: float) -> tuple[np.ndarray, np.ndarray] | None:
    parts, step_s = _residuals(fitted, entry)
    if not parts:
        return None
    frequency, density = spectrum(parts, step_s)
    level = 2 * step_s * noise**2  # of one-sided power density
    return _thinned(frequency, density / level)


def _colour_of(found: Found, entry: str) -> str:
    whiteness: Any = found.diagnostics.get("whiteness") or {}
    if entry not in whiteness:
        return ""
    return ", white" if whiteness[entry]["white"] else f", peak at {whiteness[entry]['peak_hz']:.2g} Hz"


def _thinned(frequency: np.ndarray, density: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean power in bins of equal width on a logarithmic axis, without the power at rest."""
    frequency, density = frequency[1:], density[1:]
    bins = np.floor(PER_DECADE * np.log10(frequency / frequency[0]) + 1e-9)
    cuts = np.r_[0, np.flatnonzero(np.diff(bins)) + 1]
    count = np.diff(np.r_[cuts, len(bins)])
    return np.add.reduceat(frequency, cuts) / count, np.add.reduceat(density, cuts) / count


def _residuals(fitted: Fit, entry: str) -> tuple[list[np.ndarray], float]:
    """The entry's residuals window by window, those much shorter than usual left out, and the usual time between."""
    stage, gap = _stage(fitted)
    shooting = stage.shooting
    rows = np.flatnonzero((shooting.entry == shooting.entries.index(entry)) & np.isfinite(gap))
    parts = np.split(rows, np.flatnonzero(np.diff(shooting.window[rows])) + 1)
    usual = float(np.median([len(part) for part in parts]))
    parts = [part for part in parts if len(part) >= max(usual / 2, LEAST_SAMPLES)]
    if not parts:
        return [], 0.0
    step_s = float(np.median(np.concatenate([np.diff(shooting.horizon[part]) for part in parts])))
    return [gap[part] for part in parts], step_s
