"""The laws of Posterior, and that its intervals mean what they say."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.nouns.examples import FRICTION, MASS, draws, family_posterior, posterior
from twinproof.nouns.belief import Discrepancy, Population, Prior, normalised, unmoved, weighted_quantile
from twinproof.nouns.errors import PosteriorError
from twinproof.nouns.files import file_hashes, write_sealed
from twinproof.nouns.posterior import Posterior
from twinproof.nouns.randomness import stream
from twinproof.nouns.source import Declared
from twinproof.nouns.theta import ParameterInfo, Theta

FLAT = Prior(Declared("nothing is known"))
X = ParameterInfo("x", "m", -50.0, 50.0)


def of_column(column: np.ndarray, weights: np.ndarray | None = None, **more) -> Posterior:
    log_weights = normalised(np.zeros(len(column)) if weights is None else np.log(weights))
    return posterior(parameters=(X,), priors=(FLAT,), draws=column[:, None], log_weights=log_weights, **more)


def with_outlier(value: float) -> np.ndarray:
    rows = draws()
    rows[7, 1] = value
    return rows


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"draws": with_outlier(2.5)}, r"geom.cube.friction: draw 7 is 2.5 1, outside the limits 0 to 2 \(1 of 400"),
        ({"draws": with_outlier(np.nan)}, "draw 7 is nan"),
        ({"draws": with_outlier(np.inf)}, "draw 7 is inf"),
        ({"draws": draws()[:, :1]}, "draws have shape"),
        ({"log_weights": np.zeros(400)}, "the weights sum to 400, not to one"),
        ({"log_weights": np.full(400, np.nan)}, "the weights sum to nan"),
        ({"priors": (FLAT,)}, "1 priors for"),
        ({"parameters": (MASS, MASS)}, "each parameter stands once"),
        ({"episodes": ()}, "names the calibration episodes"),
        ({"discrepancy": ()}, "says in no_discrepancy why it has none"),
        ({"no_discrepancy": "both"}, "says in no_discrepancy why it has none"),
        ({"unidentified": ("body.ball.mass",)}, "marked without being parameters"),
        ({"diagnostics": {"ess": float("nan")}}, "diagnostics.ess is nan, which JSON cannot hold"),
        ({"settings": {"rng": object()}}, "settings.rng is a object"),
        ({"settings": {3: 1}}, "settings has the key 3"),
    ],
)
def test_what_breaks_a_law_is_refused(change, words):
    with pytest.raises(PosteriorError, match=words):
        posterior(**change)


def test_a_parameter_that_the_data_did_not_move_must_be_marked_unidentified():
    rng = stream(0, "unmoved")
    rows = np.stack([np.exp(rng.uniform(np.log(MASS.low), np.log(MASS.high), 500)), draws(500)[:, 1]], axis=1)
    more = {"draws": rows, "log_weights": np.full(500, -np.log(500))}
    with pytest.raises(PosteriorError, match=r"body.cube.mass are spread like the prior: the data did not move them"):
        posterior(**more)
    assert posterior(**more, unidentified=(MASS.id,)).unidentified == (MASS.id,)


@pytest.mark.parametrize("count", [20, 200, 5000])
@pytest.mark.parametrize("prior", [FLAT, Prior(Declared("by eye"), "normal", 0.3, 0.1)], ids=["uniform", "normal"])
def test_draws_of_the_prior_are_unmoved_and_narrow_ones_are_not(count, prior):
    rng, equal = stream(count, "prior"), np.full(count, 1 / count)
    parameter = ParameterInfo("x", "m", 0.0, 1.0)
    column = rng.uniform(0, 1, count) if prior.shape == "uniform" else np.clip(rng.normal(0.3, 0.1, count), 0, 1)
    assert unmoved((parameter,), (prior,), column[:, None], equal) == ("x",)
    narrow = np.clip(rng.normal(0.3, 0.02, count), 0, 1)
    assert unmoved((parameter,), (prior,), narrow[:, None], equal) == ()
    two_modes = np.where(rng.uniform(size=count) < 0.5, 0.05, 0.95)
    assert unmoved((parameter,), (prior,), two_modes[:, None], equal) == ()


@given(st.lists(st.floats(-40, 40), min_size=2, max_size=40), st.floats(0.01, 0.99))
@settings(max_examples=30, deadline=None)
def test_equal_weights_give_numpys_quantiles(values, share):
    column = np.array(values)
    equal = np.full(len(column), 1 / len(column))
    found = weighted_quantile(column, equal, share)
    near = [np.quantile(column, q, method="inverted_cdf") for q in (share * (1 - 1e-9), share * (1 + 1e-9))]
    assert found in near


@given(st.lists(st.tuples(st.floats(-40, 40), st.integers(0, 5)), min_size=1, max_size=20), st.floats(0.01, 0.99))
@settings(max_examples=30, deadline=None)
def test_a_draw_of_weight_three_is_three_draws(pairs, share):
    values, counts = np.array([v for v, _ in pairs]), np.array([n for _, n in pairs])
    if counts.sum() == 0:
        counts = counts + 1
    repeated = np.repeat(values, counts)
    near = [np.quantile(repeated, q, method="inverted_cdf") for q in (share * (1 - 1e-9), share * (1 + 1e-9))]
    assert weighted_quantile(values, counts / counts.sum(), share) in near


def test_mean_sd_and_interval_of_weighted_draws():
    thing = of_column(np.array([0.0, 1.0, 2.0, 40.0]), np.array([1, 2, 1, 1e-300]))
    assert thing.mean("x") == pytest.approx(1.0)
    assert thing.sd("x") == pytest.approx(np.sqrt(0.5))
    assert thing.interval("x", 0.5) == (0.0, 2.0)
    assert thing.interval("x", 0.4) == (1.0, 1.0)
    assert thing.z_score("x", 1.0 + np.sqrt(0.5)) == pytest.approx(1.0)
    assert thing.effective_draws == pytest.approx(16 / 6)
    assert thing.covered(Theta({"x": 40.0}), 0.9) == {"x": False}
    assert thing.covered({"x": 1.5}, 0.9) == {"x": True}


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_the_interval_of_a_gaussian_posterior_covers_the_truth_as_often_as_it_says(level):
    rng, times, covered = stream(1, "coverage"), 600, 0
    for _ in range(times):
        truth = rng.normal(0, 3)
        centre = truth + rng.normal(0, 1)  # one measurement with sd 1 and a flat prior: the posterior is N(centre, 1)
        covered += of_column(rng.normal(centre, 1, 400)).covered({"x": truth}, level)["x"]
    room = 4 * np.sqrt(level * (1 - level) / times)  # four standard errors of a rate
    assert covered / times == pytest.approx(level, abs=room)


def test_importance_weights_cover_as_draws_of_the_posterior_do():
    rng, times, covered = stream(2, "weights"), 300, 0
    for _ in range(times):
        truth = rng.normal(0, 1)
        centre = truth + rng.normal(0, 1)
        wide = rng.normal(centre, 2, 1000)
        log_ratio = -0.5 * (wide - centre) ** 2 + 0.125 * (wide - centre) ** 2
        covered += of_column(wide, np.exp(log_ratio)).covered({"x": truth}, 0.8)["x"]
    assert covered / times == pytest.approx(0.8, abs=4 * np.sqrt(0.16 / times))


def test_draws_follow_the_weights_and_keep_correlation():
    thing, rng = posterior(), stream(0, "draw")
    rows = np.array([[theta[MASS.id], theta[FRICTION.id]] for theta in (thing.draw(rng) for _ in range(3000))])
    assert rows[:, 1].mean() == pytest.approx(thing.mean(FRICTION.id), abs=0.005)
    assert np.corrcoef(np.log(rows[:, 0]), rows[:, 1])[0, 1] == pytest.approx(0.6, abs=0.1)
    loaded = of_column(np.array([1.0, 2.0]), np.array([1, 1e-12]))
    assert {loaded.draw(rng)["x"] for _ in range(50)} == {1.0}


def test_a_new_instance_varies_more_than_the_family_and_the_rest_stays_joined():
    thing, rng = family_posterior(), stream(0, "new")
    new = [thing.draw_new(rng) for _ in range(2000)]
    assert np.std([theta[FRICTION.id] for theta in new]) > 1.5 * thing.sd(FRICTION.id)
    assert {theta[MASS.id] for theta in new} <= set(thing.column(MASS.id).tolist())
    assert (posterior().new_instance_draws == posterior().draws).all()


def test_a_family_must_fit_its_posterior():
    values, predictive = np.full((400, 2, 1), 0.6), np.full((400, 1), 0.6)
    with pytest.raises(PosteriorError, match="population 'cubes': values have shape"):
        Population("cubes", ("a",), (FRICTION.id,), values, predictive)
    with pytest.raises(PosteriorError, match="They go draw by draw"):
        posterior(population=Population("cubes", ("a", "b"), ("mass of a ball",), values, predictive))
    with pytest.raises(PosteriorError, match="the new instance of draw 0 is 5 1, outside the limits"):
        posterior(population=Population("cubes", ("a", "b"), (FRICTION.id,), values, predictive * 0 + 5))


def test_questions_without_an_answer_are_errors():
    thing = posterior()
    with pytest.raises(PosteriorError, match="has no parameter 'x'; it has body.cube.mass"):
        thing.mean("x")
    with pytest.raises(PosteriorError, match="an interval of level 1.5"):
        thing.interval(MASS.id, 1.5)
    with pytest.raises(PosteriorError, match="all its draws are 3.0"):
        of_column(np.full(4, 3.0)).z_score("x", 1)


def test_priors_and_model_errors_state_numbers_that_can_be():
    with pytest.raises(PosteriorError, match="a normal prior has mean None"):
        Prior(Declared("by eye"), "normal")
    with pytest.raises(PosteriorError, match="lies outside the limits"):
        posterior(priors=(FLAT, Prior(Declared("by eye"), "normal", 90.0, 0.1)))
    with pytest.raises(PosteriorError, match="needs rising horizons"):
        Discrepancy("pose", "m", (0.5, 0.1), (1, 1))
    with pytest.raises(PosteriorError, match="an sd that is negative"):
        Discrepancy("pose", "m", (0.1, 0.5), (1, -1))
    error = Discrepancy("pose", "m", (0.1, 0.5), (1, 3))
    assert [error.at(horizon) for horizon in (0.0, 0.3, 9.0)] == pytest.approx([1, 2, 3])


def test_a_pickled_or_compressed_array_file_is_refused(tmp_path):
    from twinproof.nouns.artifact import read_arrays

    np.savez(tmp_path / "object.npz", draws=np.array([{}], dtype=object))
    np.savez_compressed(tmp_path / "packed.npz", draws=np.zeros(1000))
    (tmp_path / "text.npz").write_text("no archive")
    with pytest.raises(PosteriorError, match="not a readable NPZ"):
        read_arrays(tmp_path / "object.npz", PosteriorError)
    with pytest.raises(PosteriorError, match="holds draws.npy compressed"):
        read_arrays(tmp_path / "packed.npz", PosteriorError)
    with pytest.raises(PosteriorError, match="not a readable NPZ"):
        read_arrays(tmp_path / "text.npz", PosteriorError)


def test_the_arrays_given_are_copied_not_held():
    rows = draws()
    thing = posterior(draws=rows)
    hash = thing.hash
    rows[:] = 1.0
    assert thing.hash == posterior().hash == hash
    assert thing.mean(FRICTION.id) == pytest.approx(0.6, abs=0.02)


def forge(folder: Path, **changes) -> None:
    """Changes fields of posterior.json and seals it again, as someone would who knows how."""
    head = json.loads((folder / "posterior.json").read_text())
    del head["seal"]
    head |= changes
    head["files"] = {name: hash for name, hash in file_hashes(folder).items() if name != "posterior.json"}
    write_sealed(folder / "posterior.json", head)


def test_a_number_changed_together_with_its_seal_is_still_found_by_the_hash(tmp_path):
    posterior().save(tmp_path / "p")
    forge(tmp_path / "p", method="magic")
    with pytest.raises(PosteriorError, match=r"its content has the hash \w{16}, posterior.json states \w{16}"):
        Posterior.load(tmp_path / "p")


def test_files_that_do_not_fit_their_json_are_named(tmp_path):
    posterior().save(tmp_path / "p")
    np.savez(tmp_path / "p" / "samples.npz", draws=draws())
    forge(tmp_path / "p")
    with pytest.raises(PosteriorError, match=r"posterior.json does not fit its files \(KeyError\('log_weights'\)\)"):
        Posterior.load(tmp_path / "p")
    forge(tmp_path / "p", population={"family": 3})
    with pytest.raises(PosteriorError, match="does not fit its files"):
        Posterior.load(tmp_path / "p")
