"""Planted faults are told from each other by swapping one factor at a time, in a reality whose truth we know."""

from __future__ import annotations

import numpy as np
import pytest

from tests.evaluate.filmed import CHANNEL, contract_of, filmed_text, looked
from tests.evaluate.practice import pendulum
from tests.evaluate.swing import spring
from tests.nouns import examples
from twinproof.evaluate.attribution import attribute
from twinproof.evaluate.cameras import TwinEyes, on_cameras, seeing
from twinproof.evaluate.deploy import begins
from twinproof.evaluate.swaps import Setting, Trying, believed, drawn_with, factor_of, factors_of, swaps_of
from twinproof.lab.benches import bench
from twinproof.nouns.errors import ConfigError
from twinproof.nouns.failure import Failure
from twinproof.nouns.panel import Cell, Condition, Domain, trial_seed
from twinproof.nouns.randomization import Randomization, Range
from twinproof.nouns.rig import Camera, Rig
from twinproof.nouns.source import Declared
from twinproof.nouns.theta import ParameterInfo, Theta
from twinproof.nouns.twin import Twin
from twinproof.policies.scripted import Scripted
from twinproof.sim.scene import Scene
from twinproof.tasks import reach

SCENE = Scene(bench("pendulum").robot_text())
TASK = reach.of(SCENE, horizon_s=1.5)
GOOD = spring(TASK, 0.6)
LATE = Theta({"actuator.shoulder.delay": 0.09, "actuator.elbow.delay": 0.09})
HEAVY = Theta({"body.lower_link.mass": 3.0, "body.upper_link.mass": 4.0})
ORANGE = "0.86 0.42 0.10 1"  # the link that a policy looks for
SEEN = {"front": Camera("observation.images.cam_high", intrinsics_unknown=True)}
BLIND = Theta({"joint.shoulder.offset": 0.5, "joint.elbow.offset": 0.5})


def trials(count: int = 4):
    found = []
    for k in range(count):
        condition = Condition(f"h{k:02d}", f"e{k}", k)
        cell = Cell("spring", condition, Domain("real", "real", 1), 0, trial_seed(condition, 0))
        found.append((cell, begins(TASK, cell)))
    return found


def labels(theta: Theta, actor=GOOD, belief: Theta | None = None) -> set[Failure]:
    swaps = swaps_of(Theta() if belief is None else belief, expert=GOOD)
    trying = Trying(TASK, Setting(SCENE, theta, actor), swaps, trials())
    return set(attribute(trying, trying.seeds, factors_of(swaps)).labels.values())


def test_each_planted_fault_gets_its_own_label():
    assert labels(Theta()) == set()
    assert labels(LATE) == {Failure.EMBODIMENT}
    assert labels(HEAVY) == {Failure.PHYSICS}
    assert labels(BLIND) == {Failure.PERCEPTION}
    assert labels(Theta(), spring(TASK, 0.02)) == {Failure.POLICY}


def test_two_faults_at_once_are_undecided():
    assert labels(LATE | HEAVY) == {Failure.UNDECIDED}


def test_a_value_outside_its_range_is_a_range_miss_only_if_bringing_it_inside_mends():
    mass = ParameterInfo("body.lower_link.mass", "kg", 0.01, 10.0)
    why = ("mass of the lower link", "replay on validation", "a test")
    ranges = Randomization((Range(mass, 0.4, 0.6, 0.5, Declared("a test"), "dynamics", *why),), {})
    swaps = {"range": swaps_of(Theta(), ranges)["range"]}
    heavy = Theta({"body.lower_link.mass": 4.0})
    trying = Trying(TASK, Setting(SCENE, heavy, GOOD), swaps, trials())
    assert set(attribute(trying, trying.seeds, factors_of(swaps)).labels.values()) == {Failure.RESIDUAL_RANGE}
    assert swaps["range"](Setting(SCENE, heavy | LATE, GOOD)).theta == LATE | {"body.lower_link.mass": 0.6}


