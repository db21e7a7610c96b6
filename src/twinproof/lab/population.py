"""Families of things and their instances. Instance k is the same thing in every recording, whatever its seed.

Sizes, masses and frictions of a family spread about its mean as those of bought articles do; a holdout may contain
instances that nobody calibrated on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from twinproof.nouns.errors import ConfigError
from twinproof.nouns.randomness import stream

INSTANCES = 12  # of every family
POPULATION = 2026  # the one seed of all families: never the recording's


@dataclass(frozen=True)
class Family:
    """A kind of thing: mean half sizes, how much they spread, density and friction with their spread (log sd)."""

    name: str
    shape: str  # box | can | tee | drawer
    half_m: tuple[float, float, float]
    spread: float
    density: float
    density_spread: float
    friction: float
    friction_spread: float
    more: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # other values: mean, log sd


@dataclass(frozen=True)
class Instance:
    """One thing: half sizes (a can: radius, radius, half height), mass, sliding friction, colour, other values."""

    name: str
    family: str
    shape: str
    half_m: tuple[float, float, float]
    mass_kg: float
    friction: float
    rgb: tuple[float, float, float]
    more: Mapping[str, float] = field(default_factory=dict)


FAMILIES = {
    "box": Family("box", "box", (0.028, 0.024, 0.042), 0.09, 420.0, 0.25, 0.42, 0.18),
    "can": Family("can", "can", (0.026, 0.026, 0.044), 0.08, 520.0, 0.25, 0.36, 0.18),
    "tee": Family("tee", "tee", (0.045, 0.014, 0.022), 0.07, 460.0, 0.20, 0.45, 0.15),
    "cube": Family("cube", "cube", (0.0225, 0.0225, 0.0225), 0.06, 560.0, 0.20, 0.62, 0.12),
    "drawer": Family(
        "drawer", "drawer", (0.11, 0.12, 0.045), 0.06, 150.0, 0.20, 0.5, 0.1,
        {"frictionloss": (2.2, 0.35), "damping": (7.0, 0.30), "handle_m": (0.035, 0.08)},
    ),
}  # fmt: skip
COLOURS = (
    (0.78, 0.16, 0.13),
    (0.13, 0.36, 0.70),
    (0.88, 0.66, 0.12),
    (0.20, 0.52, 0.26),
    (0.55, 0.24, 0.55),
    (0.85, 0.42, 0.14),
)


def volume_m3(shape: str, half_m: tuple[float, float, float]) -> float:
    """What a thing of this shape displaces; a drawer is walls and floor of 8 mm board."""
    x, y, z = half_m
    match shape:
        case "can":
            return float(np.pi * x * x * 2 * z)
        case "tee":
            return 8 * x * y * z + 8 * y * (x - y) * z  # the bar, and the stem below it
        case _:
            return 8 * x * y * z


@cache
def population(family: str, count: int = INSTANCES) -> tuple[Instance, ...]:
    """The first instances of a family."""
    if family not in FAMILIES:
        raise ConfigError(f"there is no family {family!r}. Use one of {', '.join(FAMILIES)}.")
    return tuple(_draw(FAMILIES[family], k) for k in range(count))


def mean_instance(family: str) -> Instance:
    """What the user believes about every thing of a family."""
    kind = FAMILIES[family]
    mass = kind.density * volume_m3(kind.shape, kind.half_m)
    more = {name: mean for name, (mean, _) in kind.more.items()}
    return Instance(f"{family}_nominal", family, kind.shape, kind.half_m, mass, kind.friction, (0.6, 0.6, 0.6), more)


def instance(name: str) -> Instance:
    """The instance of a name such as `box_03`."""
    family, _, number = name.rpartition("_")
    if family not in FAMILIES or not (number.isascii() and number.isdigit()):
        raise ConfigError(f"there is no object {name!r}. Objects are called FAMILY_NUMBER: {', '.join(FAMILIES)}.")
    if int(number) >= INSTANCES:
        raise ConfigError(
            f"there is no object {name!r}: a family has {INSTANCES}. Use {family}_00 to {family}_{INSTANCES - 1}."
        )
    return _draw(FAMILIES[family], int(number))


def measured(thing: Instance) -> Instance:
    """The same thing as the user knows it: sizes by calliper to a millimetre, mass and friction the family's mean."""
    mean = mean_instance(thing.family)
    half = tuple(round(2000 * h) / 2000 for h in thing.half_m)
    density = FAMILIES[thing.family].density
    known = (half[0], half[1], half[2])
    more = {**mean.more, **({"handle_m": round(thing.more["handle_m"], 3)} if "handle_m" in thing.more else {})}
    mass = density * volume_m3(thing.shape, known)
    return Instance(thing.name, thing.family, thing.shape, known, mass, mean.friction, thing.rgb, more)


def _draw(kind: Family, k: int) -> Instance:
    rng = stream(POPULATION, "lab", "population", kind.name, str(k))
    scale = np.exp(np.clip(rng.normal(0, kind.spread, 3), -2 * kind.spread, 2 * kind.spread))
    x, y, z = (float(h * s) for h, s in zip(kind.half_m, scale, strict=True))
    if kind.shape in ("can", "cube"):
        y = x
    if kind.shape == "cube":
        z = x
    density = kind.density * float(np.exp(np.clip(rng.normal(0, kind.density_spread), -0.5, 0.5)))
    friction = kind.friction * float(np.exp(np.clip(rng.normal(0, kind.friction_spread), -0.4, 0.4)))
    more = {name: mean * float(np.exp(np.clip(rng.normal(0, sd), -0.7, 0.7))) for name, (mean, sd) in kind.more.items()}
    tint = np.clip(np.array(COLOURS[k % len(COLOURS)]) * rng.uniform(0.8, 1.15), 0.05, 0.95)
    half = (x, y, z)
    return Instance(
        f"{kind.name}_{k:02d}", kind.name, kind.shape, half, density * volume_m3(kind.shape, half), friction,
        (float(tint[0]), float(tint[1]), float(tint[2])), more,
    )  # fmt: skip
