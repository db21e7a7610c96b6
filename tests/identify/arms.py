"""Fits of small driven robots with a planted truth, made once for all tests of a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

from tests.sim.motions import PENDULUM, SERVO, swing
from twinproof.identify.beliefs import Stated, beliefs, signal_ids
from twinproof.identify.fit import Fit, GaussNewton, fit
from twinproof.identify.problem import Problem
from twinproof.sim.experiment import Experiment, experiment
from twinproof.sim.scene import Scene

TRUTH = {
    "joint.hinge.damping": 0.08,
    "joint.hinge.frictionloss": 0.04,
    "body.bob.mass": 0.6,
    "actuator.hinge.gain": 1.2,
}
NOISE = {"state": 1e-3, "velocity": 5e-3, "torque": 5e-3}
DELAY = "actuator.hinge.delay"
# a frictionless wheel without gravity: all that is felt of its motor and its mass is their ratio
WHEEL = (
    PENDULUM.replace('damping="0.05" frictionloss="0.03"', "")
    .replace('timestep="0.004"', 'timestep="0.004" gravity="0 0 0"')
    .replace('motor name="hinge"', 'motor name="hinge" gear="0.2"')
)


def asked(
    text: str,
    parameters: Sequence[str],
    experiments: Sequence[Experiment],
    stated: Sequence[str] = (),
    fixed: Mapping[str, float] | None = None,
    own: Mapping[str, str] | None = None,
) -> Problem:
    """A question about some parameters of a model."""
    model = Scene(text).reserving(control_delay_s=0.1).nominal()
    given = [Stated.parse(each) for each in stated]
    signals = signal_ids(reading for each in experiments for reading in each.readings)
    held = beliefs(model, parameters, given, signals=signals)
    return Problem(held, tuple(experiments), dict(fixed or {}), dict(own or {}))


def swings(text: str, truth: Mapping[str, float], count: int, seed: int = 0, **more: object) -> list[Experiment]:
    """A few episodes under a truth."""
    scene = Scene(text)
    return [experiment(swing(text, truth, seed=10 * seed + k, **more), scene) for k in range(count)]  # type: ignore[arg-type]


def told(found: Fit) -> dict[str, float]:
    """Values of the first episode's parameters."""
    return dict(zip(found.problem.ids, found.problem.values(found.unknowns)[0].tolist(), strict=True))


@cache
def pendulum() -> Fit:
    """Everything about a pendulum whose torque is measured: 13.7 ms late, position, velocity and torque noisy."""
    made = swings(PENDULUM, TRUTH, 2, noise=NOISE, kinds=("state", "velocity", "torque"), delay_s=0.0137, size=0.5)
    return fit(asked(PENDULUM, [*TRUTH, DELAY], made), GaussNewton())


@cache
def servo() -> Fit:
    """A stiff servo's gain and delay, its friction known."""
    truth = {"body.bob.mass": 0.6, "actuator.hinge.gain": 24.0}
    made = swings(SERVO, truth, 2, noise={"state": 3e-4}, delay_s=0.0137, size=0.5)
    return fit(asked(SERVO, [*truth, DELAY], made), GaussNewton())


@cache
def wheel() -> Fit:
    """A wheel whose torque nobody measured."""
    truth = {"body.bob.mass": 0.6, "actuator.hinge.gain": 1.3}
    return fit(asked(WHEEL, list(truth), swings(WHEEL, truth, 2)), GaussNewton())


@cache
def swinging() -> Fit:
    """Three episodes of a pendulum's damping, its starts free."""
    made = swings(PENDULUM, TRUTH, 3, seconds=1.5)
    fixed = {id: value for id, value in TRUTH.items() if id != "joint.hinge.damping"}
    return fit(asked(PENDULUM, ["joint.hinge.damping"], made, fixed=fixed), GaussNewton(free_starts=True))


def truth_of(problem: Problem, truth: Mapping[str, float]) -> np.ndarray:
    """A truth on the natural scale."""
    return np.array([float(b.info.to_scale(truth[b.id])) for b in problem.beliefs])
