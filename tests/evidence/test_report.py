"""The report: one file, nothing fetched, every text escaped, readable by ear, and the same in three forms."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tests.nouns.examples import MASS, posterior, twin
from twinproof.evidence import charts
from twinproof.evidence.assemble import assemble
from twinproof.evidence.markdown import markdown
from twinproof.evidence.model import model_of
from twinproof.evidence.model_inputs import posterior_of, twin_of
from twinproof.evidence.model_summary import curves_of
from twinproof.evidence.page import page
from twinproof.evidence.page_parts import percent
from twinproof.evidence.style import SCRIPT, STYLE
from twinproof.evidence.svg import between, shown, ticks
from twinproof.nouns.belief import Prior, normalised
from twinproof.nouns.errors import EvidenceError
from twinproof.nouns.evidence import Evidence
from twinproof.nouns.randomness import stream
from twinproof.nouns.source import Declared

HOSTILE = "</title></style></script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&|`*_[a](javascript:x)"
NAMED = (
    "training",
    "policies",
    "lacks",
    "versions",
    "seeds",
    "machine",
    "views",
    "outlines",
    "agreement",
)  # tables whose names come from outside
FIXED = ("verdict", "kind", "better", "layer", "part", "value_kind", "label", "over", "level", "judged")
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SHOTS = (
    "camera_front_photo.png",
    "camera_front_before.png",
    "camera_front_after.png",
    "object_cube_mesh.png",
    "view.png",
)


class Reader(HTMLParser):
    """Every tag with its attributes, and all text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def of(self, *names: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag in names]


@pytest.fixture(scope="session")
def told(gathered, saved) -> dict[str, Any]:
    return model_of(Evidence.load(saved), gathered)


