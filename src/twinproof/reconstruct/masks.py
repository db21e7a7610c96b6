"""Masks of objects in every picture of every camera, from few prompts or none, without model weights.

prompt -> seed in one picture -> colours -> plates behind -> votes of all cameras on voxels, followed through time
       -> each picture: own evidence + what the others allow -> cut along edges -> learn again, cut again -> Masks
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.clip import Clip
from twinproof.nouns.errors import ConfigError, RecordingError
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.views import PosedView, Views
from twinproof.reconstruct.masks_checks import blurred
from twinproof.reconstruct.masks_find import find_movers
from twinproof.reconstruct.masks_footage import Footage, even_exposure
from twinproof.reconstruct.masks_prompted import MOVED, Pointing
from twinproof.reconstruct.masks_refine import Cutouts, learn_again, learn_from_seeds, refine, with_plates
from twinproof.reconstruct.masks_seed import Seed
from twinproof.reconstruct.masks_space import window
from twinproof.reconstruct.masks_standing import find_standing
from twinproof.reconstruct.masks_track import Tables, Track, follow, placed, vote
from twinproof.reconstruct.prompts import Prompts, settled
from twinproof.sim.grid import Plane

if TYPE_CHECKING:
    from jaxtyping import Bool, Float16, Int16

    from twinproof.reconstruct.segmenters import Segmenter

BACKGROUND, UNKNOWN = -1, -2
MOST = 5  # things that are looked for when nothing is asked for
STILL_M = 0.004  # an object that stays within this stands still


@dataclass(frozen=True, eq=False)
class Masks:
    """For every camera and picture the object of each pixel, and how sure that is.

    A label is an object's place in `names`; -1 is background; -2 is not known, such as what the robot hides.
    """

    names: tuple[str, ...]
    labels: Mapping[str, Int16[np.ndarray, "T H W"]]
    confidence: Mapping[str, Float16[np.ndarray, "T H W"]]  # probability of the label; 0 where it is not known
    tracks: Mapping[str, Track]
    notes: tuple[str, ...] = ()

    def of(self, name: str, camera: str) -> Bool[np.ndarray, "T H W"]:
        """Where one object is seen by one camera."""
        if name not in self.names or camera not in self.labels:
            raise ConfigError(
                f"masks: there is no {name!r} in {camera!r}. Objects: {', '.join(self.names) or 'none'}; cameras: "
                f"{', '.join(self.labels)}."
            )
        found: np.ndarray = self.labels[camera] == self.names.index(name)
        return found

    def still_spans(self, least_s: float = 0.2) -> tuple[tuple[float, float], ...]:
        """Times from and to in which no object moves, the longest first."""
        return _still_spans(tuple(self.tracks.values()), least_s)

    def views(
        self, clips: Mapping[str, Clip], span_s: tuple[float, float] | None = None, every_s: float = 0.5
    ) -> Views:
        """Posed pictures with masks of a time in which nothing moves (the longest one), for splats and meshes.

        A still camera gives its least hidden picture, one that moves gives one every `every_s`. Groups are background
        and the objects; pixels that are not known do not count.
        """
        if span_s is None:
            spans = self.still_spans()
            if not spans:
                raise RecordingError(
                    "masks: the objects never stand still, so no pictures show them at one place. Give span_s, or use "
                    "a recording in which they rest for a while."
                )
            span_s = spans[0]
        views = []
        for name, clip in clips.items():
            inside = np.flatnonzero((clip.time_s >= span_s[0]) & (clip.time_s <= span_s[1])).tolist()
            for frame in self._chosen(clip, inside, every_s):
                depth = None if clip.depth_m is None else clip.depth_m[frame]
                mask = np.maximum(self.labels[name][frame] + 1, -1)
                views.append(
                    PosedView(
                        f"{name}/{frame:06d}", clip.rgb[frame], clip.intrinsics, clip.T_world_camera[frame], depth, mask
                    )
                )
        note = f"objects stand still from {span_s[0]:.2f} to {span_s[1]:.2f} s"
        return Views(tuple(views), groups=("background", *self.names), notes=(note,))

    def _chosen(self, clip: Clip, inside: list[int], every_s: float) -> list[int]:
        if not inside:
            return []
        if clip.still:
            shown = [int((self.labels[clip.camera][frame] >= 0).sum()) for frame in inside]
            return [inside[int(np.argmax(shown))]]
        chosen, next_s = list[int](), -np.inf
        for frame in inside:
            if clip.time_s[frame] >= next_s - 1e-9:
                chosen.append(frame)
                next_s = clip.time_s[frame] + every_s
        return chosen


@dataclass(frozen=True, eq=False)
class _Object:
    """An object under way; `plated` is the footage with the plates behind it alone."""

    name: str
    seeds: list[Seed]
    avoid: list[np.ndarray]
    track: Track
    tables: Tables
    plated: Mapping[str, Footage]


def segment(
    clips: Mapping[str, Clip],
    prompts: Prompts | None = None,
    table: Plane | None = None,
    segmenter: Segmenter | None = None,
    robot_tolerance_px: int = 2,
    progress: Progress = quiet,
) -> Masks:
    """The masks of the prompted objects in all pictures; without prompts, of what moves or stands on the table.

    `robot_tolerance_px` is how far the drawn robot may be off. A segmenter, where given, turns prompts into first
    regions; all else is the same.
    """
    notes = _check(clips)
    footages: Mapping[str, Footage] = {
        name: Footage(clip, even_exposure(clip), robot_tolerance_px, table=table) for name, clip in clips.items()
    }
    asked = settled(prompts or Prompts(), clips)
    if asked.objects:
        objects = _prompted(footages, asked, table, segmenter)
    else:
        objects = _unprompted(footages, table)
        notes.append(f"nothing was asked for: {len(objects)} things that move or stand on the table were found")
    tables = [o.tables for o in objects]
    plated = objects[0].plated if len(objects) == 1 else with_plates(footages, tables, [])
    total = [refine(plated, o.tables, o.track, table, progress, o.name) for o in objects]
    tables = [learn_again(plated, o.tables, found, o.avoid) for o, found in zip(objects, total, strict=True)]
    plated = with_plates(footages, tables, total)
    total = [refine(plated, t, o.track, table, progress, o.name) for t, o in zip(tables, objects, strict=True)]
    labels, confidence = _composed(clips, total)
    notes += [_unseen(o) for o in objects if not o.track.seen.all()]
    return Masks(tuple(o.name for o in objects), labels, confidence, {o.name: o.track for o in objects}, tuple(notes))


def _check(clips: Mapping[str, Clip]) -> list[str]:
    """What a reader should know of the clips; an error where they cannot be used."""
    if not clips:
        raise ConfigError("masks: there are no clips. Give at least one camera.")
    for name, clip in clips.items():
        if name != clip.camera:
            raise ConfigError(f"masks: the clip of {clip.camera!r} is filed under {name!r}. Use the camera's name.")
    soft = blurred(clips)
    if len(soft) == len(clips):
        told = ", ".join(f"{name} (edges of {width:.0f} pixels)" for name, width in soft.items())
        raise RecordingError(
            f"masks: all pictures are blurred: {told}. Focus the cameras, expose for a shorter time, or halve the "
            "pictures."
        )
    return [f"all pictures of {name} are blurred: edges of {width:.0f} pixels" for name, width in soft.items()]


def _unseen(found: _Object) -> str:
    return f"{found.name} was seen by no camera in {int((~found.track.seen).sum())} of {len(found.track.seen)} moments"


def _prompted(
    footages: Mapping[str, Footage], prompts: Prompts, table: Plane | None, segmenter: Segmenter | None
) -> list[_Object]:
    moved = any(" ".join(p.words.lower().split()) in MOVED for p in prompts.objects)
    pointing = Pointing(footages, table, segmenter, find_movers(footages, table) if moved else ())
    seeds = [pointing.seeds(prompt) for prompt in prompts.objects]
    shown = [_shown(footages, each) for each in seeds]
    made = []
    for k, prompt in enumerate(prompts.objects):
        avoid = [colours for j, colours in enumerate(shown) if j != k] + pointing.avoided(prompt)
        made.append(_tracked(footages, prompt.name, seeds[k], avoid, table))
    return made


def _shown(footages: Mapping[str, Footage], seeds: list[Seed]) -> np.ndarray:
    """The colours of an object's seeds."""
    return np.concatenate([footages[seed.camera].shown(seed.frame, seed.region) for seed in seeds])


