"""The small pieces that the report's sections are made of. Every text is escaped here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from twinproof.evidence.svg import shown

SOURCES = {
    "measured": "an instrument or the rig says so",
    "inferred": "a fit to recordings says so",
    "declared": "a person says so",
}


def e(value: object) -> str:
    """Text for HTML."""
    return escape(str(value), quote=True)


def code(value: object, letters: int = 12) -> str:
    """The beginning of a hash; the whole of it is shown when pointed at."""
    return f'<span class="hash" title="{e(value)}">{e(str(value)[:letters])}</span>'


def chip(source: Mapping[str, Any]) -> str:
    """Where a number came from: a shape, a colour and a word."""
    kind = source["kind"] if source["kind"] in SOURCES else "declared"
    said = source.get("reason") or source.get("what") or f"from {str(source.get('hash', ''))[:12]}"
    return f'<span class="src {kind}" title="{e(said)}">{kind}</span>'


def key() -> str:
    """What the colours and shapes mean."""
    told = "".join(f'<span><span class="src {kind}">{kind}</span> {e(text)}</span>' for kind, text in SOURCES.items())
    return f'<p class="key">{told}</p>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "", numeric: Sequence[int] = ()) -> str:
    """A table; cells are HTML already, the first of each row is its header and may begin with '|class of the row|'."""
    tops = "".join(f'<th scope="col"{_n(k, numeric)}>{e(cell)}</th>' for k, cell in enumerate(head))
    body = []
    for row in rows:
        kind = ""
        if row and row[0].startswith("|"):
            kind, _, first = row[0][1:].partition("|")
            row = [first, *row[1:]]
        cells = "".join(f"<td{_n(k, numeric)}>{cell}</td>" for k, cell in enumerate(row) if k)
        body.append(
            f'<tr{f" class={chr(34)}{e(kind)}{chr(34)}" if kind else ""}><th scope="row">{row[0]}</th>{cells}</tr>'
        )
    many = ' class="many"' if len(head) > 4 else ""
    named = f"<caption>{e(caption)}</caption>" if caption else ""
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{e(caption or "table")}"><table{many}>{named}'
        f"<thead><tr>{tops}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def _n(k: int, numeric: Sequence[int]) -> str:
    return ' class="n"' if k in numeric else ""


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Names and what they are; the second of each is HTML already."""
    return "<dl>" + "".join(f"<dt>{e(name)}</dt><dd>{value}</dd>" for name, value in pairs) + "</dl>"


def sentences(texts: Iterable[object]) -> str:
    """A list of sentences, or nothing."""
    items = "".join(f"<li>{e(text)}</li>" for text in texts)
    return f'<ul class="plain">{items}</ul>' if items else ""


def figure(drawing: str, caption: str, links: str = "") -> str:
    """A drawing that may be wider than a phone, with what it shows; `links` are HTML already."""
    frame = f'<div class="wide" tabindex="0" role="group" aria-label="{e(caption)}">{drawing}</div>'
    return f"<figure>{frame}<figcaption>{e(caption)}{links}</figcaption></figure>"


def section(id: str, title: str, *parts: str) -> str:
    """A part of the report with its heading; empty where nothing is in it."""
    inside = "".join(parts)
    return (
        f'<section id="{id}" aria-labelledby="{id}-h"><h2 id="{id}-h">{e(title)}</h2>{inside}</section>'
        if inside
        else ""
    )


def counted(count: int, name: str) -> str:
    """'1 episode', '2 episodes'."""
    return f"{count} {name}" if count == 1 else f"{count} {name}s"


def percent(value: float) -> str:
    """A share in per cent: whole numbers, with a decimal near the ends."""
    points = 100 * value
    near = 0.05 <= points < 0.95 or 99.05 < points <= 99.95
    return f"{points:.1f} %" if near else f"{points:.0f} %"


def spread(entry: Mapping[str, Any], as_percent: bool = False) -> str:
    """A number with its interval."""
    put = percent if as_percent else shown
    text = f"{put(entry['value'])}"
    if entry.get("low") is not None and entry.get("high") is not None:
        low, high = put(entry["low"]), put(entry["high"])
        if as_percent:
            low = low.removesuffix(" %")
        text += f' <span class="soft nw">({low} … {high})</span>'
    return text


def track(
    value: float, span: tuple[float, float], interval: tuple[float, float] | None, mark: float | None = None
) -> str:
    """A number and its interval on a line, with a mark at the threshold. The same is said in words beside it."""
    low, high = span

    def at(x: float) -> float:
        return round(100 * min(max((x - low) / ((high - low) or 1.0), 0.0), 1.0), 2)

    parts = []
    if interval is not None:
        parts.append(f'<i style="left:{at(interval[0])}%;width:{round(at(interval[1]) - at(interval[0]), 2)}%"></i>')
    if mark is not None:
        parts.append(f'<u style="left:{at(mark)}%"></u>')
    parts.append(f'<b style="left:{at(value)}%"></b>')
    return f'<span class="track" aria-hidden="true">{"".join(parts)}</span>'
