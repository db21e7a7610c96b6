"""The guard's commands: split before anything is fitted, and audit afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tyro.conf import Positional

from twinproof import settings

if TYPE_CHECKING:
    from twinproof.evidence.audit_trials import Measured, Rows
    from twinproof.nouns.hashing import Json
    from twinproof.nouns.panel import Panel
    from twinproof.nouns.trial import Trial


@dataclass(frozen=True)
class Split:
    """Split a Recording into calibration, validation and a sealed holdout, before anything is fitted.

    examples:
      twinproof split recording --group-by object,session --out split
      twinproof split recording --sizes 0.5 0.2 0.3 --seed 7 --out split
      twinproof split one_long_run --spans --gap-s 2 --out split
    """

    recording: Positional[Path]
    """A Recording folder."""
    out: Path
    """The new Split folder."""
    group_by: str | None = None
    """Labels that may not stand in two parts, with commas, or "none". Default: object, scene, session, camera_path."""
    sizes: tuple[float, float, float] = (0.6, 0.2, 0.2)
    """Shares of calibration, validation and holdout, met as well as whole groups allow."""
    seed: int = 0
    """Decides which groups go where."""
    duplicates: Literal["group", "refuse"] = "group"
    """Episodes that copy one another are kept in one part, or refused."""
    threshold: float = 3.0
    """Two episodes closer than this many noise floors are copies."""
    spans: bool = False
    """Cut each episode into three stretches of time instead of keeping episodes whole."""
    gap_s: float = 1.0
    """With --spans: how much is thrown away between two stretches."""


@dataclass(frozen=True)
class Audit:
    """Check a Split or Evidence: the ledger's chain, the sealed holdout, every file, the figures, who fitted what.

    examples:
      twinproof audit evidence                   hashes, ledger, figures of trials, claims and report, computed anew
      twinproof audit evidence split posterior   also checks the folders that it stands on
      twinproof audit evidence recording twin    also replays the holdout's episodes: metrics of single trials
      twinproof audit split
      twinproof audit split posterior twin       also checks what these artifacts say they saw

    Exit code 1 on any break.
    """

    split: Positional[Path]
    """A Split folder, or an Evidence folder."""
    artifacts: Positional[tuple[Path, ...]] = ()
    """Folders made from the split, or that the evidence stands on."""
    scenes: str | None = None
    """As `evaluate` had it: scenes by label, in which recorded episodes are replayed once more."""
    json: bool = False
    """Print JSON instead of sentences."""


def split(config: Split) -> int:
    """`twinproof split`."""
    from twinproof.guard import report
    from twinproof.guard.make import Grouping, make
    from twinproof.nouns.progress import bar
    from twinproof.nouns.recording import Recording

    named = None if config.group_by is None else tuple(key.strip() for key in config.group_by.split(",") if key.strip())
    keys = () if named == ("none",) else named
    how = Grouping(keys, config.sizes, config.seed, config.duplicates, config.threshold, config.spans, config.gap_s)
    with bar("split") as progress:
        made = make(Recording.load(config.recording), config.out, how, progress)
    settings.save(settings.resolved(config, "split"), config.out)
    report.split(made, config.out)
    return 0


def wrong(config: Split) -> str:
    """What is wrong with the split that lies where these settings would put it, in a sentence; empty where it is whole
    and of their recording."""
    from twinproof.guard.audit import audit as checked
    from twinproof.nouns.recording import Recording
    from twinproof.nouns.split import Split as Made

    breaks = checked(config.out).breaks
    if breaks:
        return breaks[0].text
    recording = Recording.load(config.recording).hash
    found = Made.load(config.out).recording
    if found != recording:
        return f"it splits the recording {found[:16]}, this run's is {recording[:16]}."
    return ""


def audit(config: Audit) -> int:
    """`twinproof audit`."""
    from twinproof.guard import report
    from twinproof.guard.audit import audit as checked

    if (config.split / "evidence.json").is_file():
        return _audit_evidence(config)
    return report.audit(checked(config.split, config.artifacts), as_json=config.json)


def _audit_evidence(config: Audit) -> int:
    from twinproof.evidence import report
    from twinproof.evidence.audit import audit as checked
    from twinproof.evidence.findings import Audited, of_split
    from twinproof.guard.audit import audit as split_checked
    from twinproof.nouns.progress import bar

    with bar("audit") as progress:
        found = checked(config.split, config.artifacts, progress, partial(_measured, config=config), _agreed)
    for folder in config.artifacts:
        if (folder / "split.json").is_file():
            told = split_checked(folder, (config.split,))
            found = Audited((*found.findings, *(of_split(each.ok, each.text) for each in told.findings)))
    return report.audit(found, as_json=config.json)


def _measured(rows: Rows, nouns: Mapping[str, Any], config: Audit | None = None) -> Measured:
    """Metrics that need the robot's ranges and the twin's world, with the functions that evaluate took."""
    from twinproof.evaluate.again import APART, METRICS, again
    from twinproof.evaluate.beliefs import Beliefs
    from twinproof.evidence.audit_shown import recorded_in
    from twinproof.evidence.audit_trials import Measured
    from twinproof.sim.scenes_by_label import scenes_of

    if not {"recording", "twin"} <= set(nouns):
        wanted = "give the folders of the recording and of the twin"
        return Measured(METRICS, left=(f"{', '.join(METRICS)} of single trials: {wanted}.",))
    beliefs = Beliefs(nouns["twin"], nouns.get("posterior"), nouns.get("randomization"))
    stated = {} if config is None else recorded_in(config.split)
    scenes = scenes_of(config.scenes if config else None, [each.labels for each in rows.panel.conditions])
    found = again(rows.panel, rows.trials, rows.traces, nouns["recording"], beliefs, scenes)
    if stated != {label: {value: scene.hash for value, scene in each.items()} for label, each in scenes.items()}:
        why = "recordings were replayed in scenes of their own. Name these with --scenes, as evaluate had them."
        only = {
            row: {name: value for name, value in told.items() if name in APART} for row, told in found.values.items()
        }
        return Measured(APART, only, (f"replays of single trials: {why}",))
    return Measured(found.names, found.values, found.left)


def _agreed(panel: Panel, trials: Sequence[Trial], stated: Json) -> Json:
    """How policies rank, with the function that evaluate took; two are ranked only where the report states it."""
    from twinproof.evaluate.verdict import RANKED, ranks

    return ranks(panel, trials, list(dict.fromkeys(trial.policy for trial in trials)), fewest=2 if stated else RANKED)
