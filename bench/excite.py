"""Whether a designed experiment tells more than others of its length: `python -m bench.excite pendulum --plants 6`.

For every plant of the lab (effects off) four recordings of equal length are made, each is fitted alone with the default
method and the same beliefs, and the geometric mean of the 90 % intervals' widths is compared:

passive    what a robot does anyway: the pendulum swings out, the arm carries its camera around
lab chirp  the bench's own chirp of one joint (pendulum only)
chirp      all joints at once, as large as the same limits allow; sweep and shape are the best of twelve, by information
designed   `twinproof excite` with its defaults, given the posterior of the passive recording
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from bench.plants import effective_delay

from twinproof.identify.beliefs import Belief, Stated, beliefs
from twinproof.identify.evolution import Evolution
from twinproof.identify.excite import Design, Excitation, Today, prepare
from twinproof.identify.excite_limits import Asked
from twinproof.identify.excite_search import Search
from twinproof.identify.fit import GaussNewton, fit
from twinproof.identify.laplace import Laplace
from twinproof.identify.problem import Problem
from twinproof.identify.seed import scan_delay
from twinproof.lab.benches import bench as bench_named
from twinproof.lab.hidden import Plant
from twinproof.lab.models import textures
from twinproof.lab.population import instance, measured
from twinproof.lab.record import Options, _Session
from twinproof.lab.take import play
from twinproof.nouns.episode import Episode
from twinproof.nouns.randomness import stream
from twinproof.nouns.trajectory import Trajectory
from twinproof.sim.experiment import experiment
from twinproof.sim.free_air import free_air
from twinproof.sim.scene import Scene

WORK = Path(__file__).parents[1] / "build" / "excite"
LEVEL = 0.9


@dataclass(frozen=True)
class Setup:
    """What is asked of a bench, and what its robot may do."""

    passive: str
    chirp: str | None
    patterns: tuple[str, ...]
    stated: tuple[str, ...]
    asked: Asked
    how: Design = Design()
    thing: str = ""


LINKS = ("turret", "upper_arm", "forearm", "forearm_link", "wrist_link", "hand")
HINGES = ("waist", "shoulder", "elbow", "forearm_roll", "wrist", "wrist_rotate")
OF_JOINTS = ("damping", "frictionloss", "armature", "offset")
ARM = (
    *(f"body.{link}.mass" for link in LINKS),
    *(f"joint.{joint}.{what}" for joint in HINGES for what in OF_JOINTS),
    *(f"actuator.{joint}.{what}" for joint in HINGES for what in ("gain", "delay", "backlash")),
    "gravity.tilt_x",
    "gravity.tilt_y",
)
FEW = Design(first=16, evolution=Evolution(generations=5, population=8), draws=1, bounding=4, checks=8)  # 50 parameters
SETUPS = {
    "pendulum": Setup(
        "free_swing",
        "chirp",
        (
            "body.*_link.mass", "joint.*.damping", "joint.*.frictionloss", "joint.*.armature", "actuator.*.gain",
            "actuator.*.delay", "gravity.tilt_y",
        ),
        # a motor's data sheet, and links whose mass a drawing tells to 30 %
        ("actuator.*.gain=0.7..1.4", "body.upper_link.mass=0.43..0.81", "body.lower_link.mass=0.32..0.60"),
        Asked({}, {}),
    ),
    # objects lie where only a camera sees them: the arm stays above the tallest
    "push": Setup("scan", None, ARM, (), Asked({}, {"gripper": 0.1}, clearance_m=0.10), FEW, "box_00"),
    "drawer": Setup("scan", None, ARM, (), Asked({}, {"gripper": 0.1}, clearance_m=0.05), FEW, "drawer_00"),
}  # fmt: skip


@cache
def _assets() -> Path:
    folder = Path(tempfile.mkdtemp(prefix=f"excite-{os.getpid()}-"))
    for name, data in textures.assets().items():
        (folder / name).write_bytes(data)
    return folder


def scene_of(name: str, plant: Plant) -> Scene:
    """The scene as the user believes it."""
    thing = SETUPS[name].thing
    return Scene(bench_named(name).nominal_scene(measured(instance(thing)) if thing else None, plant), _assets())


def record(name: str, plant: int, behaviour: str, trajectory: Trajectory | None = None) -> tuple[Episode, Plant]:
    """One episode of a plant: a behaviour, or a trajectory."""
    bench, setup = bench_named(name), SETUPS[name]
    options = Options(effects="off", images=False, scan=False, trajectory=trajectory)
    session = _Session(bench, 1, plant, options)
    take = replace(session.takes[0], object=setup.thing)
    take = take if trajectory is not None else replace(take, behaviour=behaviour)
    played = play(bench, session.plant, take, session.effects, plant, trajectory)
    return session.episode(played, Path())[0], session.plant


@dataclass(frozen=True, eq=False)
class Answer:
    """What one recording says: widths of the intervals on the natural scale, and whether they hold the truth."""

    width: np.ndarray
    covered: np.ndarray
    draws: np.ndarray
    cpu_s: float

    @property
    def mean_width(self) -> float:
        """The geometric mean."""
        return float(np.exp(np.log(self.width).mean()))


def answer(scene: Scene, held: tuple[Belief, ...], episode: Episode, plant: Plant) -> Answer:
    """The default method on one recording."""
    begun = time.process_time()
    problem = Problem(held, (experiment(episode, scene),))
    begin, _ = scan_delay(problem, problem.nominal)
    fitted = fit(problem, GaussNewton(), start=begin)
    draws = Laplace().infer(problem, fitted, stream(plant.seed, "bench", "excite", "draws")).unknowns
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    step_s = float(scene.nominal().opt.timestep)
    truth = []
    for belief in held:
        value = plant.value(belief.id, belief.nominal)
        if belief.id.endswith(".delay"):
            value = effective_delay(value, plant.value(f"{belief.id}_jitter"), step_s)
        truth.append(float(belief.info.to_scale(value)))
    held_in = (low <= np.array(truth)) & (np.array(truth) <= high)
    return Answer(high - low, held_in, draws, time.process_time() - begun)


def best_chirp(search: Search) -> np.ndarray:
    """Commands (T, J) of the most telling chirp: all joints at once, as large as the limits allow, gripper at rest."""
    series, limits = search.series, search.limits
    time_s = np.arange(series.count) / series.rate_hz
    room = np.where(np.array([unit == "m" for unit in limits.units]), 0.0, limits.room)
    ways = []
    for last in (1.0, 2.0, 4.0) if limits.kind == "torque" else (0.5, 1.0, 2.0):
        turn = 2 * np.pi * (0.1 * time_s + (last - 0.1) * time_s**2 / (2 * series.seconds))
        for steady in (False, True):  # the same size throughout, or the same speed
            size = 0.1 / (0.1 + (last - 0.1) * time_s / series.seconds) if steady else np.ones(series.count)
            for phase in (0.0, np.pi / 2):  # all in step, or a quarter of a turn from joint to joint
                way = np.sin(turn[:, None] + phase * np.arange(len(room))) * room
                ways.append((size * series.fade)[:, None] * way)
    found = np.stack(ways)
    if limits.kind == "position":
        fastest = np.abs(np.diff(found, axis=1)).max(axis=1) * series.rate_hz / limits.speed
        found /= np.maximum(fastest, 1.0)[:, None, :]
    for _ in range(30):
        excess, _ = search.excess(limits.rest + found, search.checking, exact=True)
        if not excess.any():
            break
        found[excess > 0] *= 0.9
    commands = limits.rest + found
    return commands[int(np.argmax(search.worth(commands)))]


def measure(name: str, plant: int, criterion: Literal["D", "E"]) -> dict[str, Any]:
    """All four recordings of one plant."""
    setup, bench = SETUPS[name], bench_named(name)
    passive, hidden = record(name, plant, setup.passive)
    whole = scene_of(name, hidden)
    alone = free_air(whole)  # nothing is touched: the robot alone explains all of these recordings
    model = whole.reserving(control_delay_s=0.1).nominal()
    held = beliefs(model, setup.patterns, [Stated.parse(text) for text in setup.stated])
    before = answer(alone, held, passive, hidden)
    today = Today.of_draws(held, before.draws)
    seconds = round((passive.span_s[1] - passive.span_s[0]) * bench.rate_hz) / bench.rate_hz
    how = replace(setup.how, criterion=criterion, seconds=seconds, rate_hz=float(bench.rate_hz))
    home = dict(bench.home)
    begun, cpu = time.perf_counter(), time.process_time()
    search = prepare(
        whole, held, today, how, stream(plant, "bench", "excite"), reference=passive, home=home, asked=setup.asked
    )
    found: Excitation = search.run()
    spent = time.perf_counter() - begun, time.process_time() - cpu
    recordings = {"passive": passive}
    if setup.chirp:
        recordings["lab chirp"] = record(name, plant, setup.chirp)[0]
    recordings["chirp"] = record(name, plant, "", search.trajectory(best_chirp(search)))[0]
    recordings["designed"] = record(name, plant, "", found.trajectory)[0]
    answers = {k: before if k == "passive" else answer(alone, held, each, hidden) for k, each in recordings.items()}
    shown = np.array(
        [
            x if s and not b.info.log else 1.0
            for b, s, x in zip(held, found.relative, answers["designed"].draws.mean(axis=0), strict=True)
        ]
    )
    predicted = 2 * 1.645 * found.sd_after * shown  # on the natural scale, as the widths are
    return {
        "bench": name,
        "plant": plant,
        "seconds": seconds,
        "parameters": [b.id for b in held],
        "width": {k: each.width.tolist() for k, each in answers.items()},
        "mean width": {k: each.mean_width for k, each in answers.items()},
        "covered": {k: float(each.covered.mean()) for k, each in answers.items()},
        "predicted mean width": float(np.exp(np.log(predicted).mean())),
        "design wall_s": spent[0],
        "design cpu_s": spent[1],
        "candidates": found.candidates,
        "margins": [[m.joint, m.position, m.speed, m.torque] for m in found.margins],
        "notes": list(found.notes),
    }


def report(rows: list[dict[str, Any]]) -> str:
    """A table: widths of the others over that of the designed one."""
    kinds = [k for k in rows[0]["mean width"] if k != "designed"]
    lines = [
        "| plant | " + " | ".join(f"{k} / designed" for k in kinds) + " | predicted / got | covered | design CPU s |"
    ]
    lines.append("|" + "---|" * (len(kinds) + 4))
    ratios = np.array([[row["mean width"][k] / row["mean width"]["designed"] for k in kinds] for row in rows])
    for row, ratio in zip(rows, ratios, strict=True):
        told = row["predicted mean width"] / row["mean width"]["designed"]
        covered = ", ".join(f"{k} {100 * v:.0f} %" for k, v in row["covered"].items())
        shown = " | ".join(f"{r:.2f}" for r in ratio)
        lines.append(f"| {row['plant']} | {shown} | {told:.2f} | {covered} | {row['design cpu_s']:.0f} |")
    means = " | ".join(f"**{np.exp(np.log(r).mean()):.2f}** (least {r.min():.2f})" for r in ratios.T)
    lines.append(f"| geometric mean | {means} | | | |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench", choices=tuple(SETUPS))
    parser.add_argument("--plants", type=int, default=6)
    parser.add_argument("--first", type=int, default=20)  # settings were chosen on plants below and on 1000
    parser.add_argument("--criterion", choices=("D", "E"), default="D")
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    rows = []
    for plant in range(options.first, options.first + options.plants):
        path = WORK / f"{options.bench}_{options.criterion}_{plant}.json"
        if not path.exists() and not options.report:
            path.write_text(json.dumps(measure(options.bench, plant, options.criterion)))
        if path.exists():
            rows.append(json.loads(path.read_text()))
            print(
                json.dumps({k: rows[-1][k] for k in ("plant", "mean width", "covered", "predicted mean width")}),
                flush=True,
            )
    if rows:
        print(report(rows))


if __name__ == "__main__":
    main()
