"""What operators do on the benches, in the lab's reality with all its effects."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from twinproof.lab.benches import bench
from twinproof.lab.effects import chosen
from twinproof.lab.handover import ORDER
from twinproof.lab.motion import OPERATORS, Planner, Reach, chirp, fourier, minimum_jerk, tool_pose
from twinproof.lab.push import ARM, REST
from twinproof.lab.take import Played, Take, play, takes
from twinproof.nouns.errors import SimError
from twinproof.sim.world import World, compile_text

ALL = chosen("all")


def played(name: str, behaviour: str, object: str = "", seed: int = 0, operator: int = 0) -> Played:
    made = bench(name)
    take = Take(0, behaviour, object, "day_0", OPERATORS[operator])
    return play(made, made.plant(seed), take, ALL, seed)


def test_a_handover_goes_through_its_events_in_order():
    done = played("handover", "handover", "cube_03")
    events = bench("handover").events(done.reality.log.snaps)
    assert tuple(event.name for event in events) == ORDER
    times = [event.time_s for event in events]
    assert times == sorted(times)
    assert done.success
    spoken = list(dict.fromkeys(done.phases))
    assert spoken == ["home", "left_grasp", "pick_up", "align", "right_grasp", "release", "place"]


def test_a_handover_without_a_grip_fails_and_lacks_events():
    made = bench("handover")
    done = played("handover", "handover", "cube_03")
    dropped = [replace(snap, held=(False, False)) for snap in done.reality.log.snaps]
    assert [event.name for event in made.events(dropped)] == ["home"]
    assert not made.succeeded("handover", dropped, np.zeros(3))


@pytest.mark.parametrize("name", ["box_04", "can_02", "tee_06"])
def test_objects_of_every_shape_are_pushed_lifted_and_dropped(name):
    assert [played("push", behaviour, name).success for behaviour in ("push", "lift", "drop")] == [True] * 3


def test_most_scripted_episodes_succeed():
    done = [played("push", "push", f"box_{k:02d}", seed=k, operator=k % 3).success for k in range(4)]
    done += [played("drawer", "pull", f"drawer_{k:02d}", seed=k, operator=k % 3).success for k in range(4)]
    done += [played("handover", "handover", f"cube_{k:02d}", seed=k, operator=k % 3).success for k in range(2)]
    assert sum(done) >= 8


def test_a_drawer_opens_and_can_be_pushed_shut():
    openings = np.array([snap.opening_m for snap in played("drawer", "pull_back", "drawer_02").reality.log.snaps])
    assert openings.max() > 0.09
    assert openings[-1] < 0.03


def test_operators_differ_in_speed():
    lengths = [len(played("push", "push", "box_00", operator=k).phases) for k in range(3)]
    assert lengths[1] < lengths[0] < lengths[2]


def test_a_free_swing_is_not_driven_and_comes_to_rest_slowly():
    log = played("pendulum", "free_swing").reality.log
    assert np.abs(np.stack(log.command)).max() == 0
    angle = np.stack(log.position)
    assert np.abs(angle[:250]).max() > 0.3
    assert np.abs(angle[-250:]).max() < np.abs(angle[:250]).max()


def test_a_scan_sees_the_scene_from_many_sides():
    done = played("push", "scan", "box_00")
    world, sides = World(done.reality.world.model), []
    for qpos in done.reality.log.qpos[::100]:
        world.qpos[:] = qpos
        world.kinematics()
        away = world.camera_pose("wrist")[:3, 3] - [0.32, 0, 0.03]
        sides.append(np.degrees(np.arctan2(away[1], -away[0])))
    assert max(sides) - min(sides) > 180


def test_objects_keep_to_their_session_so_that_labels_leave_several_groups():
    planned = takes(bench("push"), 24, 0)
    of_object = {}
    for take in planned:
        of_object.setdefault(take.object, set()).add(take.session)
    assert all(len(sessions) == 1 for sessions in of_object.values())
    assert len({take.session for take in planned}) == 4
    assert sum(take.behaviour == "scan" for take in planned) == 4
    assert takes(bench("push"), 10, 0) == planned[:10]


def test_smooth_paths_begin_and_end_at_rest():
    share = np.linspace(0, 1, 1001)
    path = minimum_jerk(share)
    assert path[[0, -1]] == pytest.approx([0, 1])
    assert np.abs(np.diff(path)[[0, -1]]).max() < 1e-5
    time_s = np.linspace(0, 4, 401)
    assert chirp(time_s, 0.5, 3)[[0, -1]] == pytest.approx([0, 0], abs=1e-9)
    assert fourier(time_s, np.ones((3, 2, 2)), 0.4)[[0, -1]] == pytest.approx(np.zeros((2, 2)), abs=1e-9)


def test_inverse_kinematics_reaches_what_it_can_and_says_what_it_cannot():
    world = World(compile_text(bench("push").robot_text()))
    reach = Reach(world, ARM, np.array(REST[:6]))
    goal = tool_pose(np.array([0.31, 0.12, 0.05]), np.array([0, 0, -1.0]), np.array([0, 1.0, 0]))
    world.qpos[reach.q] = reach.solve(goal, np.array(REST[:6]))
    world.kinematics()
    assert world.site_pose("tip") == pytest.approx(goal, abs=3e-3)
    goal[:3, 3] = 1.5, 0.0, 0.2
    with pytest.raises(SimError, match=r"the arm tip cannot reach \(1.500, 0.000, 0.200\) m"):
        reach.solve(goal, np.array(REST[:6]))


def test_a_planner_keeps_commands_inside_the_joints_ranges():
    done = played("push", "shake", "box_00")
    world = World(compile_text(bench("push").robot_text()))
    ranges = np.array([world.joint_range(name) for name in bench("push").joints])
    angles = np.stack(done.reality.log.qpos)[:, done.reality.joint_places]
    assert (angles > ranges[:, 0] - 0.02).all()
    assert (angles < ranges[:, 1] + 0.02).all()
    assert isinstance(Planner(bench("push"), World(done.reality.world.model)).home, np.ndarray)
