"""A box that slides to rest on a floor: friction of a new box, its tracker and its starts."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from tests.sim.motions import BOX, moved, pose_signal, signal
from twinproof.nouns.belief import Discrepancy, Prior
from twinproof.nouns.episode import Episode
from twinproof.nouns.posterior import Posterior
from twinproof.nouns.randomization import Randomization
from twinproof.nouns.rig import Rig
from twinproof.nouns.source import Declared
from twinproof.nouns.theta import ParameterInfo
from twinproof.randomize import recorded
from twinproof.randomize.against import Against, noise_of
from twinproof.randomize.coverage import check_measured, judge
from twinproof.randomize.inferred import from_posterior
from twinproof.sim.experiment import Experiment, experiment
from twinproof.sim.scene import Scene

FRICTION = "geom.box.friction_slide"
TRUTH, SD = 0.3, 0.01


@cache
def slides(count: int = 6) -> tuple[Experiment, ...]:
    """Boxes pushed off with different speeds, tracked with a noise of 0.2 mm."""
    scene, found = Scene(BOX), []
    for k in range(count):
        rng = np.random.default_rng(k)
        yaw = rng.uniform(-0.5, 0.5)
        start = np.array([*rng.uniform(-0.2, 0.2, size=2), 0.03, np.cos(yaw / 2), 0, 0, np.sin(yaw / 2)])
        speed = np.array([*rng.uniform(0.5, 1.0, size=2), 0, 0, 0, 0])
        motion = moved(scene, None, {FRICTION: TRUTH}, 0.4, qpos=start, qvel=speed)
        track = pose_signal(motion, "box", "tracked", every=5)
        sd = {name: 2e-4 if name in "xyz" else 5e-4 for name in ("x", "y", "z", "qx", "qy", "qz")}
        columns = {
            c.name: track.column(c.name) + sd.get(c.name, 0.0) * rng.normal(size=len(track.time_s))
            for c in track.columns
        }
        seen = signal("tracked", "pose", columns, track.time_s, "m")
        found.append(experiment(Episode.of({"tracked": seen}, {}), scene))
    return tuple(found)


def against(shift: float) -> Against:
    """A friction's range that is off by so many sd."""
    draws = TRUTH + SD * (np.random.default_rng(0).normal(size=(400, 1)) + shift)
    entries = ("tracked.x", "tracked.y", "tracked.z", "tracked.turn_x", "tracked.turn_y", "tracked.turn_z")
    made = slides()[0].readings[0].entries
    assert len(made) == len(entries)
    error = tuple(Discrepancy(entry, "m", (0.1, 0.4), (0.002, 0.004)) for entry in made)
    info = ParameterInfo(FRICTION, "1", 0.05, 2.0, True)
    posterior = Posterior(
        (info,), (Prior(Declared("wide")),), draws, np.full(400, -np.log(400)), "by hand", ("a",), {}, discrepancy=error
    )
    block = from_posterior(posterior, 0.95, np.random.default_rng(1))
    more = recorded.measured_ranges(slides(), Rig("box"), frozenset(), {})
    ranges = Randomization((*block.ranges, *more), {}, (FRICTION,), block.draws, discrepancy=error)
    held = Against(slides(), ranges, (FRICTION,), {}, {})
    return Against(slides(), ranges, (FRICTION,), {}, noise_of(posterior, held.shooting))


def test_a_right_friction_is_not_missed_and_a_wrong_one_is() -> None:
    right, wrong = judge(against(0.0)), judge(against(12.0))
    assert not any(each.missed for each in right.parameters)
    assert right.whole.covered > 0.85
    (missed,) = [each for each in wrong.parameters if each.missed]
    assert missed.told is not None
    assert missed.told.value == pytest.approx(TRUTH, rel=0.1)
    assert wrong.whole.covered < right.whole.covered


def test_the_trackers_noise_and_the_starts_of_a_free_body_are_measured() -> None:
    held = against(0.0)
    noise = held.randomization.range("tracker.position_noise")
    assert noise.low < 2e-4 < noise.high
    assert held.randomization.range("tracker.rotation_noise").gap == "sensor"
    x, yaw = (held.randomization.range(f"body.box.start_{axis}") for axis in ("x", "yaw"))
    assert x.gap == "initial"
    assert -0.5 < x.low < x.high < 0.5
    assert -1.0 < yaw.low < 0 < yaw.high < 1.0
    checks = check_measured(held, {**recorded.noises(slides()), **recorded.starts(slides(), {})})
    assert {"tracker.position_noise", "body.box.start_x", "body.box.start_y", "body.box.start_yaw"} <= {
        c.id for c in checks
    }
    assert not any(each.missed for each in checks)
    at_the_point = replace(held, randomization=held.randomization.at(0.0))
    assert check_measured(at_the_point, recorded.noises(slides())) == []  # without width nothing can be tested


def test_lost_readings_become_a_range() -> None:
    from tests.sim.motions import PENDULUM, swing

    episode = swing(PENDULUM, {}, 0, 0.6)
    kept = experiment(episode, Scene(PENDULUM))
    holes = np.array(kept.readings[0].value)
    holes[::10] = np.nan
    from dataclasses import replace

    broken = replace(kept, readings=(replace(kept.readings[0], value=holes),))
    found = {entry.id: entry for entry in recorded.measured_ranges((kept, broken), Rig("p"), frozenset(), {})}
    lost = found["proprioception.dropout"]
    assert lost.high == pytest.approx(0.15, abs=0.01)
    assert "up to 10" in lost.reason


def test_a_joint_begins_where_it_is_and_not_where_its_encoder_says() -> None:
    from tests.sim.motions import PENDULUM, swing

    seen = experiment(swing(PENDULUM, {}, 0, 0.6), Scene(PENDULUM))
    read = recorded.starts((seen,), {})["joint.hinge.start"]
    assert recorded.starts((seen,), {"joint.hinge.offset": 0.04})["joint.hinge.start"][0] == pytest.approx(
        read[0] - 0.04
    )
