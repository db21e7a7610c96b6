"""The windowed fit that benches of `identify` share: a recording of the lab's pendulum whose truth is known."""

from __future__ import annotations

from dataclasses import replace

from twinproof.identify.beliefs import beliefs
from twinproof.identify.problem import Problem
from twinproof.lab.benches import bench
from twinproof.lab.record import Options, in_memory
from twinproof.nouns.theta import Theta
from twinproof.sim.experiment import experiment
from twinproof.sim.scene import Scene

SEED = 3
# One link was weighed: without a known load, gains and masses could all grow together.
PATTERNS = (
    "body.lower_link.mass",
    "joint.*.damping",
    "joint.*.frictionloss",
    "joint.*.armature",
    "actuator.*.gain",
    "gravity.tilt_y",
)


def pendulum(episodes: int, plant: int = SEED) -> tuple[Problem, Theta]:
    """Ten parameters of the pendulum, from joint positions and velocities at 250 Hz, and the plant's true values.

    The delay is given, since not every contender can fit one: on average a command waits for its jitter's half and for
    half a physics step.
    """
    recorded, hidden = in_memory("pendulum", episodes, plant, Options(effects="off"))
    scene, truth = Scene(bench("pendulum").robot_text()).leaner(), hidden.theta
    fixed = {"body.upper_link.mass": truth["body.upper_link.mass"]}
    for joint in ("shoulder", "elbow"):
        name = f"actuator.{joint}.delay"
        fixed[name] = truth[name] + truth[f"{name}_jitter"] / 2 + 0.5 * float(scene.nominal().opt.timestep)
    found = []
    for episode in recorded:
        each = experiment(episode, scene)
        kept = tuple(reading for reading in each.readings if reading.kind in ("position", "velocity"))
        found.append(replace(each, readings=kept))
    return Problem(beliefs(scene.nominal(), PATTERNS), tuple(found), fixed), truth