def _tracked(
    footages: Mapping[str, Footage], name: str, seeds: list[Seed], avoid: list[np.ndarray], table: Plane | None
) -> _Object:
    tables = learn_from_seeds(footages, seeds, avoid)
    plated = with_plates(footages, [tables], [])
    lead = max(seeds, key=lambda seed: int(seed.region.sum()))
    track = follow(plated, tables, lead, placed(plated, tables, lead, table), table)
    tables = learn_from_seeds(footages, seeds, avoid, track)
    return _Object(name, seeds, avoid, track, tables, plated)


def _unprompted(footages: Mapping[str, Footage], table: Plane | None) -> list[_Object]:
    """What moves and is not the robot, then what stands on the table; the largest first, none twice."""
    made = list[_Object]()
    for seed in find_movers(footages, table):
        _join(made, footages, seed, table, least_witnesses=1)
    plated = with_plates(footages, [o.tables for o in made], [])
    for seed in find_standing(plated, table):
        _join(made, footages, seed, table, least_witnesses=2)
    if not made:
        raise RecordingError(
            "masks: nothing moves but the robot, and nothing stands out on the table. Point at an object: --click "
            "camera,frame,x,y=name."
        )
    return made


def _join(
    made: list[_Object], footages: Mapping[str, Footage], seed: Seed, table: Plane | None, least_witnesses: int
) -> None:
    """Adds a seed's object, unless it is there already, or fewer cameras than needed see it where it is placed."""
    clip = footages[seed.camera].clip
    if len(made) == MOST or any(_explains(o.track, clip, seed) for o in made):
        return
    avoid = [_shown(footages, o.seeds) for o in made]
    found = _tracked(footages, f"object_{len(made)}", [seed], avoid, table)
    at, half = found.track.at(float(clip.time_s[seed.frame])), 1.2 * found.track.radius_m
    votes = vote(found.plated, found.tables, float(clip.time_s[seed.frame]), at, half, 16, table)
    if votes.witnesses >= least_witnesses:
        made.append(found)


