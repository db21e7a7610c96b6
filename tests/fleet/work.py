"""Pieces of work that tests spread: module-level, as workers import them by name."""

import json
import os
import signal
import time
from pathlib import Path

from twinproof.nouns.errors import SimError
from twinproof.nouns.randomness import stream


def draw(folder: Path, seed: int, count: int) -> None:
    """A few numbers of a named stream."""
    (folder / "numbers.json").write_text(json.dumps(stream(seed, "fleet").normal(size=count).tolist()))


def fail_at_three(folder: Path, k: int) -> None:
    """Writes its number, or an error of ours at three."""
    if k == 3:
        raise SimError("three is too many.")
    (folder / "deep").mkdir()
    (folder / "deep" / "k").write_text(str(k))


def die_once(folder: Path, k: int, mark: str) -> None:
    """Kills its own process the first time that anyone comes here with k = 5."""
    if k == 5 and not Path(mark).exists():
        Path(mark).write_text("died")
        os.kill(os.getpid(), signal.SIGKILL)
    (folder / "k").write_text(str(k))


def die(folder: Path) -> None:
    """Always kills its process."""
    os.kill(os.getpid(), signal.SIGKILL)


def too_much(folder: Path) -> None:
    """More than may travel."""
    with (folder / "much").open("wb") as file:
        file.truncate(300 * 2**20)


def slow(folder: Path, k: int, seconds: float) -> None:
    """Takes its time."""
    time.sleep(seconds)
    (folder / "k").write_text(str(k))
