"""Whatever is done to evidence, the audit finds it and names it, also where the seals were made anew afterwards."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from twinproof import cli_guard
from twinproof.evidence.audit import audit
from twinproof.evidence.findings import Audited
from twinproof.nouns.errors import EvidenceError
from twinproof.nouns.evidence import Evidence
from twinproof.nouns.files import file_hashes, write_sealed
from twinproof.nouns.hashing import canonical, content_hash
from twinproof.nouns.ledger import Ledger
from twinproof.nouns.trial import read_trials, trials_hash, write_trials

FRAME = ("format", "hash", "files", "seal")


def forge(folder: Path, change: Callable[[dict[str, Any]], None] = lambda head: None) -> None:
    """Changes evidence.json, and makes its hashes and its seal anew, as someone would who knows how they are made."""
    path = folder / "evidence.json"
    head = json.loads(path.read_text())
    change(head)
    fields = {name: value for name, value in head.items() if name not in FRAME}
    trials = {"trials": trials_hash(read_trials(folder / "trials.parquet"))}
    head["hash"] = content_hash([head["format"], fields, trials])
    head["files"] = file_hashes(folder, ("evidence.json",))
    del head["seal"]
    write_sealed(path, head)


def said(found: Audited, about: str = "") -> str:
    assert not found.ok
    return "\n".join(finding.text for finding in found.breaks if about in ("", finding.about))


def lines(head: dict[str, Any]) -> list[dict[str, Any]]:
    return [json.loads(text) for text in head["ledger_lines"]]


def test_nothing_is_broken_in_evidence_as_it_was_made(saved):
    found = audit(saved)
    assert found.breaks == ()
    about = {finding.about for finding in found.findings if finding.verdict == "confirmed"}
    assert about == {
        "seal",
        "files",
        "laws",
        "split",
        "ledger",
        "fits",
        "trials",
        "traces",
        "figures",
        "claims",
        "report",
    }
    could_not = " ".join(finding.text for finding in found.findings if finding.verdict == "open")
    assert "their folders were not given" in could_not
    assert "it is not signed" in could_not


def test_every_folder_that_is_given_is_hashed_again(saved, folders):
    given = [folders.recording, folders.split, folders.twin, folders.posterior, folders.randomization, folders.panel]
    found = audit(saved, [*given, folders.trials, *folders.policies.values()])
    assert found.breaks == ()
    texts = "\n".join(finding.text for finding in found.findings)
    assert "4 parameters and their intervals are those of the posterior" in texts
    assert "6 ranges and their sources are those of the randomization" in texts
    assert "their folders were not given" not in texts


def test_one_byte_of_any_file_is_found_and_the_file_is_named(copied):
    files = sorted(path for path in copied.rglob("*") if path.is_file())
    traces = [path for path in files if "traces" in path.parts]
    for path in [*(path for path in files if "traces" not in path.parts), *traces[:2]]:
        content = path.read_bytes()
        place = len(content) // 2
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        text = said(audit(copied))
        assert path.relative_to(copied).as_posix() in text or path.name in text, path
        path.write_bytes(content)
    assert audit(copied).ok


def test_files_that_are_gone_or_new_are_named(copied):
    (copied / "report.md").unlink()
    (copied / "notes.txt").write_text("success: 100 %")
    text = said(audit(copied), "files")
    assert "report.md is missing" in text
    assert "notes.txt lies in the folder and does not belong" in text


def test_a_path_that_leaves_the_folder_is_named(copied):
    head = json.loads((copied / "evidence.json").read_text())
    head["files"]["../elsewhere"] = "0" * 64
    del head["seal"]
    write_sealed(copied / "evidence.json", head)
    assert "leaves its folder" in said(audit(copied), "files")


def test_a_trial_that_was_dropped_is_found(copied):
    rows = read_trials(copied / "trials.parquet")
    write_trials(copied / "trials.parquet", rows[1:])
    assert "trials.parquet was changed" in said(audit(copied), "files")
    forge(copied)
    text = said(audit(copied))
    assert "1 trials are missing" in text
    assert "do not follow from trials.parquet" in text


def test_a_failure_that_was_made_a_success_is_found_in_every_figure(copied):
    rows = list(read_trials(copied / "trials.parquet"))
    k = next(k for k, row in enumerate(rows) if not row.success and row.domain == "lab" and row.policy == "ppo")
    rows[k] = replace(rows[k], success=True, failure=None, note="")
    write_trials(copied / "trials.parquet", rows)
    forge(copied)
    found = audit(copied)
    assert "the figures of success do not follow from trials.parquet" in said(found, "figures")
    assert "'the policy transfers' is stated as failed; computed anew it is failed" in said(found, "claims")
    assert "report.json: what it says of" in said(found, "report")


def test_an_episode_swapped_between_parts_is_found(copied):
    def swap(head: dict[str, Any]) -> None:
        split = head["split"]
        split["calibration"][0], split["validation"][0] = split["validation"][0], split["calibration"][0]

    forge(copied, swap)
    text = said(audit(copied))
    assert "An episode was moved, added or taken away" in text
    assert "is not so in the ledger" in text


def test_an_episode_in_two_parts_is_found(copied):
    forge(copied, lambda head: head["split"]["validation"].append(head["split"]["calibration"][0]))
    assert "is in calibration and in validation" in said(audit(copied), "split")


@pytest.mark.parametrize("rechained", [False, True])
def test_a_ledger_line_that_was_edited_is_found(copied, rechained):
    def edit(head: dict[str, Any]) -> None:
        told = lines(head)
        told[1]["ended"] = "2020-01-01T00:00:00.000000+00:00"
        if rechained:
            for k, line in enumerate(told):
                line["prev"] = told[k - 1]["hash"] if k else ""
                line["hash"] = content_hash({name: value for name, value in line.items() if name != "hash"})
        head["ledger_lines"] = [canonical(line).decode() for line in told]

    forge(copied, edit)
    wanted = "it was rewritten" if rechained else "line 2 was changed"
    assert wanted in said(audit(copied), "ledger")


def test_a_ledger_line_that_was_dropped_is_found(copied):
    forge(copied, lambda head: head["ledger_lines"].pop(1))
    assert "ledger: line 2 was removed" in said(audit(copied), "ledger")


def test_a_ledger_that_was_cut_at_its_end_is_found(copied):
    forge(copied, lambda head: head["ledger_lines"].pop())
    text = said(audit(copied))
    assert "it was shortened" in text
    assert "the evidence counts 1 openings of the holdout, the ledger 0" in text


def test_a_ledger_that_is_gone_is_found(copied):
    forge(copied, lambda head: head.update(ledger_lines=[], ledger={"count": "x"}))
    text = said(audit(copied), "ledger")
    assert "every line was removed" in text
    assert "its head is no count and hash" in text


def test_lines_added_after_the_evidence_are_found(copied):
    def add(head: dict[str, Any]) -> None:
        path = copied.parent / "openings.jsonl"
        path.write_text("".join(f"{text}\n" for text in head["ledger_lines"]))
        Ledger(path).append("fit", {"name": "late", "artifact": "9" * 64, "episodes": ["e"], "split": "5" * 64})
        head["ledger_lines"] = path.read_text().splitlines()

    forge(copied, add)
    text = said(audit(copied), "ledger")
    assert "1 lines were added" in text
    assert "undeclared refit: 'late' was fitted" in text


def test_a_panel_that_was_fixed_after_the_opening_is_found(copied):
    forge(copied, lambda head: head["panel"]["ledger"].update(count=9))
    assert "the panel stood in line 9, after the holdout was opened" in said(audit(copied), "ledger")


@pytest.mark.parametrize("where", ["fits", "ledger"])
def test_a_holdout_episode_among_a_fits_parents_is_found(copied, where):
    def leak(head: dict[str, Any]) -> None:
        if where == "fits":
            head["fits"][0]["episodes"].append(head["holdout"][0])
            return
        told = lines(head)
        told[1]["episodes"].append(head["holdout"][0])
        told[1]["hash"] = content_hash({name: value for name, value in told[1].items() if name != "hash"})
        head["ledger_lines"] = [canonical(line).decode() for line in told]

    forge(copied, leak)
    assert "has holdout episodes among its parents" in said(audit(copied), "fits")


def test_a_holdout_episode_among_a_posteriors_parents_is_found(copied, folders, gathered, tmp_path):
    leaked = replace(gathered.posterior, episodes=(*gathered.posterior.episodes, gathered.split.holdout[0]))
    leaked.save(tmp_path / "posterior")
    text = said(audit(copied, [tmp_path / "posterior"]))
    assert "the posterior has holdout episodes among its parents" in text
    assert "the evidence stands on" in text


def test_a_folder_that_is_changed_or_is_nothing_is_named(saved, folders, tmp_path):
    shutil.copytree(folders.twin, tmp_path / "twin")
    (tmp_path / "twin" / "scene.xml").write_text("<mujoco/>")
    (tmp_path / "empty").mkdir()
    text = said(audit(saved, [tmp_path / "twin", tmp_path / "empty"]), "inputs")
    assert "scene.xml was changed" in text
    assert "holds nothing that evidence stands on" in text


def test_numbers_that_are_not_the_folders_are_found(copied, folders):
    def widen(head: dict[str, Any]) -> None:
        head["estimates"][0]["low"] *= 0.9
        head["ranges"][0]["reason"] = "because"

    forge(copied, widen)
    text = said(audit(copied, [folders.posterior, folders.randomization]), "inputs")
    assert "parameters that are not as the posterior has them: " in text
    assert "the ranges are not those of the randomization" in text


def test_numbers_measured_before_the_trials_are_held_against_their_folders(copied, folders):
    def polish(head: dict[str, Any]) -> None:
        head["figures"]["before"]["coverage on validation"]["value"] = 0.99

    forge(copied, polish)
    found = audit(copied, [folders.twin, folders.posterior, folders.randomization])
    assert "not as they were measured before the trials: coverage on validation" in said(found, "inputs")


def test_what_the_report_shows_of_the_folders_is_held_against_them(copied, folders):
    told = json.loads((copied / "report.json").read_text())
    told["inputs"]["posterior"]["weak_directions"] = []
    told["inputs"]["posterior"]["unidentified"] = []
    told["inputs"]["summary"]["notes"] = ["all went well"]
    (copied / "report.json").write_text(json.dumps(told))
    forge(copied)
    text = said(audit(copied, [folders.posterior, folders.trials]), "report")
    assert "what it shows of the posterior is not what the folder holds" in text
    assert "what it shows of the summary is not what the folder holds" in text


def test_a_claim_that_was_turned_is_found(copied):
    def turn(head: dict[str, Any]) -> None:
        claim = next(claim for claim in head["claims"] if claim["name"] == "the policy transfers")
        claim.update(verdict="held", value=0.95)

    forge(copied, turn)
    text = said(audit(copied), "claims")
    assert "'the policy transfers' is stated as held; computed anew it is failed (" in text


def test_more_openings_than_are_told_are_found(copied):
    forge(copied, lambda head: head.update(attempt=0))
    assert "counts 0 openings of the holdout, the ledger 1" in said(audit(copied), "ledger")


def test_a_report_that_says_something_else_is_found(copied):
    path = copied / "report.html"
    path.write_text(path.read_text().replace("failed", "held"))
    (copied / "report.md").write_text("# all is well\n")
    forge(copied)
    text = said(audit(copied), "report")
    assert "report.html does not say what report.json says" in text
    assert "report.md does not say what report.json says" in text
    (copied / "report.json").write_text("{}")
    forge(copied)
    assert "cannot be read as a report" in said(audit(copied), "report")


@pytest.mark.parametrize("version", ["twinproof", "drawing of the report"])
def test_a_report_that_other_code_drew_is_not_held_against_it(copied, version):
    told = json.loads((copied / "report.json").read_text())
    told["evidence"]["named"]["versions"][version] = "0.0.1"
    told["evidence"]["twinproof"] = told["evidence"]["named"]["versions"]["twinproof"]
    (copied / "report.json").write_text(json.dumps(told))
    (copied / "report.md").unlink()
    forge(copied)
    open_ones = [finding.text for finding in audit(copied).findings if finding.verdict == "open"]
    assert any("report.html: other code drew it (twinproof 0." in text for text in open_ones)
    assert "report.md is not there." in open_ones


def test_the_command_audits_evidence_with_its_split_and_ends_with_1_on_a_break(saved, copied, folders, capsys):
    assert cli_guard.audit(cli_guard.Audit(saved, (folders.split,))) == 0
    out = capsys.readouterr().out
    assert "BREAK" not in out
    assert "holds  split: holdout:" in out
    assert " 0 broken," in out
    (copied / "report.md").unlink()
    assert cli_guard.audit(cli_guard.Audit(copied)) == 1
    assert "BREAK  report.md is missing." in capsys.readouterr().out
    assert cli_guard.audit(cli_guard.Audit(copied, json=True)) == 1
    assert json.loads(capsys.readouterr().out)["ok"] is False


def test_there_is_nothing_to_audit_without_evidence(tmp_path, copied):
    with pytest.raises(EvidenceError, match="holds no evidence.json"):
        audit(tmp_path)
    (copied / "evidence.json").write_text("[]")
    assert "evidence.json" in said(audit(copied))


def test_what_the_forger_of_these_tests_makes_is_whole(copied):
    before = Evidence.load(copied).hash
    forge(copied)
    assert Evidence.load(copied).hash == before
