"""Two recordings in, what differs between them out: the divergence protocol over all pairs of episodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from twinproof.evaluate.clocks import OFF, Alignment, Offset, offset_between
from twinproof.evaluate.divergence import Course, Gap, TipGap, course, gaps, tip_gap
from twinproof.evaluate.events import EventRules, events_of
from twinproof.evaluate.motion import Motion, Scale, check_units, motion_of, scale_of
from twinproof.evaluate.onset import Onset, growth, onset
from twinproof.evaluate.pairing import Paired, Pairing, pair
from twinproof.evaluate.timeline import Matched, Matching, event_at, match
from twinproof.evaluate.tips import Tips
from twinproof.evaluate.views import view_of
from twinproof.evaluate.warp import Warped, warp
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import ConfigError
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.randomness import stream
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import Rig

if TYPE_CHECKING:
    from jaxtyping import Float


@dataclass(frozen=True)
class Protocol:
    """How two recordings are compared. `alignment` None takes clocks as they are; `rate_hz` None is the slower's."""

    pairing: Pairing = field(default_factory=Pairing)
    alignment: Alignment | None = field(default_factory=Alignment)
    events: EventRules = field(default_factory=EventRules)
    matching: Matching = field(default_factory=Matching)
    rate_hz: float | None = None
    max_gap_s: float = 0.2  # samples farther apart are not joined by a line
    max_warp_s: float = 0.5
    level: float = 0.95
    signals: tuple[str, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("rate_hz", "max_gap_s", "max_warp_s"):
            value = getattr(self, name)
            if value is not None and not 0 < value < np.inf:
                raise ConfigError(f"the protocol's {name} is {value}. It is above zero and finite.")
        if not 0 < self.level < 1:
            raise ConfigError(f"the protocol's level is {self.level}. It lies between 0 and 1.")


@dataclass(frozen=True, eq=False)
class ArmResult:
    """One arm of one pair, or all arms together."""

    gap: Gap
    as_stamped_rmse: float | None  # with clocks as they are; None where no moment is shared so
    onset: Onset | None
    tenths: tuple[float, ...]  # the mean RMSE in each tenth of the time
    slope_per_s: float
    warped: Warped | None  # None of all arms together
    tip: TipGap | None

    @property
    def name(self) -> str:
        """The arm, or 'overall'."""
        return self.gap.name


@dataclass(frozen=True, eq=False)
class PairResult:
    """One real episode against one simulated."""

    real: Episode
    sim: Episode
    paired: Paired
    offset: Offset
    arms: tuple[ArmResult, ...]
    overall: ArmResult
    events: tuple[Matched, ...]
    starts_at: str | None  # the event at which divergence starts
    lost: tuple[int, int]  # samples marked missing, real and simulated
    lengths_s: tuple[float, float, float]  # of the real and the simulated motion, and of what both share

    @property
    def every(self) -> tuple[ArmResult, ...]:
        """The arms, and then all of them together."""
        return (*self.arms, self.overall)


@dataclass(frozen=True, eq=False)
class Comparison:
    """All pairs, and what could not be paired."""

    real: Recording
    sim: Recording
    scale: Scale
    protocol: Protocol
    pairs: tuple[PairResult, ...]
    only_real: tuple[Episode, ...]
    only_sim: tuple[Episode, ...]
    notes: tuple[str, ...]


def compare(
    real: Recording,
    sim: Recording,
    rig: Rig,
    tips: Tips | None = None,
    how: Protocol | None = None,
    progress: Progress = quiet,
) -> Comparison:
    """Pairs episodes and measures every pair. Weights and ranges are those of `rig`, clocks each recording's own."""
    how, tips, scale = how or Protocol(), tips or Tips(), scale_of(rig)
    motions = tuple(
        [motion_of(episode, recording.rig, scale.joints, side, how.signals) for episode in recording.episodes]
        for side, recording in (("real", real), ("simulated", sim))
    )
    found = pair(real.episodes, sim.episodes, (motions[0], motions[1]), scale, how.pairing)
    results = []
    for done, paired in enumerate(found.pairs, 1):
        episodes = real.episodes[paired.real], sim.episodes[paired.sim]
        both = motions[0][paired.real], motions[1][paired.sim]
        check_units(*both)
        results.append(_pair(episodes, both, (real.rig, sim.rig), scale, paired, tips, how))
        progress(done, both[0].where, len(found.pairs))
    doubtful = sum(result.paired.ambiguous for result in results)
    order = f"{doubtful} pairs begin alike and were taken in the order of the recordings"
    notes = (*tips.notes, *([order] if doubtful and how.pairing.by is None else []))
    return Comparison(
        real,
        sim,
        scale,
        how,
        tuple(results),
        tuple(real.episodes[i] for i in found.only_real),
        tuple(sim.episodes[j] for j in found.only_sim),
        notes,
    )


def _pair(
    episodes: tuple[Episode, Episode],
    motions: tuple[Motion, Motion],
    rigs: tuple[Rig, Rig],
    scale: Scale,
    paired: Paired,
    tips: Tips,
    how: Protocol,
) -> PairResult:
    real, sim = motions
    where = f"{real.where} and {sim.where}"
    rng = stream(how.seed, "evaluate", "clocks", episodes[0].id, episodes[1].id)
    offset = OFF if how.alignment is None else offset_between(real, sim, scale, how.alignment, rng)
    lined = course(real, sim, offset.offset_s, how.max_gap_s, how.rate_hz)
    arms, overall = gaps(lined, scale, where)
    stamped = _as_stamped(real, sim, scale, offset, how)
    results = []
    for arm, gap in zip(scale.arms, arms, strict=True):
        places = scale.of_arm(arm)
        kept = np.asarray(lined.known[:, places].all(axis=1))
        tip = None
        if arm.name in tips.arms:
            joints = [scale.joints.index(name) for name in arm.joints]
            told = lined.known[:, joints].all(axis=1)
            poses = (tips.arms[arm.name].poses(side[told][:, joints]) for side in (lined.real, lined.sim))
            tip = tip_gap(arm.name, lined.time_s[told], *poses) if told.any() else None
        bent = _warped(lined, kept, places, scale, how)
        results.append(_arm(gap, stamped.get(arm.name), bent, tip, how))
    whole = _arm(overall, stamped.get("overall"), None, None, how)
    views = (view_of(e, m, rig, scale, tips, how.events) for e, m, rig in zip(episodes, motions, rigs, strict=True))
    told_of = [events_of(view, how.events) for view in views]
    events = match(told_of[0], told_of[1], offset.offset_s, how.matching)
    lost = real.lost, sim.lost
    (r0, r1), (s0, s1) = real.span_s, sim.span_s
    lengths = r1 - r0, s1 - s0, float(np.ptp(lined.time_s))
    starts = event_at(whole.onset, events, how.matching)
    return PairResult(*episodes, paired, offset, tuple(results), whole, events, starts, lost, lengths)


def _arm(gap: Gap, stamped: float | None, warped: Warped | None, tip: TipGap | None, how: Protocol) -> ArmResult:
    tenths, slope = growth(gap.time_s, gap.rmse)
    return ArmResult(gap, stamped, onset(gap.time_s, gap.rmse, how.level), tuple(tenths), slope, warped, tip)


def _as_stamped(real: Motion, sim: Motion, scale: Scale, offset: Offset, how: Protocol) -> dict[str, float]:
    """√ of the mean MSE of every arm with clocks as they are."""
    (r0, r1), (s0, s1) = real.span_s, sim.span_s
    if offset.offset_s != 0.0 and min(r1, s1) - max(r0, s0) < 3 * max(real.step_s, sim.step_s):
        return {}
    arms, overall = gaps(course(real, sim, 0.0, how.max_gap_s, how.rate_hz), scale, real.where)
    return {gap.name: gap.total_rmse for gap in (*arms, overall)}


def _warped(lined: Course, kept: np.ndarray, places: Sequence[int], scale: Scale, how: Protocol) -> Warped:
    size = (np.sqrt(scale.weight) / scale.range)[list(places)]
    real, sim = (side[kept][:, list(places)] * size for side in (lined.real, lined.sim))
    return warp(lined.time_s[kept], real, sim, how.max_warp_s)


def pooled(pairs: Sequence[PairResult], name: str) -> Float[np.ndarray, "M"]:
    """RMSE at every moment of all pairs, of one arm or 'overall'."""
    return np.concatenate([result.gap.rmse for found in pairs for result in found.every if result.name == name])
