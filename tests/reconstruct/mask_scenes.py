"""Small rooms with a table, a box that moves, and a stand-in for a robot, drawn by hand; what is where is known."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from twinproof.nouns.clip import Clip
from twinproof.nouns.rig import Intrinsics
from twinproof.reconstruct.masks import Masks, segment
from twinproof.reconstruct.prompts import read_clicks
from twinproof.sim.grid import Plane
from twinproof.sim.render_camera import Lens, pixel_rays

SIZE = (96, 72)
LENS = Intrinsics(90.0, 90.0, 47.5, 35.5)
RED, BLUE, GREY = (190, 40, 30), (30, 60, 170), (60, 60, 62)


def looking_at(eye: tuple[float, float, float], at: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> np.ndarray:
    """T_world_camera of a camera at `eye` with the table's z up in its pictures."""
    ahead = np.subtract(at, eye) / np.linalg.norm(np.subtract(at, eye))
    right = np.cross(ahead, (0, 0, 1))
    right /= np.linalg.norm(right)
    pose = np.eye(4)
    pose[:3, :3] = np.column_stack([right, np.cross(ahead, right), ahead])
    pose[:3, 3] = eye
    return pose


EYES = {"one": (0.55, 0.1, 0.45), "two": (-0.2, 0.55, 0.45), "three": (-0.3, -0.45, 0.5)}

Room = tuple[dict[str, Clip], dict[str, np.ndarray]]
Box = tuple[tuple[float, float, float], tuple[float, float, float], tuple[int, int, int]]  # middle, half sizes, colour


