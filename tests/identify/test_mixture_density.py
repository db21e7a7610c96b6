"""The mixture-density network: known conditionals are learnt, and a pendulum's posterior is its Gaussian."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from tests.identify.swings import PENDULUM_TRUTH, pendulum, truth_of
from twinproof.identify.checkpoint import Checkpoint
from twinproof.identify.laplace import covariance_of, widening
from twinproof.identify.mixture_density import MixtureDensity, torch_module, train
from twinproof.nouns.errors import MissingExtra
from twinproof.nouns.randomness import stream

pytest.importorskip("torch", reason="posterior networks need torch: pip install twinproof[learn]")


def moments(mixture, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    chances, means, roots = mixture(at)
    mean = chances @ means
    away = means - mean
    spread = np.einsum("c,cij,ckj->ik", chances, roots, roots) + np.einsum("c,ci,cj->ij", chances, away, away)
    return mean, spread


def test_a_linear_answer_with_correlated_noise_is_learnt():
    rng = stream(0, "mixture")
    root = np.array([[0.3, 0.0], [0.2, 0.1]])
    x = rng.normal(size=(800, 3))
    slope = np.array([[0.5, 0.0, 0.2], [0.0, 0.4, 0.0]])
    y = x @ slope.T + rng.normal(size=(800, 2)) @ root.T
    mixture, _ = train(x, y, MixtureDensity(components=2, epochs=30), rng)
    at = np.array([0.5, -1.0, 0.3])
    mean, spread = moments(mixture, at)
    assert mean == pytest.approx(slope @ at, abs=0.06)
    assert spread == pytest.approx(root @ root.T, abs=0.02)


def test_two_answers_to_one_summary_stay_two():
    rng = stream(1, "mixture")
    x = rng.uniform(0.5, 1.0, size=(600, 1))
    y = np.where(rng.uniform(size=(600, 1)) < 0.5, x, -x) + 0.03 * rng.normal(size=(600, 1))
    mixture, _ = train((x - 0.75) / 0.15, y, MixtureDensity(components=3, epochs=100), rng)
    chances, means, roots = mixture(np.zeros(1))
    right = means[:, 0] > 0
    assert chances[right].sum() == pytest.approx(0.5, abs=0.2)
    assert np.sqrt(chances @ np.square(np.abs(means[:, 0]) - 0.75)) < 0.1
    assert (chances @ roots[:, 0, 0]) < 0.15


def test_a_pendulum_s_posterior_is_the_gaussian_at_its_optimum():
    fitted = pendulum()
    method = MixtureDensity(simulations=400, components=2, epochs=40)
    found = method.infer(fitted.problem, fitted, stream(2, "mixture"))
    covariance = covariance_of(fitted)
    sd = np.sqrt(np.diag(covariance)) * widening(fitted, covariance)
    assert found.unknowns.std(axis=0) == pytest.approx(sd, rel=0.35)
    assert np.abs((found.unknowns.mean(axis=0) - truth_of(fitted.problem, PENDULUM_TRUTH)) / sd).max() < 4
    assert found.diagnostics["simulations"] == 400
    assert found.diagnostics["at_the_region's_edge"] == 0
    assert found.rollouts >= 400 * fitted.stages[-1].shooting.windows


def test_simulations_that_were_finished_are_not_made_again(tmp_path):
    fitted, method = pendulum(), MixtureDensity(simulations=200, components=2, epochs=5)
    whole = method.infer(fitted.problem, fitted, stream(5, "mixture"))
    keep = Checkpoint(tmp_path / "kept", "question")

    def stop(done: int, name: str, total: int | None = None) -> None:
        if name.startswith("training"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        method.infer_kept(fitted.problem, fitted, stream(5, "mixture"), stop, keep)
    seen = []
    resumed = method.infer_kept(
        fitted.problem, fitted, stream(5, "mixture"), lambda done, name, total=None: seen.append(name), keep
    )
    assert "simulations" not in seen
    np.testing.assert_array_equal(resumed.unknowns, whole.unknowns)
    assert resumed.rollouts == whole.rollouts


def test_the_same_stream_trains_the_same_network():
    rng = stream(3, "data")
    x, y = rng.normal(size=(200, 2)), rng.normal(size=(200, 1))
    losses = [train(x, y, MixtureDensity(epochs=5), stream(4, "train"))[1] for _ in range(2)]
    assert losses[0] == losses[1]


def test_without_torch_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"pip install twinproof\[learn\]"):
        torch_module()
