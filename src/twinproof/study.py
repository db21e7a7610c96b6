"""The transfer study: the one place where ways of randomising are compared.

The same task, network, steps and seeds; what differs is what the worlds of training may be (study_plan.py). Every
policy sits the same panel, in the twin and in reality; study_table.py says what came of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twinproof import __version__, cli_evaluate
from twinproof.fleet.spread import Piece, Where, spread
from twinproof.nouns.files import write_json
from twinproof.nouns.hashing import Json, content_key
from twinproof.nouns.progress import Progress
from twinproof.nouns.store import Store
from twinproof.nouns.twin import Twin
from twinproof.study_plan import Plan, trains_with_error, variants


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


def _taught(training: dict[str, Json], name: str) -> dict[str, Json]:
    """How a variant's policies are trained: as all are, and with the model error where it is that."""
    return {**training, "model_error": True} if trains_with_error(name) else training


def _tuples(training: dict[str, Json]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in training.items()}


def trained(plan: Plan, out: Path, where: Where, progress: Progress) -> dict[str, list[Path]]:
    """Variant -> the policies of its seeds. What is in the study's store is not trained again."""
    twin = Twin.load(plan.run / "twin")
    pieces, places = list[Piece](), list[str]()
    drawn = variants(plan)
    for seed in range(plan.seeds):  # a study that is stopped has whole seeds, and fewer of them
        for name, ranges in drawn.items():
            folder = out / "ranges" / f"{name}-{ranges.hash[:12]}"
            if not folder.exists():
                ranges.save(folder)
            training, first = _taught(plan.training, name), plan.imitation and _taught(plan.imitation, name)
            how = [training] if first is None else [training, first]
            key = content_key("study", twin.hash, ranges.hash, *how, seed, __version__)
            asked = (str((plan.run / "twin").absolute()), str(folder.absolute()), training, seed, first)
            pieces.append(Piece(key, asked, f"{name}, seed {seed}"))
            places.append(name)
    folders = spread(train_one, pieces, Store(out / "store"), where, progress=progress)
    found: dict[str, list[Path]] = {name: [] for name in plan.variants}
    for name, folder in zip(places, folders, strict=True):
        found[name].append(folder / "policy")
    return found


def examined(
    plan: Plan, policies: dict[str, list[Path]], out: Path, panel: dict[str, Json], robot: str, change: str = ""
) -> Path:
    """The folder of the trials that every policy sat, in the twin and in reality. Another panel, and other policies on
    the same one, lie beside it: a study may grow by variants and seeds. `change`: what changed since the holdout was
    last open, beside the policies."""
    sat = [[name, [folder.parent.name for folder in folders]] for name, folders in policies.items()]
    frozen = out / f"panel-{content_key('panel', panel)[:12]}"
    trials = out / f"trials-{content_key('trials', panel, sat)[:12]}"
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
                home=_tuples(panel).get("home", ()),
                again=0,  # a study counts successes; what failed is not asked
                change=change or "a study of ways to randomise, with policies of its own",
            )
        )
    return trials
