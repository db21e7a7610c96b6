"""Fourier series as commands: harmonics of each joint around home, faded in and out so that it begins and ends at rest.

command(t) = rest + fade(t) · Σₖ aₖ sin(2π fₖ t) + bₖ cos(2π fₖ t)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from twinproof.identify.excite_limits import MotionLimits
from twinproof.nouns.errors import ConfigError

if TYPE_CHECKING:
    from jaxtyping import Float

BAND_HZ = {"position": (0.1, 2.5), "torque": (0.2, 5.0)}
FADE_S = 0.5
SHORTEST_S = 2.0


@dataclass(frozen=True, eq=False)
class Series:
    """The space of commands: a coefficient for each harmonic, phase and joint becomes a command within the limits."""

    limits: MotionLimits
    rate_hz: float
    seconds: float
    harmonics: int = 7

    def __post_init__(self) -> None:
        if not (np.isfinite(self.rate_hz) and 5 <= self.rate_hz <= 1000):
            raise ConfigError(f"commands at {self.rate_hz:g} Hz cannot be designed. Give a rate from 5 to 1000.")
        if not SHORTEST_S <= self.seconds <= 120:
            raise ConfigError(f"an experiment of {self.seconds:g} s cannot be designed. Use {SHORTEST_S:g} to 120 s.")

    @property
    def count(self) -> int:
        """How many commands there are."""
        return round(self.seconds * self.rate_hz)

    @property
    def frequencies_hz(self) -> Float[np.ndarray, "K"]:
        """Spread evenly on a logarithmic scale; the highest has eight commands a period."""
        low, high = BAND_HZ[self.limits.kind]
        return np.geomspace(max(low, 0.5 / self.seconds), min(high, self.rate_hz / 8), self.harmonics)

    @property
    def width(self) -> int:
        """How many coefficients there are."""
        return self.harmonics * 2 * int(self.limits.moves.sum())

    @cached_property
    def fade(self) -> Float[np.ndarray, "T"]:
        """From nothing to one and back, without a jump in speed or acceleration."""
        time_s = np.arange(self.count) / self.rate_hz
        edge = np.clip(np.minimum(time_s, time_s[::-1]) / min(FADE_S, self.seconds / 4), 0, 1)
        smooth: np.ndarray = edge**3 * (10 - 15 * edge + 6 * edge**2)
        return smooth

    @cached_property
    def _basis(self) -> Float[np.ndarray, "T 2K"]:
        turn = 2 * np.pi * np.outer(np.arange(self.count) / self.rate_hz, self.frequencies_hz)
        basis: np.ndarray = np.concatenate([np.sin(turn), np.cos(turn)], axis=1) * self.fade[:, None]
        return basis

    def fitted(self, coefficients: np.ndarray) -> Float[np.ndarray, "C width"]:
        """The same candidates (C, width): where a joint's commands would leave their limits, its harmonics shrink."""
        parts, way = self._ways(coefficients)
        moving = self.limits.moves
        most = np.abs(way).max(axis=1) / self.limits.room[moving]
        if self.limits.kind == "position":
            fastest = np.abs(np.diff(way, axis=1)).max(axis=1) * self.rate_hz
            most = np.maximum(most, fastest / self.limits.speed[moving])
        found: np.ndarray = (parts / np.maximum(most, 1.0)[:, None, :]).reshape(len(parts), -1)
        return found

    def commands(self, coefficients: np.ndarray) -> Float[np.ndarray, "C T J"]:
        """The commands of candidates (C, width), inside their limits."""
        _, way = self._ways(self.fitted(coefficients))
        found = np.tile(self.limits.rest, (len(way), self.count, 1))
        found[..., self.limits.moves] += way
        return found

    def _ways(self, coefficients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients by harmonic and joint, and how far from rest they lead (C, T, moving)."""
        parts = coefficients.reshape(len(coefficients), 2 * self.harmonics, -1)
        room = self.limits.room[self.limits.moves]
        return parts, np.einsum("tk,ckj->ctj", self._basis, parts) * room

    def random(self, rng: np.random.Generator, count: int) -> Float[np.ndarray, "C width"]:
        """Candidates of all colours and strengths: how fast harmonics fall off, and how large they are, is drawn."""
        moving = int(self.limits.moves.sum())
        fall = rng.uniform(-3.0, 1.5, (count, 1, 1))  # a motor may be told much at a frequency where little moves
        size = np.exp(rng.uniform(np.log(0.05), np.log(1.0), (count, 1, moving)))
        colour = np.tile(np.arange(1, self.harmonics + 1.0), 2)[None, :, None] ** -fall
        parts = rng.normal(size=(count, 2 * self.harmonics, moving)) * colour
        parts *= size / np.sqrt(np.square(parts).sum(axis=1, keepdims=True))
        return parts.reshape(count, -1)
