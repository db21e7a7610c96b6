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
from twinproof.nouns.errors import RecordingError, RigError
from twinproof.nouns.files import remove_tree
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.recording import Recording, stream_recording
from twinproof.nouns.rig import Intrinsics, Rig


def open_source(source: Path) -> Reader:
    """The reader for a source, chosen by looking at it."""
    if not source.exists():
        raise RecordingError(f"{source} does not exist. Check the path.")
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
    workspace.mkdir(parents=True)
    try:
        root = unpack(source, workspace / "archive") if is_archive(source) else source
        yield open_source(root), workspace
    finally:
        remove_tree(workspace)


def own_rig(source: Path) -> Rig:
    """The rig that a source written by twinproof carries along; any other source needs one named."""
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

    def see(self, raw: RawEpisode) -> None:
        """Notes the intrinsics of an episode's cameras."""
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
        """The rig with every camera's intrinsics filled in where only the source knew them."""
        cameras = {
            name: replace(camera, intrinsics=self._seen[camera.source][0])
            if camera.intrinsics is None and not camera.intrinsics_unknown and camera.source in self._seen
            else camera
            for name, camera in self._rig.cameras.items()
        }
        return replace(self._rig, cameras=cameras)
