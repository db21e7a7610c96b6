"""`twinproof randomize` from its texts to a saved Randomization: strings become objects here, and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from twinproof.nouns.errors import ConfigError, StoreError
from twinproof.nouns.posterior import Posterior
from twinproof.nouns.progress import Progress
from twinproof.nouns.split import Split
from twinproof.nouns.twin import Twin
from twinproof.randomize.extra import read_extra
from twinproof.randomize.residual import Residual, Residuals, residuals
from twinproof.sim.scenes_by_label import scenes_of


@dataclass(frozen=True)
class Asked:
    """The settings of the command, as texts."""

    posterior: Path
    out: Path
    split: Path | None
    twin: Path | None
    scenes: str | None
    share: float
    strength: float
    extra: Path | None
    looks: bool
    widen: bool
    plots: Path | None
    seed: int
    rehearse: int = 0


def run(asked: Asked, progress: Progress) -> Residual:
    """Makes the ranges, tests them where there is validation, saves both, and writes the ledger's line."""
    for path in (asked.out, asked.plots):
        if path is not None and path.exists():
            raise StoreError(f"{path} exists. Nothing is overwritten: name another folder, or remove it.")
    if asked.split is not None and asked.twin is None:
        raise ConfigError("--split compares episodes with simulations of a twin. Name it: --twin TWIN.")
    if asked.rehearse < 0 or (asked.rehearse and asked.twin is None):
        raise ConfigError(
            f"--rehearse {asked.rehearse}: the tracker is rehearsed in a whole number of episodes of a twin. Name it: "
            "--twin TWIN."
        )
    if asked.split is None and (asked.widen or asked.scenes):
        raise ConfigError(
            "--widen and --scenes are about validation episodes. Name the split they are in: --split SPLIT."
        )
    started = datetime.now(UTC)
    posterior = Posterior.load(asked.posterior)
    twin = None if asked.twin is None else Twin.load(asked.twin)
    extra = () if asked.extra is None else read_extra(asked.extra)
    split = None if asked.split is None else Split.load(asked.split)
    calibration, validation = (None, None) if split is None else split.parts()[:2]
    labels = [e.labels for part in (calibration, validation) if part is not None for e in part.recording.episodes]
    scenes = scenes_of(asked.scenes, labels)
    how = Residuals(asked.share, asked.strength, asked.widen, asked.looks, extra, scenes, asked.rehearse)
    found = residuals(
        posterior,
        validation,
        how,
        twin=twin,
        calibration=calibration,
        seed=asked.seed,
        ledger=None if split is None else split.ledger.head(),
        progress=progress,
    )
    made = found.randomization
    if split is not None and calibration is not None:
        saw = sorted({*calibration.ids, *made.episodes})
        split.log_fit("randomize", made.hash, saw, started, datetime.now(UTC))
    made.save(asked.out)
    if found.coverage is not None:
        found.coverage.save(asked.out)
    if asked.plots is not None:
        from twinproof.randomize.plots import draw_all

        progress(0, "drawing pictures", None)
        draw_all(posterior, found, asked.plots)
    return found
