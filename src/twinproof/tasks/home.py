"""Where a robot begins: as stated joint by joint, as its scene says, or as calibration episodes begin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from twinproof.nouns.errors import ConfigError, TaskError
from twinproof.nouns.recording import Recording
from twinproof.nouns.split import Split
from twinproof.nouns.twin import Twin
from twinproof.sim.scene import Scene
from twinproof.sim.world import World
from twinproof.tasks.machine import Machine

Stated = Sequence[str] | Mapping[str, float] | str | Path


def home_of(stated: Stated, twin: Twin) -> dict[str, float] | None:
    """Positions by joint, written as 'elbow=0.9'; of a Split folder what `told_by` it. None where the scene says."""
    if isinstance(stated, Mapping):
        return dict(stated) or None
    texts = (str(stated),) if isinstance(stated, str | Path) else stated
    if len(texts) == 1 and "=" not in texts[0] and Path(texts[0]).is_dir():
        return told_by(Split.load(Path(texts[0])), twin)
    found = {}
    for text in texts:
        joint, _, value = text.partition("=")
        try:
            found[joint.strip()] = float(value)
        except ValueError:
            raise TaskError(
                f"{text!r} is no position of a joint, and no Split folder. Write it like 'elbow=0.9', in rad or m, or "
                "name the split whose episodes begin there."
            ) from None
    return found or None


def told_by(split: Split, twin: Twin) -> dict[str, float] | None:
    """Where calibration episodes begin, for a twin whose scene does not say where the robot does; else None."""
    try:
        Machine.of(twin)
    except TaskError:  # what else is wrong with the scene, the task will say again
        return recorded_home(split.parts()[0].recording, driven(twin))
    return None


def texts_of(home: dict[str, float] | None) -> tuple[str, ...]:
    """The same as texts, every position to the last bit."""
    return tuple(f"{joint}={value!r}" for joint, value in (home or {}).items())


def driven(twin: Twin) -> list[str]:
    """The joints that actuators are named after."""
    world = World(Scene.of(twin))
    return [name for name in world.actuators if world.has("joint", name)]


def recorded_home(recording: Recording, joints: Sequence[str]) -> dict[str, float]:
    """The median of the joints' first positions over episodes."""
    first: dict[str, list[float]] = {name: [] for name in joints}
    for episode in recording.episodes:
        for kind in ("joint_position", "gripper"):
            for signal in episode.fresh().of_kind(kind):
                for column in (c.name for c in signal.columns if c.name in first):
                    values = signal.column(column)
                    first[column] += [float(values[0])] if np.isfinite(values[0]) else []
    lacking = [name for name, values in first.items() if not values]
    if lacking:
        raise ConfigError(
            f"nothing says where {', '.join(lacking)} begins: the twin has no keyframe 'home', and calibration does "
            "not record it. Give --home."
        )
    return {name: float(np.median(values)) for name, values in first.items()}
