"""report.html: one file that opens offline, in light and dark, on a phone, on paper and by ear.

It is made of report.json and pictures alone, so that an audit can make it again and compare byte by byte.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any

from twinproof.evidence.page_inputs import cameras, posterior, ranges, shape, training
from twinproof.evidence.page_parts import code, counted, e, facts, percent, section, spread, table, track
from twinproof.evidence.page_trials import checking, differences, failures, ledger, provenance, trials
from twinproof.evidence.style import SCRIPT, STYLE
from twinproof.evidence.svg import shown
from twinproof.nouns.errors import EvidenceError

LARGEST = 15_000_000  # bytes
ICONS = {
    "held": '<path d="M2.5 7.5l3 3 6-6.5" fill="none" stroke="currentColor" stroke-width="2"/>',
    "failed": '<path d="M3 3l8 8M11 3l-8 8" fill="none" stroke="currentColor" stroke-width="2"/>',
    "not tested": '<path d="M2.5 7h9" fill="none" stroke="currentColor" stroke-width="2"/>',
}
TONES = {"held": "held", "failed": "failed", "not tested": "untested"}


def page(told: Mapping[str, Any], pictures: Mapping[str, bytes], scene_html: str | None = None) -> str:
    """The whole page. Nothing is fetched; the only script is ours, and the scene's own where there is one."""
    own, inputs, pictures = told["evidence"], told["inputs"], dict(sorted(pictures.items()))
    sections = {
        "scene": ("Scene", _scene(scene_html)),
        "cameras": ("Cameras", cameras(inputs, pictures)),
        "shape": ("Shape", shape(inputs, pictures)),
        "posterior": ("Parameters", posterior(own, inputs)),
        "ranges": ("Ranges", ranges(inputs)),
        "training": ("Training", training(inputs)),
        "trials": ("Trials", trials(own)),
        "differences": ("Real and twin", differences(own, inputs)),
        "failures": ("Failures", failures(own)),
        "ledger": ("Ledger", ledger(own)),
        "provenance": ("Provenance", provenance(own, inputs)),
        "checking": ("Check it", checking(told)),
    }
    links = "".join(f'<li><a href="#{id}">{e(name)}</a></li>' for id, (name, text) in sections.items() if text)
    body = "\n".join(text for _, text in sections.values() if text)
    made = (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{e(own["title"])}: evidence</title>'
        f'<meta name="viewport" content="width=device-width,initial-scale=1"><meta name="color-scheme" '
        f'content="light dark"><meta http-equiv="Content-Security-Policy" content="{_guard(scene_html)}">'
        f"<style>{STYLE}</style></head><body>"
        f'<a class="skip" href="#main">to the content</a><div class="layout">{_header(own, inputs)}'
        f'<nav aria-label="Contents"><ol><li><a href="#summary">Summary</a></li>{links}</ol></nav>'
        f'<main id="main">{_summary(own)}\n{body}</main>{_footer(told)}</div><script>{SCRIPT}</script></body></html>\n'
    )
    if len(made.encode()) > LARGEST:
        raise EvidenceError(
            f"the report has {len(made.encode()) / 1e6:.1f} MB; at most {LARGEST / 1e6:.0f} MB can be sent around. "
            "Give fewer or smaller pictures, or a scene with fewer splats."
        )
    return made


def _guard(scene_html: str | None) -> str:
    """The page's own rules: no network, and no script but ours.

    A scene stands in a sandboxed frame that cannot reach the report, but a frame inherits its page's rules, and viewers
    unpack and insert their own code: then scripts are let through, and handlers in attributes still are not.
    """
    if scene_html is None:
        ours = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
        return f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{ours}'"
    return (
        "default-src 'none'; img-src data: blob:; font-src data:; style-src 'unsafe-inline'; worker-src blob: data:; "
        "connect-src data: blob:; script-src 'unsafe-inline' 'unsafe-eval' blob: data:; script-src-attr 'none'"
    )


def _header(own: Mapping[str, Any], inputs: Mapping[str, Any]) -> str:
    where = f"reality: {own['reality']}" if own["reality"] else "no reality was run"
    told = " · ".join(e(text) for text in (inputs["robot"], where, f"as of {own['as_of'][:10]}") if text)
    title = f'<p class="over-line">twinproof evidence</p><h1>{e(own["title"])}</h1>'
    return f'<header>{title}<p class="soft">{told}</p></header>'


def _summary(own: Mapping[str, Any]) -> str:
    cards = "".join(_claim(claim) for claim in own["claims"])
    return (
        f'<section id="summary" aria-label="Summary"><div class="claims">{cards}</div>'
        f'<h2>Success</h2>{_success(own)}<div class="two one-and-a-half"><div><h2>Task</h2>{_task(own["task"])}</div>'
        f"<div><h2>Holdout</h2>{_holdout(own['holdout'])}</div></div></section>"
    )


