"""Between a controller and the physics: commands come late and slack, measurements are shifted, noisy and coarse.

command ─ joint offset ─ jitter ─ backlash ─> ctrl ─ (MuJoCo: delay) ─> physics ─ (MuJoCo: delay) ─> sensordata
                                                                                     │
measurement <─ quantum ─ noise ─ bias ─ joint offset ────────────────────────────────┘

All worlds at once; a random number depends on seed, world, tick and column alone, not on how many worlds there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import SimError
from twinproof.nouns.randomness import stream
from twinproof.sim.parameters.actuators import is_servo
from twinproof.sim.parameters.base import index
from twinproof.sim.parameters.joints import HINGE, SLIDE

if TYPE_CHECKING:
    from mujoco import MjModel

    from twinproof.nouns.theta import Theta

Worlds = Sequence[int] | np.ndarray | None


class ControlChannel:
    """Commands (N, nu) in, controls (N, nu) out, once every `period_s`: one call is one tick of every world."""

    def __init__(self, model: MjModel, thetas: Sequence[Theta], period_s: float, seed: int) -> None:
        shape = (len(thetas), model.nu)
        self.shift = np.zeros(shape)  # of position commands, by the joint's encoder offset
        self.slack = np.zeros(shape)  # half the backlash
        self.jitter = np.zeros(shape)  # s
        self._model, self._period_s, self._key = model, period_s, _key(seed, "control")
        self._tick = 0
        self._past = np.zeros((1, *shape))  # commands, the newest first
        self._arrival = np.zeros((1, *shape), dtype=np.int64)  # the tick at which each arrives
        self._held = np.zeros(shape)
        self._fresh = np.ones(len(thetas), dtype=bool)
        self.set_thetas(range(len(thetas)), thetas)

    def set_thetas(self, worlds: Iterable[int], thetas: Iterable[Theta]) -> None:
        """Other values for some worlds."""
        for world, theta in zip(worlds, thetas, strict=True):
            offset = joint_offsets(self._model, theta)
            self.shift[world], self.slack[world], self.jitter[world] = 0, 0, 0
            for i in range(self._model.nactuator):
                self._set_actuator(world, i, theta, offset)
        longest = int(self.jitter.max(initial=0.0) / self._period_s + 1) + 1
        while len(self._past) < longest:
            self._past = np.concatenate([self._past, self._past[-1:]])
            self._arrival = np.concatenate([self._arrival, self._arrival[-1:]])

    def _set_actuator(self, world: int, i: int, theta: Theta, offset: np.ndarray) -> None:
        model = self._model
        first, name = int(model.actuator_ctrladr[i]), model.actuator(i).name
        self.jitter[world, first : first + model.actuator_ctrlnum[i]] = theta.get(f"actuator.{name}.delay_jitter", 0.0)
        self.slack[world, first] = theta.get(f"actuator.{name}.backlash", 0.0) / 2
        if model.actuator_trntype[i] == ON_JOINT and is_servo(model, i):
            self.shift[world, first] = offset[model.actuator_trnid[i, 0]] * model.actuator_gear[i, 0]

    def reset(self, worlds: Worlds = None) -> None:
        """Forgets what was commanded: the next command arrives at once, in the middle of the backlash."""
        self._fresh[slice(None) if worlds is None else worlds] = True

    def __call__(self, command: np.ndarray) -> np.ndarray:
        if command.shape != self.shift.shape:
            raise SimError(f"commands have the shape {command.shape}; {self.shift.shape} (worlds, controls) is needed.")
        wanted = command - self.shift
        arrived = self._late(wanted) if self.jitter.any() else wanted
        if self._fresh.any():
            arrived[self._fresh] = wanted[self._fresh]
            self._held[self._fresh] = wanted[self._fresh]
            self._past[:, self._fresh], self._arrival[:, self._fresh] = wanted[self._fresh], self._tick
            self._fresh[:] = False
        # The play operator: the output moves only when the command pushes against an end of the slack.
        self._held = np.clip(self._held, arrived - self.slack, arrived + self.slack)
        self._tick += 1
        return self._held.copy()

    def _late(self, wanted: np.ndarray) -> np.ndarray:
        """The newest command that has arrived. A delay is whole ticks, rounded at random so that its mean is right."""
        extra = uniform(self._key, wanted.shape, 2 * self._tick) * (self.jitter / self._period_s)
        steps = np.floor(extra + uniform(self._key, wanted.shape, 2 * self._tick + 1)).astype(np.int64)
        steps[self.jitter == 0] = 0
        newest = np.maximum(self._tick + steps, self._arrival[0])  # no command overtakes the one before
        self._past = np.concatenate([wanted[None], self._past[:-1]])
        self._arrival = np.concatenate([newest[None], self._arrival[:-1]])
        first = np.argmax(self._arrival <= self._tick, axis=0)
        found: np.ndarray = np.take_along_axis(self._past, first[None], axis=0)[0]
        return found


class SensorChannel:
    """Sensor data (N, nsensordata) in, what a robot would report out; one call is one tick of every world."""

    def __init__(self, model: MjModel, thetas: Sequence[Theta], seed: int) -> None:
        shape = (len(thetas), model.nsensordata)
        self.bias = np.zeros(shape)
        self.noise = np.zeros(shape)  # standard deviation
        self.quantum = np.zeros(shape)
        self.offset = np.zeros((len(thetas), model.nq))  # encoder minus truth
        self._model, self._key, self._tick = model, _key(seed, "sensor"), 0
        self.set_thetas(range(len(thetas)), thetas)

    def set_thetas(self, worlds: Iterable[int], thetas: Iterable[Theta]) -> None:
        """Other values for some worlds."""
        model = self._model
        for world, theta in zip(worlds, thetas, strict=True):
            offset = joint_offsets(model, theta)
            self.offset[world] = 0
            self.offset[world, model.jnt_qposadr] = offset
            for i in range(model.nsensor):
                name, first = model.sensor(i).name, int(model.sensor_adr[i])
                columns = slice(first, first + int(model.sensor_dim[i]))
                shift = _sensor_shift(model, i, offset)
                self.bias[world, columns] = theta.get(f"sensor.{name}.bias", 0.0) + shift
                self.noise[world, columns] = theta.get(f"sensor.{name}.noise", model.sensor_noise[i])
                self.quantum[world, columns] = theta.get(f"sensor.{name}.quantum", 0.0)

    def reset(self, worlds: Worlds = None) -> None:
        """Nothing: a sensor has no memory here. Noise goes on, so that two episodes of a world differ."""

    def __call__(self, sensordata: np.ndarray) -> np.ndarray:
        if sensordata.shape != self.bias.shape:
            raise SimError(
                f"sensor data have the shape {sensordata.shape}; {self.bias.shape} (worlds, numbers) is needed."
            )
        measured = sensordata + self.bias
        if self.noise.any():
            measured += self.noise * normal(self._key, measured.shape, self._tick)
        self._tick += 1
        coarse = self.quantum > 0
        step = np.where(coarse, self.quantum, 1.0)
        return np.where(coarse, np.round(measured / step) * step, measured)

    def encoders(self, qpos: np.ndarray) -> np.ndarray:
        """Joint positions (N, nq) as the encoders show them, without noise."""
        return qpos + self.offset


ON_JOINT = 0  # mjtTrn
JOINT_POSITION, ACTUATOR_POSITION = 9, 13  # mjtSensor


def joint_offsets(model: MjModel, theta: Theta) -> np.ndarray:
    """Encoder minus truth of every joint."""
    offsets = np.zeros(model.njnt)
    for id, value in theta.items():
        if id.startswith("joint.") and id.endswith(".offset"):
            joint = index(model, "joint", id[len("joint.") : -len(".offset")])
            if model.jnt_type[joint] in (HINGE, SLIDE):
                offsets[joint] = value
    return offsets


def _sensor_shift(model: MjModel, sensor: int, offset: np.ndarray) -> float:
    thing = int(model.sensor_objid[sensor])
    match int(model.sensor_type[sensor]):
        case kind if kind == JOINT_POSITION:
            return float(offset[thing])
        case kind if kind == ACTUATOR_POSITION and model.actuator_trntype[thing] == ON_JOINT:
            return float(offset[model.actuator_trnid[thing, 0]] * model.actuator_gear[thing, 0])
        case _:
            return 0.0


def _key(seed: int, name: str) -> np.uint64:
    return np.uint64(stream(seed, "channel", name).integers(1 << 63))


def uniform(key: np.uint64, shape: tuple[int, ...], tick: int) -> np.ndarray:
    """Numbers in (0, 1), one for each world and column: each depends on its indices, the key and the tick alone."""
    worlds, columns = shape
    with np.errstate(over="ignore"):
        state = mixed(np.uint64(tick) * ODD[0] + key)
        state = mixed(state + np.arange(worlds, dtype=np.uint64)[:, None] * ODD[1])
        bits = mixed(state + np.arange(columns, dtype=np.uint64) * ODD[2])
    found: np.ndarray = ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return found


def normal(key: np.uint64, shape: tuple[int, ...], tick: int) -> np.ndarray:
    """Standard normal numbers, drawn as `uniform` draws."""
    from scipy.special import ndtri

    found: np.ndarray = ndtri(uniform(key, shape, tick))
    return found


ODD = tuple(map(np.uint64, (0x9E3779B97F4A7C15, 0xD1B54A32D192ED03, 0xABC98388FB8FAC03)))


def mixed(start: np.ndarray | np.uint64) -> np.ndarray:
    """The finaliser of splitmix64 (Stafford's mix 13): every input bit reaches every output bit."""
    bits: np.ndarray = np.asarray(start, dtype=np.uint64)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found: np.ndarray = bits ^ (bits >> np.uint64(31))
    return found
