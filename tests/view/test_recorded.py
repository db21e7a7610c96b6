"""Recorded episodes beside the twin's replay of them: no trial is needed, and the holdout stays sealed."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.view import browsing
from tests.view.browsing import until
from tests.view.made import DAMPED, LATE_S, trace, twin_in, write_recorded
from twinproof.cli_view import View, handed_for, view
from twinproof.nouns.errors import StoreError
from twinproof.nouns.split import Split
from twinproof.nouns.theta import Theta
from twinproof.nouns.trace import Trace
from twinproof.view.gate import gate_of, guarded, listen, stop
from twinproof.view.live import Live
from twinproof.view.motion import Apart, apart, motion_of
from twinproof.view.opened import Opened, line, open_folder
from twinproof.view.playing import NOMINAL, NONE, SLIDERS, TWIN, Handed, played, replay_theta, replays, simulated

browser = pytest.fixture(scope="module")(browsing.browser)
page = pytest.fixture(browsing.pages)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """RUN with split, twin and posterior."""
    return write_recorded(tmp_path_factory.mktemp("recorded") / "run")


@pytest.fixture(scope="module")
def taken(folder: Path) -> Opened:
    return open_folder(folder)


@pytest.fixture(scope="module")
def given(taken: Opened) -> Handed:
    return handed_for(taken)


@pytest.fixture
def live(taken: Opened, given: Handed) -> Iterator[tuple[Live, str]]:
    """A viewer of the run with few splats, and its address."""
    bound = listen()
    gate = gate_of(bound)
    server = guarded(gate, bound, "probe")
    shown = Live(server, taken, replace(given, look=given.look.thinned(3000)))
    yield shown, f"http://127.0.0.1:{bound.getsockname()[1]}/{gate.token}/"
    shown.close()
    stop(server)


def test_a_run_without_trials_shows_what_fits_and_what_chooses_and_leaves_the_holdout_sealed(folder, taken):
    split = Split.load(folder / "split")
    shown = {each.episode.id for each in taken.recorded}
    assert shown == {*split.calibration, *split.validation}
    assert not shown & set(split.holdout)
    assert [entry.kind for entry in split.ledger.lines()] == ["created"]
    assert {line(each).split(" · ")[0] for each in taken.recorded} == {"calibration", "validation"}


def test_a_twin_shows_the_episodes_of_a_split_that_is_named_and_of_no_other(folder, tmp_path):
    assert open_folder(folder / "twin").recorded == ()
    assert len(open_folder(folder / "twin", split=folder / "split").recorded) == 4
    twin_in(tmp_path / "twin")
    with pytest.raises(StoreError, match="Name the right one: --split"):
        open_folder(tmp_path / "twin", split=folder / "split")


def test_an_episode_is_found_by_how_its_id_begins(folder, taken):
    first = taken.recorded[0]
    assert taken.episode(first.episode.id[:12]) is first
    sealed = Split.load(folder / "split").holdout[0]
    with pytest.raises(StoreError, match="the holdout is not shown"):
        taken.episode(sealed)


def error(taken: Opened, given: Handed, which: str, theta: Theta, restart_s: float = math.inf) -> Apart:
    row = taken.recorded[0]
    shown = played(row, taken, given)
    ghost = simulated(row, shown, which, theta, given, restart_s)
    return apart((shown.trace, shown.motion), (ghost.trace, ghost.motion), given.look)


def test_the_true_parameters_replay_an_episode_on_its_own_clock_and_nominal_ones_do_not(taken, given):
    true = error(taken, given, TWIN, Theta({"joint.hinge.damping": DAMPED}))
    assert true.time_s[0] == pytest.approx(LATE_S + 0.02)  # where commands begin, counted from the first reading
    assert true.total_rmse < 0.003
    mean = error(taken, given, TWIN, replay_theta(taken, TWIN))
    nominal = error(taken, given, NOMINAL, replay_theta(taken, NOMINAL))
    assert mean.total_rmse < 0.01 < 0.02 < nominal.total_rmse


def test_a_replay_that_starts_anew_from_the_readings_is_nearer_to_them(taken, given):
    whole, anew = (error(taken, given, NOMINAL, Theta(), each) for each in (math.inf, 0.1))
    assert anew.total_rmse < 0.7 * whole.total_rmse


def test_without_a_posterior_the_twin_replays_with_its_own_values(folder):
    bare = open_folder(folder / "twin", split=folder / "split")
    assert replays(bare) == (TWIN,)
    assert replay_theta(bare, TWIN) == Theta()


def test_an_episode_of_another_object_is_replayed_in_the_scene_that_the_fit_was_told_of(folder, taken, tmp_path):
    row = taken.recorded[0]
    day = row.episode.labels["session"]
    text = (folder / "twin" / "scene.xml").read_text()
    assert 'kp="30"' in text
    shutil.copytree(folder / "twin" / "meshes", tmp_path / "others" / "meshes")
    for each in {other.episode.labels["session"] for other in taken.recorded}:
        soft = text.replace('kp="30"', 'kp="3"') if each == day else text
        (tmp_path / "others" / f"scene_{each}.xml").write_text(soft)
    shutil.copytree(folder / "posterior", tmp_path / "posterior")
    pattern = f"{tmp_path}/others/scene_{{session}}.xml"
    (tmp_path / "posterior" / "config.json").write_text(json.dumps({"settings": {"scenes": pattern}}))
    told = open_folder(folder, posterior=tmp_path / "posterior")
    assert told.scenes == pattern
    theta = Theta({"joint.hinge.damping": DAMPED})
    assert error(told, handed_for(told), TWIN, theta).total_rmse > 0.1
    (tmp_path / "others").rename(tmp_path / "gone")
    assert open_folder(folder, posterior=tmp_path / "posterior").scenes is None


def test_scenes_of_a_fit_are_no_obstacle_where_no_episode_is_shown(taken, tmp_path):
    """The page of a run's trials: its fit was told of other scenes, and it was given no split."""
    pattern = str(tmp_path / "scene_{object}.xml")
    assert handed_for(replace(taken, recorded=(), scenes=pattern)).look.links


