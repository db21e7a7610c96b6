"""Episodes without files: the same signals as a bag would carry, and the plant that was hidden."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from twinproof.ingest.read import ingest
from twinproof.lab.record import Options, in_memory, record
from twinproof.nouns.errors import ConfigError
from twinproof.nouns.rig import read_rig

OFF = Options("mcap", effects="off", images=False)


def test_episodes_in_memory_are_those_of_a_recording(tmp_path: Path) -> None:
    record("pendulum", 1, 3, tmp_path / "lab", None, OFF)
    (stored,) = ingest(
        tmp_path / "lab" / "dataset", read_rig(tmp_path / "lab" / "rig.toml"), tmp_path / "recording"
    ).episodes
    (made,), _ = in_memory("pendulum", 1, 3, OFF)
    assert set(made.signals) == set(stored.signals) == {"state", "velocity", "torque", "command"}
    for name, signal in made.signals.items():
        np.testing.assert_allclose(signal.time_s, stored.signals[name].time_s, atol=1e-8)
        np.testing.assert_allclose(signal.value, stored.signals[name].value, atol=1e-12)
    assert dict(made.labels) == dict(stored.labels)
    assert made.videos == {}


def test_the_same_seed_gives_the_same_episodes_and_another_gives_others() -> None:
    one, two = (in_memory("pendulum", 2, 3, OFF)[0] for _ in range(2))
    assert [each.id for each in one] == [each.id for each in two]
    assert one[0].id != one[1].id
    other, _ = in_memory("pendulum", 2, 4, OFF)
    assert {each.id for each in other}.isdisjoint(each.id for each in one)


def test_the_plant_is_the_seeds_or_the_one_that_was_asked_for() -> None:
    _, three = in_memory("pendulum", 1, 3, OFF)
    _, four = in_memory("pendulum", 1, 4, OFF)
    _, asked = in_memory("pendulum", 1, 3, Options("mcap", effects="off", images=False, plant=4))
    assert three.theta != four.theta
    assert asked.theta == four.theta
    assert 0.5 < four.theta["body.upper_link.mass"] / three.theta["body.upper_link.mass"] < 2


def test_no_camera_runs_and_a_tracker_may() -> None:
    (made,), _ = in_memory("push", 1, 2, Options("mcap", behaviours=("push",), tracker="mocap", scan=False))
    assert made.videos == {}
    assert made.signals["object_pose"].kind == "pose"


def test_no_episodes_are_an_error() -> None:
    with pytest.raises(ConfigError, match="0 episodes cannot be recorded"):
        in_memory("pendulum", 0, 3)
