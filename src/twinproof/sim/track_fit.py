"""How pictures pull on an object's pose: normal equations of the pixels around it, by finite differences.

predicted pixel    gain · (colour of the object · (1 + shade) + (1 - cover) · plate)      or the cover alone (masks)
columns            shift x y z (m), turn x y z (rad), and the object's scale where it is asked for
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.splats import Splats
from twinproof.sim.splat.render import Device, SplatImage, render_many
from twinproof.sim.track_pose import nudged
from twinproof.sim.track_sight import HIDES_M, Sight

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from twinproof.sim.render_camera import Camera

    Slopes = Float[np.ndarray, "pixels columns"]

ONE = Device(threads=1)


@dataclass(frozen=True)
class Pixels:
    """How pixels are compared."""

    noise: float = 0.012  # of a colour, 0 … 1: no picture is surer than this
    mask_noise: float = 0.25  # of a cover
    tail: float = 4.0  # misfits far beyond this many times the usual square count little
    shade_sd: float = 0.08  # how much lighter or darker an object looks in one picture than it was learnt
    darkest: float = 1.0  # an unseen shadow may take the plate down to this share (0.5); 1: plates stay as they are
    step_px: float = 0.3  # of the finite differences
    block_px: int = 4  # neighbours in such blocks may err together


@dataclass(frozen=True, eq=False)
class Pull:
    """One sight's normal equations: hessian · move = gradient. `score` (6 × 6) is the sum of its blocks' squares.

    `bend` is by how much the robust cost is flatter than its weights say. `cover` and `open` are pixels that the object
    fills, and those of them that can be judged; `with_` and `without` are their misfits with the object and without.
    """

    hessian: Float[np.ndarray, "P P"]
    gradient: Float[np.ndarray, "P"]
    score: Float[np.ndarray, "P P"]
    bend: float
    cost: float
    sigma: float
    pixels: int
    cover: float
    open: float
    with_: float
    without: float


@dataclass(frozen=True, eq=False)
class Followed:
    """An object to be followed: its splats in its body's frame, as one group."""

    splats: Splats
    radius_m: float

    @classmethod
    def of(cls, splats: Splats) -> Followed:
        """All groups become one."""
        one = Splats(
            splats.means, splats.quats_wxyz, splats.log_scales, splats.logit_opacities, splats.sh,
            np.zeros(len(splats), np.int32), ("object",), splats.flat,
        )  # fmt: skip
        return cls(one, float(np.sqrt(np.square(splats.means).sum(axis=1).mean())))

    def scaled(self, factor: float) -> Followed:
        """The same, larger by a factor about the body's origin."""
        grown = replace(
            self.splats, means=self.splats.means * factor, log_scales=self.splats.log_scales + np.log(factor)
        )
        return Followed(grown, self.radius_m * factor)

    def points(self, T_world_object: np.ndarray) -> Float[np.ndarray, "N 3"]:
        """Centres of the splats in the world."""
        placed: np.ndarray = self.splats.means @ T_world_object[:3, :3].T + T_world_object[:3, 3]
        return placed


def boxes(
    thing: Followed, sights: Sequence[Sight], poses: Sequence[np.ndarray], margin_px: float
) -> list[Int[np.ndarray, "4"] | None]:
    """The part of each picture around the object."""
    return [each.box_of(thing.points(T), margin_px) for each, T in zip(sights, poses, strict=True)]


def slopes(
    thing: Followed,
    sights: Sequence[Sight],
    poses: Sequence[np.ndarray],
    crops: Sequence[Int[np.ndarray, "4"] | None],
    how: Pixels,
    central: bool = True,
    scale: bool = False,
) -> list[Slopes | None]:
    """How the predicted pixels of each crop move with the pose, (pixels · channels, columns); None where none is seen.

    One-sided differences cost half, and bend the way to the optimum, not the optimum.
    """
    seen = [k for k, crop in enumerate(crops) if crop is not None]
    cameras = {k: sights[k].crop(_whole(crops[k])) for k in seen}
    steps = {k: _steps(thing, sights[k], poses[k], how) for k in seen}
    jobs, moved = [], []
    for k in seen:
        other = -np.diag(steps[k]) if central else np.zeros((1, 6))
        placed = nudged(poses[k], np.concatenate([np.diag(steps[k]), other]))
        jobs += [cameras[k]] * len(placed)
        moved += [{"object": T} for T in placed]
    images = render_many(thing.splats, jobs, ONE, moved=moved)
    each = 12 if central else 7
    found: list[Slopes | None] = [None] * len(sights)
    for i, k in enumerate(seen):
        drawn = images[i * each : (i + 1) * each]
        pairs = [(drawn[p], drawn[6 + p * central], (1 + central) * float(steps[k][p])) for p in range(6)]
        if scale:
            pairs.append(_grown(thing, cameras[k], poses[k]))
        found[k] = _columns(pairs, sights[k], _whole(crops[k]))
    return found


