"""Pictures of a randomisation: every range against posterior and prior, correlations, and what validation says.

ranges.png         one row a parameter: prior (line), posterior (curve), range (bar), point, what validation points to
correlations.png   how the draws of joint parameters hang together
coverage.png       share of readings inside their bands, by signal
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from twinproof.nouns.errors import StoreError
from twinproof.nouns.posterior import Posterior
from twinproof.nouns.randomization import Range
from twinproof.randomize.residual import Residual
from twinproof.sim.predictive import LEVEL

INK, MUTED, FAINT = "#1f2933", "#6b7785", "#c9d1d9"
SOURCES = {"inferred": "#2a6f97", "measured": "#2d8659", "declared": "#b8741a"}
MISS = "#c0392b"
STRONG = 0.2  # parameters with a correlation below this to every other are left out where there are many
MOST = 40  # rows and columns of the heat map


def draw_all(posterior: Posterior, found: Residual, folder: Path) -> None:
    """Writes the pictures into a new folder."""
    if folder.exists():
        raise StoreError(f"{folder} exists. Nothing is overwritten: name another folder, or remove it.")
    folder.mkdir(parents=True)
    _save(ranges(posterior, found), folder / "ranges.png")
    if len(found.randomization.joint) > 1:
        _save(correlations(found), folder / "correlations.png")
    if found.coverage is not None:
        _save(coverage(found), folder / "coverage.png")


def _save(figure: Any, path: Path) -> None:
    import matplotlib.pyplot as plt

    figure.savefig(path, dpi=130, facecolor="white")
    plt.close(figure)


def _figure(width: float, height: float, rows: int = 1, **more: Any) -> tuple[Any, Any]:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    return plt.subplots(rows, 1, figsize=(width, height), squeeze=False, layout="constrained", **more)


def ranges(posterior: Posterior, found: Residual) -> Any:
    """One row for each parameter, on its own scale."""
    made = found.randomization
    entries = sorted(made.ranges, key=lambda each: (each.id not in posterior.ids, each.gap, each.id))
    tall = [0.62 if entry.id in posterior.ids else 0.36 for entry in entries]
    told = {} if found.coverage is None else {c.id: c for c in found.coverage.judged.parameters if c.told is not None}
    figure, axes = _figure(10, sum(tall) + 0.9, len(entries), gridspec_kw={"height_ratios": tall})
    for axis, entry in zip(axes[:, 0], entries, strict=True):
        _range_row(axis, entry, posterior)
        check = told.get(entry.id)
        if check is not None and check.told is not None and check.told.pull != 0.0:
            colour = MISS if check.missed else INK
            axis.plot([check.told.low, check.told.high], [-0.5, -0.5], color=colour, lw=1.2, clip_on=True)
            axis.plot(check.told.value, -0.5, "v", color=colour, ms=4, clip_on=True)
    handles = _legend(axes[0, 0], bool(told))
    figure.legend(handles=handles, loc="outside upper left", ncols=len(handles), frameon=False, fontsize=8)
    return figure


def _range_row(axis: Any, entry: Range, posterior: Posterior) -> None:
    colour = SOURCES[entry.source.kind]
    low, high = entry.low, entry.high
    if entry.id in posterior.ids:
        info = posterior.parameters[posterior.ids.index(entry.id)]
        column = posterior.new_instance_draws[:, posterior.ids.index(entry.id)]
        counts, edges = np.histogram(column, bins=40, weights=posterior.weights)
        axis.stairs(counts / max(counts.max(), 1e-300), edges, fill=True, color=FAINT)
        axis.plot([info.low, info.high], [-0.12, -0.12], color=MUTED, lw=1, ls=(0, (3, 2)))
        low, high = min(low, float(column.min())), max(high, float(column.max()))
    axis.plot([entry.low, entry.high], [-0.12, -0.12], color=colour, lw=5, solid_capstyle="butt")
    axis.plot(entry.point, -0.12, "o", color="white", mec=colour, ms=5, zorder=3)
    room = 0.35 * (high - low) or max(abs(high), 1e-9)
    axis.set_xlim(low - room, high + room)
    axis.set_ylim(-0.8, 1.1 if entry.id in posterior.ids else 0.4)
    axis.set_yticks([])
    for side in ("top", "left", "right"):
        axis.spines[side].set_visible(False)
    axis.spines["bottom"].set_color(FAINT)
    axis.tick_params(labelsize=7, colors=MUTED, length=2)
    axis.locator_params(axis="x", nbins=6)
    apart = "\n" if entry.id in posterior.ids else ": "
    told = f"{entry.id}{apart}{entry.gap}, {entry.parameter.unit}"
    axis.set_ylabel(told, rotation=0, ha="right", va="center", fontsize=7.5)


def _legend(axis: Any, told: bool) -> list[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [Patch(color=FAINT, label="posterior"), Line2D([], [], color=MUTED, ls="--", label="prior")]
    handles += [Line2D([], [], color=colour, lw=5, label=f"range, {kind}") for kind, colour in SOURCES.items()]
    handles.append(Line2D([], [], color=INK, ls="", marker="o", mfc="white", label="point"))
    if told:
        handles.append(Line2D([], [], color=INK, marker="v", ms=4, label="validation points to (red: missed)"))
    return handles


def correlations(found: Residual) -> Any:
    """The correlations of the joint draws, on their natural scales."""
    made = found.randomization
    scaled = np.stack([made.range(id).parameter.to_scale(made.draws[:, k]) for k, id in enumerate(made.joint)])
    moving = [k for k in range(len(scaled)) if scaled[k].std() > 0]
    table = np.atleast_2d(np.corrcoef(scaled[moving]))
    ids = [made.joint[k] for k in moving]
    if len(ids) > MOST:
        strongest = np.abs(table - np.eye(len(ids))).max(axis=0)
        keep = np.sort(np.argsort(-strongest, kind="stable")[:MOST])
        table, ids = table[np.ix_(keep, keep)], [ids[k] for k in keep]
    size = max(4.0, 0.3 * len(ids) + 2.8)
    figure, axes = _figure(size, size - 0.6)
    axis = axes[0, 0]
    shown = axis.imshow(table, cmap="RdBu_r", vmin=-1, vmax=1)
    axis.set_xticks(range(len(ids)), ids, rotation=90, fontsize=7)
    axis.set_yticks(range(len(ids)), ids, fontsize=7)
    for (i, j), value in np.ndenumerate(table):
        if i != j and abs(value) >= STRONG and len(ids) <= 20:
            axis.text(
                j, i, f"{value:.1f}", ha="center", va="center", fontsize=6, color="white" if abs(value) > 0.6 else INK
            )
    bar = figure.colorbar(shown, ax=axis, shrink=0.7)
    bar.set_label("correlation of the draws", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    return figure


def coverage(found: Residual) -> Any:
    """The share of readings inside their bands, by signal, with what it is worth."""
    assert found.coverage is not None
    signals = found.coverage.judged.signals
    figure, axes = _figure(7, 0.34 * len(signals) + 1.3)
    axis = axes[0, 0]
    for k, each in enumerate(signals):
        colour = MISS if each.missed else SOURCES["inferred"]
        axis.plot([each.share.low, each.share.high], [k, k], color=colour, lw=2)
        axis.plot(each.share.covered, k, "o", color=colour, ms=5)
    axis.axvline(LEVEL, color=MUTED, lw=1, ls="--")
    axis.set_yticks(range(len(signals)), [f"{each.signal} ({each.unit})" for each in signals], fontsize=8)
    axis.set_xlim(0, 1.02)
    axis.set_ylim(len(signals) - 0.5, -0.5)
    axis.set_xlabel(f"share of readings inside bands of {LEVEL:.0%} (95 % interval); {found.coverage.half}", fontsize=8)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    return figure
