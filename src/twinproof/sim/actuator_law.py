"""A parametric actuator: command in, torque on the joint out. Every number has a unit and a meaning.

command ─ delay ─ deadband ─ slack ─ gain ─ saturation ─> motor ─ friction ─> joint

Friction is a bristle model (LuGre): within `presliding_rad` of a reversal it is a spring, beyond it slides at a level
that falls from breakaway to Coulomb as speed grows (Stribeck), and rises with load. The Coulomb level may wander as a
gear warms up: a random walk.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np

from twinproof.nouns.errors import ParameterError, SimError
from twinproof.nouns.randomness import stream
from twinproof.sim.law import Action, Law, Moment, Plant, Running

SETTLE_S = 0.02  # a joint that moved this long at its present speed has its bristles bent
STIFFEST = 0.5  # share of the inertia that bristles may add in one step: beyond, explicit steps ring


@dataclass(frozen=True)
class Friction:
    """What a joint's friction takes from the torque; N m and rad for hinges, N and m for slides."""

    coulomb: float = 0.0
    stribeck: float = 0.0  # how far breakaway lies above Coulomb
    stribeck_speed: float = 0.1  # rad/s over which that fades
    viscous: float = 0.0  # N m s/rad
    load: float = 0.0  # N m of friction for each N m of the motor
    presliding_rad: float = 0.002  # how far bristles bend before they slide
    bristle_s: float = 0.005  # their damping over their stiffness
    drift: float = 0.0  # random walk of the Coulomb level, N m/√s


@dataclass(frozen=True)
class Actuator:
    """One motor. A saturation of None has no end."""

    gain: float = 1.0
    delay_s: float = 0.0
    saturation: float | None = None
    deadband: float = 0.0
    backlash: float = 0.0  # slack of the command, end to end
    friction: Friction = field(default_factory=Friction)

    def __post_init__(self) -> None:
        for name, value in _flat(self).items():
            if value is None:
                continue
            if not math.isfinite(value) or value < 0:
                raise ParameterError(f"an actuator's {name} is {value}; it is a finite number of zero or more.")
        if not (self.friction.presliding_rad > 0 and self.friction.stribeck_speed > 0):
            raise ParameterError("friction needs a presliding_rad and a stribeck_speed above zero.")
        if self.saturation == 0:
            raise ParameterError("an actuator that saturates at 0 does nothing. Leave it out, or give None for no end.")


FIELDS = tuple(
    [each.name for each in fields(Actuator) if each.name != "friction"] + [each.name for each in fields(Friction)]
)
_PLACE = {name: i for i, name in enumerate(FIELDS)}


def _flat(actuator: Actuator) -> dict[str, Any]:
    values = asdict(actuator)
    return {**{k: v for k, v in values.items() if k != "friction"}, **values["friction"]}


@dataclass(frozen=True)
class ActuatorLaw(Law):
    """Actuators by name; one that is not named passes its command on and has no friction.

    With a `seed` the drift of each row is drawn; without, the Coulomb level stays at its mean.
    """

    actuators: Mapping[str, Actuator]
    seed: int | None = None

    def memory(self, step_s: float) -> int:
        return max((math.ceil(a.delay_s / step_s - 1e-9) for a in self.actuators.values()), default=0)

    def value(self, name: str) -> float:
        """The number called `ACTUATOR.FIELD`."""
        actuator, wanted = _named(name, self.actuators)
        found = _flat(self.actuators[actuator])[wanted]
        return math.inf if found is None else float(found)

    def having(self, values: Mapping[str, float]) -> ActuatorLaw:
        """The same law with other numbers, each called `ACTUATOR.FIELD`; `*` as the actuator means all of them."""
        found = dict(self.actuators)
        for name, value in values.items():
            first, wanted = _named(name, found)
            for actuator in found if name.startswith("*.") else (first,):
                found[actuator] = _with(found[actuator], wanted, float(value))
        return replace(self, actuators=found)

    @staticmethod
    def running(laws: Sequence[ActuatorLaw], which: np.ndarray, plant: Plant, begin: Moment) -> Running:
        table = np.stack([_table(law, plant) for law in laws])[which]
        return _Running(table, plant, begin, laws[0].seed)


