"""Posed images: a COLMAP model (text or binary) or a transforms.json beside its pictures.

The pictures become one camera per set of intrinsics; where each picture was taken from becomes the signal
`CAMERA_pose` (T_world_camera as x y z qw qx qy qz, camera looking along +z, x right, y down). Pictures carry no time,
so they are stamped one second apart in the order of their names, and the episode says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from twinproof.ingest.colmap import is_colmap, read_colmap
from twinproof.ingest.picture_feed import PICTURES, PictureFeed
from twinproof.ingest.posed import Posed
from twinproof.ingest.raw import Probe, ProbedCamera, ProbedSignal, RawEpisode, RawSignal
from twinproof.ingest.transforms import is_transforms, read_transforms
from twinproof.nouns.errors import RecordingError
from twinproof.nouns.files import inside
from twinproof.nouns.hashing import Json
from twinproof.nouns.pictures import picture_head
from twinproof.nouns.rig import Rig

POSE_COLUMNS = ("x", "y", "z", "qw", "qx", "qy", "qz")
POSE_UNITS = ("m", "m", "m", "1", "1", "1", "1")


def is_posed(root: Path) -> bool:
    """Whether a folder holds a COLMAP model or a transforms.json."""
    return root.is_dir() and (is_transforms(root) or is_colmap(root))


class PosedReader:
    """Reads posed images as one episode."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._model = read_transforms(root) if is_transforms(root) else read_colmap(root)
        if not self._model.images:
            raise RecordingError(f"{root}: the model holds no posed picture. Run the reconstruction again.")

    def _files(self, camera: str) -> tuple[list[Posed], list[Path]]:
        images = sorted((i for i in self._model.images if i.camera == camera), key=lambda image: image.file)
        files = [inside(self._model.pictures, image.file, RecordingError) for image in images]
        for file in files:
            if not file.is_file():
                raise RecordingError(f"{self.root}: the picture {file} is missing. Restore it, or remove its pose.")
            if file.suffix.lower() not in PICTURES:
                raise RecordingError(f"{self.root}: {file.name} is neither JPEG nor PNG. Convert it.")
        return images, files

    def _cameras(self) -> list[str]:
        return sorted({image.camera for image in self._model.images})

    def episodes(self, rig: Rig) -> Iterator[RawEpisode]:
        """The one episode."""
        signals, feeds = [], []
        for camera in self._cameras():
            images, files = self._files(camera)
            times = np.arange(len(files), dtype=np.float64)
            pose = np.array([[*image.position, *image.quat_wxyz] for image in images])
            signals.append(
                RawSignal(f"{camera}_pose", POSE_COLUMNS, times, pose, units=POSE_UNITS, kind="pose", frame="world")
            )
            feeds.append(PictureFeed(camera, tuple(files), times, self._model.intrinsics[camera]))
        note = "pictures carry no time: stamped one second apart in the order of their names"
        yield RawEpisode(0, self.root.name, tuple(signals), tuple(feeds), notes=(note,))

    def describe(self) -> dict[str, Json]:
        """Kind, pictures and what the model held beside poses."""
        sizes = {i.file: (self._model.pictures / i.file).stat().st_size for i in self._model.images}
        return {
            "kind": self._model.kind,
            "name": self.root.name,
            "files": dict(sorted(sizes.items())),
            "left_out": [*self._model.left_out, *self._unlisted()],
        }

    def _unlisted(self) -> list[str]:
        """Pictures beside the posed ones that the model does not name."""
        named = {(self._model.pictures / image.file).resolve() for image in self._model.images}
        folders = {path.parent for path in named}
        beside = sorted(p for f in folders for p in f.iterdir() if p.suffix.lower() in PICTURES and p not in named)
        return [f"{path.name}: a picture without a pose" for path in beside]

    def probe(self) -> Probe:
        """Cameras and pose signals."""
        signals, cameras = [], []
        for camera in self._cameras():
            _, files = self._files(camera)
            head = picture_head(files[0].read_bytes(), str(files[0]))
            cameras.append(ProbedCamera(camera, head.width, head.height, self._model.intrinsics[camera]))
            signals.append(ProbedSignal(f"{camera}_pose", POSE_COLUMNS, "pose", None))
        return Probe("none", tuple(signals), tuple(cameras), (self.root.name,))
