"""What a training run stands on."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.sim.test_drive import MOTOR
from tests.train.folders import folders, ranges
from twinproof.nouns.belief import Discrepancy
from twinproof.nouns.drive import Drive
from twinproof.nouns.errors import ConfigError, RandomizationError
from twinproof.nouns.randomization import Randomization
from twinproof.nouns.strict import plain
from twinproof.nouns.theta import Theta
from twinproof.nouns.twin import Twin
from twinproof.tasks.arena import Arena
from twinproof.train.command import run
from twinproof.train.ground import Asked, Ground, _known, open_arena
from twinproof.train.gym_lerobot import LeRobotEnv

DRIVE = Drive({"hinge": plain(MOTOR)}, {"joint.hinge.damping": (0.05, 0.01)})


def test_an_expert_is_told_the_points_of_what_was_found_out():
    assert _known(None) == Theta()
    assert dict(_known(ranges())) == {"body.bob.mass": 0.5, "joint.hinge.damping": 0.05}


def swung(arena: Arena) -> np.ndarray:
    """Where worlds are after a while of the same torques."""
    arena.reset()
    for _ in range(12):
        arena.step(np.full((arena.count, 1), 0.2))
    return np.array(arena.situation.position)


@pytest.fixture
def driven(tmp_path: Path) -> tuple[Path, Path]:
    """A twin, and ranges that carry a drive."""
    twin, _ = folders(tmp_path)
    replace(ranges(), drive=DRIVE).save(tmp_path / "driven")
    return twin, tmp_path / "driven"


def test_worlds_are_moved_by_the_drive_of_the_ranges_unless_it_is_left_out(driven: tuple[Path, Path]) -> None:
    twin, carried = driven
    assert Randomization.load(carried).drive.hash == DRIVE.hash
    asked = Asked(twin, carried, "reach", "ppo", twin.with_name("policy"), worlds=3)
    by_drive, alone = (swung(Ground.of(replace(asked, drive=on)).arena(3, 0)) for on in (True, False))
    plain_ranges = swung(Ground.of(replace(asked, randomization=twin.with_name("ranges"))).arena(3, 0))
    np.testing.assert_array_equal(alone, plain_ranges)
    assert np.abs(by_drive - alone).max() > 1e-3
    np.testing.assert_array_equal(swung(open_arena(twin, "reach", 3, carried)), by_drive)
    task = Ground.of(asked).task
    np.testing.assert_array_equal(swung(Arena(Twin.load(twin), task, 3, draws=Randomization.load(carried))), by_drive)


def test_training_says_what_moves_its_worlds(driven: tuple[Path, Path]) -> None:
    twin, carried = driven
    for on, words in ((True, "worlds are moved as identified: actuator model of hinge."), (False, "--no-drive: ")):
        said: list[str] = []
        asked = Asked(twin, carried, "reach", "clone", twin.with_name(f"policy_{on}"), worlds=4, steps=64, updates=2,
                      judged=2, probe=False, drive=on)  # fmt: skip
        run(asked, say=said.append)
        assert said[0].startswith(words)


def test_ranges_of_another_twin_are_refused_wherever_worlds_are_made(driven: tuple[Path, Path]) -> None:
    twin, _ = driven
    strange = twin.with_name("strange")
    replace(ranges(), parents={"twin": "e" * 64}).save(strange)
    whose = "the randomization belongs to the twin eeeeeeeeeeeeeeee, and"
    with pytest.raises(RandomizationError, match=whose):
        Ground.of(Asked(twin, strange, "reach", "ppo", twin.with_name("policy")))
    with pytest.raises(RandomizationError, match=whose):
        open_arena(twin, "reach", 3, strange)
    with pytest.raises(RandomizationError, match=whose):
        LeRobotEnv(twin, randomization=strange)


def test_model_error_that_would_not_be_played_is_refused(driven: tuple[Path, Path]) -> None:
    twin, carried = driven
    asked = Asked(twin, carried, "reach", "ppo", twin.with_name("policy"), model_error=True)
    with pytest.raises(ConfigError, match="driven states none that grows with time of a joint that the task drives"):
        Ground.of(asked)
    with pytest.raises(ConfigError, match="--model-error: no ranges, and nothing else, states none"):
        Ground.of(replace(asked, randomization=None))
    with pytest.raises(ConfigError, match="--algo progressive draws its worlds stage by stage, and no model error"):
        replace(asked, algo="progressive")
    stated = replace(ranges(), discrepancy=(Discrepancy("state.hinge", "rad", (0.05, 0.1), (0.001, 0.01)),))
    stated.save(twin.with_name("stated"))
    assert Ground.of(replace(asked, randomization=twin.with_name("stated"))).draws == stated


def test_what_is_learned_in_may_be_coarse_and_what_judges_is_not(driven: tuple[Path, Path]) -> None:
    twin, carried = driven
    asked = Asked(twin, carried, "reach", "ppo", twin.with_name("policy"), worlds=3, coarse=2, drive=False)
    ground = Ground.of(asked)
    learns, judges = ground.learner(0).env.arena, ground.arena(3, 0)
    assert learns.task.machine.substeps * 2 == judges.task.machine.substeps
    assert learns.task.period_s == judges.task.period_s
    off = np.abs(swung(ground.arena(3, 0, coarse=2)) - swung(judges))
    assert 0 < off.max() < 0.02
    with pytest.raises(ConfigError, match="--coarse is 0; at least 1 is needed"):
        replace(asked, coarse=0)
    with pytest.raises(ConfigError, match="--hidden has no width, or one below 1"):
        replace(asked, hidden=())
    with pytest.raises(ConfigError, match="--coarse 7: a tick of this task is 2 physics steps, .* Fitting would be 2"):
        Ground.of(replace(asked, coarse=7))
