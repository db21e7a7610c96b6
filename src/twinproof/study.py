"""The transfer study: the one place where ways of randomising are compared.

The same task, network, steps and seeds; what differs is what the worlds of training may be. Every policy sits the same
panel, in the twin and in reality.

nominal     the model before any data, nothing of it drawn        posterior   draws of what calibration left open
point       calibration alone: its best values                    wide        hand-set wide ranges about the nominal

What calibration told are dynamics, and the zeros of encoders where pictures of the robot told them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from twinproof import __version__, cli_evaluate
from twinproof.fleet.spread import Piece, Where, spread
from twinproof.nouns.errors import ConfigError
from twinproof.nouns.files import read_json, write_json
from twinproof.nouns.hashing import Json, content_key
from twinproof.nouns.progress import Progress
from twinproof.nouns.randomization import Randomization, Range
from twinproof.nouns.store import Store
from twinproof.nouns.twin import Twin

VARIANTS = ("nominal", "wide", "point", "posterior")
FORMAT = "twinproof/transfer/1"


@dataclass(frozen=True)
class Plan:
    """What is trained and how often: options of `twinproof train`, and the run whose twin and posterior are used."""

    run: Path
    training: dict[str, Json]
    variants: tuple[str, ...] = VARIANTS
    seeds: int = 5
    imitation: dict[str, Json] | None = None  # of a policy that comes first: training then corrects it

    def __post_init__(self) -> None:
        unknown = [name for name in self.variants if name not in VARIANTS]
        if unknown or len(self.variants) < 2 or self.seeds < 1:
            raise ConfigError(
                f"a study of {', '.join(self.variants) or 'nothing'} over {self.seeds} seeds cannot compare. Name at "
                f"least two of {', '.join(VARIANTS)}, and one seed."
            )


def variants(plan: Plan) -> dict[str, Randomization]:
    """Variant -> what training draws. All share the ranges of sensors and starts; dynamics differ."""
    from twinproof.randomize.hand_set import hand_set
    from twinproof.sim.scene import Scene

    twin, base = Twin.load(plan.run / "twin"), Randomization.load(plan.run / "randomization")
    others = tuple(entry for entry in base.ranges if not _told(entry))
    if not others:
        raise ConfigError(
            f"{plan.run / 'randomization'} has ranges of dynamics alone; the nominal variant would have none at all. "
            "Make it with --split, so that noise and starts are drawn too."
        )
    bare = replace(base, ranges=others, joint=(), draws=np.zeros((0, 0)), discrepancy=())
    infos = [entry.parameter for entry in base.ranges if _told(entry) and entry.source.kind == "inferred"]
    made = {
        "nominal": bare,
        "wide": replace(bare, ranges=(*others, *hand_set(infos, Scene.of(twin).nominal()))),
        "point": _at_point(base),
        "posterior": base,
    }
    return {name: made[name] for name in plan.variants}


def _told(entry: Range) -> bool:
    """Whether a range is about what calibration is for, and not about noise or where episodes begin."""
    return entry.gap == "dynamics" or entry.id.endswith(".offset")


def _at_point(base: Randomization) -> Randomization:
    ranges = tuple(entry.at(0.0) if _told(entry) else entry for entry in base.ranges)
    rows = np.array(base.draws)
    for k, id in enumerate(base.joint):
        if _told(base.range(id)):
            rows[:, k] = base.range(id).point
    return replace(base, ranges=ranges, draws=rows, discrepancy=())


def train_one(
    folder: Path, twin: str, ranges: str, training: dict[str, Json], seed: int, imitation: dict[str, Json] | None = None
) -> None:
    """One policy, as a piece of work: trained and written into a folder. Where imitation comes first, its policy lies
    beside it and is corrected."""
    from twinproof.train import command, ground

    stand: dict[str, Any] = {"twin": Path(twin), "randomization": Path(ranges), "seed": seed}
    told: dict[str, Json] = {}
    if imitation is not None:
        first = command.run(ground.Asked(out=folder / "base", **stand, **_tuples(imitation)))[0]
        told["base_success"] = first.judged.success
        stand["base"] = folder / "base"
    made = command.run(ground.Asked(out=folder / "policy", **stand, **_tuples(training)))[0]
    told |= {"success": made.judged.success, "episodes": made.judged.episodes, "steps": made.outcome.steps}
    write_json(folder / "twin_success.json", told)


def _tuples(training: dict[str, Json]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in training.items()}


def trained(plan: Plan, out: Path, where: Where, progress: Progress) -> dict[str, list[Path]]:
    """Variant -> the policies of its seeds. What is in the study's store is not trained again."""
    twin = Twin.load(plan.run / "twin")
    pieces, places = list[Piece](), list[str]()
    for name, ranges in variants(plan).items():
        folder = out / "ranges" / name
        if not folder.exists():
            ranges.save(folder)
        for seed in range(plan.seeds):
            how = [plan.training] if plan.imitation is None else [plan.training, plan.imitation]
            key = content_key("study", twin.hash, ranges.hash, *how, seed, __version__)
            asked = (str((plan.run / "twin").absolute()), str(folder.absolute()), plan.training, seed, plan.imitation)
            pieces.append(Piece(key, asked, f"{name}, seed {seed}"))
            places.append(name)
    folders = spread(train_one, pieces, Store(out / "store"), where, progress=progress)
    found: dict[str, list[Path]] = {name: [] for name in plan.variants}
    for name, folder in zip(places, folders, strict=True):
        found[name].append(folder / "policy")
    return found


