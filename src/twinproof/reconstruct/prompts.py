"""Prompts: how a user points at objects, by clicks, boxes or words, in `prompts.toml` or on the command line.

[[objects]]
name = "mug"
words = "red"
clicks = [
  { camera = "front", frame = 0, x = 141, y = 96 },
  { camera = "front", time_s = 1.5, x = 90, y = 40, inside = false },
]
boxes = [{ camera = "left", frame = 0, x0 = 80, y0 = 60, x1 = 130, y1 = 120 }]
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from twinproof.nouns.clip import Clip
from twinproof.nouns.errors import ConfigError
from twinproof.nouns.files import SAFE_NAME
from twinproof.nouns.strict import build

FORMAT = "twinproof/prompts/1"
TAKEN = ("background", "robot", "unknown")  # names that masks have already
CLICK = re.compile(r"(?P<camera>[^,=]+),(?P<when>[0-9.]+s?),(?P<x>[0-9.]+),(?P<y>[0-9.]+)=(?P<no>!?)(?P<name>.*)")


@dataclass(frozen=True)
class Click:
    """A pixel on an object (or, with inside = false, not on it), in one picture given by its number or its time."""

    camera: str
    x: float
    y: float
    frame: int | None = None
    time_s: float | None = None
    inside: bool = True


@dataclass(frozen=True)
class Box:
    """A rectangle around an object, edges included, in one picture given by its number or its time."""

    camera: str
    x0: float
    y0: float
    x1: float
    y1: float
    frame: int | None = None
    time_s: float | None = None


@dataclass(frozen=True)
class Prompt:
    """One object: its name, and at least one click inside it, one box around it, or words for it."""

    name: str
    clicks: tuple[Click, ...] = ()
    boxes: tuple[Box, ...] = ()
    words: str = ""

    def __post_init__(self) -> None:
        if not SAFE_NAME.fullmatch(self.name) or self.name in TAKEN:
            raise ConfigError(
                f"prompts: an object cannot be called {self.name!r}. Use letters, digits, _ . and -, and none of "
                f"{', '.join(TAKEN)}."
            )
        if not (any(click.inside for click in self.clicks) or self.boxes or self.words.strip()):
            raise ConfigError(
                f"prompts: nothing says where {self.name!r} is. Add a click on it, a box around it, or words."
            )


@dataclass(frozen=True)
class Prompts:
    """All objects that are asked for. A mask's label is the place of its object in this list."""

    objects: tuple[Prompt, ...] = ()
    format: str = FORMAT

    def __post_init__(self) -> None:
        if self.format != FORMAT:
            raise ConfigError(f"prompts: format is {self.format!r}; this version reads {FORMAT!r}.")
        names = [prompt.name for prompt in self.objects]
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ConfigError(f"prompts: two objects are called {twice!r}. Put their clicks under one, or rename one.")

    @property
    def names(self) -> tuple[str, ...]:
        """Names in the order of the labels."""
        return tuple(prompt.name for prompt in self.objects)


