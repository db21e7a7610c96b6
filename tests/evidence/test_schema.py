"""The schemas in docs/schema describe exactly what the code writes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.generator import practice_recording
from tests.nouns import examples
from tests.sim.test_drive import DRIVES, FRICTION
from twinproof.evidence.schema import ARTIFACTS, schemas, write
from twinproof.nouns.artifact import Artifact

DOCS = Path(__file__).parents[2] / "docs" / "schema"
MADE = schemas()


def check(name: str, value: Any) -> None:
    jsonschema.Draft202012Validator(MADE[f"{name}.1.json"]).validate(value)


def test_the_schemas_in_the_docs_are_those_of_the_code(tmp_path):
    """After a noun changed: python -m twinproof.evidence.schema docs/schema."""
    names = write(tmp_path)
    assert sorted(path.name for path in DOCS.iterdir()) == sorted(names)
    for name in names:
        assert (DOCS / name).read_bytes() == (tmp_path / name).read_bytes(), name


def test_every_schema_is_one_and_has_its_version():
    for name, schema in MADE.items():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["$id"] == f"urn:twinproof:{name.removesuffix('.1.json')}:1"


def test_every_noun_with_a_folder_has_a_schema():
    nouns = [kind for kind in Artifact.__subclasses__() if kind.__module__.startswith("twinproof.nouns")]
    assert set(ARTIFACTS) == set(nouns)


@pytest.mark.parametrize(
    "make",
    [
        lambda tmp: examples.twin(tmp / "made"),
        lambda tmp: examples.posterior(),
        lambda tmp: examples.family_posterior(),
        lambda tmp: replace(examples.posterior(), drive=DRIVES["network"]),
        lambda tmp: examples.randomization(),
        lambda tmp: replace(examples.randomization(), drive=FRICTION),
        lambda tmp: examples.policy(),
        lambda tmp: examples.policy(kind="scripted", weights={}),
        lambda tmp: examples.panel(),
        lambda tmp: examples.trace(),
        lambda tmp: examples.evidence(),
    ],
)
def test_what_a_noun_writes_fits_its_schema_and_nothing_more(make, tmp_path):
    noun = make(tmp_path)
    noun.save(tmp_path / "saved")
    value = json.loads((tmp_path / "saved" / f"{noun.NAME}.json").read_text())
    check(noun.NAME, value)
    with pytest.raises(jsonschema.ValidationError, match="Additional properties"):
        check(noun.NAME, {**value, "surprise": 1})
    with pytest.raises(jsonschema.ValidationError, match="was expected"):
        check(noun.NAME, {**value, "format": f"twinproof/{noun.NAME}/2"})
    for name in value:
        if name in MADE[f"{noun.NAME}.1.json"]["required"]:
            with pytest.raises(jsonschema.ValidationError, match="is a required property"):
                check(noun.NAME, {key: item for key, item in value.items() if key != name})


def test_a_recording_with_cameras_fits(tmp_path):
    practice_recording(tmp_path / "made", episodes=1, seconds=0.3, size=(32, 24)).save(tmp_path / "saved")
    check("recording", json.loads((tmp_path / "saved" / "recording.json").read_text()))
    for path in (tmp_path / "saved").rglob("episode.json"):
        check("episode", json.loads(path.read_text()))


def test_everything_in_a_whole_chain_fits(folders, saved):
    checked = set()
    roots = [saved, *(path for path in folders.split.parent.iterdir() if path.is_dir())]
    for path in sorted(path for root in roots for path in root.rglob("*.json")):
        value = json.loads(path.read_text())
        kind = str(value.get("format", "")).split("/")
        if len(kind) == 3 and f"{kind[1]}.{kind[2]}.json" in MADE:
            check(kind[1], value)
            checked.add(kind[1])
    for line in (folders.split / "openings.jsonl").read_text().splitlines():
        check("ledger-line", json.loads(line))
    assert {f"{name}.1.json" for name in checked} | {"ledger-line.1.json"} == set(MADE)


def test_a_wrong_type_deep_inside_is_refused(saved):
    value = json.loads((saved / "evidence.json").read_text())
    value["claims"][0]["verdict"] = "maybe"
    with pytest.raises(jsonschema.ValidationError, match="'maybe' is not one of"):
        check("evidence", value)
