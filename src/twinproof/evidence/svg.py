"""Small drawings as inline SVG: crisp, accessible, in the page's own colours. Every text in them is escaped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape


def tag(name: str, content: str = "", /, **attributes: object) -> str:
    """An element; `content` is markup already, attributes are escaped. `class_` is class, `text_anchor` text-anchor."""
    told = "".join(f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"' for key, value in attributes.items())
    return f"<{name}{told}>{content}</{name}>" if content or name in ("text", "title", "span") else f"<{name}{told}/>"


def _value(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else escape(str(value), quote=True)


def text(x: float, y: float, words: object, **attributes: object) -> str:
    """Words at a place."""
    return tag("text", escape(str(words)), x=x, y=y, **attributes)


def picture(width: float, height: float, said: str, parts: Iterable[str], kind: str = "") -> str:
    """The SVG itself; `said` is what a screen reader says."""
    return tag(
        "svg",
        "".join(parts),
        viewBox=f"0 0 {width:g} {height:g}",
        width=f"{width:g}",
        height=f"{height:g}",
        role="img",
        aria_label=said,
        class_=f"chart {kind}".strip(),
    )


def path(points: Sequence[tuple[float, float]], **attributes: object) -> str:
    """A line through points."""
    return tag("path", d="M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points), fill="none", **attributes)


def area(points: Sequence[tuple[float, float]], **attributes: object) -> str:
    """A filled outline."""
    return tag("path", d="M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points) + "Z", **attributes)


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers inside a range, roughly so many."""
    if not high > low:
        return [low]
    raw = (high - low) / max(about, 1)
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(unit * k for k in (1, 2, 5, 10) if unit * k >= raw)
    first = math.ceil(low / step - 1e-9)
    return [0.0 if abs(k * step) < 1e-12 * step else k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]


def shown(value: float, digits: int = 3) -> str:
    """A number for people: few digits, thousands apart, a true minus, no exponent where none is needed."""
    if value == 0:
        return "0"
    if value < 0:
        return f"−{shown(-value, digits)}"
    size = abs(value)
    if 1e-4 <= size < 1e4:
        text = f"{value:.{digits}g}"
        return f"{float(text):.10f}".rstrip("0").rstrip(".") if "e" in text else text
    if 1e4 <= size < 1e15:
        return f"{float(f'{value:.{digits}g}'):,.0f}".replace(",", "\u202f")
    mantissa, exponent = f"{value:.{max(digits - 1, 0)}e}".split("e")
    return f"{mantissa.rstrip('0').rstrip('.')}·10{str(int(exponent)).translate(RAISED)}"


def between(low: float, high: float, unit: str = "") -> str:
    """Two ends with as many digits as tell them apart."""
    wide, size = abs(high - low), max(abs(low), abs(high))
    digits = 3 if not wide else min(max(3, math.ceil(math.log10(size / wide)) + 2), 8)
    words = f"{shown(low, digits)} … {shown(high, digits)}"
    return f"{words} {unit}" if unit not in ("", "1") else words


RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Frame:
    """A box of pixels (left, top, width, height) and the numbers at its edges."""

    left: float
    top: float
    width: float
    height: float
    x: tuple[float, float]
    y: tuple[float, float]

    def at(self, x: float, y: float) -> tuple[float, float]:
        """The pixel of a point."""
        return self.across(x), self.down(y)

    def across(self, x: float) -> float:
        """The pixel of a number on the horizontal axis."""
        low, high = self.x
        return self.left + self.width * (x - low) / ((high - low) or 1.0)

    def down(self, y: float) -> float:
        """The pixel of a number on the vertical axis."""
        low, high = self.y
        return self.top + self.height * (1 - (y - low) / ((high - low) or 1.0))

    def axes(self, across: str, up: str, percent: bool = False) -> list[str]:
        """Thin grid lines, numbers and the two labels."""
        parts = []
        for y in ticks(*self.y, 4):
            parts.append(_line(self.left, self.down(y), self.left + self.width, self.down(y), "grid"))
            words = f"{100 * y:g} %" if percent else shown(y)
            parts.append(text(self.left - 8, self.down(y) + 4, words, class_="num", text_anchor="end"))
        bottom = self.top + self.height
        for x in ticks(*self.x, 6):
            parts.append(_line(self.across(x), bottom, self.across(x), bottom + 4, "axis"))
            parts.append(text(self.across(x), bottom + 17, shown(x), class_="num", text_anchor="middle"))
        parts.append(_line(self.left, bottom, self.left + self.width, bottom, "axis"))
        parts.append(text(self.left + self.width, bottom + 33, across, class_="label", text_anchor="end"))
        parts.append(text(0, self.top - 14, up, class_="label"))
        return parts


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=kind)


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """A straight line of a kind that the page's style knows."""
    return _line(x1, y1, x2, y2, kind)
