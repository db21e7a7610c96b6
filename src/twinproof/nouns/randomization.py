"""A randomisation: what stays uncertain, as ranges that training draws from, each with its source and reason.

randomization.json   for each parameter: range, source, the gap it covers, the check that tests it, the reason
draws.npz            joint draws (N × K) of the parameters that belong together, so that correlations are kept
drive.npz            arrays of the posterior's drive, where it has one with arrays (nouns/drive.py)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from twinproof.nouns.artifact import Artifact, read_arrays, write_arrays
from twinproof.nouns.belief import Discrepancy
from twinproof.nouns.drive import Drive
from twinproof.nouns.errors import RandomizationError
from twinproof.nouns.frozen import Frozen, frozen_array, settle
from twinproof.nouns.hashing import Json, hash_array
from twinproof.nouns.ledger import LedgerHead
from twinproof.nouns.posterior import Posterior
from twinproof.nouns.source import Inferred, Source
from twinproof.nouns.theta import ParameterInfo, Theta

Gap = Literal["visual", "camera", "dynamics", "sensor", "geometry", "initial"]


@dataclass(frozen=True)
class Range:
    """Where one parameter may lie, in SI units, inside its physical limits, and why we say so."""

    parameter: ParameterInfo
    low: float
    high: float
    point: float  # the best single value; strength 0
    source: Source
    gap: Gap
    approximates: str  # the real variable: "friction between cube and table"
    check: str  # the test that would find it wrong: "posterior predictive of pose tracks on validation"
    reason: str  # for people

    def __post_init__(self) -> None:
        limits = self.parameter
        if not limits.low <= self.low <= self.point <= self.high <= limits.high:
            raise RandomizationError(
                f"{self.id}: the range {self.low:.6g} to {self.high:.6g} around {self.point:.6g} {limits.unit} is out "
                f"of order or leaves the physical limits {limits.low:.6g} to {limits.high:.6g}."
            )
        for name in ("approximates", "check", "reason"):
            if not getattr(self, name).strip():
                raise RandomizationError(f"{self.id}: the range lacks {name!r}. Say it in a few words.")

    @property
    def id(self) -> str:
        """The parameter's id."""
        return self.parameter.id

    def at(self, strength: float) -> Range:
        """The range stretched about its point, on the parameter's natural scale, and cut at the physical limits."""
        ends = np.clip(
            _stretch(self, np.array([self.low, self.high]), strength), self.parameter.low, self.parameter.high
        )
        # exp(log(x)) may miss x by a rounding, so the point itself bounds both ends.
        return replace(self, low=float(min(ends[0], self.point)), high=float(max(ends[1], self.point)))


