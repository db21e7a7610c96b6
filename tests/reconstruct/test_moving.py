"""Which episode shows an object moving, and what its motion is taken for."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.reconstruct.test_build import angles, small
from tests.reconstruct.test_couple import recorded, separate
from tests.reconstruct.test_motion_block import calibrated, motion, still_track
from tests.reconstruct.test_robot_calibrate import JOINTS
from tests.sim.pushing import SCENE, angle_at
from tests.sim.tracking import box_mesh, standing, thing
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import TwinError
from twinproof.nouns.progress import quiet
from twinproof.nouns.rig import Joint, Rig
from twinproof.nouns.signal import Column, Signal
from twinproof.nouns.store import Store
from twinproof.reconstruct import moving
from twinproof.reconstruct.articulation import Kind
from twinproof.reconstruct.assemble import Physical
from twinproof.reconstruct.calibration_block import FoundRobot
from twinproof.reconstruct.joint_block import FoundJoint
from twinproof.reconstruct.joint_shape import resized
from twinproof.reconstruct.motion_block import FoundMotion
from twinproof.reconstruct.moving import Workbench, _hint, held_by, joint_of, jointed, refined
from twinproof.reconstruct.object_block import FoundObject, Shaping
from twinproof.reconstruct.recorded_track import COLUMNS
from twinproof.sim.grid import Plane
from twinproof.sim.scene import Scene
from twinproof.sim.track_pose import Track, nudged


def box(went_m: float) -> FoundObject:
    return FoundObject("box", box_mesh(), thing(), standing(), {}, (), (), went_m=went_m)


def bench(folder, labels: tuple[str, ...] = ("a", "b", "a")) -> Workbench:
    episodes: Any = [SimpleNamespace(id=f"{k}" * 32, labels={"object": label}) for k, label in enumerate(labels)]
    part: Any = SimpleNamespace(recording=SimpleNamespace(episodes=episodes, rig=None))
    room: Any = SimpleNamespace(table=Plane(), physical=None, robot="arm")
    return Workbench(part, room, episodes[0], Store(folder), "a" * 64, quiet)


def test_other_episodes_of_the_object_come_first_and_its_own_if_it_moved(tmp_path) -> None:
    here = bench(tmp_path)
    assert [e.id[0] for e in here.episodes(box(0.0))] == ["2"]
    assert [e.id[0] for e in here.episodes(box(0.1))] == ["2", "0"]


def test_an_object_that_nobody_handles_stands_free_and_has_no_joint(tmp_path) -> None:
    alone = bench(tmp_path, ("a",))
    whole, said = refined(alone, box(0.0), Shaping())
    assert whole.moved is None
    assert "handled in no calibration episode" in said[0]
    with pytest.raises(TwinError, match="--joint-of box: it moves in none of the calibration episodes"):
        jointed(alone, box(0.0), Shaping())


def test_an_object_that_cannot_be_followed_is_in_the_twin_all_the_same(tmp_path) -> None:
    part = small(Rig("arm", tuple(Joint(name) for name in JOINTS)), state=angles(*JOINTS))
    room: Any = SimpleNamespace(table=Plane(), physical=None, robot=None, found=FoundRobot({}, {}, {}, {}, (), {}))
    here = Workbench(part, room, part.recording.episodes[0], Store(tmp_path), "a" * 64, quiet)
    whole, said = refined(here, box(0.1), Shaping())
    assert whole.moved is None
    assert "no joint refinement with physics: box cannot be followed: no camera of episode" in said[0]


def test_a_recorded_pose_and_the_scale_found_go_through_the_block(tmp_path, monkeypatch) -> None:
    slid = FoundMotion("box", "e" * 32, still_track(0.1), {}, {}, thing())
    quat = np.tile([1.0, 0, 0, 0], (30, 1))
    rows = np.concatenate([slid.track.T_world_object[:, :3, 3] + 0.01, quat], axis=1)
    columns = tuple(Column(name, "m" if name in "xyz" else "1", "world") for name in COLUMNS)
    episode = Episode.of({"box_pose": Signal("box_pose", "pose", columns, slid.track.time_s, rows)}, {}, source="made")
    here, given = bench(tmp_path), list[Track | None]()
    part: Any = SimpleNamespace(recording=SimpleNamespace(episodes=here.calibration.recording.episodes, rig=Rig("arm")))
    here = replace(here, calibration=part)
    monkeypatch.setattr(Workbench, "motion", lambda *_: (slid, episode))

    def told(_bench, _thing, motion: FoundMotion, _episode, track: Track | None) -> FoundJoint:
        given.append(track)
        return FoundJoint("box", "e" * 32, motion.track, {}, {}, {}, 2.0, 1.0, 3, (), 1.02)

    monkeypatch.setattr(moving, "_refined", told)
    whole, said = refined(here, box(0.1), Shaping())
    assert given[0] is not None
    assert np.allclose(given[0].T_world_object[:, :3, 3], slid.track.T_world_object[:, :3, 3], atol=1e-6)
    assert whole.found.mesh.volume_m3 == pytest.approx(1.02**3 * box(0.1).mesh.volume_m3)
    assert any("box_pose joins the refinement of box" in note for note in said)


def test_a_resized_object_stands_on_the_same_spot() -> None:
    larger = resized(box(0.1), 1.1)
    low = [float(each.mesh.moved(each.T_world_object).vertices[:, 2].min()) for each in (box(0.1), larger)]
    assert low[1] == pytest.approx(low[0], abs=1e-9)
    assert larger.mesh.volume_m3 == pytest.approx(1.1**3 * box(0.1).mesh.volume_m3)
    assert np.allclose(larger.splats.means, 1.1 * thing().means, atol=1e-6)


def test_motion_along_one_line_is_a_hint_and_no_more() -> None:
    slid = FoundMotion("box", "e" * 32, still_track(0.1), {}, {}, thing())
    assert "--joint-of box" in _hint(slid, 0.1)[0]
    assert joint_of(slid, 0.1).kind is Kind.SLIDE
    few = replace(slid, track=replace(slid.track, lost=np.arange(30) > 4))
    assert _hint(few, 0.1) == ()
    assert motion().name == "box"


def test_a_joint_that_the_track_does_not_show_is_refused() -> None:
    still = FoundMotion("box", "e" * 32, still_track(0.0), {}, {}, thing())
    with pytest.raises(TwinError, match="--joint-of box: the body did not move beyond its noise"):
        held_by(box(0.1), still, {})
    whole = held_by(box(0.1), replace(still, track=still_track(0.12)), {})
    assert whole.joint is not None
    assert whole.joint.range[1] == pytest.approx(0.12, abs=0.005)
    assert np.allclose(whole.T_world_object, whole.joint.T_parent_body)


def test_a_hinge_far_from_the_thing_is_a_slide_whose_turns_were_tracked_badly() -> None:
    slid = FoundMotion("box", "e" * 32, still_track(0.1), {}, {}, thing())
    turned = np.array([nudged(T, np.r_[0, 0, 0, 0, 0.1 * k / 29, 0]) for k, T in enumerate(slid.track.T_world_object)])
    tilted = replace(slid, track=replace(slid.track, T_world_object=turned))
    assert joint_of(tilted, 5.0).kind is Kind.HINGE
    found = joint_of(tilted, 0.1)
    assert found.kind is Kind.SLIDE
    assert np.abs(found.axis) == pytest.approx([1, 0, 0], abs=0.02)


def test_torques_of_the_episode_reach_the_refinement(tmp_path, monkeypatch) -> None:
    clips, known = recorded(0)
    bare = {n: np.round(255 * p).astype(np.uint8) for n, p in known.items()}
    seen = FoundMotion("box", "e" * 32, separate(0), {}, bare, thing())
    time_s = np.arange(0, 1.2001, 0.01)
    way = Signal("way", "joint_position", (Column("push", "m"),), time_s, angle_at(time_s)[:, None])
    force = Signal("force", "joint_torque", (Column("push", "N"),), time_s, np.zeros((len(time_s), 1)))
    robot = SCENE[: SCENE.index('  <body name="box"')] + SCENE[SCENE.index("</worldbody>") :]
    room: Any = SimpleNamespace(
        scene=Scene(robot.replace('name="floor"', 'name="ground"')), table=Plane(), physical=Physical(),
        found=calibrated(), cameras={}, robot="arm",
    )  # fmt: skip
    part: Any = SimpleNamespace(recording=SimpleNamespace(episodes=[], rig=Rig("arm", (Joint("push"),))))
    monkeypatch.setattr(Workbench, "clips", lambda *_: clips)
    said = []
    for signals in ({"way": way}, {"way": way, "force": force}):
        episode = Episode.of(signals, {}, source="made")
        here = Workbench(part, room, episode, Store(tmp_path), "a" * 64, quiet)
        found = moving._refined(here, box(0.1), seen, episode, None)
        assert found.cost < found.first_cost
        assert "vertices stay" in found.reshaped
        said.append(found.torques)
    assert "the episode has no joint_torque" in said[0]
    assert "torques of touch are not part of it: the object stands still in fewer than 5" in said[1]