def spoilt(value: Any, name: str = "") -> Any:
    """The same report with every free text, and every name that comes from outside, hostile."""
    if isinstance(value, dict):
        return {(HOSTILE + key if name in NAMED else key): spoilt(item, key) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [spoilt(item, name) for item in value]
    return HOSTILE if isinstance(value, str) and name not in FIXED else value


def test_hostile_texts_from_anywhere_stay_texts(told):
    dirty = spoilt(told)
    dirty["evidence"]["claims"] = [
        {**claim, "verdict": before["verdict"]}
        for claim, before in zip(dirty["evidence"]["claims"], told["evidence"]["claims"], strict=True)
    ]
    dirty["inputs"]["training"] = {HOSTILE: next(iter(told["inputs"]["training"].values()))}
    made = page(dirty, dict.fromkeys(SHOTS, PNG))
    found = Reader(made)
    assert len(found.of("script")) == 1
    assert SCRIPT in made
    assert not [attributes for _, attributes in found.tags for name in attributes if name.startswith("on")]
    assert all(image["src"].startswith("data:image/png;base64,") for image in found.of("img"))
    assert not [
        link for link in found.of("a") if "javascript" in link["href"] and not link["href"].startswith("traces/")
    ]
    assert "alert(1)" in "".join(found.text)
    words = markdown(dirty)
    assert "<script" not in words.replace("\\<script", "")
    assert not re.search(r"(?<!\\)\]\(javascript", words)


def test_the_page_fetches_nothing_and_lets_no_other_script_run(saved):
    text = (saved / "report.html").read_text()
    found = Reader(text)
    guard = next(meta["content"] for meta in found.of("meta") if meta.get("http-equiv") == "Content-Security-Policy")
    own = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    assert guard.endswith(f"script-src 'sha256-{own}'")
    assert "default-src 'none'" in guard
    assert not found.of("link", "iframe", "object", "embed")
    assert not re.search(r"(?:src|href)=\"(?:https?:)?//", text)
    assert "url(" not in text


def test_the_first_screen_says_what_matters(saved):
    text = (saved / "report.html").read_text()
    first = text[text.index('id="summary"') : text.index('id="shape"')]
    for words in ("The twin fits", "The ranges cover", "The policy transfers", "held", "failed", "Task", "Holdout"):
        assert words in first
    for words in ("the bob ends within 0.6 rad", "once", "lab bench &#x27;pendulum&#x27;, simulated", "nominal"):
        assert words in first


def test_every_section_is_there_and_linked(saved):
    found = Reader((saved / "report.html").read_text())
    ids = {section["id"] for section in found.of("section")}
    wanted = {"summary", "shape", "posterior", "ranges", "training", "trials", "differences", "failures", "ledger"}
    assert wanted | {"provenance", "checking"} == ids
    assert {link["href"] for link in found.of("a") if link["href"].startswith("#")} == {
        f"#{id}" for id in {*ids, "main"}
    }
    traces = [link["href"] for link in found.of("a") if link["href"].startswith("traces/")]
    assert traces
    assert all((saved / link).is_file() for link in traces)


def test_a_screen_reader_finds_headers_names_and_a_language(saved):
    text = (saved / "report.html").read_text()
    found = Reader(text)
    assert '<html lang="en">' in text
    assert all(head.get("scope") in ("row", "col") for head in found.of("th"))
    assert all(
        drawing.get("role") == "img" and drawing.get("aria-label")
        for drawing in found.of("svg")
        if drawing.get("class")
    )
    assert all(drawing.get("aria-hidden") for drawing in found.of("svg") if not drawing.get("class"))
    assert len(found.of("h1")) == len(found.of("main")) == len(found.of("nav")) == 1
    levels = [int(tag[1]) for tag, _ in found.tags if tag in ("h1", "h2", "h3")]
    assert all(after - before <= 1 for before, after in pairwise(levels))


def luminance(colour: str) -> float:
    digits = colour * 2 if len(colour) == 3 else colour
    parts = [int(digits[k : k + 2], 16) / 255 for k in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", [":root{", "dark){:root{", "print{:root{"])
def test_every_text_stands_out_from_what_lies_behind_it(theme):
    """WCAG AA: a contrast of 4.5 or more."""
    start = STYLE.index(theme) + len(theme)
    names = dict(re.findall(r"--([\w-]+):#([0-9a-f]{3,6})", STYLE[start : STYLE.index("}", start)]))
    pairs = [(text, "paper") for text in ("ink", "soft", "link", "measured", "inferred", "declared", "failed", "held")]
    pairs += [("held", "held-bg"), ("failed", "failed-bg"), ("open", "open-bg"), ("ink", "panel")]
    for text, behind in pairs:
        light, dark = sorted((luminance(names[text]), luminance(names[behind])), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, (theme, text, behind)


def test_pictures_come_with_sliders_and_words(told):
    made = page(told, dict.fromkeys(SHOTS, PNG))
    found = Reader(made)
    assert len(found.of("img")) == 2 * 2 + 2
    assert all(image["alt"] for image in found.of("img"))
    sliders = found.of("input")
    assert [slider["aria-label"] for slider in sliders] == [
        f"share of the photograph, front, {when} calibration" for when in ("before", "after")
    ]


def test_the_page_does_not_depend_on_the_order_of_its_pictures(told):
    """An audit finds them in the order of their names, a report was made in the order of the cameras."""
    names = (*SHOTS, *(name.replace("front", "back") for name in SHOTS[:3]))
    shots = {name: PNG + bytes([k]) for k, name in enumerate(names)}
    assert page(told, shots) == page(told, dict(reversed(shots.items())))


def test_a_twin_made_of_pictures_shows_cameras_gaps_and_looks(told, tmp_path):
    made = twin(tmp_path / "made", audits={
        "visual_against_collision": {"cube": {"mean_m": 0.001, "p95_m": 0.002, "worst_m": 0.004, "volume_ratio": 1.1}},
        "held_out_views": {"cube": {"psnr_db": 27.2, "object_psnr_db": 22.7}},
        "silhouette_iou": {"cube": {"front/1": 0.8, "front/2": 0.6}},
        "calibration": {"cameras": {"front": {"clock_offset_s": -0.018, "clock_offset_sd_s": 0.009, "agrees": 0.95}}},
    })  # fmt: skip
    text = page({**told, "inputs": {**told["inputs"], "twin": twin_of(made)}}, {})
    for words in ("−18.0 ± 9.0", "95 %", "27.2", "22.7", ">0.7<", "2.00", "volume ratio", "1.0 mm apart", "only looks"):
        assert words in text


def test_a_scene_stands_in_a_frame_of_its_own(gathered, tmp_path):
    scene = "<!doctype html><body><script>document.title='scene'</script></body>"
    made = assemble(gathered, scene)
    found = Reader(made.report)
    frame = found.of("iframe")[0]
    assert frame["srcdoc"] == scene
    assert frame["sandbox"] == "allow-scripts"
    guard = next(meta["content"] for meta in found.of("meta") if meta.get("http-equiv") == "Content-Security-Policy")
    assert "script-src-attr 'none'" in guard
    assert "http" not in guard
    assert made.documents["scene.html"] == scene.encode()


def test_a_report_that_is_too_large_to_send_is_refused(told):
    with pytest.raises(EvidenceError, match="at most 15 MB can be sent around"):
        page(told, {}, "x" * 15_000_001)


def test_the_three_forms_say_the_same(saved, told):
    assert json.loads((saved / "report.json").read_text()) == json.loads(json.dumps(told))
    words = (saved / "report.md").read_text()
    for claim in told["evidence"]["claims"]:
        assert f"| {claim['name']} | **{claim['verdict']}** |" in words
    assert told["hash"] in words
    assert len((saved / "report.html").read_bytes()) < 300_000


def test_evidence_without_curves_strips_or_failures_has_a_report_too(told):
    bare = json.loads(json.dumps(told))
    bare["evidence"].update(strips=[], divergence=[], failed=[])
    bare["inputs"].update(training={}, coverage=None)
    bare["inputs"]["summary"] = {"decomposition": [], "agreement": None, "replay": [], "notes": []}
    bare["inputs"]["posterior"].update(
        discrepancy=[], no_discrepancy="one window", validation=None, weak_directions=["a + b"]
    )
    made = page(bare, {})
    for words in ("No trial failed", "were not held against validation", "Not estimated: one window", "a + b"):
        assert words in made
    assert 'id="training"' not in made
    assert 'id="differences"' not in made


def test_what_evaluate_computed_is_shown(saved):
    text = (saved / "report.html").read_text()
    for words in (
        "Where the gap arises",
        "replay of the robot&#x27;s commands",
        "r of a perfect twin",
        "Replay: logged",
    ):
        assert words in text


def test_rewards_are_added_up_and_what_was_not_logged_is_not_drawn():
    rows = ({"steps": 1.0, "reward/a": 1.0, "reward/b": 2.0}, {"steps": 2.0, "reward/a": 3.0, "success": 0.5})
    assert curves_of(rows) == [{"value": "reward", "steps": "steps", "points": [[1.0, 3.0], [2.0, 3.0]]}]
    assert curves_of(()) == []


def test_a_holdout_opened_more_than_once_is_flagged(told):
    more = json.loads(json.dumps(told))
    again = {"at": "2026-11-16T00:00:00", "attempt": 2, "by": "ab", "change": "friction widened"}
    more["evidence"]["holdout"].update(
        attempts=2, resumed=1, openings=[*more["evidence"]["holdout"]["openings"], again]
    )
    made = page(more, {})
    assert '<strong class="flag">twice</strong>' in made
    assert "after the change “friction widened”" in made


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.12345, "0.123"),
        (1234.5, "1230"),
        (45678.0, "45\u202f700"),
        (1.2e-5, "1.2·10⁻⁵"),
        (1.2e-4, "0.00012"),
        (-2.0, "−2"),
        (1e20, "1·10²⁰"),
    ],
)
def test_numbers_are_written_for_people(value, text):
    assert shown(value) == text


def test_ends_are_told_apart_and_shares_stay_honest():
    assert between(0.49991, 0.50012, "kg") == "0.49991 … 0.50012 kg"
    assert between(1.0, 2.0, "1") == "1 … 2"
    assert between(3.0, 3.0) == "3 … 3"
    assert [percent(x) for x in (0, 0.004, 0.5, 0.996, 0.99999, 1)] == [
        "0 %",
        "0.4 %",
        "50 %",
        "99.6 %",
        "100 %",
        "100 %",
    ]
    assert ticks(0, 1, 4) == [0, 0.5, 1]
    assert ticks(2, 2) == [2]


def test_a_parameter_that_never_varies_can_be_drawn():
    assert "–" in charts.pairs([{"id": "a", "draws": [1.0, 1.0]}, {"id": "b", "draws": [1.0, 2.0]}])


def test_pairs_show_the_parameters_that_hang_together_and_draws_as_often_as_they_weigh():
    rng = stream(0, "pairs")
    common = rng.normal(size=500)
    columns = [rng.normal(size=500) for _ in range(8)]
    columns[2], columns[7] = common + 0.1 * columns[2], common + 0.1 * columns[7]
    rows = 0.2 + 0.01 * np.stack(columns, axis=1)
    weights = normalised(np.where(rows[:, 2] > 0.2, 0.0, -50.0))
    names = tuple(replace(MASS, id=f"body.b{k}.mass") for k in range(8))
    found = posterior_of(
        posterior(draws=rows, log_weights=weights, parameters=names, priors=(Prior(Declared("wide")),) * 8)
    )["paired"]
    ids = [column["id"] for column in found]
    assert len(ids) == 6
    assert {"body.b2.mass", "body.b7.mass"} < set(ids)
    assert min(found[ids.index("body.b2.mass")]["draws"]) >= np.log(0.2) - 1e-4


def test_the_crate_describes_every_file_once_and_points_at_nothing_unknown(saved):
    graph = json.loads((saved / "ro-crate-metadata.json").read_text())["@graph"]
    ids = [entry["@id"] for entry in graph]
    assert len(set(ids)) == len(ids)
    root = next(entry for entry in graph if entry["@id"] == "./")
    parts = {part["@id"] for part in root["hasPart"]}
    files = {path.relative_to(saved).as_posix() for path in saved.iterdir() if path.is_file()}
    assert files - {"ro-crate-metadata.json"} == {part for part in parts if not part.endswith("/")}
    pointed = set(re.findall(r'\{"@id": "([^"]+)"\}', json.dumps(graph))) - {"https://w3id.org/ro/crate/1.1"}
    assert pointed <= set(ids)
    made = {entry["result"]["@id"] for entry in graph if entry["@type"] == "CreateAction"}
    assert made <= set(ids)


def test_evidence_with_other_documents_is_the_same_evidence(gathered, saved):
    assert assemble(replace(gathered, pictures={"view.png": PNG})) == Evidence.load(saved)
