"""The report of a comparison: one HTML file that opens anywhere, offline, and one JSON. Every text in it is escaped."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import Any

from twinproof.evaluate.compare import Comparison
from twinproof.evaluate.figures import draw, shown
from twinproof.evaluate.frames import draw_frames
from twinproof.evaluate.summary import summary
from twinproof.nouns.files import new_folder, write_json, write_whole
from twinproof.nouns.hashing import Json

STYLE = """body{font:15px/1.5 system-ui,sans-serif;color:#222;max-width:62rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin-bottom:0}h2{font-size:1.1rem;margin-top:2.2rem;border-bottom:1px solid #ddd}
table{border-collapse:collapse;margin:.6rem 0;font-size:13px}td,th{padding:.2rem .7rem .2rem 0;text-align:left;
vertical-align:top}th{font-weight:600;color:#555}td.n{font-variant-numeric:tabular-nums;white-space:nowrap}
img{max-width:100%;height:auto;display:block;margin:.6rem 0}.soft{color:#666}.wide{overflow-x:auto}
details{margin:.6rem 0}
.missing,.extra{color:#b34700;font-weight:600}.late,.early{color:#8a5a00;font-weight:600}"""
TITLES = {"rmse": "Error over time", "position": "", "orientation": "", "distribution": "Distribution",
          "joints": "Joints", "timing": "Timing or path"}  # fmt: skip


def write_report(found: Comparison, out: Path, camera: str | None = None) -> dict[str, Json]:
    """OUT/report.html, OUT/comparison.json and OUT/figures/*.png, all of it or nothing; returns what the JSON holds."""
    told = summary(found)
    with new_folder(out) as scratch:
        figures = scratch / "figures"
        figures.mkdir()
        pictures = draw(found, figures) | draw_frames(found, figures, camera)
        write_json(scratch / "comparison.json", told)
        write_whole(
            scratch / "report.html", page(told, pictures, [pair.real.id for pair in shown(found.pairs)]).encode()
        )
    return told


def page(told: Mapping[str, Any], pictures: Mapping[str, Path], shown_ids: list[str]) -> str:
    """The HTML. Pictures are inside it; nothing is fetched, and no script runs."""
    parts = [
        f"<h1>{_e(told['real']['robot'])}: real against simulated</h1>",
        f"<p class=soft>pairs: {len(told['pairs'])} · real {_e(told['real']['name'] or told['real']['hash'][:12])} · "
        f"simulated {_e(told['sim']['name'] or told['sim']['hash'][:12])}</p>",
        _headline(told),
        *(_figure(name, pictures[name], title) for name, title in TITLES.items() if name in pictures),
        _events(told),
    ]
    for number, id in enumerate(shown_ids, 1):
        names = [name for name in (f"events_{number}", f"frames_{number}") if name in pictures]
        if names:
            place = ("least", "median", "largest")[number - 1 if len(shown_ids) > 2 else 2 * (number - 1)]
            parts.append(f"<h2>The pair with the {place} error</h2><p class=soft>real episode {_e(id[:8])}</p>")
            parts += [_image(name, pictures[name]) for name in names]
    parts += [_pairs(told), _left_over(told), _method(told)]
    body = "\n".join(parts)
    guard = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{_e(told["real"]["robot"])}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{guard}">'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>'
        f"<body>\n{body}\n</body></html>\n"
    )


def _e(value: object) -> str:
    return escape(str(value), quote=True)


def _image(name: str, path: Path) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    return f'<img alt="{_e(name)}" src="data:image/png;base64,{data}">'


def _figure(name: str, path: Path, title: str) -> str:
    return (f"<h2>{_e(title)}</h2>" if title else "") + _image(name, path)


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table; cells are HTML already."""
    top = "".join(f"<th>{_e(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td class=n>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<div class=wide><table><tr>{top}</tr>{body}</table></div>"


def _shown(found: Mapping[str, Any] | None, scale: float = 1.0, digits: int = 3) -> str:
    """A number with its interval."""
    if found is None:
        return "–"
    text = f"{scale * found['value']:.{digits}g}"
    if found.get("low") is not None:
        text += f" <span class=soft>({scale * found['low']:.{digits}g} … {scale * found['high']:.{digits}g})</span>"
    return text


def _headline(told: Mapping[str, Any]) -> str:
    degrees = 57.29577951308232
    rows = []
    for name, arm in told["arms"].items():
        warped, position, turn = arm["warped"], arm["position_m"], arm["orientation_rad"]
        onset = arm["onset"]
        rows.append([
            f"<b>{_e(name)}</b>",
            _shown(arm["rmse"]),
            _shown(position and position["mean_over_pairs"], 1e3),
            _shown(turn and turn["mean_over_pairs"], degrees),
            "–" if warped is None else f"{100 * warped['timing_share']:.0f} %",
            f"{onset['pairs']} of {onset['of']}" + (f", at {onset['median_s']:.2f} s" if onset["pairs"] else ""),
            _e(next(iter(arm["by_joint"]), "–")),
        ])  # fmt: skip
    head = (
        "",
        "RMSE",
        "tip position / mm",
        "tip orientation / °",
        "timing's share",
        "diverges (median)",
        "worst joint",
    )
    level = 100 * told["protocol"]["level"]
    text = f"<p class=soft>Means over pairs with {level:g} % intervals (pairs are the unit; one pair has none).</p>"
    return _table(head, rows) + text + _outcome(told["outcomes"]) + _growth(told["arms"])


def _growth(arms: Mapping[str, Any]) -> str:
    """The mean RMSE in each tenth of the time."""
    rows = [
        [f"<b>{_e(name)}</b>", *("–" if v is None else f"{v:.3g}" for v in arm["tenths"]), _shown(arm["slope_per_s"])]
        for name, arm in arms.items()
    ]
    head = ("RMSE by tenth of the time", *(str(k) for k in range(1, 11)), "slope per s")
    return _table(head, rows)


def _outcome(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return "<p>Success: not compared, as outcomes are not known on both sides.</p>"
    n, bias = found["pairs"], found["bias_points"]
    named = (("real", found["real"]), ("twin", found["sim"]))
    sides = ", ".join(f"{name} {side['successes']} of {n} ({_percent(side)})" for name, side in named)
    return (
        f"<p>Success: {sides}. Twin minus real: {bias['value']:.0f} points ({bias['low']:.0f} … {bias['high']:.0f}); "
        f"{found['only_real']} only in reality, {found['only_sim']} only in the twin, McNemar p = "
        f"{found['p_value']:.2g}.</p>"
    )


def _percent(found: Mapping[str, Any]) -> str:
    return f"{100 * found['low']:.0f} … {100 * found['high']:.0f} %"


def _events(told: Mapping[str, Any]) -> str:
    events = told["events"]
    if not events["verdicts"]:
        return "<h2>Events</h2><p>None were found. Thresholds stand at the end of this page.</p>"
    kinds = ("same", "late", "early", "missing", "extra")
    rows = [
        [_e(title), *(f"<span class={kind}>{counts[kind]}</span>" if kind in counts else "" for kind in kinds),
         "–" if title not in events["late_median_s"] else f"{events['late_median_s'][title]:+.3f}"]
        for title, counts in events["verdicts"].items()
    ]  # fmt: skip
    starts = ", ".join(f"{_e(title)} ({count})" for title, count in events["divergence_starts_at"].items())
    text = f"<p>Divergence starts at: {starts or 'nothing, in no pair'}.</p>"
    return "<h2>Events</h2>" + _table(("event", *kinds, "twin later by / s (median)"), rows) + text


def _pairs(told: Mapping[str, Any]) -> str:
    rows = []
    for pair in told["pairs"]:
        offset = pair["offset"]
        clock = (
            f"{1e3 * offset['offset_s']:+.1f} ± {1e3 * offset['sd_s']:.1f} ms" if offset["found"] else _e(offset["why"])
        )
        bad = [
            f"<span class={_e(event['verdict'])}>{_e(event['title'])} {_e(event['verdict'])}</span>"
            for event in pair["events"]
            if event["verdict"] != "same"
        ]
        name = pair["real"]["source"] or pair["real"]["id"][:8]
        lengths = pair["lengths_s"]
        rows.append([_e(name[:24]), _e(pair["real"]["outcome"]), _e(pair["sim"]["outcome"]), clock,
                     f"{lengths['compared']:.1f} of {lengths['real']:.1f} and {lengths['sim']:.1f}",
                     *(f"{arm['rmse']:.4f}" for arm in pair["arms"].values()),
                     _e(pair["divergence_starts_at"] or "–"), "<br>".join(bad) or "–"])  # fmt: skip
    head = ("pair", "real", "twin", "clock offset", "compared / s", *told["arms"], "diverges at", "events that differ")
    opened = "open" if len(rows) <= 12 else ""
    return f"<h2>Pairs</h2><details {opened}><summary>{len(rows)}</summary>{_table(head, rows)}</details>"


def _left_over(told: Mapping[str, Any]) -> str:
    lines = []
    for side, key in (("real", "only_real"), ("simulated", "only_sim")):
        for episode in told[key]:
            labels = ", ".join(f"{name} {value}" for name, value in episode["labels"].items())
            lines.append(f"<li>{side} {_e(episode['id'][:8])} ({_e(episode['source'])}): {_e(labels)}</li>")
    return f"<h2>Without a partner</h2><ul>{''.join(lines)}</ul>" if lines else ""


def _method(told: Mapping[str, Any]) -> str:
    joints = _table(
        ("joint", "weight", "range"),
        ([_e(j["name"]), f"{j['weight']:g}", f"{j['range']:.4g}"] for j in told["joints"]),
    )
    notes = "".join(f"<li>{_e(note)}</li>" for note in told["notes"])
    settings = "".join(f"<li>{_e(name)}: {_e(value)}</li>" for name, value in told["protocol"].items())
    return (
        "<h2>How it was measured</h2><p>MSE(t) = Σ w (Δq)² / range² over the joints of an arm and its gripper; RMSE is "
        "its root; overall is the mean of the arms' MSE. Weights and ranges come from the rig.</p>"
        f"<ul>{notes}</ul><details><summary>weights and ranges</summary>{joints}</details>"
        f"<details><summary>settings</summary><ul>{settings}</ul></details>"
    )
