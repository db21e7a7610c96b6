"""What no parameter explains, as small random loads on the joints: a posterior's model error, played.

A posterior states, for each signal, how far predictions stray from reality by horizon though its parameters fit best.
Here every tick of every world changes each joint's speed by κ u. u is a random number of sd 1 that persists: after a
second a share 1/e of it is left, as what a model lacks (a cable that drags, a gear that binds) pulls the same way
while the robot stays where it is. κ is the largest with which a free joint strays no further than stated at any
horizon, over what the shortest one has (that is noise of the start). Servos hold their joints against loads: for them
only horizons up to a tenth of a second count. Model error of other signals (poses of objects, torques) is not played.
"""

from __future__ import annotations

import math

import numpy as np

from twinproof.nouns.belief import Discrepancy
from twinproof.nouns.randomization import Randomization
from twinproof.tasks.backing import Backing
from twinproof.tasks.machine import Machine, joint_places
from twinproof.tasks.sensed import Array

HELD_S, PERSISTS_S = 0.1, 1.0
FIRST, NEXT = 10, 9  # purposes of random numbers


class Astray:
    """The loads of every world, of which each episode begins with its own."""

    def __init__(self, backing: Backing, machine: Machine, kicks: np.ndarray) -> None:
        self._backing, self._kicks = backing, backing.array(kicks)
        self._at = backing.array(joint_places(backing.model, machine.joints)[1])
        self._stays = kept_of(machine)
        self._load: Array = None

    def begin(self, mask: Array) -> None:
        """New loads where episodes begin."""
        fresh = self._backing.noise.normal(len(self._at), FIRST)
        self._load = fresh if self._load is None else self._backing.xp.where(mask[:, None], fresh, self._load)

    def push(self) -> None:
        """A tick of the loads, on the joints' speeds."""
        new = self._backing.noise.normal(len(self._at), NEXT)
        self._load = self._stays * self._load + (1 - self._stays**2) ** 0.5 * new
        speed, at = self._backing.view("qvel"), self._at
        speed[:, at] = speed[:, at] + self._kicks * self._load


def astray(draws: object, machine: Machine, backing: Backing) -> Astray | None:
    """What plays the model error of draws; None where they state none."""
    kicks = kicks_of(draws, machine)
    return Astray(backing, machine, kicks) if kicks.any() else None


def kicks_of(draws: object, machine: Machine) -> np.ndarray:
    """The sd (J,) of what a tick adds to each joint's speed, rad/s or m/s, as strong as the randomisation is; zero
    where no position is stated, or where draws are no randomisation."""
    found = np.zeros(len(machine.joints))
    if not isinstance(draws, Randomization):
        return found
    for k, (name, unit) in enumerate(zip(machine.joints, _units(machine), strict=True)):
        mine = [each for each in draws.discrepancy if each.signal.rpartition(".")[2] == name and each.unit == unit]
        found[k] = draws.strength * max((_kick(each, machine) for each in mine), default=0.0)
    return found


def kept_of(machine: Machine) -> float:
    """The share of a load that a tick leaves."""
    return float(np.exp(-1 / (machine.rate_hz * PERSISTS_S)))


def _units(machine: Machine) -> list[str]:
    return ["m" if unit in ("m", "N") else "rad" for unit in machine.command_units]


def _kick(error: Discrepancy, machine: Machine) -> float:
    horizon_s, sd = np.array(error.horizon_s), np.array(error.sd)
    last = len(sd) if machine.torque_driven else max(2, int((horizon_s <= HELD_S + 1e-9).sum()))
    grown = np.square(sd[:last])
    strayed = np.array([strays(float(each), machine) for each in horizon_s[:last]])
    more, length = grown[1:] - grown[0], strayed[1:] - strayed[0]
    if not len(more) or (more <= 0).any() or (length <= 0).any():
        return 0.0
    return float(np.sqrt((more / length).min()))


def strays(horizon_s: float, machine: Machine) -> float:
    """The variance of where a free joint is after a while, s², for loads that change its speed by 1 a tick."""
    ticks = math.ceil(horizon_s * machine.rate_hz - 1e-9)
    lasts = horizon_s - np.arange(ticks) / machine.rate_hz  # s for which each tick's change has acted
    kept, before, total = kept_of(machine), 0.0, 0.0
    for each in lasts.tolist():
        before *= kept  # what acted earlier, as far as this tick's load goes with it
        total += each * (each + 2 * before)
        before += each
    return total
