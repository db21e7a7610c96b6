"""`twinproof identify` from its texts to a saved Posterior: strings become objects here, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from twinproof.fleet.place import place_of
from twinproof.identify.beliefs import Stated
from twinproof.identify.checkpoint import Checkpoint
from twinproof.identify.cloud import CloudNewton
from twinproof.identify.fit import GaussNewton
from twinproof.identify.infer import Beside, Found, Question, identified
from twinproof.identify.method import Method
from twinproof.identify.point import Point, written
from twinproof.identify.problem import Problem
from twinproof.nouns.drive import Drive
from twinproof.nouns.errors import ConfigError, StoreError
from twinproof.nouns.files import remove_tree
from twinproof.nouns.hashing import Json, content_hash
from twinproof.nouns.parts import Calibration
from twinproof.nouns.posterior import Posterior
from twinproof.nouns.progress import Progress, bar
from twinproof.nouns.randomness import stream
from twinproof.nouns.split import Split
from twinproof.nouns.strict import plain
from twinproof.nouns.twin import Twin
from twinproof.sim.scenes_by_label import scenes_of


@dataclass(frozen=True)
class Asked:
    """The settings of the command, as texts."""

    twin: Path
    split: Path
    parameters: tuple[str, ...]
    out: Path
    prior: tuple[str, ...]
    differ: tuple[str, ...]
    scenes: str | None
    fix: tuple[str, ...]
    method: str
    fit: str
    horizons: str | None
    starts: int
    seed: int
    plots: Path | None
    actuators: bool = False
    residual: bool = False
    on: str = ""
    free_starts: bool | None = None
    calibration_check: int = 0


@contextmanager
def bars() -> Iterator[Progress]:
    """A bar that shows stage, cost and time left."""
    with bar("identify") as progress:
        yield progress


def run(asked: Asked, progress: Progress) -> Posterior:
    """Fits, saves the posterior, writes the ledger's line, and draws pictures where asked."""
    for path in (asked.out, asked.plots):
        if path is not None and path.exists():
            raise StoreError(f"{path} exists. Nothing is overwritten: name another folder, or remove it.")
    twin, split, started = Twin.load(asked.twin), Split.load(asked.split), datetime.now(UTC)
    calibration, validation, _ = split.parts()
    question = question_of(asked, calibration)
    method, point = method_of(asked.method), point_of(asked.fit, asked.horizons, asked.free_starts)
    texts = [asked.parameters, asked.prior, asked.differ, asked.scenes, asked.fix, asked.starts, asked.seed]
    key = content_hash([twin.hash, calibration.hash, plain(texts), plain(method), written(point)])
    keep = Checkpoint(asked.out.with_name(f".{asked.out.name}.fit"), key)
    profiles, starting = None, asked.out.with_name(f".{asked.out.name}.starts")
    if asked.on:
        from twinproof.identify.starts import elsewhere

        profiles = elsewhere(asked, place_of(asked.on, starting), starting, progress)
    posterior, found, checked = identified(
        twin,
        calibration,
        question,
        method,
        stream(asked.seed, "identify"),
        point=point,
        starts=asked.starts,
        validation=validation,
        progress=progress,
        keep=keep,
        seed_number=asked.seed,
        ledger=split.ledger.head(),
        profiles=profiles,
        check=asked.calibration_check,
        beside=_beside(asked, progress, keep),
    )
    split.log_fit("identify", posterior.hash, posterior.episodes, started, datetime.now(UTC))
    posterior.save(asked.out)
    keep.clear()
    remove_tree(starting)
    if asked.plots is not None:
        from twinproof.identify.plots import draw_all

        progress(0, "drawing pictures", None)
        draw_all(found, asked.plots, checked, posterior.diagnostics.get("calibration_check"))
    return posterior


def question_of(asked: Asked, calibration: Calibration) -> Question:
    """What is asked, from the command's texts."""
    return Question(
        asked.parameters,
        tuple(Stated.parse(text) for text in asked.prior),
        pairs(asked.differ, "--differ", "body.object.mass=object"),
        {id: number(value, id) for id, value in pairs(asked.fix, "--fix", "actuator.elbow.delay=0.012").items()},
        scenes_of(asked.scenes, [episode.labels for episode in calibration.recording.episodes]),
    )


def _beside(asked: Asked, progress: Progress, keep: Checkpoint) -> Beside | None:
    """What looks for models of the motors and of what is missed, where they were asked for."""
    if not (asked.actuators or asked.residual):
        return None

    def look(found: Found, unseen: Problem | None) -> tuple[Drive | None, Json]:
        from twinproof.identify.law_bench import bench
        from twinproof.identify.laws import Search, search_actuators, search_residual

        search = Search(bench(found.problem, unseen, found.fitted.unknowns), progress, keep)
        if asked.actuators:
            search_actuators(search, asked.seed)
        if asked.residual:
            search_residual(search, asked.seed)
        return search.best, [plain(each) for each in search.tried]

    return look


def method_of(name: str) -> Method:
    """The method of a name, with its default settings."""
    match name:
        case "laplace":
            from twinproof.identify.laplace import Laplace

            return Laplace()
        case "bootstrap":
            from twinproof.identify.bootstrap import BlockBootstrap

            return BlockBootstrap()
        case "svgd":
            from twinproof.identify.svgd import Svgd

            return Svgd()
        case "mdn":
            from twinproof.identify.mixture_density import MixtureDensity

            return MixtureDensity()
        case "npe":
            from twinproof.identify.npe import Npe

            return Npe()
        case _:
            raise ConfigError(f"there is no method {name!r}. Use laplace, bootstrap, svgd, mdn or npe.")


def point_of(name: str, horizons: str | None, free_starts: bool | None = None) -> Point:
    """The way to the point estimate, with window lengths where some were given."""
    match name:
        case "steps":
            how = GaussNewton(free_starts=free_starts)
            return how if horizons is None else replace(how, horizons_s=horizons_of(horizons))
        case "cloud":
            if horizons is None:
                return CloudNewton()
            stages = horizons_of(horizons)
            if len(stages) > 1:
                raise ConfigError(
                    f"the horizons {horizons!r} are {len(stages)} stages, and --fit cloud explains all lengths at "
                    "once. Write them with commas: '0.11, inf'."
                )
            return CloudNewton(stages[0])
        case _:
            raise ConfigError(f"there is no fit {name!r}. Use steps or cloud.")


def horizons_of(text: str) -> tuple[tuple[float, ...], ...]:
    """Stages of window lengths from '0.15; 0.6, 2'."""
    try:
        stages = tuple(tuple(float(part) for part in stage.split(",")) for stage in text.split(";"))
        if not all(length > 0 for stage in stages for length in stage):
            raise ValueError
    except ValueError:
        raise ConfigError(
            f"the horizons {text!r} cannot be read. Write lengths above zero in s, stages apart by ';': '0.15; 0.6, 2'."
        ) from None
    return stages


def pairs(texts: Sequence[str], option: str, example: str) -> dict[str, str]:
    """NAME=VALUE texts as a mapping."""
    found = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name.strip() or not value.strip():
            raise ConfigError(f"{option} {text!r} cannot be read. Write NAME=VALUE, as in '{example}'.")
        found[name.strip()] = value.strip()
    return found


def number(text: str, id: str) -> float:
    """A finite number."""
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not np.isfinite(value):
        raise ConfigError(f"{id} is to be fixed at {text!r}, which is no number.")
    return value
