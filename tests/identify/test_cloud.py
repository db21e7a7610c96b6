"""The point estimate for things that hit and tumble: a tossed cube gives back what was planted in it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import mujoco
import numpy as np
import pytest

from twinproof.identify import predict
from twinproof.identify.beliefs import Stated, beliefs
from twinproof.identify.bootstrap import BlockBootstrap
from twinproof.identify.cloud import CloudNewton, fit_cloud
from twinproof.identify.fit import Fit, GaussNewton, fit
from twinproof.identify.laplace import Laplace
from twinproof.identify.problem import Problem
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import ConfigError
from twinproof.nouns.randomness import stream
from twinproof.nouns.signal import Column, Signal
from twinproof.nouns.theta import Theta
from twinproof.sim.experiment import experiment
from twinproof.sim.instantiate import instantiate
from twinproof.sim.scene import Scene
from twinproof.sim.shooting import Shooting, Variant

CUBE = """
<mujoco>
  <option timestep="0.004" cone="elliptic"/>
  <worldbody>
    <geom name="board" type="plane" size="0 0 1" priority="1" friction="0.3" solref="-8000 -150"/>
    <body name="cube">
      <freejoint/>
      <inertial pos="0 0 0" mass="0.4" diaginertia="0.0008 0.0008 0.0008"/>
      <geom name="cube" type="box" size=".05 .05 .05"/>
    </body>
  </worldbody>