def _named(name: str, actuators: Mapping[str, Actuator]) -> tuple[str, str]:
    actuator, _, wanted = name.rpartition(".")
    actuator = next(iter(actuators)) if actuator == "*" and actuators else actuator
    if actuator not in actuators or wanted not in _PLACE:
        raise ParameterError(
            f"{name!r} is no number of this law. Its actuators are {', '.join(actuators) or 'none'}; "
            f"each has {', '.join(FIELDS)}."
        )
    return actuator, wanted


def _with(actuator: Actuator, wanted: str, value: float) -> Actuator:
    if wanted in {each.name for each in fields(Friction)}:
        return replace(actuator, friction=replace(actuator.friction, **{wanted: value}))
    changed: Any = {wanted: None if wanted == "saturation" and value == math.inf else value}
    return replace(actuator, **changed)


def _table(law: ActuatorLaw, plant: Plant) -> np.ndarray:
    """The numbers of every control (nu, fields), in the order of `FIELDS`."""
    unknown = sorted(set(law.actuators) - set(plant.actuators))
    if unknown:
        raise SimError(f"the law has an actuator {unknown[0]!r}, the model has {', '.join(plant.actuators) or 'none'}.")
    rows = []
    for name, dof in zip(plant.actuators, plant.dof, strict=True):
        actuator = law.actuators.get(name, Actuator())
        _check(name, actuator, int(dof), plant)
        rows.append([math.inf if v is None else float(v) for v in _flat(actuator).values()])
    return np.array(rows)


def _check(name: str, actuator: Actuator, dof: int, plant: Plant) -> None:
    friction = actuator.friction
    stiffness = (friction.coulomb + friction.stribeck) / friction.presliding_rad
    if dof < 0:
        if stiffness or friction.viscous or friction.load:
            raise SimError(f"the law gives actuator {name!r} friction, and it drives no single joint.")
        return
    added = (stiffness * (plant.step_s + friction.bristle_s) + friction.viscous) * plant.step_s
    too_stiff = added / (STIFFEST * plant.inertia[dof])
    if too_stiff > 1:
        raise SimError(
            f"the friction of actuator {name!r} is too stiff for steps of {plant.step_s:g} s: it needs a "
            f"presliding_rad of {friction.presliding_rad * too_stiff:.3g} or more, or shorter steps."
        )


class _Running(Running):
    def __init__(self, table: np.ndarray, plant: Plant, begin: Moment, seed: int | None) -> None:
        self._table, self._plant = table, plant
        rows, nu = table.shape[:2]
        self._bend, self._slack = np.zeros((rows, nu)), np.full((rows, nu), np.nan)
        self._wander = np.zeros((rows, nu))
        self._rng = None if seed is None else stream(seed, "actuators", "drift")
        self._kernel = kernel()
        self._kernel.bend(table, plant.dof, begin.qvel, self._bend)

    def restart(self, rows: np.ndarray, begin: Moment) -> None:
        bend = np.zeros((len(rows), self._bend.shape[1]))
        self._kernel.bend(self._table[rows], self._plant.dof, begin.qvel[rows], bend)
        self._bend[rows], self._slack[rows], self._wander[rows] = bend, np.nan, 0.0

    def act(self, now: Moment) -> Action:
        ctrl, torque = np.empty(self._bend.shape), np.zeros(now.qvel.shape)
        if self._rng is not None:
            step = self._table[:, :, _PLACE["drift"]] * math.sqrt(self._plant.step_s)
            self._wander += step * self._rng.standard_normal(self._bend.shape)
        self._kernel.step(
            self._table, self._plant.dof, self._plant.gear, self._plant.step_s,
            now.qvel, now.sent, self._bend, self._slack, self._wander, ctrl, torque,
        )  # fmt: skip
        return Action(ctrl, torque)


@dataclass(frozen=True)
class Kernel:
    """The compiled law: `bend` sets the bristles at the start, `step` does one physics step, `sequence` a whole log."""

    bend: Any
    step: Any
    sequence: Any


