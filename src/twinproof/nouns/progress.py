"""Progress of long work: whoever works tells, whoever calls may show it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Progress(Protocol):
    """Told about every item that is done."""

    def __call__(self, done: int, name: str, total: int | None = None) -> None:
        """`done` items are finished, of `total` where that is known; the last was called `name`."""


def quiet(done: int, name: str, total: int | None = None) -> None:
    """Shows nothing."""


@contextmanager
def bar(what: str) -> Iterator[Progress]:
    """A bar on stderr with the time left; silent where stderr is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    times = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), *times)
    with Bar(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as shown:
        task = shown.add_task(what, total=None)

        def tell(done: int, name: str, total: int | None = None) -> None:
            shown.update(task, completed=done, total=total, description=f"{what}: {name}")

        yield tell