def read_prompts(path: Path) -> Prompts:
    """The prompts of a TOML file, strictly."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist. Write it (docs/masks.md), or use --click.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as problem:
        raise ConfigError(f"{path} is not readable TOML ({problem}). Mend that line.") from None
    return build(Prompts, data, "prompts", ConfigError)


def read_clicks(texts: Iterable[str], onto: Prompts | None = None) -> Prompts:
    """Prompts from `camera,frame,x,y=name` texts, added to others. 1.5s for a frame is a time; !name is not on it."""
    made = {prompt.name: prompt for prompt in (onto or Prompts()).objects}
    fresh = dict[str, list[Click]]()
    for text in texts:
        found = CLICK.fullmatch(text.strip())
        if found is None:
            raise ConfigError(
                f"--click {text!r} is not camera,frame,x,y=name. Write for example front,0,141,96=mug; a frame may be "
                "a time as in 1.5s, and =!mug says that the pixel is not on the mug."
            )
        fresh.setdefault(found["name"], []).append(_click(text, found))
    for name, clicks in fresh.items():
        old = made.get(name)
        made[name] = Prompt(name, tuple(clicks)) if old is None else replace(old, clicks=(*old.clicks, *clicks))
    return Prompts(tuple(made.values()))


def _click(text: str, found: re.Match[str]) -> Click:
    when, timed = found["when"].removesuffix("s"), found["when"].endswith("s")
    try:
        x, y = float(found["x"]), float(found["y"])
        frame, time_s = (None, float(when)) if timed else (int(when), None)
    except ValueError:
        raise ConfigError(
            f"--click {text!r}: {found['when']}, {found['x']}, {found['y']} are not a frame and a pixel. A frame is a "
            "whole number, or seconds as in 1.5s."
        ) from None
    return Click(found["camera"].strip(), x, y, frame, time_s, not found["no"])


def settled(prompts: Prompts, clips: Mapping[str, Clip]) -> Prompts:
    """The same prompts with every picture given by its number, each checked to lie in the clips."""
    return replace(
        prompts,
        objects=tuple(
            replace(
                prompt,
                clicks=tuple(_placed(prompt.name, click, clips) for click in prompt.clicks),
                boxes=tuple(_framed(prompt.name, box, clips) for box in prompt.boxes),
            )
            for prompt in prompts.objects
        ),
    )


def _placed(name: str, click: Click, clips: Mapping[str, Clip]) -> Click:
    clip, frame = _clip_of(name, click, clips), _frame_of(name, click, clips)
    width, height = clip.size
    if not (-0.5 <= click.x < width - 0.5 and -0.5 <= click.y < height - 0.5):
        raise ConfigError(
            f"prompts: {name!r} is clicked at ({click.x:g}, {click.y:g}) in {click.camera}, whose pictures are {width} "
            f"× {height}. Give x from 0 to {width - 1} and y from 0 to {height - 1}."
        )
    return replace(click, frame=frame, time_s=None)


def _framed(name: str, box: Box, clips: Mapping[str, Clip]) -> Box:
    clip, frame = _clip_of(name, box, clips), _frame_of(name, box, clips)
    width, height = clip.size
    if not (box.x0 < box.x1 and box.y0 < box.y1):
        raise ConfigError(
            f"prompts: the box of {name!r} in {box.camera} runs from ({box.x0:g}, {box.y0:g}) to ({box.x1:g}, "
            f"{box.y1:g}) and holds nothing. x1 and y1 are the larger ones."
        )
    if not (box.x0 >= -0.5 and box.y0 >= -0.5 and box.x1 <= width - 0.5 and box.y1 <= height - 0.5):
        raise ConfigError(
            f"prompts: the box of {name!r} in {box.camera} leaves its pictures of {width} × {height}. Keep it inside."
        )
    return replace(box, frame=frame, time_s=None)


def _clip_of(name: str, place: Click | Box, clips: Mapping[str, Clip]) -> Clip:
    if place.camera not in clips:
        near = difflib.get_close_matches(place.camera, clips, n=1)
        cure = f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(clips)}."
        raise ConfigError(f"prompts: {name!r} is shown in the camera {place.camera!r}, which is not here. {cure}")
    return clips[place.camera]


def _frame_of(name: str, place: Click | Box, clips: Mapping[str, Clip]) -> int:
    clip = clips[place.camera]
    if (place.frame is None) == (place.time_s is None):
        raise ConfigError(
            f"prompts: {name!r} in {place.camera} needs a picture's number or its time. Give one of frame and time_s."
        )
    if place.frame is not None:
        if not 0 <= place.frame < len(clip):
            raise ConfigError(
                f"prompts: {name!r} is shown in picture {place.frame} of {place.camera}, which has {len(clip)}. "
                f"Give a frame from 0 to {len(clip) - 1}."
            )
        return place.frame
    assert place.time_s is not None
    gap_s = np.abs(clip.time_s - place.time_s)
    period_s = float(np.median(np.diff(clip.time_s))) if len(clip) > 1 else np.inf
    if not gap_s.min() <= 2 * period_s:
        raise ConfigError(
            f"prompts: {name!r} is shown at {place.time_s:g} s in {place.camera}, whose nearest picture is "
            f"{gap_s.min():.2f} s away. Its pictures run from {clip.time_s[0]:.2f} to {clip.time_s[-1]:.2f} s."
        )
    return int(np.argmin(gap_s))
