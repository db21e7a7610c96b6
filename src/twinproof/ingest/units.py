"""Units of sources and the factor to SI. Conversion happens here and in `view`, nowhere between."""

from __future__ import annotations

import math

from twinproof.nouns.errors import RigError

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


def to_si(unit: str, where: str) -> tuple[str, float]:
    """The SI unit and the factor that a value in `unit` is multiplied by."""
    if unit not in UNITS:
        raise RigError(f"{where}: unit {unit!r} is unknown. Use one of {', '.join(UNITS)}.")
    return UNITS[unit]
