"""The monitor: false alarms are as rare as promised, a twin that no longer explains the robot is noticed, NaN stops."""

from __future__ import annotations

import numpy as np
import pytest

from twinproof.evaluate.monitor import Thresholds, Watch, alarms, calibrate
from twinproof.nouns.errors import ConfigError, TraceError
from twinproof.nouns.randomness import stream


def played(seed: int, *, off: float = 0.0, steps: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Predictions and measurements; the noise differs between episodes and has heavy tails; `off` comes in half way."""
    rng = stream(seed, "episode")
    spread = 0.01 * rng.gamma(4.0, 0.25)
    predicted = np.cumsum(rng.normal(size=(steps, 3)), axis=0)
    noise = spread * rng.standard_t(4, (steps, 3)) * [1.0, 10.0, 0.1]
    noise[steps // 2 :, 1] += off
    return predicted, predicted + noise


def test_false_alarms_in_new_episodes_are_as_rare_as_promised():
    """60 calibrations with 4 new episodes each: at 20 % and 5 % the binomial allows 65 and 22 of 240."""
    slow = stop = 0
    for k in range(60):
        usual = None if k % 2 else np.array([0.01, 0.1, 0.001])
        thresholds = calibrate([played(1000 * k + j) for j in range(19)], usual=usual)
        found = alarms(thresholds, [played(1000 * k + 500 + j) for j in range(4)])
        slow += round(4 * found["slow"].value)
        stop += round(4 * found["stop"].value)
    assert slow <= 65
    assert stop <= 22
    assert slow >= 25  # and not by never raising any


def test_the_interval_of_measured_false_alarms_covers_the_true_rate():
    """40 monitors at 90 %, each measured on 15 held episodes; the true rate is that of 300 others. The exact interval
    covers at least its level: the binomial allows 32."""
    covered = 0
    for k in range(40):
        thresholds = calibrate([played(1000 * k + j) for j in range(19)])
        found = alarms(thresholds, [played(1000 * k + 100 + j) for j in range(15)], 0.9)["slow"]
        worst = [worst_of(thresholds, played(1000 * k + 200 + j)) for j in range(300)]
        covered += found.low <= np.mean(np.array(worst) > thresholds.slow) <= found.high
    assert covered >= 32


def worst_of(thresholds: Thresholds, episode: tuple[np.ndarray, np.ndarray]) -> float:
    """The largest windowed error of an episode, computed apart from the monitor."""
    size = np.sqrt((((episode[1] - episode[0]) / thresholds.usual) ** 2).mean(axis=1))
    return max(float(size[max(0, t - thresholds.window + 1) : t + 1].mean()) for t in range(len(size)))


def test_a_robot_that_no_longer_moves_as_predicted_is_stopped():
    thresholds = calibrate([played(k) for k in range(40)])
    found = alarms(thresholds, [played(900 + k, off=1.0) for k in range(10)])
    assert found["stop"].value == 1
    assert found["stop"].low > 0.6


def test_the_hook_is_called_once_a_state_and_states_do_not_get_better():
    thresholds, heard = calibrate([played(k) for k in range(40)], window=5), []
    watch = Watch(thresholds, heard.append)
    quiet = watch.update(np.zeros(3), np.zeros(3))
    assert (quiet.state, quiet.fidelity) == ("ok", 1.0)
    size = thresholds.usual * (thresholds.slow + thresholds.stop) / 2
    for _ in range(6):
        watch.update(np.zeros(3), size)
    assert [reading.state for reading in heard] == ["slow"]
    for _ in range(20):
        calm = watch.update(np.zeros(3), np.zeros(3))
    assert calm.state == "slow"
    watch.update(np.zeros(3), np.array([0.0, np.nan, 0.0]))
    assert [reading.state for reading in heard] == ["slow", "stop"]
    assert heard[-1].fidelity == pytest.approx(1 / 41)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (
            lambda: calibrate([played(0)] * 5),
            ConfigError,
            "5 validation episodes cannot bound false alarms at 0.05: 19",
        ),
        (lambda: calibrate([played(0)] * 19, window=0), ConfigError, "window of 0 steps"),
        (lambda: calibrate([played(0)] * 19, slow_alpha=0.01), ConfigError, "not the more frequent"),
        (lambda: calibrate([(np.zeros((3, 2)), np.zeros((2, 2)))] * 19), TraceError, "needs finite rows"),
        (lambda: alarms(calibrate([played(0)] * 19), []), TraceError, "no episodes"),
        (lambda: Watch(calibrate([played(0)] * 19)).update(np.zeros(2), np.zeros(3)), TraceError, "calibrated on 3"),
    ],
)
def test_what_cannot_be_watched_is_refused(call, error, said):
    with pytest.raises(error, match=said):
        call()
