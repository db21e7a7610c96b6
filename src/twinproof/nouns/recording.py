"""A recording: episodes of one rig, on disk as plain files.

recording.json                    rig, source, and the id and hash of every episode; written last
episodes/ID/episode.json          labels, outcome, notes, columns, and a hash for every file below
episodes/ID/signals.parquet       one column per number: `state/time_s`, `state/waist`, …; null where missing
episodes/ID/video/CAMERA.mp4      the pictures
episodes/ID/video/CAMERA.parquet  time_s [, log_time_s], pts, key of every frame
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from twinproof.nouns.episode import Episode
from twinproof.nouns.episode_files import read_episode, verify_episode, write_episode
from twinproof.nouns.errors import RecordingError
from twinproof.nouns.files import SAFE_NAME, new_folder, read_sealed, write_sealed
from twinproof.nouns.hashing import Json, content_hash
from twinproof.nouns.rig import Rig, rig_from
from twinproof.nouns.strict import plain

FORMAT = "twinproof/recording/1"


@dataclass(frozen=True, eq=False)
class Recording:
    """Episodes of one rig. Ids are unique; episodes of a loaded recording read their arrays when asked."""

    rig: Rig
    episodes: tuple[Episode, ...]
    source: dict[str, Json]  # kind, name, files with hashes, what was left out or recovered

    def __post_init__(self) -> None:
        if not self.episodes:
            raise RecordingError("a recording needs at least one episode; the source has none.")
        check_unique(self.episodes)

    @cached_property
    def hash(self) -> str:
        """Names the rig and every episode; the order of episodes is irrelevant."""
        return content_hash([self.rig.hash, sorted(episode.hash for episode in self.episodes)])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Recording) and self.hash == other.hash

    def __hash__(self) -> int:
        return hash(self.hash)

    def episode(self, id: str) -> Episode:
        """The episode with this id, with the only id that starts so, or with this name in the source."""
        found = [episode for episode in self.episodes if id and episode.source == id]
        found = found or [episode for episode in self.episodes if episode.id.startswith(id)]
        if len(found) != 1:
            known = ", ".join(f"{episode.id[:8]} ({episode.source})" for episode in self.episodes[:4])
            raise RecordingError(
                f"{len(found)} episodes are called {id!r} or have an id that starts so. There are {known}"
                f"{' and more: `twinproof inspect RECORDING` lists them' if len(self.episodes) > 4 else ''}."
            )
        return found[0]

    def save(self, folder: Path) -> None:
        """Writes everything below a folder that does not exist yet."""
        write_recording(folder, self.rig, self.episodes, self.source)

    @staticmethod
    def load(folder: Path) -> Recording:
        """The recording in a folder. Arrays are read, and their hashes checked, when they are first asked for."""
        head = read_sealed(folder / "recording.json", FORMAT, RecordingError)
        try:
            rig, source, entries = rig_from(head["rig"]), dict(head["source"]), list(head["episodes"])
            ids = [str(entry["id"]) for entry in entries]
        except (KeyError, TypeError) as problem:
            raise RecordingError(f"{folder}/recording.json lacks {problem}. Make the recording again.") from None
        for id in ids:
            if not SAFE_NAME.fullmatch(id):
                raise RecordingError(f"{folder}/recording.json names an episode {id!r}, which is no episode id.")
        episodes = tuple(read_episode(folder / "episodes" / id) for id in ids)
        recording = Recording(rig, episodes, source)
        if recording.hash != head.get("hash"):
            raise RecordingError(
                f"{folder}: the hash of its episodes and rig is {recording.hash[:16]}, recording.json states "
                f"{str(head.get('hash'))[:16]}. A label or the rig was changed: make the recording again."
            )
        return recording


def check_unique(episodes: Iterable[Episode]) -> None:
    """No two episodes hold the same measurements."""
    seen: dict[str, Episode] = {}
    for episode in episodes:
        if episode.id in seen:
            raise RecordingError(
                f"two episodes hold exactly the same measurements (id {episode.id}): {seen[episode.id].source!r} and "
                f"{episode.source!r}. One is a copy: remove it from the source."
            )
        seen[episode.id] = episode


def write_recording(folder: Path, rig: Rig, episodes: Iterable[Episode], source: dict[str, Json]) -> Recording:
    """Writes episodes one at a time as they come, so that a recording never has to fit into memory."""
    return stream_recording(folder, episodes, lambda: (rig, source))


def stream_recording(
    folder: Path, episodes: Iterable[Episode], finish: Callable[[], tuple[Rig, dict[str, Json]]]
) -> Recording:
    """The same for a source that only at its end knows its whole rig and what was left out."""
    written: list[tuple[str, str]] = []
    seen: dict[str, str] = {}
    with new_folder(folder) as scratch:
        for episode in episodes:
            if episode.id in seen:
                check_unique([Episode(episode.id, {}, {}, source=seen[episode.id]), episode])
            seen[episode.id] = episode.source
            write_episode(scratch / "episodes" / episode.id, episode)
            written.append((episode.id, episode.hash))
        if not written:
            raise RecordingError("a recording needs at least one episode; the source has none.")
        rig, source = finish()
        head = {
            "format": FORMAT,
            "hash": content_hash([rig.hash, sorted(hash for _, hash in written)]),
            "rig": plain(rig),
            "source": source,
            "episodes": [{"id": id, "hash": hash} for id, hash in written],
        }
        write_sealed(scratch / "recording.json", head)
    return Recording.load(folder)


def verify(folder: Path) -> None:
    """Reads every byte of a recording and raises on the first that is not what was written."""
    for episode in Recording.load(folder).episodes:
        verify_episode(folder / "episodes" / episode.id)
