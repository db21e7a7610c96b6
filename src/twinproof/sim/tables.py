"""The readings of windows, signal by signal, in the order of the gaps: rows of window 0, then of window 1, …

A long recording is gone through a few episodes at a time, and what grows with it lies on a shelf.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.sim.experiment import Experiment
from twinproof.sim.readings import FORCES, Reading
from twinproof.sim.shelf import forget, stacked

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from twinproof.sim.shooting import Shooting

BLOCK_S = 0.25
PIECE = 30_000  # gaps that are held at once for every column: a longer recording takes longer, not more memory


@dataclass(frozen=True, eq=False)
class Table:
    """All samples of one signal, over all windows: the sample's window, its time since the window began, its value."""

    reading: Reading  # of one episode; kind, places and entries are those of all
    window: Int[np.ndarray, "n"]
    time_s: Float[np.ndarray, "n"]
    value: Float[np.ndarray, "n D"]
    rows: Int[np.ndarray, "valid"]  # of the flat n·E gaps, those that were read
    order: Int[np.ndarray, "valid"]  # where these stand among the M

    def of(self, windows: slice, first_row: int) -> Table:
        """The samples of some windows that follow each other, numbered from zero, as are their gaps."""
        a, b = np.searchsorted(self.window, (windows.start, windows.stop)).tolist()
        width = len(self.reading.entries)
        c, d = np.searchsorted(self.rows, (a * width, b * width)).tolist()
        return Table(
            self.reading,
            self.window[a:b] - windows.start,
            self.time_s[a:b],
            self.value[a:b],
            self.rows[c:d] - a * width,
            self.order[c:d] - first_row,
        )


@dataclass(frozen=True, eq=False)
class Gaps:
    """What every gap is: its window, its entry, its time since the window began, its block; and where windows begin.

    Blocks are stretches of about BLOCK_S: within them errors may hang together.
    """

    entries: tuple[str, ...]
    units: tuple[str, ...]
    tables: tuple[Table, ...]
    window: Int[np.ndarray, "M"]
    entry: Int[np.ndarray, "M"]
    horizon: Float[np.ndarray, "M"]
    block: Int[np.ndarray, "M"]
    bounds: Int[np.ndarray, "W+1"]  # gaps of window w: bounds[w]..[w+1]

    def of(self, windows: slice, first_block: int) -> Gaps:
        """Those of some windows that follow each other, numbered from zero."""
        rows = slice(int(self.bounds[windows.start]), int(self.bounds[windows.stop]))
        return Gaps(
            self.entries,
            self.units,
            tuple(table.of(windows, rows.start) for table in self.tables),
            self.window[rows] - windows.start,
            self.entry[rows],
            self.horizon[rows],
            self.block[rows] - first_block,
            self.bounds[windows.start : windows.stop + 1] - rows.start,
        )

    def forget(self) -> None:
        """Lets go of the memory that the tables of a long recording take."""
        forget(self.window, self.entry, self.horizon, self.block)
        for table in self.tables:
            forget(table.window, table.time_s, table.value, table.rows, table.order)


def spans_of(experiments: Sequence[Experiment]) -> tuple[slice, ...]:
    """Runs of episodes with about PIECE readings each, or a single longer episode."""
    sizes = [sum(len(r.time_s) * len(r.entries) for r in each.readings) for each in experiments]
    count, until = max(1, round(sum(sizes) / PIECE)), np.cumsum(sizes)
    # as equal as can be, so that simulations made for one piece serve the next
    wanted = until[-1] * np.arange(1, count) / count
    ends = np.unique(np.r_[0, [1 + np.argmin(np.abs(until - each)) for each in wanted], len(sizes)].astype(np.int64))
    return tuple(slice(a, b) for a, b in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True))


def block_counts(shooting: Shooting) -> Int[np.ndarray, "W"]:
    """How many blocks each window has."""
    return np.asarray(np.maximum(np.round(shooting.length * shooting.step_s / BLOCK_S).astype(np.int64), 1))


