"""Least squares over parameters and the starts of windows: the starts are eliminated, episode by episode.

rows of a window    gap ≈ Jθ dθ + Jx dx                weight 1/noise²
rows of a seam      end of window w − start of w+1     weight 1/process noise²: zero noise is one smooth trajectory

        ┌ Hxx  Hxθ ┐ ┌dx┐   ┌gx┐        Hxx is one block an episode. What remains of θ after dx is eliminated,
        └ Hθx  Hθθ ┘ └dθ┘ = └gθ┘        H = Hθθ − Hθx Hxx⁻¹ Hxθ, is the information that the recording holds on θ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from twinproof.sim.shelf import empty, forget

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from twinproof.sim.pieces import Piece
    from twinproof.sim.shooting import Shooting


@dataclass(frozen=True, eq=False)
class Linear:
    """A shooting problem around one point: gaps, seams, and how each moves with parameters and starts.

    Parameter columns are local to a window; `columns` (groups, P) says which global parameter each is.
    """

    shooting: Shooting
    gap: Float[np.ndarray, "M"]
    by_parameter: Float[np.ndarray, "M P"]
    by_start: Float[np.ndarray, "M 2nv"] | None  # None: starts are given
    seam: Float[np.ndarray, "S 2nv"]
    seam_by_parameter: Float[np.ndarray, "S 2nv P"] | None
    seam_by_start: Float[np.ndarray, "S 2nv 2nv"] | None
    columns: Int[np.ndarray, "groups P"]
    bent: Float[np.ndarray, "M"] | None = None  # variance by which gaps leave a straight line where things touch

    @property
    def width(self) -> int:
        """How many global parameters there are."""
        return int(self.columns.max()) + 1

    def of(self, piece: Piece) -> Linear:
        """The rows and seams of some episodes."""
        rows, seams = piece.rows, piece.seams
        return Linear(
            piece.shooting,
            self.gap[rows],
            self.by_parameter[rows],
            None if self.by_start is None else self.by_start[rows],
            self.seam[seams],
            None if self.seam_by_parameter is None else self.seam_by_parameter[seams],
            None if self.seam_by_start is None else self.seam_by_start[seams],
            self.columns,
            None if self.bent is None else self.bent[rows],
        )

    def forget(self) -> None:
        """Lets go of the memory that the rows of a long recording take."""
        forget(self.gap, self.by_parameter, self.by_start, self.bent)


def join(shooting: Shooting, parts: Iterable[tuple[Piece, Linear]]) -> Linear:
    """The pieces of a long recording as one: what has a row for every gap lies on a shelf."""
    names, rows = ("gap", "by_parameter", "by_start", "bent"), dict[str, Any]()
    seams = list[Linear]()
    for piece, part in parts:
        for name in names:
            given = getattr(part, name)
            if given is None:
                continue
            if name not in rows:
                rows[name] = empty((len(shooting.window), *given.shape[1:]))
            rows[name][piece.rows] = given
            forget(rows[name])
        seams.append(replace(part, gap=np.empty(0), by_parameter=np.empty((0, 0)), by_start=None, bent=None))
    for name in ("seam", "seam_by_parameter", "seam_by_start"):
        if getattr(seams[0], name) is not None:
            rows[name] = np.concatenate([getattr(each, name) for each in seams])
    return replace(seams[0], shooting=shooting, **rows)


@dataclass(frozen=True, eq=False)
class Reduced:
    """The normal equations of θ alone, and what gives the starts' step back.

    score (blocks, θ) are shares of the gradient, a quarter of a second each: how much it pulls, and where to.
    by_episode are the episodes' shares of the Hessian: what each tells.
    """

    hessian: Float[np.ndarray, "G G"]
    by_episode: Float[np.ndarray, "episodes G G"]
    gradient: Float[np.ndarray, "G"]
    score: Float[np.ndarray, "blocks G"]
    log_det_starts: Float[np.ndarray, "episodes"]
    explained: Float[np.ndarray, "episodes"]  # by moving the starts alone
    back: tuple[tuple[np.ndarray, np.ndarray, np.ndarray], ...]

    def starts_step(self, step: np.ndarray, windows: int, width: int) -> Float[np.ndarray, "W 2nv"]:
        """The starts' best step, given that of the parameters."""
        change = np.zeros((windows, width))
        for mine, alone, by_parameter in self.back:
            change[mine] = (alone - by_parameter @ step).reshape(len(mine), width)
        return change

    @staticmethod
    def summed(parts: Sequence[tuple[Piece, Reduced]]) -> Reduced:
        """The pieces of a long recording as one."""
        if len(parts) == 1:
            return parts[0][1]
        found = {
            name: np.concatenate([getattr(part, name) for _, part in parts])
            for name in ("by_episode", "score", "log_det_starts", "explained")
        }
        back = tuple((mine + piece.windows.start, *rest) for piece, part in parts for mine, *rest in part.back)
        gradient = np.sum([part.gradient for _, part in parts], axis=0)
        return Reduced(found["by_episode"].sum(axis=0), gradient=gradient, back=back, **found)


