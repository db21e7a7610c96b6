"""What a transfer study compares: variants of one randomisation, each saying what is identified and what is drawn.

nominal          the model before any data, nothing of it drawn      neither
wide             hand-set wide ranges about the nominal              randomisation
point            calibration alone: its best values                  identification
stated           the point, with what people stated drawn as well     both, by hand
wide_identified  hand-set wide ranges about those values             both, by hand
posterior        draws of what calibration left open                 both
mild, strong     the same, half and twice as wide                    both
posterior_error  those draws, and what no parameter explains: loads  both
                 on joints as large as the posterior's model error
visual           looks and cameras drawn, dynamics at their point    for policies that see pictures
dynamics         dynamics drawn, looks and cameras at their point    for policies that see pictures

Looks and cameras are drawn wherever something is: nominal, point and dynamics leave them at their point.

wrong_X          the point, but one thing is not as identified       gap analysis: what that costs
wrong_X_wide     the same, drawn about the wrong value               what randomisation wins back

X is friction, mass or noise: wrong by what hand-set ranges are meant to hold, and readings without any noise.

What calibration told are dynamics, and the zeros of encoders where pictures of the robot told them. NAME-on and
NAME-off are variants with and without those zeros: what reconstruction adds to a policy that sees no pictures.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from twinproof.nouns.errors import ConfigError
from twinproof.nouns.hashing import Json
from twinproof.nouns.randomization import Randomization, Range
from twinproof.nouns.source import Declared
from twinproof.nouns.twin import Twin
from twinproof.sim.parameters.base import nearest
from twinproof.tasks.home import home_of
from twinproof.tasks.machine import Machine
from twinproof.tasks.model_error import kicks_of
from twinproof.tasks.named import task_named

HAND = -1.0  # widths by hand, where a strength of the posterior would stand
SEEN = ("visual", "camera")  # gaps that pictures alone show
FRICTIONS = ("friction", "friction_slide", "frictionloss", "damping")
WRONG = {
    "friction": 2.0,
    "mass": 1.25,
    "noise": 0.0,
}  # times what is true; hand-set ranges about it still hold the truth
NOISIER = 2.0  # hand-set noise: from none to so many times the point


@dataclass(frozen=True)
class Way:
    """One way to make worlds: whether identified values are used, how wide what is drawn, and what to call it."""

    identified: bool
    strength: float | None  # 0: the point, 1: the posterior; HAND; None: left out
    said: str
    fixed: tuple[str, ...] = ()  # gaps that stay at their point, for policies that see them
    wrong: str = ""  # what is planted wrong
    about: bool = False  # and drawn about the wrong value
    by_people: bool = False  # of what is told, what people stated is drawn
    error: bool = False  # the posterior's model error is played (tasks/model_error.py)


WAYS = {
    "nominal": Way(False, None, "neither", SEEN),
    "wide": Way(False, HAND, "randomisation, by hand"),
    "point": Way(True, 0.0, "identification", SEEN),
    "stated": Way(True, 0.0, "identification, and what people stated", SEEN, by_people=True),
    "wide_identified": Way(True, HAND, "both, widths by hand"),
    "mild": Way(True, 0.5, "both, half the posterior"),
    "posterior": Way(True, 1.0, "both, the posterior"),
    "strong": Way(True, 2.0, "both, twice the posterior"),
    "posterior_error": Way(True, 1.0, "both, the posterior and its model error", error=True),
    "visual": Way(True, 0.0, "identification, looks drawn"),
    "dynamics": Way(True, 1.0, "both, looks not drawn", SEEN),
    **{f"wrong_{what}": Way(True, 0.0, f"{what} wrong", SEEN, what) for what in WRONG},
    **{f"wrong_{what}_wide": Way(True, 0.0, f"{what} wrong and drawn", SEEN, what, about=True) for what in WRONG},
}
VARIANTS = ("nominal", "wide", "point", "posterior")  # what is compared where nothing else was asked for


@dataclass(frozen=True)
class Plan:
    """What is trained and how often: options of `twinproof train`, and the run whose twin and posterior are used."""

    run: Path
    training: dict[str, Json]
    variants: tuple[str, ...] = VARIANTS
    seeds: int = 5
    imitation: dict[str, Json] | None = None  # of a policy that comes first: training then corrects it

    def __post_init__(self) -> None:
        unknown = [name for name in self.variants if not _known(name)]
        if unknown:
            raise ConfigError(f"there is no variant {unknown[0]!r}. {nearest(unknown[0], list(WAYS))}")
        if len(set(self.variants)) < 2 or len(set(self.variants)) < len(self.variants) or self.seeds < 1:
            raise ConfigError(
                f"a study of {', '.join(self.variants) or 'nothing'} over {self.seeds} seeds cannot compare. Name at "
                f"least two of {', '.join(WAYS)}, each once, and one seed."
            )
        blind = [name for name in self.variants if _by_looks(name)]
        if blind and not self.training.get("cameras"):
            raise ConfigError(
                f"{', '.join(blind)} cannot be told from posterior and point by policies that see no pictures: looks "
                "change nothing for them. Give --cameras, or leave them out."
            )


def _known(name: str) -> bool:
    way, sign, zeros = name.partition("-")
    return way in WAYS and (not sign or zeros in ("on", "off"))


def _by_looks(name: str) -> bool:
    """Whether a variant differs from another one in its looks alone."""
    return name.partition("-")[0] in ("visual", "dynamics")


def _way(name: str) -> Way:
    return WAYS[name.partition("-")[0]]


def trains_with_error(name: str) -> bool:
    """Whether a variant's policies learn while joints stray as the posterior's model error says."""
    return _way(name).error


def with_gaps(plan: Plan) -> Plan:
    """The plan with what a gap analysis needs: point, posterior, and all that its ranges could be wrong about."""
    wrong = gaps(Randomization.load(plan.run / "randomization"))
    more = ("point", "posterior", *(f"wrong_{what}{drawn}" for what in wrong for drawn in ("", "_wide")))
    return replace(plan, variants=tuple(dict.fromkeys((*plan.variants, *more))))


def gaps(base: Randomization) -> list[str]:
    """What a randomisation has ranges of, and could therefore be wrong about."""
    return [what for what in WRONG if any(_is_about(entry, what) for entry in base.ranges)]


def _is_about(entry: Range, what: str) -> bool:
    quantity = entry.id.rpartition(".")[2]
    if what == "noise":
        return entry.gap == "sensor" and quantity.endswith("noise")
    return told(entry) and quantity in (FRICTIONS if what == "friction" else (what,))


def said(name: str) -> str:
    """What a variant stands for, in the words of the table."""
    way, _, zeros = name.partition("-")
    more = {"on": ", zeros from pictures", "off": ", no zeros from pictures", "": ""}[zeros]
    return f"{WAYS[way].said}{more}"


def variants(plan: Plan) -> dict[str, Randomization]:
    """Variant -> what training draws. All share the ranges of sensors and starts; what calibration told differs, and
    looks where policies see pictures."""
    from twinproof.sim.scene import Scene

    twin, base = Twin.load(plan.run / "twin"), Randomization.load(plan.run / "randomization")
    _refuse_what_is_alike(plan, base, twin)
    model = Scene.of(twin).nominal()
    seeing = bool(plan.training.get("cameras"))
    return {name: _varied(base, name, model, seeing) for name in plan.variants}


def _machine(plan: Plan, twin: Twin) -> Machine:
    """What the task drives."""
    home: Any = plan.training.get("home", ())
    return task_named(str(plan.training["task"]), twin, home=home_of(home, twin), relative=True).machine


def _refuse_what_is_alike(plan: Plan, base: Randomization, twin: Twin) -> None:
    """A variant that would be trained as another one is an error."""
    if all(told(entry) for entry in base.ranges):
        raise ConfigError(
            f"{plan.run / 'randomization'} has ranges of dynamics alone; the nominal variant would have none at all. "
            "Make it with --split, so that noise and starts are drawn too."
        )
    if any("-" in name for name in plan.variants) and not any(_zero(entry) for entry in base.ranges):
        raise ConfigError(
            f"pictures told no encoder's zero in {plan.run / 'twin'}: with and without reconstruction are the same "
            "there. Leave --reconstruct out, or name a run whose robot was found in pictures."
        )
    if any(map(_by_looks, plan.variants)) and not any(entry.gap in SEEN for entry in base.ranges):
        raise ConfigError(
            f"{plan.run / 'randomization'} draws no looks and no cameras, so that visual and dynamics would be point "
            "and posterior. Make it with looks (twinproof randomize --looks), or leave them out."
        )
    by_people = any(told(entry) and stated(base, entry) for entry in base.ranges)
    if any(_way(name).by_people for name in plan.variants) and not by_people:
        raise ConfigError(
            f"nobody stated a range of dynamics in {plan.run / 'randomization'}, so that stated would be point. State "
            "one (twinproof randomize --extra), or leave stated out."
        )
    if any(map(trains_with_error, plan.variants)) and not kicks_of(base, _machine(plan, twin)).any():
        raise ConfigError(
            f"{plan.run / 'randomization'} carries no model error that grows with time of a joint that the task "
            "drives, so that posterior_error would be posterior. Leave posterior_error out."
        )
    for what in [way.wrong for way in map(_way, plan.variants) if way.wrong]:
        if what not in gaps(base):
            raise ConfigError(
                f"{plan.run / 'randomization'} has no range of {what}, so that none can be wrong. Identify or state "
                f"one, or leave wrong_{what} out."
            )


def told(entry: Range) -> bool:
    """Whether a range is about what calibration is for, and not about noise or where episodes begin."""
    return entry.gap == "dynamics" or _zero(entry)


def stated(base: Randomization, entry: Range) -> bool:
    """Whether people set a range, so that it is hand-set already. One that data did not determine was inferred."""
    return entry.source.kind != "inferred" and entry.id not in base.joint


def _zero(entry: Range) -> bool:
    return entry.id.endswith(".offset")


def _varied(base: Randomization, name: str, model: Any, seeing: bool) -> Randomization:
    from twinproof.randomize.hand_set import hand_set

    which, _, zeros = name.partition("-")
    way = WAYS[which]
    by_hand, drawn = way.strength == HAND, way.strength not in (None, HAND, 0.0)
    identified = {entry.id for entry in base.ranges if told(entry) and _is_identified(entry, way, zeros)}
    stretched = {id for id in identified if not (way.by_people and stated(base, base.range(id)))}
    made = base.at(way.strength if drawn and way.strength is not None else 0.0, only=stretched)
    made = made.at(0.0, only={entry.id for entry in base.ranges if seeing and entry.gap in way.fixed})
    ranges, by_people = list[Range](), set[str]()
    for entry in made.ranges:
        if way.wrong and _is_about(entry, way.wrong):
            ranges.append(_planted(base.range(entry.id), way, model))
            by_people.add(entry.id)
        elif by_hand and told(entry):
            about = {entry.id: entry.point} if entry.id in identified else {}
            as_is = stated(base, entry)
            ranges.append(base.range(entry.id) if as_is else hand_set([entry.parameter], model, about=about)[0])
            by_people.add(entry.id)
        elif not told(entry) or entry.id in identified:
            ranges.append(entry)
    kept = {entry.id for entry in ranges} - by_people
    columns = [k for k, id in enumerate(made.joint) if id in kept]
    return replace(
        made,
        ranges=tuple(ranges),
        joint=tuple(made.joint[k] for k in columns),
        draws=made.draws[:, columns] if columns else np.zeros((0, 0)),
        discrepancy=base.discrepancy if drawn else (),
    )


def _is_identified(entry: Range, way: Way, zeros: str) -> bool:
    return way.identified if not zeros or not _zero(entry) else zeros == "on"


def _planted(entry: Range, way: Way, model: Any) -> Range:
    """A range at a wrong value, or drawn by hand about it."""
    from twinproof.randomize.hand_set import hand_set

    limits, factor = entry.parameter, WRONG[way.wrong]
    value = min(max(factor * entry.point, limits.low), limits.high)
    why = f"planted for a gap analysis: {value:.3g} {limits.unit} instead of {entry.point:.3g}, inside physical limits"
    if not way.about:
        return replace(entry, low=value, high=value, point=value, source=Declared(why), reason=why)
    if factor:
        return hand_set([limits], model, about={entry.id: value})[0]
    high = min(NOISIER * entry.point, limits.high)
    return replace(entry, low=value, high=high, point=value, source=Declared(why), reason=why)
