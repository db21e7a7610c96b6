"""Near-duplicates: copies are found through crop, rate and noise; demonstrations of one script are not copies."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from tests.guard.recordings import episode, filmed, path, script
from twinproof.guard.frames import difference_hash
from twinproof.guard.signature import floor_of, noise_of
from twinproof.guard.similar import near_duplicates
from twinproof.nouns.episode import Episode
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import Rig
from twinproof.nouns.signal import Column, Signal


def of(*episodes: Episode) -> Recording:
    return Recording(Rig("arm"), episodes, {})


def copied(
    one: Episode, rng: np.random.Generator, *, crop: float = 0.04, hz: float = 30.0, noise: float = 2e-3
) -> Episode:
    """The same motion cropped, at another rate, with noise on it, from time 0 again."""
    signal = one.signals["state"]
    first, last = signal.time_s[0], signal.time_s[-1]
    times = np.arange(first + crop / 2 * (last - first), last - crop / 2 * (last - first), 1 / hz)
    value = np.stack([np.interp(times, signal.time_s, column) for column in signal.value.T], axis=1)
    return episode(times - times[0], value + rng.normal(0, noise, value.shape), f"copy of {one.source}")


def scripted(count: int, seed: int, *, joints: int = 7, spread: float = 0.02, noise: float = 2e-4) -> list[Episode]:
    """Demonstrations of one script: the same knots, each time a few centiradians off, and never quite as long."""
    rng = np.random.default_rng(seed)
    knots = rng.uniform(-1, 1, (6, joints))
    made = []
    for k in range(count):
        time_s = np.arange(0, 10 + rng.random(), 1 / 50)
        value = script(knots + rng.normal(0, spread, knots.shape), time_s)
        made.append(episode(time_s, value + rng.normal(0, noise, value.shape), f"{k:03d}"))
    return made


def named(recording: Recording, threshold: float = 3.0) -> set[tuple[str, str]]:
    names = {one.id: one.source for one in recording.episodes}
    pairs = near_duplicates(recording, threshold).pairs
    return {tuple(sorted((names[pair.first], names[pair.second]))) for pair in pairs}  # type: ignore[misc]


@pytest.mark.parametrize(
    "how",
    [
        {"crop": 0.04, "hz": 30.0, "noise": 2e-3},
        {"crop": 0.0, "hz": 50.0, "noise": 1e-3},
        {"crop": 0.5, "hz": 50.0, "noise": 2e-3},
        {"crop": 0.1, "hz": 100.0, "noise": 2e-3},
        {"crop": 0.04, "hz": 13.0, "noise": 0.0},
        {"crop": 0.3, "hz": 47.3, "noise": 5e-3},
    ],
)
def test_a_copy_is_found_and_its_siblings_are_not_called_copies(how: dict[str, float]) -> None:
    demos = scripted(8, seed=3)
    copy = copied(demos[2], np.random.default_rng(5), **how)
    found = near_duplicates(of(*demos, copy), 3.0).pairs
    assert [{pair.first, pair.second} for pair in found] == [{demos[2].id, copy.id}]
    assert found[0].distance < 2
    lag = 0.5 * how["crop"] * demos[2].span_s[1]
    sign = 1 if found[0].first == copy.id else -1
    assert sign * found[0].lag_s == pytest.approx(lag, abs=0.01)
    assert set(found[0].floor) == {f"state/j{j}" for j in range(7)}
    assert max(found[0].floor.values()) == pytest.approx(max(how["noise"], 3e-4), rel=0.5, abs=1e-3)


def test_scripted_demonstrations_are_not_copies_and_300_take_seconds() -> None:
    demos = scripted(300, seed=0)
    rng = np.random.default_rng(1)
    copies = [copied(demos[k], rng) for k in (7, 100, 299)]
    started = time.perf_counter()
    found = named(of(*demos, *copies))
    seconds = time.perf_counter() - started
    assert found == {(f"{k:03d}", f"copy of {k:03d}") for k in (7, 100, 299)}
    assert seconds < 30  # about 2 on two cores; room for a busy machine


def test_the_threshold_can_be_set() -> None:
    rng = np.random.default_rng(1)
    time_s, knots = np.arange(500) / 50, rng.uniform(-1, 1, (6, 7))
    demos = []
    for k in range(4):  # a millirad apart, at a millirad of noise
        value = script(knots + rng.normal(0, 1e-3, knots.shape), time_s)
        demos.append(episode(time_s, value + rng.normal(0, 1e-3, value.shape), str(k)))
    assert len(named(of(*demos), threshold=3.0)) == 3
    assert named(of(*demos), threshold=1.0) == set()


def test_copies_of_copies_bind_one_group_with_as_few_pairs_as_that_takes() -> None:
    demos = scripted(3, seed=2)
    rng = np.random.default_rng(0)
    copies = [copied(demos[0], rng, noise=1e-3) for _ in range(5)]
    assert len(near_duplicates(of(*demos, *copies), 3.0).pairs) == 5


def test_the_order_of_episodes_is_irrelevant() -> None:
    demos = scripted(6, seed=4)
    demos.append(copied(demos[1], np.random.default_rng(0)))
    assert near_duplicates(of(*demos), 3.0) == near_duplicates(of(*reversed(demos)), 3.0)


def test_a_robot_that_stands_still_is_compared_with_nothing() -> None:
    rng = np.random.default_rng(0)
    time_s = np.arange(100) / 50
    still = [episode(time_s, rng.normal(0.5, 1e-3, (100, 2)), f"still {k}") for k in range(3)]
    assert named(of(*still)) == set()
    zero = [episode(time_s, np.zeros((100, 2)), f"zero {k}", start_ns=k) for k in range(2)]
    assert named(of(*zero)) == set()


def test_the_same_values_under_other_stamps_are_a_copy_even_without_motion() -> None:
    value = np.random.default_rng(0).normal(0.5, 1e-3, (100, 2))
    pair = [episode(np.arange(100) / 50, value, "a"), episode(0.2 + np.arange(100) / 45, value, "b")]
    (found,) = near_duplicates(of(*pair), 3.0).pairs
    assert found.distance == 0


def test_the_same_motion_with_another_joint_at_another_angle_is_no_copy() -> None:
    rng = np.random.default_rng(0)
    time_s = np.arange(200) / 50
    motion = path(rng, time_s, 2)
    made = []
    for k, angle in enumerate((0.1, 0.9)):
        value = np.column_stack([motion, np.full(200, angle)]) + rng.normal(0, 1e-3, (200, 3))
        made.append(episode(time_s, value, str(k)))
    assert named(of(*made)) == set()


def test_commands_serve_where_there_are_no_positions_and_steps_do_not_hide_a_copy() -> None:
    rng = np.random.default_rng(0)
    time_s = np.arange(500) / 50
    made = []
    for k in range(3):
        gripper = (time_s > rng.uniform(3, 7)).astype(float)
        value = np.column_stack([path(rng, time_s, 2), gripper])
        made.append(episode(time_s, value, str(k), kind="joint_command"))
    made.append(copied(made[0], rng, noise=0.0))
    assert named(of(*made)) == {("0", "copy of 0")}


def test_missing_values_and_a_column_that_one_lacks_are_no_obstacle() -> None:
    rng = np.random.default_rng(0)
    time_s = np.arange(300) / 50
    value = path(rng, time_s) + rng.normal(0, 5e-4, (300, 3))
    missing = rng.random((300, 3)) < 0.1
    columns = tuple(Column(f"j{j}", "rad") for j in range(3))
    gaps = Episode.of({"state": Signal("state", "joint_position", columns, time_s, value, missing)}, {}, source="a")
    fewer = episode(time_s, value[:, :2] + rng.normal(0, 1e-3, (300, 2)), "b")
    assert named(of(gaps, fewer)) == {("a", "b")}


def test_short_long_and_wordless_episodes_live_side_by_side(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    made = [
        episode(np.arange(n) / 50, path(rng, np.arange(n) / 50) + rng.normal(0, 1e-3, (n, 3)), str(n))
        for n in (1, 5, 9, 40, 4000)
    ]
    film = filmed(made[3], tmp_path, 0)
    made.append(Episode.of({}, dict(film.videos), source="film only"))
    assert named(of(*made)) == set()


@pytest.mark.parametrize("sd", [1e-4, 2e-3])
def test_noise_is_estimated_on_uneven_stamps_of_a_moving_joint(sd: float) -> None:
    rng = np.random.default_rng(0)
    time_s = np.cumsum(rng.uniform(0.01, 0.03, 2000))
    clean = np.sin(2 * time_s)
    assert noise_of(time_s, clean + rng.normal(0, sd, 2000)) == pytest.approx(sd, rel=0.1)


def test_the_floor_of_a_coarse_encoder_is_its_step() -> None:
    time_s = np.arange(2000) / 100
    coarse = np.round(0.1 * np.sin(0.2 * time_s) / 0.01) * 0.01
    assert floor_of(time_s, coarse) == pytest.approx(0.01 / np.sqrt(12), rel=0.3)


def test_pictures_are_a_second_sign_beside_a_pair(tmp_path: Path) -> None:
    demos = scripted(2, seed=6, joints=3)
    copy = copied(demos[0], np.random.default_rng(0), crop=0.0)
    same, other = filmed(demos[0], tmp_path / "a", 1), filmed(demos[1], tmp_path / "b", 2)
    for seed, alike in ((1, True), (3, False)):
        (found,) = near_duplicates(of(same, other, filmed(copy, tmp_path / f"c{seed}", seed)), 3.0).pairs
        assert (found.frames_alike["front"] == 0) is alike


def test_a_difference_hash_has_64_bits_for_colour_and_grey() -> None:
    picture = np.random.default_rng(0).integers(0, 255, (48, 64, 3), dtype=np.uint8)
    assert difference_hash(picture).size == difference_hash(picture[..., 0]).size == 64
    brighter = (picture // 2 + 40).astype(np.uint8)
    assert (difference_hash(picture) != difference_hash(brighter)).sum() < 8
