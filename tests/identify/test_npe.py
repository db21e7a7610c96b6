"""Neural posterior estimation through sbi: a pendulum's posterior in one round and in two."""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
import pytest

from tests.identify.swings import PENDULUM_TRUTH, pendulum, truth_of
from twinproof.identify.laplace import covariance_of, widening
from twinproof.identify.npe import Npe, sbi_module
from twinproof.nouns.errors import MissingExtra
from twinproof.nouns.randomness import stream

needs_sbi = pytest.mark.skipif(
    importlib.util.find_spec("sbi") is None, reason="NPE needs sbi: pip install twinproof[sbi]"
)


@needs_sbi
@pytest.mark.slow
def test_a_pendulum_s_posterior_is_about_the_gaussian_at_its_optimum():
    fitted = pendulum()
    found = Npe(simulations=600, draws=400).infer(fitted.problem, fitted, stream(0, "npe"))
    covariance = covariance_of(fitted)
    sd = np.sqrt(np.diag(covariance)) * widening(fitted, covariance)
    wide = found.unknowns.std(axis=0) / sd
    assert ((wide > 0.5) & (wide < 2.0)).all()
    assert np.abs((found.unknowns.mean(axis=0) - truth_of(fitted.problem, PENDULUM_TRUTH)) / sd).max() < 5
    assert found.diagnostics["simulations"] == 600
    assert found.rollouts >= 600 * fitted.stages[-1].shooting.windows


@needs_sbi
def test_a_second_round_looks_closer_and_counts_both():
    fitted = pendulum()
    method = Npe(simulations=300, rounds=2, estimator="mdn", draws=200)
    found = method.infer(fitted.problem, fitted, stream(1, "npe"))
    sd = np.sqrt(np.diag(covariance_of(fitted)))
    assert (found.unknowns.std(axis=0) < 2.5 * sd).all()
    assert found.diagnostics["rounds"] == 2
    assert found.rollouts >= 300 * fitted.stages[-1].shooting.windows


def test_without_sbi_the_error_says_what_to_install(monkeypatch):
    pytest.importorskip("torch", reason="NPE needs torch first: pip install twinproof[learn]")
    monkeypatch.setitem(sys.modules, "sbi", None)
    monkeypatch.setitem(sys.modules, "sbi.inference", None)
    with pytest.raises(MissingExtra, match=r"pip install twinproof\[sbi\]"):
        sbi_module()
