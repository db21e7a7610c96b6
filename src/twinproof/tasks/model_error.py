"""What no parameter explains, as small random changes of the joints' speeds: a posterior's model error, played.

A posterior states, for each signal, how far predictions stray from reality by horizon though its parameters fit best.
Here every tick of every world changes each joint's speed by a random number. Free joints that are kicked by κ a tick
stray by κ · tick · n^(3/2) / √3 after n ticks: κ is the largest that strays no further than stated at any horizon, over
what the shortest one has (that is noise of the start). Servos hold their joints against kicks: for them only horizons
up to a tenth of a second count. Model error of other signals (poses of objects, torques) is not played.
"""

from __future__ import annotations

import numpy as np

from twinproof.nouns.belief import Discrepancy
from twinproof.nouns.randomization import Randomization
from twinproof.tasks.machine import Machine

HELD_S = 0.1
KICK = 9  # a purpose of random numbers


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


def _units(machine: Machine) -> list[str]:
    return ["m" if unit in ("m", "N") else "rad" for unit in machine.command_units]


def _kick(error: Discrepancy, machine: Machine) -> float:
    horizon_s, sd = np.array(error.horizon_s), np.array(error.sd)
    last = len(sd) if machine.torque_driven else max(2, int((horizon_s <= HELD_S + 1e-9).sum()))
    ticks, grown = horizon_s[:last] * machine.rate_hz, np.square(sd[:last])
    more, length = grown[1:] - grown[0], ticks[1:] ** 3 - ticks[0] ** 3
    if not len(more) or (more <= 0).any():
        return 0.0
    return float(np.sqrt(3 * (more / length).min()) * machine.rate_hz)
