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

from twinproof.identify.beliefs import Stated, beliefs, signal_ids
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
    nuisances: tuple[str, ...] = ()  # fitted too, but not scored: where a tracker's frame lies
    known: tuple[str, ...] = ()  # patterns of what is held at the plant's truth
    stated: tuple[str, ...] = ()
    tracker: str | None = None
    objects: tuple[str, ...] = ()  # families; each plant has one object of one of them


MOVING = ("shoulder", "elbow", "wrist")  # the joints that a pull or a push bends
SERVO = tuple(
    id for hinge in MOVING for id in (f"actuator.{hinge}.gain", f"joint.{hinge}.damping", f"joint.{hinge}.frictionloss")
)
# A robot's own calibration: what pulling a drawer or pushing a box hardly shows, and other recordings tell.
CALIBRATED = (
    "joint.*.offset",
    "actuator.*.delay",
    "actuator.*.backlash",
    "actuator.*.force_limit",
    "body.*.mass",
    "joint.*.armature",
    "gravity.*",
    "joint.gripper*",
    "actuator.*.gain",
    "joint.*.damping",
    "joint.*.frictionloss",
    "geom.*",
)
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
        ("geom.object.friction_slide", *SERVO),
        nuisances=tuple(f"signal.object_pose.offset_{axis}" for axis in "xyz"),
        known=CALIBRATED,
        tracker="mocap",
        objects=("box", "can"),
    ),
    "drawer": Setup(
        "drawer",
        ("pull_back",),
        ("joint.drawer.damping", "joint.drawer.frictionloss", "body.drawer.mass", *SERVO),
        nuisances=("joint.drawer.offset",),
        known=CALIBRATED,
        stated=("joint.drawer.offset=-0.02..0.02",),
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
    truth, known = _truths(setup, bench, session.plant, thing, float(model.opt.timestep))
    lean = scene.leaner()
    seen = tuple(experiment(each, lean) for each in episodes)
    signals = signal_ids(reading for each in seen for reading in each.readings)
    asked = beliefs(model, list(truth), [Stated.parse(text) for text in setup.stated], signals=signals)
    return Case(Problem(asked, seen, known), tuple(episodes), truth)


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
    """The scene as the user believes it, but for the object's sizes: those are exact, as no parameter fits them."""
    if not thing:
        return Scene(bench.nominal_scene(None, plant), _assets())
    true, known = instance(thing), measured(instance(thing))
    sizes = {"handle_m": true.more["handle_m"]} if "handle_m" in true.more else {}
    exact = replace(known, half_m=true.half_m, more={**known.more, **sizes})
    return Scene(bench.nominal_scene(exact, plant), _assets())


def _truths(
    setup: Setup, bench: Bench, plant: Plant, thing: str, step_s: float
) -> tuple[dict[str, float], dict[str, float]]:
    """True values of what is asked for, NaN for nuisances; and of what is held at the truth."""
    all_of = {**plant.theta, **(object_values(bench, instance(thing)) if thing else {})}
    for id in all_of:
        if id.endswith(".delay"):
            all_of[id] = effective_delay(plant.value(id), plant.value(f"{id}_jitter"), step_s)
    asked = {id: float(all_of[id]) for id in all_of if any(fnmatchcase(id, each) for each in setup.patterns)}
    known = {id: float(all_of[id]) for id in all_of if any(fnmatchcase(id, each) for each in setup.known)}
    known = {id: value for id, value in known.items() if id not in asked and not id.endswith("jitter")}
    return asked | dict.fromkeys(setup.nuisances, float("nan")), known


def effective_delay(delay_s: float, jitter_s: float, step_s: float) -> float:
    """The mean of what the bus makes of a delay: late by chance, then up to the next physics step."""
    return float(np.mean(np.ceil((delay_s + JITTERS * jitter_s) / step_s - 1e-9) * step_s))
