"""What the lab's cameras deliver: pictures with drifting exposure, noise, gaps, and a clock of their own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache

import numpy as np

from twinproof.lab import effects as fx
from twinproof.lab.hidden import HiddenCamera
from twinproof.lab.reality import Reality
from twinproof.nouns.randomness import stream
from twinproof.sim.render_camera import Lens, Named
from twinproof.sim.render_rays import Rays
from twinproof.sim.threads import threads_usable
from twinproof.sim.world import World

BAND_RAD, BANDS = 0.006, 8  # a rolling exposure is drawn in bands, one for so much motion (rad or m), at most so many
DROP, BURST_PER_S, LATE = 0.01, 0.15, 0.02
SHADING, WARMTH = 0.22, 0.05


@dataclass(frozen=True)
class Shots:
    """When a camera took its pictures: on the robot's clock, on its own, and when they arrived."""

    true_s: np.ndarray
    stamp_s: np.ndarray
    log_s: np.ndarray
    number: np.ndarray  # of the exposure; gaps are pictures that never arrived


def schedule(camera: HiddenCamera, rate_hz: float, span_s: float, rng: np.random.Generator) -> Shots:
    """Exposures of one episode: nearly even, some dropped alone or in bursts, some late."""
    count = int((span_s - camera.readout_s) * rate_hz)
    jitter = np.clip(rng.normal(0, 0.0005, count), -0.002, 0.002)
    true = np.maximum(0, (np.arange(count) + rng.uniform(0, 0.6)) / rate_hz + jitter)
    kept = rng.uniform(size=count) >= DROP
    for _ in range(rng.poisson(BURST_PER_S * span_s)):
        first = int(rng.integers(1, max(2, count - 5)))
        kept[first : first + int(rng.integers(2, 5))] = False
    kept[[0, -1]] = True
    latency = (
        0.008
        + rng.exponential(0.004, count)
        + np.where(rng.uniform(size=count) < LATE, rng.uniform(0.04, 0.12, count), 0)
    )
    number = np.flatnonzero(kept)
    stamp = true[kept] - camera.clock_offset_s
    return Shots(true[kept], stamp, in_order(stamp + latency[kept]), number)


def in_order(log_s: np.ndarray) -> np.ndarray:
    """Receive times of a channel that keeps the order of its messages: one that is late holds up those behind it."""
    ordered: np.ndarray = np.maximum.accumulate(log_s) + 1e-7 * np.arange(len(log_s))
    return ordered


class Film:
    """One camera during one episode."""

    def __init__(
        self, reality: Reality, camera: HiddenCamera, size: tuple[int, int], path: tuple[str, ...], seed: int
    ) -> None:
        self.reality, self.camera, self.size, self.path, self.seed = reality, camera, size, path, seed
        rng = stream(seed, *path, camera.name, "exposure")
        self.white = 1 + rng.normal(0, 0.015, 3)
        self.knots = _drift(rng, camera.drift)
        self._scratch = threading.local()
        self.rolling = "rolling_exposure" in reality.effects
        width, height = size
        self.shade = (
            fx.shade(np.ones((height, width, 3)), SHADING, WARMTH) if "lens_shading" in reality.effects else 1.0
        )

    def picture(self, true_s: float, number: int) -> np.ndarray:
        """The picture whose exposure began at a time on the robot's clock."""
        clean = self._rolled(true_s) if self.rolling else self._rendered(true_s, 0, self.size[1])
        light = _to_linear()[clean] * (self.white * self._gain(true_s)) * self.shade
        shown = _to_display()[np.clip(light * 4095, 0, 4095).astype(np.int32)]
        rng = stream(self.seed, *self.path, self.camera.name, f"frame{number}")
        noise = rng.standard_normal(shown.shape, dtype=np.float32) * (self.camera.noise * (0.6 + shown / 255 * 0.8))
        noisy: np.ndarray = np.clip(shown + noise + 0.5, 0, 255).astype(np.uint8)
        return noisy

    def _gain(self, time_s: float) -> float:
        return float(np.exp(np.interp(time_s, np.arange(len(self.knots)), self.knots)))

    def _rolled(self, true_s: float) -> np.ndarray:
        moved = np.abs(self._state(true_s + self.camera.readout_s) - self._state(true_s)).max()
        bands = int(np.clip(np.ceil(moved / BAND_RAD), 1, BANDS))
        edges = np.linspace(0, self.size[1], bands + 1).astype(int)
        times = true_s + fx.row_times(self.camera.readout_s, bands)
        return np.concatenate(
            [self._rendered(float(t), a, b) for t, a, b in zip(times, edges[:-1], edges[1:], strict=True)]
        )

    def _rendered(self, time_s: float, first: int, last: int) -> np.ndarray:
        """Rows first to last of the clean picture at a time."""
        state, (width, height) = self._state(time_s), self.size
        focal = height / 2 / np.tan(self.camera.fovy_true_rad / 2)
        lens = Lens(width, last - first, focal, focal, (width - 1) / 2, (height - 1) / 2 - first)
        if not hasattr(self._scratch, "world"):
            self._scratch.world = World(self.reality.world.model)
        world: World = self._scratch.world
        world.qpos[:] = state
        world.kinematics()
        drawn = Rays(threads=1).render(world.model, world.data, Named(self.camera.name, lens=lens), ["rgb"])
        assert drawn.rgb is not None
        return drawn.rgb

    def _state(self, time_s: float) -> np.ndarray:
        log = self.reality.log.qpos
        return log[min(len(log) - 1, max(0, round(time_s / self.reality.dt)))]

    def roll(self, shots: Shots) -> Iterator[np.ndarray]:
        """The pictures of all shots in order; whole pictures are drawn side by side on all cores."""
        with ThreadPoolExecutor(threads_usable()) as pool:
            yield from pool.map(self.picture, shots.true_s.tolist(), shots.number.tolist())


def _drift(rng: np.random.Generator, sd: float, seconds: int = 120, memory_s: float = 3.0) -> np.ndarray:
    """Log gain at every full second: a random walk that is drawn back to its mean."""
    keep = np.exp(-1 / memory_s)
    value, knots = rng.normal(0, sd), []
    for step in rng.normal(0, sd * np.sqrt(1 - keep**2), seconds):
        knots.append(value)
        value = keep * value + step
    return np.array(knots)


@cache
def _to_linear() -> np.ndarray:
    s = np.arange(256) / 255
    return np.where(s <= 0.04045, s / 12.92, ((s + 0.055) / 1.055) ** 2.4).astype(np.float32)


@cache
def _to_display() -> np.ndarray:
    light = np.linspace(0, 1, 4096)
    shown = np.where(light <= 0.0031308, 12.92 * light, 1.055 * np.maximum(light, 1e-9) ** (1 / 2.4) - 0.055)
    return (255 * shown).astype(np.float32)
