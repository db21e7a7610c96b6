"""What lies in a folder that is to be looked at: a twin, trials and their traces, recorded episodes, or a run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import StoreError
from twinproof.nouns.evidence import Evidence
from twinproof.nouns.posterior import Posterior
from twinproof.nouns.rig import Rig
from twinproof.nouns.split import Split
from twinproof.nouns.trace import Trace
from twinproof.nouns.trial import Trial
from twinproof.nouns.trials import Trials
from twinproof.nouns.twin import Twin


@dataclass(frozen=True, eq=False)
class Recorded:
    """An episode of a split's calibration or validation part, with the rig it was recorded on; never of the holdout."""

    part: str
    episode: Episode
    rig: Rig


Row = Trial | Recorded


@dataclass(frozen=True, eq=False)
class Opened:
    """Something to look at. Traces and episodes are read when they are asked for."""

    twin: Twin
    trials: tuple[Trial, ...] = ()
    traces: Mapping[str, Trace] = field(default_factory=dict)
    posterior: Posterior | None = None
    recorded: tuple[Recorded, ...] = ()
    scenes: str | None = None  # other scenes for other objects, by label, as the posterior's fit was told

    def trace(self, trial: Trial) -> Trace:
        """What happened in a trial."""
        if trial.trace is None:
            raise StoreError(f"no trace was kept of {trial.where}, so there is nothing to play.")
        return self.traces[trial.trace]

    def partner(self, trial: Trial, domain: str) -> Trial | None:
        """The trial of the same policy, condition and repeat in another domain."""
        wanted = (trial.policy, trial.condition, domain, trial.repeat)
        return next((t for t in self.trials if (t.policy, t.condition, t.domain, t.repeat) == wanted), None)

    def episode(self, id: str) -> Recorded:
        """The recorded episode whose id begins so."""
        found = [each for each in self.recorded if each.episode.id.startswith(id)]
        if len(found) != 1:
            raise StoreError(
                f"{len(found)} of the {len(self.recorded)} recorded episodes that can be shown have an id that starts "
                f"with {id!r}. Ids: twinproof inspect SPLIT/calibration, SPLIT/validation; the holdout is not shown."
            )
        return found[0]

    @property
    def domains(self) -> tuple[str, ...]:
        """Where trials were run, in the order of the first ones."""
        return tuple(dict.fromkeys(trial.domain for trial in self.trials))


def open_folder(
    folder: Path, twin: Path | None = None, posterior: Path | None = None, split: Path | None = None
) -> Opened:
    """A twin, trials, evidence or a run. Trials and evidence name their twin by hash: it is given, or lies beside them.

    A run is a folder with links to its stages: RUN/twin, RUN/trials, RUN/posterior, RUN/split.
    """
    if not folder.is_dir():
        raise StoreError(f"{folder} is no folder. Give a Twin, Trials, Evidence, or the folder of a whole run.")
    if (folder / "twin.json").is_file():
        return _opened(Twin.load(folder), None, posterior, split)
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
    stated = None
    if trials is not None:
        stated = trials.inputs["twin"].hash if isinstance(trials, Evidence) else trials.parents.get("twin")
    if stated is not None and stated != found.hash:
        raise StoreError(
            f"{folder} is about the twin {stated[:16]}, {place} holds {found.hash[:16]}. Name the right one: --twin."
        )
    return _opened(found, trials, posterior or _beside(place, "posterior"), split or _beside(place, "split"))


def _opened(twin: Twin, trials: Trials | Evidence | None, posterior: Path | None, split: Path | None) -> Opened:
    kept = None if posterior is None else Posterior.load(posterior)
    recorded = () if split is None else _recorded(split, twin)
    scenes = None if posterior is None else _scenes(posterior / "config.json")
    return Opened(twin, *(((), {}) if trials is None else (trials.trials, trials.traces)), kept, recorded, scenes)


def _scenes(config: Path) -> str | None:
    """What a fit was told of other scenes, where their folder is still there."""
    if not config.is_file():
        return None
    try:
        pattern = json.loads(config.read_text(encoding="utf-8"))["settings"].get("scenes")
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise StoreError(f"{config} is no config.json of a fit ({problem}). Restore it, or remove it.") from None
    there = isinstance(pattern, str) and Path(pattern.partition("{")[0]).parent.is_dir()
    return pattern if there else None


def _beside(twin: Path, name: str) -> Path | None:
    """A posterior or a split in the folder that the twin lies in."""
    place = twin.parent / name
    return place if (place / f"{name}.json").is_file() else None


def _trials(folder: Path) -> Trials | Evidence | None:
    if (folder / "trials.json").is_file():
        return Trials.load(folder)
    return Evidence.load(folder) if (folder / "evidence.json").is_file() else None


def _recorded(folder: Path, twin: Twin) -> tuple[Recorded, ...]:
    """What fits and what chooses. The holdout stays sealed: nothing here could open it."""
    split = Split.load(folder)
    stated = twin.parents.get("split")
    if stated is not None and stated != split.hash:
        raise StoreError(
            f"the twin was made from the split {stated[:16]}, {folder} holds {split.hash[:16]}. Name the right one: "
            "--split."
        )
    calibration, validation, _ = split.parts()
    parts = {"calibration": calibration.recording, "validation": validation.recording}
    return tuple(Recorded(part, episode, found.rig) for part, found in parts.items() for episode in found.episodes)


def fields(row: Row) -> dict[str, str]:
    """What a list is chosen by."""
    if isinstance(row, Recorded):
        return {"part": row.part, "outcome": row.episode.outcome}
    outcome = "success" if row.success else f"failed: {row.failure.label}" if row.failure else "failed"
    return {"policy": row.policy, "domain": row.domain, "outcome": outcome}


def line(row: Row) -> str:
    """A trial or a recorded episode on one line, for a list. Sources that end with an id are named without it."""
    outcome = fields(row)["outcome"]
    if isinstance(row, Recorded):
        name = row.episode.source.removesuffix(row.episode.id).rstrip("_-/ ")
        return f"{row.part} · {name or row.episode.id[:12]} · {outcome}"
    return f"{row.policy} · {row.condition} · {row.domain} · {row.repeat} · {outcome}"


def chosen(rows: Iterable[Row], **wanted: str) -> list[Row]:
    """Rows whose fields have these values; "all" chooses all."""
    rules = {name: value for name, value in wanted.items() if value != "all"}
    return [row for row in rows if all(fields(row)[name] == value for name, value in rules.items())]