def test_events_are_those_of_the_rules_and_a_rig_that_tells_none_is_no_obstacle(taken, given):
    row = taken.recorded[0]
    swing = {**row.episode.signals, "state": _there_and_back(row.episode.signals["state"])}
    home = played(replace(row, episode=replace(row.episode, signals=swing)), taken, given)
    assert [event.name for event in home.trace.events] == ["arm home"]
    dumb = played(replace(row, rig=replace(row.rig, joints=(), arms=())), taken, given)
    assert dumb.trace.events == ()
    assert "its events are not told: the rig lists no [[joints]]" in dumb.motion.label


def _there_and_back(state):
    time_s = state.time_s - state.time_s[0]
    return replace(state, value=np.sin(np.pi * np.clip((time_s - 0.2) / 0.5, 0, 1))[:, None])


def test_a_thrown_body_without_joints_has_the_error_of_its_parts(given):
    pose = trace("real").signals["probe_pose"]
    off = pose.value + np.array([0, 0.01, 0, 0, 0, 0, 0])
    pair = [Trace("real", {pose.name: replace(pose, value=each)}) for each in (pose.value, off)]
    told = apart(*((each, motion_of(each, given.place, "thrown")) for each in pair), given.look)
    assert told.unit == "m"
    assert told.farthest_m == pytest.approx(np.full(len(told.time_s), 0.01))
    assert 0 < told.total_rmse < 0.01


def test_a_page_plays_the_first_episode_or_the_one_that_is_asked_for(folder, taken, tmp_path):
    assert view(View(folder, html=tmp_path / "first.html")) == 0
    asked = taken.recorded[-1].episode
    assert view(View(folder, html=tmp_path / "asked.html", episode=asked.id, restart_s=0)) == 0
    first, other = ((tmp_path / name).read_text() for name in ("first.html", "asked.html"))
    assert f"calibration \\u00b7 {taken.recorded[0].episode.source}" in first
    assert "the twin's replay of the logged commands; anew every 0.5 s" in first
    assert f"validation \\u00b7 {asked.source}" in other
    assert "the twin's replay of the logged commands; never anew" in other


def test_the_viewer_haunts_an_episode_with_its_replay_and_the_sliders_simulate_it_again(live, taken):
    shown, _ = live
    row = taken.recorded[1]
    shown.choose(row)
    shown.simulate(replay_theta(taken, TWIN), TWIN)
    assert shown.ghost.trace.domain == TWIN
    assert "RMSE" in shown.timeline.text
    near = _rmse(shown)
    shown.simulate(shown.sliders.theta | {"joint.hinge.damping": 0.05})
    assert shown.timeline.ghost == SLIDERS
    assert _rmse(shown) > 5 * near
    shown.timeline.ghost = NONE
    shown.haunt(NONE)
    shown.simulate(Theta(), NOMINAL)
    assert shown.ghost is None  # someone chose none while it was simulated


def test_the_plots_axes_have_ranges_though_series_begin_with_no_number(live, taken):
    shown, _ = live
    shown.choose(taken.recorded[0])
    shown.simulate(Theta(), TWIN)
    shown.seek(0.6)  # the dot of now has moved on: what stands before it is no number
    plot = shown.timeline._plot
    assert np.isnan(plot.data[-1][0])
    for scale, row in (("y", plot.data[1]), ("far", plot.data[2])):
        low, high = plot.scales[scale]["range"]
        assert (low, high) == (0, pytest.approx(1.08 * row.max()))
    assert [each["label"] for each in plot.series][1:3] == ["RMSE (mrad, left)", "farthest part (mm, right)"]


def _rmse(shown: Live) -> float:
    return float(shown.timeline.text.split("RMSE ")[1].split()[0])


def test_a_browser_shows_an_identification_with_timeline_replay_and_sliders(page, live, taken):
    shown, address = live
    tab, said = page(900, 760)
    tab.goto(address)
    hostile = next(row for row in taken.recorded if row.episode.source == "take_0")
    for row in (next(row for row in taken.recorded if row is not hostile), hostile):
        tab.get_by_role("button", name=line(row)).click()
        tab.get_by_text(f"session {row.episode.labels['session']}").first.wait_for()
        tab.get_by_text("ghost: the twin's replay of the logged commands").first.wait_for()
        tab.get_by_text("RMSE").first.wait_for()
    tab.get_by_text("behaviour <img src=x").first.wait_for()  # what a recording says is shown as it is
    assert shown.ghost.trace.domain == TWIN
    tab.get_by_text("posterior").first.click()
    tab.get_by_text("joint.hinge.damping").first.wait_for()
    until(tab, "recorded", browsing.red_and_blue)
    assert said == []
