"""How many of the newest episodes of training succeeded."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from twinproof.nouns.hashing import Json

WINDOW = 400  # finished episodes that the shown success is taken over


@dataclass
class Tally:
    """Counts of ended episodes, an iteration at a time, and a window over the newest of them."""

    recent: deque[tuple[int, int]] = field(default_factory=deque)  # (succeeded, ended) of the newest iterations

    def close(self, ended: int, succeeded: int) -> None:
        """Adds an iteration, and forgets what is older than the window."""
        self.recent.append((succeeded, ended))
        while sum(count for _, count in self.recent) - self.recent[0][1] >= WINDOW:
            self.recent.popleft()

    @property
    def success(self) -> float | None:
        """The share of the newest episodes that succeeded; None before any ended."""
        ended = sum(count for _, count in self.recent)
        return sum(good for good, _ in self.recent) / ended if ended else None

    @property
    def episodes(self) -> int:
        """How many episodes the success is taken over."""
        return sum(count for _, count in self.recent)

    def told(self) -> list[Json]:
        """As plain data, for a checkpoint."""
        return [list(pair) for pair in self.recent]

    @staticmethod
    def of(told: Any) -> Tally:
        """From a checkpoint."""
        return Tally(deque((int(good), int(count)) for good, count in told))
