"""Training seeds, spread over workers: each policy is learned where there is room, and comes back as files.

A seed draws from streams of its own, so that policies are the same wherever they were learned. What is finished lies in
the run's folder until all are; a stopped run goes on with the others.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from twinproof import __version__
from twinproof.fleet.spread import Piece, Where, spread
from twinproof.nouns.errors import ConfigError, PolicyError, StoreError
from twinproof.nouns.files import new_folder, read_json, remove_tree, write_json
from twinproof.nouns.hashing import Json, content_key
from twinproof.nouns.policy import Policy
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.store import Store
from twinproof.nouns.strict import plain
from twinproof.train import command
from twinproof.train.ground import Asked, Ground
from twinproof.train.judge import Judged

FORMAT = "twinproof/trained-seed/1"
OWN = ("out", "seeds", "seed", "probe")  # what a piece is told apart, or does not need
PATHS = ("twin", "randomization", "split", "teacher", "base", "safety")


@dataclass(frozen=True)
class Spent:
    """What a seed cost its worker."""

    steps: int
    wall_s: float


@dataclass(frozen=True)
class Came:
    """A policy that came back: where it lies, what it cost, and how it was judged."""

    policy: Policy
    folder: Path
    outcome: Spent
    judged: Judged


def learn_one(folder: Path, told: dict[str, Any], seed: int) -> None:
    """One seed, as a piece of work: its policy, curve and how it was judged, written into a folder."""
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in told.items()}
    values |= {name: Path(told[name]) for name in PATHS if told.get(name) is not None}
    asked = Asked(**values, out=folder / "policy", seed=seed, seeds=1, probe=False)
    (made,) = command.run(asked)
    about: dict[str, Json] = {"steps": made.outcome.steps, "wall_s": round(made.outcome.wall_s, 2)}
    write_json(folder / "seed.json", {"format": FORMAT, **about, "judged": plain(made.judged)})


def learn_spread(
    asked: Asked, where: Where, progress: Progress = quiet, say: command.Say = lambda text: None
) -> tuple[Came, ...]:
    """All seeds, each where there is room; OUT/seed0, OUT/seed1, … as when they are learned here."""
    if asked.out.exists() and any(asked.out.iterdir()):
        raise StoreError(f"{asked.out} exists and is not empty. Nothing is overwritten: name another folder.")
    if asked.cameras:
        raise ConfigError("policies that see pictures are trained here, seed by seed. Leave --on out.")
    ground = Ground.of(asked)
    if asked.probe:
        progress(0, "probing the task", None)
        command.probed(Ground.of(replace(asked, device="cpu")).arena(command.PROBED, asked.seed), ground.expert, say)
    told: dict[str, Json] = {name: plain(value) for name, value in vars(asked).items() if name not in OWN}
    decides = {name: value for name, value in told.items() if name not in PATHS}
    told |= {name: str(getattr(asked, name).absolute()) for name in PATHS if getattr(asked, name) is not None}
    if Path(asked.task).exists():  # a file or a motion of the user's own
        told["task"] = str(Path(asked.task).absolute())
    seeds = range(asked.seed, asked.seed + asked.seeds)
    pieces = [
        Piece(
            content_key("train", decides, {**ground.parents, **ground.limits}, seed, __version__),
            (told, seed),
            f"seed {seed}",
        )
        for seed in seeds
    ]
    work = command.run_folder(asked) / "seeds"
    folders = spread(learn_one, pieces, Store(work), where, progress=progress)
    came = []
    with new_folder(asked.out) as scratch:
        for seed, folder in zip(seeds, folders, strict=True):
            name = f"seed{seed}" if asked.seeds > 1 else ""
            shutil.copytree(folder / "policy", scratch / name, dirs_exist_ok=True)
            about: Any = read_json(folder / "seed.json", FORMAT, PolicyError)
            spent, judged = Spent(about["steps"], about["wall_s"]), Judged(**about["judged"])
            came.append(Came(Policy.load(folder / "policy"), asked.out / name, spent, judged))
    remove_tree(work)
    return tuple(came)
