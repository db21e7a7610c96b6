"""Real cube tosses: CMA-ES on MuJoCo and twinproof, fitted to the same 60 tosses, scored on the same 100 others.

    python -m bench.cube_tosses OUT.json [SEED]

Whole tosses are rolled from their first measured state, 108 ms windows from theirs. Settings were chosen on the
calibration tosses and on 60 validation tosses; the scored ones are looked at when everything is fitted.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from bench.cube_tosses_baseline import MORE, SIX, Ranges, Worlds, evolve
from bench.cube_tosses_data import (
    FOLDER,
    XML,
    Roll,
    Score,
    Toss,
    episode,
    measured_states,
    published_friction,
    read,
    refined,
    rng,
    roller,
    score,
    split,
)

from twinproof.identify import predict
from twinproof.identify.beliefs import Stated
from twinproof.identify.bootstrap import BlockBootstrap
from twinproof.identify.cloud import CloudNewton, fit_cloud
from twinproof.identify.fit import Fit
from twinproof.identify.infer import Question, problem_of
from twinproof.nouns.theta import Theta
from twinproof.sim.scene import Scene

BAR = Score(13.6, 10.9, 19.1, 10.6, 3.88, 5.24)
METHOD = CloudNewton()
CONTACT = (
    "geom.board.friction_slide=0.05..0.6",
    "geom.board.contact_stiffness=1e3..1e6",
    "geom.board.contact_damping=10..2000",
    "geom.board.contact_dmax=0.3..0.999",
    "geom.cube.scale=0.94..1.04",
)
# From a solid cube (−3.50) to more than a hollow one (−3.24): its mass lies between the middle and the faces.
INERTIA = ("body.cube.inertia_d*=-3.6..-3.1", "body.cube.inertia_t*=-0.01..0.01")
DRAWS = 24
SOFT = 'solref="0.02 1" solimp="0.9 0.95 0.001"'  # MuJoCo's default contact


def question(stated: tuple[str, ...]) -> Question:
    """The parameters, each with the range that is stated for it."""
    return Question(tuple(text.split("=")[0] for text in stated), tuple(map(Stated.parse, stated)))


def published(_: list[Toss], __: int) -> tuple[Roll, dict[str, Any]]:
    """The authors' friction with MuJoCo's default contact: nothing is fitted."""
    begin = XML.index("solref=")
    xml = XML[:begin] + SOFT + XML[XML.index("/>", begin) :]
    friction = published_friction()
    return roller(Scene(xml), Theta({"geom.board.friction_slide": friction})), {"values": {"friction": friction}}


def evolved(ranges: Ranges) -> Callable[[list[Toss], int], tuple[Roll, dict[str, Any]]]:
    """CMA-ES over some parameters."""

    def fitted(tosses: list[Toss], seed: int) -> tuple[Roll, dict[str, Any]]:
        values, cost, spent = evolve(tosses, ranges, seed)
        worlds = Worlds("centre_x" in ranges)

        def roll(qpos: np.ndarray, qvel: np.ndarray, samples: int) -> np.ndarray:
            row = {name: np.array([value]) for name, value in values.items()}
            return worlds.roll(row, qpos, qvel, np.full(len(qpos), samples))[0]

        return roll, {"values": values, "cost": cost, "evaluations": spent}

    return fitted


def clouded(stated: tuple[str, ...]) -> Callable[[list[Toss], int], tuple[Roll, dict[str, Any]]]:
    """Ours over some parameters."""

    def fitted(tosses: list[Toss], seed: int) -> tuple[Roll, dict[str, Any]]:
        scene, moving = Scene(XML), [toss.moving() for toss in tosses]
        problem = problem_of(scene, [episode(toss) for toss in moving], question(stated))
        found = fit_cloud(problem, METHOD, rng(seed, "fit"), states=measured_states(moving))
        values = dict(zip(problem.ids, problem.values(found.unknowns)[0].tolist(), strict=True))
        told = {"values": values, "evaluations": _evaluations(found), "history": found.history, "fit": found}
        return roller(scene, Theta(values)), told

    return fitted


def _evaluations(found: Fit) -> int:
    """Rollouts as whole evaluations of the cost: physics steps of all windows of all horizons."""
    short, whole = (float(np.sum(stage.shooting.length)) for stage in found.stages)
    cloud = METHOD.size(len(found.problem.ids)) + 1
    clouds = METHOD.alone * (cloud + 5) * short + (METHOD.steps * (cloud + 5) + cloud) * (short + whole)
    return round(clouds / (short + whole))


CONTENDERS = {
    "published friction, default contact": published,
    "CMA-ES, the six": evolved(SIX),
    "CMA-ES, the six, inertia and centre of mass": evolved({**SIX, **MORE}),
    "twinproof, contact and size": clouded(CONTACT),
    "twinproof, contact, size, inertia and centre of mass": clouded((*CONTACT, *INERTIA)),
}
BASELINE, OURS = "CMA-ES, the six", "twinproof, contact, size, inertia and centre of mass"


def bands(found: Fit, scored: list[Toss], seed: int) -> dict[str, Any]:
    """Do the 90 % bands, from draws of the parameters and model error by signal and horizon, cover unseen tosses?"""
    began, problem = time.process_time(), found.problem
    drawn = BlockBootstrap(block="episode").infer(problem, found, rng(seed, "draws"))
    some = drawn.unknowns[rng(seed, "some").permutation(len(drawn.unknowns))[:DRAWS]]
    error = predict.discrepancy(found, some, predict.horizons_for(problem))
    unseen = problem_of(Scene(XML), [episode(toss) for toss in scored], question((*CONTACT, *INERTIA)))
    told = predict.coverage(unseen, found.unknowns, some, error, predict.noise_by_entry(found))
    sd = drawn.unknowns.std(axis=0)
    told["sd"] = dict(zip(problem.ids, sd.tolist(), strict=True))
    told["cpu_s"] = time.process_time() - began
    told.pop("episodes")
    return told


def measure(seed: int) -> dict[str, Any]:
    """All contenders are fitted before the scored tosses are looked at."""
    calibration, scored, validation = split(read(), seed)
    fits: dict[str, tuple[Roll, dict[str, Any]]] = {}
    for name, contender in CONTENDERS.items():
        began, cpu = time.perf_counter(), time.process_time()
        roll, told = contender(calibration, seed)
        told |= {"wall_s": time.perf_counter() - began, "cpu_s": time.process_time() - cpu}
        fits[name] = roll, told
        print(f"{name}: {told['cpu_s']:.1f} CPU-s, {told['wall_s']:.1f} s", flush=True)
    result: dict[str, Any] = {"seed": seed, "contenders": {}}
    for name, (roll, told) in fits.items():
        row = {key: value for key, value in told.items() if key != "fit"}
        row["scored"] = score(roll, scored).row
        row["scored_from_flight"] = score(roll, scored, refined(roll, scored)).row
        row["validation"] = score(roll, validation).row
        result["contenders"][name] = row
    result["bands"] = bands(fits[OURS][1]["fit"], scored, seed)
    return result


def table(result: Mapping[str, Any]) -> str:
    """The result as a page of text."""
    rows = result["contenders"]
    base = rows[BASELINE]
    lines = [
        f"60 calibration and 100 scored tosses, split {result['seed']}",
        "",
        "| contender | position % (median) | rotation ° (median) | 108 ms mm | 108 ms ° | evaluations | CPU-s (wall s) "
        "| time / CMA-ES | with the flight-fitted first state: position %, rotation ° |",
        "|---|---|---|---|---|---|---|---|---|",
        f"| figures to beat | {_figures(BAR.row)} | 976 | | | |",
    ]
    for name, row in rows.items():
        flown = row["scored_from_flight"]
        lines.append(
            f"| {name} | {_figures(row['scored'])} | {row.get('evaluations', '')} | {row['cpu_s']:.1f} "
            f"({row['wall_s']:.0f}) | {row['cpu_s'] / base['cpu_s']:.2f} | {flown[0]:.1f} ({flown[1]:.1f}), "
            f"{flown[2]:.1f} ({flown[3]:.1f}) |"
        )
    ours = rows[OURS]
    told = [f"{one / two:.2f}" for one, two in zip(ours["scored"], base["scored"], strict=True)]
    lines += ["", f"twinproof over CMA-ES with the six, figure by figure: {', '.join(told)}"]
    lines += [f"every published figure beaten: {all(np.array(ours['scored']) < BAR.row)}", ""]
    lines += ["values found: " + ", ".join(f"{id} {value:.4g}" for id, value in ours["values"].items()), ""]
    return "\n".join(lines + _bands(result["bands"]))


def _figures(row: tuple[float, ...]) -> str:
    return f"{row[0]:.1f} ({row[1]:.1f}) | {row[2]:.1f} ({row[3]:.1f}) | {row[4]:.2f} | {row[5]:.2f}"


def _bands(told: Mapping[str, Any]) -> list[str]:
    lines = [
        f"90 % bands cover {told['covered']:.1%} of the scored tosses' states; parameters alone "
        f"{told['covered_by_parameters_alone']:.1%}",
        "",
        "| signal | horizon s | covered | by parameters alone | RMS | width of the band | interval score |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in told["by_signal"]:
        lines.append(
            f"| {row['signal']} ({row['unit']}) | {row['horizon_s']} | {row['covered']:.1%} | "
            f"{row['by_parameters_alone']:.1%} | {row['rms']:.3g} | {row['band']:.3g} | {row['interval_score']:.3g} |"
        )
    return lines


def main() -> None:
    """Runs the bench, prints the table and writes all figures."""
    if not FOLDER.exists():
        raise SystemExit(f"the cube tosses are not in {FOLDER}: nothing to measure.")
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    result = measure(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    print(table(result))
    if path is not None:
        path.write_text(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
