"""Ranges held against validation episodes: their predictions, and what these episodes say of each parameter.

Prior-data conflict, parameter by parameter. On the natural scale, with the draws' covariance C, slopes J of the
predictions and the variance R of what model error and noise leave:
    shift  s = C* Jᵀ R⁻¹ gap,  C* = (C⁻¹ + Jᵀ R⁻¹ J)⁻¹          where the episodes pull the point to
    told   D = C − C*                                           Var s, if the ranges are right
    noise  N = C* Jᵀ R⁻¹ J C*, φ = max(1, scatter / N)          windows that disagree more than R says count for less
    pull   t = s / √(D + (φ − 1) N)                             Student's, with as many degrees as windows less one
    value  v = point + C° Jᵀ R⁻¹ gap,  C° = (C⁻¹ / 25 + Jᵀ R⁻¹ J)⁻¹   where they point to, alone
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import stdtrit

from twinproof.nouns.belief import Discrepancy
from twinproof.nouns.drive import Drive
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import RandomizationError, RecordingError
from twinproof.nouns.posterior import Posterior
from twinproof.nouns.randomization import Randomization
from twinproof.nouns.randomness import stream
from twinproof.nouns.theta import ParameterInfo
from twinproof.nouns.twin import Twin
from twinproof.sim.experiment import Experiment, experiment
from twinproof.sim.predictive import Bands, Prediction, bands, errors
from twinproof.sim.scene import Scene
from twinproof.sim.scenes_by_label import ScenesByLabel, scene_for
from twinproof.sim.shooting import Shooting, Variant

if TYPE_CHECKING:
    from jaxtyping import Float

DRAWS = 48  # predictions that a band is made of
FEWEST = 500  # rows where nothing is drawn jointly
TOLD = 0.05  # below this share of a parameter's variance, episodes say nothing about it
ODDS = 0.01  # how often any parameter may be called missed though every range is right
SUSPECTED = 0.1  # the same where bands miss a signal: something is wrong, and a parameter is the likelier cause
LOOSE = 25.0  # times the draws' covariance: how free parameters are when episodes are asked where they point to
CURIOUS = 2.0  # a pull beyond which it is worth more rollouts to see where episodes point to
STEPS = 3
FARTHEST = 300.0  # on a logarithmic scale: beyond it there are no numbers
HEAVY = 2.0  # a gap beyond so many sd counts less: one bad reading must not move a parameter


@dataclass(frozen=True)
class Told:
    """What episodes say of one parameter: the value they point to alone, with its sd, on the natural scale."""

    id: str
    pull: float  # how far they pull the point, in sd of what that pull may be
    share: float  # of its variance that they determine
    value: float  # SI units; the point where they say nothing
    low: float  # one sd around the value
    high: float


@dataclass(frozen=True, eq=False)
class Against:
    """Some episodes under a randomisation. What is simulated are the posterior's parameters; the rest is fixed."""

    experiments: tuple[Experiment, ...]
    randomization: Randomization
    ids: tuple[str, ...]
    fixed: Mapping[str, float]
    noise: Mapping[str, float]
    seed: int = 0

    @property
    def episodes(self) -> tuple[str, ...]:
        """The ids of the episodes, sorted."""
        return tuple(sorted(each.id for each in self.experiments))

    @property
    def infos(self) -> list[ParameterInfo]:
        """The simulated parameters."""
        return [self.randomization.range(id).parameter for id in self.ids]

    @cached_property
    def rows(self) -> Float[np.ndarray, "N P"]:
        """Draws of the simulated parameters: joint ones as they are kept, others evenly over their ranges."""
        joint, rng = self.randomization.joint, stream(self.seed, "against", "rows")
        count = len(self.randomization.draws) if joint else FEWEST
        columns = []
        for id, info in zip(self.ids, self.infos, strict=True):
            if id in joint:
                columns.append(self.randomization.draws[:, joint.index(id)])
            else:
                entry = self.randomization.range(id)
                low, high = (float(info.to_scale(end)) for end in (entry.low, entry.high))
                scaled = rng.uniform(low, high, size=count)
                columns.append(np.clip(info.from_scale(scaled), entry.low, entry.high))
        return np.stack(columns, axis=1)

    @cached_property
    def point(self) -> Float[np.ndarray, "P"]:
        """The best value of each."""
        return np.array([self.randomization.range(id).point for id in self.ids])

    @cached_property
    def shooting(self) -> Shooting:
        """The episodes in windows as long as the longest horizon of the model error."""
        longest = max((each.horizon_s[-1] for each in self.randomization.discrepancy), default=0.5)
        return Shooting(self.experiments, self.ids, longest, self.fixed)

    def _gaps(self, rows: Sequence[np.ndarray]) -> Float[np.ndarray, "N M"]:
        qpos, qvel = self.shooting.starts
        return np.asarray(self.shooting.roll([Variant(row[None], qpos, qvel) for row in rows]).gap)

    @cached_property
    def _some(self) -> Float[np.ndarray, "n P"]:
        """A few rows for rollouts, some more than there are parameters."""
        order = stream(self.seed, "against", "draws").permutation(len(self.rows))
        return self.rows[np.sort(order[: max(DRAWS, 3 * len(self.ids))])]

    @cached_property
    def _drawn(self) -> Float[np.ndarray, "n M"]:
        """The gaps of these rows."""
        return self._gaps(list(self._some))

    def _scaled(self, rows: np.ndarray) -> np.ndarray:
        columns = np.atleast_2d(rows).T
        return np.stack([i.to_scale(c) for i, c in zip(self.infos, columns, strict=True)], axis=1)

    def _linear(self, moved: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """At the point moved on the natural scale: gaps (M), slopes (M, P) of the simulation, weights of the gaps.

        Slopes are regressed over draws around it. Contacts chatter: what a plane through the draws does not explain is
        one more error of that gap, so slopes that mean little count little.
        """
        point = self._scaled(self.point)[0] + moved
        low, high = (self._scaled(np.array([getattr(i, end) for i in self.infos]))[0] for end in ("low", "high"))
        x = np.clip(self._scaled(self._some) + moved, low, high)
        rows = [np.array([float(i.from_scale(v)) for i, v in zip(self.infos, row, strict=True)]) for row in x]
        gap = self._gaps(rows) if moved.any() else self._drawn
        known, gap = np.isfinite(gap).all(axis=0), np.nan_to_num(gap)
        mean, middle = gap.mean(axis=0), x.mean(axis=0)
        slope = -np.linalg.pinv(x - middle, rcond=1e-8) @ (gap - mean)
        rest = gap - mean + (x - middle) @ slope
        chatter = np.square(rest).sum(axis=0) / max(len(x) - len(self.ids) - 1, 1)
        here = mean + (middle - point) @ slope
        return here, slope.T, np.where(known, self._weights(here, chatter), 0.0)

    @cached_property
    def prediction(self) -> Prediction:
        """The draws' mean gaps and their spread: a widened range is not even about its point."""
        gap = self._drawn
        some = np.isfinite(gap)
        count = some.sum(axis=0)
        mean = np.where(count > 0, np.where(some, gap, 0.0).sum(axis=0) / np.maximum(count, 1), np.nan)
        square = np.where(some, np.square(gap - np.nan_to_num(mean)), 0.0).sum(axis=0) / np.maximum(count, 1)
        return Prediction(self.shooting, mean, np.sqrt(square))

    def bands(self, model_error: Sequence[Discrepancy] | None = None) -> Bands:
        """The bands of the predictions."""
        return bands(
            self.prediction, self.randomization.discrepancy if model_error is None else model_error, self.noise
        )

    @cached_property
    def told(self) -> tuple[Told, ...]:
        """What the episodes say of each parameter."""
        gap, slope, weight = self._linear(np.zeros(len(self.ids)))
        C = np.atleast_2d(np.cov(self._scaled(self.rows), rowvar=False))
        A, b = slope.T @ (weight[:, None] * slope), slope.T @ (weight * gap)
        left, loose = _left(C, A), _left(LOOSE * C, A)
        expected = np.maximum(np.diag(left @ A @ left), 1e-300)
        wider = np.maximum(np.diag(left @ self._scatter(slope, weight, gap, loose) @ left) / expected, 1.0)
        spread = np.sqrt(np.maximum(np.diag(C) - np.diag(left), 0.0) + (wider - 1) * expected)
        pull, share = left @ b / np.maximum(spread, 1e-300), 1 - np.diag(left) / np.maximum(np.diag(C), 1e-300)
        moved, sd = loose @ b, np.sqrt(wider * np.diag(loose))
        if np.abs(pull).max() > CURIOUS:
            moved, sd = self._pointed(C, moved, wider)
        columns = zip(pull, share, moved, sd, strict=True)
        return tuple(self._one(k, *map(float, column)) for k, column in enumerate(columns))

    def _pointed(self, C: np.ndarray, moved: np.ndarray, wider: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where the episodes point to, by a few more steps: predictions bend between there and the point."""
        loose = np.zeros_like(C)
        for _ in range(STEPS):
            gap, slope, weight = self._linear(moved)
            loose = _left(LOOSE * C, slope.T @ (weight[:, None] * slope))
            moved = loose @ (slope.T @ (weight * (gap + slope @ moved)))
        return moved, np.sqrt(wider * np.diag(loose))

    def _scatter(self, slope: np.ndarray, weight: np.ndarray, gap: np.ndarray, loose: np.ndarray) -> np.ndarray:
        """The variance of the pull that windows show by disagreeing once the parameters are as they like them."""
        rest = gap - slope @ (loose @ (slope.T @ (weight * gap)))
        by_window = np.zeros((self.shooting.windows, slope.shape[1]))
        np.add.at(by_window, self.shooting.window, slope * (weight * rest)[:, None])
        count = self.shooting.windows * len(self.shooting.entries)
        used = float(np.trace(loose @ (slope.T @ (weight[:, None] * slope))))  # numbers that the parameters took
        return np.asarray(by_window.T @ by_window * count / max(count - used, 1.0))

    def _weights(self, gap: np.ndarray, chatter: np.ndarray) -> np.ndarray:
        """The inverse variance of each gap. All gaps of a signal in a window count as one: their errors go together."""
        shooting = self.shooting
        error, sensor = errors(shooting, self.randomization.discrepancy, self.noise)
        variance = np.maximum(error**2 + sensor**2 + chatter, 1e-18)
        pair = shooting.window * len(shooting.entries) + shooting.entry
        together = np.bincount(pair)[pair]
        heavy = np.maximum(np.abs(gap) / np.sqrt(variance + self.prediction.spread**2) / HEAVY, 1.0)
        return np.asarray(1 / (variance * together * heavy))

    def _one(self, k: int, pull: float, share: float, moved: float, sd: float) -> Told:
        info, point = self.infos[k], float(self.point[k])
        if share < TOLD or not self.rows[:, k].std() > 0:
            return Told(self.ids[k], 0.0, max(share, 0.0), point, info.low, info.high)
        value = float(info.to_scale(point)) + moved
        ends = np.array([value - sd, value, value + sd])
        low, at, high = info.from_scale(np.clip(ends, -FARTHEST, FARTHEST) if info.log else ends).tolist()
        return Told(self.ids[k], pull, share, at, low, high)

    def missed(self, odds: float = ODDS) -> tuple[Told, ...]:
        """Parameters whose range misses what the episodes point to: the pull is too strong, the value outside."""
        asked = [each for each in self.told if each.share >= TOLD]
        degrees = max(self.shooting.windows - 1, 1)
        limit = float(stdtrit(degrees, 1 - odds / 2 / max(len(asked), 1)))
        found = []
        for each in asked:
            entry = self.randomization.range(each.id)
            if abs(each.pull) > limit and (each.low > entry.high or each.high < entry.low):
                found.append(each)
        return tuple(found)


def _left(C: np.ndarray, A: np.ndarray) -> np.ndarray:
    """The covariance that is left after data with information A; C may be singular."""
    values, vectors = np.linalg.eigh(C)
    L = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(L @ np.linalg.inv(np.eye(len(C)) + L.T @ A @ L) @ L.T)


def matched(
    twin: Twin, episodes: Sequence[Episode], scenes: ScenesByLabel | None = None, drive: Drive | None = None
) -> tuple[tuple[Experiment, ...], tuple[str, ...]]:
    """Episodes with the scenes they happened in, and sentences about those that fit none."""
    lean = Scene.of(twin).leaner()
    found, problems = [], list[str]()
    for episode in episodes:
        try:
            found.append(experiment(episode, scene_for(episode.labels, scenes or {}, lean).driven(drive)))
        except RecordingError as problem:
            problems.append(str(problem))
    if not found:
        raise RandomizationError(
            f"none of {len(episodes)} episodes can be simulated in the twin's scene: {problems[0]}"
        )
    return tuple(found), tuple(problems)


def fixed_values(posterior: Posterior, twin: Twin) -> dict[str, float]:
    """What was held while the posterior was found: the values it states, or those of the twin."""
    stated: Any = posterior.settings.get("fixed")
    held = dict(stated) if isinstance(stated, Mapping) else dict(twin.start)
    return {id: float(value) for id, value in held.items() if id not in posterior.ids}


def noise_of(posterior: Posterior, shooting: Shooting) -> dict[str, float]:
    """The sensor noise of every signal: what its readings show by themselves, or less where the fit left less."""
    fitted: Any = posterior.diagnostics.get("noise", {})
    own = dict(zip(shooting.entries, shooting.noise[0].tolist(), strict=True))
    return {entry: min(float(sd), float(fitted.get(entry, np.inf))) for entry, sd in own.items()}
