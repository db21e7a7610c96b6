"""The report's figures: prior against posterior, pairs, ranges, courses over time, events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from twinproof.evidence.svg import Frame, area, line, path, picture, shown, tag, text

WIDE = 900
SERIES = ("s1", "s2", "s3", "s4")  # colours of the page's style


def density(entry: Mapping[str, Any], kind: str) -> str:
    """Prior (outline) against posterior (filled) of one parameter."""
    after, before = np.array(entry["posterior"]), np.array(entry["prior"])
    top = max(float(after.max()), float(before.max()), 1e-12)
    frame = Frame(6, 10, 208, 62, (0, len(after)), (0, 1.08 * top))
    said = (
        f"{entry['id']}: prior and posterior between {shown(entry['low'])} and {shown(entry['high'])} {entry['unit']}"
    )
    parts = [
        area([frame.at(0, 0), *_steps(frame, after), frame.at(len(after), 0)], class_=f"fill {kind}"),
        path(_steps(frame, before), class_="prior"),
        line(6, 72, 214, 72, "axis"),
        text(6, 88, shown(entry["low"]), class_="num"),
        text(214, 88, shown(entry["high"]), class_="num", text_anchor="end"),
    ]
    return picture(220, 94, said, parts, "small")


def _steps(frame: Frame, values: np.ndarray) -> list[tuple[float, float]]:
    return [frame.at(x, float(value)) for k, value in enumerate(values) for x in (k, k + 1)]


def pairs(columns: Sequence[Mapping[str, Any]]) -> str:
    """Draws of every two parameters: dots below the diagonal, correlations above it, names on it."""
    cell, count = 104, len(columns)
    rows = [np.array(column["draws"]) for column in columns]
    spans = [(float(r.min()), float(r.max())) for r in rows]
    parts = []
    for i in range(count):
        for j in range(count):
            x, y = j * cell, i * cell
            parts.append(tag("rect", x=x + 0.5, y=y + 0.5, width=cell - 6, height=cell - 6, class_="cell"))
            if i == j:
                parts += _named(x, y, cell, str(columns[i]["id"]))
            elif j < i:
                frame = Frame(x + 7, y + 7, cell - 19, cell - 19, spans[j], spans[i])
                dots = (frame.at(a, b) for a, b in zip(rows[j].tolist(), rows[i].tolist(), strict=True))
                dashes = "".join(f"M{px:.1f} {py:.1f}h0" for px, py in dots)  # a line of no length with round ends
                parts.append(tag("path", d=dashes, class_="dots"))
            else:
                r = _correlation(rows[i], rows[j])
                words = "–" if r is None else f"{r:+.2f}".replace("-", "−")
                strong = "strong" if r is not None and abs(r) > 0.7 else ""
                middle = (x + cell / 2 - 3, y + cell / 2 + 2)
                parts.append(text(*middle, words, class_=f"corr {strong}".strip(), text_anchor="middle"))
    names = ", ".join(str(entry["id"]) for entry in columns)
    return picture(count * cell, count * cell, f"Draws of pairs of {names}, with their correlations", parts, "pairs")


def _named(x: float, y: float, cell: float, id: str) -> list[str]:
    words = id.split(".")
    words = [*words[:3], ".".join(words[3:])] if len(words) > 4 else words
    start = y + cell / 2 - 3 - 7 * (len(words) - 1) + 4
    shorter = [word if len(word) <= 15 else f"{word[:14]}…" for word in words]
    return [
        text(x + cell / 2 - 3, start + 14 * k, word, class_="name", text_anchor="middle")
        for k, word in enumerate(shorter)
    ]


def _correlation(a: np.ndarray, b: np.ndarray) -> float | None:
    if a.std() == 0 or b.std() == 0:
        return None
    return float(np.corrcoef(a, b)[0, 1])


def range_row(entry: Mapping[str, Any]) -> str:
    """A range (bar), its point (tick), and the posterior's 90 % (line above) on one scale."""
    log = entry["parameter"]["log"]
    belief = entry["posterior"] or []
    ends = [entry["low"], entry["high"], *belief]
    ends = [float(np.log(x)) if log else float(x) for x in ends]
    room = 0.08 * (max(ends) - min(ends)) or 1e-9
    frame = Frame(2, 0, 216, 30, (min(ends) - room, max(ends) + room), (0, 1))
    at = [frame.across(x) for x in ends]
    point = frame.across(float(np.log(entry["point"])) if log else entry["point"])
    kind = entry["source"]["kind"]
    parts = [line(2, 24, 218, 24, "grid")]
    width = max(at[1] - at[0], 2.0)
    parts.append(tag("rect", x=at[0], y=18.0, width=width, height=12, rx=2, class_=f"bar {kind}"))
    parts.append(line(point, 16, point, 32, "tick"))
    said = f"{entry['parameter']['id']}: range {shown(entry['low'])} to {shown(entry['high'])}"
    if belief:
        parts.append(line(at[2], 8, at[3], 8, "belief"))
        parts += [line(at[k], 5, at[k], 11, "belief") for k in (2, 3)]
        said += f", posterior {shown(belief[0])} to {shown(belief[1])} (90 %)"
    return picture(220, 36, said, parts, "small")


