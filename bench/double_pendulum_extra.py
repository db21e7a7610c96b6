"""Two things on top of a fit: a residual model with its domain, and the encoder zero found while a run goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from bench.double_pendulum_data import Log, published, roll_published, run, states

from twinproof.identify.actuator_fit import Matched, Matching, Run, Windowed
from twinproof.identify.residual_dynamics import RandomFeatures, Verdict, adopt, labels
from twinproof.nouns.randomness import stream
from twinproof.nouns.theta import Theta
from twinproof.sim.driven import Driven
from twinproof.sim.law import Chain, Law
from twinproof.sim.windows import Commands, Start

SHORT, APART, PAST = 50, 10, 25  # samples: windows for labels, how far apart they begin, commands before them
CHECKED = Matching(length=500, stride=250)
LOOK = Matching(length=100, stride=25, every=10)  # 0.2 s: what tells the zeros
NUDGE = 0.005
ZERO_SD = 0.03  # rad: how far encoder zeros of the calibration runs lie from hanging, about
TRUSTED = np.radians(1.0)  # what 0.2 s of simulation are off by, about


def missing(
    driven: Driven, runs: Sequence[Run], thetas: Sequence[Theta], law: Law
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, missing torques and run numbers of short windows over the runs."""
    inputs, torques, numbers = [], [], []
    speeds = Driven(driven.scene, ("qpos", "qvel"))
    for r, (each, theta) in enumerate(zip(runs, thetas, strict=True)):
        first = np.arange(50, len(each.seen) - SHORT, APART)
        sent = each.commands[first[:, None] + np.arange(SHORT)]
        past = each.commands[first[:, None] + np.arange(-PAST, 0)]
        start = Start(each.qpos[first], each.qvel[first], past=past, encoders=True)
        which = np.zeros(len(first), dtype=np.int64)
        commands = Commands(sent, np.arange(len(first)), np.arange(SHORT))
        x, y = labels(speeds, [theta], which, start, commands, each.qvel[first + SHORT], law)
        inputs.append(x)
        torques.append(y)
        numbers.append(np.full(len(x), r))
    return np.concatenate(inputs), np.concatenate(torques), np.concatenate(numbers)


def with_residual(driven: Driven, logs: Sequence[Log], fit: Matched, seed: int = 0) -> tuple[Law, Verdict]:
    """A residual model, judged in rollouts: each calibration run in turn is validation for a model of the others."""
    runs = [run(log) for log in logs]
    thetas = [fit.theta(each.id) for each in runs]
    x, y, number = missing(driven, runs, thetas, fit.law)
    squared: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    inside = []
    for v in range(len(runs)):
        others = number != v
        residual = RandomFeatures().fit(x[others], y[others], number[others], stream(seed, "residual", runs[v].id))
        inside.append(residual.domain.weight(x[~others]).mean())
        windows = Windowed(driven, runs[v : v + 1], CHECKED)
        for law, kept in zip((fit.law, Chain((fit.law, residual))), squared, strict=True):
            kept.append(windows.gaps([thetas[v : v + 1]], [law])[0])
    ends = [[(np.concatenate(kept)[:, k] ** 2).sum(axis=1) for k in (24, 49)] for kept in squared]
    verdict = adopt(*ends, share_inside=float(np.mean(inside)))
    if not verdict.adopted:
        return fit.law, verdict
    return Chain((fit.law, RandomFeatures().fit(x, y, number, stream(seed, "residual")))), verdict


def zeros_before(gaps: Callable[[np.ndarray], np.ndarray], past: np.ndarray, first: np.ndarray) -> np.ndarray:
    """The encoder zeros (windows, 2) as known at each window's begin, from what the run showed before it.

    `gaps` of zeros (V, 2) are those (V, windows, …) of short windows that begin at `past`. They are about linear in the
    zeros; the calibration runs' spread is the prior.
    """
    gap = gaps(np.array([[0.0, 0.0], [NUDGE, 0.0], [0.0, NUDGE]])).reshape(3, len(past), -1)
    slope = np.moveaxis((gap[1:] - gap[0]) / NUDGE, 0, -1)
    weight = 1 / np.sqrt(1 + (gap[0] / TRUSTED) ** 2) / TRUSTED**2 / 10  # neighbours tell much the same
    hessian = np.einsum("wni,wn,wnj->wij", slope, weight, slope)
    gradient = np.einsum("wni,wn->wi", slope, weight * gap[0])
    found = np.zeros((len(first), 2))
    for k, begin in enumerate(first):
        done = past + LOOK.length <= begin
        known = hessian[done].sum(axis=0) + np.eye(2) / ZERO_SD**2
        found[k] = -np.linalg.solve(known, gradient[done].sum(axis=0))
    return found


def gaps_with_zeros(driven: Driven, each: Run, method: Matching, theta: Theta, law: Law) -> np.ndarray:
    """Simulated minus seen positions, every window with the encoder zero that the run had shown until then."""
    first = Windowed(driven, [each], method).first
    parts = []
    for begin in first:
        span = slice(int(begin) - method.first, int(begin) + method.length + 1)
        part = (getattr(each, name)[span] for name in ("seen", "qpos", "qvel", "commands"))
        parts.append(Run(f"{each.id} from {begin}", *part))
    windows = Windowed(driven, parts, replace(method, every=1))
    past = Windowed(driven, [each], LOOK)

    def gaps(zeros: np.ndarray) -> np.ndarray:
        return past.gaps([[_zeroed(theta, zero)] for zero in zeros], [law] * len(zeros))

    zeros = zeros_before(gaps, past.first, first)
    return windows.gaps([[_zeroed(theta, zero) for zero in zeros]], [law])[0]


def published_with_zeros(name: str, log: Log, rule: str, method: Matching, samples_late: int) -> np.ndarray:
    """The same for a published model: its equations, its zeros from the same windows in the same way."""
    q, v = states(log, rule)
    parameters = published(name)

    def roll(first: np.ndarray, length: int, zeros: np.ndarray) -> np.ndarray:
        span = first[:, None] + np.arange(length)
        torque = log.commanded[np.maximum(span - samples_late, 0)]
        rolled = roll_published(parameters, q[first] - zeros, v[first], torque, length)
        return rolled + zeros[:, None] - log.position[span + 1]

    past = np.arange(LOOK.first, len(q) - LOOK.length, LOOK.stride)
    first = np.arange(method.first, len(q) - method.length, method.stride)

    def gaps(zeros: np.ndarray) -> np.ndarray:
        every = slice(LOOK.every - 1, None, LOOK.every)
        return np.stack([roll(past, LOOK.length, np.tile(zero, (len(past), 1)))[:, every] for zero in zeros])

    return roll(first, method.length, zeros_before(gaps, past, first))


def _zeroed(theta: Theta, zero: np.ndarray) -> Theta:
    return theta | {"joint.shoulder.offset": float(zero[0]), "joint.elbow.offset": float(zero[1])}
