"""Draws of a Gaussian cut at a box have the right moments, and grow where the recording disagrees with itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import truncnorm

from tests.identify.arms import TRUTH, asked, pendulum, swinging, swings, wheel
from tests.sim.motions import PENDULUM
from twinproof.identify.fit import Fit, GaussNewton, fit
from twinproof.identify.laplace import Laplace, covariance_of, normal_inside, widening
from twinproof.nouns.randomness import stream


def cut(
    mean: list[float], covariance: list[list[float]], low: list[float], high: list[float], count: int = 4000
) -> np.ndarray:
    """Draws of a normal distribution cut at a box."""
    middle = (np.array(low) + np.array(high)) / 2
    rng = stream(0, "cut")
    return normal_inside(np.array(mean), np.array(covariance), middle, np.array(low), np.array(high), count, rng)


@pytest.mark.parametrize(
    ("mean", "low", "high"), [(0.0, -1.0, 1.0), (0.0, -8.0, 8.0), (1.5, -1.0, 1.0), (-6.0, -1.0, 1.0), (0.0, 2.0, 9.0)]
)
def test_one_number_follows_the_truncated_normal(mean: float, low: float, high: float) -> None:
    drawn = cut([mean], [[1.0]], [low], [high])[:, 0]
    true = truncnorm(low - mean, high - mean, loc=mean)
    assert drawn.min() >= low
    assert drawn.max() <= high
    assert drawn.mean() == pytest.approx(true.mean(), abs=4 * true.std() / np.sqrt(4000))
    assert drawn.std() == pytest.approx(true.std(), rel=0.06)
    for share in (0.05, 0.5, 0.95):
        assert np.mean(drawn < true.ppf(share)) == pytest.approx(share, abs=0.02)


def test_two_numbers_that_hang_together_keep_doing_so_inside_the_box() -> None:
    covariance = [[1.0, 0.999], [0.999, 1.0]]
    drawn = cut([0.0, 0.0], covariance, [-0.5, -0.5], [2.0, 2.0])
    rng = stream(1, "reject")
    plain = rng.multivariate_normal([0, 0], covariance, 60000)
    plain = plain[((plain >= -0.5) & (plain <= 2.0)).all(axis=1)]
    assert ((drawn >= -0.5) & (drawn <= 2.0)).all()
    np.testing.assert_allclose(drawn.mean(axis=0), plain.mean(axis=0), atol=0.05)
    np.testing.assert_allclose(np.cov(drawn.T), np.cov(plain.T), rtol=0.12)
    assert np.std(drawn[:, 0] - drawn[:, 1]) == pytest.approx(np.sqrt(0.002), rel=0.1)


def test_a_ridge_that_only_grazes_the_box_is_drawn_where_it_grazes() -> None:
    covariance = [[1.0, -0.9], [-0.9, 1.0]]
    drawn = cut([-1.0, -1.0], covariance, [0.0, 0.0], [3.0, 3.0])
    # by quadrature: the density on a fine grid of the box
    x = (np.arange(600) + 0.5) / 600 * 3
    off = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1) + 1.0
    density = np.exp(-0.5 * np.einsum("abi,ij,abj->ab", off, np.linalg.inv(covariance), off))
    first = density.sum(axis=1) / density.sum()
    mean = first @ x
    assert (drawn >= 0).all()
    np.testing.assert_allclose(drawn.mean(axis=0), mean, rtol=0.08)
    np.testing.assert_allclose(drawn.std(axis=0), np.sqrt(first @ (x - mean) ** 2), rtol=0.1)


def test_an_unbounded_ridge_fills_the_box_evenly() -> None:
    # what nothing determines is far wider than its range
    wide = 1e6 * np.ones((2, 2)) + 1e-4 * np.eye(2)
    drawn = cut([0.0, 0.0], wide.tolist(), [-1.0, -1.0], [1.0, 1.0])
    assert drawn.std(axis=0) == pytest.approx([2 / np.sqrt(12)] * 2, rel=0.08)
    assert np.std(drawn[:, 0] - drawn[:, 1]) == pytest.approx(np.sqrt(2e-4), rel=0.15)


def test_a_covariance_of_zero_stays_at_its_centre() -> None:
    np.testing.assert_allclose(cut([0.3], [[0.0]], [0.0], [1.0], 5), 0.3)


# ---- of a fit


def test_draws_are_the_optimum_and_its_inverse_hessian_when_nothing_is_widened() -> None:
    found = swinging()
    drawn = Laplace(draws=4000, widen=False).infer(found.problem, found, stream(0, "laplace"))
    sd = float(np.sqrt(1 / found.information[0, 0]))
    assert drawn.unknowns.mean() == pytest.approx(found.unknowns[0], abs=4 * sd / np.sqrt(4000) + 0.3 * sd)
    assert drawn.unknowns.std() == pytest.approx(sd, rel=0.05)
    assert np.exp(drawn.log_weights).sum() == pytest.approx(1.0)
    assert drawn.diagnostics["widened"] == {"joint.hinge.damping": 1.0}


def test_an_informative_prior_narrows_the_draws() -> None:
    made = swings(PENDULUM, TRUTH, 1, seconds=0.5)
    others = {id: value for id, value in TRUTH.items() if id != "joint.hinge.damping"}
    quick = GaussNewton(((0.25,),))
    plain, sure = (
        fit(asked(PENDULUM, ["joint.hinge.damping"], made, stated, others), quick)
        for stated in ((), ("joint.hinge.damping=0.08+-0.0003",))
    )
    assert covariance_of(sure)[0, 0] < 1.01 * 0.0003**2
    assert covariance_of(sure)[0, 0] == pytest.approx(1 / (sure.information[0, 0] + 0.0003**-2), rel=1e-3)
    assert covariance_of(plain)[0, 0] == pytest.approx(1 / plain.information[0, 0], rel=1e-3)


def test_what_is_not_determined_spreads_over_its_range_while_the_ratio_stays() -> None:
    found = wheel()
    drawn = Laplace().infer(found.problem, found, stream(0, "laplace")).unknowns
    low, high = found.problem.span
    assert ((drawn >= low) & (drawn <= high)).all()
    ratio = drawn[:, 0] - drawn[:, 1]  # of logarithms: gain over mass
    assert (drawn.std(axis=0) > 0.4 * found.problem.width).all()
    assert ratio.std() < 0.02
    assert np.mean(ratio) == pytest.approx(np.log(1.3 / 0.6), abs=0.02)


def scored(found: Fit, scores: np.ndarray) -> Fit:
    """The same fit with other pulls of its blocks."""
    (stage,) = found.stages
    assert stage.reduced is not None
    return replace(found, stages=(replace(stage, reduced=replace(stage.reduced, score=scores)),))


def test_widening_is_never_below_one_and_is_about_one_for_white_noise() -> None:
    found = pendulum()
    wide = widening(found, covariance_of(found))
    assert (wide >= 1).all()
    assert (wide < 1.6).all()
    rng, blocks = stream(3, "scores"), len(found.scores)
    root = np.linalg.cholesky(found.information / blocks)
    white = scored(found, rng.normal(size=(blocks, 5)) @ root.T)
    assert np.median(widening(white, covariance_of(white))) < 1.5
    quiet = scored(found, 0.01 * white.scores)
    np.testing.assert_allclose(widening(quiet, covariance_of(quiet)), 1.0)


def test_widening_grows_with_residuals_that_hang_together() -> None:
    found = pendulum()
    blocks = len(found.scores)
    root = np.linalg.cholesky(found.information / blocks)
    loud = scored(found, 3.0 * stream(4, "scores").normal(size=(blocks, 5)) @ root.T)
    wide = widening(loud, covariance_of(loud))
    assert (wide > 1.5).all()
    assert (wide < 6.0).all()


def test_an_effect_that_the_model_lacks_widens_the_draws() -> None:
    fixed = {id: value for id, value in TRUTH.items() if id not in ("joint.hinge.damping", "joint.hinge.frictionloss")}
    made = swings(PENDULUM, TRUTH, 2)
    none = GaussNewton(((1.0,),), process_noise=False)
    # dry friction is held at zero: the viscous one cannot replace it
    lacking = fit(
        asked(PENDULUM, ["joint.hinge.damping"], made, fixed={**fixed, "joint.hinge.frictionloss": 0.0}), none
    )
    whole = fit(asked(PENDULUM, ["joint.hinge.damping"], made, fixed={**fixed, "joint.hinge.frictionloss": 0.04}), none)
    assert widening(lacking, covariance_of(lacking))[0] > 1.3 * widening(whole, covariance_of(whole))[0]
