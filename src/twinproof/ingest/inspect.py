"""`twinproof inspect`: what is in a Recording, episode by episode; rates, gaps, jitter, ranges, dropped frames.

Everything here is computed within one episode. Nothing is pooled over episodes: a pooled number would carry the
holdout into whatever reads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import ConfigError
from twinproof.nouns.recording import Recording
from twinproof.nouns.signal import Signal
from twinproof.nouns.video import Video

GAP_STEPS = 2.5  # a step this many times the usual one is a gap
MAX_EPISODES_DRAWN = 60
COLOURS = ("#4477aa", "#ccbb44", "#228833", "#66ccee", "#aa3377", "#999933", "#332288", "#88ccaa", "#777777")
GAP_COLOUR = "#ee1111"  # no track has a red


@dataclass(frozen=True)
class Track:
    """How one signal or camera of one episode kept time, and where its values lay."""

    name: str
    kind: str
    samples: int
    rate_hz: float
    jitter_s: float  # standard deviation of the steps that are no gaps
    gaps: int
    longest_gap_s: float
    dropped: int  # samples that a steady clock would have given inside the gaps
    missing: int
    latency_s: float | None  # median of log time minus stamp
    ranges: tuple[tuple[str, float, float, str], ...]  # column, low, high, unit


def inspect_episode(episode: Episode) -> tuple[Track, ...]:
    """One Track for each signal and camera."""
    signals = [_track(signal.time_s, signal.log_time_s, signal) for signal in episode.signals.values()]
    videos = [_track(video.time_s, video.log_time_s, video) for video in episode.videos.values()]
    return (*signals, *videos)


def _track(time_s: np.ndarray, log_time_s: np.ndarray | None, of: Signal | Video) -> Track:
    step = np.diff(time_s)
    usual = float(np.median(step)) if len(step) else float("nan")
    gap = step > GAP_STEPS * usual
    steady = step[~gap]
    latency = None if log_time_s is None else float(np.median(log_time_s - time_s))
    name, kind, missing, ranges = _about(of)
    return Track(
        name,
        kind,
        len(time_s),
        1 / usual if len(step) else 0.0,
        float(steady.std()) if len(steady) else 0.0,
        int(gap.sum()),
        float(step[gap].max()) if gap.any() else 0.0,
        int(np.round(step[gap] / usual - 1).sum()) if gap.any() else 0,
        missing,
        latency,
        ranges,
    )


def _about(of: Signal | Video) -> tuple[str, str, int, tuple[tuple[str, float, float, str], ...]]:
    if isinstance(of, Video):
        return of.camera, f"{of.pixels} {of.width}×{of.height} {of.codec}", 0, ()
    missing = 0 if of.missing is None else int(of.missing.sum())
    ranges = []
    for column in of.columns:
        seen = of.column(column.name)
        seen = seen[~np.isnan(seen)]
        low, high = (float(seen.min()), float(seen.max())) if len(seen) else (float("nan"), float("nan"))
        ranges.append((column.name, low, high, column.unit))
    return of.name, of.kind, missing, tuple(ranges)


def draw_timeline(recording: Recording, path: Path) -> None:
    """One PNG: a row for every episode, a bar for every signal and camera, gaps in red."""
    if path.suffix.lower() != ".png" or not path.absolute().parent.is_dir():
        raise ConfigError(f"the timeline cannot go to {path}. Name a .png file in a folder that exists.")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    episodes = recording.episodes[:MAX_EPISODES_DRAWN]
    names = sorted({name for episode in episodes for name in (*episode.signals, *episode.videos)})
    colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(names)}
    figure = Figure(figsize=(11, max(2.6, 0.34 * len(episodes) + 1.7)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    thick = 0.8 / max(1, len(names))
    for row, episode in enumerate(episodes):
        times = {name: signal.time_s for name, signal in episode.signals.items()}
        times |= {name: video.time_s for name, video in episode.videos.items()}
        for name, time_s in times.items():
            lane = row - 0.4 + thick * names.index(name)
            bars, gaps = _bars(time_s)
            axes.broken_barh(bars, (lane, thick * 0.85), color=colours[name], linewidth=0)
            if gaps:
                axes.broken_barh(gaps, (lane, thick * 0.85), color=GAP_COLOUR, linewidth=0)
    labels = [_row_label(episode) for episode in episodes]
    axes.set_yticks(range(len(episodes)), labels, fontsize=7, family="monospace")
    axes.set_ylim(len(episodes) - 0.4, -0.6)
    axes.set_xlabel("time in the episode, s")
    shown = f"{len(episodes)} of {len(recording.episodes)} episodes" if len(episodes) < len(recording.episodes) else ""
    axes.set_title(
        f"{recording.rig.robot}: {len(recording.episodes)} episodes {shown}".strip(), loc="left", fontsize=10
    )
    axes.grid(axis="x", alpha=0.3)
    handles = [Line2D([], [], color=colours[name], linewidth=5, label=name) for name in names]
    handles.append(Line2D([], [], color=GAP_COLOUR, linewidth=5, label="gap"))
    figure.legend(handles=handles, loc="outside lower center", ncols=min(6, len(handles)), fontsize=8, frameon=False)
    figure.savefig(path, dpi=130)


def _bars(time_s: np.ndarray) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """(start, width) of the stretches with samples, and of the gaps between them."""
    step = np.diff(time_s)
    cuts = np.flatnonzero(step > GAP_STEPS * np.median(step)) if len(step) else np.array([], dtype=int)
    first = np.concatenate([[0], cuts + 1])
    last = np.concatenate([cuts, [len(time_s) - 1]])
    usual = float(np.median(step)) if len(step) else 0.01
    bars = [(float(time_s[a]), max(float(time_s[b] - time_s[a]), usual)) for a, b in zip(first, last, strict=True)]
    return bars, [(float(time_s[c]), float(step[c])) for c in cuts]


def _row_label(episode: Episode) -> str:
    about = episode.labels.get("object") or episode.labels.get("task") or episode.source
    mark = {"success": "✓", "failure": "✗"}.get(episode.outcome, " ")
    return f"{episode.id[:8]} {about[:14]:<14} {mark}"
