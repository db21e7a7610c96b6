"""The measure, the clocks, the onset and the warp: planted answers come back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.evaluate.motions import JOINTS, RANGES, episode, rig, wave
from twinproof.evaluate.clocks import Alignment, offset_between
from twinproof.evaluate.divergence import course, gaps, tip_gap
from twinproof.evaluate.motion import check_units, motion_of, scale_of
from twinproof.evaluate.onset import growth, onset
from twinproof.evaluate.warp import warp
from twinproof.nouns.errors import ConfigError, RecordingError, RigError
from twinproof.nouns.randomness import stream
from twinproof.nouns.rig import Joint, Rig

SCALE = scale_of(rig())


def moving(made, side: str = "real", of: Rig | None = None, signals=()):
    return motion_of(made, of or rig(), JOINTS, side, signals)


def still(offset: np.ndarray):
    return lambda t: np.tile(offset, (len(t), 1))


# ---- the measure


def test_the_measure_is_the_weighted_sum_of_squares_over_ranges_and_the_overall_the_mean_of_arms():
    off = np.array([0.6, 0.2, 0.005, 0.3, 0.0, 0.0])
    weights = {"left_a": 2.0, "left_g": 0.5}
    scale = scale_of(rig(weights=weights))
    real, sim = moving(episode(still(off), noise=0.0)), moving(episode(still(0 * off), noise=0.0, number=1), "sim")
    arms, overall = gaps(course(real, sim, 0.0, 0.2), scale, "pair")
    left = 2 * (0.6 / 6) ** 2 + (0.2 / 4) ** 2 + 0.5 * (0.005 / 0.05) ** 2
    right = (0.3 / 6) ** 2
    assert arms[0].mse == pytest.approx(left)
    assert arms[1].mse == pytest.approx(right)
    assert overall.mse == pytest.approx((left + right) / 2)
    assert overall.rmse == pytest.approx(np.sqrt((left + right) / 2))
    assert arms[0].by_joint["left_a"] == pytest.approx(0.02 / left)
    assert sum(arms[0].by_joint.values()) == pytest.approx(1)


def test_other_joint_order_and_other_rates_change_nothing():
    real = episode(lambda t: wave(t), noise=0.0)
    turned = episode(lambda t: wave(t), noise=0.0, rate_hz=130, order=JOINTS[::-1], number=1)
    _, overall = gaps(course(moving(real), moving(turned, "sim"), 0.0, 0.2), SCALE, "pair")
    assert overall.rmse.max() < 2e-3  # straight lines between samples
    assert len(overall.time_s) == 501  # the slower one's rate


def test_a_stated_clock_offset_of_the_recording_is_heeded():
    late = moving(episode(lambda t: wave(t + 0.2), noise=0.0, number=1), "sim", rig(offset_s=0.2))
    _, overall = gaps(course(moving(episode(wave, noise=0.0)), late, 0.0, 0.2), SCALE, "pair")
    assert overall.rmse.max() < 2e-3


def test_marked_samples_are_left_out_and_long_gaps_are_not_bridged():
    lost = np.zeros((501, 6), dtype=bool)
    lost[100:103, 0] = True  # 60 ms: bridged
    lost[200:250, 4] = True  # a second: not
    real, sim = moving(episode(wave, missing=lost)), moving(episode(wave, number=1, seed=1), "sim")
    (left, right), overall = gaps(course(real, sim, 0.0, 0.2), SCALE, "pair")
    assert left.known_share == 1
    assert right.known_share == overall.known_share == pytest.approx(451 / 501)
    assert not ((right.time_s > 4.0) & (right.time_s < 4.98)).any()
    assert real.lost == 53


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ({"order": JOINTS[:-1]}, "has no position of joint 'right_g'; its joint positions are: left_a"),
        ({"kind": "other"}, "its joint positions are: none"),
        ({"missing": np.arange(501)[:, None] * np.ones(6) > 0}, "'left_a' has 1 known samples"),
    ],
)
def test_joints_that_are_not_there_are_named(made, said):
    with pytest.raises(RecordingError, match=said):
        moving(episode(wave, **made))


def test_a_joint_in_two_signals_has_to_be_chosen():
    from tests.evaluate.motions import state

    t = np.arange(501) / 50
    both = episode(wave, more=(state(t, wave(t), name="leader"),))
    with pytest.raises(RecordingError, match=r"in the signals leader, state. Name the one"):
        moving(both)
    assert moving(both, signals=("leader",)).joints == JOINTS
    with pytest.raises(RecordingError, match="has no signal 'follower'"):
        moving(both, signals=("follower",))


def test_units_that_differ_are_refused():
    real = moving(episode(wave))
    with pytest.raises(RecordingError, match="'left_g' is in 'm' in real.*and in '1' in sim"):
        check_units(real, replace(moving(episode(wave, number=1), "sim"), units=("rad", "rad", "1", "rad", "rad", "m")))


def test_a_rig_without_joints_ranges_or_weights_is_refused():
    with pytest.raises(RigError, match="lists no"):
        scale_of(Rig("r"))
    with pytest.raises(RigError, match="'a' has no range"):
        scale_of(Rig("r", (Joint("a"),)))
    with pytest.raises(RigError, match="has the weight -1"):
        scale_of(Rig("r", (Joint("a", (0, 1), -1.0),)))
    with pytest.raises(RigError, match="all joints have the weight 0"):
        scale_of(Rig("r", (Joint("a", (0, 1), 0.0),)))
    assert scale_of(Rig("r", (Joint("a", (0, 2)),))).arms[0].name == "robot"


def test_episodes_that_do_not_overlap_are_named():
    with pytest.raises(RecordingError, match="do not overlap"):
        course(moving(episode(wave)), moving(episode(wave, number=1), "sim"), 20.0, 0.2)


def test_an_episode_in_which_a_joint_is_never_known_together_with_the_rest_is_named():
    lost = np.ones((501, 6), dtype=bool)
    lost[::100, 3] = False
    lost[:, [0, 1, 2, 4, 5]] = False
    lost[::100, 4] = True  # where the one is known, the other is not, and both gaps are long
    lost[50:, 4] = lost[50:, 4] | (np.arange(50, 501) % 100 < 99)
    with pytest.raises(RecordingError, match="at no moment are all joints of 'right' known"):
        gaps(course(moving(episode(wave, missing=lost)), moving(episode(wave, number=1)), 0.0, 0.02), SCALE, "pair 1")


def test_the_tips_are_apart_by_distance_and_by_the_one_rotation_between_them():
    from scipy.spatial.transform import Rotation

    rng = stream(0, "tips")
    a, b = np.tile(np.eye(4), (2, 8, 1, 1))
    first, turn = Rotation.random(8, rng=rng), Rotation.from_rotvec(rng.normal(size=(8, 3)) * [[1e-9], *[[0.6]] * 7])
    a[:, :3, :3], b[:, :3, :3] = first.as_matrix(), (first * turn).as_matrix()
    b[:, :3, 3] = [0.03, 0.0, 0.04]
    found = tip_gap("left", np.arange(8.0), a, b)
    assert found.position_m == pytest.approx(0.05)
    assert found.orientation_rad == pytest.approx(turn.magnitude(), rel=1e-6, abs=1e-12)


# ---- clocks


@pytest.mark.parametrize("late_s", [0.0, 0.137, -0.4])
def test_a_planted_clock_offset_is_found_within_its_interval(late_s):
    real = moving(episode(wave, noise=1e-3))
    sim = moving(episode(lambda t: wave(t + late_s) * 0.98, noise=1e-3, seed=5, rate_hz=30), "sim")
    found = offset_between(real, sim, SCALE, Alignment(), stream(0, "clock"))
    assert found.found
    assert found.offset_s == pytest.approx(late_s, abs=0.04)
    assert found.correlation > 0.9
    assert found.low_s - 0.002 <= late_s <= found.high_s + 0.002


def test_the_interval_of_the_clock_offset_covers_what_was_planted():
    """90 % intervals over 60 pairs with a joint that differs in its own way in each; the binomial allows 48 to 60."""
    covered = 0
    for k in range(60):
        rng = stream(k, "planted")
        late = float(rng.uniform(-0.3, 0.3))

        def bent(t, rng=rng, late=late, k=k):
            other = wave(t + late, seed=k) * (1 + 0.3 * rng.normal(size=6))
            return other + wave(t, seed=100 + k) * [0.05, 0.05, 0, 0.05, 0.05, 0]

        real = moving(episode(lambda t, k=k: wave(t, seed=k), seconds=8, rate_hz=40, noise=5e-4, seed=k))
        sim = moving(episode(bent, seconds=8, rate_hz=40, noise=5e-4, seed=k + 1000), "sim")
        found = offset_between(real, sim, SCALE, Alignment(0.5, 0.9), stream(k, "clock"))
        covered += found.low_s <= late <= found.high_s
    assert covered >= 48


@pytest.mark.parametrize(
    ("sim", "said"),
    [
        (episode(still(np.zeros(6)), noise=1e-5, number=1), "hardly move"),
        (episode(wave, seconds=1.0, number=1), "too little to look"),
        (episode(lambda t: wave(t + 2.0), number=1), "at the end of the window"),
    ],
)
def test_clocks_that_cannot_be_told_are_left_alone(sim, said):
    found = offset_between(moving(episode(wave)), moving(sim), SCALE, Alignment(), stream(0, "clock"))
    assert not found.found
    assert found.offset_s == 0
    assert said in found.why


def test_alignment_wants_sensible_numbers():
    with pytest.raises(ConfigError, match="largest clock offset is 0"):
        Alignment(0.0)
    with pytest.raises(ConfigError, match="level is 1"):
        Alignment(level=1)


# ---- onset


def noisy(truth: np.ndarray, seed: int, spread: float, rho: float = 0.6) -> np.ndarray:
    shock = stream(seed, "ar").normal(size=len(truth)) * spread * np.sqrt(1 - rho**2)
    noise = np.zeros(len(truth))
    for k in range(1, len(truth)):
        noise[k] = rho * noise[k - 1] + shock[k]
    return truth + noise


@pytest.mark.parametrize("shape", ["ramp", "step"])
def test_the_interval_of_the_onset_covers_what_was_planted(shape):
    """95 % intervals over 80 courses with noise that remembers; the binomial allows 71."""
    t, covered, width = np.arange(300) / 30, 0, []
    for k in range(80):
        start = float(stream(k, "start").uniform(3, 7))
        truth = 0.02 + (0.01 * np.maximum(t - start, 0) if shape == "ramp" else 0.02 * (t >= start))
        found = onset(t, noisy(truth, k, 0.004))
        assert found is not None
        covered += found.low_s - 1 / 30 <= start <= found.high_s + 1 / 30
        width.append(found.high_s - found.low_s)
    assert covered >= 71
    assert np.median(width) < 2.5


def test_a_level_course_has_no_onset():
    t = np.arange(300) / 30
    false = sum(onset(t, noisy(np.full(300, 0.02), k, 0.004)) is not None for k in range(60))
    assert false <= 3


def test_what_falls_or_is_short_has_no_onset():
    t = np.arange(300) / 30
    assert onset(t, noisy(0.05 - 0.004 * t, 0, 0.001)) is None
    assert onset(t[:5], t[:5]) is None
    assert onset(t, np.zeros(300)) is None


def test_an_arm_that_comes_home_does_not_hide_the_onset():
    t = np.arange(300) / 30
    found = onset(t, noisy(0.01 + 0.02 * np.clip(t - 4, 0, 2) * (t < 8), 1, 0.002))
    assert found is not None
    assert found.time_s == pytest.approx(4, abs=0.4)


def test_the_first_of_several_changes_is_the_onset_and_a_blip_is_none():
    t = np.arange(400) / 40
    stairs = 0.01 + 0.03 * (t > 3) + 0.2 * (t > 6) + 0.05 * ((t > 1) & (t < 1.2))
    found = onset(t, noisy(stairs, 2, 0.002))
    assert found is not None
    assert found.time_s == pytest.approx(3.0, abs=0.1)


def test_the_growth_profile_has_ten_means_and_a_slope():
    t = np.linspace(0, 10, 1001)
    means, slope = growth(t, 0.1 * t)
    assert means == pytest.approx(0.05 + 0.1 * np.arange(10), abs=0.01)
    assert slope == pytest.approx(0.1)


# ---- warp


def test_a_motion_that_is_only_late_is_timing_and_not_path():
    t = np.arange(400) / 40
    real, sim = wave(t) / list(RANGES.values()), wave(t - 0.15 * np.sin(0.3 * t)) / list(RANGES.values())
    found = warp(t, real, sim, 0.5)
    assert found.timing_share > 0.97
    assert found.lag_s == pytest.approx(0.1, abs=0.05)
    assert found.lag_abs_s >= found.lag_s


def test_a_motion_that_goes_elsewhere_at_the_same_pace_is_path_and_not_timing():
    t = np.arange(400) / 40
    real = wave(t) / list(RANGES.values())
    aside = real + np.array([0.0, 0.0, 0.1, 0.0, 0.0, 0.0])
    found = warp(t, real, aside, 0.5)
    assert found.timing_share < 0.05
    assert found.path_rmse == pytest.approx(0.1, rel=0.02)
    assert abs(found.lag_s) < 0.02


def test_a_warp_without_length_is_refused():
    with pytest.raises(ConfigError, match="longest warp is 0"):
        warp(np.arange(3.0), np.zeros((3, 1)), np.zeros((3, 1)), 0)
