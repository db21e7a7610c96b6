"""What is believed about parameters before the fit: which of them vary, between which limits, and what is likely.

Without a word from the user a parameter may lie anywhere in a wide range around its nominal value. That range is
declared, not measured, and the posterior says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from twinproof.nouns.belief import Prior
from twinproof.nouns.errors import ConfigError
from twinproof.nouns.source import Declared, Source
from twinproof.nouns.theta import ParameterInfo
from twinproof.sim.parameters.base import Parameter
from twinproof.sim.parameters.resolve import canonical, matching, nominal_value, parameter
from twinproof.sim.readings import Reading

# what the logs of one episode after another cannot tell: how measurements scatter, how late by chance, how it looks
NEVER = (
    ".noise", ".quantum", ".delay_jitter", ".red", ".green", ".blue", ".texture", ".fovy", ".intensity", ".diffuse",
    ".ambient", ".specular", ".shininess", ".reflectance", ".emission",
)  # fmt: skip
# quantity -> how far from the nominal value it may lie, in its own unit
AROUND = {
    "offset": 0.15, "tilt_x": 0.1, "tilt_y": 0.1, "magnitude": 0.6, "com_x": 0.05, "com_y": 0.05, "com_z": 0.05,
    "inertia_alpha": 0.7, "inertia_d1": 0.7, "inertia_d2": 0.7, "inertia_d3": 0.7, "inertia_s12": 0.5,
    "inertia_s13": 0.5, "inertia_s23": 0.5, "inertia_t1": 0.05, "inertia_t2": 0.05, "inertia_t3": 0.05,
    "range_offset": 0.1,
    "offset_x": 0.02, "offset_y": 0.02, "offset_z": 0.02,
}  # fmt: skip
UP_TO = {"delay": 0.08, "backlash": 0.03, "contact_width": 0.02}  # from zero, or from the parameter's own limit
FACTOR = {"scale": 1.25, "mass": 3.0}  # either way; what has none of its own takes WIDE
WIDE = 4.0
SPEC = re.compile(r"^\s*(?P<pattern>[^=]+?)\s*=\s*(?P<one>[^.±+]\S*?)\s*(?P<how>\.\.|±|\+-|\+/-)\s*(?P<two>\S+?)\s*$")


@dataclass(frozen=True)
class Belief:
    """One parameter: its id with the limits it may not leave, the prior inside them, and its nominal value."""

    info: ParameterInfo
    prior: Prior
    nominal: float

    @property
    def id(self) -> str:
        """The parameter's id."""
        return self.info.id

    @property
    def span(self) -> tuple[float, float]:
        """The limits on the natural scale."""
        low, high = self.info.to_scale(np.array([self.info.low, self.info.high]))
        return float(low), float(high)

    @property
    def width(self) -> float:
        """The prior's sd on the natural scale: of an even prior its range over √12."""
        low, high = self.span
        return float(self.prior.sd or 0.0) if self.prior.shape == "normal" else (high - low) / np.sqrt(12)


@dataclass(frozen=True)
class Stated:
    """What a user states of the parameters that fit a pattern: a range, or a likely value with its sd."""

    pattern: str
    low: float | None = None
    high: float | None = None
    mean: float | None = None
    sd: float | None = None  # in the parameter's unit; of its logarithm times the mean where it is logarithmic
    source: Source = Declared("stated by the user")

    @staticmethod
    def parse(text: str) -> Stated:
        """From `joint.*.damping=0.01..0.5` or `body.cube.mass=0.37+-0.01`."""
        found = SPEC.match(text)
        try:
            if found is None:
                raise ValueError
            one, two = float(found["one"]), float(found["two"])
        except ValueError:
            raise ConfigError(
                f"the prior {text!r} cannot be read. Write a range, 'joint.*.damping=0.01..0.5', or a value with its "
                "sd, 'body.cube.mass=0.37+-0.01'."
            ) from None
        source = Declared(f"stated: {text.strip()}")
        if found["how"] == "..":
            return Stated(found["pattern"], low=one, high=two, source=source)
        return Stated(found["pattern"], mean=one, sd=two, source=source)


