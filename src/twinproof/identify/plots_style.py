"""What all pictures of a posterior share: one look, colours that colour-blind eyes tell apart, ticks in SI units."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from twinproof.nouns.theta import ParameterInfo

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

DPI = 100  # one point of a letter is 1.4 pixels: nothing below 8 points is drawn
SMALL, USUAL = 8, 9
LETTER_IN = 0.062  # about the width of a small letter
LINE_CHARACTERS = 26  # of a name, before it is broken at a dot

# Okabe and Ito's palette
BLUE, VERMILLION, GREEN, ORANGE = "#0072B2", "#D55E00", "#009E73", "#E69F00"
BLACK, GREY, FAINT = "#222222", "#8c8c8c", "#d9d9d9"
LINES = (BLUE, VERMILLION, GREEN, ORANGE, "#CC79A7", "#56B4E9", BLACK, GREY)
LOOK: Any = {
    "figure.constrained_layout.w_pad": 0.08,
    "figure.constrained_layout.h_pad": 0.06,
    "font.size": USUAL,
    "axes.titlesize": USUAL,
    "axes.labelsize": USUAL,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.fontsize": SMALL,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.titlelocation": "left",
    "text.parse_math": False,  # a $ in a name is a letter
}


def sheet(width_in: float, height_in: float, title: str) -> Figure:
    """An empty figure of this size whose parts keep clear of each other."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width_in, height_in), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, x=0.01, ha="left", fontsize=USUAL + 2)
    return figure


def legend_below(figure: Figure, handles: Sequence[Artist]) -> None:
    """One legend for the whole figure, under it, in as many columns as have room."""
    longest = max(len(str(handle.get_label())) for handle in handles)
    columns = int(figure.get_figwidth() / (LETTER_IN * longest + 0.55))
    figure.legend(handles=list(handles), loc="outside lower center", ncols=min(max(columns, 1), len(handles)))


def save(figure: Figure, path: Path) -> Path:
    """Writes the figure; the same figure gives the same bytes."""
    figure.savefig(path, dpi=DPI, metadata={"Software": None})
    return path


def shortened(name: str, most: int = LINE_CHARACTERS) -> str:
    """A name on as many lines as it needs, broken behind dots and before 'of'."""
    lines = [""]
    for part in name.replace(" of ", ". of ").replace(".", ".\0").split("\0"):
        if lines[-1] and len(lines[-1]) + len(part) > most:
            lines.append("")
        lines[-1] += part
    return "\n".join(line.removesuffix(".").strip() if " of " in name else line for line in lines)


def number(value: float) -> str:
    """Three digits, and no more zeros than needed."""
    return f"{value:.3g}"


def unit_of(info: ParameterInfo) -> str:
    """The unit, or nothing of a pure number."""
    return "" if info.unit == "1" else info.unit


def interval(low: float, high: float) -> str:
    """Two numbers with as many digits as it takes to tell them apart."""
    size = max(abs(low), abs(high))
    digits = 3 if not high > low else min(7, 2 + math.floor(math.log10(size)) - math.floor(math.log10(high - low)))
    return " … ".join(f"{value:#.{max(digits, 2)}g}".removesuffix(".") for value in (low, high))


def ticks_in_si(axis: Axis, info: ParameterInfo, most: int = 3) -> None:
    """Labels an axis that runs on the parameter's natural scale with round values in its unit."""
    low, high = (float(x) for x in info.from_scale(np.array(sorted(axis.get_view_interval()))))
    values = round_values(low, high, info.log, most)
    axis.set_ticks(list(info.to_scale(np.array(values))), labels=[f"{value:.6g}" for value in values])


def round_values(low: float, high: float, log: bool, most: int = 3) -> list[float]:
    """At most so many round values between two; of a wide logarithmic range 1, 2, 5, 10, …"""
    if log and high / low > 5:
        decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        for steps in ((1, 2, 5), (1, 3), (1,)):
            found = [s * 10.0**d for d in decades for s in steps if low <= s * 10.0**d <= high]
            if len(found) <= most:
                break
        return found[:: -(-len(found) // most)] if found else []
    unit = 10.0 ** math.floor(math.log10(high - low))
    for step in (unit, unit / 2, unit / 5, unit / 10):
        found = [k * step for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
        if len(found) >= 2:
            break
    return found if len(found) <= most else [found[0], found[-1]] if most == 2 else found[:: -(-len(found) // most)]


def log_axis(axes: Axes, which: Literal["x", "y"], low: float, high: float) -> None:
    """A logarithmic axis over at least a decade around these values, with plain numbers on it."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = max(low, 1e-300), max(high, 1e-300)
    short = max(0.0, 1 - math.log10(high / low)) / 2 + 0.1
    low, high = low * 10**-short, high * 10**short
    axes.set(**{f"{which}scale": "log", f"{which}lim": (low, high)})
    axis = axes.xaxis if which == "x" else axes.yaxis
    few = math.log10(high / low) < 2
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,), numticks=8))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def plain_numbers(axes: Axes) -> None:
    """Ticks on the value axis without an offset that has to be added in one's head."""
    from matplotlib.ticker import MaxNLocator, ScalarFormatter

    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter(ScalarFormatter(useOffset=False))


def paged(count: int, page: int, name: Callable[[int], str]) -> list[tuple[slice, str]]:
    """Equal stretches of at most `page` things, each with the name of its picture."""
    pages = -(-count // page)
    size = -(-count // pages)
    return [(slice(k * size, min((k + 1) * size, count)), name(k)) for k in range(pages)]
