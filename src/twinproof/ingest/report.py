"""What ingest and inspect print."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from twinproof.ingest.inspect import Track, inspect_episode
from twinproof.nouns.episode import Episode
from twinproof.nouns.recording import Recording


def say(text: str, *, to_stderr: bool = False) -> None:
    """One line for people."""
    (sys.stderr if to_stderr else sys.stdout).write(f"{text}\n")


def recording(made: Recording, folder: Path) -> None:
    """What `ingest` made."""
    signals = sorted({name for episode in made.episodes for name in episode.signals})
    cameras = sorted({name for episode in made.episodes for name in episode.videos})
    seconds = sum(episode.span_s[1] - episode.span_s[0] for episode in made.episodes)
    say(f"{folder}: {len(made.episodes)} episodes, {seconds:.1f} s, hash {made.hash[:16]}")
    say(f"  signals: {', '.join(signals) or 'none'}; cameras: {', '.join(cameras) or 'none'}")
    for left in made.source.get("left_out", []):
        say(f"  left out: {left}")
    for line in _notes(made.episodes):
        say(f"  {line}")


def _notes(episodes: tuple[Episode, ...]) -> list[str]:
    """Every note once, with the episodes that carry it."""
    owners: dict[str, list[str]] = {}
    for episode in episodes:
        for note in episode.notes:
            owners.setdefault(note, []).append(f"{episode.id[:8]} ({episode.source})")
    every = len(episodes)
    return [f"{_who(ids, every)}: {note}" for note, ids in owners.items()]


def _who(ids: list[str], every: int) -> str:
    if len(ids) == every and every > 1:
        return "all episodes"
    return ", ".join(ids[:3]) + (f" and {len(ids) - 3} more" if len(ids) > 3 else "")


def inspection(made: Recording, episodes: tuple[Episode, ...], *, ranges: bool, as_json: bool) -> None:
    """A table a Recording, or the ranges of every column, or JSON."""
    tracks = {episode.id: inspect_episode(episode) for episode in episodes}
    if as_json:
        say(json.dumps({"hash": made.hash, "episodes": [_plain(e, tracks[e.id]) for e in episodes]}, indent=1))
        return
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(f"{made.rig.robot}: {len(made.episodes)} episodes, recording {made.hash[:16]}", highlight=False)
    console.print(_tracks_table(episodes, tracks))
    if ranges:
        console.print(_ranges_table(tracks[episodes[0].id]))
    for line in _notes(episodes):
        console.print(Text(line))


def _plain(episode: Episode, tracks: tuple[Track, ...]) -> dict[str, object]:
    about = {"id": episode.id, "source": episode.source, "labels": dict(episode.labels), "outcome": episode.outcome}
    rows = [{**asdict(track), "ranges": [_finite(row) for row in track.ranges]} for track in tracks]
    return {**about, "span_s": episode.span_s, "notes": episode.notes, "tracks": rows}


def _finite(row: tuple[str, float, float, str]) -> tuple[str, float | None, float | None, str]:
    """A range as JSON can hold it: null where every value was missing."""
    column, low, high, unit = row
    return column, None if math.isnan(low) else low, None if math.isnan(high) else high, unit


def _tracks_table(episodes: tuple[Episode, ...], tracks: dict[str, tuple[Track, ...]]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("episode", "kind"):
        table.add_column(name, overflow="fold")
    for name in ("samples", "Hz", "jitter ms", "gaps", "longest s", "dropped", "missing", "latency ms"):
        table.add_column(name, justify="right")
    for episode in episodes:
        labels = "  ".join(f"{key}={value}" for key, value in sorted(episode.labels.items()))
        seconds = episode.span_s[1] - episode.span_s[0]
        table.add_row(Text(episode.id[:8], style="bold"), Text(f"{seconds:.1f} s  {episode.outcome}  {labels}"))
        for track in tracks[episode.id]:
            latency = "" if track.latency_s is None else f"{track.latency_s * 1e3:.1f}"
            numbers = [str(track.samples), f"{track.rate_hz:.1f}", f"{track.jitter_s * 1e3:.2f}", str(track.gaps)]
            numbers += [f"{track.longest_gap_s:.2f}" if track.gaps else "", str(track.dropped), str(track.missing)]
            table.add_row(*(Text(cell) for cell in [f"  {track.name}", track.kind, *numbers, latency]))
    return table


def _ranges_table(tracks: tuple[Track, ...]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("column", "low", "high", "unit"):
        table.add_column(name, justify="left" if name in ("column", "unit") else "right")
    for track in tracks:
        for column, low, high, unit in track.ranges:
            table.add_row(*(Text(cell) for cell in (f"{track.name}/{column}", f"{low:.4g}", f"{high:.4g}", unit)))
    return table
