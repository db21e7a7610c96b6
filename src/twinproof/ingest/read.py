"""`twinproof ingest`: looks at a source, reads it under a rig, writes a Recording."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from twinproof.ingest.archive import is_archive, unpack
from twinproof.ingest.assemble import Tolerances, assemble
from twinproof.ingest.bag_read import BagReader, is_bag
from twinproof.ingest.bag_read import sidecar_rig as bag_rig
from twinproof.ingest.folder_read import FolderReader, is_folder
from twinproof.ingest.lerobot_read import LeRobotReader, is_lerobot
from twinproof.ingest.lerobot_read import sidecar_rig as lerobot_rig
from twinproof.ingest.posed_read import PosedReader, is_posed
from twinproof.ingest.raw import Probe, RawEpisode, Reader
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import RecordingError, RigError, StoreError
from twinproof.nouns.files import remove_tree
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.recording import Recording, stream_recording
from twinproof.nouns.rig import Intrinsics, Rig, selects


def open_source(source: Path) -> Reader:
    """The reader for a source, chosen by looking at it."""
    if not source.exists():
        raise RecordingError(f"{source} does not exist. Check the path.")
    _refuse_recording(source)
    if is_lerobot(source):
        return LeRobotReader(source)
    if is_posed(source):
        return PosedReader(source)
    if is_bag(source):
        return BagReader(source)
    if is_folder(source):
        return FolderReader(source)
    raise RecordingError(
        f"{source} is none of the sources that are read: a LeRobot dataset (meta/info.json), a ROS 2 bag "
        "(metadata.yaml, .mcap, .db3), posed images (transforms.json, a COLMAP model), a folder of tables, videos and "
        "pictures, or an archive of one of these."
    )


@contextmanager
def opened(source: Path, beside: Path) -> Iterator[tuple[Reader, Path]]:
    """A reader and a scratch folder beside a path; archives are unpacked there. The folder goes at the end."""
    beside = beside.absolute()
    workspace = beside.with_name(f".{beside.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        workspace.mkdir(parents=True)
    except OSError as problem:
        raise StoreError(f"cannot write beside {beside}: {problem.strerror}. Name a folder you may write to.") from None
    try:
        root = unpack(source, workspace / "archive") if is_archive(source) else source
        yield open_source(root), workspace
    finally:
        remove_tree(workspace)


def _refuse_recording(source: Path) -> None:
    if (source / "recording.json").is_file():
        raise RecordingError(f"{source} is a twinproof Recording already: inspect, split and convert take it as it is.")


def own_rig(source: Path) -> Rig:
    """The rig that a source written by twinproof carries along; any other source needs one named."""
    _refuse_recording(source)
    rig = lerobot_rig(source) if is_lerobot(source) else bag_rig(source) if is_bag(source) else None
    if rig is None:
        raise RigError(
            f"{source} does not say what its names and numbers mean. Write a first rig with "
            f"'twinproof ingest {source} --suggest-rig --out rig.toml', complete it, and pass --rig rig.toml."
        )
    return rig


def ingest(
    source: Path, rig: Rig, out: Path, accept: Tolerances | None = None, progress: Progress = quiet
) -> Recording:
    """Reads every episode of a source under a rig and writes the Recording. All episodes, or an error and nothing."""
    with opened(source, out) as (reader, workspace):
        known = Stated(rig)

        def episodes() -> Iterator[Episode]:
            for done, raw in enumerate(reader.episodes(rig), 1):
                known.see(raw)
                yield assemble(raw, rig, workspace, accept or Tolerances())
                shutil.rmtree(workspace / f"{raw.number:06d}", ignore_errors=True)  # linked into the recording by now
                progress(done, raw.name)

        return stream_recording(out, episodes(), lambda: (known.rig(), {**reader.describe(), "name": source.name}))


def probe(source: Path, beside: Path) -> Probe:
    """A first look at a source."""
    with opened(source, beside) as (reader, _):
        return reader.probe()


class Stated:
    """The rig together with the intrinsics that the source itself states, which must not change between episodes."""

    def __init__(self, rig: Rig) -> None:
        self._rig, self._seen = rig, dict[str, tuple[Intrinsics, str]]()
        self._episodes: list[tuple[int, str]] = []

    def see(self, raw: RawEpisode) -> None:
        """Notes the episode's number and name, and the intrinsics of its cameras."""
        self._episodes.append((raw.number, raw.name))
        for feed in raw.feeds:
            if feed.intrinsics is None:
                continue
            first, where = self._seen.setdefault(feed.source, (feed.intrinsics, raw.name))
            if first != feed.intrinsics:
                raise RigError(
                    f"camera {feed.source!r} has other intrinsics in {raw.name!r} than in {where!r}. Ingest the two "
                    "as separate recordings, or state one set under [cameras.NAME.intrinsics]."
                )

    def rig(self) -> Rig:
        """The rig, with intrinsics that only the source knew. A label rule that matched no episode is an error."""
        for rule in self._rig.labels:
            if not any(selects(rule.episodes, number, name) for number, name in self._episodes):
                names = ", ".join(f"{number} ({name})" for number, name in self._episodes[:3])
                raise RigError(
                    f"rig: the labels for episodes {rule.episodes!r} match no episode; the source has {names}, … "
                    "Mend the rule, or remove it."
                )
        cameras = {
            name: replace(camera, intrinsics=self._seen[camera.source][0])
            if camera.intrinsics is None and not camera.intrinsics_unknown and camera.source in self._seen
            else camera
            for name, camera in self._rig.cameras.items()
        }
        return replace(self._rig, cameras=cameras)
