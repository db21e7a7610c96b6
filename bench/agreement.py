"""How often intervals of Pearson's r and MMRV cover the true ones: `python -m bench.agreement`.

Ours (draws of the true rates) beside the bootstrap that is in use elsewhere (trials drawn anew within each policy) with
its best settings: half a success added, Efron's bias correction.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.special import ndtr, ndtri

from twinproof.evaluate.statistics_agreement import agreement, mmrv, pearson
from twinproof.nouns.randomness import stream

CASES = ((4, 20, 0.1), (6, 50, 0.0), (6, 50, 0.1), (6, 50, 0.2), (8, 50, 0.3), (6, 200, 0.1))  # policies, trials, sd


def bootstrapped(real: np.ndarray, sim: np.ndarray, trials: int, rng: np.random.Generator, level: float) -> dict:
    """Bias-corrected quantiles of r and MMRV over trials drawn anew."""
    again = [rng.binomial(trials, (k + 0.5) / (trials + 1), (2000, len(k))) / trials for k in (real, sim)]
    found = {}
    for name, measure in (("r", pearson), ("mmrv", mmrv)):
        value = float(measure(real=real / trials, sim=sim / trials))
        draws = measure(real=again[0], sim=again[1])
        draws = draws[np.isfinite(draws)]
        below = np.clip((draws < value).mean() + 0.5 * (draws == value).mean(), 1e-4, 1 - 1e-4)
        shares = ndtr(2 * ndtri(below) + ndtri([(1 - level) / 2, (1 + level) / 2]))
        low, high = np.quantile(draws, shares)
        found[name] = (min(low, value), max(high, value))
    return found


def main() -> None:
    """One row a case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--panels", type=int, default=120)
    parser.add_argument("--level", type=float, default=0.9)
    asked = parser.parse_args()
    print("| policies × trials | sd | r covered | MMRV covered | bootstrap: r | MMRV |\n|---|---|---|---|---|---|")
    for policies, trials, spread in CASES:
        inside = np.zeros(4)
        for k in range(asked.panels):
            rng = stream(k, "bench", "agreement", f"{policies} {trials} {spread}")
            p = rng.uniform(0.1, 0.9, policies)
            q = np.clip(p + spread * rng.normal(size=policies), 0.02, 0.98)
            real, sim = rng.binomial(trials, p), rng.binomial(trials, q)
            truth = {"r": float(pearson(real=p, sim=q)) - 1e-12, "mmrv": float(mmrv(real=p, sim=q))}
            ours = agreement([(int(x), trials) for x in real], [(int(x), trials) for x in sim], rng, asked.level)
            other = bootstrapped(real, sim, trials, rng, asked.level)
            inside += [
                ours.pearson is not None and ours.pearson.low <= truth["r"] <= ours.pearson.high,
                ours.mmrv.low <= truth["mmrv"] <= ours.mmrv.high,
                other["r"][0] <= truth["r"] <= other["r"][1],
                other["mmrv"][0] <= truth["mmrv"] <= other["mmrv"][1],
            ]
        share = " | ".join(f"{100 * x / asked.panels:.0f} %" for x in inside)
        print(f"| {policies} × {trials} | {spread} | {share} |", flush=True)


if __name__ == "__main__":
    main()
