"""Joint refinement over several episodes: their objects differ, robot and cameras are the same.

Each episode is refined with what all others told of joint offsets and cameras, in turns. What an episode tells is
passed on as a Gaussian with its own knowledge of them alone, so that nothing is counted twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from twinproof.nouns.errors import RecordingError
from twinproof.nouns.progress import Progress, quiet
from twinproof.reconstruct.couple import Coupled, Coupling, Seen, Touch, couple
from twinproof.reconstruct.couple_normal import Layout, Shared
from twinproof.sim.handled import Handling
from twinproof.sim.track_pose import Track


@dataclass(frozen=True, eq=False)
class Task:
    """One episode: what `couple` takes of it."""

    handling: Handling
    seen: Seen
    track: Track
    parameters: tuple[str, ...] = ()
    tracks: tuple[Track, ...] = ()
    touch: Touch | None = None


def couple_all(
    tasks: Sequence[Task], how: Coupling | None = None, rounds: int = 2, progress: Progress = quiet
) -> tuple[Coupled, ...]:
    """Each episode's answer, in the tasks' order, after so many rounds over all of them."""
    how = how or Coupling()
    _check(tasks)
    first = tasks[0]
    layout = Layout(1, 0, len(first.handling.joints), len(first.seen.clips), False)
    base = np.diag(layout.sd(how) ** -2)
    found: list[Coupled | None] = [None] * len(tasks)
    for turn in range(rounds if len(tasks) > 1 else 1):
        for k, task in enumerate(tasks):
            others = [each.told for j, each in enumerate(found) if each is not None and j != k]
            found[k] = couple(
                task.handling, task.seen, task.track, task.parameters, how, tracks=task.tracks, touch=task.touch,
                shared=together(base, others),
            )  # fmt: skip
            progress(turn * len(tasks) + k + 1, "joint refinement of episodes", rounds * len(tasks))
    return tuple(each for each in found if each is not None)


def together(base: np.ndarray, told: Sequence[Shared]) -> Shared:
    """What is believed beforehand (about zero) and what episodes told, in one Gaussian."""
    precision = base + sum((each.precision for each in told), np.zeros_like(base))
    pulled = sum((each.precision @ each.mean for each in told), np.zeros(len(base)))
    return Shared(precision, np.linalg.solve(precision, pulled))


def _check(tasks: Sequence[Task]) -> None:
    if not tasks:
        raise RecordingError("joint refinement was given no episode. Give one or more.")
    first = tasks[0]
    for task in tasks[1:]:
        if task.handling.joints != first.handling.joints:
            raise RecordingError(
                f"episodes move different joints: {', '.join(first.handling.joints)} and "
                f"{', '.join(task.handling.joints)}. Refine robots one by one."
            )
        names = [[clip.camera for clip in each.seen.clips] for each in (first, task)]
        stand = names[0] == names[1] and all(
            np.abs(one.T_world_camera[0] - two.T_world_camera[0]).max() < 1e-9
            for one, two in zip(first.seen.clips, task.seen.clips, strict=True)
        )
        if not stand:
            raise RecordingError(
                f"episodes are seen by other cameras, or from elsewhere: {', '.join(names[0])}; {', '.join(names[1])}. "
                "Give the same cameras in the same order, where calibration put them."
            )