def reduce(
    linear: Linear, weight: np.ndarray, seam_weight: np.ndarray | None, start_weight: np.ndarray | None = None
) -> Reduced:
    """Eliminates the starts. `weight` (M) and `seam_weight` (S, 2nv, 2nv) are inverse variances.

    `start_weight` (2nv) holds starts faintly where they were, so that what no reading tells stays finite.
    """
    shooting, total = linear.shooting, linear.width
    by_episode, gradient = np.zeros((len(shooting.experiments), total, total)), np.zeros(total)
    score = np.zeros((shooting.blocks, total))
    back = list[tuple[np.ndarray, np.ndarray, np.ndarray]]()
    log_det, explained = np.zeros(len(shooting.experiments)), np.zeros(len(shooting.experiments))
    gap = np.nan_to_num(linear.gap)  # what diverged or was not rolled has no weight
    for e, each in enumerate(shooting.experiments):
        mine = np.flatnonzero(shooting.episode == e)
        rows = slice(int(shooting.bounds[mine[0]]), int(shooting.bounds[mine[-1] + 1]))
        own = linear.columns[each.group]
        J, left = linear.by_parameter[rows], gap[rows]
        hessian, pull = (J * weight[rows, None]).T @ J, (J * weight[rows, None]).T @ left
        if linear.by_start is not None:
            part = _episode(linear, gap, weight, seam_weight, start_weight, mine)
            part.Hxx[np.diag_indices_from(part.Hxx)] *= 1 + 1e-9  # stiff seams beside soft ones
            factor = cho_factor(part.Hxx, lower=True, check_finite=False)
            alone, mixed = cho_solve(factor, part.gx), cho_solve(factor, part.Hxt)
            hessian = hessian + part.Htt - part.Hxt.T @ mixed
            pull = pull + part.gt - part.Hxt.T @ alone
            log_det[e] = 2 * float(np.log(np.diag(factor[0])).sum())
            explained[e] = float(part.gx @ alone)
            # rows after the starts' own best step, and parameter columns off the starts' columns
            place = np.searchsorted(mine, shooting.window[rows])
            width = linear.by_start.shape[1]
            left = left - np.einsum("mk,mk->m", linear.by_start[rows], alone.reshape(-1, width)[place])
            J = J - np.einsum("mk,mkp->mp", linear.by_start[rows], mixed.reshape(-1, width, J.shape[1])[place])
            spread = np.zeros((len(part.gx), total))
            spread[:, own] = mixed
            back.append((mine, alone, spread))
            for s, V in part.seams:
                i = int(np.searchsorted(mine, shooting.seams[s]))
                both = slice(i * width, (i + 2) * width)
                E, T = part.edges[s]
                off = -linear.seam[s] - E @ alone[both]
                score[np.ix_([shooting.last_block[mine[i]]], own)] += (T - E @ mixed[both]).T @ V @ off
        by_episode[e][np.ix_(own, own)] = hessian
        gradient[own] += pull
        local = np.zeros((shooting.blocks, len(own)))
        np.add.at(local, shooting.block[rows], J * (weight[rows] * left)[:, None])
        score[:, own] += local
    return Reduced(by_episode.sum(axis=0), by_episode, gradient, score, log_det, explained, tuple(back))