def pulls(
    thing: Followed,
    sights: Sequence[Sight],
    poses: Sequence[np.ndarray],
    crops: Sequence[Int[np.ndarray, "4"] | None],
    how: Pixels,
    sigmas: Sequence[float] | None = None,
    by: Sequence[Slopes | None] | None = None,
) -> list[Pull | None]:
    """Each sight's pull on the object at its pose; None where it does not see it.

    Without slopes (`by`) only costs and shares are told. `sigmas` keeps the scales of an earlier call.
    """
    seen = [k for k, crop in enumerate(crops) if crop is not None]
    deep = any(sights[k].robot_m is not None for k in seen)
    images = render_many(
        thing.splats,
        [sights[k].crop(_whole(crops[k])) for k in seen],
        ONE,
        moved=[{"object": poses[k]} for k in seen],
        what=("colour", "alpha", "depth") if deep else ("colour", "alpha"),
    )
    found: list[Pull | None] = [None] * len(sights)
    for k, image in zip(seen, images, strict=True):
        compared = _compare(sights[k], _whole(crops[k]), image, how, None if sigmas is None else sigmas[k])
        found[k] = _normal(compared, None if by is None else by[k], how)
    return found


def _whole(crop: np.ndarray | None) -> np.ndarray:
    assert crop is not None
    return crop


def _steps(thing: Followed, sight: Sight, T: np.ndarray, how: Pixels) -> Float[np.ndarray, "6"]:
    """Steps of the differences that move the object's pixels by about as much, whatever the column."""
    pose = sight.camera.T_world_camera
    depth = max(float((T[:3, 3] - pose[:3, 3]) @ pose[:3, 2]), 0.05)
    step_m = how.step_px * depth / sight.camera.lens.fx
    return np.repeat([step_m, step_m / thing.radius_m], 3)


def _grown(thing: Followed, camera: Camera, T: np.ndarray) -> tuple[SplatImage, SplatImage, float]:
    """The object a little larger and a little smaller, and by how much."""
    above, below = (
        render_many(thing.scaled(f).splats, [camera], ONE, moved=[{"object": T}])[0] for f in (1.005, 0.995)
    )
    return above, below, 0.01


def _columns(pairs: Sequence[tuple[SplatImage, SplatImage, float]], sight: Sight, box: np.ndarray) -> Slopes:
    gain = np.ones(3, np.float32) if sight.gain is None else sight.gain
    plain = None if sight.plate is None else sight.plate[_part(box)] * gain
    made = []
    for above, below, width in pairs:
        cover = (above.alpha - below.alpha)[..., None]
        change = cover if plain is None else (above.colour - below.colour) * gain - cover * plain
        made.append(change.reshape(-1) / np.float32(width))
    return np.stack(made, axis=-1)


def _part(box: np.ndarray) -> tuple[slice, slice]:
    left, top, right, bottom = (int(v) for v in box)
    return slice(top, bottom), slice(left, right)


@dataclass(frozen=True, eq=False)
class _Compared:
    """A crop with the object drawn into it."""

    rest: Float[np.ndarray, "h w channels"]  # seen minus predicted, 0 where it does not count
    own: Float[np.ndarray, "h w channels"] | None  # the object's share of the prediction
    back: Float[np.ndarray, "h w channels"] | None  # unit colour of the plate where a shadow may darken it, else 0
    counts: np.ndarray
    square: Float[np.ndarray, "h w"]
    spread: float
    sigma: float
    cost: float
    told: tuple[float, float, float, float]


