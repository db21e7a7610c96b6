"""Real pieces of work for bench/fleet.py: starts of a fit, and lots of a panel's trials, on the practice pendulum."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from twinproof.evaluate.spread_lots import Folders, run_lot
from twinproof.fleet.spread import Piece
from twinproof.identify.starts import TEXTS, fit_one
from twinproof.job import read_job
from twinproof.nouns.hashing import content_key
from twinproof.nouns.kept import Kept
from twinproof.nouns.panel import Panel
from twinproof.run import SECTIONS, Doing, run

CPU = "cpu_s.json"  # what the worker's processor spent on a piece
LOT = 16  # trials, as evaluate takes them
JOB = """
name = "fleet"
[lab]
bench = "pendulum"
episodes = 6
to = "mcap"
[ingest]
source = "{lab}/dataset"
rig = "{lab}/rig.toml"
[split]
group_by = "none"
[reconstruct]
scene = "{lab}/scene.xml"
[panel]
task = "reach"
domains = ["twin=64"]
"""


def prepared(folder: Path) -> Path:
    """A run of the pendulum as far as its panel."""
    (folder / "job.toml").write_text(JOB, encoding="utf-8")
    job = read_job(folder / "job.toml", SECTIONS)
    run(Doing(job, Kept(folder / "run", print), print))
    return folder / "run"


def starts(made: Path, count: int) -> list[Piece]:
    """Fits of the pendulum's damping: of its many starts the four most promising, again and again."""
    told: dict[str, Any] = dict.fromkeys(TEXTS, ()) | {
        "scenes": None,
        "free_starts": None,
        "fit": "steps",
        "seed": 0,
    }
    told |= {"parameters": ["joint.*.damping"], "horizons": "0.15", "starts": count}
    told |= {name: str((made / name).resolve()) for name in ("twin", "split")}
    told = {name: list(value) if isinstance(value, tuple) else value for name, value in told.items()}
    return [Piece(content_key("start", k), (told, k % 4), f"start {k}") for k in range(count)]


def start(folder: Path, told: dict[str, Any], k: int) -> None:
    """One of them."""
    began = time.process_time()
    fit_one(folder, told, k)
    (folder / CPU).write_text(json.dumps(time.process_time() - began))


def lots(made: Path, count: int) -> list[Piece]:
    """The expert's trials in the twin, sixteen at a time."""
    panel = Panel.load(made / "panel")
    told = Folders(*(made / name for name in ("panel", "split", "twin")), ("expert=expert",)).told()
    labels = {condition.name: dict(condition.labels) for condition in panel.conditions}
    cells = list(panel.cells(["expert"]))
    places = [list(range(k, k + LOT)) for k in range(0, len(cells) - LOT + 1, LOT)]
    return [
        Piece(content_key("lot", k), (told, "expert", places[k % len(places)], labels), f"lot {k}")
        for k in range(count)
    ]


def lot(folder: Path, told: dict[str, Any], policy: str, places: list[int], labels: dict[str, Any]) -> None:
    """One of them."""
    began = time.process_time()
    run_lot(folder / "runs", told, policy, places, labels, None)
    (folder / CPU).write_text(json.dumps(time.process_time() - began))
