"""Where the links of a scene were while something was recorded: joints and tracked objects in, poses of links out.

posed = Posed(scene)
posed.poses(signals, times_s)     T_world_links, (T, L, 4, 4), links as in `anatomy`: all bodies, the world first
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.episode import Episode
from twinproof.nouns.signal import Signal
from twinproof.sim.readings import Reading, readings
from twinproof.sim.scene import Scene
from twinproof.sim.world import World

if TYPE_CHECKING:
    from jaxtyping import Float


class Posed:
    """Forward kinematics of one scene. Joints that were not read stand as the scene has them at rest."""

    def __init__(self, scene: Scene) -> None:
        self._world = World(scene)
        self._rest = np.array(self._world.model.qpos0)

    def qpos(self, signals: Mapping[str, Signal], time_s: Float[np.ndarray, "T"]) -> Float[np.ndarray, "T nq"]:
        """The state at some times: straight lines between readings, the nearest reading outside of them."""
        found, _ = readings(Episode.of(signals, {}), self._world.model)
        state = np.tile(self._rest, (len(time_s), 1))
        for reading in (each for each in found if each.kind in ("position", "pose")):
            state[:, reading.place] = _between(reading, time_s)
        return state

    def poses(self, signals: Mapping[str, Signal], time_s: Float[np.ndarray, "T"]) -> Float[np.ndarray, "T L 4 4"]:
        """T_world_links at some times."""
        world = self._world
        placed = np.tile(np.eye(4), (len(time_s), world.model.nbody, 1, 1))
        for T, state in zip(placed, self.qpos(signals, time_s), strict=True):
            world.qpos[:] = state
            world.kinematics()
            T[:, :3, 3], T[:, :3, :3] = world.data.xpos, world.data.xmat.reshape(-1, 3, 3)
        return placed


def _between(reading: Reading, time_s: np.ndarray) -> np.ndarray:
    columns = []
    for column in reading.value.T:
        good = np.isfinite(column)
        columns.append(np.interp(time_s, reading.time_s[good], column[good]))
    value = np.stack(columns, axis=1)
    if reading.kind == "pose":  # neighbours are on one side already: a short turn is a straight line, made unit again
        value[:, 3:] /= np.linalg.norm(value[:, 3:], axis=1, keepdims=True)
    return value