def test_parameters_belong_to_one_factor_each():
    told = {
        "joint.elbow.offset": "perception",
        "sensor.elbow_position.bias": "perception",
        "tracker.cube.delay": "perception",
        "image.latency": "perception",
        "actuator.elbow.gain": "embodiment",
        "geom.cube.friction": "contact",
        "geom.cube.size_x": "geometry",
        "body.cube.mass": "physics",
        "joint.elbow.damping": "physics",
    }
    assert {id: factor_of(id) for id in told} == told


def test_a_belief_takes_the_place_of_the_truth_and_what_it_lacks_becomes_nominal():
    found = believed(Theta({"body.lower_link.mass": 0.5}), "physics")(Setting(SCENE, HEAVY | LATE, GOOD))
    assert found.theta == LATE | {"body.lower_link.mass": 0.5}
    assert drawn_with(Scene(SCENE.xml))(found).scene == SCENE


def test_a_swap_that_is_no_factor_is_refused():
    with pytest.raises(ConfigError, match="weather can be swapped, and is no factor"):
        factors_of({"weather": lambda setting: setting})
    assert "range" in swaps_of(Theta(), examples.randomization())


def light(rng: np.random.Generator) -> Theta:
    """A belief whose draws are near the nominal masses."""
    return Theta({"body.lower_link.mass": rng.uniform(0.4, 0.5), "body.upper_link.mass": rng.uniform(0.55, 0.7)})


def test_physics_drawn_from_a_belief_mends_what_a_wrong_point_does_not():
    swaps = swaps_of(HEAVY, draw=light)  # the point is as wrong as reality is unlike it
    trying = Trying(TASK, Setting(SCENE, HEAVY, GOOD), swaps, trials())
    found = attribute(trying, trying.seeds, factors_of(swaps))
    assert set(found.labels.values()) == {Failure.PHYSICS}
    assert set(found.reasons.values()) == {"mended by swapping draw"}
    drawn = swaps["draw"](Setting(SCENE, HEAVY | LATE, GOOD))
    one, same, other = (drawn.theta_of(seed) for seed in (1, 1, 2))
    assert one == same != other
    assert Theta({id: one[id] for id in LATE}) == LATE  # nothing but physics and contact is drawn


def test_a_link_of_another_colour_is_appearance(tmp_path):
    """The policy looks for an orange link: reality's is blue. The same states as the twin draws them mend it."""
    twin = Twin.load(pendulum(tmp_path, text=filmed_text(), cameras=SEEN).twin)
    (tmp_path / "blue").mkdir()
    (tmp_path / "blue" / "scene.xml").write_text(filmed_text().replace(ORANGE, "0.1 0.2 0.8 1"))
    blue = Twin(tmp_path / "blue", twin.bodies, twin.alignment, twin.engine, (), {})
    task = reach.of(twin, horizon_s=3.0)
    pictures = on_cameras([CHANNEL], ("front",), Rig("arm", cameras=SEEN))
    policy = Scripted(contract_of(task), looked)
    eyes, seen = TwinEyes(twin, pictures), seeing(task, pictures)
    swaps = swaps_of(Theta(), eyes=eyes)
    begun = [(cell, begins(task, cell)) for cell, _ in trials(2)]
    trying = Trying(seen, Setting(Scene.of(twin), Theta(), policy, TwinEyes(blue, pictures)), swaps, begun)
    found = attribute(trying, trying.seeds, factors_of(swaps))
    assert set(found.labels.values()) == {Failure.PERCEPTION}
    assert set(found.reasons.values()) == {"mended by swapping appearance"}
    as_drawn = Trying(seen, Setting(Scene.of(twin), Theta(), policy, eyes), swaps, begun)
    assert attribute(as_drawn, as_drawn.seeds, factors_of(swaps)).labels == {}
