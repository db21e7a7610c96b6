"""An episode made ready to be simulated: its readings, its commands on the physics clock, and stretches to roll out.

commands   held from their time to the next ─ delay ─ encoder offset ─ backlash ─> one control for each physics step
tiling     |── window 0 ──|── window 1 ──|── … ──|      all windows of an episode are of equal length
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np

from twinproof.nouns.errors import RecordingError
from twinproof.sim.parameters.actuators import is_servo
from twinproof.sim.parameters.base import names
from twinproof.sim.readings import Reading, commands, readings

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from twinproof.nouns.episode import Episode
    from twinproof.sim.scene import Scene

SHORTEST_S = 0.02


@dataclass(frozen=True, eq=False)
class Experiment:
    """One episode with the scene it happened in. `group` numbers the object whose own parameters it is about."""

    id: str
    scene: Scene
    readings: tuple[Reading, ...]
    command_time_s: Float[np.ndarray, "C"]
    command: Float[np.ndarray, "C nu"]
    begin_s: float
    end_s: float
    group: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def step_s(self) -> float:
        """The physics time step."""
        return float(self.scene.nominal().opt.timestep)

    @property
    def steps(self) -> int:
        """Physics steps from begin to end."""
        return int((self.end_s - self.begin_s) / self.step_s + 1e-6)

    @functools.cached_property
    def frames(self) -> tuple[tuple[str, int], ...]:
        """Whose frame the starts of free bodies are read in: the id of its offset for each place in qpos."""
        first: dict[int, str] = {}
        for reading in self.readings:
            if reading.kind == "pose":
                first.setdefault(int(reading.place[0]), reading.name)
        return tuple(
            (f"signal.{name}.offset_{axis}", place + k) for place, name in first.items() for k, axis in enumerate("xyz")
        )

    @functools.cached_property
    def _area(self) -> np.ndarray:
        """The integral of the held commands up to each of their times."""
        width = np.diff(self.command_time_s, append=self.command_time_s[-1] + 1.0)[:, None]
        return np.concatenate([np.zeros((1, self.command.shape[1])), np.cumsum(self.command * width, axis=0)])

    def controls(self, passage: Passage) -> Float[np.ndarray, "steps nu"]:
        """What the actuators get at every physics step: the mean of the held command over the step, `delay_s` ago.

        The mean makes a delay of any length felt: between whole steps it is a blend of two commands.
        """
        edges = self.begin_s + np.arange(self.steps + 1) * self.step_s
        times = np.r_[self.command_time_s, self.command_time_s[-1] + 1.0]
        sent = np.empty((self.steps, self.command.shape[1]))
        for k in range(sent.shape[1]):
            at = edges - passage.delay_s[k]
            inside = np.interp(at, times, self._area[:, k])
            early, late = np.minimum(at - times[0], 0.0), np.maximum(at - times[-1], 0.0)
            inside += early * self.command[0, k] + late * self.command[-1, k]
            sent[:, k] = np.diff(inside) / self.step_s
        sent -= passage.shift
        if passage.slack.any():
            _play(sent, passage.slack)
        return sent

    def tiles(self, horizon_s: float, multiple: int = 1) -> Int[np.ndarray, "windows 2"]:
        """First physics step and length, a multiple of so many steps, of windows of about this length that cover the
        episode; a rest shorter than `multiple` steps a window is left."""
        count = max(1, round(self.steps * self.step_s / horizon_s)) if np.isfinite(horizon_s) else 1
        length = max(self.steps // count // multiple, 1) * multiple
        return np.stack([np.arange(count) * length, np.full(count, length)], axis=1)


@dataclass(frozen=True, eq=False)
class Passage:
    """How commands reach the actuators under one Theta, for each number in ctrl."""

    delay_s: Float[np.ndarray, "nu"]
    shift: Float[np.ndarray, "nu"]  # of position servos, by the joint's encoder offset
    slack: Float[np.ndarray, "nu"]  # half the backlash

    @property
    def key(self) -> bytes:
        """Equal for equal passages."""
        return self.delay_s.tobytes() + self.shift.tobytes() + self.slack.tobytes()


def touching(model: Any, qpos: Float[np.ndarray, "W nq"], looks: int = 60) -> bool:
    """Whether anything touches anything at some of these positions."""
    data = mujoco.MjData(model)
    for k in np.unique(np.linspace(0, len(qpos) - 1, min(looks, len(qpos))).astype(np.int64)):
        data.qpos[:] = qpos[k]
        mujoco.mj_kinematics(model, data)
        mujoco.mj_collision(model, data)
        if data.ncon and (np.asarray(data.contact.dist[: data.ncon]) <= 0).any():
            return True
    return False


def passage(model: Any, values: Mapping[str, float]) -> Passage:
    """The passage under these parameters; what they do not name is absent."""
    delay, shift, slack = np.zeros(model.nu), np.zeros(model.nu), np.zeros(model.nu)
    joints = names(model, "joint")
    for i, name in enumerate(names(model, "actuator")):
        first = int(model.actuator_ctrladr[i])
        delay[first : first + int(model.actuator_ctrlnum[i])] = values.get(f"actuator.{name}.delay", 0.0)
        slack[first] = values.get(f"actuator.{name}.backlash", 0.0) / 2
        if model.actuator_trntype[i] == 0 and is_servo(model, i):
            joint = joints[int(model.actuator_trnid[i, 0])]
            shift[first] = values.get(f"joint.{joint}.offset", 0.0) * float(model.actuator_gear[i, 0])
    return Passage(delay, shift, slack)


@functools.cache
def _player() -> Any:
    import numba

    @numba.njit(cache=True)  # type: ignore[untyped-decorator]
    def play(sent: np.ndarray, slack: np.ndarray) -> None:
        for k in range(sent.shape[1]):
            held = sent[0, k]
            for i in range(sent.shape[0]):
                held = min(max(held, sent[i, k] - slack[k]), sent[i, k] + slack[k])
                sent[i, k] = held

    return play


def _play(sent: np.ndarray, slack: np.ndarray) -> None:
    """The play operator, in place: the output moves only when the command pushes against an end of the slack."""
    _player()(sent, slack)


def experiment(episode: Episode, scene: Scene, group: int = 0) -> Experiment:
    """The episode matched with a scene: from where readings and commands have both begun until the readings end."""
    model: Any = scene.nominal()
    found, notes = readings(episode, model)
    time_s, sent, more = commands(episode, model)
    begin = max([float(reading.time_s[0]) for reading in found] + ([float(time_s[0])] if model.nu else []))
    end = min(float(reading.time_s[-1]) for reading in found)
    if end - begin < SHORTEST_S:
        raise RecordingError(
            f"{episode.source or episode.id}: its signals share {max(end - begin, 0.0):.3f} s; {SHORTEST_S} s are "
            "needed. Leave the episode out, or mend the clocks in the rig."
        )
    return Experiment(episode.id, scene, found, time_s, sent, begin, end, group, dict(episode.labels), (*notes, *more))
