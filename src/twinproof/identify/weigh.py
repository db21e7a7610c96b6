"""How much every gap and seam weighs: noise from residuals, a robust loss, process noise by evidence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from twinproof.sim.least_squares import Linear, Reduced, reduce
from twinproof.sim.pieces import Piece, pieces
from twinproof.sim.shelf import forget
from twinproof.sim.shooting import Shooting

if TYPE_CHECKING:
    from jaxtyping import Float

PROCESS = tuple(1e-4 * 1.5**k for k in range(27))  # shares of the usual acceleration; the first is as good as none
NOTCHES = (-4, -1, 0, 1, 4)  # how far the process noise may move in one step
MAGNIFIED = 20.0  # how much a window may magnify its start: beyond, a step is no longer in the linear range
LOST = 50.0  # a gap of a diverged rollout counts as so many sd


@dataclass(frozen=True, eq=False)
class Stage:
    """Where a fit stands on windows of one length: starts, noise, process noise, and the linearised problem."""

    shooting: Shooting
    starts: tuple[np.ndarray, np.ndarray]
    sd: Float[np.ndarray, "E"]
    process: Float[np.ndarray, "episodes"]  # how loosely windows hang together, episode by episode
    share: float = 1.0  # of the cost, where several lengths see the same readings
    linear: Linear | None = None
    reduced: Reduced | None = None
    cost: float = np.inf
    growth: np.ndarray | None = None  # how much each window before a seam magnifies its start
    free: np.ndarray | None = None  # nv: whose starts are unknown; None where all are given
    windows: np.ndarray | None = None  # those that are rolled: a first stage need not see them all


def in_pieces(stage: Stage) -> Iterator[tuple[Piece, Stage]]:
    """The stage a few episodes at a time, each piece with its own rows. A short recording is one piece."""
    for piece in pieces(stage.shooting):
        if stage.shooting.whole:
            yield piece, stage
            continue
        qpos, qvel = stage.starts
        yield (
            piece,
            replace(
                stage,
                shooting=piece.shooting,
                starts=(qpos[piece.windows], qvel[piece.windows]),
                process=stage.process[piece.episodes],
                linear=None if stage.linear is None else stage.linear.of(piece),
                windows=piece.chosen(stage.windows),
            ),
        )
        if stage.linear is not None:
            stage.linear.forget()


def noise_scale(stage: Stage, floor: np.ndarray) -> np.ndarray:
    """The sd of every entry's gaps: their root mean square with outliers cut at three robust sd."""
    sd = np.array(stage.sd)
    seen: list[list[np.ndarray]] = [[] for _ in sd]
    for _, part in in_pieces(stage):
        assert part.linear is not None
        gap, entry = part.linear.gap, part.shooting.entry
        for i, found in enumerate(seen):
            found.append(gap[(entry == i) & np.isfinite(gap)])
    for i in range(len(sd)):
        mine = np.concatenate(seen[i])
        if mine.size > 5:
            spread = 1.4826 * float(np.median(np.abs(mine)))
            cut = np.minimum(np.abs(mine), max(3 * spread, 1e-12))
            sd[i] = max(float(np.sqrt(np.mean(cut**2))), floor[i], 1e-9)
    return sd


def weights(stage: Stage, gap: np.ndarray, robust: float) -> np.ndarray:
    """Inverse variance of every gap; beyond `robust` sd it falls as the loss does (Huber)."""
    sd = gap_sd(stage)
    scaled = np.abs(gap) / sd
    share = np.where(scaled > robust, robust / np.maximum(scaled, robust), 1.0)
    found: np.ndarray = np.where(np.isfinite(gap), share, 0.0) / sd**2
    return np.asarray(found * linear_range(stage)[stage.shooting.window])


def gap_sd(stage: Stage) -> np.ndarray:
    """The sd of every gap: its entry's noise, and what a straight line leaves of it where contact bends or jumps."""
    sd: np.ndarray = stage.sd[stage.shooting.entry]
    if stage.linear is None or stage.linear.bent is None:
        return sd
    return np.asarray(np.sqrt(sd**2 + stage.linear.bent))


def linear_range(stage: Stage) -> np.ndarray:
    """How much each window counts: one, and less where it magnifies its start so much that no step is linear."""
    linear, shooting = stage.linear, stage.shooting
    grown = np.ones(shooting.windows)
    if linear is not None and linear.by_start is not None:
        placed = np.array([unit in ("m", "rad") for unit in shooting.units])[shooting.entry]
        np.maximum.at(grown, shooting.window[placed], np.abs(linear.by_start[placed]).max(axis=1))
    found: np.ndarray = np.square(np.minimum(1.0, MAGNIFIED / grown))
    return found


