"""Ranges that a person states, in TOML: one table for each id or pattern of ids.

["body.cube.push"]             # an id, or a pattern: "light.*.diffuse"
low = 0.0                      # in SI units …
high = 2.0
reason = "people walk past and bump the table"

["light.*.diffuse"]
times = [0.5, 1.5]             # … or as factors on the nominal value; `plus = [-0.1, 0.1]` adds to it
reason = "blinds open and closed"

["body.cube.mass"]
low = 0.31
high = 0.33
measured = "kitchen scale, 1 g"
replace = true                 # instead of what was inferred
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from twinproof.nouns.errors import RandomizationError
from twinproof.nouns.randomization import Range
from twinproof.nouns.source import Declared, Measured, Source
from twinproof.nouns.strict import build
from twinproof.randomize.meaning import meaning, sentence
from twinproof.sim.parameters.base import Parameter
from twinproof.sim.parameters.resolve import matching, nominal_value, parameter


@dataclass(frozen=True)
class Extra:
    """A stated range. `times` and `plus` are relative to the nominal value, `low` and `high` are not."""

    id: str
    reason: str = ""
    low: float | None = None
    high: float | None = None
    times: tuple[float, float] | None = None
    plus: tuple[float, float] | None = None
    point: float | None = None
    measured: str = ""
    check: str = ""
    replace: bool = False

    def __post_init__(self) -> None:
        ends = self.low is not None and self.high is not None
        ways = [ends, self.times is not None, self.plus is not None]
        if sum(ways) != 1 or (self.low is None) != (self.high is None):
            raise RandomizationError(
                f"{self.id}: a stated range has low and high, or times, or plus: one of the three. "
                f"Found low {self.low}, high {self.high}, times {self.times}, plus {self.plus}."
            )
        if not (self.reason.strip() or self.measured.strip()):
            raise RandomizationError(
                f"{self.id}: the range does not say where it comes from. Add reason = '…', or measured = 'instrument'."
            )

    @property
    def source(self) -> Source:
        """Measured where an instrument is named, else declared."""
        return Measured(self.measured) if self.measured.strip() else Declared(self.reason)

    def ranges(self, model: Any) -> tuple[Range, ...]:
        """The range of every parameter that is meant. A pattern, `times` and `plus` need a model."""
        if model is None and ("*" in self.id or self.low is None):
            raise RandomizationError(
                f"{self.id}: patterns, times and plus are relative to a scene, and none was given. Name the twin."
            )
        if model is None or "*" not in self.id:
            return (self._range(parameter(self.id), model),)
        return tuple(self._range(each, model) for each in matching(model, self.id))

    def _range(self, each: Parameter, model: Any) -> Range:
        nominal = None if model is None else nominal_value(model, each)
        if self.low is not None and self.high is not None:
            low, high = self.low, self.high
        else:
            assert nominal is not None
            if self.times and not nominal:
                raise RandomizationError(
                    f"{each.id} is 0 in this model, and so is every multiple of it. Give plus, or low and high."
                )
            low, high = (nominal * f for f in self.times) if self.times else (nominal + d for d in self.plus or ())
        middle = (
            float(each.info.from_scale(float(np.mean(each.info.to_scale(np.array([low, high]))))))
            if (each.info.contains(low) and each.info.contains(high))
            else low
        )
        most = np.inf if model is None or each.info.unit == "s" else each.most(model)  # room for delays is made
        if each.info.contains(high) and high > most * (1 + 1e-9):
            raise RandomizationError(f"{each.id} goes up to {high:.6g}; this model takes {most:.6g} at most. Lower it.")
        usual = nominal if nominal is not None and low <= nominal <= high else middle
        about = meaning(each.id)
        return Range(
            each.info, float(low), float(high), float(usual if self.point is None else self.point), self.source,
            about.gap, about.approximates, self.check or about.check, sentence(self.reason or self.measured, each.id),
        )  # fmt: skip


def read_extra(path: Path) -> tuple[Extra, ...]:
    """The stated ranges in a TOML file."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RandomizationError(f"{path} does not exist. Write stated ranges there (docs/randomize.md).") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as problem:
        raise RandomizationError(f"{path} is not readable TOML ({problem}). Mend that line.") from None
    found = []
    for id, table in tables.items():
        if not isinstance(table, dict):
            raise RandomizationError(f'{path}: {id!r} is no table. Write ["{id}"] and low, high, reason below it.')
        whole = _whole_id(id, table)
        if whole != id:
            raise RandomizationError(
                f'{path}: [{whole}] reads as tables in tables. Put the whole id in quotes: ["{whole}"].'
            )
        found.append(build(Extra, table, f"{path}: {id}", RandomizationError, made={"id": id}))
    return tuple(found)


def _whole_id(id: str, table: dict[str, Any]) -> str:
    """The id that somebody meant whose tables lie in tables."""
    nested = [name for name, value in table.items() if isinstance(value, dict)]
    return _whole_id(f"{id}.{nested[0]}", table[nested[0]]) if nested else id


def stated(extras: Sequence[Extra], model: Any, inferred: Sequence[str]) -> tuple[tuple[Range, ...], frozenset[str]]:
    """All stated ranges, and the ids among the inferred that they replace."""
    found: dict[str, Range] = {}
    replaced: set[str] = set()
    for extra in extras:
        for entry in extra.ranges(model):
            if entry.id in found:
                raise RandomizationError(f"{entry.id} is stated twice. Leave one of the two out.")
            if entry.id in inferred and not extra.replace:
                raise RandomizationError(
                    f"{entry.id} was inferred, and is stated as well. Leave it out, or write replace = true beneath it."
                )
            found[entry.id] = entry
            replaced |= {entry.id} & set(inferred)
    return tuple(found.values()), frozenset(replaced)