def _claim(claim: Mapping[str, Any]) -> str:
    verdict = claim["verdict"]
    icon = f'<svg viewBox="0 0 14 14" aria-hidden="true">{ICONS[verdict]}</svg>'
    parts = [f'<p class="verdict">{icon}{e(verdict)}</p><h2>{e(claim["name"][0].upper() + claim["name"][1:])}</h2>']
    if claim.get("value") is not None:
        interval = tuple(claim["interval"]) if claim.get("interval") else None
        around = f" <small>({shown(interval[0])} … {shown(interval[1])})</small>" if interval else ""
        parts.append(f'<p class="number">{e(shown(claim["value"]))}{around}</p>')
        marks = [
            claim["value"],
            *(interval or ()),
            *([claim["threshold"]] if claim.get("threshold") is not None else []),
        ]
        share = all(0 <= mark <= 1 for mark in marks) and max(marks) > 0.2
        span = (0.0, 1.0) if share else (min(0.0, min(marks)), 1.15 * max(marks) or 1.0)
        parts.append(track(claim["value"], span, interval, claim.get("threshold")))
    if claim.get("number"):
        parts.append(f'<p class="what">{e(claim["number"])}</p>')
    parts.append(f'<p class="why">{e(_sentence(claim.get("reason", "")))}</p>')
    return f'<article class="claim {TONES[verdict]}">{"".join(parts)}</article>'


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _success(own: Mapping[str, Any]) -> str:
    figures = own["figures"]
    kinds = {domain["name"]: domain for domain in own["domains"]}
    judged: list[list[str]] = []
    others: list[list[str]] = []
    for row in figures["success"]:
        kind = "real" if row["kind"] == "real" else "simulated"
        about = kinds[row["domain"]].get("description") or (own["reality"] if kind == "real" else "")
        about = about or KINDS[row["kind"]]
        world = f'|{kind}|{e(row["domain"])} <span class="soft small">{e(about)}</span>'
        drawn = track(row["value"], (0.0, 1.0), (row["low"], row["high"]))
        rest = [f"{row['successes']} of {row['trials']}", spread(row, as_percent=True), drawn]
        if row["policy"] == figures["judged"]:
            judged.append([world, *rest])
        else:
            others.append([world, e(row["policy"]), *rest])
    caption = f"The policy {figures['judged']}; exact {percent(figures['level'])} intervals (Clopper and Pearson)."
    made = table(("world", "successes", "rate", "0 to 100 %"), judged, caption, (1,))
    more = table(("world", "policy", "successes", "rate", "0 to 100 %"), others, "Policies compared with it.", (2,))
    count = len({row["policy"] for row in figures["success"]}) - 1
    title = "1 more policy" if count == 1 else f"{count} more policies"
    folded = f"<details><summary>{title}</summary>{more}</details>" if others else ""
    return f'<div class="hero">{made}</div>{_bias(figures)}{folded}'


KINDS = {
    "real": "reality",
    "twin": "the twin at its best values",
    "draws": "the twin under draws of its posterior",
    "nominal": "the model before any fit",
    "rebuilt": "rebuilt from the holdout, for comparison only",
}


def _bias(figures: Mapping[str, Any]) -> str:
    rows = [row for row in figures["bias"] if row["policy"] == figures["judged"]]
    told = "; ".join(
        f"{row['domain']} {row['value']:+.0f} points ({row['low']:+.0f} … {row['high']:+.0f})".replace("-", "−")
        for row in rows
    )
    return f'<p class="small soft">Success in simulation minus success in reality: {e(told)}.</p>' if rows else ""


def _task(task: Mapping[str, Any]) -> str:
    channels = {side: ", ".join(_channel(channel) for channel in task[side]) for side in ("observations", "actions")}
    timing = f"{shown(task['rate_hz'])} Hz, delay {shown(1e3 * task['delay_s'])} ms"
    timing += f", history {task['history']}" if task["history"] > 1 else ""
    timing += f", chunks of {task['chunk']}" if task["chunk"] > 1 else ""
    told = {
        "success": e(task["success"]),
        "failure": e(task["failure"]),
        "time": f"{shown(task['horizon_s'])} s at most",
        "sees": channels["observations"],
        "does": channels["actions"],
        "rate": timing,
    }
    return facts(told.items())


def _channel(channel: Mapping[str, Any]) -> str:
    size = f"[{'×'.join(map(str, channel['shape']))}]" if channel.get("shape") else ""
    unit = channel["unit"] if channel["unit"] not in ("", "1") else ""
    return e(channel["name"] + size) + (f' <span class="soft">{e(unit)}</span>' if unit else "")


def _holdout(holdout: Mapping[str, Any]) -> str:
    count, attempts = len(holdout["episodes"]), holdout["attempts"]
    opened = {0: "never", 1: "once", 2: "twice"}.get(attempts, f"{attempts} times")
    kind = ' class="flag"' if attempts > 1 else ""
    openings = "<br>".join(
        f"attempt {e(o['attempt'])}, {e(str(o['at'])[:16].replace('T', ' '))} UTC"
        + (f", after the change “{e(o['change'])}”" if o.get("change") else "")
        for o in holdout["openings"]
    )
    more = [("resumed", f"{counted(holdout['resumed'], 'time')}, with nothing refitted")] if holdout["resumed"] else []
    return facts(
        (("sealed", f"{counted(count, 'episode')}, before any fit"), ("opened", f"<strong{kind}>{e(opened)}</strong>"),
         *((("when", openings),) if openings else ()), *more, ("by panel", code(holdout["panel"])))
    )  # fmt: skip


def _scene(scene_html: str | None) -> str:
    if scene_html is None:
        return ""
    frame = (
        f'<iframe sandbox="allow-scripts" loading="lazy" title="The twin in three dimensions" srcdoc="{e(scene_html)}">'
        "</iframe>"
    )
    return section("scene", "The scene", "<p>Drag to turn, scroll to come nearer.</p>", frame)


def _footer(told: Mapping[str, Any]) -> str:
    own = told["evidence"]
    return (
        f"<footer>Evidence {code(told['hash'], 64)}<br>Made by twinproof {e(own['twinproof'])}. Every figure about "
        "trials is computed from trials.parquet beside this page.</footer>"
    )
