"""The report on what happened: trials, real against twin, failures, the ledger, and where everything came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twinproof.evidence import charts
from twinproof.evidence.page_parts import code, e, facts, figure, percent, section, sentences, spread, table, track
from twinproof.evidence.svg import shown

FEW = 12  # rows of a table that is not folded away
MOST_ROWS = 200  # of a table on the page; the files beside it have all


def trials(own: Mapping[str, Any]) -> str:
    """Success by condition, and every metric with its interval."""
    figures, worlds = own["figures"], [domain["name"] for domain in own["domains"]]
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for row in figures["by_condition"]:
        told = f"{row['successes']} of {row['trials']}"
        cells.setdefault((row["condition"], row["policy"]), {})[row["domain"]] = told
    by_condition = _folded("Successes by condition", ("condition", "policy", *worlds), _across(cells, worlds))
    metrics: dict[tuple[str, str], dict[str, str]] = {}
    about = {}
    for row in sorted(figures["metrics"], key=lambda row: row["metric"]):
        if row["over"] == "conditions" and row["policy"] != figures["judged"]:
            continue  # a replay is the same for every policy
        unit = "" if row["unit"] == "1" else f"{row['unit']}, "
        about[row["metric"]] = f"{unit}{row['better']} is better, over {row['over']}"
        metrics.setdefault((row["metric"], row["policy"]), {})[row["domain"]] = spread(row)
    rows = [[f'{first} <span class="soft small">{e(about[name])}</span>', *rest]
            for (first, *rest), (name, _) in zip(_across(metrics, worlds), metrics, strict=True)]  # fmt: skip
    words = f"Means over trials with {percent(figures['level'])} intervals; what they are over is taken as independent."
    made = table(("metric", "policy", *worlds), rows[:MOST_ROWS], words) + _left(rows) if rows else ""
    return section("trials", "Trials", made, by_condition)


def _across(cells: Mapping[tuple[str, str], Mapping[str, str]], worlds: list[str]) -> list[list[str]]:
    """A row for each thing and policy, a column for each world."""
    return [
        [e(name), e(policy), *(found.get(world, "–") for world in worlds)] for (name, policy), found in cells.items()
    ]


def _left(rows: list[list[str]]) -> str:
    more = len(rows) - MOST_ROWS
    return f'<p class="small soft">{more} more rows are in report.json.</p>' if more > 0 else ""


def _folded(title: str, head: tuple[str, ...], rows: list[list[str]], numeric: tuple[int, ...] = ()) -> str:
    made = table(head, rows[:MOST_ROWS], title, numeric) + _left(rows) if rows else ""
    if len(rows) <= FEW:
        return made
    return f"<details><summary>{e(title)}: {len(rows)} rows</summary>{made}</details>"


def differences(own: Mapping[str, Any], inputs: Mapping[str, Any]) -> str:
    """How far twin and reality drift apart, step by step, and whose events come when."""
    parts, rows = [], own["divergence"]
    if rows:
        unit = rows[0]["unit"]
        same = [row for row in rows if row["unit"] == unit]
        words = (
            f"Closed loop: median over {_pairs(same)} on the same condition and seed; band: four in five of the first."
        )
        parts.append(figure(charts.courses(same, f"RMS difference of the joints / {unit}"), words))
    replay = inputs["summary"]["replay"]
    if replay:
        words = f"Replay: logged actions of the holdout's episodes, played in each world; median over {_pairs(replay)}."
        parts.append(figure(charts.courses(replay, f"RMS difference of the joints / {replay[0]['unit']}"), words))
    parts += [_steps(inputs["summary"]["decomposition"]), _agreement(inputs["summary"]["agreement"])]
    strips = []
    for entry in own["strips"]:
        words = f"{entry['condition']}, trial {entry['repeat']}; traces: "
        links = " and ".join(_trace(lane["trace"], lane["domain"]) for lane in entry["lanes"])
        strips.append(figure(charts.strip(entry), words, links))
    if strips:
        parts.append("<h3>Events</h3><p>The same event in both worlds is joined.</p>" + "".join(strips))
    return section("differences", "Reality against the twin", *parts)


def _pairs(rows: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(f"{row['domain']} {row['pairs']}" for row in rows) + " pairs"


def _steps(steps: Sequence[Mapping[str, Any]]) -> str:
    """The gap between robot and twin, one thing added at each step."""
    if not steps:
        return ""
    known = [step for step in steps if step["value"] is not None]
    top = (
        max([0.0, *(step["value"] for step in known), *(max(step.get("interval") or (0.0,)) for step in known)]) or 1.0
    )
    rows = []
    for step in steps:
        if step["value"] is None:
            rows.append([e(step["what"]), "not known", e(step.get("unit", "")), ""])
            continue
        interval = tuple(step["interval"]) if step.get("interval") else None
        told = spread({"value": step["value"], **dict(zip(("low", "high"), interval or (), strict=False))})
        rows.append([e(step["what"]), told, e(step.get("unit", "")), track(step["value"], (0.0, top), interval)])
    caption = "Each step adds one thing to the one before it."
    return "<h3>Where the gap arises</h3>" + table(("step", "gap", "unit", f"0 to {shown(top)}"), rows, caption)


def _agreement(told: Mapping[str, Any] | None) -> str:
    """Whether each world ranks policies as reality does, beside what a perfect twin would show."""
    rows = []
    for domain, entry in (told or {}).items():
        low, middle, high = entry["ceiling"]["pearson"]
        perfect = f'{shown(middle)} <span class="soft nw">({shown(low)} … {shown(high)})</span>'
        r = "–" if entry["pearson"] is None else spread(entry["pearson"])
        rows.append([e(domain), r, perfect, spread(entry["mmrv"]), spread(entry["bias_points"])])
    head = ("world", "Pearson's r", "r of a perfect twin", "rank violation (MMRV)", "bias in points")
    caption = "Over policies, with intervals; few trials keep even a perfect twin from r = 1."
    return "<h3>Does the twin rank policies as reality does?</h3>" + table(head, rows, caption) if rows else ""


def _trace(hash: str | None, words: str) -> str:
    return f'<a href="traces/{e(hash)}/trace.json">{e(words)}</a>' if hash else e(words)


def failures(own: Mapping[str, Any]) -> str:
    """How often each label was given, and every failed trial with its trace."""
    figures, failed = own["figures"], own["failed"]
    if not failed:
        return section("failures", "Failures", "<p>No trial failed.</p>")
    worlds = [domain["name"] for domain in own["domains"]]
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for row in sorted(figures["failures"], key=lambda row: row["policy"] != figures["judged"]):
        cells.setdefault((row["label"], row["policy"]), {})[row["domain"]] = str(row["trials"])
    meanings = {row["label"]: row["meaning"] for row in figures["failures"]}
    counted = [[f'{first} <span class="soft small">{e(meanings[label])}</span>', *rest]
               for (first, *rest), (label, _) in zip(_across(cells, worlds), cells, strict=True)]  # fmt: skip
    numeric = tuple(range(2, 2 + len(worlds)))
    labels = table(("label", "policy", *worlds), counted, "Failed trials by label and world.", numeric)
    order = sorted(failed, key=lambda row: (row["kind"] != "real", row["policy"] != figures["judged"]))
    rows = [
        [e(row["label"]), e(row["domain"]), e(row["policy"]), e(row["condition"]), str(row["repeat"]), e(row["note"]),
         _trace(row["trace"], "trace") if row["trace"] else '<span class="soft">not kept</span>']
        for row in order
    ]  # fmt: skip
    head = ("label", "world", "policy", "condition", "trial", "what the trace shows", "trace")
    return section("failures", "Failures", labels, _folded("Every failed trial", head, rows, (4,)))


def ledger(own: Mapping[str, Any]) -> str:
    """Everything that touched the split, in order."""
    rows = [
        [
            str(line["n"]),
            e(str(line["at"])[:19].replace("T", " ")),
            e(line["kind"]),
            e(line["said"]),
            code(line["hash"]),
        ]
        for line in own["ledger"]
    ]
    head = ("line", "time (UTC)", "kind", "what happened", "hash")
    words = "<p>Each line holds the hash of the one before it, so none can be changed, added or taken away unseen.</p>"
    return section("ledger", "Ledger", words, _folded("Everything that touched the split, in order", head, rows))


def provenance(own: Mapping[str, Any], inputs: Mapping[str, Any]) -> str:
    """Inputs by hash and size, fits by the episodes they read, versions, seeds, and the kind of machine."""
    named = own["named"]
    rows = [[e(name), code(entry["hash"], 16), _size(entry["bytes"])] for name, entry in named["inputs"].items()]
    parts = [table(("input", "hash", "size"), rows, "What the evidence stands on.", (2,))]
    fits = [
        [e(fit["stage"]), code(fit["result"]), e(fit["part"]), str(len(fit["episodes"])), _ids(fit["episodes"])]
        for fit in named["fits"]
    ]
    head = ("stage", "made", "part", "episodes", "exactly which")
    parts.append(table(head, fits, "Every fit, with the exact episodes it read.", (3,)))
    counts = ", ".join(f"{part} {count}" for part, count in named["parts"].items())
    grouped = ", ".join(named["grouping"]) or "no label"
    told = [("episodes", e(counts)), ("grouped by", e(grouped))]
    told += [("machine", e(", ".join(f"{name} {value}" for name, value in named["machine"].items())))]
    told += [("seeds", e(", ".join(f"{name} {value}" for name, value in named["seeds"].items())))]
    told += [("versions", e(", ".join(f"{name} {value}" for name, value in named["versions"].items())))]
    parts.append(facts(told))
    parts.append(sentences(inputs["summary"]["notes"]))
    return section("provenance", "Where it came from", *parts)


def _ids(episodes: list[str]) -> str:
    return f"<details><summary>ids</summary>{' '.join(code(id, 16) for id in episodes)}</details>"


def _size(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{shown(count / size)} {unit}"
    return f"{count} B"


def checking(told: Mapping[str, Any]) -> str:
    """What a stranger does to check it."""
    words = (
        "<p>The audit hashes every file again, replays the ledger, and computes anew: success, metrics, bias, "
        "failures, ranks and claims from trials.parquet, differences over time and events from the traces. What this "
        "page shows of the twin, the posterior, the ranges, their coverage, policies, training and replays is held "
        "against the folders that are given. What could not be confirmed is named, in plain words.</p>"
    )
    commands = "twinproof audit EVIDENCE\n"
    commands += "twinproof audit EVIDENCE recording split twin posterior randomization panel trials policy\n"
    commands += "twinproof verify EVIDENCE --key PUBLIC_KEY"
    links = " · ".join(
        f'<a href="{file}">{file}</a>' for file in ("evidence.json", "trials.parquet", "report.json", "report.md")
    )
    return section("checking", "Check it yourself", words, f"<pre>{commands}</pre>", f"<p>{links}</p>")
