"""What the cameras saw at the events: real frames above, simulated below, one column an event."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from twinproof.evaluate.compare import Comparison, PairResult
from twinproof.evaluate.figures import BLACK, DPI, FAINT, LOOK, VERDICTS, shown
from twinproof.evaluate.timeline import Matched
from twinproof.nouns.errors import ConfigError
from twinproof.nouns.rig import Rig
from twinproof.nouns.video import Video

MOST = 8  # columns


def draw_frames(found: Comparison, folder: Path, camera: str | None = None) -> dict[str, Path]:
    """One picture for each of the pairs that are shown, where a camera is in both; none where there is no video."""
    import matplotlib

    made = {}
    with matplotlib.rc_context(LOOK):
        for number, pair in enumerate(shown(found.pairs), 1):
            name = _camera(pair, camera)
            events = _chosen(pair.events)
            if name is not None and events:
                path = folder / f"frames_{number}.png"
                _draw(pair, name, events, (found.real.rig, found.sim.rig), path)
                made[f"frames_{number}"] = path
    return made


def _camera(pair: PairResult, wanted: str | None) -> str | None:
    both = sorted(set(pair.real.videos) & set(pair.sim.videos))
    if wanted is None:
        return next((name for name in both if _shows(pair.real.videos[name]) and _shows(pair.sim.videos[name])), None)
    if wanted not in both:
        have = [", ".join(sorted(side.videos)) or "none" for side in (pair.real, pair.sim)]
        raise ConfigError(f"camera {wanted!r} is not in both episodes; real has {have[0]}, simulated {have[1]}.")
    return wanted


def _shows(video: Video) -> bool:
    return video.pixels in ("rgb", "gray")


def _chosen(events: Sequence[Matched]) -> list[Matched]:
    """At most eight events: those that are not the same come first, then as they happened."""
    order = sorted(events, key=lambda event: event.verdict == "same")[:MOST]
    return [event for event in events if event in order]


def _draw(pair: PairResult, camera: str, events: Sequence[Matched], rigs: tuple[Rig, Rig], path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    videos = pair.real.videos[camera], pair.sim.videos[camera]
    ratio = videos[0].height / videos[0].width
    width = max(8.2, 1.6 * len(events))
    figure = Figure(figsize=(width, 0.75 + 2 * ratio * width / len(events) * 0.96), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(
        f"Camera {camera} at the events: {pair.real.source or pair.real.id[:8]}", x=0.01, ha="left", fontsize=11
    )
    grid = figure.subplots(2, len(events), squeeze=False)
    for column, event in enumerate(events):
        # where one domain lacks the event, its frame is the one of the same moment
        moment = event.real_s if event.real_s is not None else event.sim_s
        assert moment is not None
        times = (moment if event.real_s is None else event.real_s, moment if event.sim_s is None else event.sim_s)
        stamps = (times[0], times[1] - pair.offset.offset_s)
        for row, (video, rig, robot_s) in enumerate(zip(videos, rigs, stamps, strict=True)):
            stated = rig.cameras.get(camera)
            picture = video.at(robot_s - (stated.clock_offset_s if stated else 0.0))[1]
            axes = grid[row, column]
            axes.imshow(picture if picture.ndim == 3 else np.repeat(picture[..., None], 3, axis=2))
            axes.set(xticks=[], yticks=[])
            lacking = event.verdict == ("extra" if row == 0 else "missing")
            for spine in axes.spines.values():
                spine.set(visible=True, color=VERDICTS[event.verdict] if event.verdict != "same" else FAINT, lw=2)
            axes.set_xlabel("no such event" if lacking else f"{robot_s:.2f} s", fontsize=8, color=BLACK, labelpad=2)
            if column == 0:
                axes.set_ylabel("real" if row == 0 else "twin")
        told = event.title if event.verdict == "same" else f"{event.title}\n{event.verdict}"
        grid[0, column].set_title(told.replace(" ", "\n", 1) if len(told) > 14 else told, fontsize=8)
    figure.savefig(path, dpi=DPI, metadata={"Software": None})
