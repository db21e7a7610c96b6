"""Trials: everything that was run for a panel, in one folder, and the figures computed from it.

trials.json      panel, split, twin and policies by hash; the reality; how often the holdout was open; the order of runs
trials.parquet   one row per trial
traces/HASH/     what happened in each of them
films/HASH/      of trials with cameras, what those showed, by the trace's hash: an episode of videos without signals
summary.json     figures computed from the trials and from replays of the holdout
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from twinproof.nouns.artifact import Artifact
from twinproof.nouns.episode import Episode, Lazy
from twinproof.nouns.episode_files import read_episode, write_episode
from twinproof.nouns.errors import TraceError
from twinproof.nouns.files import read_json, write_json
from twinproof.nouns.frozen import Frozen, frozen_json, settle
from twinproof.nouns.hashing import Json, content_hash
from twinproof.nouns.ledger import LedgerHead
from twinproof.nouns.strict import plain
from twinproof.nouns.trace import Trace
from twinproof.nouns.trial import Trial, read_trials, trials_hash, write_trials

SUMMARY = "twinproof/trials-summary/1"


@dataclass(frozen=True, eq=False)
class Trials(Artifact):
    """All trials of one panel. Every trace that a trial names is here, and no other; each trial was run once."""

    NAME: ClassVar = "trials"
    ERROR: ClassVar = TraceError
    PARTS: ClassVar = ("trials", "traces", "summary", "films")

    trials: tuple[Trial, ...]
    parents: Mapping[str, str]  # panel, split, twin, posterior, randomization, policy/NAME, … -> hash
    traces: Mapping[str, Trace] = field(default_factory=dict)  # by hash
    summary: Mapping[str, Json] = field(default_factory=dict)
    order: tuple[int, ...] = ()  # places of the trials, in the order in which they were run
    reality: str = ""  # "lab bench 'pendulum', simulated"; empty where nothing real was run
    attempt: int = 1  # how often the holdout had been opened, this time included
    ledger: LedgerHead | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    films: Mapping[str, Episode] = field(default_factory=dict)  # by the hash of the trial's trace

    def __post_init__(self) -> None:
        if not self.trials:
            raise TraceError("there are no trials. Run the panel first.")
        if self.order and sorted(self.order) != list(range(len(self.trials))):
            raise TraceError(f"the order of {len(self.trials)} trials names some twice or not at all. Run them again.")
        named = {trial.trace for trial in self.trials if trial.trace is not None}
        lost, spare = sorted(named - set(self.traces)), sorted(set(self.traces) - named)
        if lost or spare:
            raise TraceError(
                f"trials name {len(lost)} traces that are not there ({', '.join(lost[:1]) or 'none'}), and "
                f"{len(spare)} traces belong to no trial ({', '.join(spare[:1]) or 'none'}). Keep one for each."
            )
        strange = sorted(set(self.films) - named)
        if strange:
            raise TraceError(f"{len(strange)} films belong to no trial ({strange[0]}). Keep those of trials alone.")
        traces = self.traces if isinstance(self.traces, Lazy) else Frozen(self.traces)
        settle(self, traces=traces, parents=Frozen(self.parents), versions=Frozen(self.versions))
        settle(self, films=Frozen(self.films))
        settle(self, summary=frozen_json(self.summary, "summary", TraceError))

    def trace(self, trial: Trial) -> Trace | None:
        """What happened in a trial, where it was kept."""
        return None if trial.trace is None else self.traces[trial.trace]

    def part_hashes(self) -> dict[str, str]:
        films = {hash: film.id for hash, film in self.films.items()}
        filmed = {"films": content_hash(films)} if films else {}
        return {"trials": trials_hash(self.trials), "summary": content_hash(plain(self.summary)), **filmed}

    def write_parts(self, folder: Path) -> None:
        write_trials(folder / "trials.parquet", self.trials)
        write_json(folder / "summary.json", {"format": SUMMARY, **plain(self.summary)})
        for hash in sorted(self.traces):
            place = folder / "traces" / hash
            place.mkdir(parents=True)
            self.traces[hash].write(place)  # the folder of all trials is made durable as a whole
        for hash, film in self.films.items():
            write_episode(folder / "films" / hash / film.id, film)

    @classmethod
    def read_parts(cls, folder: Path, head: Mapping[str, Json]) -> dict[str, Any]:
        trials = read_trials(folder / "trials.parquet")
        names = tuple(sorted({trial.trace for trial in trials if trial.trace is not None}))
        summary = read_json(folder / "summary.json", SUMMARY, TraceError)
        del summary["format"]
        return {
            "trials": trials,
            "traces": Lazy(names, lambda hash: Trace.load(folder / "traces" / hash)),
            "summary": summary,
            "films": {place.parent.name: read_episode(place) for place in sorted(folder.glob("films/*/*"))},
        }
