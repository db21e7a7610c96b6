"""Evidence from folders: everything is named, everything belongs together, and the claims follow from numbers."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from twinproof import cli_evidence
from twinproof.cli_evidence import policies_of
from twinproof.evidence.assemble import assemble, machine
from twinproof.evidence.claims import judge, measured_before
from twinproof.evidence.figures import figures_of, same
from twinproof.evidence.gather import gather
from twinproof.nouns.errors import ConfigError, EvidenceError
from twinproof.nouns.evidence import Evidence
from twinproof.nouns.interval import clopper_pearson
from twinproof.nouns.panel import Criterion, Domain


def test_evidence_names_everything_it_stands_on_and_comes_back_from_disk(gathered, saved):
    found = Evidence.load(saved)
    assert set(found.inputs) == {
        *(
            "recording",
            "split",
            "twin",
            "posterior",
            "randomization",
            "panel",
            "trials",
            "policy/ppo",
            "policy/scripted",
        )
    }
    assert all(entry.bytes > 0 for entry in found.inputs.values())
    assert found.inputs["posterior"].hash == gathered.posterior.hash
    assert {fit.stage for fit in found.fits} == {"reconstruct", "identify"}
    assert all(set(fit.episodes) == set(gathered.split.calibration) for fit in found.fits)
    assert [estimate.parameter.id for estimate in found.estimates] == list(gathered.posterior.ids)
    assert found.attempt == 1
    assert found.versions["engine of the twin"] == "mujoco 3.17.0"
    assert found.seeds["policy/ppo"] == 7
    assert set(found.machine) == {"system", "cores", "memory"} == set(machine())
    assert {"report.md", "report.json", "ro-crate-metadata.json"} == set(found.documents)


def test_the_three_claims_follow_from_the_panel_and_the_trials(saved):
    found = Evidence.load(saved)
    real = [t for t in found.trials if t.policy == "ppo" and t.domain == "lab"]
    low = clopper_pearson(sum(t.success for t in real), len(real)).low
    claim = found.claim("the policy transfers")
    assert claim.value == low
    assert claim.verdict == "failed"
    assert f"of {len(real)} trials" in claim.number
    assert found.claim("the ranges cover").value == 0.86
    assert found.claim("the twin fits").verdict == "held"


def judged(gathered, opened=True, coverage=None, **panel):
    changed = replace(gathered.panel, **panel)
    figures = figures_of(gathered.panel, gathered.trials.trials, "ppo")
    before = measured_before(gathered.twin, gathered.posterior, gathered.randomization, coverage or gathered.coverage)
    return {claim.name: claim for claim in judge(changed, figures, before, opened)}


@pytest.mark.parametrize(
    ("number", "words"),
    [
        ("success in moon", "is not among those computed; near it are"),
        ("success in twin", "is not measured in reality"),
        ("model error of state.hinge at 0.2 s, lower bound", "has no interval here, so it has no bound"),
    ],
)
def test_a_number_that_cannot_decide_leaves_the_claim_untested_and_says_why(gathered, number, words):
    claims = judged(gathered, criteria=(Criterion("the policy transfers", number, "higher", 0.5),))
    assert claims["the policy transfers"].verdict == "not tested"
    assert words in claims["the policy transfers"].reason
    assert claims["the twin fits"].reason == "the panel states no criterion for it."


@pytest.mark.parametrize(
    ("number", "better", "threshold", "verdict"),
    [
        ("success in lab", "higher", 0.0, "held"),
        ("success of scripted in lab, upper bound", "higher", 1.01, "failed"),
        ("miss in lab, upper bound", "lower", 9.0, "held"),
        ("bias of twin in points", "lower", -200.0, "failed"),
    ],
)
def test_transfer_is_judged_by_success_metrics_or_bias_in_reality(gathered, number, better, threshold, verdict):
    criterion = Criterion("the policy transfers", number, better, threshold)
    assert judged(gathered, criteria=(criterion,))["the policy transfers"].verdict == verdict


def test_without_reality_or_opening_transfer_is_not_tested(gathered):
    assert "no opening of the holdout" in judged(gathered, opened=False)["the policy transfers"].reason
    alone = judged(gathered, domains=(Domain("twin", "twin", 5),))["the policy transfers"]
    assert alone.verdict == "not tested"
    assert "no robot and no logged real trials" in alone.reason


def test_ranges_are_not_judged_on_the_episodes_that_widened_them(gathered):
    widened = replace(gathered.randomization, episodes=gathered.split.validation[:1])
    before = measured_before(gathered.twin, gathered.posterior, widened, gathered.coverage)
    figures = figures_of(gathered.panel, gathered.trials.trials, "ppo")
    claims = {claim.name: claim for claim in judge(gathered.panel, figures, before, opened=True)}
    assert claims["the ranges cover"].verdict == "not tested"
    assert "had widened the ranges before" in claims["the ranges cover"].reason
    untested = measured_before(gathered.twin, gathered.posterior, gathered.randomization, None)
    claims = {claim.name: claim for claim in judge(gathered.panel, figures, untested, opened=True)}
    assert "not held against validation" in claims["the ranges cover"].reason


def test_a_number_by_its_path_may_decide(gathered):
    criterion = Criterion("the twin fits", "posterior: validation.covered", "higher", 0.1)
    assert judged(gathered, criteria=(criterion,))["the twin fits"].verdict == "held"


def test_a_replay_belongs_to_its_condition_and_a_single_one_decides_by_itself(gathered):
    criterion = Criterion("the twin fits", "replay_rmse in twin, upper bound", "lower", 1.0)
    claim = judged(gathered, criteria=(criterion,))["the twin fits"]
    count = len(gathered.panel.conditions)
    assert f"({count} conditions)" in claim.number
    one = replace(gathered.panel, conditions=gathered.panel.conditions[:1], criteria=(criterion,))
    kept = [trial for trial in gathered.trials.trials if trial.condition == one.conditions[0].name]
    claim = judge(one, figures_of(one, kept, "ppo"), {}, opened=True)[0]
    assert claim.verdict == "held"
    assert claim.value == pytest.approx(0.01 + 0.001 * len(one.conditions[0].name))
    assert "decides by itself" in claim.reason


def test_figures_are_the_same_but_for_rounding():
    assert same({"a": [1.0, None, "x", True]}, {"a": (1.0 + 1e-13, None, "x", True)})
    for other in ({"a": 1.1}, {"b": 1.0}, {"a": [1.0]}, {"a": True}, {"a": "1"}):
        assert not same({"a": 1.0}, other)


def test_folders_that_do_not_belong_together_are_named(folders, gathered, tmp_path):
    other = replace(gathered.panel, parents={"split": "0" * 64})
    other.save(tmp_path / "panel")
    with pytest.raises(EvidenceError, match=r"do not belong together: .*the panel was made with another split \(0000"):
        gather(replace(folders, panel=tmp_path / "panel"))
    changed = replace(gathered.recording, episodes=gathered.recording.episodes[1:])
    changed.save(tmp_path / "recording")
    with pytest.raises(EvidenceError, match="the split was made of another recording"):
        gather(replace(folders, recording=tmp_path / "recording"))


def test_a_fit_that_the_ledger_does_not_know_is_refused(folders, gathered, tmp_path):
    silent = replace(gathered.randomization, episodes=gathered.split.validation[:1])
    silent.save(tmp_path / "ranges")
    policies = {"scripted": folders.policies["scripted"]}
    with pytest.raises(EvidenceError, match="the randomization read 1 episodes, and no line of the ledger says so"):
        gather(replace(folders, randomization=tmp_path / "ranges", policies=policies))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"covered": 1.2}, "a share from 0 to 1"),
        ({"randomization": "0" * 64}, "tested another randomization"),
        ({"split": "0" * 64}, "tested another split"),
    ],
)
def test_a_coverage_that_is_of_something_else_is_refused(folders, tmp_path, change, words):
    told = json.loads((folders.randomization / "coverage.json").read_text())
    (tmp_path / "coverage.json").write_text(json.dumps({**told, **change}))
    with pytest.raises(EvidenceError, match=words):
        gather(replace(folders, coverage=tmp_path / "coverage.json"))


def test_pictures_and_curves_that_cannot_be_shown_are_named(folders, tmp_path, monkeypatch):
    with pytest.raises(EvidenceError, match="holds no picture"):
        gather(replace(folders, pictures=tmp_path))
    (tmp_path / "a b.png").write_bytes(b"x")
    with pytest.raises(EvidenceError, match="must be named by letters"):
        gather(replace(folders, pictures=tmp_path))
    (tmp_path / "a b.png").rename(tmp_path / "a.png")
    monkeypatch.setattr("twinproof.evidence.gather.LARGEST_PICTURES", 0)
    with pytest.raises(EvidenceError, match="Choose fewer"):
        gather(replace(folders, pictures=tmp_path))
    shutil.copytree(folders.policies["ppo"], tmp_path / "ppo")
    (tmp_path / "ppo" / "metrics.jsonl").write_text("[1]\n")
    with pytest.raises(EvidenceError, match="line 1 is no table of numbers"):
        gather(replace(folders, policies={"ppo": tmp_path / "ppo"}))


def test_the_policy_that_is_judged_was_run(gathered):
    with pytest.raises(EvidenceError, match="no trial is of the policy 'late'"):
        assemble(replace(gathered, judged="late"))
    assert policies_of(["ppo=a/b", "script=expert"]) == {"ppo": Path("a/b"), "script": None}
    with pytest.raises(ConfigError, match="Write NAME=FOLDER"):
        policies_of(["ppo"])


def test_a_scripted_expert_without_a_folder_may_be_judged(folders, gathered):
    made = assemble(gather(replace(folders, policies={"scripted": None, "ppo": folders.policies["ppo"]})))
    assert made.figures["judged"] == "scripted"
    assert made.inputs["policy/scripted"].hash == gathered.policies["scripted"].hash


def test_the_command_assembles_and_tells_the_claims(folders, tmp_path, capsys):
    named = {name: getattr(folders, name) for name in ("recording", "split", "twin", "posterior", "panel", "trials")}
    policies = tuple(f"{name}={path}" for name, path in folders.policies.items())
    (tmp_path / "scene.html").write_text("<p>scene")
    config = cli_evidence.Evidence(
        **named, randomization=folders.randomization, policy=policies, out=tmp_path / "e", scene=tmp_path / "scene.html"
    )
    assert cli_evidence.evidence(config) == 0
    out = capsys.readouterr().out
    assert "the policy transfers  failed" in out
    assert f"report: {tmp_path / 'e' / 'report.html'}" in out
    assert (tmp_path / "e" / "scene.html").read_text() == "<p>scene"
