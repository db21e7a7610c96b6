"""Two timelines side by side: which events belong together, which are missing, extra or late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from twinproof.evaluate.events import Happening
from twinproof.evaluate.onset import Onset
from twinproof.nouns.errors import ConfigError


@dataclass(frozen=True)
class Matching:
    """Events of one name and one owner belong together, in order, when they are at most `match_s` apart."""

    match_s: float = 2.0
    late_s: float = 0.25

    def __post_init__(self) -> None:
        if not 0 < self.late_s <= self.match_s:
            raise ConfigError(
                f"events are late from {self.late_s} s on and matched up to {self.match_s} s. Both are above zero, and "
                "the first is not the larger."
            )


@dataclass(frozen=True)
class Matched:
    """One event in both domains, or in one. Times are on the real clock; `late_s` is simulated minus real."""

    name: str
    of: str
    real_s: float | None
    sim_s: float | None
    by: str
    verdict: str  # same, late, early, missing (in the twin) or extra (in the twin)

    @property
    def late_s(self) -> float | None:
        """How much later the twin is; None where one side lacks the event."""
        return None if self.real_s is None or self.sim_s is None else self.sim_s - self.real_s

    @property
    def title(self) -> str:
        """The event in words: 'left grasp'."""
        return f"{self.of} {self.name}".strip()


def match(real: Sequence[Happening], sim: Sequence[Happening], offset_s: float, rules: Matching) -> tuple[Matched, ...]:
    """Every event of both timelines, once, in the order of time."""
    found: list[Matched] = []
    for name, of in dict.fromkeys((event.name, event.of) for event in (*real, *sim)):
        mine = [event for event in real if (event.name, event.of) == (name, of)]
        theirs = [event for event in sim if (event.name, event.of) == (name, of)]
        pairs = _in_order(
            [event.time_s for event in mine], [event.time_s + offset_s for event in theirs], rules.match_s
        )
        for i, j in pairs:
            one = None if i is None else mine[i]
            other = None if j is None else theirs[j]
            found.append(_matched(one, other, offset_s, rules))
    return tuple(sorted(found, key=lambda m: (m.real_s if m.real_s is not None else m.sim_s or 0.0, m.title)))


def _matched(one: Happening | None, other: Happening | None, offset_s: float, rules: Matching) -> Matched:
    shown = one or other
    assert shown is not None
    real_s = None if one is None else one.time_s
    sim_s = None if other is None else other.time_s + offset_s
    if real_s is None:
        verdict = "extra"
    elif sim_s is None:
        verdict = "missing"
    else:
        late = sim_s - real_s
        verdict = "same" if abs(late) <= rules.late_s else "late" if late > 0 else "early"
    by = " / ".join(dict.fromkeys(event.by for event in (one, other) if event is not None))
    return Matched(shown.name, shown.of, real_s, sim_s, by, verdict)


def _in_order(real: list[float], sim: list[float], most: float) -> list[tuple[int | None, int | None]]:
    """Pairs that do not cross, as many as can be, and among these the least late."""
    n, m = len(real), len(sim)
    best = np.zeros((n + 1, m + 1))
    for i in range(n - 1, -1, -1):
        for j in range(m - 1, -1, -1):
            apart = abs(real[i] - sim[j])
            both = best[i + 1, j + 1] + (1e3 - apart if apart <= most else -np.inf)
            best[i, j] = max(best[i + 1, j], best[i, j + 1], both)
    found: list[tuple[int | None, int | None]] = []
    i = j = 0
    while i < n or j < m:
        apart = abs(real[i] - sim[j]) if i < n and j < m else np.inf
        if apart <= most and best[i, j] == best[i + 1, j + 1] + (1e3 - apart):
            found.append((i, j))
            i, j = i + 1, j + 1
        elif j >= m or (i < n and best[i, j] == best[i + 1, j]):
            found.append((i, None))
            i += 1
        else:
            found.append((None, j))
            j += 1
    return found


def event_at(onset: Onset | None, events: Sequence[Matched], rules: Matching) -> str | None:
    """The real event nearest to where divergence starts, at most `late_s` away; otherwise the last before it.

    'the start' where none came before; None where nothing starts.
    """
    if onset is None:
        return None
    times = [(event.real_s, event.title) for event in events if event.real_s is not None]
    near = [(abs(t - onset.time_s), title) for t, title in times if abs(t - onset.time_s) <= rules.late_s]
    if near:
        return min(near)[1]
    before = [title for t, title in times if t <= onset.time_s]
    return before[-1] if before else "the start"