def examined(plan: Plan, policies: dict[str, list[Path]], out: Path, panel: dict[str, Json], robot: str) -> Path:
    """The folder of the trials that every policy sat, in the twin and in reality."""
    frozen, trials = out / "panel", out / "trials"
    split, twin = plan.run / "split", plan.run / "twin"
    if not frozen.exists():
        cli_evaluate.panel(cli_evaluate.Panel(split=split, twin=twin, out=frozen, **_tuples(panel)))
    if not trials.exists():
        named = tuple(f"{name}_{k}={folder}" for name, folders in policies.items() for k, folder in enumerate(folders))
        cli_evaluate.evaluate(
            cli_evaluate.Evaluate(
                panel=frozen,
                split=split,
                twin=twin,
                policy=named,
                out=trials,
                posterior=plan.run / "posterior",
                randomization=plan.run / "randomization",
                robot=robot,
                change="a study of ways to randomise, with policies of its own",
            )
        )
    return trials


@dataclass(frozen=True)
class Row:
    """One variant: success in each domain, averaged over seeds, with a 90 % interval in which seeds are the units."""

    variant: str
    seeds: int
    success: dict[str, tuple[float, float, float]]  # domain -> mean, low, high


def table(plan: Plan, trials: Path) -> tuple[Row, ...]:
    """What came of every variant."""
    told = read_json(trials / "summary.json", "twinproof/trials-summary/1", ConfigError)["success"]
    rows = []
    for name in plan.variants:
        rates: dict[str, list[float]] = {}
        for k in range(plan.seeds):
            for domain, rate in told[f"{name}_{k}"].items():
                rates.setdefault(domain, []).append(rate["successes"] / rate["trials"])
        rows.append(Row(name, plan.seeds, {domain: _over_seeds(values) for domain, values in rates.items()}))
    return tuple(rows)


def _over_seeds(rates: Sequence[float]) -> tuple[float, float, float]:
    from scipy.stats import t

    mean = float(np.mean(rates))
    if len(rates) < 2:
        return mean, 0.0, 1.0
    half = float(t.ppf(0.95, len(rates) - 1) * np.std(rates, ddof=1) / np.sqrt(len(rates)))
    return mean, max(0.0, mean - half), min(1.0, mean + half)


def verdict(rows: Sequence[Row], domain: str = "real") -> str:
    """Whether ranges of the posterior beat the point and the wide ranges, in a plain sentence."""
    by_name = {row.variant: row.success for row in rows}
    if "posterior" not in by_name or domain not in by_name["posterior"]:
        return "Not tested: the posterior's ranges, or reality, are not in this study."
    best, told = by_name["posterior"][domain][0], []
    for other in ("point", "wide", "nominal"):
        if other in by_name:
            rate = by_name[other][domain][0]
            word = "beat" if best > rate else "do not beat"
            told.append(f"{word} {other} ({100 * best:.0f} % against {100 * rate:.0f} %)")
    return f"In reality the posterior's ranges {', '.join(told)}, over {rows[0].seeds} seeds."
