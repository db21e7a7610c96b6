"""The report on what the evidence stands on: cameras, shapes, parameters, ranges, training."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from twinproof.evidence import charts
from twinproof.evidence.gather import PICTURE_KINDS
from twinproof.evidence.page_parts import chip, e, figure, key, percent, section, sentences, spread, table, track
from twinproof.evidence.svg import between, shown

FEW_PAIRED = 4  # parameters whose pairs leave room for words beside them
FEW_NOTES = 5  # that are not folded away
FEW_SIGNALS = 8  # whose model errors leave room for pairs beside them
FEW_RANGES = 24  # that are not folded away
DEGREES = 57.29577951308232


def _image(name: str, content: bytes, said: str) -> str:
    kind = PICTURE_KINDS[PurePath(name).suffix.lower()]
    return f'<img src="data:{kind};base64,{base64.b64encode(content).decode()}" alt="{e(said)}">'


def _named(pictures: Mapping[str, bytes], group: str) -> dict[str, dict[str, str]]:
    """'camera_front_after.png' -> front -> after -> file, for the pictures of a group."""
    found: dict[str, dict[str, str]] = {}
    for file in pictures:
        words = PurePath(file).stem.split("_")
        if len(words) > 2 and words[0] == group:
            found.setdefault("_".join(words[1:-1]), {})[words[-1]] = file
    return found


def cameras(inputs: Mapping[str, Any], pictures: Mapping[str, bytes]) -> str:
    """Where the cameras were found to be, and renders laid over photographs before and after."""
    told, parts = inputs["twin"]["cameras"], []
    for name, files in _named(pictures, "camera").items():
        photo = files.get("photo")
        shots = [
            _slider(pictures, photo, files[when], f"{name}, {when} calibration")
            for when in ("before", "after")
            if photo and when in files
        ]
        if shots:
            parts.append(f"<h3>{e(name)}</h3><div class=shots>{''.join(shots)}</div>")
    if not told:
        return section("cameras", "Cameras", *parts)
    rows = [_camera(camera) for camera in told]
    head = ("camera", "pixels", "± mm", "± °", "clock / ms", "outlines agree", "source")
    made = table(head, rows, "One standard deviation of each camera's place, direction and clock.", (2, 3))
    return section("cameras", "Cameras", made, *parts)


def _camera(camera: Mapping[str, Any]) -> list[str]:
    clock = "–"
    if camera.get("clock_offset_s") is not None:
        clock = f"{1e3 * camera['clock_offset_s']:+.1f} ± {1e3 * camera.get('clock_offset_sd_s', 0.0):.1f}".replace(
            "-", "−"
        )
    return [
        e(camera["name"]),
        f"{camera['width']} × {camera['height']}",
        f"{1e3 * camera['position_sd_m']:.1f}",
        f"{DEGREES * camera['rotation_sd_rad']:.2f}",
        clock,
        "–" if camera.get("agrees") is None else percent(camera["agrees"]),
        chip(camera["source"]),
    ]


def _slider(pictures: Mapping[str, bytes], photo: str, render: str, said: str) -> str:
    under = _image(photo, pictures[photo], f"photograph, {said}")
    over = _image(render, pictures[render], f"render of the twin, {said}")
    bar = f'<input type="range" min="0" max="100" value="50" aria-label="share of the photograph, {e(said)}">'
    return (
        f'<figure class="shot"><div class="over">{under}{over}</div>{bar}'
        f"<figcaption>{e(said)}: photograph left, twin right</figcaption></figure>"
    )


def shape(inputs: Mapping[str, Any], pictures: Mapping[str, bytes]) -> str:
    """Bodies with their sources, mesh against splats, and the gap between what is seen and what touches."""
    twin, parts = inputs["twin"], []
    rows = [
        [e(body["name"]), e(body["layer"]), _or_dash(body["mass_kg"]), str(body["splats"] or "–"),
         str(body["parts"] or "–"), chip(body["source"]), e("; ".join(f"{k}: {v}" for k, v in body["lacks"].items()))]
        for body in twin["bodies"]
    ]  # fmt: skip
    head = ("body", "layer", "mass / kg", "splats", "collision parts", "source", "lacks")
    alignment = twin["alignment"]
    parts.append(table(head, rows, "Every body of the scene.", (2, 3, 4)))
    if twin["gaps"]:
        gaps = [
            [
                e(gap["object"]),
                *(_mm(gap[name]) for name in ("mean_m", "p95_m", "worst_m")),
                _or_dash(gap["volume_ratio"]),
            ]
            for gap in twin["gaps"]
        ]
        parts.append("<h3>What is seen against what touches</h3>")
        tops = ("object", "mean / mm", "95 % / mm", "worst / mm", "volume ratio")
        parts.append(table(tops, gaps, "Distance between visual and collision surfaces, both ways.", (1, 2, 3, 4)))
    parts.append(_looks(twin))
    if any(body["splats"] for body in twin["bodies"]):
        parts.append(
            f"<p>Splats and meshes are {1e3 * alignment['splat_mesh_gap_m']:.1f} mm apart on average; "
            f"{1e3 * alignment['tolerance_m']:.1f} mm is the stated tolerance.</p>"
        )
    for name, files in _named(pictures, "object").items():
        shots = [
            f'<figure class="shot">{_image(file, pictures[file], f"{name}: {kind}")}<figcaption>{e(name)}: {e(kind)}'
            "</figcaption></figure>"
            for kind, file in sorted(files.items())
        ]
        parts.append(f"<h3>{e(name)}: mesh and splats</h3><div class=shots>{''.join(shots)}</div>")
    others = [file for file in pictures if not file.startswith(("camera_", "object_"))]
    shots = [f"<figure>{_image(f, pictures[f], f)}<figcaption>{e(f)}</figcaption></figure>" for f in others]
    parts.append(f"<div class=shots>{''.join(shots)}</div>" if shots else "")
    notes = sentences(twin["notes"])
    if len(twin["notes"]) > FEW_NOTES:
        notes = f"<details><summary>{len(twin['notes'])} things to keep in mind</summary>{notes}</details>"
    return section("shape", "Shape and looks", *parts, notes)


def _looks(twin: Mapping[str, Any]) -> str:
    """How well views that no fit saw, and outlines, are matched."""
    rows = []
    for name in dict.fromkeys([*twin["views"], *twin["outlines"]]):
        view, outline = twin["views"].get(name, {}), twin["outlines"].get(name, {})
        rows.append([
            e(name), _db(view.get("psnr_db")), _db(view.get("object_psnr_db")), _or_dash(outline.get("median")),
            _or_dash(outline.get("least")), str(outline.get("views", "–")),
        ])  # fmt: skip
    head = ("object", "PSNR / dB", "of the object / dB", "outline IoU", "least", "views")
    caption = "PSNR of views that no fit saw; overlap of outlines over all views, the median and the least."
    return "<h3>How it looks</h3>" + table(head, rows, caption, (1, 2, 3, 4, 5)) if rows else ""


def _db(value: object) -> str:
    return f"{value:.1f}" if isinstance(value, (int, float)) else "–"


def _mm(metres: float | None) -> str:
    return "–" if metres is None else f"{1e3 * metres:.2f}"


def _or_dash(value: float | None) -> str:
    return "–" if value is None else shown(value)


def posterior(own: Mapping[str, Any], inputs: Mapping[str, Any]) -> str:
    """Parameters with intervals and sources, prior against posterior, pairs, and what the data cannot tell."""
    told = inputs["posterior"]
    rows = [_estimate(estimate) for estimate in own["estimates"]]
    level = percent(own["estimates"][0]["level"]) if own["estimates"] else ""
    head = ("parameter", "mean", f"{level} interval", "unit", "source", "")
    parts = [key(), table(head, rows, f"Found by {told['method']}, {told['draws']} draws.", (1,))]
    small = "".join(
        f'<div><p class="id">{e(entry["id"])} <span class="soft">{e(entry["unit"])}</span></p>'
        f"{charts.density(entry, 'inferred')}{_narrowed(entry)}</div>"
        for entry in told["parameters"]
    )
    parts.append("<h3>Before and after the data</h3><p>Dashed: what was believed before. Filled: after.</p>")
    parts.append(f'<div class="grid-of">{small}</div>')
    pairs = ""
    if len(told["paired"]) > 1:
        left = len(told["parameters"]) - len(told["paired"])
        words = "Draws of every two parameters, on their natural scales, with correlations."
        words += f" {left} parameters that hang less together are left out here." if left > 0 else ""
        pairs = f"<h3>Pairs</h3>{figure(charts.pairs(told['paired']), words)}"
    weak = [*told["weak_directions"], *(f"{id} was not moved by the data" for id in told["unidentified"])]
    weak += told["at_bounds"]
    nothing = "<p>Every parameter was moved by the data, and no direction is weak.</p>"
    limits = f"<h3>What the data cannot tell</h3>{sentences(weak) or nothing}"
    limits += _model_error(told) + _bands(told["validation"])
    few = len(told["paired"]) <= FEW_PAIRED and len(told["discrepancy"]) <= FEW_SIGNALS
    parts.append(f'<div class="two"><div>{pairs}</div><div>{limits}</div></div>' if pairs and few else pairs + limits)
    return section("posterior", "Parameters", *parts)


def _narrowed(entry: Mapping[str, Any]) -> str:
    ratio = entry["narrowed"]
    if ratio is None:
        return ""
    words = f"{shown(ratio, 2)} × narrower than before" if ratio >= 1.5 else "about as wide as before"
    return f'<p class="small soft">{e(words)}</p>'


def _estimate(estimate: Mapping[str, Any]) -> list[str]:
    known = estimate.get("identified", True)
    return [
        e(estimate["parameter"]["id"]),
        shown(estimate["mean"], 4),
        between(estimate["low"], estimate["high"]),
        e(estimate["parameter"]["unit"]),
        chip(estimate["source"]),
        "" if known else '<span class="flag">not identified</span>',
    ]


def _model_error(told: Mapping[str, Any]) -> str:
    if not told["discrepancy"]:
        return f"<h3>Model error</h3><p>Not estimated: {e(told['no_discrepancy'])}</p>"
    rows = [
        [e(each["signal"]), e(each["unit"]), ", ".join(f"{shown(sd)} at {shown(h)} s" for h, sd in _ends(each))]
        for each in told["discrepancy"]
    ]
    caption = "What the best parameters leave unexplained, by how far ahead is predicted (one standard deviation)."
    return "<h3>Model error</h3>" + table(("signal", "unit", "shortest and longest horizon"), rows, caption)


def _ends(each: Mapping[str, Any]) -> Sequence[tuple[float, float]]:
    both = list(zip(each["horizon_s"], each["sd"], strict=True))
    return both if len(both) < 2 else [both[0], both[-1]]


def _bands(validation: Mapping[str, Any] | None) -> str:
    if not isinstance(validation, Mapping) or validation.get("covered") is None:
        return ""
    alone = validation.get("covered_by_parameters_alone")
    more = f" Without the model error they would cover {percent(alone)}." if alone is not None else ""
    return (
        f"<h3>Prediction of validation episodes</h3><p>{percent(validation['level'])} bands cover "
        f"{percent(validation['covered'])} of what was measured on {len(validation.get('episodes', []))} episodes that "
        f"no fit has seen.{more}</p>"
    )


def ranges(inputs: Mapping[str, Any]) -> str:
    """What training drew from, held against what was inferred; each with its source and reason."""
    rows, why = [], []
    for entry in inputs["ranges"]:
        id, unit = e(entry["parameter"]["id"]), entry["parameter"]["unit"]
        ends = f'<span class="nw">{between(entry["low"], entry["high"])}</span>'
        covers = "–" if entry["covers"] is None else percent(entry["covers"])
        named = "" if unit == "1" else e(unit)
        rows.append([id, ends, named, charts.range_row(entry), chip(entry["source"]), covers])
        why.append([id, e(entry["reason"]), e(entry["approximates"]), e(entry["check"])])
    head = ("parameter", "range", "unit", "range and posterior", "source", "covers")
    caption = "Bar: the range. Tick: its point. Line above: 90 % of the posterior, and the share of it that is covered."
    first, others = rows, list[list[str]]()
    if len(rows) > FEW_RANGES:  # cameras and looks are many, and say little one by one
        first = [row for row, entry in zip(rows, inputs["ranges"], strict=True) if entry["posterior"]] or rows[
            :FEW_RANGES
        ]
        others = [row for row in rows if row not in first]
    more = table(head, others, "Bar: the range. Tick: its point.", (5,))
    more = (
        f"<details><summary>{len(others)} more ranges, of what no posterior is about</summary>{more}</details>"
        if others
        else ""
    )
    reasons = table(("parameter", "why it is in doubt", "what it stands for", "what checks it"), why)
    folded = f"<details><summary>Why each is in doubt, and what checks it</summary>{reasons}</details>"
    made = table(head, first, caption, (5,))
    return section("ranges", "Ranges", made, more, folded, _coverage(inputs["coverage"]))


def _coverage(told: Mapping[str, Any] | None) -> str:
    if told is None:
        return "<p>The ranges were not held against validation episodes.</p>"
    interval = dict(zip(("low", "high"), told["interval"], strict=True)) if told.get("interval") else {}
    share = spread({"value": told["covered"], **interval}, as_percent=True)
    level = f" Bands of level {percent(told['level'])}." if told.get("level") is not None else ""
    judged = e(told.get("judged_on", f"{len(told['episodes'])} validation episodes"))
    alone = told.get("covered_by_parameters_alone")
    more = "" if alone is None else f" The spread of the parameters alone would cover {percent(alone)}."
    parts = [f"<h3>Range-miss test</h3><p>{share} of the data of {judged} lie inside.{level}{more}</p>"]
    rows = []
    for row in told.get("signals", []):
        inside = {"value": row["share"]["covered"], "low": row["share"]["low"], "high": row["share"]["high"]}
        flag = '<span class="flag">missed</span>' if row.get("missed") else ""
        drawn = track(inside["value"], (0.0, 1.0), (inside["low"], inside["high"]), told.get("level"))
        rows.append([e(row["signal"]), spread(inside, as_percent=True), drawn, flag])
    head = ("signal", "inside its band", "0 to 100 %, mark: stated level", "")
    parts.append(table(head, rows, "By signal, with 95 % intervals over windows.") if rows else "")
    parts.append(sentences([*told.get("misses", []), *told.get("widened", []), *told.get("notes", [])]))
    return "".join(parts)


def training(inputs: Mapping[str, Any]) -> str:
    """The curves of each policy's training, where they were logged."""
    told = inputs["training"]
    values = dict.fromkeys(curve["value"] for curves in told.values() for curve in curves)
    drawn = []
    for value in values:
        same = {name: curve for name, curves in told.items() for curve in curves if curve["value"] == value}
        drawn.append(figure(charts.training(same), f"{value[0].upper()}{value[1:]}, as logged while training."))
    if not drawn:
        return ""
    rows = [
        [e(name), e(policy["kind"]), str(policy["seed"]), "yes" if policy["deployable"] else "no"]
        for name, policy in inputs["policies"].items()
    ]
    return section(
        "training", "Training", *drawn, table(("policy", "kind", "seed", "deployable"), rows, "Policies.", (2,))
    )
