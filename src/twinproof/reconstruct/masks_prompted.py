"""From prompts to seeds: clicks, boxes, colour words and "the thing that moved"; other words need a segmenter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import ConfigError
from twinproof.reconstruct.masks_footage import Footage, density, linear
from twinproof.reconstruct.masks_seed import Seed, bins, grow
from twinproof.reconstruct.masks_space import nearest, pixels, rays, table_depth
from twinproof.reconstruct.prompts import Box, Click, Prompt
from twinproof.sim.grid import Plane

if TYPE_CHECKING:
    from jaxtyping import Bool

    from twinproof.reconstruct.segmenters import Segmenter

HUES = {  # word -> hue angle of Lab in degrees, half its width
    "red": (32, 16), "orange": (58, 13), "yellow": (88, 16), "green": (145, 40), "cyan": (205, 20),
    "blue": (275, 32), "purple": (318, 18), "pink": (355, 18),
}  # fmt: skip
GREYS = {"black": (0, 28), "grey": (40, 80), "gray": (40, 80), "white": (80, 101)}  # word -> L from, to
COLOURFUL, DULL = 18.0, 10.0  # chroma of what has a colour, and of what has none
MOVED = ("the thing that moved", "moved", "the thing that moves", "moving thing")
DISTINCT, CLEAR = 2.5, 0.8  # mean log odds of a region against the rest of its picture: of a click, of a box
FLAT = 0.85  # so much of a flat region looks the same to another camera at the same place of the table
ON_ROBOT = 0.8


@dataclass(frozen=True, eq=False)
class Pointing:
    """Who turns prompts into seeds: the footage, the table, a segmenter where one is given, and what moved."""

    footages: Mapping[str, Footage]
    table: Plane | None
    segmenter: Segmenter | None
    movers: tuple[Seed, ...] = ()

    def seeds(self, prompt: Prompt) -> list[Seed]:
        """A seed for every picture that the prompt names, or one that its words found."""
        places = dict[tuple[str, int], tuple[list[Click], list[Box]]]()
        for click in prompt.clicks:
            assert click.frame is not None
            places.setdefault((click.camera, click.frame), ([], []))[0].append(click)
        for box in prompt.boxes:
            assert box.frame is not None
            places.setdefault((box.camera, box.frame), ([], []))[1].append(box)
        made = [
            self._pointed(prompt, camera, frame, clicks, boxes)
            for (camera, frame), (clicks, boxes) in places.items()
            if boxes or any(click.inside for click in clicks)
        ]
        if made:
            return made
        return [self._worded(prompt)]

    def avoided(self, prompt: Prompt) -> list[np.ndarray]:
        """Colours around clicks that are not on the object."""
        found = []
        for click in prompt.clicks:
            if not click.inside:
                assert click.frame is not None
                x, y = round(click.x), round(click.y)
                rows, cols = slice(max(0, y - 2), y + 3), slice(max(0, x - 2), x + 3)
                rgb = self.footages[click.camera].clip.rgb[click.frame, rows, cols]
                whole = np.ones(rgb.shape[:2], bool)
                found.append(self.footages[click.camera].colours(click.frame, whole, rows, cols))
        return found

    def _pointed(self, prompt: Prompt, camera: str, frame: int, clicks: list[Click], boxes: list[Box]) -> Seed:
        footage = self.footages[camera]
        inside = np.array([(c.x, c.y) for c in clicks if c.inside], float).reshape(-1, 2)
        outside = np.array([(c.x, c.y) for c in clicks if not c.inside], float).reshape(-1, 2)
        box = np.array((boxes[0].x0, boxes[0].y0, boxes[0].x1, boxes[0].y1), float) if boxes else None
        if self.segmenter is not None:
            return self._asked(prompt, camera, frame, np.concatenate([inside, outside]), len(inside), box)
        region, ended = grow(footage, frame, inside, outside, box, self.table)
        where = f"picture {frame} of {camera}"
        drawn = footage.clip.robot
        if drawn is not None and len(inside) and region.any() and drawn[frame][region].mean() > ON_ROBOT:
            x, y = inside[0]
            raise ConfigError(
                f"prompts: the click for {prompt.name!r} at ({x:g}, {y:g}) in {where} is on the robot. Click a picture "
                "in which the robot is not there; if it is not there now, the robot's calibration is off."
            )
        clear = distinct(footage, frame, region)
        if box is not None and clear < CLEAR:
            raise ConfigError(
                f"prompts: the box for {prompt.name!r} in {where} holds nothing that differs from what is around it. "
                "Draw it around the object, or click on the object."
            )
        if box is None and (not ended or (clear < DISTINCT and self._flat(footage, frame, region))):
            x, y = inside[0]
            raise ConfigError(
                f"prompts: the click for {prompt.name!r} at ({x:g}, {y:g}) in {where} is on a surface that runs on, "
                "such as the bare table. Click on the object, or draw a box around it."
            )
        return Seed(camera, frame, region)

    def _asked(
        self, prompt: Prompt, camera: str, frame: int, points: np.ndarray, inside: int, box: np.ndarray | None
    ) -> Seed:
        assert self.segmenter is not None
        labels = (np.arange(len(points)) < inside).astype(np.int64)
        rgb = self.footages[camera].clip.rgb[frame]
        masks = self.segmenter.predict(rgb, points, labels, box, prompt.words)
        best = max(masks, key=lambda each: each[1], default=None)
        if best is None or not np.any(best[0]):
            raise ConfigError(
                f"prompts: the segmenter finds nothing for {prompt.name!r} in picture {frame} of {camera}. Prompt it "
                "elsewhere, or leave the segmenter out."
            )
        return Seed(camera, frame, np.asarray(best[0], bool))

    def _flat(self, footage: Footage, frame: int, region: np.ndarray) -> bool:
        """Whether every other camera sees the region's colours where the table is behind it, or none can tell."""
        if self.table is None or not region.any():
            return True
        y, x = np.nonzero(region)
        origin, along = rays(footage.clip, frame, x, y)
        depth = table_depth(self.table, origin, along)
        points = (origin + depth[:, None] * along)[np.isfinite(depth)]
        own = log_odds(footage, frame, region)
        for other in self.footages.values():
            if other is footage or not len(points):
                continue
            then = nearest(other.clip, float(footage.clip.time_s[frame]))
            at = pixels(other.clip, then, points)
            width, height = other.clip.size
            at = at[(at >= 0).all(axis=1) & (at[:, 0] < width) & (at[:, 1] < height)]
            if len(at) >= 0.5 * len(points) and (own[_shown(other, then, at)] > 0).mean() < FLAT:
                return False
        return True

    def _worded(self, prompt: Prompt) -> Seed:
        words = " ".join(prompt.words.lower().split())
        if self.segmenter is not None and self.segmenter.knows_words:
            name, footage = next(iter(self.footages.items()))
            return self._asked(prompt, name, len(footage.clip) // 2, np.zeros((0, 2)), 0, None)
        if words in MOVED:
            if not self.movers:
                raise ConfigError(
                    f"prompts: {prompt.name!r} is to be the thing that moved, but only the robot moves. Click it."
                )
            return self.movers[0]
        named = [word for word in words.split() if word in HUES or word in GREYS]
        if len(named) != 1:
            raise ConfigError(
                f"prompts: {prompt.words!r} cannot be understood without a segmenter that knows words. One colour of "
                f"{', '.join([*HUES, *GREYS])} is understood, and {MOVED[0]!r}; or click, or draw a box."
            )
        return self._coloured(prompt, named[0])

    def _coloured(self, prompt: Prompt, word: str) -> Seed:
        """The largest region of a colour that has an end, in any camera's first, middle or last picture."""
        best, size = None, 0
        for name, footage in self.footages.items():
            for frame in sorted({0, len(footage.clip) // 2, len(footage.clip) - 1}):
                seed = self._largest(name, footage, frame, word)
                if seed is not None and seed.region.sum() > size:
                    best, size = seed, int(seed.region.sum())
        if best is None:
            raise ConfigError(
                f"prompts: nothing {word} stands out in the first, middle and last pictures, for {prompt.name!r}. "
                "Click it, or draw a box."
            )
        return best

    def _largest(self, name: str, footage: Footage, frame: int, word: str) -> Seed | None:
        from scipy import ndimage

        width, height = footage.clip.size
        lab = footage.shown(frame, np.ones((height, width), bool)).reshape(height, width, 3)
        fits = is_colour(lab, word) & (footage.robot(frame, *footage.everywhere) == 0)
        parts, count = ndimage.label(ndimage.binary_opening(fits))
        sizes = np.bincount(parts.ravel(), minlength=count + 1)[1:]
        for part in np.argsort(-sizes)[:4]:
            if not 25 <= sizes[part] <= 0.15 * fits.size:
                continue
            deep = ndimage.distance_transform_edt(parts == part + 1)
            y, x = np.unravel_index(int(np.argmax(deep)), deep.shape)
            region, ended = grow(footage, frame, np.array([[x, y]], float), np.zeros((0, 2)), None, self.table)
            if ended and is_colour(lab[region], word).mean() > 0.5 and distinct(footage, frame, region) > DISTINCT:
                return Seed(name, frame, region)
        return None


def is_colour(lab: np.ndarray, word: str) -> Bool[np.ndarray, "..."]:
    """Which colours (L + 16, a, b) a word names."""
    chroma = np.hypot(lab[..., 1], lab[..., 2])
    if word in GREYS:
        low, high = GREYS[word]
        plain: np.ndarray = (chroma < DULL) & (lab[..., 0] - 16 >= low) & (lab[..., 0] - 16 < high)
        return plain
    hue, width = HUES[word]
    angle = np.degrees(np.arctan2(lab[..., 2], lab[..., 1]))
    named: np.ndarray = (chroma > COLOURFUL) & (np.abs((angle - hue + 180) % 360 - 180) <= width)
    return named


def log_odds(footage: Footage, frame: int, region: np.ndarray) -> np.ndarray:
    """For every bin of colours the log odds of the region against the rest of its picture."""
    own = density(footage.shown(frame, region), shaded=True)
    odds: np.ndarray = np.log(own / density(footage.shown(frame, ~region)))
    return odds


def distinct(footage: Footage, frame: int, region: np.ndarray) -> float:
    """The mean log odds of a region's own pixels against the rest of its picture; -inf of an empty one."""
    if not region.any() or region.all():
        return -np.inf
    return float(log_odds(footage, frame, region)[bins(footage.shown(frame, region))].mean())


def _shown(footage: Footage, frame: int, at: np.ndarray) -> np.ndarray:
    """The colour bins of some pixels."""
    from twinproof.sim.mask_kernels import to_lab

    lab = to_lab(footage.clip.rgb[frame][at[:, 1], at[:, 0]], footage.gain[frame], linear())
    return bins(lab)
