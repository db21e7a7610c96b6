"""What lies in a folder that is to be looked at: a twin, trials with their traces, evidence, or a whole run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from twinproof.nouns.errors import StoreError
from twinproof.nouns.evidence import Evidence
from twinproof.nouns.posterior import Posterior
from twinproof.nouns.trace import Trace
from twinproof.nouns.trial import Trial
from twinproof.nouns.trials import Trials
from twinproof.nouns.twin import Twin


@dataclass(frozen=True, eq=False)
class Opened:
    """Something to look at. Traces are read when they are asked for."""

    twin: Twin
    trials: tuple[Trial, ...] = ()
    traces: Mapping[str, Trace] = field(default_factory=dict)
    posterior: Posterior | None = None

    def trace(self, trial: Trial) -> Trace:
        """What happened in a trial."""
        if trial.trace is None:
            raise StoreError(f"no trace was kept of {trial.where}, so there is nothing to play.")
        return self.traces[trial.trace]

    def partner(self, trial: Trial, domain: str) -> Trial | None:
        """The trial of the same policy, condition and repeat in another domain."""
        wanted = (trial.policy, trial.condition, domain, trial.repeat)
        return next((t for t in self.trials if (t.policy, t.condition, t.domain, t.repeat) == wanted), None)

    @property
    def domains(self) -> tuple[str, ...]:
        """Where trials were run, in the order of the first ones."""
        return tuple(dict.fromkeys(trial.domain for trial in self.trials))


def open_folder(folder: Path, twin: Path | None = None, posterior: Path | None = None) -> Opened:
    """A twin, trials, evidence or a run. Trials and evidence name their twin by hash: it is given, or lies beside them.

    A run is a folder with links to its stages: RUN/twin, RUN/trials, RUN/posterior.
    """
    if not folder.is_dir():
        raise StoreError(f"{folder} is no folder. Give a Twin, Trials, Evidence, or the folder of a whole run.")
    if (folder / "twin.json").is_file():
        return Opened(Twin.load(folder), posterior=_posterior(posterior))
    run = (folder / "twin" / "twin.json").is_file()
    trials = _trials(folder / "trials" if run else folder)
    if trials is None and not run:
        raise StoreError(
            f"{folder} holds no twin.json, trials.json or evidence.json, and no folder twin. Give a Twin, Trials, "
            "Evidence, or the folder of a whole run."
        )
    place = twin or (folder if run else folder.absolute().parent) / "twin"
    if not (place / "twin.json").is_file():
        raise StoreError(f"{folder} does not hold the twin it is about, and there is none in {place}. Name it: --twin.")
    found = Twin.load(place)
    beside = place.parent / "posterior"
    posterior = posterior or (beside if (beside / "posterior.json").is_file() else None)
    if trials is None:
        return Opened(found, posterior=_posterior(posterior))
    stated = trials.inputs["twin"].hash if isinstance(trials, Evidence) else trials.parents.get("twin")
    if stated is not None and stated != found.hash:
        raise StoreError(
            f"{folder} is about the twin {stated[:16]}, {place} holds {found.hash[:16]}. Name the right one: --twin."
        )
    return Opened(found, trials.trials, trials.traces, _posterior(posterior))


def _trials(folder: Path) -> Trials | Evidence | None:
    if (folder / "trials.json").is_file():
        return Trials.load(folder)
    return Evidence.load(folder) if (folder / "evidence.json").is_file() else None


def _posterior(folder: Path | None) -> Posterior | None:
    return None if folder is None else Posterior.load(folder)


def line(trial: Trial) -> str:
    """A trial on one line, for a list."""
    how = "success" if trial.success else f"failed: {trial.failure.label}" if trial.failure else "failed"
    return f"{trial.policy} · {trial.condition} · {trial.domain} · {trial.repeat} · {how}"


def chosen(trials: Iterable[Trial], **wanted: str) -> list[Trial]:
    """Trials with these values; "all" chooses all."""
    rules = {name: value for name, value in wanted.items() if value != "all"}
    return [trial for trial in trials if all(str(getattr(trial, name)) == value for name, value in rules.items())]
