"""What a hand-made placement or scale decides: figures of the twin while it is moved through its declared range.

A placement that a person declared is a guess with a range. `study` builds the twin anew for values across that range,
one knob at a time and then all at once at random, asks for the figures, and says in sentences and a table what moves.

make(offset) -> thing     the twin (or anything else) with the declared placement moved by `offset`
figures(thing) -> {name: number}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from twinproof.nouns.errors import ConfigError, TwinproofError
from twinproof.nouns.hashing import Json
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.randomness import stream

if TYPE_CHECKING:
    from jaxtyping import Float

Thing = TypeVar("Thing")
FORMAT = "twinproof/sensitivity/1"
KNOBS = {"x": "m", "y": "m", "z": "m", "roll": "rad", "pitch": "rad", "yaw": "rad", "scale": ""}
SHOWN = {"m": (1e3, "mm"), "rad": (float(np.degrees(1)), "°"), "": (100.0, "%")}  # how a unit is printed
SMALL = 0.01  # share of a figure's value that counts as a move where no tolerance is given
BENT = 0.2  # share of the span by which a figure may leave a straight line and still be called straight


@dataclass(frozen=True)
class Offset:
    """A change of a placement: shifts along the world's axes (m), turns about them through the thing's origin (rad,
    applied roll, pitch, yaw), and a change of scale as a share (0.02 is 2 % larger)."""

    x: float = 0.0
    y: float = 0.0
    z: float = 0.0
    roll: float = 0.0
    pitch: float = 0.0
    yaw: float = 0.0
    scale: float = 0.0

    def moved(self, T_world_object: Float[np.ndarray, "4 4"]) -> Float[np.ndarray, "4 4"]:
        """The pose after the change. The scale is the caller's to apply: 1 + `scale` times the old one."""
        from scipy.spatial.transform import Rotation

        pose = np.array(T_world_object, float)
        turn = Rotation.from_euler("xyz", (self.roll, self.pitch, self.yaw)).as_matrix()
        pose[:3, :3] = turn @ pose[:3, :3]
        pose[:3, 3] += (self.x, self.y, self.z)
        return pose


@dataclass(frozen=True)
class DeclaredRange:
    """How far the truth may lie from what was declared, to either side; 0 is sure. `what` names it in sentences."""

    what: str
    x: float = 0.0
    y: float = 0.0
    z: float = 0.0
    roll: float = 0.0
    pitch: float = 0.0
    yaw: float = 0.0
    scale: float = 0.0

    def __post_init__(self) -> None:
        for name, unit in KNOBS.items():
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= 0) or (name == "scale" and value >= 1):
                raise ConfigError(
                    f"{self.what}: the range of {name} is {value} {unit}. A range is 0 or more to either side, and "
                    "that of the scale a share below 1."
                )
        if not self.free:
            raise ConfigError(
                f"{self.what}: every range is 0, so there is nothing to study. Say how far it may be off."
            )

    @property
    def free(self) -> tuple[str, ...]:
        """The knobs that may move."""
        return tuple(name for name in KNOBS if getattr(self, name) > 0)


