"""One take of a recording: signals, videos, and labels that say what was recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Generic, TypeVar

from twinproof.nouns.errors import RecordingError
from twinproof.nouns.hashing import content_hash
from twinproof.nouns.signal import Signal
from twinproof.nouns.video import Video

OUTCOMES = ("success", "failure", "unknown")
Thing = TypeVar("Thing")


class Lazy(Mapping[str, Thing], Generic[Thing]):
    """A mapping whose values are read from disk when they are first asked for, and then kept."""

    def __init__(self, names: tuple[str, ...], read: Callable[[str], Thing]) -> None:
        self._names, self._read, self._kept = names, read, dict[str, Thing]()

    def __getitem__(self, name: str) -> Thing:
        if name not in self._kept:
            if name not in self._names:
                raise KeyError(name)
            self._kept[name] = self._read(name)
        return self._kept[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def fresh(self) -> Lazy[Thing]:
        """The same mapping with nothing kept yet: a pass over many episodes then keeps one at a time in memory."""
        return Lazy(self._names, self._read)


@dataclass(frozen=True, eq=False)
class Episode:
    """Signals and videos of one take. The id comes from what was measured; labels may be mended without changing it.

    `start_ns` is the source clock at time 0, so a stamp is start_ns + round(time_s * 1e9), exactly.
    """

    id: str
    signals: Mapping[str, Signal]
    videos: Mapping[str, Video]
    labels: Mapping[str, str] = field(default_factory=dict)
    outcome: str = "unknown"
    start_ns: int = 0
    source: str = ""  # where it lay in the source, for people
    notes: tuple[str, ...] = ()  # what was salvaged, reordered or marked, in sentences

    def __post_init__(self) -> None:
        if self.outcome not in OUTCOMES:
            raise RecordingError(f"{self.source}: outcome {self.outcome!r} unknown; use one of {', '.join(OUTCOMES)}.")

    @staticmethod
    def of(
        signals: Mapping[str, Signal],
        videos: Mapping[str, Video],
        *,
        labels: Mapping[str, str] | None = None,
        outcome: str = "unknown",
        start_ns: int = 0,
        source: str = "",
        notes: tuple[str, ...] = (),
    ) -> Episode:
        """An episode whose id is the hash of its signals, videos and start."""
        if not signals and not videos:
            raise RecordingError(
                f"{source or 'an episode'} is empty: no signal and no video. Remove it from the source, or record it "
                "again."
            )
        return Episode(
            _id(signals, videos, start_ns), signals, videos, dict(labels or {}), outcome, start_ns, source, notes
        )

    @cached_property
    def hash(self) -> str:
        """Names the measured content (the id) together with labels, outcome and notes."""
        return content_hash([self.id, dict(self.labels), self.outcome, self.source, list(self.notes)])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Episode) and self.hash == other.hash

    def __hash__(self) -> int:
        return hash(self.hash)

    def fresh(self) -> Episode:
        """The same episode, with what it read so far left to the garbage collector."""
        signals = self.signals.fresh() if isinstance(self.signals, Lazy) else self.signals
        videos = self.videos.fresh() if isinstance(self.videos, Lazy) else self.videos
        return replace(self, signals=signals, videos=videos)

    @property
    def span_s(self) -> tuple[float, float]:
        """First and last time of any signal or frame."""
        times = [signal.time_s for signal in self.signals.values()] + [video.time_s for video in self.videos.values()]
        return min(float(t[0]) for t in times), max(float(t[-1]) for t in times)

    def of_kind(self, kind: str) -> tuple[Signal, ...]:
        """The signals of one kind, by name."""
        return tuple(self.signals[name] for name in sorted(self.signals) if self.signals[name].kind == kind)


def _id(signals: Mapping[str, Signal], videos: Mapping[str, Video], start_ns: int) -> str:
    content = [
        sorted((name, signal.hash) for name, signal in signals.items()),
        sorted((name, video.hash) for name, video in videos.items()),
        start_ns,
    ]
    return content_hash(content)[:20]


def recomputed_id(episode: Episode) -> str:
    """The id that an episode's content gives now; differs from `episode.id` when a file was changed."""
    return _id(episode.signals, episode.videos, episode.start_ns)
