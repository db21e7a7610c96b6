"""Two recordings in: planted differences are found."""

from __future__ import annotations

import numpy as np
import pytest

from tests.evaluate.motions import ROBOT, episode, on_disk, pair_of_recordings, recording, rig, wave
from twinproof.evaluate.compare import Protocol, compare
from twinproof.evaluate.dh import table_of
from twinproof.evaluate.events import EventRules
from twinproof.evaluate.figures import _distribution, shown
from twinproof.evaluate.tips import tips_of
from twinproof.nouns.errors import ConfigError, RecordingError, RigError
from twinproof.nouns.signal import Column, Signal
from twinproof.sim.kinematics import chain_of
from twinproof.sim.scene import Scene


def test_planted_lateness_creep_and_joint_come_back():
    real, sim = pair_of_recordings()
    found = compare(real, sim, rig())
    assert [(p.real.labels["task"], p.sim.labels["task"]) for p in found.pairs] == [("wave 0",) * 2, ("wave 1",) * 2]
    for pair in found.pairs:
        assert pair.offset.offset_s == pytest.approx(-0.04, abs=0.02)
        left, right = pair.arms
        assert left.onset is not None
        assert left.onset.time_s == pytest.approx(5.0, abs=0.7)
        assert right.gap.total_rmse < 0.2 * left.gap.total_rmse
        assert max(left.gap.by_joint, key=left.gap.by_joint.get) == "left_b"
        assert left.warped is not None
        assert left.warped.path_rmse > 5 * right.warped.path_rmse
        assert right.as_stamped_rmse > 2 * right.gap.total_rmse
        assert [(e.title, e.verdict) for e in pair.events if e.name in ("grasp", "release")] == [
            (f"{arm} {what}", "same") for what in ("grasp", "release") for arm in ("left", "right")
        ]


def test_a_recording_compared_with_itself_differs_in_nothing():
    real, _ = pair_of_recordings()
    found = compare(real, real, rig())
    assert [pair.overall.gap.total_rmse for pair in found.pairs] == pytest.approx([0, 0], abs=1e-4)
    assert all(
        pair.overall.onset is None and pair.offset.offset_s == pytest.approx(0, abs=1e-3) for pair in found.pairs
    )
    assert {event.verdict for pair in found.pairs for event in pair.events} == {"same"}


def test_a_twin_that_ends_early_is_compared_as_far_as_it_goes_and_the_lengths_are_told():
    found = compare(recording(episode(wave)), recording(episode(wave, seconds=4.0, number=1)), rig()).pairs[0]
    assert found.lengths_s == pytest.approx((10.0, 4.0, 4.0), abs=0.05)
    assert [e.verdict for e in found.events if e.name == "release"] == ["missing", "missing"]


def test_clocks_may_be_left_alone():
    real, sim = pair_of_recordings(1)
    found = compare(real, sim, rig(), how=Protocol(alignment=None)).pairs[0]
    assert found.offset.offset_s == 0
    assert found.arms[1].gap.total_rmse == found.arms[1].as_stamped_rmse


def test_the_tips_are_apart_as_the_model_says_and_a_dh_table_tells_the_same(tmp_path):
    of = rig(model=True)
    on_disk(tmp_path, of)
    real, sim = pair_of_recordings(1)
    by_model = tips_of(of, tmp_path)
    tables = {arm.name: table_of(chain_of(Scene(ROBOT), arm.joints, arm.tip)) for arm in of.arms if arm.name == "left"}
    by_both, by_table = tips_of(of, tmp_path, tables), tips_of(of, None, tables)
    one, other, third = (compare(real, sim, of, tips).pairs[0].arms for tips in (by_model, by_both, by_table))
    assert one[0].tip.position_m == pytest.approx(third[0].tip.position_m, abs=1e-9)
    assert other[0].tip.orientation_rad == pytest.approx(third[0].tip.orientation_rad, abs=1e-7)
    assert third[1].tip is None
    assert "its DH table is at most" in by_both.notes[1]
    assert "right: no tip error, as the rig names no model or no tip" in by_table.notes
    with pytest.raises(RigError, match="DH table is for the arm 'middle'; the rig has left, right"):
        tips_of(of, None, {"middle": tables["left"]})


def test_missing_and_extra_events_and_stated_ones_are_told():
    def never_lets_go(t):
        moved = wave(t)
        moved[:, 2] = np.minimum(moved[:, 2], 0.02 + 0.025 * (t < 3))
        return moved

    real, sim = recording(episode(wave)), recording(episode(never_lets_go, number=1))
    found = compare(real, sim, rig()).pairs[0]
    assert [e.verdict for e in found.events if e.title == "left release"] == ["missing"]
    t = np.arange(501) / 50
    says = Signal("says", "event", (Column("left_grasp", "1"),), t, (t > 4.0).astype(float)[:, None])
    stated = compare(
        recording(episode(wave, more=(says,))),
        recording(episode(wave, number=1, more=(says,))),
        rig(),
        how=Protocol(events=EventRules(stated="says")),
    ).pairs[0]
    assert [e.real_s for e in stated.events if e.title == "left grasp"] == pytest.approx([4.02])
    with pytest.raises(RecordingError, match="has no signal 'says' that states events. It has state"):
        compare(real, sim, rig(), how=Protocol(events=EventRules(stated="says")))


def test_settings_that_cannot_be_are_refused():
    with pytest.raises(ConfigError, match="max_gap_s is 0"):
        Protocol(max_gap_s=0)
    with pytest.raises(ConfigError, match="level is 2"):
        Protocol(level=2)


def test_no_bar_of_the_distribution_runs_through_its_legend():
    real, sim = pair_of_recordings(2)
    figure = _distribution(compare(real, sim, rig()), ["left", "right", "overall"])
    figure.canvas.draw()
    (axes,) = figure.axes
    tallest = max(float(bars.get_data().values.max()) for bars in axes.patches)
    foot = axes.transData.inverted().transform(axes.get_legend().get_window_extent())[0, 1]
    assert foot > tallest


def test_shown_are_the_least_the_median_and_the_largest_error():
    real, sim = pair_of_recordings(4)
    found = compare(real, sim, rig(), how=Protocol(alignment=None)).pairs
    errors = sorted(pair.overall.gap.total_rmse for pair in found)
    assert [p.overall.gap.total_rmse for p in shown(found)] == [errors[0], errors[1], errors[3]]
    assert len(shown(found[:1])) == 1
