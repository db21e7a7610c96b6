"""A long recording a few episodes at a time: each piece is a shooting of its own on views of the whole's tables."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from twinproof.sim.shooting import Shooting, Variant


@dataclass(frozen=True, eq=False)
class Piece:
    """Some episodes: their own shooting, and which windows, gaps, seams and blocks of the whole are theirs."""

    shooting: Shooting
    episodes: slice
    windows: slice
    rows: slice
    seams: slice
    blocks: slice

    def variants(self, whole: Sequence[Variant]) -> list[Variant]:
        """The variants with the starts of these windows alone; starts that were shared are shared again."""
        cut = {id(start): start[self.windows] for each in whole for start in (each.qpos, each.qvel)}
        return [replace(each, qpos=cut[id(each.qpos)], qvel=cut[id(each.qvel)]) for each in whole]

    def chosen(self, windows: np.ndarray | None) -> np.ndarray | None:
        """Which of some windows of the whole are of this piece, by its own numbers."""
        if windows is None:
            return None
        mine = (windows >= self.windows.start) & (windows < self.windows.stop)
        return np.asarray(windows[mine] - self.windows.start)


def pieces(shooting: Shooting) -> Iterator[Piece]:
    """All pieces in order. What one of them held of the tables leaves memory with the next."""
    edge = np.searchsorted(shooting.episode, [(span.start, span.stop) for span in shooting.spans])
    block = np.r_[0, shooting.last_block + 1]
    for span, (a, b) in zip(shooting.spans, edge.tolist(), strict=True):
        windows, blocks = slice(a, b), slice(int(block[a]), int(block[b]))
        seams = slice(*np.searchsorted(shooting.seams, (a, b)).tolist())
        rows = slice(int(shooting.bounds[a]), int(shooting.bounds[b]))
        whole = len(shooting.spans) == 1
        yield Piece(
            shooting if whole else _part(shooting, span, windows, seams, blocks), span, windows, rows, seams, blocks
        )
        if not whole:
            shooting.gaps.forget()


def _part(shooting: Shooting, episodes: slice, windows: slice, seams: slice, blocks: slice) -> Shooting:
    """Some episodes alone. What was learnt from all of them (noise, contact, usual acceleration) holds for each."""
    qpos, qvel = shooting.starts
    _ = shooting.touches, shooting.usual_acceleration, shooting.noise  # a copy has them then
    part = copy.copy(shooting)
    part.experiments, part.horizon_s = shooting.experiments[episodes], shooting.horizon_s[episodes]
    part.episode = shooting.episode[windows] - episodes.start
    part.first, part.length = shooting.first[windows], shooting.length[windows]
    part.begin_s, part.group = shooting.begin_s[windows], shooting.group[windows]
    part.seams = shooting.seams[seams] - windows.start
    part.blocks, part.last_block = blocks.stop - blocks.start, shooting.last_block[windows] - blocks.start
    part.block_episode = shooting.block_episode[blocks] - episodes.start
    part.starts, part.acceleration = (qpos[windows], qvel[windows]), shooting.acceleration[windows]
    part.adopt((slice(0, len(part.experiments)),), shooting.gaps.of(windows, blocks.start))
    return part
