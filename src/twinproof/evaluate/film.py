"""Pictures of trials, written to video while they run: what a policy was shown, and what the cameras saw between.

trial ─ pictures as they come ─> at most WAITING in memory ─> a thread that encodes without loss ─> one video a channel
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import BoundedSemaphore

import numpy as np

from twinproof.nouns.episode import Episode
from twinproof.nouns.video import Video
from twinproof.nouns.video_write import PictureFile
from twinproof.tasks.eyes import PREFIX

WAITING = 32  # pictures in memory, at most, that are not encoded yet


def camera_of(channel: str) -> str:
    """What a channel's pictures are called in a recording: 'image.front' is 'front'."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", channel.removeprefix(PREFIX))


class Filming:
    """Encodes the pictures of any number of trials in one thread, below a folder that is its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._begun = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="film")
        self._room = BoundedSemaphore(WAITING)
        self._open: list[Film] = []

    def film(self) -> Film:
        """A new trial's."""
        self._begun += 1
        begun = Film(self, self.folder / str(self._begun))
        self._open.append(begun)
        return begun

    def write(self, file: PictureFile, time_s: float, picture: np.ndarray) -> Future[None]:
        """Hands a picture to the thread; waits where too many do."""
        self._room.acquire()
        return self._thread.submit(self._write, file, time_s, picture)

    def _write(self, file: PictureFile, time_s: float, picture: np.ndarray) -> None:
        try:
            file.add(time_s, picture)
        finally:
            self._room.release()

    def whole(self, film: Film, files: Mapping[str, PictureFile]) -> dict[str, Video]:
        """The videos of a trial that is over."""
        self._open.remove(film)
        ended = {name: self._thread.submit(file.finished) for name, file in files.items()}
        return {name: video.result() for name, video in ended.items()}

    def close(self) -> None:
        """Ends what is still open; its videos are not whole."""
        self._thread.shutdown(cancel_futures=True)
        for film in self._open:
            film.drop()


class Film:
    """The pictures of one trial, on its clock. A problem of the thread is raised at the next picture, or at the end."""

    def __init__(self, filming: Filming, folder: Path) -> None:
        self._filming, self._folder = filming, folder
        self._files: dict[str, PictureFile] = {}
        self._under_way: list[Future[None]] = []

    def add(self, camera: str, time_s: float, picture: np.ndarray) -> None:
        """One picture of a camera; times increase."""
        if camera not in self._files:
            self._files[camera] = PictureFile(camera, self._folder / f"{camera}.mp4")
        self._heard(wait=False)
        self._under_way.append(self._filming.write(self._files[camera], time_s, np.array(picture)))

    def _heard(self, *, wait: bool) -> None:
        over = [each for each in self._under_way if wait or each.done()]
        self._under_way = [each for each in self._under_way if each not in over]
        for each in over:
            each.result()

    def end(self) -> Episode | None:
        """The videos as an episode without signals; None where nothing was shown."""
        self._heard(wait=True)
        videos = self._filming.whole(self, self._files)
        return Episode.of({}, videos) if videos else None

    def drop(self) -> None:
        """Lets go of what is not whole."""
        for file in self._files.values():
            file.close()


@contextmanager
def filming(root: Path) -> Iterator[Filming]:
    """A Filming in a folder below `root` that is gone afterwards: whoever wants a film saves it before."""
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".film-", dir=root) as folder:
        found = Filming(Path(folder))
        try:
            yield found
        finally:
            found.close()


def shown_at(video: Video, time_s: np.ndarray) -> Iterator[np.ndarray]:
    """The newest picture at each of some times that increase, one in memory at a time."""
    newest = np.searchsorted(video.time_s, time_s + 1e-9, side="right") - 1
    with video.reader() as reader:
        for index in newest.clip(0):
            yield reader.frame(int(index))
