"""An object followed through an episode in which it moves: its masks, what is behind it, and its pose over time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.nouns.artifact import read_arrays, write_arrays
from twinproof.nouns.clip import Clip
from twinproof.nouns.errors import TwinError
from twinproof.nouns.files import read_json, write_json
from twinproof.nouns.progress import Progress, quiet
from twinproof.reconstruct.masks import segment
from twinproof.reconstruct.object_block import FoundObject
from twinproof.reconstruct.plate import inpainted, plate_over_time
from twinproof.reconstruct.prompts import Prompt, Prompts
from twinproof.sim.grid import Plane
from twinproof.sim.track import Following, Rest, Tracker
from twinproof.sim.track_clips import sight_of, times_of, track
from twinproof.sim.track_object import learnt, surface_splats
from twinproof.sim.track_pose import Track

if TYPE_CHECKING:
    from jaxtyping import Bool, UInt8

    from twinproof.nouns.splats import Splats
    from twinproof.reconstruct.segmenters import Segmenter

FORMAT = "twinproof/reconstruct-motion/1"
MOVED_M, MOVED_RAD = 0.015, 0.2  # less is no motion that tells anything
SPACING = 12.0  # splats to follow by, along the longest side
GROW_PX = 3  # by which robot and object are grown where the plate is made
ANY_M, UPRIGHT_RAD = 1.0, 0.02  # what is held by a joint: any height, and no tilt unless pictures insist
LEARN = 8  # pictures of a camera that the object's colours are learnt from
FIELDS = ("time_s", "T_world_object", "covariance", "seen", "residual", "lost")


@dataclass(frozen=True, eq=False)
class FoundMotion:
    """Where an object was in one episode, on the robot's clock. Plates are what still cameras see without it."""

    name: str
    episode: str
    track: Track
    masks: Mapping[str, Bool[np.ndarray, "T H W"]]
    plates: Mapping[str, UInt8[np.ndarray, "H W 3"]]
    splats: Splats  # on its surface, in its frame, in the colours of this episode
    notes: tuple[str, ...] = ()

    @property
    def moves(self) -> bool:
        """Whether it went or turned far enough to tell something."""
        good = self.track.T_world_object[~self.track.lost]
        if len(good) < 2:
            return False
        far = np.linalg.norm(good[:, :3, 3] - good[0, :3, 3], axis=1).max()
        turned = np.arccos(np.clip((np.einsum("tij,ij->t", good[:, :3, :3], good[0, :3, :3]) - 1) / 2, -1, 1)).max()
        return bool(far > MOVED_M or turned > MOVED_RAD)

    def save(self, folder: Path) -> None:
        """Writes motion.json, motion.npz and splats.ply."""
        from twinproof.nouns.splat_files import write_ply

        arrays = {f"track.{name}": np.asarray(getattr(self.track, name)) for name in FIELDS}
        arrays |= {f"mask.{name}": np.packbits(mask, axis=2) for name, mask in self.masks.items()}
        arrays |= {f"plate.{name}": plate for name, plate in self.plates.items()}
        write_arrays(folder / "motion.npz", arrays)
        write_ply(folder / "splats.ply", self.splats)
        widths = {name: mask.shape[2] for name, mask in self.masks.items()}
        head = {"name": self.name, "episode": self.episode, "widths": widths, "notes": list(self.notes)}
        write_json(folder / "motion.json", {"format": FORMAT, **head})

    @classmethod
    def load(cls, folder: Path) -> FoundMotion:
        """Reads it back."""
        from twinproof.nouns.splat_files import read_ply

        head: Any = read_json(folder / "motion.json", FORMAT, TwinError)
        arrays = read_arrays(folder / "motion.npz", TwinError)
        masks = {
            name: np.unpackbits(arrays[f"mask.{name}"], axis=2, count=width).astype(bool)
            for name, width in head["widths"].items()
        }
        plates = {key.removeprefix("plate."): value for key, value in arrays.items() if key.startswith("plate.")}
        return cls(
            head["name"],
            head["episode"],
            Track(*(arrays[f"track.{name}"] for name in FIELDS)),
            masks,
            plates,
            read_ply(folder / "splats.ply", ("object",)),
            tuple(head["notes"]),
        )