def _explains(track: Track, clip: Clip, seed: Seed) -> bool:
    """Whether a seed lies where a track already has its object."""
    place = window(clip, seed.frame, track.at(float(clip.time_s[seed.frame])), 1.3 * track.radius_m)
    return place is not None and float(seed.region[place].sum()) > 0.3 * float(seed.region.sum())


def _composed(clips: Mapping[str, Clip], total: list[Cutouts]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Label and confidence planes; where two objects claim a pixel, the surer and nearer one has it."""
    labels, sure = dict[str, np.ndarray](), dict[str, np.ndarray]()
    for name, clip in clips.items():
        shape = clip.rgb.shape[:3]
        label, trust = np.full(shape, BACKGROUND, np.int16), np.full(shape, 0.99, np.float16)
        if clip.robot is not None:
            label[clip.robot], trust[clip.robot] = UNKNOWN, 0
        for frame in range(len(clip)):
            best: np.ndarray = np.full(shape[1:], -np.inf, np.float32)
            for index, cutouts in enumerate(total):
                cutout = cutouts[name].get(frame)
                if cutout is None:
                    continue
                at = (frame, cutout.rows, cutout.cols)
                free = label[at] < 0
                label[at][cutout.hidden & free], trust[at][cutout.hidden & free] = UNKNOWN, 0
                doubt = ~cutout.region & (label[at] == BACKGROUND)
                trust[at][doubt] = np.minimum(trust[at], _sigmoid(-cutout.odds))[doubt]
                wins = cutout.region & (cutout.claim > best[at[1:]])
                best[at[1:]][wins] = cutout.claim[wins]
                label[at][wins], trust[at][wins] = index, _sigmoid(cutout.odds)[wins]
        label.setflags(write=False)
        trust.setflags(write=False)
        labels[name], sure[name] = label, trust
    return labels, sure


def _sigmoid(odds: np.ndarray) -> np.ndarray:
    share: np.ndarray = (1 / (1 + np.exp(-odds))).astype(np.float16)
    return share


def _still_spans(tracks: tuple[Track, ...], least_s: float) -> tuple[tuple[float, float], ...]:
    from scipy import ndimage

    if not tracks:
        return ()
    time_s = tracks[0].time_s
    way = [np.stack([np.interp(time_s, t.time_s, t.centre[:, k]) for k in range(3)], axis=1) for t in tracks]
    calm = [np.stack([ndimage.median_filter(w[:, k], 5, mode="nearest") for k in range(3)], axis=1) for w in way]
    spans, first = [], 0
    for k in range(1, len(time_s) + 1):
        if k == len(time_s) or any(np.linalg.norm(c[k] - np.median(c[first:k], axis=0)) > STILL_M for c in calm):
            if time_s[k - 1] - time_s[first] >= least_s:
                spans.append((float(time_s[first]), float(time_s[k - 1])))
            first = k
    return tuple(sorted(spans, key=lambda span: span[0] - span[1]))
