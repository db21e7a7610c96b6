"""Recordings of lab plants for `bench.coverage`, with the question asked of each and the truth it is held against.

A plant's recording is short: coverage needs many plants, not long logs. Commands belong to a design (a seed); sensor
noise and bus jitter are drawn anew for every plant, so plants may share commands and still be independent.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import numpy as np

from twinproof.identify.beliefs import Stated, beliefs
from twinproof.identify.problem import Problem
from twinproof.lab.bench import Bench
from twinproof.lab.benches import bench as bench_named
from twinproof.lab.hidden import Plant
from twinproof.lab.models import textures
from twinproof.lab.models.room import Look
from twinproof.lab.motion import Planner
from twinproof.lab.population import INSTANCES, instance, measured
from twinproof.lab.reality import Reality
from twinproof.lab.record import Options, _Session
from twinproof.lab.take import Played, Take
from twinproof.lab.truth import object_values
from twinproof.nouns.episode import Episode
from twinproof.nouns.randomness import stream
from twinproof.sim.experiment import experiment
from twinproof.sim.scene import Scene
from twinproof.sim.world import World

JITTERS = np.linspace(0.0, 1.0, 20_001)


@dataclass(frozen=True)
class Setup:
    """What is recorded of every plant of a bench, and which parameters are asked for."""

    bench: str
    behaviours: tuple[str, ...]  # one episode each
    patterns: tuple[str, ...]
    stated: tuple[str, ...] = ()
    tracker: str | None = None
    objects: tuple[str, ...] = ()  # families; each plant has one object of one of them


ARM = (
    "body.*.mass",
    "joint.*.damping", "joint.*.frictionloss", "joint.*.armature", "joint.*.offset", "actuator.*.gain",
    "actuator.*.delay", "actuator.*.backlash", "gravity.tilt_x", "gravity.tilt_y",
)  # fmt: skip
SETUPS = {
    "pendulum": Setup(
        "pendulum",
        ("free_swing", "chirp", "fourier"),
        (
            "body.*_link.mass", "joint.*.damping", "joint.*.frictionloss", "joint.*.armature", "actuator.*.gain",
            "actuator.*.delay", "gravity.tilt_y",
        ),
    ),
    "push": Setup(
        "push",
        ("push",),
        (*ARM, "geom.object.friction_slide", *(f"signal.object_pose.offset_{axis}" for axis in "xyz")),
        tracker="tag",
        objects=("box", "can"),
    ),
    "drawer": Setup(
        "drawer",
        ("pull_back",),
        (*ARM,),
        tracker="tag",
        objects=("drawer",),
    ),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Case:
    """One plant: the problem, the episodes it was made of, and the truth of every parameter in SI units."""

    problem: Problem
    episodes: tuple[Episode, ...]
    truth: Mapping[str, float]


def case(setup: Setup, plant: int, design: int, effects: str) -> Case:
    """The recording of a plant under the commands of a design, and what is asked of it."""
    bench = bench_named(setup.bench)
    options = Options(
        effects=effects, images=False, tracker=setup.tracker, behaviours=setup.behaviours, scan=False, plant=plant
    )
    session = _Session(bench, len(setup.behaviours), design, options)
    thing = _object(setup, plant)
    episodes = []
    for take in session.takes:
        played = _play(bench, session.plant, replace(take, object=thing), session.effects, design)
        episodes.append(session.episode(played, Path())[0])
    scene = _scene(bench, thing, session.plant)
    model = scene.reserving(control_delay_s=0.1).nominal()
    truth = _truths(setup, bench, session.plant, thing, float(model.opt.timestep))
    asked = beliefs(model, list(truth), [Stated.parse(text) for text in setup.stated])
    lean = scene.leaner()
    problem = Problem(asked, tuple(experiment(each, lean) for each in episodes))
    return Case(problem, tuple(episodes), truth)


def _object(setup: Setup, plant: int) -> str:
    if not setup.objects:
        return ""
    rng = stream(plant, "bench", "coverage", setup.bench, "object")
    return f"{setup.objects[int(rng.integers(len(setup.objects)))]}_{int(rng.integers(INSTANCES)):02d}"


def _play(bench: Bench, plant: Plant, take: Take, effects: frozenset[str], design: int) -> Played:
    """As `lab.take.play`, with sensor noise and jitter of the plant's own."""
    thing = instance(take.object) if take.object else None
    reality = Reality(bench, plant, thing, Look.of(plant.seed, take.session), effects)
    path = ("lab", bench.name, f"episode{take.number}")
    scene, hand = stream(design, *path, "scene"), stream(design, *path, "operator")
    noise = stream(plant.seed, "bench", "coverage", str(design), *path, "sensors")
    reality.reset(noise, scene, bench.start(take.behaviour, scene))
    view = World(reality.world.model)
    view.qpos[:] = reality.world.qpos
    view.kinematics()
    planner = Planner(bench, view, take.operator.speed, thing=thing)
    bench.plan(take.behaviour, planner, take.operator, hand)
    rows = np.stack(planner.rows)
    steps = round(1 / (bench.rate_hz * reality.dt))
    for target in rows if bench.torque_driven else reality.told(rows):
        reality.command(target)
        reality.advance(steps)
    return Played(take, thing, reality, tuple(planner.phases), True)


@cache
def _assets() -> Path:
    folder = Path(tempfile.mkdtemp(prefix=f"coverage-{os.getpid()}-"))
    for name, data in textures.assets().items():
        (folder / name).write_bytes(data)
    return folder


def _scene(bench: Bench, thing: str, plant: Plant) -> Scene:
    """The scene as the user believes it."""
    return Scene(bench.nominal_scene(measured(instance(thing)) if thing else None, plant), _assets())


def _truths(setup: Setup, bench: Bench, plant: Plant, thing: str, step_s: float) -> dict[str, float]:
    """The true value of every parameter that is asked for: what the plant or its object has of its own.

    Nuisances, which are fitted and not scored, are NaN: where a tracker's frame lies.
    """
    known = {**plant.theta, **(object_values(bench, instance(thing)) if thing else {})}
    found = {id: float(known[id]) for id in known if any(fnmatchcase(id, pattern) for pattern in setup.patterns)}
    for id in found:
        if id.endswith(".delay"):
            found[id] = effective_delay(plant.value(id), plant.value(f"{id}_jitter"), step_s)
    nuisances = [pattern for pattern in setup.patterns if pattern.startswith("signal.")]
    return found | dict.fromkeys(nuisances, float("nan"))


def effective_delay(delay_s: float, jitter_s: float, step_s: float) -> float:
    """The mean of what the bus makes of a delay: late by chance, then up to the next physics step."""
    return float(np.mean(np.ceil((delay_s + JITTERS * jitter_s) / step_s - 1e-9) * step_s))