def tabulate(shooting: Shooting, spans: Sequence[slice]) -> Gaps:
    """The readings of all windows, made span by span of episodes."""
    kinds: dict[tuple[str, tuple[str, ...]], Reading] = {}
    units: dict[str, str] = {}
    for each in shooting.experiments:
        for reading in each.readings:
            kinds.setdefault((reading.name, reading.entries), reading)
    for reading in kinds.values():
        for name, unit in zip(reading.entries, reading.units, strict=True):
            units.setdefault(name, unit)
    count = np.zeros(shooting.windows, dtype=np.int64)
    window, entry, horizon, block, *rest = stacked(_chunks(shooting, spans, kinds, tuple(units), count))
    tables = tuple(Table(reading, *rest[5 * k : 5 * k + 5]) for k, reading in enumerate(kinds.values()))
    return Gaps(tuple(units), tuple(units.values()), tables, window, entry, horizon, block, np.r_[0, np.cumsum(count)])


def _chunks(
    shooting: Shooting,
    spans: Sequence[slice],
    kinds: dict[tuple[str, tuple[str, ...]], Reading],
    entries: tuple[str, ...],
    count: np.ndarray,
) -> Iterator[tuple[np.ndarray, ...]]:
    """Window, entry, horizon and block of the gaps of each span, then the columns of every table; counts the gaps."""
    blocks, first_row = block_counts(shooting), 0
    first_block = np.r_[0, np.cumsum(blocks)]
    samples = np.zeros(len(kinds), dtype=np.int64)
    for span in spans:
        made, flat = [], []
        for key, reading in kinds.items():
            window, time_s, value = _samples(shooting, span, key, reading)
            width = len(reading.entries)
            read = np.isfinite(value).all(axis=1)[:, None] if reading.kind == "pose" else np.isfinite(value)
            rows = np.flatnonzero(np.broadcast_to(read, (len(value), width)).reshape(-1))
            number = np.array([entries.index(entry) for entry in reading.entries])
            flat.append((window[rows // width], number[rows % width], time_s[rows // width]))
            made.append((window, time_s, value, rows))
        windows, numbers, horizon = (np.concatenate(part) for part in zip(*flat, strict=True))
        order = np.argsort(windows, kind="stable")
        place = np.empty(len(order), dtype=np.int64)
        place[order] = first_row + np.arange(len(order))
        windows, numbers, horizon = windows[order], numbers[order], horizon[order]
        share = horizon / (shooting.length * shooting.step_s)[windows]
        within = np.minimum((share * blocks[windows]).astype(np.int64), blocks[windows] - 1)
        columns = list[np.ndarray]()
        cuts = np.cumsum([0] + [len(each[-1]) for each in made])
        for k, (window, time_s, value, rows) in enumerate(made):
            shifted = rows + samples[k] * len(tuple(kinds.values())[k].entries)
            columns += [window, time_s, value, shifted, place[cuts[k] : cuts[k + 1]]]
            samples[k] += len(window)
        count += np.bincount(windows, minlength=len(count))
        first_row += len(windows)
        yield (windows, numbers, horizon, first_block[windows] + within, *columns)


def _samples(
    shooting: Shooting, span: slice, key: tuple[str, tuple[str, ...]], like: Reading
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Window, time since it began, and value of one signal's samples in some episodes."""
    windows, times, values = [], [], []
    for e in range(span.start, span.stop):
        for reading in shooting.experiments[e].readings:
            if (reading.name, reading.entries) != key:
                continue
            mine = np.flatnonzero(shooting.episode == e)
            begins = shooting.begin_s[mine]
            ends = begins + shooting.length[mine] * shooting.step_s
            k = np.searchsorted(begins, reading.time_s + 1e-9, side="right") - 1
            since = reading.time_s - begins[np.maximum(k, 0)]
            # What derives from forces is known from the first control on, not at the start itself.
            late = shooting.substeps * shooting.step_s + shooting.step_s if reading.kind in FORCES else 0.0
            kept = (k >= 0) & (reading.time_s <= ends[np.maximum(k, 0)] + 1e-9) & (since >= late - 1e-9)
            windows.append(mine[k[kept]])
            times.append(since[kept])
            values.append(reading.value[kept])
    if not windows:
        return np.empty(0, dtype=np.int64), np.empty(0), np.empty((0, like.value.shape[1]))
    return np.concatenate(windows), np.concatenate(times), np.concatenate(values)
