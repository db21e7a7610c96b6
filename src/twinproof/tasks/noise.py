"""Random numbers for N worlds: each depends on its world's own key, its tick and its column, on nothing beside it."""

from __future__ import annotations

from typing import Any

import numpy as np

from twinproof.sim.channels import ODD
from twinproof.tasks.sensed import Array

ODDS = np.array(ODD)


class HostNoise:
    """Counted, not drawn: a world gives the same numbers whatever runs beside it."""

    def __init__(self, count: int, wrap: Any) -> None:
        self._key, self._tick, self._wrap = np.zeros(count, np.uint64), np.zeros(count, np.uint64), wrap

    def restart(self, mask: np.ndarray, key: np.ndarray) -> None:
        """New keys for the worlds of the mask, from their first tick on."""
        self._key[mask], self._tick[mask] = key[mask], 0

    def next(self) -> None:
        """A tick has passed everywhere."""
        self._tick += np.uint64(1)

    def uniform(self, columns: int, purpose: int) -> Array:
        """Numbers in (0, 1), (N, columns). Two purposes of one tick get different ones."""
        return self._wrap(self._uniform(columns, purpose))

    def normal(self, columns: int, purpose: int) -> Array:
        """Standard normal numbers, (N, columns)."""
        from scipy.special import ndtri

        return self._wrap(ndtri(self._uniform(columns, purpose)))

    def _uniform(self, columns: int, purpose: int) -> np.ndarray:
        from twinproof.tasks import kernels

        found: np.ndarray = kernels.uniform(self._key, self._tick, np.uint64(purpose), ODDS, columns)
        return found


class DeviceNoise:
    """The same on a GPU, where worlds share one generator: the laws are the same, the numbers are not."""

    def __init__(self, count: int, device: Any, seed: int) -> None:
        import torch

        self._count, self._device, self._torch = count, device, torch
        self.random = torch.Generator(device=device).manual_seed(seed)

    def restart(self, mask: Array, key: Array) -> None:
        """Nothing: the generator goes on."""

    def next(self) -> None:
        """Nothing: the generator goes on."""

    def uniform(self, columns: int, purpose: int) -> Array:
        """Numbers in [0, 1), (N, columns)."""
        return self._torch.rand((self._count, columns), generator=self.random, device=self._device)

    def normal(self, columns: int, purpose: int) -> Array:
        """Standard normal numbers, (N, columns)."""
        return self._torch.randn((self._count, columns), generator=self.random, device=self._device)
