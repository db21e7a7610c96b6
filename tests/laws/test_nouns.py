"""Laws that every noun keeps. A new noun is tested by adding one line to NOUNS."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.generator import practice_recording
from tests.nouns import examples
from tests.nouns.test_split import plain_split
from twinproof.nouns import errors, recording
from twinproof.nouns.artifact import Artifact
from twinproof.nouns.errors import StoreError
from twinproof.nouns.evidence import Evidence
from twinproof.nouns.files import file_hashes
from twinproof.nouns.panel import Panel
from twinproof.nouns.policy import Policy
from twinproof.nouns.posterior import Posterior
from twinproof.nouns.randomization import Randomization
from twinproof.nouns.recording import Recording
from twinproof.nouns.split import Split
from twinproof.nouns.trace import Trace
from twinproof.nouns.trials import Trials
from twinproof.nouns.twin import Twin


class Noun(NamedTuple):
    """A noun, two examples that differ, and what reads every byte of its folder."""

    kind: type
    json: str
    error: type[errors.TwinproofError]
    one: Callable[[Path], Any]
    other: Callable[[Path], Any]
    check: Callable[[Path], object]


NOUNS = {
    "recording": Noun(
        Recording, "recording.json", errors.RecordingError,
        lambda tmp: practice_recording(tmp / "made", episodes=1, seconds=0.3, size=(32, 24)),
        lambda tmp: practice_recording(tmp / "made", episodes=1, seconds=0.3, size=(32, 24), seed=1),
        recording.verify,
    ),
    "split": Noun(
        Split, "split.json", errors.SplitError,
        lambda tmp: plain_split(), lambda tmp: replace(plain_split(), seed=4), Split.load,
    ),
    "twin": Noun(
        Twin, "twin.json", errors.TwinError,
        lambda tmp: examples.twin(tmp / "made"),
        lambda tmp: examples.twin(tmp / "made", bodies=(examples.cube(splats=(0, 20)),)), Twin.load,
    ),
    "posterior": Noun(
        Posterior, "posterior.json", errors.PosteriorError,
        lambda tmp: examples.posterior(), lambda tmp: examples.posterior(draws=examples.draws(seed=1)), Posterior.load,
    ),
    "posterior of a family": Noun(
        Posterior, "posterior.json", errors.PosteriorError,
        lambda tmp: examples.family_posterior(), lambda tmp: examples.posterior(), Posterior.load,
    ),
    "randomization": Noun(
        Randomization, "randomization.json", errors.RandomizationError,
        lambda tmp: examples.randomization(), lambda tmp: examples.randomization(draws=examples.draws(seed=1)),
        Randomization.load,
    ),
    "policy": Noun(
        Policy, "policy.json", errors.PolicyError,
        lambda tmp: examples.policy(), lambda tmp: examples.policy(weights={"0.bias": np.ones(4)}), Policy.load,
    ),
    "scripted policy": Noun(
        Policy, "policy.json", errors.PolicyError,
        lambda tmp: examples.policy(kind="scripted", weights={}),
        lambda tmp: examples.policy(kind="scripted", weights={}, seed=8), Policy.load,
    ),
    "panel": Noun(
        Panel, "panel.json", errors.PanelError,
        lambda tmp: examples.panel(), lambda tmp: examples.panel(order_seed=1), Panel.load,
    ),
    "trace": Noun(
        Trace, "trace.json", errors.TraceError, lambda tmp: examples.trace(), lambda tmp: examples.trace(1), Trace.load
    ),
    "trials": Noun(
        Trials, "trials.json", errors.TraceError,
        lambda tmp: examples.all_trials(), lambda tmp: examples.all_trials(attempt=2), Trials.load,
    ),
    "evidence": Noun(
        Evidence, "evidence.json", errors.EvidenceError,
        lambda tmp: examples.evidence(), lambda tmp: examples.evidence(attempt=2), Evidence.load,
    ),
}  # fmt: skip


GROWING = ("split",)  # its ledger gets longer, and the audit checks it: see tests/nouns/test_split.py


@pytest.fixture(params=[name for name in NOUNS if name not in GROWING])
def still(request: pytest.FixtureRequest) -> Noun:
    return NOUNS[request.param]


@pytest.fixture(params=list(NOUNS))
def noun(request: pytest.FixtureRequest) -> Noun:
    return NOUNS[request.param]


def test_load_after_save_is_the_same(noun, tmp_path):
    thing = noun.one(tmp_path / "one")
    thing.save(tmp_path / "saved")
    loaded = noun.kind.load(tmp_path / "saved")
    assert loaded == thing
    assert loaded.hash == thing.hash
    loaded.save(tmp_path / "again")
    assert noun.kind.load(tmp_path / "again") == thing


def test_two_are_equal_when_their_hashes_are(noun, tmp_path):
    one, same, other = noun.one(tmp_path / "one"), noun.one(tmp_path / "same"), noun.other(tmp_path / "other")
    assert one == same
    assert one.hash == same.hash
    assert len({one, same}) == 1
    assert one != other
    assert one.hash != other.hash
    assert one != one.hash


def test_nothing_that_a_noun_holds_can_be_changed(noun, tmp_path):
    thing = noun.one(tmp_path / "one")
    for name, value in _inside(thing):
        if isinstance(value, np.ndarray):
            assert not value.flags.writeable, name
        assert not isinstance(value, (list, set, bytearray)), name
        if isinstance(value, Mapping) and isinstance(thing, Artifact):
            assert not hasattr(value, "__setitem__"), name
    with pytest.raises(AttributeError):
        setattr(thing, fields(thing)[0].name, None)


def _inside(thing: Any, name: str = "") -> list[tuple[str, Any]]:
    """Every value in a noun, with its place."""
    found = [(name, thing)]
    if hasattr(thing, "__dataclass_fields__"):
        for field in fields(thing):
            found += _inside(getattr(thing, field.name), f"{name}.{field.name}")
    elif isinstance(thing, Mapping):
        for key in thing:
            found += _inside(thing[key], f"{name}[{key!r}]")
    elif isinstance(thing, tuple):
        for i, value in enumerate(thing):
            found += _inside(value, f"{name}[{i}]")
    return found


def test_saving_twice_into_one_folder_is_refused(still, tmp_path):
    thing = still.one(tmp_path / "one")
    thing.save(tmp_path / "saved")
    before = file_hashes(tmp_path / "saved")
    with pytest.raises(StoreError, match="Nothing is overwritten"):
        thing.save(tmp_path / "saved")
    assert file_hashes(tmp_path / "saved") == before


def test_a_folder_without_its_json_is_refused(noun, tmp_path):
    noun.one(tmp_path / "one").save(tmp_path / "saved")
    (tmp_path / "saved" / noun.json).unlink()
    with pytest.raises(noun.error, match=rf"{noun.json} does not exist\. .* was never finished"):
        noun.kind.load(tmp_path / "saved")
    with pytest.raises(noun.error, match="Check the path"):
        noun.kind.load(tmp_path / "nowhere")


def test_one_changed_byte_in_any_file_is_found_and_the_file_named(still, tmp_path):
    still.one(tmp_path / "one").save(tmp_path / "saved")
    files = [path for path in sorted((tmp_path / "saved").rglob("*")) if path.is_file()]
    assert files
    for path in files:
        whole = path.read_bytes()
        for place in np.linspace(0, len(whole) - 1, 9).astype(int):
            changed = bytearray(whole)
            changed[place] ^= 0x08
            path.write_bytes(changed)
            with pytest.raises(still.error) as caught:
                still.check(tmp_path / "saved")
            assert path.name in str(caught.value) or path.parent.name in str(caught.value), (path, place)
        path.write_bytes(whole)
    still.check(tmp_path / "saved")


def test_a_file_that_is_gone_is_named(still, tmp_path):
    still.one(tmp_path / "one").save(tmp_path / "saved")
    for path in sorted((tmp_path / "saved").rglob("*")):
        if path.is_file() and path.name != still.json:
            whole = path.read_bytes()
            path.unlink()
            with pytest.raises(still.error, match=path.name):
                still.check(tmp_path / "saved")
            path.write_bytes(whole)


ARTIFACTS = [name for name, noun in NOUNS.items() if issubclass(noun.kind, Artifact)]


@pytest.mark.parametrize("name", ARTIFACTS)
def test_every_byte_of_the_json_counts_even_a_blank(name, tmp_path):
    noun = NOUNS[name]
    noun.one(tmp_path / "one").save(tmp_path / "saved")
    path = tmp_path / "saved" / noun.json
    whole = path.read_text(encoding="utf-8")
    for changed in (whole + "\n", whole.replace('": ', '":  ', 1), whole.replace("{\n", '{\n "new": 1,\n', 1)):
        path.write_text(changed, encoding="utf-8")
        with pytest.raises(noun.error, match=rf"{noun.json} was changed since it was written"):
            noun.kind.load(tmp_path / "saved")


@pytest.mark.parametrize("name", ARTIFACTS)
def test_a_noun_survives_the_way_to_another_process(name, tmp_path):
    thing = NOUNS[name].one(tmp_path / "one")
    assert pickle.loads(pickle.dumps(thing)) == thing
    assert copy.deepcopy(thing) == thing
