"""Pictures are written whole under known names, show what they say, and no text lies on another."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import mujoco
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from tests.identify.swings import PENDULUM, QUICK, recorded
from twinproof.identify import plots, plots_fit, plots_parameters
from twinproof.identify.beliefs import Stated, beliefs
from twinproof.identify.fit import GaussNewton
from twinproof.identify.infer import Found, solve
from twinproof.identify.laplace import Laplace
from twinproof.identify.plots import draw_all
from twinproof.identify.plots_fit import Stretch, file_name, trace
from twinproof.identify.plots_parameters import draw_pairs, draw_priors, draw_weak, paired
from twinproof.identify.plots_style import interval, paged, round_values, shortened
from twinproof.identify.problem import Problem
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import StoreError
from twinproof.nouns.hashing import Json
from twinproof.nouns.randomness import stream
from twinproof.nouns.signal import Column, Signal
from twinproof.sim.experiment import experiment
from twinproof.sim.scene import Scene

BALL = """
<mujoco>
  <option timestep="0.002"/>
  <worldbody>
    <body name="ball" pos="0 0 1"><freejoint/><geom name="ball" size=".03" mass=".1"/></body>
  </worldbody>
</mujoco>
"""
COLUMNS = (*(Column(name, "m") for name in "xyz"), *(Column(f"q{name}", "1") for name in "wxyz"))


def thrown(seed: int) -> Episode:
    """A ball in free flight, its pose tracked every 20 ms."""
    model = Scene(BALL).nominal()
    data, rng = mujoco.MjData(model), stream(seed, "thrown")
    data.qvel[:] = (*rng.uniform(-1, 1, 2), 4.0, *rng.uniform(-2, 2, 3))
    time_s, pose = np.arange(51) * 0.02, np.empty((51, 7))
    for row in pose:
        row[:] = data.qpos
        mujoco.mj_step(model, data, 10)
    pose[:, :3] += 1e-3 * rng.normal(size=(51, 3))
    pose[:, 3:] += 1e-3 * rng.normal(size=(51, 4))
    return Episode.of({"ball_pose": Signal("ball_pose", "pose", COLUMNS, time_s, pose)}, {}, source=f"throw {seed}")


def answer(problem: Problem, point: GaussNewton = QUICK) -> Found:
    return solve(problem, Laplace(draws=200), stream(0, "plots"), point=point)


@cache
def pendulum() -> tuple[Found, Json]:
    """Mass and gain go together; the delay is asked for; one swing is left for validation."""
    scene = Scene(PENDULUM)
    truth = {"body.bob.mass": 0.6, "joint.hinge.damping": 0.08, "actuator.hinge.gain": 1.1}
    made = [experiment(recorded(scene, truth, k), scene) for k in range(3)]
    model = scene.reserving(control_delay_s=0.1).nominal()
    problem = Problem(beliefs(model, [*truth, "actuator.hinge.delay"]), tuple(made[:2]))
    found = answer(problem)
    return found, found.coverage_on(problem.with_experiments(made[2:]), stream(1, "plots"))


@cache
def family() -> Found:
    """Three bobs of unlike mass on one hinge."""
    scene = Scene(PENDULUM)
    made = []
    for k, mass in enumerate((0.45, 0.5, 0.62)):
        told = recorded(scene, {"body.bob.mass": mass, "joint.hinge.damping": 0.08}, k)
        labelled = Episode.of(told.signals, {}, labels={"object": f"bob_{k}"}, source=told.source)
        made.append(experiment(labelled, scene))
    ids = ["body.bob.mass", "joint.hinge.damping"]
    held = beliefs(scene.nominal(), ids, [Stated.parse("joint.hinge.damping=0.07+-0.02")])
    return answer(Problem(held, tuple(made), own={"body.bob.mass": "object"}))


@cache
def flight() -> Found:
    """Two throws that tell how strong gravity is."""
    scene = Scene(BALL)
    made = tuple(experiment(thrown(k), scene) for k in range(2))
    return answer(Problem(beliefs(scene.nominal(), ["gravity.magnitude"]), made), GaussNewton(((1.0,),)))


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> dict[str, Figure]:
    """Every figure that is drawn, by its file's name."""
    drawn: dict[str, Figure] = {}
    for module in (plots, plots_fit, plots_parameters):
        real: Callable[[Figure, Path], Path] = module.save

        def kept(figure: Figure, path: Path, real: Callable[[Figure, Path], Path] = real) -> Path:
            drawn[path.name] = figure
            return real(figure, path)

        monkeypatch.setattr(module, "save", kept)
    return drawn