def courses(rows: Sequence[Mapping[str, Any]], label: str) -> str:
    """How far worlds drift from reality: medians, and for the first the band of four pairs in five."""
    top = max(*rows[0]["high"], *(value for row in rows for value in row["median"])) * 1.05 or 1.0
    begin, end = min(row["time_s"][0] for row in rows), max(row["time_s"][-1] for row in rows)
    frame = Frame(58, 30, WIDE - 70, 190, (begin, end), (0, top))
    parts = frame.axes("time / s", label)
    if rows[0]["pairs"] > 1:
        upper = [frame.at(t, v) for t, v in zip(rows[0]["time_s"], rows[0]["high"], strict=True)]
        lower = [frame.at(t, v) for t, v in zip(rows[0]["time_s"], rows[0]["low"], strict=True)]
        parts.append(area([*upper, *reversed(lower)], class_=f"band {SERIES[0]}"))
    named = list(zip(SERIES * 4, rows, strict=False))
    for kind, row in reversed(named):
        parts.append(path([frame.at(t, v) for t, v in zip(row["time_s"], row["median"], strict=True)], class_=kind))
    ends = "; ".join(f"{row['domain']} ends at {shown(row['median'][-1])}" for row in rows)
    parts += _legend([(kind, row["domain"]) for kind, row in named])
    return picture(WIDE, 262, f"{label} over time: {ends}", parts, "wide")


def _legend(entries: Sequence[tuple[str, str]], y: float = 9) -> list[str]:
    parts, x = [], WIDE - 8.0
    for kind, words in reversed(entries):
        x -= 7.0 * len(words) + 8
        parts.append(text(x, y + 4, words, class_="label"))
        parts.append(line(x - 24, y, x - 6, y, kind))
        x -= 40
    return parts


def training(curves: Mapping[str, Mapping[str, Any]]) -> str:
    """One value, such as success, over the steps of each policy's training."""
    one = next(iter(curves.values()))
    value, steps = one["value"], one["steps"]
    points = {name: np.array(curve["points"]) for name, curve in curves.items()}
    every = np.concatenate(list(points.values()))
    share = value == "success"
    low, high = (0.0, 1.0) if share else (float(every[:, 1].min()), float(every[:, 1].max()))
    right = float(every[:, 0].max()) or 1.0
    frame = Frame(58, 30, WIDE - 70, 150, (0.0, right), (low, high if high > low else low + 1))
    parts = frame.axes(f"{steps} of training", value, percent=share)
    named = list(zip(SERIES * 4, points.items(), strict=False))
    for kind, (_, rows) in named:
        parts.append(path([frame.at(x, y) for x, y in rows.tolist()], class_=kind))
    ends = ", ".join(f"{name} ends at {shown(float(rows[-1, 1]))}" for name, rows in points.items())
    parts += _legend([(kind, name) for kind, (name, _) in named])
    return picture(WIDE, 222, f"Training: {value} over {steps}; {ends}", parts, "wide")


def strip(entry: Mapping[str, Any]) -> str:
    """Events of one pair, a lane for each domain; the same event is joined between the lanes."""
    lanes = entry["lanes"]
    end = max(lane["end_s"] for lane in lanes) or 1.0
    frame = Frame(92, 34, WIDE - 116, 60, (min(lane["begin_s"] for lane in lanes), end), (0, 1))
    rows = {0: 46.0, 1: 90.0}
    parts = []
    for k, lane in enumerate(lanes):
        outcome = "success" if lane["success"] else "failure"
        parts.append(text(0, rows[k] - 1, lane["domain"][:14], class_="lane"))
        parts.append(text(0, rows[k] + 12, outcome, class_=f"num {outcome}"))
        parts.append(line(frame.across(lane["begin_s"]), rows[k], frame.across(lane["end_s"]), rows[k], "lane"))
    parts += _joined(frame, lanes, rows)
    said = "; ".join(
        f"{lane['domain']}: " + ", ".join(f"{name} at {shown(t)} s" for name, t in lane["events"]) for lane in lanes
    )
    bottom = [
        text(frame.across(t), 134, f"{shown(t)} s", class_="num", text_anchor="middle") for t in (frame.x[0], end)
    ]
    return picture(WIDE, 140, said, [*parts, *bottom], "wide")


def _joined(frame: Frame, lanes: Sequence[Mapping[str, Any]], rows: Mapping[int, float]) -> list[str]:
    """Marks, names above the first lane and below the second, and a line between an event and its like."""
    parts: list[str] = []
    waiting: dict[str, list[float]] = {}
    for name, t in lanes[0]["events"]:
        waiting.setdefault(name, []).append(frame.across(t))
    for name, t in lanes[1]["events"]:
        if waiting.get(name):
            parts.append(line(waiting[name].pop(0), rows[0], frame.across(t), rows[1], "join"))
    for k, lane in enumerate(lanes):
        taken = [-1e9, -1e9]
        for name, t in lane["events"]:
            x = frame.across(t)
            row = 0 if x - taken[0] > 0 else 1
            taken[row] = x + 6.4 * len(name) + 6
            y = rows[k] - 10 - 13 * row if k == 0 else rows[k] + 18 + 13 * row
            parts.append(tag("circle", cx=x, cy=rows[k], r=4.5, class_="event"))
            parts.append(text(x - 4, y, name, class_="label"))
    return parts
