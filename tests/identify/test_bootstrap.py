"""The block bootstrap: as wide as theory says where noise is white, wider where it is not, and no tight lie."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.identify.swings import PENDULUM_TRUTH, pendulum, tied, truth_of
from twinproof.identify.bootstrap import BlockBootstrap, blocks, reweighted
from twinproof.identify.laplace import covariance_of
from twinproof.nouns.errors import PosteriorError
from twinproof.nouns.randomness import stream


@pytest.mark.parametrize("kind", ["exponential", "multinomial"])
def test_weights_have_mean_one_and_the_spread_of_drawing_anew(kind):
    times = reweighted(40, 5000, kind, stream(0, "weights"))
    assert times.sum(axis=1) == pytest.approx(np.full(5000, 40.0))
    assert times.std() == pytest.approx(1.0, abs=0.05)


def test_with_white_noise_it_is_about_as_wide_as_the_inverse_hessian():
    fitted = pendulum()
    found = BlockBootstrap(draws=2000).infer(fitted.problem, fitted, stream(1, "bootstrap"))
    wide = found.unknowns.std(axis=0) / np.sqrt(np.diag(covariance_of(fitted)))
    assert ((wide > 0.4) & (wide < 2.0)).all()
    away = (found.unknowns.mean(axis=0) - truth_of(fitted.problem, PENDULUM_TRUTH)) / found.unknowns.std(axis=0)
    assert np.abs(away).max() < 4
    assert found.rollouts == 0


def test_what_pulls_together_in_a_block_widens_the_draws():
    fitted = pendulum()
    stage = fitted.stages[-1]
    assert stage.reduced is not None
    louder = replace(stage.reduced, score=10 * stage.reduced.score)
    noisy = replace(fitted, stages=(replace(stage, reduced=louder),))
    plain, wide = (
        BlockBootstrap().infer(each.problem, each, stream(2, "bootstrap")).unknowns.std(axis=0)
        for each in (fitted, noisy)
    )
    assert (wide > 1.5 * plain).all()


def test_what_no_block_tells_stays_as_wide_as_it_was_believed():
    fitted = tied()
    found = BlockBootstrap().infer(fitted.problem, fitted, stream(3, "bootstrap"))
    low, high = fitted.problem.span
    assert (found.unknowns.std(axis=0) > 0.1 * (high - low)).all()
    assert ((found.unknowns >= low) & (found.unknowns <= high)).all()
    ratio = found.unknowns[:, 0] - found.unknowns[:, 1]  # log gain minus log mass, which the swings do tell
    assert ratio.std() < 0.05 * found.unknowns[:, 0].std()


def test_two_episodes_are_too_few_to_be_blocks():
    fitted = pendulum()
    assert len(blocks(fitted, "episode")) == 2
    with pytest.raises(PosteriorError, match="a bootstrap over 2 episodes says little; 5 are needed. Use windows"):
        BlockBootstrap(block="episode").infer(fitted.problem, fitted, stream(4, "bootstrap"))


def test_the_same_stream_gives_the_same_draws():
    fitted = pendulum()
    one, two = (BlockBootstrap().infer(fitted.problem, fitted, stream(5, "bootstrap")).unknowns for _ in range(2))
    assert (one == two).all()
