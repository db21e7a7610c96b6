"""Events by stated rules: planted ones come back, and the timelines name what is missing, extra or late."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from twinproof.evaluate.events import ArmView, EventRules, Happening, View, events_of
from twinproof.evaluate.onset import Onset
from twinproof.evaluate.timeline import Matching, event_at, match
from twinproof.nouns.errors import ConfigError
from twinproof.nouns.randomness import stream

T = np.arange(0, 10, 0.02)
NOISE = stream(0, "events").normal(size=len(T))


def ramp(*points: tuple[float, float]) -> np.ndarray:
    return np.interp(T, *np.array(points).T)


OPENING = ramp((0, 0.9), (2, 0.9), (2.5, 0.4), (7, 0.4), (7.4, 0.9), (10, 0.9)) + 0.003 * NOISE
HEIGHT = ramp((0, 0.3), (1.8, 0.1), (3, 0.1), (4, 0.3), (5, 0.3), (6.5, 0.1), (7.5, 0.1), (9, 0.3))
AWAY = ramp((0, 0), (1, 0.3), (8, 0.3), (9, 0)) + 0.001 * NOISE
ARM = ArmView(T, AWAY, OPENING, None, HEIGHT)


def lying(up: np.ndarray) -> np.ndarray:
    track = np.zeros((len(T), 3))
    track[:, 2] = 0.02 + up
    return track + 2e-4 * stream(1, "track").normal(size=(len(T), 3))


def times(found, name: str) -> list[float]:
    return [event.time_s for event in found if event.name == name]


def view(arm: ArmView | None = ARM, objects=None, forces=None, stated=None) -> View:
    return View({} if arm is None else {"left": arm}, objects or {}, forces or {}, stated or {})


def test_an_arm_without_an_object_track_tells_its_events_from_gripper_height_and_posture():
    found = events_of(view(), EventRules())
    assert [event.name for event in found] == ["grasp", "lift", "place", "release", "home"]
    when = {event.name: event.time_s for event in found}
    assert when["grasp"] == pytest.approx(2.5, abs=0.08)
    assert when["lift"] == pytest.approx(3.075, abs=0.05)
    assert when["place"] == pytest.approx(6.43, abs=0.06)
    assert when["release"] == pytest.approx(7.0, abs=0.08)
    assert when["home"] == pytest.approx(8.9, abs=0.05)


def test_a_track_tells_contact_lift_and_place_and_then_the_height_is_not_asked():
    up = ramp((0, 0), (3, 0), (4, 0.2), (5, 0.2), (6, 0.0), (10, 0.0))
    found = events_of(view(objects={"cube": (T, lying(up))}), EventRules())
    assert times(found, "contact") == pytest.approx([3.03], abs=0.03)
    assert times(found, "lift") == pytest.approx([3.08], abs=0.03)
    assert times(found, "place") == pytest.approx([5.95], abs=0.03)
    assert {event.of for event in found if event.name == "lift"} == {"cube"}


def test_two_lifts_are_two_and_a_track_with_holes_does_not_split_one():
    up = ramp((0, 0), (2, 0), (2.5, 0.1), (3, 0.1), (3.5, 0), (6, 0), (6.5, 0.1), (10, 0.1))
    kept = (T < 2.4) | (T > 2.45)
    found = events_of(view(None, objects={"cube": (T[kept], lying(up)[kept])}), EventRules())
    assert times(found, "lift") == pytest.approx([2.08, 6.08], abs=0.03)
    assert times(found, "place") == pytest.approx([3.45], abs=0.03)


def test_a_gripper_that_shuts_on_nothing_grasps_nothing():
    arm = replace(ARM, opening=ramp((0, 0.9), (2, 0.9), (2.5, 0.05), (7, 0.05), (7.4, 0.9)))
    assert {event.name for event in events_of(view(arm), EventRules())} == {"home"}


def test_a_gripper_that_stops_where_it_was_told_to_grasps_nothing():
    told = ramp((0, 0.9), (2, 0.9), (2.3, 0.2), (4.5, 0.2), (4.6, 0.9), (7, 0.9), (7.2, 0.5))
    opening = ramp((0, 0.9), (2, 0.9), (2.5, 0.4), (4.5, 0.4), (4.9, 0.9), (7, 0.9), (7.4, 0.5))
    found = events_of(view(replace(ARM, opening=opening, told=told)), EventRules())
    assert times(found, "grasp") == pytest.approx([2.5], abs=0.08)
    assert {event.by for event in found if event.name == "grasp"} == {"gripper and command"}


def test_a_grasp_that_is_held_to_the_end_has_no_release():
    arm = replace(ARM, opening=ramp((0, 0.9), (2, 0.9), (2.5, 0.4)))
    assert [event.name for event in events_of(view(arm), EventRules())] == ["grasp", "lift", "home"]


def test_a_force_sensor_tells_contacts():
    force = np.zeros((len(T), 3))
    force[:, 0] = 9.0 + 5.0 * ((T > 2) & (T < 3)) + 5.0 * ((T > 5) & (T < 5.02))
    found = events_of(view(None, forces={"wrist": (T, force)}), EventRules())
    assert [(event.name, event.of, event.by) for event in found] == [("contact", "wrist", "force")]
    assert found[0].time_s == pytest.approx(2.02, abs=0.021)


def test_what_a_column_states_stands_instead_of_the_rule():
    stated = {"left_grasp": (T, (T > 1.0).astype(float)), "release": (T, (T > 2.0).astype(float)), "phase": (T, T)}
    found = events_of(view(stated=stated), EventRules())
    assert times(found, "grasp") == pytest.approx([1.02], abs=0.021)
    assert [(e.of, e.by) for e in found if e.name == "release"] == [("", "stated")]
    assert times(found, "home")


def test_rules_are_above_zero():
    with pytest.raises(ConfigError, match="event rule lift_m is -1"):
        EventRules(lift_m=-1)


def happened(*pairs: tuple[str, float]) -> list[Happening]:
    return [Happening(name, "left", t, "gripper") for name, t in pairs]


def test_missing_extra_late_and_early_events_are_named():
    real = happened(("grasp", 1.0), ("lift", 2.0), ("release", 5.0), ("home", 9.0))
    sim = happened(("grasp", 0.9), ("lift", 2.6), ("grasp", 3.5), ("home", 8.0))
    found = {(m.name, m.verdict): m.late_s for m in match(real, sim, 0.1, Matching())}
    assert found == {
        ("grasp", "same"): pytest.approx(0.0),
        ("lift", "late"): pytest.approx(0.7),
        ("grasp", "extra"): None,
        ("release", "missing"): None,
        ("home", "early"): pytest.approx(-0.9),
    }


def test_of_two_candidates_the_nearer_is_matched_and_order_is_kept():
    found = match(happened(("grasp", 3.0)), happened(("grasp", 1.8), ("grasp", 3.1)), 0.0, Matching())
    assert [(m.verdict, m.sim_s) for m in found] == [("extra", 1.8), ("same", 3.1)]
    both = match(happened(("grasp", 1.0), ("grasp", 2.0)), happened(("grasp", 1.9), ("grasp", 2.9)), 0.0, Matching())
    assert [m.late_s for m in both] == pytest.approx([0.9, 0.9])


def test_divergence_starts_at_the_event_near_it_or_at_the_last_before_it():
    events = match(happened(("grasp", 1.0), ("lift", 2.0)), [], 0.0, Matching())
    at = Onset(1.5, 1.2, 1.8, "ramp", 0.0, 0.1, 0.2, 1e-9)
    assert event_at(at, events, Matching()) == "left grasp"
    assert event_at(replace(at, time_s=1.85), events, Matching()) == "left lift"
    assert event_at(replace(at, time_s=0.5), events, Matching()) == "the start"
    assert event_at(None, events, Matching()) is None


def test_matching_wants_sensible_numbers():
    with pytest.raises(ConfigError, match="late from 3 s on and matched up to 2"):
        Matching(2, 3)
