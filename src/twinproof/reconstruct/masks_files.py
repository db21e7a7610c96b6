"""Masks on disk, so that a reconstruction that was stopped goes on: `masks.json` and one NPZ for each camera."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from twinproof.nouns.errors import RecordingError
from twinproof.nouns.files import check_files, file_hashes, new_folder, read_sealed, write_sealed
from twinproof.nouns.hashing import Json
from twinproof.nouns.strict import convert
from twinproof.reconstruct.masks import Masks
from twinproof.reconstruct.masks_track import Track

FORMAT = "twinproof/masks/1"
LEVELS = 255  # confidence is kept in a byte


def write_masks(masks: Masks, folder: Path) -> None:
    """Writes masks to a new folder, all of it or nothing."""
    with new_folder(folder) as scratch:
        cameras: list[Json] = []
        for k, (camera, labels) in enumerate(masks.labels.items()):
            sure = np.round(masks.confidence[camera].astype(np.float32) * LEVELS).astype(np.uint8)
            np.savez_compressed(scratch / f"camera_{k}.npz", labels=labels, confidence=sure)
            cameras.append(camera)
        tracks: dict[str, Json] = {name: _plain(track) for name, track in masks.tracks.items()}
        text: dict[str, Json] = {
            "format": FORMAT,
            "names": list(masks.names),
            "cameras": cameras,
            "tracks": tracks,
            "notes": list(masks.notes),
            "files": dict(file_hashes(scratch)),
        }
        write_sealed(scratch / "masks.json", text)


def read_masks(folder: Path) -> Masks:
    """The masks of a folder; what was changed or is missing is an error."""
    text = read_sealed(folder / "masks.json", FORMAT, RecordingError)
    check_files(folder, convert(dict[str, str], text["files"], "masks.files", RecordingError), RecordingError)
    cameras: tuple[str, ...] = convert(tuple[str, ...], text["cameras"], "masks.cameras", RecordingError)
    labels, sure = dict[str, np.ndarray](), dict[str, np.ndarray]()
    for k, camera in enumerate(cameras):
        with np.load(folder / f"camera_{k}.npz", allow_pickle=False) as planes:
            labels[camera] = planes["labels"]
            sure[camera] = (planes["confidence"].astype(np.float32) / LEVELS).astype(np.float16)
    told = text["tracks"]
    assert isinstance(told, dict)  # the seal holds, so we wrote it
    return Masks(
        convert(tuple[str, ...], text["names"], "masks.names", RecordingError),
        labels,
        sure,
        {name: _track(track) for name, track in told.items()},
        convert(tuple[str, ...], text["notes"], "masks.notes", RecordingError),
    )


def _plain(track: Track) -> Json:
    return {
        "time_s": track.time_s.tolist(),
        "centre": track.centre.tolist(),
        "seen": track.seen.tolist(),
        "radius_m": float(track.radius_m),
        "pixel_m": float(track.pixel_m),
    }


def _track(told: Json) -> Track:
    assert isinstance(told, dict)
    time_s, centre, seen = (np.array(told[key]) for key in ("time_s", "centre", "seen"))
    sizes = (convert(float, told[key], f"masks.tracks.{key}", RecordingError) for key in ("radius_m", "pixel_m"))
    return Track(time_s, centre, seen.astype(bool), *sizes)
