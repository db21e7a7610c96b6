"""The truth of a recording: a JSON file that the caller names. The scoring reads it, no stage does.

The recording's folder neither contains it nor says where it is.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import numpy as np

from twinproof.lab.bench import Bench
from twinproof.lab.cameras import Shots
from twinproof.lab.effects import named
from twinproof.lab.hidden import HiddenCamera, Plant
from twinproof.lab.models.room import NOMINAL_LOOK
from twinproof.lab.models.text import Values
from twinproof.lab.population import Instance, measured
from twinproof.lab.take import Played
from twinproof.nouns.errors import ConfigError, StoreError
from twinproof.nouns.files import write_json
from twinproof.nouns.hashing import Json
from twinproof.nouns.strict import plain

FORMAT = "twinproof/lab-truth/1"


def check_place(truth: Path, out: Path) -> None:
    """The truth goes to a new file outside the recording, and one that can be written."""
    try:
        place, folder = truth.resolve(), out.resolve()
        there = os.path.lexists(truth)
    except (OSError, RuntimeError, ValueError) as problem:
        raise ConfigError(f"the truth cannot be written to {truth}: {problem}. Name another file.") from None
    if place.is_relative_to(folder):
        raise StoreError(f"the truth {truth} would lie inside the recording {out}. Name a file outside it.")
    if folder.is_relative_to(place):
        raise StoreError(f"the recording {out} would lie below the truth {truth}. Name a file outside it.")
    if there:
        raise StoreError(f"{truth} exists. Nothing is overwritten: name another file, or remove it.")
    _try_writing(place)


def _try_writing(place: Path) -> None:
    """Makes the file and takes it away again, with the folders that it needed."""
    made: list[Path] = []
    try:
        for folder in reversed([place.parent, *place.parent.parents]):
            if not folder.exists():
                folder.mkdir()
                made.append(folder)
        with place.with_name(f".{place.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp").open("xb") as handle:
            Path(handle.name).unlink()
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", None) or problem
        raise ConfigError(f"the truth cannot be written to {place}: {why}. Name a file that you may write.") from None
    finally:
        for folder in reversed(made):
            folder.rmdir()


def object_values(bench: Bench, thing: Instance) -> dict[str, float]:
    """The parameters that come with an object, by id."""
    values = Values()
    bench.scene_text(values, NOMINAL_LOOK, thing, {view.name: "" for view in bench.views}, False)
    kinds = ("body.object.", "geom.object", "body.drawer.", "joint.drawer.", "geom.handle.")
    return {id: value for id, value in values.nominal.items() if id.startswith(kinds)}


def plant_truth(bench: Bench, plant: Plant, effects: frozenset[str], size: tuple[int, int]) -> dict[str, Json]:
    """What holds for every episode."""
    return {
        "format": FORMAT,
        "reality": f"lab bench '{bench.name}', simulated",
        "bench": bench.name,
        "plant": plant.seed,
        "effects": named(effects),
        "theta": dict(plant.theta),
        "nominal": {id: value for id, value in bench.nominal_values.items() if id in plant.theta},
        "cameras": {camera.name: _camera(camera, size) for camera in plant.cameras},
    }


def _camera(camera: HiddenCamera, size: tuple[int, int]) -> Json:
    return {
        "mount": plain(camera.mount(true=True)),
        "stated_mount": plain(camera.mount()),
        "intrinsics": plain(camera.lens(size, true=True)),
        "stated_intrinsics": plain(camera.lens(size)),
        "clock_offset_s": camera.clock_offset_s,
        "readout_s": camera.readout_s,
        "noise": camera.noise,
        "exposure_drift": camera.drift,
    }


def object_truth(bench: Bench, thing: Instance) -> Json:
    """What an object is, and what the user believes of it."""
    return {
        "family": thing.family,
        "shape": thing.shape,
        "half_m": list(thing.half_m),
        "stated_half_m": list(measured(thing).half_m),
        "theta": object_values(bench, thing),
        "nominal": object_values(bench, measured(thing)),
    }


def episode_truth(bench: Bench, played: Played, shots: dict[str, Shots]) -> Json:
    """What happened: events, joint angles and object poses at every command, and when each picture was really taken."""
    log, q = played.reality.log, played.reality.joint_places
    every = round(1 / (bench.rate_hz * played.reality.dt))
    angles = np.stack(log.qpos)[::every][:, q]
    return {
        "number": played.take.number,
        "labels": played.take.labels(bench),
        "success": played.success,
        "events": [[event.name, round(event.time_s, 6)] for event in bench.events(log.snaps)],
        "time_s": [round(snap.time_s, 6) for snap in log.snaps],
        "joints": _rounded(angles),
        "object_pose": _rounded(np.stack([[*snap.object_m, *snap.object_quat] for snap in log.snaps])),
        "drawer_m": _rounded(np.array([snap.opening_m for snap in log.snaps])),
        "exposures_s": {name: _rounded(each.true_s) for name, each in shots.items()},
    }


def _rounded(values: np.ndarray) -> Json:
    return np.round(values, 7).tolist()


def write_truth(path: Path, truth: dict[str, Json]) -> None:
    """Writes the file whole."""
    try:
        path.absolute().parent.mkdir(parents=True, exist_ok=True)
        write_json(path, truth)
    except OSError as problem:
        raise StoreError(f"the truth could not be written to {path}: {problem.strerror}. Nothing was kept.") from None
