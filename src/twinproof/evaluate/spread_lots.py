"""Simulated trials of a panel, spread over workers: each lot is run where there is room, and comes back as files.

A worker reads panel, twin, beliefs and policy anew and never sees the holdout: of it only the labels of the conditions
are told. A lot lies in the store under the same key as when it is run here, so that an examination may go on anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from twinproof.evaluate.beliefs import Beliefs
from twinproof.evaluate.closed_loop import Job
from twinproof.evaluate.command import contenders_of, home_of, task_name, task_of_panel
from twinproof.evaluate.deploy import begins
from twinproof.evaluate.film import filming
from twinproof.evaluate.lots import Lot
from twinproof.evaluate.runs import Runs
from twinproof.fleet.spread import Piece, Where, spread
from twinproof.nouns.errors import PanelError, PolicyError
from twinproof.nouns.hashing import Json
from twinproof.nouns.panel import Cell, Panel
from twinproof.nouns.posterior import Posterior
from twinproof.nouns.randomization import Randomization
from twinproof.nouns.robot import Limits
from twinproof.nouns.split import Split
from twinproof.nouns.store import Store
from twinproof.nouns.twin import Twin
from twinproof.policies.safety import Safety
from twinproof.policies.safety_file import read_safety
from twinproof.sim.scene import Scene
from twinproof.tasks.experts import expert_by_name


@dataclass(frozen=True)
class Folders:
    """Where workers find what an examination is made of."""

    panel: Path
    split: Path
    twin: Path
    policy: tuple[str, ...]  # NAME=FOLDER, or NAME=expert
    home: tuple[str, ...] = ()
    posterior: Path | None = None
    randomization: Path | None = None
    rebuilt: Path | None = None
    safety: Path | None = None  # the safety.toml of the limits that are kept
    filmed: tuple[str, ...] = ()  # domains

    def told(self) -> dict[str, Json]:
        """As plain data with absolute paths."""
        found: dict[str, Json] = {"policy": [_absolute(text) for text in self.policy], "home": list(self.home)}
        found["filmed"] = list(self.filmed)
        for name in ("panel", "split", "twin", "posterior", "randomization", "rebuilt", "safety"):
            path = getattr(self, name)
            found[name] = None if path is None else str(path.absolute())
        return found


def _absolute(text: str) -> str:
    name, sign, where = text.partition("=")
    return f"{name}{sign}{Path(where).absolute()}" if Path(where).exists() else text


def run_lot(
    folder: Path,
    told: dict[str, Any],
    policy: str,
    places: Sequence[int],
    labels: dict[str, Any],
    limits: dict[str, Any] | None,
) -> None:
    """One lot, as a piece of work: its runs within the limits, written into a folder."""
    panel, split, twin = Panel.load(Path(told["panel"])), Split.load(Path(told["split"])), Twin.load(Path(told["twin"]))
    name = task_name(panel, Path(told["panel"]))
    task = task_of_panel(panel, name, twin, home_of(tuple(told["home"]), name, twin, split))
    beliefs = Beliefs(
        twin,
        None if told["posterior"] is None else Posterior.load(Path(told["posterior"])),
        None if told["randomization"] is None else Randomization.load(Path(told["randomization"])),
        None if told["rebuilt"] is None else Twin.load(Path(told["rebuilt"])),
    )
    names = [text.partition("=")[0] for text in told["policy"]]
    mine = [text for text in told["policy"] if text.partition("=")[0] == policy]
    (who,) = contenders_of(mine, task, expert_by_name(name, task), beliefs.best)
    every = list(panel.cells(names))
    cells = [_labelled(every[k], labels) for k in places]
    kind, rig = cells[0].domain.kind, split.parts()[0].recording.rig
    place = beliefs.rebuilt if kind == "rebuilt" and beliefs.rebuilt is not None else twin
    jobs = [Job(cell, beliefs.theta(cell), begins(task, cell)) for cell in cells]
    kept = None if limits is None else _limits(Path(told["safety"]), limits, twin)
    with filming(folder.parent) as films:
        film = (films, who.filmed(panel, rig)) if cells[0].domain.name in told["filmed"] else None
        stage = who.stage(place, task, who.pictures(panel, rig), kept, beliefs.drive_of(kind), film)
        Runs(tuple(stage.run(jobs))).save(folder)


def _labelled(cell: Cell, labels: Mapping[str, Any]) -> Cell:
    return replace(cell, condition=replace(cell.condition, labels=labels[cell.condition.name]))


def _limits(path: Path, stated: Mapping[str, Any], twin: Twin) -> Safety:
    """The limits of a file as they were told: it has to say the same as when the examination read it."""
    low, high, speed = (np.array(stated[name], dtype=np.float64) for name in ("low", "high", "speed"))
    joints, limits = tuple(stated["joints"]), Limits(low, high, speed)
    found = read_safety(path, joints, limits, float(stated["rate_hz"]), Scene.of(twin))
    if found.told() != stated:
        raise PolicyError(f"{path} does not say what it said when the examination began. Restore it, or begin anew.")
    return found


def elsewhere(
    folders: Folders, store: Store, where: Where
) -> Callable[[str, Sequence[Lot], Safety | None, Callable[[int], None]], None]:
    """What runs the lots of a policy on workers of a place, into the store; it tells how many trials are over."""
    told = folders.told()

    def run(policy: str, lots: Sequence[Lot], limits: Safety | None, ended: Callable[[int], None]) -> None:
        if limits is not None and folders.safety is None:
            raise PanelError(
                "trials are kept within limits that workers cannot read. Name their file: Folders(safety=…)."
            )
        kept = None if limits is None else limits.told()
        pieces = []
        for lot in lots:
            conditions: Mapping[str, Json] = {
                job.cell.condition.name: dict(job.cell.condition.labels) for job in lot.jobs
            }
            name = f"{policy}, trials from {lot.places[0]}"
            pieces.append(Piece(lot.key, (told, policy, list(lot.places), dict(conditions), kept), name))
        sizes = max((len(lot.jobs) for lot in lots), default=0)
        spread(run_lot, pieces, store, where, progress=lambda done, text, total=None: ended(done * sizes))

    return run