def _compare(sight: Sight, box: np.ndarray, base: SplatImage, how: Pixels, sigma: float | None) -> _Compared:
    part = _part(box)
    counts = ~sight.hidden[part]
    if base.depth is not None and sight.robot_m is not None:
        counts = counts | ((sight.robot_m[part] > base.depth + HIDES_M) & (base.alpha > 0.98))
    own = None
    if sight.colour is None or sight.plate is None:
        assert sight.mask is not None
        target, plain = sight.mask[part].astype(np.float32)[..., None], np.zeros(1, np.float32)
        guess, least = base.alpha[..., None], how.mask_noise
    else:
        gain = np.ones(3, np.float32) if sight.gain is None else sight.gain
        target, plain, least = sight.colour[part], sight.plate[part] * gain, how.noise
        own = base.colour * gain * counts[..., None]
        guess = base.colour * gain + (1 - base.alpha[..., None]) * plain
    rest = (target - guess) * counts[..., None]
    channels = rest.shape[-1]
    if sigma is None:
        near = counts & (base.alpha > 0.02)
        some = np.abs(rest[near] if near.sum() >= 20 else rest[counts])
        sigma = max(least, 1.4826 * float(np.median(some)) if some.size else least)
    spread = how.tail * channels * sigma * sigma
    square = np.square(rest).sum(axis=-1)
    back = None
    if own is not None and how.darkest < 1:
        rest, back = _unshadowed(rest, (1 - base.alpha[..., None]) * plain, how.darkest)
        square = np.square(rest).sum(axis=-1)
    if own is not None:  # the shade is linear: solved, not searched
        heavy = (counts / (1 + square / spread))[..., None] * own
        shade = float((heavy * rest).sum() / ((heavy * own).sum() + (sigma / how.shade_sd) ** 2))
        rest = rest - own * np.float32(shade)
        square = np.square(rest).sum(axis=-1)
    cost = float((np.log1p(square / spread) * counts).sum()) * how.tail * channels / 2
    judged = (base.alpha > 0.5) & counts
    cap = 9 * spread
    without = np.minimum(np.square(target - plain).sum(axis=-1), cap)[judged].sum()
    covered, open_ = float(base.alpha.sum()), float((base.alpha * counts).sum())
    told = (covered, open_, float(np.minimum(square, cap)[judged].sum()), float(without))
    return _Compared(rest, own, back, counts, square, spread, sigma, cost, told)


def _unshadowed(rest: np.ndarray, back: np.ndarray, darkest: float) -> tuple[np.ndarray, np.ndarray]:
    """The misfit with each pixel's plate as dark as suits it best, and the directions in which it was free to be so."""
    size = np.square(back).sum(axis=-1)
    least = (rest * back).sum(axis=-1) / np.maximum(size, 1e-6)
    free = (least < 0) & (least > darkest - 1) & (size > 1e-4)
    rest = rest - back * np.where(size > 1e-4, np.clip(least, darkest - 1, 0), 0)[..., None]
    unit = np.where(free[..., None], back / np.sqrt(np.maximum(size, 1e-6))[..., None], np.float32(0))
    return rest, unit


def _normal(seen: _Compared, J: Slopes | None, how: Pixels) -> Pull:
    pixels = int(seen.counts.sum())
    if J is None:
        empty = np.zeros((0, 0))
        return Pull(empty, np.zeros(0), empty, 1.0, seen.cost, seen.sigma, pixels, *seen.told)
    beyond = seen.square / seen.spread
    weight = seen.counts / (1 + beyond)
    channels, columns = seen.rest.shape[-1], J.shape[1]
    heavy = np.repeat(weight.reshape(-1) / seen.sigma**2, channels).astype(np.float32)
    if seen.back is not None:  # nor does what a shadow explains
        wide = J.reshape(-1, channels, columns)
        unit = seen.back.reshape(-1, channels)
        along = np.matmul(unit[:, None, :], wide)
        J = (wide - unit[:, :, None] * along).reshape(-1, columns)
    if seen.own is not None:  # what the shade explains tells nothing of the pose
        flat = seen.own.reshape(-1)
        J = J - flat[:, None] * (((flat * heavy) @ J) / (float((flat * flat) @ heavy) + how.shade_sd**-2))
    pulled = ((heavy * seen.rest.reshape(-1))[:, None] * J).reshape(*seen.rest.shape, columns).sum(axis=2)
    size = how.block_px
    padded = np.pad(pulled, ((0, -pulled.shape[0] % size), (0, -pulled.shape[1] % size), (0, 0)))
    shape = (padded.shape[0] // size, size, padded.shape[1] // size, size, columns)
    by_block = padded.reshape(shape).sum(axis=(1, 3), dtype=np.float64).reshape(-1, columns)
    hessian = (J.T @ (heavy[:, None] * J)).astype(np.float64)
    total = float(weight.sum())
    # the slope of weight · misfit, averaged over directions: where they are large the cost is flatter than its weight
    bend = float((weight - 2 * np.square(weight) * beyond / channels).sum()) / total if total > 0 else 1.0
    return Pull(
        hessian, by_block.sum(axis=0), by_block.T @ by_block, max(bend, 0.1), seen.cost, seen.sigma, pixels, *seen.told
    )