@dataclass(frozen=True, eq=False)
class Curve:
    """One figure over one knob. `values` are nan where the twin could not be built; `refused` says why."""

    knob: str
    figure: str
    at: Float[np.ndarray, "S"]
    values: Float[np.ndarray, "S"]
    tolerance: float
    refused: str = ""

    @property
    def span(self) -> float:
        """Greatest less least value; 0 where nothing could be built."""
        known = self.values[np.isfinite(self.values)]
        return float(np.ptp(known)) if len(known) else 0.0

    @property
    def moves(self) -> bool:
        """Whether it matters."""
        return self.span > self.tolerance

    @property
    def slope(self) -> float:
        """Change of the figure for one unit of the knob, by least squares."""
        known = np.isfinite(self.values)
        return float(np.polyfit(self.at[known], self.values[known], 1)[0]) if known.sum() > 1 else 0.0

    @property
    def shape(self) -> str:
        """How the figure follows the knob."""
        known = np.isfinite(self.values)
        at, values = self.at[known], self.values[known]
        if not self.moves or len(at) < 3:
            return "flat" if not self.moves else "two values only"
        jump = max(abs(b - a) for a, b in pairwise(values))
        if len(at) >= 4 and jump > 0.8 * self.span:
            return "a cliff"
        off = np.abs(np.polyval(np.polyfit(at, values, 1), at) - values).max()
        if off <= BENT * self.span:
            return "straight"
        return "best where declared" if min(values[0], values[-1]) >= values[len(values) // 2] else "bent"


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """All curves, and the figures' spread when all knobs move at once (5 % and 95 % quantiles)."""

    declared: DeclaredRange
    base: Mapping[str, float]
    curves: tuple[Curve, ...]
    together: Mapping[str, tuple[float, float]]
    failed: int  # draws of all knobs that could not be built
    draws: int

    def sentences(self) -> tuple[str, ...]:
        """What moves, the strongest first; then what does not, and what could not be built."""
        said = []
        for curve in sorted((one for one in self.curves if one.moves), key=lambda one: -one.span / one.tolerance):
            low, high = np.nanmin(curve.values), np.nanmax(curve.values)
            said.append(
                f"{curve.figure} runs from {low:.4g} to {high:.4g} ({self.base[curve.figure]:.4g} as declared) when "
                f"{self.declared.what} is off by up to {_shown(getattr(self.declared, curve.knob), curve.knob)} in "
                f"{curve.knob}: {curve.shape}."
            )
        still = [name for name in self.base if not any(one.moves for one in self.curves if one.figure == name)]
        if still:
            said.append(f"{', '.join(still)}: no knob of {self.declared.what} moves it beyond its tolerance.")
        for knob in self.declared.free:
            why = next((one.refused for one in self.curves if one.knob == knob and one.refused), "")
            if why:
                said.append(f"{knob} cannot be varied over its whole range: {why}")
        for name, (low, high) in self.together.items():
            tolerance = next(one.tolerance for one in self.curves if one.figure == name)
            if high - low > tolerance:
                said.append(
                    f"With all knobs at once {name} lies between {low:.4g} and {high:.4g} in nine cases of ten."
                )
        if self.failed:
            said.append(f"{self.failed} of {self.draws} draws of all knobs could not be built.")
        return tuple(said)

    def table(self) -> str:
        """Markdown: a row for every figure and knob."""
        rows = [
            "| figure | knob | off by up to | least | declared | greatest | shape |",
            "|---|---|---|---|---|---|---|",
        ]
        for one in self.curves:
            low, high = (f"{f(one.values):.4g}" for f in (np.nanmin, np.nanmax))  # the declared value is always there
            reach = _shown(getattr(self.declared, one.knob), one.knob)
            base = self.base[one.figure]
            rows.append(f"| {one.figure} | {one.knob} | ± {reach} | {low} | {base:.4g} | {high} | {one.shape} |")
        return "\n".join(rows)

    def report(self) -> dict[str, Json]:
        """For a JSON file; values that could not be had are null."""
        curves: list[Json] = [
            {
                "figure": one.figure, "knob": one.knob, "unit": KNOBS[one.knob] or "share", "at": one.at.tolist(),
                "values": [None if np.isnan(v) else float(v) for v in one.values], "tolerance": one.tolerance,
                "moves": one.moves, "shape": one.shape, "slope": one.slope, "refused": one.refused,
            }
            for one in self.curves
        ]  # fmt: skip
        return {
            "format": FORMAT,
            "declared": {"what": self.declared.what, **{name: getattr(self.declared, name) for name in KNOBS}},
            "base": dict(self.base),
            "curves": curves,
            "together": {name: list(ends) for name, ends in self.together.items()},
            "draws": self.draws,
            "failed": self.failed,
            "sentences": list(self.sentences()),
        }


def study(
    make: Callable[[Offset], Thing],
    figures: Callable[[Thing], Mapping[str, float]],
    declared: DeclaredRange,
    tolerances: Mapping[str, float] | None = None,
    steps: int = 5,
    draws: int = 16,
    seed: int = 0,
    progress: Progress = quiet,
) -> Sensitivity:
    """The figures over the declared range: `steps` values of each knob, then `draws` of all at once.

    `tolerances` say from what change on a figure matters; without one it is 1 % of the figure's value. A twin that
    cannot be built somewhere in the range (it interpenetrates, say) is a result and not an error; at the declared value
    itself it is one.
    """
    if steps < 3 or steps % 2 == 0 or draws < 0:
        raise ConfigError(
            f"{steps} steps and {draws} draws; needed is an odd number of steps, 3 at least, and no less than 0."
        )
    base = _checked(figures(make(Offset())), None)
    limits = {name: float((tolerances or {}).get(name, max(1e-12, SMALL * abs(value)))) for name, value in base.items()}
    unknown = sorted(set(tolerances or {}) - set(base))
    if unknown or not all(limit > 0 for limit in limits.values()):
        raise ConfigError(
            f"tolerances for {', '.join(unknown) or 'figures'} cannot be: known figures are {', '.join(base)}, and a "
            "tolerance is positive."
        )
    total, done = len(declared.free) * (steps - 1) + draws, 0
    curves = list[Curve]()
    for knob in declared.free:
        at = np.linspace(-1, 1, steps) * getattr(declared, knob)
        rows, why = list[Mapping[str, float] | None](), ""
        for value in at:
            if value == 0:
                rows.append(base)
                continue
            row, problem = _tried(make, figures, Offset(**{knob: float(value)}), base)
            why = why or problem
            rows.append(row)
            done += 1
            progress(done, f"{knob} {_shown(float(value), knob)}", total)
        for name in base:
            values = np.array([np.nan if row is None else row[name] for row in rows])
            curves.append(Curve(knob, name, at, values, limits[name], why))
    found = list[Mapping[str, float]]()
    rng = stream(seed, "sensitivity")
    for _ in range(draws):
        offset = Offset(**{knob: float(rng.uniform(-1, 1) * getattr(declared, knob)) for knob in declared.free})
        row, _ = _tried(make, figures, offset, base)
        found += [] if row is None else [row]
        done += 1
        progress(done, "all knobs", total)
    together = {
        name: (
            float(np.quantile([row[name] for row in found], 0.05)),
            float(np.quantile([row[name] for row in found], 0.95)),
        )
        for name in base
        if found
    }
    return Sensitivity(declared, base, tuple(curves), together, draws - len(found), draws)


def _tried(
    make: Callable[[Offset], Thing],
    figures: Callable[[Thing], Mapping[str, float]],
    offset: Offset,
    base: Mapping[str, float],
) -> tuple[Mapping[str, float] | None, str]:
    """The figures, or why there are none."""
    try:
        row = figures(make(offset))
    except TwinproofError as problem:
        return None, str(problem)
    return _checked(row, base), ""


def _checked(row: Mapping[str, float], base: Mapping[str, float] | None) -> dict[str, float]:
    plain = {name: float(value) for name, value in row.items()}
    if not plain or (base is not None and set(plain) != set(base)):
        raise ConfigError(
            f"the figures are {', '.join(plain) or 'none'}; needed are the same ones every time, one at least: "
            f"{', '.join(base or {}) or 'none were given'}."
        )
    bad = [name for name, value in plain.items() if not np.isfinite(value)]
    if bad:
        raise ConfigError(f"the figures {', '.join(bad)} are not finite. Leave them out, or say a number for failure.")
    return plain


def _shown(value: float, knob: str) -> str:
    factor, unit = SHOWN[KNOBS[knob]]
    return f"{factor * value:.3g} {unit}"
