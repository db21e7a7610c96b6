"""Whether 90 % intervals cover 90 % of planted truths: `python -m bench.coverage pendulum --plants 200`.

Each plant of the lab is recorded briefly, fitted, and its intervals are held against its truth. A line of JSON a plant
goes to build/coverage/, so a run that was stopped goes on where it was; `--report` prints what is there already.
CPU time is of the worker's process with its threads; rollouts are windows simulated, Jacobians included.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from bench.plants import SETUPS, Case, case
from threadpoolctl import threadpool_limits

from twinproof.identify.bootstrap import BlockBootstrap
from twinproof.identify.calibration_check import Coverage, central, covered, crps, interval_score, rank
from twinproof.identify.fit import Fit, GaussNewton, fit
from twinproof.identify.infer import solve
from twinproof.identify.laplace import Laplace
from twinproof.identify.method import Draws, Method
from twinproof.nouns.randomness import stream

WORK = Path(__file__).parents[1] / "build" / "coverage"
METHODS = ("laplace", "plain_laplace", "bootstrap", "svgd", "mdn", "npe", "npe_alone")
IDENTIFIED = 0.25  # an interval below this share of the prior's counts as identified
LEVEL = 0.9
UNSEEN = 5000  # added to a design's seed for episodes that nothing is fitted to


@dataclass(frozen=True)
class Run:
    """What is measured; equal runs share a file."""

    bench: str
    method: str
    effects: str = "off"
    design: int | None = 0  # seed of the commands; None: every plant has its own

    @property
    def path(self) -> Path:
        design = "own" if self.design is None else str(self.design)
        return WORK / f"{self.bench}-{self.method}-{self.effects}-{design}.jsonl"


def method_named(name: str, bench: str) -> Method:
    """The method with the settings that are scored. NPE is amortised, or trained for each plant `npe_alone`."""
    match name:
        case "plain_laplace":
            return Laplace(widen=False)
        case "bootstrap":
            return BlockBootstrap()
        case "svgd":
            from twinproof.identify.svgd import Svgd

            return Svgd()
        case "mdn":
            from twinproof.identify.mixture_density import MixtureDensity

            return MixtureDensity()
        case "npe":
            from bench.coverage_npe import AmortisedNpe

            return AmortisedNpe(bench)
        case _:
            from twinproof.identify.npe import Npe

            return Npe()


def one(runs: tuple[Run, ...], plant: int) -> dict[Run, dict[str, Any]]:
    """One plant: recorded and fitted once, then inferred in every way, and held against its truth.

    With effects on, parameters have no truth to be held against; bands are held against episodes nothing was fitted to.
    """
    first = runs[0]
    design = plant if first.design is None else first.design
    made = case(SETUPS[first.bench], plant, design, first.effects)
    before = fits_before(first).get(plant)
    if before is not None and all(run.method == "npe" for run in runs):
        return {run: _inferred(run, made, *_refitted(made, before), plant) for run in runs}
    spent = time.process_time()
    found = solve(made.problem, Laplace(), stream(plant, "bench", "coverage", "solve"))
    fit_cpu = time.process_time() - spent
    cost = fit_cpu, found.fitted.rollouts
    rows = {run: _inferred(run, made, found.fitted, found.drawn, cost, plant) for run in runs}
    if first.effects != "off":
        unseen = case(SETUPS[first.bench], plant, design + UNSEEN, first.effects).problem
        told = found.coverage_on(unseen, stream(plant, "bench", "coverage", "unseen"))
        rows = {run: {**row, "predictive": told} for run, row in rows.items()}
    return rows


@cache
def fits_before(run: Run) -> dict[int, dict[str, Any]]:
    """The default's rows on the same plants: where a fit ended, and what it cost."""
    return {row["plant"]: row for row in rows(Run(run.bench, "laplace", run.effects, run.design))}


def _refitted(made: Case, before: dict[str, Any]) -> tuple[Fit, None, tuple[float, int]]:
    """A known optimum with its slopes: the last stage alone, from there. What the whole fit had cost is counted."""
    last = GaussNewton(GaussNewton().horizons_s[-1:])
    with threadpool_limits(1, user_api="blas"):
        return fit(made.problem, last, np.array(before["best"])), None, (before["fit_cpu_s"], before["rollouts"])


