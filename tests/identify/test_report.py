"""What a person sees of a posterior."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from tests.nouns.examples import posterior as example
from twinproof.identify import report
from twinproof.nouns.belief import Population
from twinproof.nouns.posterior import Posterior

TOLD = {
    "at_bounds": ["joint.a.damping is at its lower limit 0.1"],
    "warnings": ["episode x: state comes at varying rates"],
    "whiteness": {"state.a": {"white": False}, "state.b": {"white": True}},
    "validation": {"covered": 0.912, "covered_by_parameters_alone": 0.15, "episodes": ["e3", "e4"]},
    "cost": {"windows_rolled": 1234, "cpu_s": 1.5, "wall_s": 1.0},
}


def shown(found: Posterior) -> str:
    out = io.StringIO()
    report.posterior(found, Path("posterior"), Console(file=out, highlight=False, soft_wrap=True, width=160))
    return out.getvalue()


def test_every_parameter_has_its_mean_interval_prior_and_unit() -> None:
    found = example(diagnostics={})
    text = shown(found)
    assert text.startswith(
        f"posterior: posterior {found.hash[:16]} by laplace + block bootstrap, 2 calibration episodes"
    )
    (line,) = [line for line in text.splitlines() if line.startswith("body.cube.mass")]
    low, high = found.interval("body.cube.mass")
    for part in (f"{found.mean('body.cube.mass'):.4g}", f"{low:.4g} … {high:.4g}", "0.01 … 10", "kg"):
        assert part in line
    assert "unidentified" not in text


def test_what_is_not_determined_and_what_looked_wrong_is_said() -> None:
    text = shown(example(diagnostics=TOLD, unidentified=("geom.cube.friction",)))
    (line,) = [line for line in text.splitlines() if line.startswith("geom.cube.friction")]
    assert "unidentified" in line
    for sentence in (
        "weak: only the product of mass and friction is well determined",
        "bound: joint.a.damping is at its lower limit 0.1",
        "look: episode x: state comes at varying rates",
        "residuals are not white in state.a: the model misses something there",
        "validation: 90 % bands cover 91.2% of 2 episodes that nothing was fitted to "
        "(the spread of the parameters alone: 15.0%)",
        "1234 windows rolled, 1.5 CPU-seconds, 1.0 s",
    ):
        assert sentence in text, sentence


def test_a_family_shows_what_a_new_one_will_be_like() -> None:
    count = 400
    values = np.full((count, 2, 1), 0.2)
    new = np.linspace(0.1, 0.3, count)[:, None]
    text = shown(example(diagnostics={}, population=Population("object", ("a", "b"), ("body.cube.mass",), values, new)))
    assert "family object: 2 measured; a new one:" in text
    (line,) = [line for line in text.splitlines() if line.startswith("  body.cube.mass")]
    low, high = line.removeprefix("  body.cube.mass: ").removesuffix(" (90 %)").split(" … ")
    assert (float(low), float(high)) == (pytest.approx(0.11, abs=1e-3), pytest.approx(0.29, abs=1e-3))
