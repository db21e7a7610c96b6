"""`twinproof synth`: many labelled pictures drawn from a randomised twin; a killed run goes on where it was.

.OUT.synth/   while it runs: the pictures, and records/000012.json, written when all of picture 12 is on the disk
OUT/          when all are done, in one rename: pictures, tables, models, synth.json with every picture's Theta
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from twinproof.nouns.errors import ConfigError, StoreError
from twinproof.nouns.files import sync_tree, write_json
from twinproof.nouns.hashing import Json, content_hash
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.randomization import Randomization
from twinproof.nouns.twin import Twin
from twinproof.randomize.synth_layouts import write_shot, write_tables
from twinproof.randomize.synth_shot import Set
from twinproof.sim.parameters.base import names
from twinproof.sim.scene import Scene

FORMAT = "twinproof/synth/1"


@dataclass(frozen=True)
class Asked:
    """The settings of the command."""

    twin: Path
    randomization: Path
    count: int
    out: Path
    cameras: tuple[str, ...]
    width: int | None
    looks: Literal["auto", "meshes", "splats"]
    seed: int


def run(asked: Asked, progress: Progress = quiet) -> dict[str, Json]:
    """Draws, writes and closes the folder; gives what synth.json says."""
    if asked.out.exists():
        raise StoreError(f"{asked.out} exists. Nothing is overwritten: name another folder, or remove it.")
    if asked.count < 1 or (asked.width is not None and asked.width < 8):
        raise ConfigError(
            f"{asked.count} pictures of width {asked.width} were asked for. Ask for 1 or more, 8 pixels or more."
        )
    twin, randomization = Twin.load(asked.twin), Randomization.load(asked.randomization)
    randomization.check_twin(twin.hash)
    looks = asked.looks
    if looks == "auto":
        looks = "splats" if "splats.ply" in twin.files else "meshes"
    cameras = (
        asked.cameras or tuple(sorted(twin.cameras)) or tuple(filter(None, names(Scene.of(twin).nominal(), "camera")))
    )
    made = Set(twin, randomization, cameras, asked.width, looks, asked.seed)
    told: dict[str, Json] = {
        "format": FORMAT,
        "twin": twin.hash,
        "randomization": randomization.hash,
        "cameras": list(cameras),
        "width": asked.width,
        "looks": looks,
        "seed": asked.seed,
        "left_out": list(made.left_out),
    }
    work = asked.out.absolute().with_name(f".{asked.out.name}.synth")
    _resume(work, told)
    for number in range(asked.count):
        progress(number, f"picture {number}", asked.count)
        record = work / "records" / f"{number:06d}.json"
        if not record.is_file():
            write_json(record, write_shot(work, made.shot(number)))
    return _close(work, asked, made, told)


def _resume(work: Path, told: dict[str, Json]) -> None:
    """Makes the working folder, or checks that the one that is there was made with the same settings."""
    key = content_hash(told)
    path = work / "settings.json"
    if path.is_file():
        found: Any = json.loads(path.read_bytes())
        if found.get("key") != key:
            raise ConfigError(
                f"{work} is left from a run with other settings. Run that one to its end, or remove the folder."
            )
        return
    (work / "records").mkdir(parents=True, exist_ok=True)
    write_json(path, {"key": key, **told})


def _close(work: Path, asked: Asked, made: Set, told: dict[str, Json]) -> dict[str, Json]:
    """The tables over all records, and the folder under its own name."""
    records = [json.loads((work / "records" / f"{n:06d}.json").read_bytes()) for n in range(asked.count)]
    write_tables(work, made, records)
    told = {
        **told,
        "count": asked.count,
        "pictures": [{"camera": r["camera_name"], "theta": r["theta"]} for r in records],
    }
    write_json(work / "synth.json", told)
    shutil.rmtree(work / "records")
    (work / "settings.json").unlink()
    sync_tree(work)
    work.rename(asked.out)
    return told
