"""What is shown: folders, looks, motions, errors between them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.view.made import trace, write_run
from twinproof.nouns.errors import StoreError, TraceError, TwinError
from twinproof.nouns.signal import Column, Signal
from twinproof.nouns.trace import Trace
from twinproof.view.look import Look, heat
from twinproof.view.motion import apart, motion_of
from twinproof.view.opened import chosen, line, open_folder
from twinproof.view.panels import plain
from twinproof.view.stage import _wider


def test_a_run_a_twin_and_trials_are_opened_alike(run_folder, opened):
    assert [trial.domain for trial in opened.trials] == ["real", "twin", "nominal"]
    assert opened.posterior is not None
    beside = open_folder(run_folder / "trials")
    assert beside.twin == opened.twin
    assert beside.posterior == opened.posterior
    assert open_folder(run_folder / "twin").trials == ()


def test_a_real_trial_has_its_twin_trial_as_partner(opened):
    real, twin, nominal = opened.trials
    assert opened.partner(real, "twin") is twin
    assert opened.partner(real, "draws") is None
    with pytest.raises(StoreError, match="no trace was kept of trial 0 of policy 'ppo'"):
        opened.trace(nominal)
    assert line(twin) == "ppo · h1 · twin · 0 · failed: undecided"
    assert chosen(opened.trials, domain="all", outcome="success") == [real]
    assert chosen(opened.trials, outcome="failed: undecided") == [twin, nominal]


def test_folders_that_hold_nothing_to_see_are_refused(run_folder, tmp_path):
    with pytest.raises(StoreError, match="is no folder"):
        open_folder(tmp_path / "none")
    with pytest.raises(StoreError, match=r"holds no twin.json, trials.json or evidence.json"):
        open_folder(tmp_path)
    (tmp_path / "apart").mkdir()
    (tmp_path / "apart" / "trials").symlink_to(run_folder / "trials")
    with pytest.raises(StoreError, match="does not hold the twin it is about"):
        open_folder(tmp_path / "apart" / "trials")


def test_trials_of_another_twin_are_refused(run_folder, tmp_path):
    other = write_run(tmp_path / "other")
    twin = open_folder(other).twin
    replace(twin, notes=("another",)).save(tmp_path / "twin")
    with pytest.raises(StoreError, match="Name the right one: --twin"):
        open_folder(run_folder / "trials", twin=tmp_path / "twin")


def test_the_look_has_surfaces_collision_parts_splats_cameras_and_the_gap(handed):
    look = handed.look
    assert look.links[0] == "world"
    assert {piece.link for piece in look.pieces} >= {"world", "probe", "wedge", "arm", "slider"}
    assert "wedge" in {piece.link for piece in look.collision}
    assert [piece.link for piece in look.gaps] == ["wedge"]
    assert look.gap_m == 0.002
    assert set(look.free) == {"probe", "wedge"}
    assert look.splat_count > 1000
    assert look.eyes[0].aspect == pytest.approx(120 / 90)


def test_a_twin_is_named_by_its_scene_and_its_objects_and_not_by_a_stages_folder(handed):
    assert handed.look.title == "probe with wedge"


def test_fewer_splats_cover_the_same_area(handed):
    fewer = handed.look.thinned(500)
    assert 450 <= fewer.splat_count <= 500
    before, after = (sum(_area(each) for each in look.splats.values()) for look in (handed.look, fewer))
    assert after == pytest.approx(before, rel=0.1)
    assert f"of {handed.look.splat_count} splats are shown" in fewer.notes[-1]
    assert handed.look.thinned(10**6) is handed.look


def _area(splats):
    return float(np.exp(splats.log_scales[:, :2].sum(axis=1)).sum())


def test_a_look_without_links_or_with_a_part_of_none_is_refused(handed):
    look = handed.look
    with pytest.raises(TwinError, match="one 4 × 4 matrix for each"):
        Look("bare", (), np.zeros((0, 4, 4)))
    with pytest.raises(TwinError, match="'nowhere', which the scene does not have"):
        replace(look, free=("nowhere",))


def test_links_follow_the_joints_and_the_tracked_object(handed, opened):
    motion = motion_of(opened.trace(opened.trials[0]), handed.place, "real")
    links = handed.look.links
    arm, probe = links.index("arm"), links.index("probe")
    first, last = motion.T_world_links[0], motion.T_world_links[-1]
    turned = first[arm, :3, :3].T @ last[arm, :3, :3]
    assert np.arccos((np.trace(turned) - 1) / 2) == pytest.approx(1.0, abs=1e-3)
    assert last[probe, 0, 3] - first[probe, 0, 3] == pytest.approx(0.1, abs=1e-6)
    assert np.array_equal(motion.at(-1.0), first)
    assert np.array_equal(motion.at(99.0), last)
    assert [event.name for event in motion.events] == ["begin", "contact", "end"]


def test_the_error_is_that_of_the_joints_and_of_the_farthest_part(handed, opened):
    pairs = [(t, motion_of(t, handed.place, t.domain)) for t in (trace("real"), trace("twin", 0.2))]
    told = apart(*pairs, handed.look)
    assert told.unit == "rad"
    assert told.rmse[-1] == pytest.approx(0.2, abs=1e-6)
    assert told.farthest_m[0] == pytest.approx(0, abs=1e-9)
    assert 0.01 < told.farthest_m[-1] < 0.05


def test_episodes_without_a_common_joint_have_no_error(handed):
    one = trace("real")
    other = Signal("state", "joint_position", (Column("slide", "m"),), np.array([0.0, 1.0]), np.array([[0.0], [0.01]]))
    two = Trace("twin", {"state": other})
    pairs = [(t, motion_of(t, handed.place, t.domain)) for t in (one, two)]
    with pytest.raises(TraceError, match="real and twin have no joint in common"):
        apart(*pairs, handed.look)


def test_places_that_are_no_numbers_are_refused(handed):
    with pytest.raises(TraceError, match="links are at places that are no numbers"):
        motion_of(trace("real"), lambda _, time_s: np.full((len(time_s), 2, 4, 4), np.nan), "real")


def test_the_twin_is_simulated_again_with_other_parameters(handed, opened):
    real = opened.trace(opened.trials[0])
    soft, stiff = (handed.simulate(real, opened.posterior.point() | {"joint.hinge.damping": d}) for d in (0.05, 1.9))
    assert soft.domain == "sliders"
    assert soft.theta["joint.hinge.damping"] == 0.05
    gap = soft.signals["state"].value - stiff.signals["state"].value
    assert np.abs(gap).max() > 1e-3


def test_a_ghosts_skin_stands_off_the_surface_it_is_drawn_over(handed):
    box = next(piece for piece in handed.look.pieces if piece.link == "base")
    wider = _wider(box, 0.001)
    gaps = np.linalg.norm(wider.mesh.vertices - box.mesh.vertices, axis=1)
    assert gaps == pytest.approx(np.full(len(gaps), 0.001))
    assert wider.mesh.volume_m3 > box.mesh.volume_m3


def test_heat_goes_from_blue_to_red():
    blue, red, more = heat(np.array([0.0, 0.01, 0.5]), 0.01)
    assert blue[2] > blue[0]
    assert red[0] > red[2]
    assert np.array_equal(red, more)


def test_text_of_a_folder_is_shown_as_it_is():
    assert plain("<b>[x](y)") == "\\<b\\>\\[x\\]\\(y\\)"
