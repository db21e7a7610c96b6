"""Small recordings for the guard's tests: a few joints on smooth random paths, a tiny camera where asked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from twinproof.nouns.episode import Episode
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import Rig
from twinproof.nouns.signal import Column, Signal
from twinproof.nouns.video_write import write_pictures


def path(rng: np.random.Generator, time_s: np.ndarray, joints: int = 3) -> np.ndarray:
    """A smooth path: three slow sines for each joint."""
    speed, phase = rng.uniform(0.5, 3, (3, joints)), rng.uniform(0, 6.3, (3, joints))
    return (0.4 * np.sin(speed * time_s[:, None, None] + phase)).sum(axis=1)


def script(knots: np.ndarray, time_s: np.ndarray) -> np.ndarray:
    """A scripted demonstration: minimum-jerk moves from knot to knot."""
    out = np.empty((len(time_s), knots.shape[1]))
    edges = np.linspace(0, time_s[-1], len(knots))
    for k in range(len(knots) - 1):
        inside = (time_s >= edges[k]) & (time_s <= edges[k + 1])
        s = (time_s[inside] - edges[k]) / (edges[k + 1] - edges[k])
        out[inside] = knots[k] + (knots[k + 1] - knots[k]) * (10 * s**3 - 15 * s**4 + 6 * s**5)[:, None]
    return out


def episode(
    time_s: np.ndarray,
    value: np.ndarray,
    source: str,
    labels: Mapping[str, str] | None = None,
    kind: str = "joint_position",
    start_ns: int = 0,
) -> Episode:
    """One episode with one signal, `state`."""
    columns = tuple(Column(f"j{j}", "rad") for j in range(value.shape[1]))
    signal = Signal("state", kind, columns, time_s, value)
    return Episode.of({"state": signal}, {}, labels=labels, source=source, start_ns=start_ns)


def filmed(one: Episode, folder: Path, seed: int, frames: int = 6) -> Episode:
    """The same episode with a camera whose pictures are noise, so that their bytes are unmistakable."""
    rng = np.random.default_rng(seed)
    first, last = one.span_s
    times = np.linspace(first, last, frames)
    pictures = ((float(t), rng.integers(0, 255, (24, 32, 3), dtype=np.uint8)) for t in times)
    video = write_pictures(pictures, "front", folder / f"{seed}.mp4")
    return Episode.of(
        one.signals, {"front": video}, labels=one.labels, source=one.source, start_ns=one.start_ns, notes=one.notes
    )


def recording(labels: list[dict[str, str]], folder: Path | None = None, seed: int = 0) -> Recording:
    """One short episode for each set of labels, with a camera when a folder is given."""
    made = []
    for k, each in enumerate(labels):
        rng = np.random.default_rng([seed, k])
        time_s = np.arange(60) / 30
        one = episode(time_s, path(rng, time_s) + rng.normal(0, 1e-3, (60, 3)), f"episode {k:03d}", each)
        made.append(one if folder is None else filmed(one, folder, k))
    return Recording(Rig("arm"), tuple(made), {"kind": "test", "name": "made here", "files": {"secret": 1}})