def texts_of(figure: Figure) -> list[Text]:
    """What stands to be read, ticks outside their axis left out."""
    found = []
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        if text.get_visible() and text.get_text().strip():
            found.append(text)
    hidden = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                inside = low - 1e-9 * abs(low) <= tick.get_loc() <= high + 1e-9 * abs(high)
                hidden |= {id(t) for t in (tick.label1, tick.label2) if not (inside and t.get_visible())}
    return [text for text in found if id(text) not in hidden]


def check_readable(figure: Figure, name: str) -> None:
    """No letter below 8 points, none outside the picture, none on another."""
    canvas = figure.canvas
    assert isinstance(canvas, FigureCanvasAgg)
    texts = texts_of(figure)
    boxes = np.array([text.get_window_extent(canvas.get_renderer()).extents for text in texts])
    assert min(text.get_fontsize() for text in texts) >= 8
    size = np.array([*figure.bbox.size, *figure.bbox.size])
    outside = (boxes < -1).any(axis=1) | (boxes > size + 1).any(axis=1)
    assert not outside.any(), (name, [texts[i].get_text() for i in np.flatnonzero(outside)])
    for i, a in enumerate(boxes):
        apart = (
            (boxes[:, 0] > a[2] - 1) | (boxes[:, 2] < a[0] + 1) | (boxes[:, 1] > a[3] - 1) | (boxes[:, 3] < a[1] + 1)
        )
        met = [texts[j].get_text() for j in np.flatnonzero(~apart) if j != i]
        assert not met, (name, texts[i].get_text(), met)


def read(figure: Figure) -> str:
    return "\n".join(text.get_text() for text in texts_of(figure))


