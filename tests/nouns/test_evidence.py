"""The laws of Evidence: it names all that makes it evidence, or it is not built."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.nouns.examples import claims, evidence, panel, trace, trials
from twinproof.nouns.errors import EvidenceError, PanelError, TraceError
from twinproof.nouns.evidence import Claim, Evidence, Fit, Input


@pytest.mark.parametrize(
    ("change", "lacks"),
    [
        ({"fits": ()}, "the calibration data"),
        ({"fits": (Fit("identify", "3" * 64, "calibration", ()),)}, "the calibration data"),
        ({"estimates": ()}, "the reconstructed parameters"),
        ({"ranges": ()}, "the residual ranges"),
        ({"holdout": ()}, "the final holdout"),
        ({"ledger": None}, "the leakage guard"),
        ({"trials": ()}, "the trials"),
        (
            {"inputs": {"recording": Input("1" * 64)}},
            "the hash of the split; the hash of the twin; the hash of the post",
        ),
        ({"claims": claims()[1:]}, "the claim 'the twin fits'"),
        ({"claims": (*claims(), claims()[0])}, "the claim 'the twin fits'"),
    ],
)
def test_evidence_that_lacks_something_is_not_built_and_says_what(change, lacks):
    with pytest.raises(EvidenceError, match=f"evidence cannot be built: it lacks .*{lacks}"):
        evidence(**change)


def test_everything_that_lacks_is_named_at_once():
    with pytest.raises(EvidenceError) as caught:
        evidence(fits=(), estimates=(), ranges=(), holdout=(), ledger=None)
    for words in ("calibration", "reconstructed parameters", "residual ranges", "holdout", "leakage guard"):
        assert words in str(caught.value)


def test_a_fit_that_read_the_holdout_is_named():
    fits = (*evidence().fits, Fit("train", "5" * 64, "calibration", ("e1", "h2")))
    with pytest.raises(EvidenceError, match="the stage 'train' read the episode h2, which is in the holdout"):
        evidence(fits=fits)


def test_trials_and_conditions_obey_the_panel():
    with pytest.raises(PanelError, match="1 trials are missing"):
        evidence(trials=evidence().trials[:-1])
    with pytest.raises(PanelError, match="not in the holdout"):
        evidence(holdout=("h1",))


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        ({"verdict": "not tested", "reason": " "}, "not tested and does not say why"),
        ({"verdict": "held", "number": "rate"}, "held without the number that decides"),
        ({"verdict": "failed", "number": "rate", "value": float("nan")}, "failed without the number"),
        ({"verdict": "held", "number": "", "value": 1.0}, "held without the number"),
    ],
)
def test_a_claim_shows_the_number_that_decides_or_why_there_is_none(claim, words):
    with pytest.raises(EvidenceError, match=words):
        Claim("the twin fits", **claim)


def test_a_claim_is_judged_by_the_threshold_stated_before_the_first_trial():
    lowered = Claim("the policy transfers", "held", "success in lab, lower bound", 0.3, threshold=0.2)
    with pytest.raises(
        EvidenceError, match=r"judged by the threshold 0.2; the panel stated 0.5 before the first trial"
    ):
        evidence(claims=(*claims()[:2], lowered))
    fair = replace(lowered, value=0.6, threshold=0.5)
    assert evidence(claims=(*claims()[:2], fair)).claim("the policy transfers").verdict == "held"


def test_every_trace_belongs_to_a_trial_and_the_other_way_round():
    with pytest.raises(EvidenceError, match="trials name 1 traces that are not there"):
        evidence(traces={})
    other = trace(1)
    with pytest.raises(EvidenceError, match="1 traces belong to no trial"):
        evidence(traces={**evidence().traces, other.hash: other})
    with pytest.raises(EvidenceError, match="Use its own hash"):
        evidence(traces={trace().hash: other})


def test_a_trace_in_another_place_is_found_when_it_is_read(tmp_path):
    thing = evidence()
    thing.save(tmp_path / "e")
    loaded = Evidence.load(tmp_path / "e")
    first = next(trial for trial in loaded.trials if trial.trace)
    assert loaded.trace(first) == trace()
    assert loaded.trace(loaded.trials[1]) is None
    other, loaded = trace(1), Evidence.load(tmp_path / "e")
    place = tmp_path / "e" / "traces" / trace().hash
    place.rename(tmp_path / "away")
    other.save(place)
    with pytest.raises(EvidenceError, match="holds another trace"):
        loaded.trace(first)


def test_the_report_is_kept_and_checked_but_does_not_change_what_the_evidence_is(tmp_path):
    with_report, without = evidence(), evidence(report=None)
    assert with_report == without
    with_report.save(tmp_path / "with")
    without.save(tmp_path / "without")
    assert not (tmp_path / "without" / "report.html").exists()
    assert Evidence.load(tmp_path / "with").report == with_report.report
    (tmp_path / "with" / "report.html").write_text("<p>success: 100 %</p>")
    with pytest.raises(EvidenceError, match=r"report.html was changed"):
        Evidence.load(tmp_path / "with")


def test_another_outcome_of_one_trial_is_other_evidence():
    rows = trials(panel(), kept=trace().hash)
    better = replace(rows[0], success=True, failure=None)
    assert evidence(trials=(better, *rows[1:])).hash != evidence().hash


def test_a_table_that_is_no_table_of_trials_is_named(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    from twinproof.nouns.trial import read_trials

    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(TraceError, match="no readable table of trials"):
        read_trials(tmp_path / "a.parquet")
    pq.write_table(pa.table({"policy": ["a"]}), tmp_path / "b.parquet")
    with pytest.raises(TraceError, match="lacks the columns condition, domain, failure"):
        read_trials(tmp_path / "b.parquet")


def test_documents_have_their_places_and_come_back(tmp_path):
    thing = evidence()
    assert thing == evidence(documents={})
    thing.save(tmp_path / "e")
    assert dict(Evidence.load(tmp_path / "e").documents) == {"report.md": b"# evidence", "pictures/front.png": b"PNG"}
    for name in ("evidence.json", "../report.md", "pictures/a/b.png", "notes.txt"):
        with pytest.raises(EvidenceError, match="has no place in evidence"):
            evidence(documents={name: b""})
