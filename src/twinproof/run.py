"""THE FLOW: from recordings to evidence, one line a stage. Read this first.

Every stage is the command of its name, with the options of its table in the job. Its result lies in the run's folder
under the key of everything that decides it: what is there is not made again, and a changed setting makes again what
stands on it and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from twinproof import (
    __version__,
    cli_evaluate,
    cli_evidence,
    cli_guard,
    cli_identify,
    cli_ingest,
    cli_lab,
    cli_randomize,
    cli_reconstruct,
    cli_train,
    cli_view,
)
from twinproof.job import Job, decisive
from twinproof.nouns.errors import ConfigError
from twinproof.nouns.hashing import content_key
from twinproof.nouns.kept import Kept, Outcome, Stage
from twinproof.nouns.strict import plain
from twinproof.run_ahead import Marks, left

Config = TypeVar("Config")
SECTIONS = (
    "lab", "ingest", "split", "reconstruct", "identify", "randomize", "imitate", "train", "panel", "evaluate", "view",
    "evidence",
)  # fmt: skip
LEDGER = ("openings.jsonl", "holdout/key")  # what grows in a split while its episodes are used


def run(do: Doing) -> tuple[Outcome, ...]:
    """All stages that the job has, in order."""
    do("lab", "lab", cli_lab.LabRecord, cli_lab.record)
    recording = do("ingest", "recording", cli_ingest.Ingest, cli_ingest.ingest)
    split = do("split", "split", cli_guard.Split, cli_guard.split, recording=recording)
    twin = do("reconstruct", "twin", cli_reconstruct.Reconstruct, cli_reconstruct.reconstruct, split=split)
    posterior = do("identify", "posterior", cli_identify.Identify, cli_identify.identify, twin=twin, split=split)
    known = {"split": split, "twin": twin, "posterior": posterior}
    ranges = do("randomize", "randomization", cli_randomize.Randomize, cli_randomize.randomize, **known)
    do("imitate", "base", cli_train.Train, cli_train.train, twin=twin, randomization=ranges)
    do("train", "policy", cli_train.Train, cli_train.train, twin=twin, randomization=ranges)
    panel = do("panel", "panel", cli_evaluate.Panel, cli_evaluate.panel, split=split, twin=twin)
    known |= {"randomization": ranges, "panel": panel}
    trials = do("evaluate", "trials", cli_evaluate.Evaluate, cli_evaluate.evaluate, **known)
    page = do("view", "scene", cli_view.ScenePage, cli_view.scene_page, twin=twin, posterior=posterior, trials=trials)
    known |= {"recording": recording, "trials": trials, **({"scene": page / "scene.html"} if page else {})}
    do("evidence", "evidence", cli_evidence.Evidence, cli_evidence.assembled, **known)
    return tuple(do.outcomes)


@dataclass
class Doing:
    """Runs one stage after the other, and remembers what became of each."""

    job: Job
    kept: Kept | Marks
    say: Callable[[str], None]
    expected: Mapping[str, float] = field(default_factory=dict)  # seconds by section, where known: run_ahead.py
    outcomes: list[Outcome] = field(default_factory=list)

    def __call__(
        self, section: str, name: str, kind: type[Config], act: Callable[[Config], int], **parents: Path | None
    ) -> Path | None:
        """The folder of a stage's result; None where the job has no such table."""
        if section not in self.job.sections:
            return None
        lost = [parent for parent, folder in parents.items() if folder is None]
        if lost:
            raise ConfigError(
                f"job {self.job.name!r} has [{section}] and nothing that makes its {lost[0]}. Add that table."
            )
        given = {parent: folder for parent, folder in parents.items() if folder is not None}
        by_folder = {outcome.folder: outcome.stage.key for outcome in self.outcomes}
        places = {outcome.stage.name: outcome.folder for outcome in self.outcomes}

        def config(out: Path) -> Any:
            return self.job.config(section, kind, {**places, "run": self.kept.root}, {**given, "out": out})

        decides, used = decisive(config(Path("out")), by_folder)
        key = content_key(section, decides, __version__)
        parents_used = tuple(outcome.stage.name for outcome in self.outcomes if outcome.folder in used)
        growing = LEDGER if section == "split" else ()
        stage = Stage(name, key, plain(self.job.sections[section]), parents_used, growing)
        self._tell_start(section)

        def make(out: Path) -> None:
            if act(config(out)) != 0:
                raise ConfigError(f"the stage {section!r} did not end well. What it printed says why.")

        outcome = self.kept.once(stage, make, (lambda out: cli_guard.wrong(config(out))) if growing else None)
        self.outcomes.append(outcome)
        self._tell_end(section, outcome)
        return outcome.folder

    def _tell_start(self, section: str) -> None:
        if self.kept.dry:
            return
        order = self.job.stages(SECTIONS)
        place = order.index(section)
        told = left(order[place:], self.expected)
        self.say(f"[{place + 1}/{len(order)}] {section}{f', {told}' if told else ''}")

    def _tell_end(self, section: str, outcome: Outcome) -> None:
        if self.kept.dry:
            return
        budget = self.job.budget_s.get(section)
        of = f" of {budget:g} s" if budget is not None else ""
        how = "reused, made in" if outcome.state == "reused" else "done in"
        self.say(f"    {how} {outcome.seconds:.1f} s{of}")