@functools.cache
def kernel() -> Kernel:
    """Compiled when first asked for: importing this module compiles nothing."""
    import numba

    @numba.njit(cache=True)
    def bend(table, dof, qvel, z):  # type: ignore[no-untyped-def]
        for r in range(table.shape[0]):
            for k in range(table.shape[1]):
                if dof[k] >= 0:
                    p, v = table[r, k], qvel[r, dof[k]]
                    slides = p[5] + p[6] * math.exp(-((v / p[7]) ** 2))
                    full = p[10] * slides / max(p[5] + p[6], 1e-12)
                    z[r, k] = full * math.tanh(v * SETTLE_S / p[10])

    @numba.njit(cache=True)
    def one(p, dt, gear, v, sent, k, z, held, wander):  # type: ignore[no-untyped-def]
        """Control, friction torque, bristles and slack of one motor after one step."""
        back = p[1] / dt
        whole = math.floor(back + 1e-9)
        part = max(back - whole, 0.0)
        last = sent.shape[0] - 1
        u = (1.0 - part) * sent[max(last - whole, 0), k] + part * sent[max(last - whole - 1, 0), k]
        u = math.copysign(max(abs(u) - p[3], 0.0), u)
        if p[4] > 0.0:
            held = u if math.isnan(held) else min(max(held, u - 0.5 * p[4]), u + 0.5 * p[4])
            u = held
        u = min(max(p[0] * u, -p[2]), p[2])
        bent = z
        brake = p[8] * v
        stiffness = (p[5] + p[6]) / p[10]
        level = max(p[5] + wander, 0.0) + p[6] * math.exp(-((v / p[7]) ** 2)) + p[9] * abs(u * gear)
        if stiffness > 0.0 and level > 0.0:
            # the bristles' decay is taken implicitly: at speed they settle within a small part of a step
            bent = (z + dt * v) / (1.0 + dt * abs(v) * stiffness / level)
            brake += stiffness * (bent + p[11] * (bent - z) / dt)
        return u, -brake, bent, held

    @numba.njit(cache=True)
    def step(table, dof, gear, dt, qvel, sent, z, held, wander, ctrl, torque):  # type: ignore[no-untyped-def]
        for r in range(table.shape[0]):
            for k in range(table.shape[1]):
                v = qvel[r, dof[k]] if dof[k] >= 0 else 0.0
                u, brake, z[r, k], held[r, k] = one(
                    table[r, k], dt, gear[k], v, sent[r], k, z[r, k], held[r, k], wander[r, k]
                )
                ctrl[r, k] = u
                if dof[k] >= 0:
                    torque[r, dof[k]] += brake

    @numba.njit(cache=True)
    def sequence(table, dof, gear, dt, qvel, sent, memory, found):  # type: ignore[no-untyped-def]
        """The net torque along measured speeds: table (nu, fields), qvel (T, nv), sent (T, nu), found (T, nv)."""
        for k in range(table.shape[0]):
            if dof[k] < 0:
                continue
            held, p, v = np.nan, table[k], qvel[0, dof[k]]
            z = p[10] * (p[5] + p[6] * math.exp(-((v / p[7]) ** 2))) / max(p[5] + p[6], 1e-12)
            z *= math.tanh(v * SETTLE_S / p[10])
            for t in range(qvel.shape[0]):
                recent = sent[max(t - memory, 0) : t + 1]
                u, brake, z, held = one(p, dt, gear[k], qvel[t, dof[k]], recent, k, z, held, 0.0)
                found[t, dof[k]] += u * gear[k] + brake

    return Kernel(bend, step, sequence)


def torque_of(law: ActuatorLaw, plant: Plant, command: np.ndarray, qvel: np.ndarray) -> np.ndarray:
    """The net torque (T, nv) the law gives along a log: commands (T, nu) and speeds (T, nv), one a physics step."""
    found = np.zeros((len(qvel), plant.nv))
    memory = law.memory(plant.step_s)
    table = _table(law, plant)
    kernel().sequence(table, plant.dof, plant.gear, plant.step_s, qvel, np.asarray(command, float), memory, found)
    return found