def _inferred(
    run: Run, made: Case, fitted: Fit, draws: Draws | None, cost: tuple[float, int], plant: int
) -> dict[str, Any]:
    """A method's row. Everything on the natural scale; `cost` is that of the fit, CPU-seconds and windows."""
    problem, (fit_cpu, fit_rollouts), spent = made.problem, cost, time.process_time()
    if run.method != "laplace" or draws is None:
        draws = method_named(run.method, run.bench).infer(
            problem, fitted, stream(plant, "bench", "coverage", run.method)
        )
    cpu = time.process_time() - spent
    low, high = central(draws.unknowns, draws.log_weights, LEVEL)
    truth = natural(made)
    noise = zip(fitted.stages[-1].shooting.entries, fitted.stages[-1].sd, strict=True)
    return {
        "plant": plant,
        "ids": list(problem.ids),
        "truth": truth.tolist(),
        "best": fitted.unknowns.tolist(),
        "low": low.tolist(),
        "high": high.tolist(),
        "rank": rank(draws.unknowns, truth, draws.log_weights).tolist(),
        "crps": crps(draws.unknowns, truth, draws.log_weights).tolist(),
        "width": problem.width.tolist(),
        "log": [belief.info.log for belief in problem.beliefs],
        "rollouts": fit_rollouts + draws.rollouts,
        "fit_cpu_s": fit_cpu,
        "cpu_s": fit_cpu + cpu,
        "cost": fitted.cost,
        "noise": {name: float(sd) for name, sd in noise},
        "process": np.ravel(fitted.stages[-1].process).tolist(),
        "diagnostics": dict(draws.diagnostics),
    }


def natural(made: Case) -> np.ndarray:
    """The truth on the natural scale, in the order of the unknowns."""
    return np.array([float(b.info.to_scale(made.truth[b.id])) for b in made.problem.beliefs])


def rows(run: Run) -> list[dict[str, Any]]:
    """What was measured so far."""
    if not run.path.is_file():
        return []
    return [json.loads(line) for line in run.path.read_text(encoding="utf-8").splitlines() if line.strip()]


def measure(runs: tuple[Run, ...], plants: range, workers: int) -> None:
    """Measures what is missing; a plant is fitted once for all methods that miss it."""
    WORK.mkdir(parents=True, exist_ok=True)
    done = {run: {row["plant"] for row in rows(run)} for run in runs}
    tasks = [(tuple(run for run in runs if plant not in done[run]), plant) for plant in plants]
    tasks = [task for task in tasks if task[0]]
    for k, found in enumerate(_measured(tasks, workers), 1):
        for run, row in found.items():
            with run.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            print(f"  {k} of {len(tasks)}: plant {row['plant']}, {run.method}, {row['cpu_s']:.1f} CPU-s", flush=True)


def _measured(tasks: list[tuple[tuple[Run, ...], int]], workers: int) -> Iterator[dict[Run, dict[str, Any]]]:
    if workers < 2:
        yield from (one(*task) for task in tasks)
        return
    context = multiprocessing.get_context("spawn")
    numbers = context.Queue()
    for number in range(workers):
        numbers.put(number)
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_alone, initargs=(numbers,)) as pool:
        for future in as_completed([pool.submit(one, *task) for task in tasks]):
            yield future.result()