def found_motion(
    clips: Mapping[str, Clip],
    thing: FoundObject,
    episode: str,
    table: Plane | None,
    prompts: Prompts | None = None,
    segmenter: Segmenter | None = None,
    progress: Progress = quiet,
) -> FoundMotion:
    """Follows the object through clips of still cameras, by its outlines, then by its looks.

    Without prompts it is the thing that moved. `table` is what it stands on; None where something else holds it (a
    drawer's rails): then its height is free, and outlines alone count, as it hides what is behind it.
    """
    still = {name: clip for name, clip in clips.items() if clip.still}
    if not still:
        raise TwinError(
            f"{thing.name} cannot be followed: no camera of episode {episode[:8]} stands still. Record with one that "
            "does, or leave the motion out with --no-joint."
        )
    asked = prompts or Prompts((Prompt(thing.name, words="the thing that moved"),))
    masks = segment(still, asked, table, segmenter, progress=progress)
    which = thing.name if thing.name in masks.names else masks.names[0]
    own = {name: np.array(masks.of(which, name)) for name in still}
    ordered = tuple(still.values())
    # drawers and doors stay upright, and outlines of a thin front tell its tilt badly; a lid pulls away from the tie
    tie = Rest(thing.T_world_object) if table is not None else Rest(thing.T_world_object, ANY_M, UPRIGHT_RAD)
    how = Following(rest=tie)
    splats = splats_over(thing, still)
    found = track(Tracker(splats, how), ordered, {}, None, masks=own, again=False, progress=progress)
    plates = {name: _plate(clip, own[name]) for name, clip in still.items()}
    if table is not None and (~found.lost).any():
        bare = {name: plate.astype(np.float32) / 255 for name, plate in plates.items()}
        splats = in_colours(splats, ordered, bare, found)
        first = found.T_world_object[int(np.argmin(found.lost))]
        by_looks = track(Tracker(splats, how), ordered, bare, first, progress=progress)
        found = by_looks if by_looks.lost.mean() <= found.lost.mean() else found
    return FoundMotion(thing.name, episode, found, own, plates, splats, masks.notes)


def splats_over(thing: FoundObject, clips: Mapping[str, Clip]) -> Splats:
    """Splats over its surface, as far apart as it is long, for cameras as far away as these."""
    size = float(np.ptp(thing.mesh.vertices, axis=0).max())
    pixels = [
        float(np.linalg.norm(clip.T_world_camera[0][:3, 3] - thing.T_world_object[:3, 3])) / clip.intrinsics.fx
        for clip in clips.values()
    ]
    return surface_splats(thing.mesh, size / SPACING, float(np.median(pixels)))


def _plate(clip: Clip, mask: np.ndarray) -> np.ndarray:
    """What the camera sees where neither the object nor the robot is; what they never leave is made up."""
    from scipy.ndimage import binary_dilation

    hidden = mask if clip.robot is None else mask | clip.robot
    grown = binary_dilation(hidden, np.ones((1, 2 * GROW_PX + 1, 2 * GROW_PX + 1), bool))
    return np.asarray(inpainted(plate_over_time(clip.rgb, grown)).rgb)


def in_colours(splats: Splats, clips: tuple[Clip, ...], plates: Mapping[str, np.ndarray], found: Track) -> Splats:
    """The splats in the colours that the pictures show at the poses found so far."""
    _, groups = times_of(clips)
    good = np.flatnonzero(~found.lost)
    some = good[:: max(1, len(good) // LEARN)]
    sights = [(sight_of(clips[c], k, plates).exposed(), i) for i in some for c, k in groups[i]]
    poses = [found.T_world_object[i] for _, i in sights]
    return replace(learnt(splats, [sight for sight, _ in sights], poses), groups=("object",))
