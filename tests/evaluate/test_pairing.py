"""Episodes are paired by task and start, never by outcome; what is left over is named."""

from __future__ import annotations

import numpy as np
import pytest

from tests.evaluate.motions import JOINTS, episode, rig, wave
from twinproof.evaluate.motion import motion_of, scale_of
from twinproof.evaluate.pairing import Pairing, pair
from twinproof.nouns.errors import ConfigError, RecordingError
from twinproof.nouns.signal import Column, Signal

SCALE = scale_of(rig())
ARM = np.array([1.0, 1.0, 0.0, 1.0, 1.0, 0.0])
XYZ = tuple(Column(axis, "m", "world") for axis in "xyz")


def paired(real, sim, rules: Pairing | None = None):
    motions = [[motion_of(e, rig(), JOINTS, side) for e in side_of] for side, side_of in (("real", real), ("sim", sim))]
    return pair(real, sim, (motions[0], motions[1]), SCALE, rules or Pairing())


def made(number: int, *, start: float = 0.0, seed: int = 0, object_at=None, **labels):
    pose = ()
    if object_at is not None:
        value = np.tile(np.array(object_at, float), (3, 1))
        value[0] = np.nan
        pose = (Signal("cube", "pose", XYZ, np.arange(3.0), value, np.isnan(value)),)
    return episode(
        lambda t: wave(t) + start * ARM,
        seconds=1,
        number=number,
        seed=seed,
        labels={"task": "wave", **labels},
        more=pose,
    )


def places(found):
    return [(p.real, p.sim) for p in found.pairs]


def test_starts_that_agree_are_paired_whatever_the_order():
    real = [made(k, start=0.3 * k) for k in range(4)]
    sim = [made(10 + k, start=0.3 * (3 - k) + 0.01, seed=9) for k in range(4)]
    found = paired(real, sim)
    assert places(found) == [(0, 3), (1, 2), (2, 1), (3, 0)]
    assert not any(p.ambiguous for p in found.pairs)


def test_among_equal_starts_the_order_decides_and_the_pairs_say_so():
    found = paired([made(k, seed=k) for k in range(3)], [made(10 + k, seed=10 + k) for k in range(3)])
    assert places(found) == [(0, 0), (1, 1), (2, 2)]
    assert all(p.ambiguous for p in found.pairs)


def test_another_task_or_object_is_no_pair_and_the_left_over_are_named():
    real = [made(0, object="mug"), made(1, object="can"), made(2, task="shake")]
    sim = [made(10, object="can"), made(11, object="mug")]
    found = paired(real, sim)
    assert places(found) == [(0, 1), (1, 0)]
    assert (found.only_real, found.only_sim) == ((2,), ())


def test_where_the_object_lies_decides_among_equal_joints():
    real = [made(0, object_at=(0.1, 0, 0)), made(1, object_at=(0.2, 0, 0))]
    sim = [made(10, object_at=(0.201, 0, 0)), made(11, object_at=(0.1, 0.002, 0)), made(12, object_at=(1, 0, 0))]
    found = paired(real, sim)
    assert places(found) == [(0, 1), (1, 0)]
    assert found.pairs[0].object_m == pytest.approx(0.002)
    assert found.only_sim == (2,)


def test_a_label_or_the_order_may_decide_alone():
    real = [made(k, start=2.0 * k, trial=f"t{k}") for k in range(3)]
    sim = [made(10 + k, trial=f"t{2 - k}") for k in range(3)]
    assert places(paired(real, sim, Pairing(by="trial"))) == [(0, 2), (1, 1), (2, 0)]
    assert places(paired(real, sim, Pairing(by="order"))) == [(0, 0), (1, 1), (2, 2)]


def test_no_pair_at_all_says_why():
    with pytest.raises(RecordingError, match="label 'task' is wave in the real and shake in the simulated"):
        paired([made(0)], [made(1, task="shake")])
    with pytest.raises(RecordingError, match="nearest starts are .* apart, 0.1 allowed. Compare"):
        paired([made(0)], [made(1, start=2.0)])
    with pytest.raises(RecordingError, match="objects 0.500 m, 0.03 allowed"):
        paired([made(0, object_at=(0, 0, 0))], [made(1, object_at=(0.5, 0, 0))])
    with pytest.raises(RecordingError, match="share a value of the label 'trial'"):
        paired([made(0)], [made(1)], Pairing(by="trial"))


def test_tolerances_are_above_zero():
    with pytest.raises(ConfigError, match="start_share is 0"):
        Pairing(start_share=0)
