"""Episodes by their seeds: a start, a Theta and a key for noise each, as rows that worlds take on at a reset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from twinproof.nouns.errors import TaskError
from twinproof.nouns.randomization import Randomization
from twinproof.nouns.randomness import stream
from twinproof.nouns.theta import Theta
from twinproof.sim.scene import Scene
from twinproof.tasks.conditions import Rows, rows_of
from twinproof.tasks.senses import BIAS, DELAY
from twinproof.tasks.starts import starts_of
from twinproof.tasks.task import Setup, TaskSpec
from twinproof.tasks.viewpoints import USUAL, viewpoints

Draws = Randomization | Sequence[Theta] | None


@dataclass(frozen=True, eq=False)
class Episodes:
    """K episodes as arrays by name: the fields of Rows, and qpos, ctrl, goal, key, theta, camera, lens,
    tracked_off."""

    rows: dict[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.rows["goal"])

    def flags(self, tick_s: float) -> dict[str, int]:
        """What occurs at all, so that nothing is computed for what does not; and the longest lags in ticks, of the
        tracker and of pictures."""
        rows = self.rows
        return {
            "lag": int(np.round(rows["tracker"][:, DELAY] / tick_s).max(initial=0)),
            "picture_lag": int(np.round(rows["picture_late"] / tick_s).max(initial=0)),
            "off": bool((rows["camera"] != np.eye(4)).any() or (rows["lens"] != USUAL).any()),
            "noisy": bool(rows["noise"].any()),
            "coarse": bool(rows["quantum"].any()),
            "lossy": bool(rows["dropout"].any()),
            "tracking": bool(rows["tracker"].any()),
            "slack_or_late": bool(rows["slack"].any() or rows["late"].any()),
            "shaky": bool(rows["command_noise"].any()),
            "pushing": bool(rows["push"].any()),
        }


def episode_seed(seed: int, number: int) -> int:
    """The seed of an arena's n-th episode."""
    return int(stream(seed, "arena", "episode", str(number)).integers(1 << 62))


def drawn_theta(draws: Draws, seed: int, number: int) -> Theta:
    """The Theta of an episode: drawn by its seed, or the next of those given; the nominal where there are none."""
    if draws is None:
        return Theta()
    if isinstance(draws, Randomization):
        return draws.draw(stream(seed, "arena", "theta"))
    if not draws:
        raise TaskError("an arena was given no Thetas to take in turn. Give at least one, or None for the nominal.")
    return draws[number % len(draws)]


@dataclass(frozen=True, eq=False)
class Ground:
    """What episodes take place on: a task, its scene, the worlds' own model with its sensors, pushed bodies; the model
    with its cameras, and those that pictures are seen through."""

    task: TaskSpec
    scene: Scene
    model: Any
    pushed: tuple[str, ...]
    varied: tuple[str, ...] = ()  # ids whose values the draws hold
    whole: Any = None
    cameras: tuple[str, ...] = ()


def episodes_of(
    ground: Ground, seeds: Sequence[int], thetas: Sequence[Theta], setups: Sequence[Setup] | None = None
) -> Episodes:
    """The rows of episodes, one for each seed. Setups that are given stand as they are; those that are drawn are moved
    where the Theta says that things start."""
    moved = thetas if setups is None else [Theta()] * len(seeds)
    setups = [drawn_setup(ground.task, seed) for seed in seeds] if setups is None else setups
    rows = rows_of(ground.model, ground.task, ground.pushed, thetas)
    starts = starts_of(ground.scene, ground.task, setups, moved)
    table = {entry.name: getattr(rows, entry.name) for entry in fields(Rows)}
    values = np.array([[theta.get(id, np.nan) for id in ground.varied] for theta in thetas])
    table["theta"] = values.reshape(len(thetas), len(ground.varied))
    drawn = viewpoints(ground.whole, ground.cameras, thetas)
    table |= {"camera": drawn.T_usual_drawn, "lens": drawn.lens}
    luck = [stream(seed, "arena", "tracker").normal(size=(len(ground.task.tracked), 6)) for seed in seeds]
    table["tracked_off"] = (
        np.array(luck).reshape(len(seeds), -1, 6) * np.repeat(rows.tracker[:, BIAS], 3, axis=1)[:, None]
    )
    keys = np.array([int(stream(seed, "arena", "noise").integers(1 << 63)) for seed in seeds], dtype=np.uint64)
    return Episodes({**table, "qpos": starts.qpos, "ctrl": starts.ctrl, "goal": starts.goal, "key": keys})


def drawn_setup(task: TaskSpec, seed: int) -> Setup:
    """The beginning of the episode of a seed, for a twin and a robot alike."""
    return task.draw(stream(seed, "arena", "start"))