</mujoco>
"""
TRUTH = {"geom.board.friction_slide": 0.2, "body.cube.com_z": 0.005}
STATED = ("geom.board.friction_slide=0.08..0.8", "body.cube.com_z=-0.01..0.01")
POSE = tuple(Column(name, "m" if name in "xyz" else "1") for name in ("x", "y", "z", "qw", "qx", "qy", "qz"))
QUICK = CloudNewton(horizons_s=(0.1, float("inf")), steps=3, alone=2)


def tossed(scene: Scene, truth: Mapping[str, float], seed: int, label: str = "") -> Episode:
    """A cube thrown onto the board, its pose read every 8 ms."""
    model = instantiate(scene, Theta(truth))
    data, rng = mujoco.MjData(model), stream(seed, "tosses")
    turn = rng.normal(size=4)
    data.qpos[:] = np.r_[0, 0, 0.12, turn / np.linalg.norm(turn)]
    data.qvel[:] = np.r_[1.0, 0.3 * rng.normal(), 0.2, 4 * rng.normal(size=3)]
    rows = []
    for _ in range(60):
        rows.append(data.qpos.copy())
        mujoco.mj_step(model, data, 2)
    value = np.array(rows)
    value[:, :3] += 1e-4 * rng.normal(size=(len(value), 3))
    signal = Signal("cube", "pose", POSE, 0.008 * np.arange(len(value)), value)
    return Episode.of({"cube": signal}, {}, source=f"toss {seed}", labels={"board": label} if label else None)


def asked(tosses: int = 8) -> Problem:
    scene = Scene(CUBE)
    made = tuple(experiment(tossed(scene, TRUTH, k), scene) for k in range(tosses))
    return Problem(beliefs(scene.nominal(), list(TRUTH), [Stated.parse(text) for text in STATED]), made)


@cache
def found() -> Fit:
    return fit_cloud(asked(), QUICK, stream(0, "cloud"))


def told(fitted: Fit) -> dict[str, float]:
    problem = fitted.problem
    return dict(zip(problem.ids, problem.values(fitted.unknowns)[0].tolist(), strict=True))


def test_a_tossed_cube_gives_up_its_friction_and_where_its_mass_lies() -> None:
    values = told(found())
    assert values["geom.board.friction_slide"] == pytest.approx(0.2, rel=0.1)
    # starts are smoothed readings, a little wrong beside an impact: the rest of the error is theirs
    assert values["body.cube.com_z"] == pytest.approx(0.005, abs=0.002)


def test_whole_tosses_are_explained_better_than_at_the_start() -> None:
    fitted = found()
    problem, whole = fitted.problem, fitted.stages[-1].shooting
    points = (problem.nominal, fitted.unknowns)
    gap = whole.roll([Variant(problem.values(point), *whole.starts) for point in points]).gap
    before, after = np.median(np.abs(gap), axis=1)
    assert after < 0.7 * before
    assert len(fitted.history) == QUICK.alone + QUICK.steps + 1


def test_it_comes_nearer_than_slopes_by_finite_differences_over_whole_tosses() -> None:
    smooth = fit(asked(), GaussNewton(horizons_s=((float("inf"),),), free_starts=False, max_steps=8))
    ours, theirs = told(found()), told(smooth)
    assert abs(ours["body.cube.com_z"] - 0.005) < abs(theirs["body.cube.com_z"] - 0.005)


def test_the_same_stream_gives_the_same_fit() -> None:
    again = fit_cloud(asked(), QUICK, stream(0, "cloud"))
    np.testing.assert_array_equal(again.unknowns, found().unknowns)


def test_all_horizons_are_stages_of_one_fit_and_share_its_weight() -> None:
    short, whole = found().stages
    assert short.shooting.windows > whole.shooting.windows == 8
    assert short.share == whole.share == 0.5
    assert found().rollouts > 0


def test_draws_and_bands_are_made_from_it() -> None:
    fitted, rng = found(), stream(1, "cloud")
    for method in (Laplace(draws=50), BlockBootstrap(draws=50, block="episode")):
        drawn = method.infer(fitted.problem, fitted, rng).unknowns
        low, high = fitted.problem.span
        assert ((drawn >= low) & (drawn <= high)).all()
        assert (drawn.std(axis=0) > 0).all()
    error = predict.discrepancy(fitted, drawn[:4], predict.horizons_for(fitted.problem))
    assert {each.signal for each in error} == set(fitted.stages[0].shooting.entries)


def test_the_information_is_that_of_slopes_by_differences_where_motion_is_smooth() -> None:
    """In free flight the centre of mass alone is felt, and smoothly."""
    scene = Scene(CUBE.replace('<option timestep="0.004"', '<option timestep="0.004" gravity="0 0 0"'))
    truth = {"body.cube.com_z": 0.005}
    flying = tuple(experiment(tossed(scene, truth, k), scene) for k in range(3))
    problem = Problem(beliefs(scene.nominal(), list(truth), [Stated.parse(STATED[1])]), flying)
    cloud = fit_cloud(problem, CloudNewton(horizons_s=(0.1,), steps=4), stream(0, "flight"))
    plain = fit(problem, GaussNewton(horizons_s=((0.1,),), free_starts=False))
    assert told(cloud)["body.cube.com_z"] == pytest.approx(told(plain)["body.cube.com_z"], abs=2e-4)


def test_objects_may_have_values_of_their_own() -> None:
    scene, id = Scene(CUBE), "geom.board.friction_slide"
    boards = {"rough": 0.4, "slippery": 0.15}
    made = tuple(
        experiment(tossed(scene, {id: friction}, k, label), scene)
        for label, friction in boards.items()
        for k in range(4)
    )
    problem = Problem(beliefs(scene.nominal(), [id], [Stated.parse(STATED[0])]), made, own={id: "board"})
    fitted = fit_cloud(problem, QUICK, stream(0, "boards"))
    values = problem.values(fitted.unknowns)[:, 0]
    assert values[0] == pytest.approx(0.4, rel=0.15)
    assert values[-1] == pytest.approx(0.15, rel=0.15)


def test_states_that_the_caller_knows_begin_the_windows() -> None:
    seen = []

    def states(shooting: Shooting) -> tuple[np.ndarray, np.ndarray]:
        seen.append(shooting.windows)
        qpos, qvel = shooting.starts
        return qpos, 0 * qvel

    fitted = fit_cloud(asked(2), CloudNewton(horizons_s=(0.1,), steps=1), stream(0, "cloud"), states=states)
    assert seen == [fitted.stages[0].shooting.windows]
    assert not fitted.stages[0].starts[1].any()


def test_no_horizon_is_refused() -> None:
    with pytest.raises(ConfigError, match="Give one or more, each above zero"):
        CloudNewton(horizons_s=())


def test_a_cloud_without_a_spread_is_refused() -> None:
    with pytest.raises(ConfigError, match="spread 0, shrink 0.8 and 4 \\+ 5 steps"):
        CloudNewton(spread=0)


def test_too_few_points_for_the_parameters_are_refused() -> None:
    with pytest.raises(ConfigError, match="Give at least 4 points"):
        fit_cloud(asked(2), CloudNewton(points=3), stream(0, "cloud"))
