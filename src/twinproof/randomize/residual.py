"""From a posterior to ranges that training draws from: only what stays uncertain, each with its source and reason.

posterior ─ box of the share ─┐
twin      ─ cameras, places ──┼─ ranges ─ strength ─ held against validation ─ misses named, widened where asked
recording ─ noise, starts ────┤                           (one half widens, the other judges)
rehearsal ─ tracker's error ──┤
stated    ─ ranges.toml ──────┘
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from twinproof.nouns.errors import RandomizationError
from twinproof.nouns.ledger import LedgerHead
from twinproof.nouns.parts import Calibration, Validation
from twinproof.nouns.posterior import Posterior
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.randomization import Randomization, Range
from twinproof.nouns.randomness import stream
from twinproof.nouns.twin import Twin
from twinproof.randomize import from_twin, recorded
from twinproof.randomize.against import Against, fixed_values, matched, noise_of
from twinproof.randomize.coverage import Coverage, Judgement, check_measured, judge
from twinproof.randomize.extra import Extra, stated
from twinproof.randomize.geometry import geometry
from twinproof.randomize.inferred import from_posterior, joined
from twinproof.randomize.rehearsed import followable, tracker_ranges
from twinproof.randomize.widen import louder_signals, wider_ranges
from twinproof.sim.experiment import Experiment
from twinproof.sim.parameters.resolve import parameter
from twinproof.sim.scene import Scene
from twinproof.sim.scenes_by_label import ScenesByLabel

LONGEST_DELAY_S = 1.0  # only so that the vocabulary has delays


@dataclass(frozen=True)
class Residuals:
    """What ranges are to cover, and what is done about a miss."""

    share: float = 0.95  # of the posterior, jointly
    strength: float = 1.0  # 0: the point estimate, 1: the posterior, above: wider
    widen: bool = False
    looks: bool = True  # declared ranges of light, colours and picture noise, for a twin with cameras
    extra: tuple[Extra, ...] = ()
    scenes: ScenesByLabel = field(default_factory=dict)
    rehearse: int = 0  # episodes of the twin in which the streaming tracker is measured


@dataclass(frozen=True, eq=False)
class Residual:
    """A randomisation, the test of its ranges where there was validation, and sentences for people."""

    randomization: Randomization
    coverage: Coverage | None
    notes: tuple[str, ...]


def residual(
    posterior: Posterior,
    validation: Validation | None = None,
    how: Residuals | None = None,
    *,
    twin: Twin | None = None,
    calibration: Calibration | None = None,
    seed: int = 0,
) -> Randomization:
    """The residual ranges of a posterior. `residuals` gives the test of these ranges with them."""
    return residuals(posterior, validation, how, twin=twin, calibration=calibration, seed=seed).randomization


def residuals(
    posterior: Posterior,
    validation: Validation | None = None,
    how: Residuals | None = None,
    *,
    twin: Twin | None = None,
    calibration: Calibration | None = None,
    seed: int = 0,
    ledger: LedgerHead | None = None,
    progress: Progress = quiet,
) -> Residual:
    """The ranges, and whether they cover validation: with `widen`, on the half of it that widened nothing."""
    how = how or Residuals()
    _check(posterior, validation, twin, calibration)
    progress(0, "ranges", None)
    made, notes = _ranges(posterior, how, twin, calibration, seed)
    if twin is not None:
        made, more = _followed(made, how, twin, seed, progress)
        notes = (*notes, *more)
    made = replace(made, ledger=ledger or posterior.ledger)
    if how.strength != 1:
        made = made.at(how.strength)
    if validation is None or twin is None:
        return Residual(made, None, notes)
    return _tested(posterior, validation, how, twin, made, notes, progress)


def _check(
    posterior: Posterior, validation: Validation | None, twin: Twin | None, calibration: Calibration | None
) -> None:
    for part in (validation, calibration):
        expected = posterior.parents.get("split")
        if part is not None and expected is not None and part.split != expected:
            raise RandomizationError(
                f"the posterior was fitted on the split {expected[:16]}, and {type(part).__name__.lower()} episodes of "
                f"the split {part.split[:16]} were given. Give the split that the posterior names."
            )
    expected = posterior.parents.get("twin")
    if twin is not None and expected is not None and twin.hash != expected:
        raise RandomizationError(
            f"the posterior belongs to the twin {expected[:16]}, and {twin.hash[:16]} was given. Give the one it names."
        )
    if validation is not None and twin is None:
        raise RandomizationError("validation episodes are compared with simulations of a twin, and none was given.")


def _ranges(
    posterior: Posterior, how: Residuals, twin: Twin | None, calibration: Calibration | None, seed: int
) -> tuple[Randomization, tuple[str, ...]]:
    blocks = [from_posterior(posterior, how.share, stream(seed, "randomize", "posterior"))]
    known = frozenset(posterior.ids)
    single: list[Range] = []
    notes: list[str] = []
    scene = None if twin is None else Scene.of(twin).reserving(LONGEST_DELAY_S, LONGEST_DELAY_S)
    model: Any = None if scene is None else scene.nominal()
    if twin is not None:
        count = len(blocks[0].draws)
        seen, notes = from_twin.cameras(twin, model, how.share, count, stream(seed, "randomize", "cameras"))
        blocks += [block.without(known) for block in seen]
    block = joined(blocks, stream(seed, "randomize", "join"))
    declared, replaced = stated(how.extra, model, [entry.id for entry in block.ranges])
    block, said = block.without(replaced), {entry.id for entry in declared}
    if twin is not None and scene is not None:
        single, stuck = geometry(twin, scene, how.share, known | said)
        notes += stuck
        single += from_twin.encoders(twin, model, how.share, known)
        if how.looks:
            single += [*from_twin.exposures(twin, how.share), *from_twin.looks(twin, model)]
    if calibration is not None and twin is not None:
        experiments, problems = matched(twin, calibration.recording.episodes, how.scenes)
        single += recorded.measured_ranges(
            experiments, calibration.recording.rig, known, {**twin.start, **posterior.point()}
        )
        notes += problems
    single = list({entry.id: entry for entry in reversed(single) if entry.id not in known}.values())[::-1]
    single = [entry for entry in single if entry.id not in said]
    for entry in (*block.ranges, *single, *declared):
        if model is not None and (missing := parameter(entry.id).lacks(model)):
            raise RandomizationError(f"{entry.id} has a range, and the twin's scene cannot take it: {missing}.")
    parents = {"posterior": posterior.hash, **posterior.parents}
    found = Randomization(
        (*block.ranges, *single, *declared),
        parents,
        tuple(entry.id for entry in block.ranges),
        block.draws,
        discrepancy=posterior.discrepancy,
        drive=posterior.drive,
        seed=seed,
    )
    found.check_covers(posterior)
    return found, tuple(notes)


def _followed(
    made: Randomization, how: Residuals, twin: Twin, seed: int, progress: Progress
) -> tuple[Randomization, tuple[str, ...]]:
    """The ranges with those of the tracker's error: as rehearsed, as recordings show another tracker's, or declared."""
    known = {entry.id for entry in made.ranges}
    if not how.rehearse and ("tracker.position_noise" in known or not followable(twin)):
        return made, ()
    if not followable(twin):
        raise RandomizationError(
            "the twin has no object for the streaming tracker: one with splats that moves freely, before a camera that "
            "stands still. Leave out --rehearse, or reconstruct the object from pictures."
        )
    found, notes = tracker_ranges(twin, made, how.rehearse, seed, progress)
    stated = {extra.id for extra in how.extra}
    new = {entry.id: entry for entry in found if entry.id not in stated}
    kept = tuple(entry for entry in made.ranges if entry.id not in new)
    return replace(made, ranges=(*kept, *new.values())), notes


def _tested(
    posterior: Posterior,
    validation: Validation,
    how: Residuals,
    twin: Twin,
    made: Randomization,
    notes: tuple[str, ...],
    progress: Progress,
) -> Residual:
    experiments, problems = matched(twin, validation.recording.episodes, how.scenes, posterior.drive)
    notes = (*notes, *problems)
    progress(0, "predicting validation", None)

    kept: dict[tuple[str, ...], Against] = {}  # rollouts are what costs: each is made once

    def against(some: tuple[Experiment, ...], ranges: Randomization) -> Against:
        key = (ranges.hash, *(each.id for each in some))
        if key not in kept:
            held = Against(some, ranges, posterior.ids, fixed_values(posterior, twin), {}, made.seed)
            kept[key] = replace(held, noise=noise_of(posterior, held.shooting))
        return kept[key]

    def judged(some: tuple[Experiment, ...], ranges: Randomization) -> Judgement:
        held = against(some, ranges)
        more = check_measured(
            held, {**recorded.noises(some), **recorded.starts(some, {**twin.start, **posterior.point()})}
        )
        return judge(held, more)

    if not how.widen:
        told = Coverage(made.hash, posterior.hash, validation.split, judged(experiments, made), notes=notes)
        return Residual(made, told, notes)
    first, second = halves(experiments, made.seed)
    progress(0, "widening on one half", None)
    wider, seen, sentences = wider_ranges(made, lambda ranges: judged(first, ranges))
    wider, more = louder_signals(wider, seen, against(first, wider))
    progress(0, "judging on the other", None)
    before = judged(second, made)
    after = judged(second, wider) if wider is not made else before
    on = tuple(sorted(each.id for each in first))
    told = Coverage(wider.hash, posterior.hash, validation.split, after, on, (*sentences, *more), before, notes)
    return Residual(wider, told, notes)


def halves(experiments: tuple[Experiment, ...], seed: int) -> tuple[tuple[Experiment, ...], tuple[Experiment, ...]]:
    """Validation in two: what widens, and what judges. The second is the larger where the number is odd."""
    if len(experiments) < 2:
        raise RandomizationError(
            "widening needs two validation episodes at least, one that widens and one that judges; there is one. Leave "
            "out --widen, or split with a larger validation part."
        )
    ordered = sorted(experiments, key=lambda each: each.id)
    order = stream(seed, "randomize", "halves").permutation(len(ordered))
    middle = len(ordered) // 2
    return tuple(ordered[k] for k in order[:middle]), tuple(ordered[k] for k in order[middle:])
