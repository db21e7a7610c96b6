"""NPE for many plants: one bank of 10,000 simulations around the fits of a few plants, one flow, then a draw a plant.

plant's fit ─ widened covariance (L Lᵀ)⁻¹ ─ z = Lᵀ(θ − fit) / TIMES ─ simulation ─ Lᵀ step, sizes ─┐ 10 plants × 1000
another plant's fit ──────────────────────────────────────> Lᵀ step, sizes of gaps ─ flow ─ z ─ θ <─┘ trained once

In these coordinates plants look alike (a Cholesky root has no signs and no order to choose), so that a flow trained on
some serves others. Simulations are the product's own (`identify.simulate`). Bank plants are never scored.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from bench.plants import SETUPS, case

from twinproof.identify.fit import Fit
from twinproof.identify.infer import solve
from twinproof.identify.laplace import Laplace, covariance_of, widening
from twinproof.identify.method import Draws, Method
from twinproof.identify.npe import drawn, sbi_module, trained
from twinproof.identify.problem import Problem
from twinproof.identify.simulate import Region, Simulator, Training
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.randomness import stream

WORK = Path(__file__).parents[1] / "build" / "coverage"
PLANTS, EACH, TIMES = range(2000, 2010), 1000, 5.0


@dataclass(frozen=True)
class AmortisedNpe(Method):
    """A flow that was trained once on the bank of a bench, asked at the summary of each plant's fit."""

    bench: str
    draws: int = 1000

    name = "npe"

    def infer(self, problem: Problem, fitted: Fit, rng: np.random.Generator, progress: Progress = quiet) -> Draws:
        """Draws at the recording's summary; the bank's cost is not counted here."""
        flow, centre, spread, _ = flow_of(self.bench)
        where, root = region(fitted)
        told = canonical(Simulator(fitted, rng), root, None)
        nothing = np.empty((0, len(fitted.unknowns)))
        learnt = Training(where, nothing, nothing, (told[0] - centre) / spread, 0)
        unknowns, log_weights, found = learnt.draws(lambda n: drawn(flow, learnt.observed, n, rng), self.draws)
        return Draws(unknowns, log_weights, 0, found)


def region(fitted: Fit) -> tuple[Region, np.ndarray]:
    """The box of TIMES widened sd around a fit along the columns of L⁻ᵀ, and L."""
    covariance = covariance_of(fitted)
    widened = widening(fitted, covariance)
    root = np.linalg.cholesky(np.linalg.inv(covariance * np.outer(widened, widened)))
    return Region(fitted.problem, fitted.unknowns, TIMES * np.linalg.inv(root).T), root


def canonical(simulator: Simulator, root: np.ndarray, unknowns: np.ndarray | None) -> np.ndarray:
    """Summaries (K, D) of simulations, or of the recording: the Gauss–Newton step that each asks for, times Lᵀ."""
    found = simulator.observed[None] if unknowns is None else simulator.summaries(unknowns)
    count = len(root)
    pulls = np.linalg.solve(simulator.whitening, found[:, :count].T)
    steps = covariance_of(simulator.fitted) @ pulls
    return np.column_stack([(root.T @ steps).T, found[:, count:]])


@cache
def flow_of(bench: str) -> tuple[Any, np.ndarray, np.ndarray, dict[str, float]]:
    """The trained flow, the scale of its summaries, and what it all cost in CPU-seconds and windows."""
    z, summary, cost = bank(bench)
    centre, spread = summary.mean(axis=0), np.maximum(summary.std(axis=0), 1e-9)
    problem = case(SETUPS[bench], PLANTS[0], 0, "off").problem
    width = z.shape[1]
    whole = Region(problem, np.zeros(width), np.eye(width))
    spent = time.process_time()
    learnt = Training(whole, z, (summary - centre) / spread, np.zeros(summary.shape[1]), 0)
    flow = trained(sbi_module(), learnt, "maf", stream(0, "bench", "coverage", bench, "flow"))
    cost["training_cpu_s"] = time.process_time() - spent
    (WORK / f"{bench}-npe-bank.json").write_text(json.dumps(cost, indent=2))
    print(f"  the bank of {len(z)} simulations: {cost}", flush=True)
    return flow, centre, spread, cost


def bank(bench: str) -> tuple[np.ndarray, np.ndarray, dict[str, float]]:
    """z (10,000, G), their summaries, and the cost; made once, then read from build/coverage."""
    path = WORK / f"{bench}-npe-bank.npz"
    if path.is_file():
        with np.load(path) as kept:
            names = ("fits_cpu_s", "simulations_cpu_s", "windows")
            return kept["z"], kept["summary"], dict(zip(names, kept["cost"].tolist(), strict=True))
    every, summaries, cost = [], [], np.zeros(3)
    for plant in PLANTS:
        rng, spent = stream(plant, "bench", "coverage", "bank"), time.process_time()
        fitted = solve(case(SETUPS[bench], plant, 0, "off").problem, Laplace(), rng).fitted
        fits = time.process_time() - spent
        simulator, (where, root) = Simulator(fitted, rng), region(fitted)
        unknowns, z = where.draw(EACH, rng)
        every.append(z)
        summaries.append(canonical(simulator, root, unknowns))
        cost += [fits, time.process_time() - spent - fits, simulator.rollouts]
        print(f"  bank: plant {plant}, {cost[0]:.0f} + {cost[1]:.0f} CPU-s so far", flush=True)
    z, summary = np.concatenate(every), np.concatenate(summaries)
    np.savez(path, z=z, summary=summary, cost=cost)
    return bank(bench)
