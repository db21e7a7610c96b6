"""report.md: the report's words and tables for places that show no HTML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from twinproof.evidence.svg import shown

SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|!~&])")


def markdown(told: Mapping[str, Any]) -> str:
    """The whole report as Markdown; texts from recordings cannot become markup."""
    own, inputs = told["evidence"], told["inputs"]
    parts = [
        f"# {m(own['title'])}: evidence",
        f"{m(inputs['robot'])} · {m('reality: ' + own['reality'] if own['reality'] else 'no reality was run')} · as of "
        f"{m(own['as_of'][:10])} · evidence {code(told['hash'])}",
        "## Claims",
        table(("claim", "verdict", "number", "value", "why"), (_claim(claim) for claim in own["claims"])),
        "## Success",
        table(("world", "policy", "successes", "rate"), (_success(row) for row in own["figures"]["success"])),
        "## Task",
        _task(own["task"]),
        "## Holdout",
        f"{len(own['holdout']['episodes'])} episodes, opened {own['holdout']['attempts']} times.",
        "## Parameters",
        table(("parameter", "mean", "low", "high", "unit", "source", ""), (_estimate(row) for row in own["estimates"])),
        *(f"- {m(text)}" for text in inputs["posterior"]["weak_directions"]),
        "## Ranges",
        table(("parameter", "low", "high", "unit", "source", "why"), (_range(row) for row in inputs["ranges"])),
        "## Trials",
        table(
            ("metric", "world", "policy", "mean", "unit", "over"), (_metric(row) for row in own["figures"]["metrics"])
        ),
        "## Failures",
        table(
            ("label", "meaning", "world", "policy", "trials"),
            (
                [m(row[k]) for k in ("label", "meaning", "domain", "policy", "trials")]
                for row in own["figures"]["failures"]
            ),
        ),
        "## Ledger",
        table(
            ("line", "time", "what happened"),
            ([str(x["n"]), m(str(x["at"])[:19]), m(x["said"])] for x in own["ledger"]),
        ),
        "## Where it came from",
        table(("input", "hash", "bytes"), _inputs(own["named"]["inputs"])),
        table(("stage", "made", "part", "episodes"), (_fit(fit) for fit in own["named"]["fits"])),
        *(f"- {name}: {m(_list(own['named'][name]))}" for name in ("machine", "seeds", "versions")),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def m(value: object) -> str:
    """Text in which nothing is markup and no line ends."""
    return SPECIAL.sub(r"\\\1", " ".join(str(value).split()))


def code(value: object) -> str:
    """A hash; nothing else can stand there."""
    return f"`{re.sub('[^0-9A-Za-z]', '', str(value))}`"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells are escaped already."""
    body = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(["| " + " | ".join(head) + " |", "|" + " --- |" * len(head), *body]) if body else "None."


def _claim(claim: Mapping[str, Any]) -> list[str]:
    value = "–" if claim.get("value") is None else shown(claim["value"])
    if claim.get("interval"):
        value += f" ({shown(claim['interval'][0])} … {shown(claim['interval'][1])})"
    return [m(claim["name"]), f"**{claim['verdict']}**", m(claim.get("number", "")), value, m(claim.get("reason", ""))]


def _success(row: Mapping[str, Any]) -> list[str]:
    rate = f"{100 * row['value']:.0f} % ({100 * row['low']:.0f} … {100 * row['high']:.0f} %)"
    return [m(row["domain"]), m(row["policy"]), f"{row['successes']} of {row['trials']}", rate]


def _task(task: Mapping[str, Any]) -> str:
    sides = (
        f"- {side}: {', '.join(m(channel['name']) for channel in task[side])}" for side in ("observations", "actions")
    )
    timing = (
        f"- {shown(task['rate_hz'])} Hz, delay {shown(1e3 * task['delay_s'])} ms, {shown(task['horizon_s'])} s at most"
    )
    return "\n".join([f"- success: {m(task['success'])}", f"- failure: {m(task['failure'])}", *sides, timing])


def _estimate(row: Mapping[str, Any]) -> list[str]:
    numbers = [shown(row[name], 4) for name in ("mean", "low", "high")]
    known = "" if row.get("identified", True) else "not identified"
    return [m(row["parameter"]["id"]), *numbers, m(row["parameter"]["unit"]), m(row["source"]["kind"]), known]


def _range(row: Mapping[str, Any]) -> list[str]:
    about = row["parameter"]
    return [
        m(about["id"]),
        shown(row["low"]),
        shown(row["high"]),
        m(about["unit"]),
        m(row["source"]["kind"]),
        m(row["reason"]),
    ]


def _metric(row: Mapping[str, Any]) -> list[str]:
    mean = shown(row["value"])
    if row["low"] is not None:
        mean += f" ({shown(row['low'])} … {shown(row['high'])})"
    return [m(row["metric"]), m(row["domain"]), m(row["policy"]), mean, m(row["unit"]), f"{row['count']} {row['over']}"]


def _inputs(inputs: Mapping[str, Any]) -> Iterable[list[str]]:
    return ([m(name), code(entry["hash"]), str(entry["bytes"])] for name, entry in inputs.items())


def _fit(fit: Mapping[str, Any]) -> list[str]:
    return [m(fit["stage"]), code(fit["result"][:16]), m(fit["part"]), " ".join(m(id) for id in fit["episodes"])]


def _list(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())
