"""Units of sources and the factor to SI. Conversion happens here and in `view`, nowhere between."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from twinproof.nouns.errors import RigError

if TYPE_CHECKING:
    from twinproof.nouns.rig import Joint

# source unit -> (SI unit, factor)
UNITS: dict[str, tuple[str, float]] = {
    "rad": ("rad", 1.0),
    "deg": ("rad", math.pi / 180),
    "rev": ("rad", 2 * math.pi),
    "rad/s": ("rad/s", 1.0),
    "deg/s": ("rad/s", math.pi / 180),
    "rpm": ("rad/s", 2 * math.pi / 60),
    "rad/s^2": ("rad/s^2", 1.0),
    "m": ("m", 1.0),
    "cm": ("m", 1e-2),
    "mm": ("m", 1e-3),
    "m/s": ("m/s", 1.0),
    "mm/s": ("m/s", 1e-3),
    "m/s^2": ("m/s^2", 1.0),
    "g0": ("m/s^2", 9.80665),
    "kg": ("kg", 1.0),
    "g": ("kg", 1e-3),
    "N": ("N", 1.0),
    "mN": ("N", 1e-3),
    "N m": ("N m", 1.0),
    "Nm": ("N m", 1.0),
    "mN m": ("N m", 1e-3),
    "mNm": ("N m", 1e-3),
    "A": ("A", 1.0),
    "mA": ("A", 1e-3),
    "V": ("V", 1.0),
    "s": ("s", 1.0),
    "ms": ("s", 1e-3),
    "K": ("K", 1.0),
    "Pa": ("Pa", 1.0),
    "1": ("1", 1.0),
    "%": ("1", 1e-2),
}
# A joint's place between its ends, as servo buses count it: what stands for the low and the high end, and the SI unit.
OF_RANGE: dict[str, tuple[float, float, str]] = {
    "% of range": (0.0, 100.0, "rad"),
    "±% of range": (-100.0, 100.0, "rad"),
    "% of range in m": (0.0, 100.0, "m"),
}
PLACES = ("joint_position", "joint_command", "gripper")


def to_si(unit: str, where: str) -> tuple[str, float]:
    """The SI unit and the factor that a value in `unit` is multiplied by."""
    if unit not in UNITS:
        raise RigError(f"{where}: unit {unit!r} is unknown. Use one of {', '.join([*UNITS, *OF_RANGE])}.")
    return UNITS[unit]


def to_joint(unit: str, kind: str, joint: Joint, where: str) -> tuple[str, float, float]:
    """The SI unit, the factor and what is added then: from the source's numbers to the joint as the model counts it."""
    if unit in OF_RANGE:
        si, factor, shift = _of_range(unit, kind, joint, where)
    else:
        si, factor = to_si(unit, where)
        shift = 0.0
    if joint.sign == -1:
        # Counted from its other end, a place between the ends stays between them.
        shift = sum(joint.range) - shift if unit in OF_RANGE and joint.range else -shift
        factor = -factor
    if joint.zero is not None and si in ("rad", "m"):
        shift += joint.zero
    return si, factor, shift


def _of_range(unit: str, kind: str, joint: Joint, where: str) -> tuple[str, float, float]:
    if kind not in PLACES:
        raise RigError(
            f"{where}: {unit!r} is a joint's place, and {joint.name!r} is read as {kind} here. State its unit."
        )
    if joint.range is None:
        raise RigError(
            f"{where}: {joint.name!r} is given in {unit!r}, and the rig does not say its range. Add "
            f"range = [low, high], in rad or m as the model has it, to its [[joints]]."
        )
    if joint.zero is not None:
        raise RigError(f"{where}: {joint.name!r} is given in {unit!r}, which its range places; leave out zero.")
    low, high, si = OF_RANGE[unit]
    factor = (joint.range[1] - joint.range[0]) / (high - low)
    return si, factor, joint.range[0] - low * factor
