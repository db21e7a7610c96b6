"""What a reader gives before the rig is applied: names, numbers and pictures as the source has them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

    from twinproof.nouns.hashing import Json
    from twinproof.nouns.rig import Intrinsics, Rig
    from twinproof.nouns.video import Video


@dataclass(frozen=True)
class RawSignal:
    """Samples under the source's name, in the source's units. `columns` is empty where the source names none."""

    source: str
    columns: tuple[str, ...]
    time_s: Float[np.ndarray, "T"]
    value: Float[np.ndarray, "T D"]
    missing: Bool[np.ndarray, "T D"] | None = None
    log_time_s: Float[np.ndarray, "T"] | None = None
    unit: str | None = None  # where the format fixes it (ROS: rad, m, N)
    units: tuple[str, ...] = ()  # likewise, where columns differ
    kind: str | None = None  # likewise
    frame: str = ""


class Feed(Protocol):
    """A camera's frames, not yet read. `write` stores them at a path and gives the Video, frame by frame."""

    @property
    def source(self) -> str:
        """The camera's name in the source."""
        ...

    @property
    def intrinsics(self) -> Intrinsics | None:
        """Intrinsics that the source itself states."""
        ...

    def write(self, camera: str, target: Path) -> Video:
        """Stores the frames at `target` under the rig's camera name."""
        ...


@dataclass(frozen=True)
class RawEpisode:
    """One take as the source has it. `number` and `name` are what label rules in the rig refer to."""

    number: int
    name: str
    signals: tuple[RawSignal, ...]
    feeds: tuple[Feed, ...]
    start_ns: int = 0
    labels: dict[str, str] = field(default_factory=dict)
    outcome: str = "unknown"
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProbedSignal:
    """What `--suggest-rig` can say about one signal of a source."""

    source: str
    columns: tuple[str, ...]
    kind: str
    unit: str | None
    low: tuple[float, ...] = ()  # seen in the first episode, to suggest ranges and units
    high: tuple[float, ...] = ()
    units: tuple[str, ...] = ()  # one for each column, where the format fixes them and they differ
    time: str = "header"  # "log" where the header stamps are of no use


@dataclass(frozen=True)
class ProbedCamera:
    """What `--suggest-rig` can say about one camera of a source."""

    source: str
    width: int
    height: int
    intrinsics: Intrinsics | None = None


@dataclass(frozen=True)
class Probe:
    """The first look at a source: enough to write a rig.toml that a person completes."""

    robot: str
    signals: tuple[ProbedSignal, ...]
    cameras: tuple[ProbedCamera, ...]
    episodes: tuple[str, ...]  # names, in order
    ignore: tuple[str, ...] = ()  # what a first rig leaves out


class Reader(Protocol):
    """One source format. A reader never writes to the source, and opens files lazily."""

    def probe(self) -> Probe:
        """A first look, for `--suggest-rig`."""
        ...

    def episodes(self, rig: Rig) -> Iterator[RawEpisode]:
        """The episodes, one at a time. The rig says which clock a topic uses and what may be ignored."""
        ...

    def describe(self) -> dict[str, Json]:
        """Kind, version, and name -> size of the files read, with what was recovered or left out; for recording.json.

        Complete once `episodes` is exhausted.
        """
        ...