@dataclass(frozen=True, eq=False)
class _Episode:
    """Blocks of one episode's normal equations; Htt and gt hold the seams' part alone."""

    Hxx: np.ndarray
    Hxt: np.ndarray
    Htt: np.ndarray
    gx: np.ndarray
    gt: np.ndarray
    seams: tuple[tuple[int, np.ndarray], ...]
    edges: Mapping[int, tuple[np.ndarray, np.ndarray]]


def _episode(
    linear: Linear,
    gap: np.ndarray,
    weight: np.ndarray,
    seam_weight: np.ndarray | None,
    start_weight: np.ndarray | None,
    mine: np.ndarray,
) -> _Episode:
    shooting = linear.shooting
    assert linear.by_start is not None
    width, P = linear.by_start.shape[1], linear.by_parameter.shape[1]
    size = len(mine) * width
    Hxx, Hxt, Htt = np.zeros((size, size)), np.zeros((size, P)), np.zeros((P, P))
    gx, gt = np.zeros(size), np.zeros(P)
    seams, edges = [], {}
    seam_of = {int(w): s for s, w in enumerate(shooting.seams)}
    for i, w in enumerate(mine):
        rows = slice(int(shooting.bounds[w]), int(shooting.bounds[w + 1]))
        here = slice(i * width, (i + 1) * width)
        block = (linear.by_start[rows] * weight[rows, None]).T
        Hxx[here, here] += block @ linear.by_start[rows]
        Hxt[here] += block @ linear.by_parameter[rows]
        gx[here] += block @ gap[rows]
        if start_weight is not None:
            Hxx[here, here] += np.diag(start_weight)
        s = seam_of.get(int(w), -1)
        if seam_weight is None or s < 0 or not np.isfinite(linear.seam[s]).all():
            continue
        assert linear.seam_by_start is not None
        assert linear.seam_by_parameter is not None
        both = slice(i * width, (i + 2) * width)
        E = np.concatenate([linear.seam_by_start[s], -np.eye(width)], axis=1)
        T, V, off = linear.seam_by_parameter[s], seam_weight[s], -linear.seam[s]
        Hxx[both, both] += E.T @ V @ E
        Hxt[both] += E.T @ V @ T
        gx[both] += E.T @ V @ off
        Htt += T.T @ V @ T
        gt += T.T @ V @ off
        seams.append((s, V))
        edges[s] = (E, T)
    return _Episode(Hxx, Hxt, Htt, gx, gt, tuple(seams), edges)


def box_step(
    hessian: np.ndarray, gradient: np.ndarray, low: np.ndarray, high: np.ndarray, damping: float = 0.0
) -> np.ndarray:
    """The step that minimises ½ sᵀHs − gᵀs with low ≤ s ≤ high, Levenberg's damping on the diagonal."""
    from scipy.optimize import lsq_linear

    told = np.diag(hessian) * np.square(high - low) > 1e-12  # in units of the box
    if not told.all():  # nothing is known of these: they stay
        step = np.zeros(len(gradient))
        if told.any():
            some = np.ix_(told, told)
            step[told] = box_step(hessian[some], gradient[told], low[told], high[told], damping)
        return step
    scale = np.sqrt(np.diag(hessian))
    normed = hessian / np.outer(scale, scale)
    values, vectors = np.linalg.eigh(normed)
    values = np.maximum(values, 0.0) + damping + 1e-12
    root = (vectors * np.sqrt(values)).T
    right = (vectors / np.sqrt(values)).T @ (gradient / scale)
    free = np.linalg.lstsq(root, right, rcond=None)[0] / scale
    if (free >= low).all() and (free <= high).all():
        return np.asarray(free)
    found = lsq_linear(root, right, (low * scale - 1e-15, high * scale + 1e-15), method="bvls", max_iter=500)
    return np.asarray(np.clip(found.x / scale, low, high))
