"""Other scenes for other objects: which scene an episode happened in, by a label of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from twinproof.nouns.errors import ConfigError
from twinproof.sim.scene import Scene

ScenesByLabel = Mapping[str, Mapping[str, Scene]]  # label -> its value -> the scene


def scenes_of(pattern: str | None, labels: Sequence[Mapping[str, str]]) -> dict[str, dict[str, Scene]]:
    """The scenes that a pattern such as 'practice/scene_{object}.xml' names for the labels that occur."""
    if pattern is None:
        return {}
    begin, end = pattern.find("{"), pattern.find("}")
    if begin < 0 or end < begin:
        raise ConfigError(f"--scenes {pattern!r} names no label. Write it like 'practice/scene_{{object}}.xml'.")
    key = pattern[begin + 1 : end]
    found: dict[str, Scene] = {}
    for value in sorted({each[key] for each in labels if key in each}):
        path = Path(pattern[:begin] + value + pattern[end + 1 :])
        if not path.is_file():
            raise ConfigError(f"--scenes: {path} does not exist, and an episode has {key} {value!r}. Put it there.")
        found[value] = Scene.read(path)
    if not found:
        raise ConfigError(f"--scenes: no episode has a label {key!r}. Label them in the rig.")
    return {key: found}


def scene_for(labels: Mapping[str, str], scenes: ScenesByLabel, usual: Scene) -> Scene:
    """The scene of an episode with these labels; the usual one where no label chooses another."""
    for label, by_value in scenes.items():
        value = labels.get(label, "")
        if value in by_value:
            return by_value[value].leaner()
    return usual
