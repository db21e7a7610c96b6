"""What a ROS 2 bag cannot say about an episode, in files beside metadata.yaml that other tools ignore.

twinproof.json        rig, labels, outcome, notes; columns, units, kind and frame of every signal
twinproof_times.npz   times that are no whole number of nanoseconds, where there are any
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from twinproof.ingest.bag_find import Bag, find_bags, is_bag
from twinproof.nouns.errors import RecordingError
from twinproof.nouns.files import read_json
from twinproof.nouns.rig import Rig
from twinproof.nouns.strict import build

FORMAT = "twinproof/bag/1"
NAME = "twinproof.json"
TIMES = "twinproof_times.npz"


@dataclass(frozen=True)
class SignalNote:
    """What a topic means. Values that are NaN in the bag are missing."""

    name: str
    kind: str
    columns: tuple[str, ...]
    units: tuple[str, ...]
    frame: str
    samples: int
    log_time: bool  # False: the recording knows no log times, and the bag repeats the stamps


@dataclass(frozen=True)
class CameraNote:
    """What a picture topic means."""

    name: str
    pixels: str
    frames: int
    log_time: bool


@dataclass(frozen=True)
class Sidecar:
    """One episode's sidecar. Stamps in the bag are start_ns + shift_ns + round(time_s * 1e9)."""

    rig: Rig
    source: str
    start_ns: int
    shift_ns: int
    labels: dict[str, str]
    outcome: str
    notes: tuple[str, ...]
    signals: dict[str, SignalNote]  # by source
    cameras: dict[str, CameraNote]
    format: str = FORMAT
    times: dict[str, np.ndarray] = field(default_factory=dict, init=False, repr=False)


def read_sidecar(bag: Bag) -> Sidecar | None:
    """The sidecar in a bag's folder, if there is one."""
    folder = bag.path if bag.path.is_dir() else bag.path.parent
    path = folder / NAME
    if not path.is_file() or not (folder / "metadata.yaml").is_file():
        return None
    sidecar = build(Sidecar, read_json(path, FORMAT, RecordingError), str(path), RecordingError)
    if (folder / TIMES).is_file():
        try:
            with np.load(folder / TIMES, allow_pickle=False) as stored:
                sidecar.times.update({key: stored[key] for key in stored.files})
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as problem:
            raise RecordingError(f"{folder / TIMES} cannot be read ({problem}). Restore it with its bag.") from None
    return sidecar


def sidecar_rig(path: Path) -> Rig | None:
    """The rig that a bag written by twinproof is read back under; None for other bags."""
    if not is_bag(path):
        return None
    sidecar = read_sidecar(find_bags(path)[0][0])
    return None if sidecar is None else sidecar.rig


def exact_times(sidecar: Sidecar, key: str, from_ns: np.ndarray, cut: bool) -> np.ndarray:
    """The times as they were before they became whole nanoseconds; the first of them if the file was cut."""
    stored = sidecar.times.get(key)
    if stored is None:
        return from_ns
    count = len(from_ns)
    enough = stored.dtype == np.float64 and stored.ndim == 1 and (len(stored) == count or (cut and len(stored) > count))
    if not enough or not (np.abs(stored[:count] - from_ns) < 1e-6).all():
        raise RecordingError(f"{TIMES}: {key} does not belong to its bag. Restore both, or remove {NAME} and {TIMES}.")
    return stored[:count]
