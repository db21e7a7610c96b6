"""Which world a trial runs in: the same for all policies, of the family where the object was never seen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.nouns import examples
from twinproof.evaluate.beliefs import Beliefs, blind_order, place_of, spread
from twinproof.nouns.drive import Drive
from twinproof.nouns.errors import PanelError
from twinproof.nouns.panel import Cell, Condition, Domain, trial_seed
from twinproof.nouns.randomization import Randomization, Range
from twinproof.nouns.source import Declared
from twinproof.nouns.strict import plain
from twinproof.nouns.theta import ParameterInfo, Theta
from twinproof.sim.actuator_law import Actuator

DOMAINS = {kind: Domain(kind, kind, 3) for kind in ("real", "twin", "draws", "nominal", "rebuilt")}


def cell(kind: str, object: str = "unseen", repeat: int = 0, policy: str = "ppo") -> Cell:
    condition = Condition("h01", "h1", 4, {"object": object})
    return Cell(policy, condition, DOMAINS[kind], repeat, trial_seed(condition, repeat))


@pytest.fixture
def twin(tmp_path):
    return examples.twin(tmp_path / "twin")


def test_all_policies_meet_the_same_world_and_repeats_meet_others(twin):
    known = Beliefs(twin, examples.posterior())
    one, same = (known.theta(cell("draws", policy=name)) for name in ("ppo", "scripted"))
    assert one == same
    assert known.theta(cell("draws", repeat=1)) != one
    assert known.theta(cell("twin")) == known.theta(cell("twin", repeat=1))
    assert known.theta(cell("nominal")) == Theta()


def test_an_object_that_was_never_seen_is_drawn_from_its_family_and_a_known_one_is_itself(twin):
    posterior = examples.family_posterior()
    family = posterior.population
    known = Beliefs(twin, posterior)
    id = family.parameters[0]
    new = {known.theta(cell("draws", repeat=k))[id] for k in range(20)}
    assert new <= set(family.predictive[:, 0].tolist())
    own = {known.theta(cell("draws", family.instances[0], k))[id] for k in range(20)}
    assert own <= set(family.values[:, 0, 0].tolist())
    point = known.theta(cell("twin", family.instances[0]))[id]
    assert point == pytest.approx(float(posterior.weights @ family.values[:, 0, 0]))
    assert known.theta(cell("twin"))[id] == pytest.approx(posterior.point()[id])


def test_ranges_are_drawn_from_where_they_are_given(twin):
    ranges = examples.randomization()
    drawn = [Beliefs(twin, None, ranges).theta(cell("draws", repeat=k)) for k in range(10)]
    for id, (low, high) in spread(drawn).items():
        assert ranges.range(id).low <= low < high <= ranges.range(id).high
    assert Beliefs(twin, None, ranges).theta(cell("twin")) == twin.start | ranges.point()


def test_what_was_identified_moves_every_domain_but_the_nominal_one(twin):
    drive = Drive({"hinge": plain(Actuator(gain=0.5))})
    posterior, ranges = replace(examples.posterior(), drive=drive), replace(examples.randomization(), drive=drive)
    for known in (Beliefs(twin, posterior), Beliefs(twin, None, ranges), Beliefs(twin, posterior, ranges)):
        assert [known.drive_of(kind) for kind in ("nominal", "twin", "draws", "rebuilt")] == [None, drive, drive, drive]
        assert known.scene("twin").drive is drive
        assert known.scene("nominal").drive is None
    assert Beliefs(twin, examples.posterior()).drive is None
    assert posterior.hash != examples.posterior().hash


def test_draws_need_something_to_draw_from_and_reality_is_nobodys_to_choose(twin):
    with pytest.raises(PanelError, match="neither a posterior nor ranges"):
        Beliefs(twin).theta(cell("draws"))
    with pytest.raises(PanelError, match="nobody's to choose"):
        Beliefs(twin).theta(cell("real"))
    with pytest.raises(PanelError, match="Give it with --rebuilt"):
        Beliefs(twin).theta(cell("rebuilt"))
    assert Beliefs(twin, rebuilt=twin).theta(cell("rebuilt")) == twin.start


def test_the_order_is_shuffled_by_its_seed_and_codes_say_nothing_of_the_policy():
    cells = list(examples.panel().cells(["a", "b"]))
    order, codes = blind_order(cells, 3)
    assert blind_order(cells, 3) == (order, codes)
    assert order != cells
    assert sorted(place_of(order).keys()) == sorted(place_of(cells).keys())
    assert len(set(codes)) == len(cells)


def test_how_a_trial_begins_is_the_panels_to_say(twin):
    start = ParameterInfo("joint.elbow.start", "rad", -1.0, 1.0)
    why = ("where the elbow is", "none", "a test")
    ranges = Randomization((Range(start, -0.1, 0.1, 0.0, Declared("a test"), "initial", *why),), {})
    assert Beliefs(twin, None, ranges).theta(cell("draws")) == twin.start


def test_a_posterior_of_another_twin_is_refused(twin):
    with pytest.raises(PanelError, match="the posterior belongs to the twin 7777"):
        Beliefs(twin, examples.posterior()).check_parents()
    Beliefs(twin).check_parents()