def beliefs(
    model: Any,
    patterns: Sequence[str],
    stated: Sequence[Stated] = (),
    start: Mapping[str, float] | None = None,
    signals: Sequence[str] = (),
) -> tuple[Belief, ...]:
    """The parameters of a model that fit the patterns, each with what is believed of it; a later statement wins.

    Nominal values are the model's, or those of `start` where it has one. `signals` are the ids that the recorded
    signals have of their own (`signal.NAME.delay`), which no model lists.
    """
    if not patterns:
        raise ConfigError("no parameters were named. Name some, as in 'joint.*.damping' or 'body.cube.mass'.")
    found: dict[str, Belief] = {}
    start = canonical_values(start or {})
    for pattern in patterns:
        for each in of_signals(pattern, signals) if pattern.startswith("signal.") else matching(model, pattern):
            if each.id.endswith(NEVER) or each.id.split(".")[0] in ("camera", "light", "material"):
                if _wild(pattern):
                    continue
                raise ConfigError(f"{each.id} cannot be identified from motion. Leave it out.")
            if _wild(pattern) and _of_free_joint(model, each.id):
                continue
            nominal = start.get(each.id, 0.0 if each.id.startswith("signal.") else nominal_value(model, each))
            if each.id not in found:
                found[each.id] = Belief(each.info, Prior(Declared("not yet asked")), nominal)
    if not found:
        raise ConfigError(f"{', '.join(patterns)}: none of these can be identified from motion. Name others.")
    _check_once(found)
    stated = [*stated, *_of_objects(model, stated)]
    found = {id: believed(parameter(id).info, belief.nominal, stated) for id, belief in found.items()}
    unused = [
        each.pattern
        for each in stated
        if not each.pattern.startswith("object.") and not any(_fits(each.pattern, id) for id in found)
    ]
    if unused:
        raise ConfigError(
            f"a prior was stated for {unused[0]!r}, which is none of the parameters: {', '.join(found)}. Mend its name."
        )
    return tuple(found[id] for id in sorted(found))


def signal_ids(readings: Iterable[Reading]) -> tuple[str, ...]:
    """The ids that recorded signals have of their own: how late stamps are, and where a tracker's frame lies."""
    found = set()
    for reading in readings:
        quantities = ("delay", "offset_x", "offset_y", "offset_z") if reading.kind == "pose" else ("delay",)
        found |= {f"signal.{reading.name}.{quantity}" for quantity in quantities}
    return tuple(sorted(found))


def of_signals(pattern: str, signals: Sequence[str]) -> list[Parameter]:
    """What a pattern means among the ids of the recorded signals."""
    found = [parameter(id) for id in signals if fnmatchcase(id, pattern)]
    if not found:
        there = f"There are {', '.join(signals)}." if signals else "No recorded signal was given that could have it."
        raise ConfigError(f"{pattern!r} fits no signal that the model can be compared with. {there}")
    return found


def _of_objects(model: Any, stated: Sequence[Stated]) -> list[Stated]:
    """What is stated of object.NAME.QUANTITY, said of the ids that this means in the model."""
    return [
        replace(each, pattern=meant.id)
        for each in stated
        if each.pattern.startswith("object.")
        for meant in matching(model, each.pattern)
    ]


def _of_free_joint(model: Any, id: str) -> bool:
    """Whether a parameter is of a free or ball joint: a pattern for robots' joints does not mean those."""
    kind, _, rest = id.partition(".")
    return kind == "joint" and int(model.joint(rest.rpartition(".")[0]).type[0]) < 2


def canonical_values(values: Mapping[str, float]) -> dict[str, float]:
    """The same under the parameters' own ids."""
    from twinproof.nouns.theta import Theta

    return dict(canonical(Theta(values)))