@dataclass(frozen=True, eq=False)
class Randomization(Artifact):
    """Ranges, and joint draws where parameters belong together. A draw is absolute values for the nominal twin.

    Parameters in `joint` are drawn together, a row of `draws` at a time; every other evenly over its range.
    """

    NAME: ClassVar = "randomization"
    ERROR: ClassVar = RandomizationError
    PARTS: ClassVar = ("draws", "drive")

    ranges: tuple[Range, ...]
    parents: Mapping[str, str]  # "posterior" -> hash, "twin" -> hash, "split" -> hash
    joint: tuple[str, ...] = ()
    draws: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))  # N × K, equally weighted, columns as in joint
    strength: float = 1.0  # 0: the point estimate, 1: as inferred, above: wider
    episodes: tuple[str, ...] = ()  # validation episodes that widened a range
    discrepancy: tuple[Discrepancy, ...] = ()  # model error to be drawn beside the parameters
    drive: Drive | None = None  # the posterior's: what moves the twin beside its parameters
    seed: int = 0
    ledger: LedgerHead | None = None

    def __post_init__(self) -> None:
        settle(self, draws=frozen_array(self.draws), parents=Frozen(self.parents))
        ids = [entry.id for entry in self.ranges]
        if not ids or len(set(ids)) != len(ids):
            raise RandomizationError(f"each parameter has one range, and there is at least one; found {ids}.")
        unknown = [id for id in self.joint if id not in ids]
        if unknown or len(set(self.joint)) != len(self.joint):
            raise RandomizationError(f"joint parameters {list(self.joint)}: each needs a range and stands once.")
        if not 0 <= self.strength < np.inf:
            raise RandomizationError(f"the strength is {self.strength}; it is 0 or more.")
        _check_draws(self)

    @cached_property
    def _by_id(self) -> dict[str, Range]:
        return {entry.id: entry for entry in self.ranges}

    def range(self, id: str) -> Range:
        """The range of one parameter."""
        if id not in self._by_id:
            raise RandomizationError(f"{id!r} is not randomised; randomised are {', '.join(self._by_id)}.")
        return self._by_id[id]

    def draw(self, rng: np.random.Generator) -> Theta:
        """One value for every parameter: a row of the joint draws, and the rest evenly over their ranges."""
        values: dict[str, float] = {}
        if self.joint:
            row = self.draws[rng.integers(len(self.draws))]
            values = dict(zip(self.joint, row.tolist(), strict=True))
        for entry in self.ranges:
            if entry.id not in values:
                low, high = entry.parameter.to_scale(np.array([entry.low, entry.high]))
                value = float(entry.parameter.from_scale(rng.uniform(low, high)))
                values[entry.id] = min(max(value, entry.low), entry.high)  # exp(log(x)) may miss x by a rounding
        return Theta(values)

    def point(self) -> Theta:
        """The best single value of every parameter."""
        return Theta({entry.id: entry.point for entry in self.ranges})

    def at(self, strength: float, *, only: Collection[str] | None = None) -> Randomization:
        """The same, narrower or wider: 0 is the point, 1 this, 2 twice as wide; or only these parameters are. Draws
        that leave the physical limits are left out, and ranges end there."""
        if not 0 <= strength < np.inf:
            raise RandomizationError(f"the strength {strength} was asked for; it is 0 or more.")
        chosen = set(self._by_id) if only is None else set(only)
        rows = np.array(self.draws)
        ranges = tuple(entry.at(strength) if entry.id in chosen else entry for entry in self.ranges)
        stretched = {entry.id: entry for entry in ranges if entry.id in chosen}
        keep = np.ones(len(rows), dtype=bool)
        for k, id in enumerate(self.joint):
            if id not in chosen:
                continue
            rows[:, k] = _stretch(self.range(id), rows[:, k], strength)
            keep &= self.range(id).parameter.contains(rows[:, k])
            rows[:, k] = np.clip(rows[:, k], stretched[id].low, stretched[id].high)  # by a rounding at most
        if self.joint and not keep.any():
            raise RandomizationError(
                f"at strength {strength} every joint draw leaves the physical limits. Ask for less."
            )
        of_all = self.strength * strength if only is None else self.strength
        return replace(self, ranges=ranges, draws=rows[keep], strength=of_all)

    def check_twin(self, hash: str) -> None:
        """The ranges are of this twin, where they name one."""
        known = self.parents.get("twin", hash)
        if known != hash:
            raise RandomizationError(
                f"the randomization belongs to the twin {known[:16]}, and {hash[:16]} was given. Give that one, or "
                "make ranges for this one with `twinproof randomize`."
            )

    def covers(self, posterior: Posterior) -> dict[str, float]:
        """For each parameter that both know: the share of the posterior, for a new instance, inside the range."""
        rows = dict(zip(posterior.ids, posterior.new_instance_draws.T, strict=True))
        found = {}
        for entry in self.ranges:
            if entry.id in rows:
                inside = (rows[entry.id] >= entry.low) & (rows[entry.id] <= entry.high)
                found[entry.id] = float(posterior.weights[inside].sum())
        return found

    def check_covers(self, posterior: Posterior) -> None:
        """Every range that was inferred from this posterior covers the share of it that its source states."""
        shares = self.covers(posterior)
        for entry in self.ranges:
            if isinstance(entry.source, Inferred) and entry.source.hash == posterior.hash:
                stated, found = entry.source.share or 0.0, shares.get(entry.id, 0.0)
                if found < stated - 1e-9:
                    raise RandomizationError(
                        f"{entry.id}: the range {entry.low:.6g} to {entry.high:.6g} covers {found:.3f} of the "
                        f"posterior, its source states {stated:.3f}. Widen the range, or state what it covers."
                    )

    def head(self) -> dict[str, Json]:
        return super().head() if self.drive is None else {**super().head(), "drive": self.drive.head()}

    def part_hashes(self) -> dict[str, str]:
        own = {"draws": hash_array(self.draws)}
        return own if self.drive is None else {**own, **self.drive.part_hashes()}

    def write_parts(self, folder: Path) -> None:
        write_arrays(folder / "draws.npz", {"draws": self.draws})
        if self.drive is not None:
            self.drive.write(folder)

    @classmethod
    def read_parts(cls, folder: Path, head: Mapping[str, Json]) -> dict[str, Any]:
        drive = Drive.read(folder, head["drive"], RandomizationError) if "drive" in head else None
        return {"draws": read_arrays(folder / "draws.npz", RandomizationError)["draws"], "drive": drive}


def _stretch(entry: Range, values: np.ndarray, strength: float) -> np.ndarray:
    centre = entry.parameter.to_scale(entry.point)
    return entry.parameter.from_scale(centre + strength * (entry.parameter.to_scale(values) - centre))


def _check_draws(randomization: Randomization) -> None:
    rows, joint = randomization.draws, randomization.joint
    if rows.ndim != 2 or rows.shape[1] != len(joint) or (joint and not len(rows)):
        raise RandomizationError(
            f"joint draws have shape {rows.shape}; {len(joint)} joint parameters need at least one row of {len(joint)}."
        )
    for k, id in enumerate(joint):
        entry = randomization.range(id)
        outside = ~((rows[:, k] >= entry.low) & (rows[:, k] <= entry.high))
        if outside.any():
            i = int(np.argmax(outside))
            raise RandomizationError(
                f"{id}: joint draw {i} is {rows[i, k]:.6g}, outside its range {entry.low:.6g} to {entry.high:.6g} "
                f"({int(outside.sum())} of {len(rows)} such). Leave such draws out, or widen the range."
            )
