"""Ranges as people set them by hand, without looking at data: the baseline that posterior ranges have to beat.

Factors about the nominal value are what public sim-to-real work uses for arms (masses by a third, friction and damping
by three, gains by a quarter, delays up to 40 ms); they were written down before any policy was scored with them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twinproof.nouns.randomization import Range
from twinproof.nouns.source import Declared
from twinproof.nouns.theta import ParameterInfo
from twinproof.randomize.meaning import meaning
from twinproof.sim.parameters.resolve import nominal_value, parameter

FACTORS = {
    "mass": (0.7, 1.3),
    "damping": (1 / 3, 3.0),
    "frictionloss": (1 / 3, 3.0),
    "armature": (0.5, 2.0),
    "gain": (0.8, 1.25),
    "friction": (0.5, 2.0),
    "friction_slide": (0.5, 2.0),
}
AROUND = {"tilt_x": 0.05, "tilt_y": 0.05, "offset": 0.03}  # rad to either side
DELAY_S = 0.04
OTHER = (0.5, 2.0)
FLOOR = 0.05  # where the nominal is zero: this share of what was thought possible


def hand_set(
    parameters: Sequence[ParameterInfo], model: Any, *, about: Mapping[str, float] | None = None
) -> tuple[Range, ...]:
    """A wide range about the nominal value for every one of these, or about another that is given by its id; `model` is
    the nominal one."""
    return tuple(_range(info, model, (about or {}).get(info.id)) for info in parameters)


def _range(info: ParameterInfo, model: Any, about: float | None) -> Range:
    id, quantity = info.id, info.id.rpartition(".")[2]
    nominal = about if about is not None else 0.0 if quantity == "delay" else nominal_value(model, parameter(id))
    if quantity == "delay":
        low = 0.0 if about is None else about - DELAY_S / 2
        high = low + DELAY_S
    elif quantity in AROUND:
        low, high = nominal - AROUND[quantity], nominal + AROUND[quantity]
    else:
        least, most = FACTORS.get(quantity, OTHER)
        low, high = sorted((least * nominal, most * nominal))
        high = max(high, FLOOR * min(info.high, 1.0))
    low, high = max(low, info.low), min(high, info.high)
    known = "the nominal model" if about is None else f"{about:.3g} {info.unit}, which data told"
    reason = f"a wide range about {known}; its width is set by hand without looking at data"
    check = "success in reality, beside ranges that were inferred"
    return Range(info, low, high, min(max(nominal, low), high), Declared(reason), meaning(id).gap, id, check, reason)