def seam_weight(stage: Stage) -> np.ndarray | None:
    """Inverse covariance of every seam: white noise in the acceleration, over the window before it."""
    shooting = stage.shooting
    if stage.free is None or not stage.free.any() or not len(shooting.seams):
        return None
    nv = shooting.model.nv
    size = shooting.usual_acceleration
    size = np.maximum(size, 0.05 * max(float(size.max()), 1.0))
    found = np.zeros((len(shooting.seams), 2 * nv, 2 * nv))
    process = stage.process[shooting.episode[shooting.seams]]
    T = shooting.length[shooting.seams] * shooting.step_s
    for v in np.flatnonzero(stage.free):  # a start that is given needs no seam
        strength = np.square(process * size[v]) * 0.1  # one tenth of a second of memory
        block = np.array([[12 / T**3, -6 / T**2], [-6 / T**2, 4 / T]]) / strength
        found[:, [[v], [nv + v]], [[v, nv + v]]] = np.moveaxis(block, -1, 0)
    return np.asarray(found)


def faint(stage: Stage) -> np.ndarray:
    """A start may move as far as a joint can: enough to keep what no reading tells finite."""
    nv = stage.shooting.model.nv
    return np.asarray(np.r_[np.full(nv, 1.0), np.full(nv, 0.01)])


def reduced_at(stage: Stage, robust: float) -> Reduced:
    """The normal equations of a stage with its noise and process noise, added up piece by piece."""
    found = []
    for piece, part in in_pieces(stage):
        assert part.linear is not None
        found.append(
            (piece, reduce(part.linear, weights(part, part.linear.gap, robust), seam_weight(part), faint(part)))
        )
    return Reduced.summed(found)


def stage_cost(stage: Stage, gap: np.ndarray, seam: np.ndarray, robust: float) -> float:
    """Minus the log likelihood up to a constant: Huber on gaps, squares on seams, and the noise that was granted."""
    total = 0.0
    for piece, part in in_pieces(stage):
        total += _cost(part, gap[piece.rows], seam[piece.seams], robust)
        if not stage.shooting.whole:
            forget(gap)
    return total


def _cost(stage: Stage, gap: np.ndarray, seam: np.ndarray, robust: float) -> float:
    sd = gap_sd(stage)
    scaled = np.where(np.isfinite(gap), np.abs(gap) / sd, LOST)
    if stage.windows is not None:
        scaled[~np.isin(stage.shooting.window, stage.windows)] = 0.0
    loss = np.where(scaled <= robust, 0.5 * scaled**2, robust * scaled - 0.5 * robust**2)
    total = stage.share * float(loss.sum())
    weight = seam_weight(stage)
    if weight is not None:
        known = np.isfinite(stage.linear.seam).all(axis=1) if stage.linear is not None else slice(None)
        far = np.nan_to_num(seam[known], nan=LOST)
        total += 0.5 * stage.share * float(np.einsum("si,sij,sj->", far, weight[known], far))
    return total


def process_noise(stage: Stage, robust: float) -> np.ndarray:
    """For each episode the process noise with the largest evidence: gaps and seams as one Gaussian, starts integrated.

    It moves by a few notches at most: far from the optimum the linear problem promises more smoothness than there is.
    """
    return np.concatenate([_process_noise(part, robust) for _, part in in_pieces(stage)])


def _process_noise(stage: Stage, robust: float) -> np.ndarray:
    linear, shooting = stage.linear, stage.shooting
    assert linear is not None
    assert stage.free is not None
    loose = np.flatnonzero(np.r_[stage.free, stage.free])
    known = np.isfinite(linear.seam).all(axis=1)
    seam, of = linear.seam[known], shooting.episode[shooting.seams[known]]
    at = np.array([int(np.argmin(np.abs(np.log(np.array(PROCESS) / each)))) for each in stage.process])
    best, chosen = np.full(len(at), np.inf), stage.process
    for notch in NOTCHES:
        tried = replace(stage, process=np.array(PROCESS)[np.clip(at + notch, 0, len(PROCESS) - 1)])
        weight, seams = weights(tried, linear.gap, robust), seam_weight(tried)
        assert seams is not None
        reduced = reduce(linear, weight, seams, faint(tried))
        score = reduced.log_det_starts - reduced.explained
        np.add.at(score, of, np.einsum("si,sij,sj->s", seam, seams[known], seam))
        np.add.at(score, of, -np.linalg.slogdet(seams[known][:, loose[:, None], loose])[1])
        chosen = np.where(score < best, tried.process, chosen)
        best = np.minimum(best, score)
    return chosen