def _fits(pattern: str, id: str) -> bool:
    return fnmatchcase(id, pattern) or (not _wild(pattern) and parameter(pattern).id == id)


def _wild(pattern: str) -> bool:
    """Whether a pattern may mean several ids."""
    return any(sign in pattern for sign in "*?[")


def _check_once(ids: Iterable[str]) -> None:
    """A body's mass and centre are asked for by themselves, or as parts of its whole inertia, and not both."""
    bodies: dict[str, dict[bool, str]] = {}
    for id in ids:
        kind, _, rest = id.partition(".")
        body, _, quantity = rest.rpartition(".")
        if kind == "body" and quantity.startswith(("mass", "com_", "inertia_")):
            bodies.setdefault(body, {}).setdefault(quantity.startswith("inertia_"), id)
    for body, asked in bodies.items():
        if len(asked) == 2:
            raise ConfigError(
                f"{asked[False]} and {asked[True]} were both asked for, and say the same thing in two ways. Name "
                f"'body.{body}.mass' (and 'body.{body}.com_*'), or the whole 'body.{body}.inertia_*'."
            )


def believed(info: ParameterInfo, nominal: float, stated: Sequence[Stated] = ()) -> Belief:
    """What is believed of one parameter."""
    mine = [each for each in stated if _fits(each.pattern, info.id)]
    if not mine:
        low, high = default_range(info, nominal)
        reason = f"a wide range around the nominal {nominal:.4g}"
        return Belief(replace(info, low=low, high=high), Prior(Declared(reason)), nominal)
    last = mine[-1]
    if last.mean is None or last.sd is None:
        assert last.low is not None
        assert last.high is not None
        low, high = last.low, last.high
        if not (low < high and info.low <= low and high <= info.high):
            raise ConfigError(
                f"{info.id}: the stated range {low:g}..{high:g} must rise and lie inside {info.low:g} to {info.high:g} "
                f"{info.unit}."
            )
        return Belief(replace(info, low=low, high=high), Prior(last.source), min(max(nominal, low), high))
    if not (last.sd > 0 and info.low < last.mean < info.high):
        raise ConfigError(
            f"{info.id}: the stated value {last.mean:g} must lie inside {info.low:g} to {info.high:g} {info.unit}, and "
            f"its sd {last.sd:g} above zero."
        )
    mean, sd = float(info.to_scale(last.mean)), last.sd / last.mean if info.log else last.sd
    low, high = (float(x) for x in info.from_scale(np.array([mean - 6 * sd, mean + 6 * sd])))
    kept = replace(info, low=max(low, info.low), high=min(high, info.high))
    return Belief(kept, Prior(last.source, "normal", mean, sd), last.mean)


def default_range(info: ParameterInfo, nominal: float) -> tuple[float, float]:
    """How far a parameter may lie from its nominal value where nobody says more."""
    quantity = info.id.rpartition(".")[2]
    if quantity in UP_TO:
        slides = quantity == "backlash" and info.id.split(".")[1].endswith(("gripper", "finger"))
        low, high = info.low, max(UP_TO[quantity] / (10 if slides else 1), 2 * nominal)
        if info.id.startswith("signal."):
            low = -high
    elif quantity in AROUND:
        low, high = nominal - AROUND[quantity], nominal + AROUND[quantity]
    elif info.log:
        factor = FACTOR.get(quantity, WIDE)
        low, high = nominal / factor, nominal * factor
    elif info.high <= 1.0 and info.low >= 0.0:
        low, high = info.low, info.high
    elif nominal > 0:
        low, high = 0.0, 5 * nominal
    else:
        raise ConfigError(
            f"{info.id} is {nominal:g} in the model, which says nothing of its size. State a range: "
            f"--prior '{info.id}=LOW..HIGH'."
        )
    return max(low, info.low), min(high, info.high)
