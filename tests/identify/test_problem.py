"""A problem's unknowns: shared ones, own ones, their names, limits and the way back to values."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sim.motions import PENDULUM, swing
from twinproof.identify.beliefs import Stated, beliefs
from twinproof.identify.problem import Problem, linearise
from twinproof.nouns.errors import ConfigError
from twinproof.sim.experiment import experiment
from twinproof.sim.scene import Scene
from twinproof.sim.shooting import Variant

IDS = ("body.bob.mass", "joint.hinge.damping", "joint.hinge.offset")
SCENE = Scene(PENDULUM)


def problem(own: dict[str, str] | None = None, stated: tuple[str, ...] = (), objects: str = "aba") -> Problem:
    made = tuple(
        experiment(swing(PENDULUM, seed=k, seconds=0.5, labels={"object": name}), SCENE)
        for k, name in enumerate(objects)
    )
    return Problem(beliefs(SCENE.nominal(), IDS, [Stated.parse(text) for text in stated]), made, {}, own or {})


def test_without_own_parameters_every_episode_shares_all_unknowns() -> None:
    found = problem()
    assert found.names == found.ids == IDS
    np.testing.assert_array_equal(found.columns, np.tile([0, 1, 2], (3, 1)))
    values = found.values(np.array([np.log(0.4), 0.1, 0.02]))
    np.testing.assert_allclose(values, np.tile([0.4, 0.1, 0.02], (3, 1)))


def test_objects_and_episodes_have_values_of_their_own() -> None:
    found = problem({"body.bob.mass": "object", "joint.hinge.offset": "episode"})
    ids = [each.id for each in found.experiments]
    assert found.names == (
        "joint.hinge.damping",
        "body.bob.mass of a",
        "body.bob.mass of b",
        *(f"joint.hinge.offset of {id}" for id in sorted(ids)),
    )
    assert found.columns[:, 0].tolist() == [1, 2, 1]
    assert found.columns[:, 1].tolist() == [0, 0, 0]
    assert sorted(found.columns[:, 2].tolist()) == [3, 4, 5]
    unknowns = np.array([0.1, np.log(0.3), np.log(0.6), 0.01, 0.02, 0.03])
    values = found.values(unknowns)
    np.testing.assert_allclose(values[:, 0], [0.3, 0.6, 0.3])
    np.testing.assert_allclose(values[:, 2], [0.01 * (1 + sorted(ids).index(id)) for id in ids])
    assert [each.group for each in found.experiments] == [0, 1, 2]
    assert found.instances("object") == ("a", "b")


def test_limits_widths_and_priors_follow_the_unknowns() -> None:
    found = problem({"body.bob.mass": "object"}, ("body.bob.mass=0.5+-0.05",))
    low, high = found.span
    assert (low[0], high[0]) == (0.0, pytest.approx(0.25))  # damping
    np.testing.assert_allclose(low[2:], np.log(0.5) - 0.6)
    np.testing.assert_allclose(found.width[2:], 0.1)
    centre, precision = found.prior()
    np.testing.assert_allclose(centre[2:], np.log(0.5))
    np.testing.assert_allclose(precision, [0, 0, 100, 100])
    assert ((found.nominal > low) & (found.nominal < high)).all()


def test_a_nominal_value_at_a_limit_begins_just_inside() -> None:
    found = problem(stated=("joint.hinge.damping=0.05..0.2",))
    low, high = found.span
    assert low[1] < found.nominal[1] < low[1] + 1e-3 * (high[1] - low[1])


def test_what_cannot_be_asked_is_an_error() -> None:
    with pytest.raises(ConfigError, match="there is nothing to fit: no episode was given"):
        Problem(beliefs(SCENE.nominal(), IDS), ())
    with pytest.raises(ConfigError, match="joint.hinge.armature is to differ between objects, but is no parameter"):
        problem({"joint.hinge.armature": "object"})
    with pytest.raises(ConfigError, match="body.bob.mass is to differ by 'session', and episode .* has no such label"):
        problem({"body.bob.mass": "session"})


@pytest.mark.parametrize("central", [False, True])
def test_slopes_are_those_of_small_steps(central: bool) -> None:
    found = problem({"body.bob.mass": "object"})
    shooting = found.shooting(0.25)
    at = found.nominal + np.array([0.01, 0.001, 0.02, -0.03])
    linear = linearise(found, shooting, at, shooting.starts, free=np.ones(1, dtype=bool), central=central)
    h = 1e-4
    for u in range(4):
        ends = [at.copy(), at.copy()]
        ends[0][u] -= h
        ends[1][u] += h
        rolled = shooting.roll([Variant(found.values(end), *shooting.starts) for end in ends])
        slope = (rolled.gap[0] - rolled.gap[1]) / (2 * h)
        told = np.zeros(len(slope))
        for e in range(3):
            mine = shooting.episode[shooting.window] == e
            p = np.flatnonzero(linear.columns[e] == u)
            told[mine] = linear.by_parameter[mine][:, p].sum(axis=1)
        np.testing.assert_allclose(told, slope, atol=2e-3 * np.abs(slope).max())
    # starts: a nudge of the position moves the gaps against it, and the seam with it
    nudge = np.zeros((shooting.windows, 2))
    nudge[:, 0] = h
    two = shooting.roll(
        [Variant(found.values(at), *shooting.moved(*shooting.starts, sign * nudge)) for sign in (-1, 1)]
    )
    slope = (two.gap[0] - two.gap[1]) / (2 * h)
    assert linear.by_start is not None
    np.testing.assert_allclose(linear.by_start[:, 0], slope, atol=2e-3 * np.abs(slope).max())
    assert linear.seam_by_start is not None
    seam = (two.seam[1] - two.seam[0]) / (2 * h) + np.array([1.0, 0.0])  # the next window's start moved as well
    np.testing.assert_allclose(linear.seam_by_start[:, :, 0], seam, atol=2e-3 * np.abs(seam).max())


def test_slopes_at_a_limit_are_taken_inwards() -> None:
    found = problem()
    shooting = found.shooting(0.25)
    low, high = found.span
    at = np.where([True, False, True], high, low)
    linear = linearise(found, shooting, at, shooting.starts)
    assert linear.by_start is None
    inside = at + np.where([True, False, True], -1, 1) * 1e-3 * (high - low)
    near = linearise(found, shooting, inside, shooting.starts)
    for p in range(3):
        size = np.abs(near.by_parameter[:, p]).max()
        np.testing.assert_allclose(linear.by_parameter[:, p], near.by_parameter[:, p], atol=0.05 * size)


def test_the_same_question_can_be_asked_of_other_experiments() -> None:
    found = problem({"body.bob.mass": "object"})
    other = found.with_experiments(found.experiments[1:2])
    assert other.names == ("joint.hinge.damping", "joint.hinge.offset", "body.bob.mass of b")
