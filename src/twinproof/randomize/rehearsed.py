"""What the streaming tracker gets wrong, measured in a rehearsal: pictures drawn from the randomised twin, truth known.

draw ─ cameras off, light, noise, blur ─> pictures of an object that slides over the table ─> TwinSight ─> pose
                                                                                         pose − truth ─> ranges

    told − truth = what stays through an episode (bias) + what changes from picture to picture (noise)

The robot stands still, and the object looks as the twin's splats say: what these get wrong of its looks is not in it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.randomization import Randomization, Range
from twinproof.nouns.randomness import stream
from twinproof.nouns.robot import Observation, Picture
from twinproof.nouns.source import Measured
from twinproof.nouns.theta import Theta
from twinproof.nouns.twin import Twin
from twinproof.randomize.adjust import from_thetas
from twinproof.randomize.augment_reference import augmented
from twinproof.randomize.extra import Extra
from twinproof.randomize.meaning import meaning, sentence
from twinproof.randomize.recorded import MARGIN
from twinproof.sim.parameters.base import names
from twinproof.sim.parameters.beside import free_joint
from twinproof.sim.parameters.resolve import parameter
from twinproof.sim.render_camera import Camera
from twinproof.sim.scene import Scene
from twinproof.sim.splat.render import render_many
from twinproof.sim.track_pose import move_between
from twinproof.sim.world import World
from twinproof.tasks.eyes import grouped
from twinproof.tasks.sight import TwinSight
from twinproof.tasks.task import Setup
from twinproof.tasks.viewpoints import viewpoints

if TYPE_CHECKING:
    from jaxtyping import Float

PICTURES, PERIOD_S = 20, 0.05  # of an episode
NEAR_M, FAST_M_S, FAST_RAD_S = 0.03, 0.1, 0.5  # how far off it starts, how fast it slides and turns
UNREHEARSED = "nobody measured the tracker on this twin: --rehearse N does, in the twin"
DECLARED = (
    Extra("tracker.position_bias", f"several millimetres; {UNREHEARSED}", 0.0, 0.006, point=0.0),
    Extra("tracker.rotation_bias", f"several degrees; {UNREHEARSED}", 0.0, 0.1, point=0.0),
    Extra("tracker.position_noise", f"a few millimetres; {UNREHEARSED}", 0.0, 0.003, point=0.0),
    Extra("tracker.rotation_noise", f"a few degrees; {UNREHEARSED}", 0.0, 0.05, point=0.0),
    Extra("tracker.latency", f"a picture's way and its processing; {UNREHEARSED}", 0.0, 0.1, point=0.0),
    Extra("tracker.dropout", f"a hand before the object; {UNREHEARSED}", 0.0, 0.05, point=0.0),
)


@dataclass(frozen=True, eq=False)
class Followed:
    """One rehearsed episode: what was told less the truth (shift in m, turn in rad) where something was told, which
    pictures gave nothing, and the CPU-seconds that each took."""

    off: Float[np.ndarray, "K 6"]
    lost: float
    took_s: Float[np.ndarray, "T"]

    def sizes(self) -> dict[str, float]:
        """By quantity: sds of each coordinate."""
        stays, varies = np.square(self.off.mean(axis=0)), self.off.var(axis=0)
        parts = {"position": slice(0, 3), "rotation": slice(3, 6)}
        told = {"bias": stays, "noise": varies}
        return {
            f"{part}_{kind}": float(np.sqrt(v[at].mean())) for part, at in parts.items() for kind, v in told.items()
        }


def followable(twin: Twin) -> tuple[str, ...]:
    """The objects that the streaming tracker follows: with splats, free to move, before a camera that stands still."""
    if not any(camera.mount.parent == "world" for camera in twin.cameras.values()):
        return ()
    model = Scene.of(twin).nominal()
    known = names(model, "body")
    there = [body for body in twin.bodies if body.layer == "object" and body.splats and body.name in known]
    return tuple(body.name for body in there if free_joint(model, known.index(body.name)) >= 0)


def rehearse(
    twin: Twin, ranges: Randomization, body: str, episodes: int, seed: int = 0, progress: Progress = quiet
) -> list[Followed]:
    """Episodes of an object that slides over the table, each seen as a draw of the ranges says."""
    found, stage = [], _Stage(twin, body)
    for k in range(episodes):
        progress(k, f"rehearsing how {body} is followed", episodes)
        rng = stream(seed, "randomize", "rehearse", body, str(k))
        found.append(stage.episode(ranges.draw(rng), rng, k))
    return found


class _Stage:
    """A twin and the sight that follows one of its objects."""

    def __init__(self, twin: Twin, body: str) -> None:
        self._sight, self._body = TwinSight(twin, body, ()), body
        scene = Scene.of(twin)
        self._model, self._stood, self._splats = scene.nominal(), World(scene).body_pose(body), grouped(twin)

    def episode(self, theta: Theta, rng: np.random.Generator, number: int) -> Followed:
        """One episode under a draw."""
        truth, setup = self._path(rng)
        cameras = self._cameras(theta)
        off, took, lost = list[np.ndarray](), list[float](), 0
        for k, T in enumerate(truth):
            seen = self._seen(T, cameras, theta, number * PICTURES + k, k * PERIOD_S)
            if k == 0:
                self._sight.begin(seen, setup)
            begun = time.process_time()
            self._sight.look(seen)
            took.append(time.process_time() - begun)
            last = self._sight.last
            if last is None or last.time_s < seen.stamp_s:
                lost += 1
            else:
                off.append(move_between(T, last.pose.T_world_object))
        return Followed(np.array(off).reshape(-1, 6), lost / len(truth), np.array(took))

    def _path(self, rng: np.random.Generator) -> tuple[Float[np.ndarray, "T 4 4"], Setup]:
        """It stands for a while, slides and turns, and stands again."""
        start, yaw = self._stood[:2, 3] + rng.uniform(-NEAR_M, NEAR_M, 2), rng.uniform(-0.5, 0.5)
        angle, along = rng.uniform(0, 2 * np.pi), np.clip(np.linspace(-0.5, 1.5, PICTURES), 0, 1)
        moves = along * (PICTURES / 2 * PERIOD_S)
        truth = np.tile(self._stood, (PICTURES, 1, 1))
        for T, moved in zip(truth, moves, strict=True):
            turn = yaw + moved * FAST_RAD_S
            c, s = np.cos(turn), np.sin(turn)
            T[:3, :3] = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]) @ self._stood[:3, :3]
            T[:2, 3] = start + moved * FAST_M_S * np.array([np.cos(angle), np.sin(angle)])
        return truth, Setup(at_m=(float(start[0]), float(start[1])), yaw_rad=float(yaw))

    def _cameras(self, theta: Theta) -> list[Camera]:
        """The still cameras as a draw puts them."""
        usual = self._sight.cameras
        drawn = viewpoints(self._model, tuple(usual), [theta])
        places = zip(usual.values(), drawn.T_usual_drawn[0], drawn.lens[0], strict=True)
        return [Camera(each.lens.changed(*map(float, lens)), each.T_world_camera @ T) for each, T, lens in places]

    def _seen(self, T: np.ndarray, cameras: Sequence[Camera], theta: Theta, number: int, time_s: float) -> Observation:
        moved = {self._body: T @ np.linalg.inv(self._stood)}
        images = render_many(self._splats, cameras, moved=[moved] * len(cameras))
        pictures = {}
        for k, (name, image) in enumerate(zip(self._sight.cameras, images, strict=True)):
            rgb = np.round(255 * np.clip(image.over(), 0, 1)).astype(np.uint8)
            how = from_thetas([theta], [number * len(cameras) + k], 0)
            pictures[name] = Picture(time_s, augmented(rgb[None], how)[0])
        return Observation(time_s, np.zeros(0), np.zeros(0), np.zeros(0), pictures)


def tracker_ranges(
    twin: Twin, ranges: Randomization, episodes: int, seed: int = 0, progress: Progress = quiet
) -> tuple[tuple[Range, ...], tuple[str, ...]]:
    """Ranges of the tracker's error over all objects that it follows, and sentences about it; declared where nobody
    rehearses or nothing is seen."""
    bodies = followable(twin)
    found = [each for body in bodies for each in (rehearse(twin, ranges, body, episodes, seed, progress))]
    seen = [each for each in found if len(each.off)]
    if not seen:
        why = "saw nothing of" if found else "was not rehearsed (--rehearse N) on"
        note = f"the streaming tracker {why} {', '.join(bodies)}: its error is declared, not measured"
        return tuple(entry for extra in DECLARED for entry in extra.ranges(None)), (note,)
    source = Measured(f"the streaming tracker in {len(found)} rehearsed episodes of this twin")
    note = f"off in {len(found)} rehearsed episodes of {', '.join(bodies)}, a factor {MARGIN:g} wider on both sides"
    made = []
    for quantity in seen[0].sizes():
        sizes = [each.sizes()[quantity] for each in seen]
        made.append(_range(quantity, (min(sizes) / MARGIN, max(sizes) * MARGIN, float(np.median(sizes))), source, note))
    share = [each.lost for each in found]
    if max(share) > 0:
        why = f"up to {max(share):.0%} of the pictures of a rehearsed episode gave no pose"
        made.append(_range("dropout", (0.0, min(1.0, MARGIN * max(share)), float(np.mean(share))), source, why))
    took = np.concatenate([each.took_s for each in found])
    way_s = max([entry.high for entry in ranges.ranges if entry.id == "image.latency"], default=0.0)
    why = f"a picture takes {np.median(took):.2g} CPU-s to be looked at, and up to {way_s:.2g} s to come"
    slow = float(np.percentile(took, 95))
    made.append(_range("latency", (0.0, way_s + slow, float(np.median(took))), source, why))
    said = f"the streaming tracker was rehearsed on {', '.join(bodies)}: {_told(seen)}"
    return tuple(made), (said,)


def _told(seen: Sequence[Followed]) -> str:
    mid = {name: np.median([each.sizes()[name] for each in seen]) for name in seen[0].sizes()}
    place = f"off by {1e3 * mid['position_bias']:.1f} mm and {1e3 * mid['position_noise']:.1f} mm of noise a coordinate"
    turn = f"{np.degrees(mid['rotation_bias']):.1f}° and {np.degrees(mid['rotation_noise']):.1f}° of noise an axis"
    return f"{place}, {turn}"


def _range(quantity: str, values: tuple[float, float, float], source: Measured, why: str) -> Range:
    id = f"tracker.{quantity}"
    about, info = meaning(id), parameter(id).info
    low, high, point = (min(value, info.high) for value in values)
    return Range(info, low, high, point, source, about.gap, about.approximates, about.check, sentence(why, id))
