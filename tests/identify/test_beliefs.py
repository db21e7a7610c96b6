"""What is believed before a fit: defaults by quantity, what users state, and what they may not ask for."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sim.models import ARM
from twinproof.identify.beliefs import Belief, Stated, beliefs, signal_ids
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import ConfigError, TwinproofError
from twinproof.nouns.signal import Column, Signal
from twinproof.nouns.source import Declared
from twinproof.sim.readings import POSE, readings
from twinproof.sim.scene import Scene

MODEL = Scene(ARM).reserving(control_delay_s=0.1).nominal()
SIGNALS = (
    "signal.box.delay",
    "signal.box.offset_x",
    "signal.box.offset_y",
    "signal.box.offset_z",
    "signal.state.delay",
)


def one(id: str, *stated: str, **start: float) -> Belief:
    (found,) = beliefs(MODEL, [id], [Stated.parse(text) for text in stated], start, SIGNALS)
    return found


@pytest.mark.parametrize(
    ("id", "low", "high"),
    [
        ("actuator.elbow.delay", 0.0, 0.08),
        ("actuator.elbow.backlash", 0.0, 0.03),
        ("actuator.elbow.gain", 30 / 4, 30 * 4),
        ("actuator.elbow.velocity_gain", 0.0, 5.0),
        ("body.cube.mass", 0.2 / 3, 0.6),
        ("body.cube.com_x", -0.05, 0.05),
        ("body.cube.friction_slide", 0.25, 4.0),
        ("body.cube.contact_dmax", 0.0001, 0.9999),
        ("geom.cube.scale", 0.8, 1.25),
        ("gravity.magnitude", 9.21, 10.41),
        ("gravity.tilt_x", -0.1, 0.1),
        ("joint.elbow.damping", 0.0, 0.5),
        ("joint.elbow.offset", -0.15, 0.15),
        ("signal.state.delay", -0.08, 0.08),
        ("signal.box.offset_x", -0.02, 0.02),
    ],
)
def test_every_quantity_has_a_wide_range_of_its_own(id: str, low: float, high: float) -> None:
    found = one(id)
    assert (found.info.low, found.info.high) == (pytest.approx(low), pytest.approx(high))
    assert found.prior.shape == "uniform"
    assert isinstance(found.prior.source, Declared)
    assert "a wide range around the nominal" in found.prior.source.reason
    assert found.info.low <= found.nominal <= found.info.high


def test_the_natural_scale_is_logarithmic_where_the_parameter_is() -> None:
    mass, damping = one("body.cube.mass"), one("joint.elbow.damping")
    assert mass.span == (pytest.approx(np.log(0.2 / 3)), pytest.approx(np.log(0.6)))
    assert damping.span == (0.0, 0.5)
    assert mass.width == pytest.approx(2 * np.log(3) / np.sqrt(12))
    assert damping.width == pytest.approx(0.5 / np.sqrt(12))


def test_patterns_name_many_and_each_stands_once_in_the_order_of_ids() -> None:
    found = beliefs(MODEL, ["joint.elbow.damping", "joint.*w.damping", "joint.shoulder.damping", "actuator.*.gain"])
    assert [each.id for each in found] == [
        "actuator.elbow.gain",
        "actuator.shoulder.gain",
        "joint.elbow.damping",
        "joint.shoulder.damping",
    ]


def test_an_objects_friction_is_its_bodys() -> None:
    assert one("object.cube.friction").id == "body.cube.friction_slide"
    assert one("object.cube.friction", "object.cube.friction=0.3..0.9").info.high == 0.9
    assert one("body.cube.friction_slide", "object.cube.friction=0.3..0.9").info.high == 0.9


def test_the_twins_start_is_the_nominal_value() -> None:
    (found,) = beliefs(MODEL, ["body.cube.mass"], start={"body.cube.mass": 0.5})
    assert (found.nominal, found.info.high) == (0.5, pytest.approx(1.5))
    (found,) = beliefs(MODEL, ["object.cube.friction"], start={"object.cube.friction": 0.5})
    assert found.nominal == 0.5


# ---- what users state


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("joint.*.damping=0.01..0.5", 0.01, 0.5),
        (" joint.*.damping = 0.01 .. 0.5 ", 0.01, 0.5),
        ("joint.*.offset=-0.1..0.1", -0.1, 0.1),
        ("joint.*.offset=-1e-1..-1e-2", -0.1, -0.01),
        ("joint.*.damping=0..2", 0, 2),
    ],
)
def test_a_range_is_read(text: str, low: float, high: float) -> None:
    found = Stated.parse(text)
    assert (found.low, found.high, found.mean, found.sd) == (low, high, None, None)
    assert found.source == Declared(f"stated: {text.strip()}")


@pytest.mark.parametrize(
    "text", ["body.cube.mass=0.37+-0.01", "body.cube.mass=0.37±0.01", "body.cube.mass = 0.37 +/- 0.01"]
)
def test_a_value_with_its_sd_is_read(text: str) -> None:
    found = Stated.parse(text)
    assert (found.pattern, found.mean, found.sd, found.low) == ("body.cube.mass", 0.37, 0.01, None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "body.cube.mass",
        "body.cube.mass=",
        "body.cube.mass=0.3",
        "body.cube.mass=a..b",
        "=0.1..0.2",
        "x=1..2..3",
        "x=1-2",
    ],
)
def test_what_cannot_be_read_is_an_error_with_both_forms(text: str) -> None:
    with pytest.raises(ConfigError, match="cannot be read. Write a range") as told:
        Stated.parse(text)
    assert repr(text) in str(told.value)
    assert "0.37+-0.01" in str(told.value)


def test_a_stated_range_replaces_the_default_and_the_later_statement_wins() -> None:
    found = one("joint.elbow.damping", "joint.*.damping=0.01..0.4", "joint.elbow.damping=0.2..0.3")
    assert (found.info.low, found.info.high) == (0.2, 0.3)
    assert found.nominal == 0.2  # the model's 0.1 is outside: the nearest inside
    assert found.prior.source == Declared("stated: joint.elbow.damping=0.2..0.3")
    found = one("joint.elbow.damping", "joint.elbow.damping=0.2..0.3", "joint.*.damping=0.01..0.4")
    assert (found.info.low, found.info.high, found.nominal) == (0.01, 0.4, 0.1)


def test_a_stated_value_is_a_bell_on_the_natural_scale() -> None:
    mass = one("body.cube.mass", "body.cube.mass=0.37+-0.037")
    assert (mass.prior.shape, mass.prior.mean, mass.prior.sd) == (
        "normal",
        pytest.approx(np.log(0.37)),
        pytest.approx(0.1),
    )
    assert mass.width == pytest.approx(0.1)
    assert mass.nominal == 0.37
    assert mass.info.low == pytest.approx(0.37 * np.exp(-0.6))
    damping = one("joint.elbow.damping", "joint.elbow.damping=0.2+-0.05")
    assert (damping.prior.mean, damping.prior.sd) == (0.2, 0.05)
    assert (damping.info.low, damping.info.high) == (0.0, pytest.approx(0.5))  # six sd, and never below zero


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("joint.elbow.damping=0.5..0.1", r"the stated range 0.5..0.1 must rise and lie inside 0 to 10000"),
        ("joint.elbow.damping=-1..1", r"must rise and lie inside 0 to 10000"),
        ("joint.elbow.damping=nan..1", r"must rise and lie inside"),
        ("joint.elbow.damping=0.1+-0", r"its sd 0 above zero"),
        ("joint.elbow.damping=-0.1+-0.1", r"the stated value -0.1 must lie inside"),
        ("joint.elbow.damping=0.1+-nan", r"its sd nan above zero"),
    ],
)
def test_a_statement_that_cannot_hold_is_an_error(text: str, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        one("joint.elbow.damping", text)


def test_a_prior_that_matches_nothing_is_an_error() -> None:
    with pytest.raises(
        ConfigError, match="a prior was stated for 'joint.wrist.damping', which is none of the parameters"
    ):
        one("joint.elbow.damping", "joint.wrist.damping=0.1..0.2")
    with pytest.raises(ConfigError, match="a prior was stated for 'body.*.mass'"):
        one("joint.elbow.damping", "body.*.mass=0.1..0.2")


def test_a_question_mark_and_brackets_are_patterns_too() -> None:
    assert one("joint.elbow.damping", "joint.elbo?.damping=0.2..0.3").info.low == 0.2
    assert one("joint.elbow.damping", "joint.[de]lbow.damping=0.2..0.3").info.low == 0.2
    with pytest.raises(ConfigError, match=r"a prior was stated for 'joint.wris\?.damping', which is none of"):
        one("joint.elbow.damping", "joint.wris?.damping=0.1..0.2")


# ---- what cannot be asked


def test_a_body_is_not_asked_for_its_mass_in_two_ways() -> None:
    with pytest.raises(ConfigError, match=r"body.cube.com_x and body.cube.inertia_alpha were both asked for") as told:
        one("body.cube.*")
    assert "Name 'body.cube.mass' (and 'body.cube.com_*'), or the whole 'body.cube.inertia_*'" in str(told.value)


def test_a_nominal_of_zero_needs_a_range() -> None:
    with pytest.raises(ConfigError, match="joint.elbow.frictionloss is 0 in the model, which says nothing of its size"):
        one("joint.elbow.frictionloss")
    assert one("joint.elbow.frictionloss", "joint.elbow.frictionloss=0..0.3").info.high == 0.3


def test_what_motion_never_shows_is_refused_by_name_and_skipped_by_pattern() -> None:
    for id in ("sensor.elbow.noise", "sensor.elbow.quantum", "actuator.elbow.delay_jitter", "geom.cube.red"):
        with pytest.raises(ConfigError, match=f"{id} cannot be identified from motion"):
            one(id)
    found = beliefs(MODEL, ["actuator.elbow.delay*"])
    assert [each.id for each in found] == ["actuator.elbow.delay"]
    with pytest.raises(ConfigError, match="none of these can be identified from motion"):
        beliefs(MODEL, ["sensor.*.noise", "geom.*.red"])


def test_no_parameters_and_unknown_ones_are_errors() -> None:
    with pytest.raises(ConfigError, match="no parameters were named"):
        beliefs(MODEL, [])
    with pytest.raises(TwinproofError, match="no parameter of the model fits 'joint.knee.damping'"):
        beliefs(MODEL, ["joint.knee.damping"])


# ---- what recorded signals add


def test_patterns_go_over_the_recorded_signals() -> None:
    assert [each.id for each in beliefs(MODEL, ["signal.*.delay"], signals=SIGNALS)] == [SIGNALS[0], SIGNALS[4]]
    assert [each.id for each in beliefs(MODEL, ["signal.box.offset_*"], signals=SIGNALS)] == list(SIGNALS[1:4])
    stated = [Stated.parse("signal.*.delay=0..0.05")]
    assert {each.info.high for each in beliefs(MODEL, ["signal.*.delay"], stated, signals=SIGNALS)} == {0.05}


@pytest.mark.parametrize(
    "id",
    ["signal.typo.delay", "signal.typo*.delay", "signal.state.offset_x", "signal.state.offset_*", "signal.box.gain"],
)
def test_a_signal_that_was_not_recorded_is_an_error_that_lists_those_that_were(id: str) -> None:
    with pytest.raises(ConfigError, match="fits no signal that the model can be compared with") as told:
        one(id)
    assert repr(id) in str(told.value)
    assert ", ".join(SIGNALS) in str(told.value)
    with pytest.raises(ConfigError, match="No recorded signal was given that could have it"):
        beliefs(MODEL, [id])


def test_a_trackers_frame_belongs_to_poses_and_a_clock_to_all() -> None:
    time_s = np.arange(5) / 50
    at = np.c_[time_s, np.zeros((5, 2)), np.ones(5), np.zeros((5, 3))]
    pose = Signal("box", "pose", tuple(Column(name, "m" if len(name) == 1 else "1") for name in POSE), time_s, at)
    state = Signal("state", "joint_position", (Column("elbow", "rad"),), time_s, 0.1 * time_s[:, None])
    found, notes = readings(Episode.of({"box": pose, "state": state}, {}), MODEL)
    assert not notes
    assert signal_ids(found) == SIGNALS
