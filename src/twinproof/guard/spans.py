"""Contiguous spans: one long episode becomes three, with time left out between them.

|  calibration  | gap |  validation  | gap |  holdout  |      each with its own files, stamps and id
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import SplitError
from twinproof.nouns.signal import Signal
from twinproof.nouns.split import PARTS, Span
from twinproof.nouns.video import Video
from twinproof.nouns.video_write import Packets, cut_video, index_packets, is_clean

SNAP_S = 2.0  # pictures that a span may lose at an end, so that its packets can be copied


def cut_episodes(
    episodes: Iterable[Episode], sizes: tuple[float, float, float], gap_s: float, workspace: Path
) -> list[tuple[Span, Episode]]:
    """Three spans of every episode, in order. Pictures are cut into files of their own below `workspace`."""
    made = []
    for episode in episodes:
        for part, (start_ns, end_ns) in zip(PARTS, _borders(episode, sizes, gap_s), strict=True):
            piece = _cut(episode, start_ns, end_ns, workspace / f"{episode.id}_{part}", part)
            made.append((Span(piece.id, episode.id, part, start_ns / 1e9, end_ns / 1e9), piece))
    return made


def _borders(episode: Episode, sizes: tuple[float, float, float], gap_s: float) -> list[tuple[int, int]]:
    """[start, end) of the three spans in whole nanoseconds on the episode's clock."""
    first, last = episode.span_s
    usable = last - first - 2 * gap_s
    if usable <= 0:
        raise SplitError(
            f"{episode.source or episode.id} lasts {last - first:.3g} s, too short for three spans with two gaps of "
            f"{gap_s:g} s. Use a shorter --gap-s, or record longer."
        )
    borders, start = [], first
    for k, size in enumerate(sizes):
        end = start + size * usable
        borders.append((round(start * 1e9), round(end * 1e9) if k < 2 else round(last * 1e9) + 1))
        start = end + gap_s
    return borders


def _cut(episode: Episode, start_ns: int, end_ns: int, workspace: Path, part: str) -> Episode:
    notes = [*episode.notes, f"span of {episode.id}, {start_ns / 1e9:.3f}–{end_ns / 1e9:.3f} s"]
    signals: dict[str, Signal] = {}
    for name, signal in episode.signals.items():
        keep = _inside(signal.time_s, start_ns, end_ns)
        if keep.stop > keep.start:
            signals[name] = _cut_signal(signal, keep, start_ns)
        else:
            notes.append(f"signal {name!r} has no sample in this span")
    videos: dict[str, Video] = {}
    for name, video in episode.videos.items():
        keep = _inside(video.time_s, start_ns, end_ns)
        if keep.stop > keep.start:
            packets = index_packets(video.path, video.camera)
            snapped = _snapped(packets, video, keep)
            if left := (keep.stop - keep.start) - (snapped.stop - snapped.start):
                notes.append(f"camera {name!r}: {left} frames at the ends were left out to cut between key frames")
            videos[name] = _cut_video(packets, video, snapped, start_ns, workspace / f"{name}.mp4")
        else:
            notes.append(f"camera {name!r} has no frame in this span")
    if not signals and not videos:
        raise SplitError(
            f"{episode.source or episode.id}: the {part} span, {start_ns / 1e9:.3f}–{end_ns / 1e9:.3f} s, holds no "
            "sample and no frame. Ask for other sizes, or record longer."
        )
    return Episode.of(
        signals,
        videos,
        labels=episode.labels,
        outcome=episode.outcome,
        start_ns=episode.start_ns + start_ns,
        source=f"{episode.source or episode.id} [{part}]",
        notes=tuple(notes),
    )


def _inside(time_s: np.ndarray, start_ns: int, end_ns: int) -> slice:
    stamps = np.round(time_s * 1e9).astype(np.int64)
    first, last = np.searchsorted(stamps, [start_ns, end_ns], side="left")
    return slice(int(first), int(last))


def _shifted(time_s: np.ndarray, start_ns: int) -> np.ndarray:
    """Times from the span's start. Whole nanoseconds, so start_ns + round(time · 1e9) is the very stamp it was."""
    shifted: np.ndarray = (np.round(time_s * 1e9).astype(np.int64) - start_ns) / 1e9
    return shifted


def _cut_signal(signal: Signal, keep: slice, start_ns: int) -> Signal:
    return replace(
        signal,
        time_s=_shifted(signal.time_s[keep], start_ns),
        value=signal.value[keep],
        missing=None if signal.missing is None else signal.missing[keep],
        log_time_s=None if signal.log_time_s is None else _shifted(signal.log_time_s[keep], start_ns),
    )


def _snapped(packets: Packets, video: Video, keep: slice) -> slice:
    """The span shortened by at most SNAP_S at each end, if its packets can then be copied; else the span as it is.

    A span that leans on pictures outside would have to be decoded and stored losslessly, at many times its size.
    """
    starts = [k for k in np.flatnonzero(video.key) if keep.start <= k < keep.stop]
    for first in starts[:1]:
        if video.time_s[first] - video.time_s[keep.start] > SNAP_S:
            break
        for last in range(keep.stop, int(first), -1):
            if video.time_s[keep.stop - 1] - video.time_s[last - 1] > SNAP_S:
                break
            if is_clean(packets, int(first), last - int(first)):
                return slice(int(first), last)
    return keep


def _cut_video(packets: Packets, video: Video, keep: slice, start_ns: int, target: Path) -> Video:
    times = _shifted(video.time_s[keep], start_ns)
    cut = cut_video(packets, keep.start, keep.stop - keep.start, video.camera, times, target, video.pixels)
    if video.log_time_s is None:
        return cut
    return replace(cut, log_time_s=_shifted(video.log_time_s[keep], start_ns))
