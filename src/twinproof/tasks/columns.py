"""Named numbers of every world side by side in one array: all of them are taken on, or kept, in one go."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from twinproof.tasks.sensed import Array


class Columns:
    """Where each name's columns lie. The views that it gives are remembered, and are no state of a tick: hence slots
    (sim/replayed.py)."""

    __slots__ = ("_spans", "_views", "_whole", "width")

    def __init__(self, rows: Mapping[str, np.ndarray]) -> None:
        self._spans: dict[str, tuple[slice, tuple[int, ...]]] = {}
        self.width = 0
        for name, values in rows.items():
            count = int(np.prod(values.shape[1:]))
            self._spans[name] = (slice(self.width, self.width + count), values.shape[1:])
            self.width += count
        self._whole: Array = None
        self._views: dict[str, Array] = {}

    def joined(self, rows: Mapping[str, np.ndarray]) -> np.ndarray:
        """(K, width) of the rows (K, …) of every name."""
        return np.concatenate([np.asarray(rows[name]).reshape(len(rows[name]), -1) for name in self._spans], axis=1)

    def views(self, whole: Array) -> dict[str, Array]:
        """Name -> (N, …), looking at an array (N, width)."""
        if whole is not self._whole:
            self._whole = whole
            self._views = {name: whole[:, at].reshape(len(whole), *shape) for name, (at, shape) in self._spans.items()}
        return self._views