def draw(pose: np.ndarray, boxes: list[Box], rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A picture, the index of the box in each pixel (-1 for the table), and depth. Boxes are upright."""
    width, height = SIZE
    rays = pixel_rays(Lens(width, height, LENS.fx, LENS.fy, LENS.cx, LENS.cy))
    along = np.concatenate([rays, np.ones((height, width, 1))], axis=-1) @ pose[:3, :3].T
    eye = pose[:3, 3]
    depth = np.where(along[..., 2] < 0, -eye[2] / np.minimum(along[..., 2], -1e-9), 50.0)
    point = eye + depth[..., None] * along
    check = (np.floor(point[..., 0] / 0.06) + np.floor(point[..., 1] / 0.06)) % 2
    colour = np.where(check[..., None] > 0, (150, 140, 120), (120, 125, 110)).astype(float)
    colour[along[..., 2] >= 0] = (90, 95, 105)
    index = np.full((height, width), -1)
    for k, (middle, half, tint) in enumerate(boxes):
        with np.errstate(divide="ignore"):
            low, high = ((np.array(middle) + s * np.array(half) - eye) / along for s in (-1, 1))
        near, far = np.minimum(low, high), np.maximum(low, high)
        enter, leave = near.max(axis=-1), far.min(axis=-1)
        hit = (enter < leave) & (enter > 0) & (enter < depth)
        side = np.argmax(near, axis=-1)
        light = np.choose(side, [0.8, 0.65, 1.0])
        colour[hit] = (light[..., None] * np.array(tint))[hit]
        depth, index[hit] = np.where(hit, enter, depth), k
    noisy = colour + rng.normal(0, 1.5, colour.shape)
    return np.clip(noisy, 0, 255).astype(np.uint8), index, depth


def room(
    path: list[tuple[float, float]], robot: bool = True, more: list[Box] | None = None, tint: tuple[int, int, int] = RED
) -> tuple[dict[str, Clip], dict[str, np.ndarray]]:
    """Clips of three cameras on a box that follows a path on the table, and the index of the thing in each pixel.

    Index 0 is the box, 1 the robot (a dark post that goes round), 2 and more the boxes of `more`.
    """
    rng = np.random.default_rng(5)
    clips, truth = {}, {}
    times = 0.1 * np.arange(len(path))
    for name, eye in EYES.items():
        pose = looking_at(eye)
        rgb, index = [], []
        for k, (x, y) in enumerate(path):
            picture, which, _ = draw(pose, [_thing(x, y, tint), _post(k / len(path)), *(more or [])], rng)
            rgb.append(picture)
            index.append(which)
        truth[name] = np.stack(index)
        drawn = truth[name] == 1 if robot else None
        clips[name] = Clip(name, times, np.stack(rgb), LENS, np.repeat(pose[None], len(path), axis=0), drawn)
    return clips, truth


def _thing(x: float, y: float, tint: tuple[int, int, int]) -> Box:
    return (x, y, 0.025), (0.03, 0.02, 0.025), tint


def _post(share: float) -> Box:
    turn = 0.5 + 2.0 * share
    return (0.16 * float(np.cos(turn)), 0.16 * float(np.sin(turn)), 0.1), (0.012, 0.012, 0.1), GREY


def depths(clip: Clip, path: list[tuple[float, float]]) -> np.ndarray:
    """What a depth camera at a clip's place measures: noise of 2 mm, none beyond 3 m, and a hole of missing values."""
    rng = np.random.default_rng(6)
    planes = []
    for k, (x, y) in enumerate(path):
        _, _, depth = draw(clip.T_world_camera[k], [_thing(x, y, RED), _post(k / len(path))], rng)
        depth = np.where(depth < 3, depth + rng.normal(0, 0.002, depth.shape), 0)
        depth[:10, :10] = 0
        planes.append(depth)
    return np.stack(planes).astype(np.float32)


def still(count: int) -> list[tuple[float, float]]:
    """A path that goes nowhere."""
    return [(0.02, -0.03)] * count


def pushed(count: int) -> list[tuple[float, float]]:
    """Rest, a push of 12 cm, rest."""
    share = np.clip((np.arange(count) - count / 3) / (count / 3), 0, 1)
    return [(float(0.06 - 0.12 * s), -0.03) for s in share]


def blurred(clip: Clip, sigma: float) -> Clip:
    """The same clip out of focus."""
    from scipy import ndimage

    return replace(clip, rgb=ndimage.gaussian_filter(clip.rgb.astype(float), (0, sigma, sigma, 0)).astype(np.uint8))


def overlap(found: np.ndarray, true: np.ndarray) -> float:
    """Intersection over union."""
    return float((found & true).sum() / max((found | true).sum(), 1))


def middle_of(mask: np.ndarray) -> tuple[int, int]:
    """x and y of the pixel deepest inside a mask."""
    from scipy import ndimage

    deep = ndimage.distance_transform_edt(mask)
    y, x = np.unravel_index(int(np.argmax(deep)), deep.shape)
    return int(x), int(y)


def worst(masks: Masks, truth: dict[str, np.ndarray], name: str, index: int, least: int = 40) -> float:
    """The median over pictures of the camera that is worst."""
    medians = []
    for camera, true in truth.items():
        found = masks.of(name, camera)
        scores = [overlap(found[k], true[k] == index) for k in range(len(true)) if (true[k] == index).sum() >= least]
        medians.append(np.median(scores))
    return float(min(medians))


@cache
def push() -> Room:
    """A red box that is pushed."""
    return room(pushed(9))


@cache
def clicked() -> Masks:
    """Its masks from one click."""
    clips, truth = push()
    x, y = middle_of(truth["one"][0] == 0)
    return segment(clips, read_clicks([f"one,0,{x},{y}=box"]), Plane())


def orbit(count: int) -> tuple[Clip, np.ndarray]:
    """A camera that is carried half round a still box, and the index of the thing in each pixel."""
    rng = np.random.default_rng(7)
    poses, rgb, index = [], [], []
    for turn in np.linspace(0, np.pi, count):
        poses.append(looking_at((0.5 * float(np.cos(turn)), 0.5 * float(np.sin(turn)), 0.4)))
        picture, which, _ = draw(poses[-1], [_thing(0.02, -0.03, RED)], rng)
        rgb.append(picture)
        index.append(which)
    return Clip("hand", 0.1 * np.arange(count), np.stack(rgb), LENS, np.stack(poses)), np.stack(index)