def _alone(number: Any) -> None:
    """Each worker takes one core, so that its threads do not fight with those of the others."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[number.get() % len(cores)]})


def summary(run: Run) -> str:
    """The table of one run, in Markdown."""
    found = rows(run)
    if not found:
        return f"nothing was measured for {run.path.name} yet."
    ids = found[0]["ids"]
    truth, best, low, high = (np.array([row[name] for row in found]) for name in ("truth", "best", "low", "high"))
    width, ranked = np.array(found[0]["width"]), np.array([row["crps"] for row in found]) / found[0]["width"]
    log = np.array(found[0]["log"])
    inside = covered(low, high, truth)
    score = interval_score(low, high, truth, LEVEL) / width
    wrong = np.where(log, np.abs(np.expm1(best - truth)), np.abs(best - truth) / np.maximum(np.abs(truth), 1e-12))
    share = (high - low) / (LEVEL * np.sqrt(12) * width)
    lines = [
        f"### {run.bench}, {run.method}, effects {run.effects}: {len(found)} plants",
        "",
        "| parameter | covered | interval score | CRPS | median error | of the prior's interval |",
        "|---|---|---|---|---|---|",
    ]
    scored = [p for p in range(len(ids)) if np.isfinite(truth[:, p]).all()]
    for p in scored:
        cover = Coverage(int(inside[:, p].sum()), len(found), LEVEL)
        lines.append(
            f"| {ids[p]} | {cover} | {np.mean(score[:, p]):.3g} | {np.mean(ranked[:, p]):.3g} | "
            f"{100 * np.median(wrong[:, p]):.2f} % | {100 * np.median(share[:, p]):.1f} % |"
        )
    if "predictive" in found[0]:
        return "\n".join([lines[0], "", *_predicted(found)])
    lines += [
        "",
        *_overall(found, inside[:, scored], score[:, scored], ranked[:, scored], wrong[:, scored], share[:, scored]),
    ]
    return "\n".join(lines)


def _overall(
    found: list[dict[str, Any]],
    inside: np.ndarray,
    score: np.ndarray,
    ranked: np.ndarray,
    wrong: np.ndarray,
    share: np.ndarray,
) -> list[str]:
    identified = share < IDENTIFIED
    by_plant = inside.mean(axis=1)
    half = 1.96 * by_plant.std(ddof=1) / np.sqrt(len(by_plant)) if len(by_plant) > 1 else float("nan")
    cpu, fits, rolled = (np.array([row[name] for row in found]) for name in ("cpu_s", "fit_cpu_s", "rollouts"))
    sure = Coverage(int(inside[identified].sum()), int(identified.sum()), LEVEL) if identified.any() else None
    return [
        f"- covered overall: {Coverage(int(inside.sum()), inside.size, LEVEL)}; with plants as the independent unit "
        f"± {100 * half:.1f} points; of identified ones {sure}",
        f"- interval score, geometric mean over parameters of the mean over plants, in prior sd: "
        f"{np.exp(np.mean(np.log(score.mean(axis=0)))):.4g}; CRPS: {np.exp(np.mean(np.log(ranked.mean(axis=0)))):.4g}",
        f"- median relative error of identified parameters ({100 * identified.mean():.0f} % of all): "
        f"{100 * np.median(wrong[identified]) if identified.any() else float('nan'):.2f} %",
        f"- CPU-seconds a plant: median {np.median(cpu):.1f} (of these the fit {np.median(fits):.1f}); windows "
        f"simulated: median {np.median(rolled):.0f}",
    ]


def _predicted(found: list[dict[str, Any]]) -> list[str]:
    """How 90 % bands cover unseen episodes over all plants: the entries of a signal with one unit together."""
    whole = np.array([row["predictive"]["covered"] for row in found])
    alone = np.array([row["predictive"]["covered_by_parameters_alone"] for row in found])
    half = 1.96 * whole.std(ddof=1) / np.sqrt(len(whole)) if len(whole) > 1 else float("nan")
    lines = ["| signal | horizon | covered | by parameters alone | interval score |", "|---|---|---|---|---|"]
    kinds: dict[tuple[str, str, float], list[dict[str, Any]]] = {}
    for row in found:
        for each in row["predictive"]["by_signal"]:
            signal = each["signal"].rpartition(".")[0]
            kinds.setdefault((signal, each["unit"], each["horizon_s"]), []).append(each)
    for (signal, _, horizon), every in kinds.items():
        mean = {name: float(np.mean([each[name] for each in every])) for name in ("covered", "by_parameters_alone")}
        score = float(np.mean([each["interval_score"] for each in every]))
        lines.append(
            f"| {signal} | {horizon:g} s | {100 * mean['covered']:.1f} % | {100 * mean['by_parameters_alone']:.1f} % | "
            f"{score:.3g} {every[0]['unit']} |"
        )
    cpu = np.median([row["fit_cpu_s"] for row in found])
    return [
        *lines,
        "",
        f"- unseen readings covered: {100 * whole.mean():.1f} % ± {100 * half:.1f} (mean over plants, 95 %); "
        f"plants between 80 and 97 %: {100 * np.mean((whole >= 0.8) & (whole <= 0.97)):.0f} %; by parameters alone "
        f"{100 * alone.mean():.1f} %",
        f"- CPU-seconds a plant: median {cpu:.1f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bench", choices=sorted(SETUPS))
    parser.add_argument("--method", default="laplace", help=f"one or more of {', '.join(METHODS)}, with commas")
    parser.add_argument("--plants", type=int, default=20)
    parser.add_argument("--first", type=int, default=1000, help="the first plant's number")
    parser.add_argument("--effects", default="off")
    parser.add_argument("--design", type=int, default=0, help="seed of the commands; -1: every plant has its own")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--report", action="store_true", help="only print what was measured")
    asked = parser.parse_args()
    design = None if asked.design < 0 else asked.design
    names = asked.method.split(",")
    if not set(names) <= set(METHODS):
        parser.error(f"--method {asked.method}: choose from {', '.join(METHODS)}")
    runs = tuple(Run(asked.bench, name, asked.effects, design) for name in names)
    if not asked.report:
        measure(runs, range(asked.first, asked.first + asked.plants), asked.workers)
    print("\n\n".join(summary(run) for run in runs))


if __name__ == "__main__":
    main()
