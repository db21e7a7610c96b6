"""Many worlds at once: live views, resets, controls that are checked, contacts, and worlds that blow up alone."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

from tests.sim.models import ARM
from twinproof.nouns.errors import SimError
from twinproof.nouns.theta import Theta
from twinproof.sim.divergence import Limits
from twinproof.sim.scene import Scene
from twinproof.sim.worlds import Worlds

KEYED = ARM.replace(
    "</mujoco>",
    '<keyframe><key name="bent" qpos=".5 -.4 .8 0 .05 1 0 0 0" ctrl=".5 -.4"/></keyframe></mujoco>',
)
# no step of 2 ms can integrate a servo of this stiffness on a link this light
STIFF = {"actuator.elbow.gain": 1e5, "actuator.elbow.velocity_gain": 0.0, "actuator.elbow.force_limit": 1e6,
         "body.lower.mass": 0.002}  # fmt: skip


def scene(xml: str = KEYED, **reserved: float) -> Scene:
    return Scene(xml, **reserved)


def test_views_are_live_and_describe_the_state_after_the_step() -> None:
    worlds = Worlds(scene(), 3)
    qpos, sensors, cube = worlds.qpos, worlds.sensordata, worlds.xpos[:, worlds.model.body("cube").id]
    worlds.step(np.full((3, 2), 0.3), nstep=7)
    assert qpos is not worlds.qpos.copy()
    np.testing.assert_array_equal(sensors[:, :2], qpos[:, :2])  # the sensors of the two joints, at the same instant
    np.testing.assert_array_equal(cube, qpos[:, 2:5])
    np.testing.assert_allclose(worlds.time, 7 * 0.002)
    assert worlds.steps.tolist() == [7, 7, 7]
    qpos[1, 4] = 0.5  # writing a view moves the world
    worlds.step(np.zeros((3, 2)))
    assert worlds.qpos[1, 4] == pytest.approx(0.5, abs=1e-3)


def test_sensors_may_lag_a_step_and_the_motion_is_the_same() -> None:
    now, behind = Worlds(scene(), 2), Worlds(scene(), 2, current=False)
    for each in (now, behind):
        each.step(np.full((2, 2), 0.3), 6)
    before = now.sensordata.copy()
    for each in (now, behind):
        each.step(np.full((2, 2), 0.3))
    np.testing.assert_array_equal(behind.qpos, now.qpos)
    np.testing.assert_array_equal(behind.sensordata, before)


def test_a_view_asked_for_late_is_not_zero_and_changes_nothing() -> None:
    asked, plain = Worlds(scene(), 2), Worlds(scene(), 2)
    for worlds in (asked, plain):
        worlds.step(np.full((2, 2), 0.2), 50)
    site = asked.view("geom_xpos")
    assert np.abs(site).max() > 0.1
    for worlds in (asked, plain):
        worlds.step(np.full((2, 2), 0.4), 50)
    np.testing.assert_array_equal(asked.qpos, plain.qpos)


def test_a_reset_touches_only_the_worlds_that_it_names() -> None:
    worlds, untouched = Worlds(scene(), 4), Worlds(scene(), 4)
    for each in (worlds, untouched):
        each.step(np.full((4, 2), 0.5), 30)
    worlds.reset([3, 1], keyframe="bent")
    for each in (worlds, untouched):
        each.step(np.full((4, 2), 0.5), 30)
    np.testing.assert_array_equal(worlds.qpos[[0, 2]], untouched.qpos[[0, 2]])
    assert worlds.steps.tolist() == [60, 30, 60, 30]
    fresh = Worlds(scene(), 1)
    fresh.reset(keyframe="bent")
    fresh.step(np.full((1, 2), 0.5), 30)
    np.testing.assert_array_equal(worlds.qpos[[1, 3]], fresh.qpos[[0, 0]])


def test_a_reset_may_give_a_state_for_each_world_in_the_order_asked() -> None:
    worlds = Worlds(scene(), 3)
    qpos = np.tile(worlds.qpos[0], (2, 1))
    qpos[:, 0] = 0.1, 0.2
    worlds.reset([2, 0], qpos=qpos, qvel=np.zeros(worlds.model.nv))
    assert worlds.qpos[:, 0].tolist() == [0.2, 0.0, 0.1]
    worlds.reset(np.array([False, True, False]), qpos=qpos[0])
    assert worlds.qpos[1, 0] == 0.1
    worlds.reset([])
    assert worlds.qpos[1, 0] == 0.1


def test_new_parameters_at_a_reset_start_from_the_nominal_and_not_from_the_last_ones() -> None:
    heavy, light = Theta({"body.cube.mass": 2.0}), Theta({"joint.elbow.damping": 0.3})
    worlds = Worlds(scene(), [heavy, heavy])
    worlds.reset([1], thetas=[light])
    index = worlds.model.body("cube").id
    model = worlds._population.model(1)
    assert model.body_mass[index] == pytest.approx(0.2)
    assert worlds._population.model(0).body_mass[index] == pytest.approx(2.0)
    assert worlds.thetas == [heavy, light]
    np.testing.assert_array_equal(model.body_invweight0, worlds.model.body_invweight0)


def test_a_reset_by_number_gives_what_the_thetas_themselves_give() -> None:
    bank = [Theta({"body.cube.mass": kg, "joint.elbow.damping": 0.3}) for kg in (0.5, 1.0, 2.0)]
    first = Theta({"joint.shoulder.damping": 0.9})  # named by nobody in the bank: nominal afterwards
    one, other = Worlds(scene(), [first] * 3), Worlds(scene(), [first] * 3)
    one.fill_bank(bank)
    one.reset([2, 0], bank=np.array([1, 2]))
    other.reset([2, 0], thetas=[bank[1], bank[2]])
    assert one.thetas == other.thetas == [bank[2], first, bank[1]]
    assert one._population.changed == other._population.changed
    for name in one._population.changed:
        np.testing.assert_array_equal(one._batch.expand(name), other._batch.expand(name))
    for worlds in (one, other):
        worlds.step(np.full((3, 2), 0.4), nstep=50)
    np.testing.assert_array_equal(one.qpos, other.qpos)


def test_the_number_of_threads_changes_no_bit() -> None:
    thetas = [Theta({"body.cube.mass": 0.1 + 0.1 * k}) for k in range(5)]
    ends = []
    for threads in (1, 2, 3):
        worlds = Worlds(scene(), thetas, nthread=threads)
        worlds.step(np.full((5, 2), 0.7), 200)
        ends.append(worlds.qpos.copy())
    np.testing.assert_array_equal(ends[0], ends[1])
    np.testing.assert_array_equal(ends[0], ends[2])


def test_a_delayed_actuator_holds_what_it_was_sent_before_the_reset_ends() -> None:
    delayed = Theta({"actuator.elbow.delay": 0.02, "actuator.shoulder.delay": 0.02})
    worlds = Worlds(scene(control_delay_s=0.02), [delayed, Theta()])
    worlds.reset(keyframe="bent", ctrl=np.array([0.5, -0.4]))
    sent = np.array([[0.5, 1.0], [0.5, -0.4]])  # something new, and in the world without a delay the old
    worlds.step(sent, 10)
    np.testing.assert_array_equal(worlds.qpos[0], worlds.qpos[1])
    worlds.step(sent, 10)
    assert worlds.qpos[0, 1] > worlds.qpos[1, 1] + 0.1


def test_a_delayed_sensor_reads_the_start_and_not_zero_after_a_reset() -> None:
    worlds = Worlds(scene(sensor_delay_s=0.02), [Theta({"sensor.shoulder.delay": 0.02}), Theta()])
    worlds.reset(keyframe="bent")
    worlds.step(np.array([[1.0, -0.4], [1.0, -0.4]]), 5)
    assert worlds.sensordata[0, 0] == 0.5
    assert worlds.sensordata[1, 0] == worlds.qpos[1, 0] != 0.5


def test_contacts_say_who_presses_on_whom_and_how_hard() -> None:
    worlds = Worlds(scene(), [Theta({"body.cube.mass": 0.5}), Theta()], touch=[("cube", "floor"), ("lower", "cube")])
    worlds.step(np.zeros((2, 2)), 500)
    contacts = worlds.contacts()
    assert contacts.touching.tolist() == [[True, False], [True, False]]
    np.testing.assert_allclose(contacts.force_n[:, 0], [0.5 * 9.81, 0.2 * 9.81], rtol=1e-3)
    assert contacts.force_n[0, 1] == 0
    with pytest.raises(SimError, match="no geom or body 'cub' that could touch. Did you mean 'cube'"):
        Worlds(scene(), 1, touch=[("cub", "floor")])


def test_controls_of_the_wrong_width_or_that_are_no_numbers_are_refused_with_world_and_actuator() -> None:
    worlds = Worlds(scene(), 2)
    with pytest.raises(SimError, match=r"shape \(2, 3\); 2 worlds with 2 controls \(shoulder, elbow\) need \(2, 2\)"):
        worlds.step(np.zeros((2, 3)))
    with pytest.raises(SimError, match="actuator 'elbow' in world 1 is nan"):
        worlds.step(np.array([[0, 0], [0, np.nan]]))
    assert worlds.steps.tolist() == [0, 0]


def test_worlds_that_are_not_there_are_named() -> None:
    worlds = Worlds(scene(), 2)
    with pytest.raises(SimError, match=r"\[0, 2\] does not name worlds of 0 … 1, each once"):
        worlds.reset([0, 2])
    with pytest.raises(SimError, match="no keyframe 'bend'. Did you mean 'bent'"):
        worlds.reset(keyframe="bend")
    with pytest.raises(SimError, match="no keyframe number 4; it has 1"):
        worlds.reset(keyframe=4)
    with pytest.raises(SimError, match="1 worlds were given 2 Thetas"):
        worlds.set_thetas([0], [Theta(), Theta()])
    with pytest.raises(SimError, match="no worlds were asked for"):
        Worlds(scene(), 0)
    with pytest.raises(SimError, match="'qposs' is nothing that MuJoCo computes. Did you mean 'qpos'"):
        worlds.view("qposs")
    with pytest.raises(
        SimError, match=r"geom.cube.scale needs a model compiled for every value, and these worlds share"
    ):
        worlds.set_thetas([0], [Theta({"geom.cube.scale": 2.0})])


def test_a_world_that_diverges_is_flagged_explained_and_frozen_and_the_others_do_not_notice() -> None:
    thetas = [Theta(), Theta(STIFF), Theta({"body.cube.mass": 0.4})]
    worlds, alone = Worlds(scene(), thetas), Worlds(scene(), [thetas[0], Theta(), thetas[2]])
    control = np.tile([0.5, 1.0], (3, 1))
    for _ in range(40):
        worlds.step(control, 5)
        alone.step(control, 5)
    assert worlds.diverged.tolist() == [False, True, False]
    np.testing.assert_array_equal(worlds.qpos[[0, 2]], alone.qpos[[0, 2]])
    np.testing.assert_array_equal(worlds.sensordata[[0, 2]], alone.sensordata[[0, 2]])
    assert np.isfinite(worlds.qpos).all()
    assert np.isfinite(worlds.xpos).all()
    why = worlds.why(1)
    assert why is not None
    assert why.step == pytest.approx(why.time_s / 0.002)
    assert worlds.steps[1] < why.step <= worlds.steps[1] + 5
    assert "joint 'elbow' of body 'lower'" in why.cause
    assert "actuator 'elbow': its gain is too stiff for the time step of 0.002 s" in why.cause
    assert str(why).startswith(f"diverged at step {why.step}")
    assert worlds.why(0) is None


def test_a_diverged_world_comes_back_by_a_reset_and_keeps_its_explanation_until_then() -> None:
    worlds = Worlds(scene(), [Theta(STIFF), Theta()])
    for _ in range(40):
        worlds.step(np.full((2, 2), 1.0), 5)
    worlds.set_thetas([0], [Theta()])
    why = worlds.why(0)
    assert why is not None
    assert "its gain is too stiff" in why.cause  # of the parameters with which it diverged
    worlds.reset(worlds.diverged)
    assert not worlds.diverged.any()
    assert worlds.why(0) is None
    worlds.step(np.full((2, 2), 1.0), 5)
    assert worlds.steps.tolist() == [5, 205]


def test_a_body_that_leaves_the_workspace_is_named() -> None:
    worlds = Worlds(scene(), 2, limits=Limits(workspace_m=1.5))
    worlds.qvel[1, 2] = 30.0  # the cube flies along x
    for _ in range(30):
        worlds.step(np.zeros((2, 2)), 2)
    assert worlds.diverged.tolist() == [False, True]
    why = worlds.why(1)
    assert why is not None
    assert "joint 'cube' of body 'cube' is at 1.5" in why.cause
    assert "outside the limit of 1.5 m or rad" in why.cause
    assert abs(worlds.qpos[1, 2]) <= 1.5


def test_a_state_that_is_no_number_is_flagged_with_what_it_was() -> None:
    worlds = Worlds(scene(), 2)
    worlds.qvel[0, 0] = np.inf
    worlds.step(np.zeros((2, 2)))
    assert worlds.diverged.tolist() == [True, False]
    assert "joint 'shoulder' of body 'upper' reached a velocity that is not finite" in str(worlds.why(0))


def test_an_overlap_is_named_where_contact_blows_a_world_up() -> None:
    worlds = Worlds(scene(), 2, limits=Limits(speed=3.0))
    worlds.qpos[0, 4] = -0.5  # the cube half a metre inside the floor
    worlds.step(np.zeros((2, 2)), 3)
    assert worlds.diverged.tolist() == [True, False]
    assert "geoms 'floor' and 'cube' overlap by 0." in str(worlds.why(0))


def test_nothing_is_printed_and_no_log_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    worlds = Worlds(scene(), [Theta(STIFF)])
    for _ in range(40):
        worlds.step(np.ones((1, 2)), 5)
    assert worlds.diverged.all()
    worlds.why(0)
    assert not list(tmp_path.iterdir())
    assert capfd.readouterr() == ("", "")
    assert mujoco.get_mju_user_warning() is None


def test_backlash_and_joint_offsets_lie_between_the_command_and_the_actuator() -> None:
    thetas = [Theta({"actuator.elbow.backlash": 0.1}), Theta({"joint.shoulder.offset": 0.05}), Theta()]
    worlds = Worlds(scene(), thetas, substeps=5)
    worlds.step(np.full((3, 2), 0.3))
    worlds.step(np.full((3, 2), 0.4))
    np.testing.assert_allclose(worlds.ctrl, [[0.4, 0.35], [0.35, 0.4], [0.4, 0.4]])
    assert worlds.steps.tolist() == [10, 10, 10]
    measured = worlds.measure()
    np.testing.assert_allclose(measured[:, 0] - worlds.qpos[:, 0], [0, 0.05, 0], atol=1e-12)
    worlds.reset([1], thetas=[Theta()])
    worlds.step(np.full((3, 2), 0.4))
    np.testing.assert_allclose(worlds.ctrl[1:], 0.4)
    np.testing.assert_allclose(worlds.measure()[:, 0], worlds.qpos[:, 0])


def test_a_channel_that_only_a_later_theta_needs_is_there_from_then_on() -> None:
    worlds = Worlds(scene(), 2)
    worlds.step(np.full((2, 2), 0.3))
    worlds.reset([0], thetas=[Theta({"joint.shoulder.offset": 0.1})])
    worlds.step(np.full((2, 2), 0.3))
    np.testing.assert_allclose(worlds.ctrl, [[0.2, 0.3], [0.3, 0.3]])


def test_a_written_state_is_described_after_a_refresh() -> None:
    worlds = Worlds(scene(), 2)
    worlds.qpos[1, 4] = 0.9
    worlds.refresh()
    assert worlds.xpos[1, worlds.model.body("cube").id, 2] == 0.9


def test_a_jitter_counted_in_substeps_refuses_a_call_of_another_length() -> None:
    worlds = Worlds(scene(), [Theta({"actuator.elbow.delay_jitter": 0.02}), Theta()], substeps=5)
    with pytest.raises(SimError, match=r"a call of 10 physics steps in worlds of 5.*substeps=10"):
        worlds.step(np.zeros((2, 2)), 10)
    worlds.step(np.zeros((2, 2)), 5)
    assert worlds.steps.tolist() == [5, 5]
    worlds.reset([0], thetas=[Theta({"actuator.elbow.backlash": 0.1})])  # slack has no clock
    worlds.step(np.zeros((2, 2)), 10)


@pytest.mark.parametrize(
    ("indices", "given", "words"),
    [
        ([0, 1], {"thetas": [Theta()]}, "2 worlds were given 1 Thetas"),
        ([0], {"thetas": [Theta()] * 3}, "1 worlds were given 3 Thetas"),
        ([0, 1], {"qpos": np.zeros((3, 9))}, r"qpos of a reset has the shape \(3, 9\); 2 worlds start.*\(2, 9\)"),
        ([0, 1], {"qvel": np.zeros(7)}, r"qvel of a reset has the shape \(7,\)"),
        ([0, 1], {"ctrl": 0.5}, r"ctrl of a reset has the shape \(\)"),
        ([0, 1], {"ctrl": ["a", "b"]}, "Give an array of numbers"),
        ([True, False], {}, r"mask of worlds has the shape \(2,\); 3 worlds need \(3,\)"),
        ([0.0, 1.0], {}, "Give whole numbers, or a mask"),
        ([0], {"qpos": np.full(9, np.nan)}, r"qpos of a reset is nan at \[0\]"),
        ([0, 2], {"qvel": np.array([[0.0] * 8, [0.0] * 7 + [np.inf]])}, r"qvel of a reset is inf at \[1, 7\]"),
        ([0], {"ctrl": np.array([0, np.nan])}, r"ctrl of a reset is nan at \[1\]"),
    ],
)
def test_a_reset_that_does_not_fit_is_refused_and_changes_nothing(indices, given, words) -> None:
    worlds = Worlds(scene(), 3)
    worlds.step(np.full((3, 2), 0.5), 4)
    before = worlds.qpos.copy()
    with pytest.raises(SimError, match=words):
        worlds.reset(indices, **given)
    np.testing.assert_array_equal(worlds.qpos, before)
    assert worlds.steps.tolist() == [4, 4, 4]


def test_numbers_of_worlds_steps_and_seeds_are_whole_and_large_enough() -> None:
    worlds = Worlds(scene(), np.int64(3), substeps=np.int64(2))
    worlds.step(np.zeros((3, 2)), np.int32(2))
    assert worlds.steps.tolist() == [2, 2, 2]
    for nstep in (0, -1, 1.5):
        with pytest.raises(SimError, match=f"nstep is {nstep}. Give a whole number of 1 or more"):
            worlds.step(np.zeros((3, 2)), nstep)  # type: ignore[arg-type]
    for world in (-1, 3):
        with pytest.raises(SimError, match="the number of the world is -1|there is no world 3; there are 3"):
            worlds.why(world)
    for substeps in (0, -2):
        with pytest.raises(SimError, match=f"substeps is {substeps}"):
            Worlds(scene(), 1, substeps=substeps)
    with pytest.raises(SimError, match="the seed is -1. Give a whole number of 0 or more"):
        Worlds(scene(), 1, seed=-1)
    with pytest.raises(SimError, match=r"the number of worlds is 2.5"):
        Worlds(scene(), 2.5)  # type: ignore[arg-type]
    with pytest.raises(SimError, match="were given one Theta. Give a list"):
        Worlds(scene(), Theta())  # type: ignore[arg-type]


def test_a_pair_that_is_to_touch_twice_is_named() -> None:
    with pytest.raises(SimError, match=r"the pair \('cube', 'floor'\) twice"):
        Worlds(scene(), 1, touch=[("cube", "floor"), ("lower", "cube"), ("cube", "floor")])