def test_every_picture_is_written_readable_and_named_after_what_it_shows(
    tmp_path: Path, figures: dict[str, Figure]
) -> None:
    found, validation = pendulum()
    paths = draw_all(found, tmp_path / "pictures", validation)
    names = ["fit_state", "prior_posterior", "pairs", "weak_directions", "residual_spectra", "predictive", "delay_scan"]
    assert [path.name for path in paths] == [f"{name}.png" for name in names]
    assert sorted((tmp_path / "pictures").iterdir()) == sorted(paths)
    assert all(path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n") for path in paths)
    for name, figure in figures.items():
        check_readable(figure, name)
    assert "hinge, rad" in read(figures["fit_state.png"])
    assert "not determined" in read(figures["prior_posterior.png"])
    assert "body.bob.mass" in read(figures["weak_directions.png"])
    assert "of 1 unseen episode: 90 % bands" in read(figures["predictive.png"])


def test_a_family_shows_its_centre_each_member_and_a_new_one(tmp_path: Path, figures: dict[str, Figure]) -> None:
    assert [path.name for path in draw_priors(family(), tmp_path)] == ["prior_posterior.png"]
    assert draw_pairs(family(), tmp_path / "pairs.png").is_file()
    for name, figure in figures.items():
        check_readable(figure, name)
    assert "a new object" in read(figures["prior_posterior.png"])
    assert "bob_2" in read(figures["pairs.png"])


def test_a_pose_is_drawn_by_its_position_and_one_unknown_needs_no_pairs(
    tmp_path: Path, figures: dict[str, Figure]
) -> None:
    paths = draw_all(flight(), tmp_path / "pictures")
    names = ["fit_ball_pose", "prior_posterior", "weak_directions", "residual_spectra"]
    assert [path.name for path in paths] == [f"{name}.png" for name in names]
    for name, figure in figures.items():
        check_readable(figure, name)
    shown = read(figures["fit_ball_pose.png"])
    assert "z, m" in shown
    assert "turn" not in shown
    assert "turn_z" in read(figures["residual_spectra.png"])


def test_the_drawn_simulation_is_what_was_measured_less_the_residual() -> None:
    found = flight()
    told = trace(found.fitted, Stretch(1, (1,)), "ball_pose.z")
    assert told is not None
    tracked = found.problem.experiments[1].readings[0]
    np.testing.assert_array_equal(told.measured, tracked.value[:, 2])
    np.testing.assert_allclose(told.time_s, tracked.time_s, atol=1e-9)
    time_s, height = told.simulated()
    fall = np.polyfit(time_s, height, 2)[0]
    assert fall == pytest.approx(-9.81 / 2, rel=0.01)
    assert trace(found.fitted, Stretch(1, (1,)), "ball_pose.turn_x") is None


def test_a_line_breaks_where_a_window_begins() -> None:
    found, _ = pendulum()
    told = trace(found.fitted, Stretch(0, (0, 1)), "state.hinge")
    assert told is not None
    time_s, value = told.simulated()
    assert np.isnan(time_s).sum() == np.isnan(value).sum() == 1
    assert len(time_s) == len(told.time_s) + 1


def test_the_same_answer_gives_the_same_bytes(tmp_path: Path) -> None:
    one, two = (draw_weak(flight().fitted, tmp_path / name) for name in ("one.png", "two.png"))
    assert one.read_bytes() == two.read_bytes()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(StoreError, match="exists and is not empty"):
        draw_all(flight(), tmp_path)


def test_odd_names_of_signals_become_file_names_of_their_own() -> None:
    assert file_name("/joint states") == "fit_joint_states.png"
    assert file_name("joint_states", ["fit_joint_states.png"]) == "fit_joint_states_2.png"
    assert file_name("//") == "fit_signal.png"


def test_many_parameters_are_spread_evenly_over_pages() -> None:
    pages = paged(45, 20, lambda k: f"page {k}")
    assert [range(45)[part] for part, _ in pages] == [range(15), range(15, 30), range(30, 45)]
    assert [name for _, name in pages] == ["page 0", "page 1", "page 2"]


def test_pairs_are_those_of_the_strongest_correlations() -> None:
    rng = stream(0, "pairs")
    draws = rng.normal(size=(400, 6))
    draws[:, 4] = draws[:, 1] + 0.1 * rng.normal(size=400)
    draws[:, 5] = 3.0
    chosen, correlation = paired(draws, np.full(400, 1 / 400), most=2)
    assert chosen == [1, 4]
    assert correlation[1, 4] > 0.98
    assert 5 not in paired(draws, np.full(400, 1 / 400))[0]


@pytest.mark.parametrize(
    ("low", "high", "log", "most", "wanted"),
    [
        (0.0, 1.0, False, 3, [0, 1]),
        (0.04175, 0.0424, False, 3, [0.0418, 0.0421, 0.0424]),
        (0.9, 4.2, True, 3, [1, 3]),
        (0.1, 10.0, True, 3, [0.1, 1, 10]),
        (-0.015, 0.02, False, 2, [-0.01, 0.02]),
    ],
)
def test_ticks_stand_at_round_values(low: float, high: float, log: bool, most: int, wanted: list[float]) -> None:
    assert round_values(low, high, log, most) == pytest.approx(wanted)


def test_numbers_have_the_digits_that_tell_them_apart() -> None:
    assert interval(0.031941, 0.0320001) == "0.031941 … 0.032000"
    assert interval(-0.5, 12.0) == "-0.50 … 12"
    assert interval(2.0, 2.0) == "2.00 … 2.00"


def test_long_names_break_at_dots_and_before_the_object() -> None:
    assert shortened("joint.hinge.damping") == "joint.hinge.damping"
    assert shortened("joint.shoulder.frictionloss", 14) == "joint.\nshoulder.\nfrictionloss"
    assert shortened("body.bob.mass of bob_2", 14) == "body.bob.mass\nof bob_2"
