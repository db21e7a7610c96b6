"""Pictures for policies, drawn from a twin's splats: they show where things are."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from tests.tasks.looks import DEAR, DOWN, SCENE, red_cube
from twinproof.nouns.errors import TaskError
from twinproof.nouns.randomization import Randomization, Range
from twinproof.nouns.rig import Mount
from twinproof.nouns.robot import Observation, Picture
from twinproof.nouns.source import Declared
from twinproof.nouns.theta import Theta
from twinproof.nouns.twin import Alignment, Body, Twin
from twinproof.sim.parameters.resolve import parameter
from twinproof.sim.render_camera import Camera, Lens
from twinproof.sim.scene import Scene, engine
from twinproof.sim.splat.render import render
from twinproof.tasks import push
from twinproof.tasks.arena import Arena, Play
from twinproof.tasks.eyes import SplatEyes, averaged, eyes_for, pictures_of, with_pictures
from twinproof.tasks.sensed import Sensed
from twinproof.tasks.task import Setup


@pytest.fixture(scope="module")
def twin(tmp_path_factory):
    return red_cube(tmp_path_factory.mktemp("twin"))


@pytest.fixture(scope="module")
def task(twin):
    return push.of(twin, home={"turn": 0.0})


def red_at(picture):
    """The middle of what is red, in pixels (x, y)."""
    redness = np.clip(picture[..., 0].astype(float) - picture[..., 1], 0, None)
    y, x = np.mgrid[: picture.shape[0], : picture.shape[1]]
    return np.array([(redness * x).sum(), (redness * y).sum()]) / redness.sum()


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_pictures_show_where_the_object_is_in_each_world(twin, task, kind):
    eyes = SplatEyes(twin, ("above",))
    arena = Arena(twin, with_pictures(task, eyes), 2, play=Play(bank=2, nthread=1), arrays=kind, eyes=eyes)
    setups = [Setup((0.4, 0.0), at, 0.0) for at in ((0.3, 0.0), (0.4, 0.1))]
    seen = np.asarray(arena.reset(setups=setups)["image.above"])
    assert seen.shape == (2, 48, 64, 3)
    assert seen.dtype == np.uint8
    np.testing.assert_allclose(red_at(seen[0]), [31.5, 23.5], atol=1.0)
    # 60 px at 0.77 m: 0.1 m are 7.8 px; +y of the world is up in the picture
    np.testing.assert_allclose(red_at(seen[1]) - red_at(seen[0]), [7.8, -7.8], atol=1.0)
    after = np.asarray(arena.step(arena.sensed.last).observations["image.above"])
    np.testing.assert_allclose(after.astype(int), seen, atol=13)


def test_a_camera_on_the_hand_turns_with_it(twin, task):
    eyes = SplatEyes(twin, ("wrist",), width=32)
    arena = Arena(twin, with_pictures(task, eyes), 1, play=Play(bank=1, nthread=1), eyes=eyes)
    at = {"at_m": (0.3, 0.0)}
    straight = arena.reset(setups=[Setup((0.4, 0.0), **at)])["image.wrist"][0]
    turned = arena.reset(setups=[Setup((0.4, 0.0), joints={"turn": 0.3}, **at)])["image.wrist"][0]
    assert eyes.shape == (24, 32, 3)
    np.testing.assert_allclose(red_at(straight), [15.5, 11.5], atol=1.0)
    assert np.linalg.norm(red_at(turned) - red_at(straight)) > 2


def test_a_policy_may_see_pictures_and_no_tracker_on_a_robot_too(twin, task):
    eyes = SplatEyes(twin, ("above",))
    blind = with_pictures(task, eyes, tracker=False)
    names = [channel.name for channel in blind.deployable.observations]
    assert "object_position" not in names
    assert names[-1] == "image.above"
    arena = Arena(twin, blind, 1, play=Play(bank=1, nthread=1), eyes=eyes)
    assert set(arena.reset()) == {channel.name for channel in blind.contract.observations}
    shot = Picture(0.0, np.full((96, 128, 3), 128, np.uint8))
    report = Observation(0.0, np.zeros(1), np.zeros(1), np.zeros(1), {"above": shot})
    sensed = replace(Sensed.of_robot(report, np.array([0.4, 0.0])), images=pictures_of(report.images, eyes))
    seen = blind.observe(sensed)
    assert list(seen) == names
    assert (seen["image.above"] == 128).all()
    assert seen["image.above"].dtype == np.uint8


def test_experts_and_critics_still_see_what_a_tracker_would_give(twin, task):
    eyes = SplatEyes(twin, ("above",))
    blind = with_pictures(task, eyes, tracker=False)
    assert "object_position" in blind.contract.privileged
    arena = Arena(twin, blind, 1, play=Play(bank=1, nthread=1), eyes=eyes)
    assert arena.reset()["object_position"].shape == (1, 3)


def test_a_contract_says_what_eyes_it_needs(twin, task):
    eyes = SplatEyes(twin, ("above",), width=32)
    seen = with_pictures(task, eyes).deployable
    found = eyes_for(seen, twin)
    assert (found.names, found.shape) == (eyes.names, (24, 32, 3))
    assert eyes_for(task.deployable, twin) is None
    square = [replace(c, shape=(32, 32, 3)) if len(c.shape) == 3 else c for c in seen.observations]
    with pytest.raises(
        TaskError, match="the policy sees 'image.above' of the shape .* the twin's camera shows 32 × 24"
    ):
        eyes_for(replace(seen, observations=tuple(square)), twin)


@pytest.mark.parametrize(("size", "wanted"), [((180, 240), (48, 64)), ((7, 9), (3, 4)), ((48, 64), (48, 64))])
def test_a_pixel_is_the_mean_of_what_it_covers_in_parts_too(size, wanted):
    rgb = np.random.default_rng(0).integers(0, 256, (*size, 3)).astype(np.uint8)
    found = averaged(rgb, "above", *wanted)
    fine = np.repeat(np.repeat(rgb.astype(float), wanted[0], axis=0), wanted[1], axis=1)  # parts become whole
    blocks = fine.reshape(wanted[0], size[0], wanted[1], size[1], 3).mean(axis=(1, 3))
    np.testing.assert_allclose(found, blocks, atol=0.5 + 1e-9)
    assert (averaged(np.full_like(rgb, 77), "above", *wanted) == 77).all()
    with pytest.raises(TaskError, match="is wanted. Take the whole picture, of the same shape and at least as large"):
        averaged(rgb, "above", 2 * size[0], 2 * size[1])


def test_what_cannot_be_seen_is_said(twin, tmp_path):
    eyes = SplatEyes(twin, ("above",))
    with pytest.raises(TaskError, match="the twin has no camera 'abov'. Did you mean 'above'"):
        SplatEyes(twin, ("abov",))
    with pytest.raises(TaskError, match="the robot gave no picture of camera 'above'"):
        pictures_of({}, eyes)
    with pytest.raises(TaskError, match="the picture of camera 'above' is 100 × 48, and 64 × 48 is wanted"):
        pictures_of({"above": Picture(0.0, np.zeros((48, 100, 3), np.uint8))}, eyes)
    tall = replace(twin.cameras["above"], height=64)
    with pytest.raises(TaskError, match="the cameras above, wrist have pictures of different shapes"):
        SplatEyes(replace(twin, cameras={**twin.cameras, "above": tall}))
    (tmp_path / "scene.xml").write_text(SCENE)
    lacks = {"mesh": "none", "splats": "none"}
    bodies = tuple(Body(name, DEAR, lacks=lacks) for name in ("cube", "hand"))
    bare = Twin(tmp_path, bodies, Alignment(DEAR), engine(), (), {})
    with pytest.raises(TaskError, match="the twin has no splats, so nothing can be seen of it"):
        SplatEyes(bare)


CAMERAS = """
    <camera name="above" pos=".3 0 .8" fovy="43.6"/>
  </worldbody>"""


@pytest.fixture(scope="module")
def drawable(tmp_path_factory):
    """The twin, with its camera above in the scene too, so that draws can move it."""
    root = tmp_path_factory.mktemp("drawable")
    twin = red_cube(root)
    (root / "scene.xml").write_text(SCENE.replace("\n  </worldbody>", CAMERAS))
    return replace(twin, cameras={"above": twin.cameras["above"]})


AT = Setup((0.4, 0.0), (0.3, 0.0), 0.0)
MOVED = (
    Theta(),
    Theta({"camera.above.x": 0.4}),
    Theta({"camera.above.roll": np.pi / 2, "camera.above.x": 0.2}),
    Theta({"camera.above.fovy": 2 * np.arctan(0.5 * np.tan(np.radians(43.6) / 2)), "camera.above.x": 0.4}),
)


def seen_from(twin, eyes, thetas):
    task = with_pictures(push.of(twin, home={"turn": 0.0}), eyes)
    arena = Arena(twin, task, len(thetas), draws=list(thetas), play=Play(bank=8, nthread=1), eyes=eyes)
    return np.asarray(arena.reset(setups=[AT] * len(thetas), thetas=list(thetas))[f"image.{eyes.names[0]}"])


def test_each_world_sees_through_the_camera_that_its_draw_put_there(drawable):
    seen = seen_from(drawable, SplatEyes(drawable, ("above",)), MOVED)
    middle = np.array([31.5, 23.5])
    np.testing.assert_allclose(red_at(seen[0]), middle, atol=0.5)
    # 60 px at 0.77 m: a camera that stands 0.1 m further along +x sees the cube 7.8 px to the left
    np.testing.assert_allclose(red_at(seen[1]) - middle, [-7.8, 0.0], atol=0.7)
    # turned by a right angle about its view, from x to y: what was at the right is at the top
    np.testing.assert_allclose(red_at(seen[2]) - middle, [0.0, -7.8], atol=0.7)
    np.testing.assert_allclose(red_at(seen[3]) - middle, [-15.6, 0.0], atol=1.2)


def test_a_new_episode_is_seen_through_its_own_camera(drawable):
    eyes = SplatEyes(drawable, ("above",))
    first = seen_from(drawable, eyes, MOVED)
    np.testing.assert_array_equal(seen_from(drawable, eyes, MOVED[::-1]), first[::-1])
    np.testing.assert_array_equal(seen_from(drawable, eyes, MOVED[1:3]), first[1:3])
    np.testing.assert_array_equal(seen_from(drawable, SplatEyes(drawable, ("above",)), MOVED), first)
    np.testing.assert_array_equal(seen_from(drawable, pickle.loads(pickle.dumps(eyes)), MOVED), first)
    assert len({one.tobytes() for one in first}) == len(MOVED)


def test_pictures_are_those_of_all_splats_drawn_together(twin, task):
    eyes = SplatEyes(twin, ("above",))
    arena = Arena(twin, with_pictures(task, eyes), 2, play=Play(bank=2, nthread=1), eyes=eyes)
    seen = arena.reset(setups=[Setup((0.4, 0.0), at, 0.0) for at in ((0.3, 0.0), (0.4, 0.1))])["image.above"]
    camera = Camera(Lens(64, 48, 60.0, 60.0, 31.5, 23.5), twin.cameras["above"].mount.T_parent_camera)
    for at, picture in zip(arena.backing.view("xpos")[:, 2] - [0.3, 0.0, 0.03], seen, strict=True):
        moved = np.eye(4)
        moved[:3, 3] = at
        wanted = 255 * render(eyes.splats, camera, moved={"cube": moved}).over()
        gaps = np.abs(picture - np.round(wanted))
        assert np.percentile(gaps, 95) <= 1
        assert gaps.max() <= 110  # where the cube stands in the table's splats


class Stood:
    """Worlds for who draws, their bodies put where one likes."""

    def __init__(self, model, xpos):
        self.xp, self.model, self.patient = np, model, True
        self._held = {"xpos": np.array(xpos), "xquat": np.tile([1.0, 0, 0, 0], (*np.shape(xpos)[:2], 1))}

    def view(self, name):
        return self._held[name]


@pytest.mark.parametrize("holds", ["", "<freejoint/>"])
def test_a_body_that_stands_is_seen_where_each_world_has_it(tmp_path, holds):
    twin = red_cube(tmp_path)
    (tmp_path / "scene.xml").write_text(SCENE.replace("<freejoint/>", holds))
    eyes, model = SplatEyes(twin, ("above",)), Scene.of(twin).nominal()
    for first, second in ((0.3, 0.4), (0.35, 0.3)):
        seen = eyes.see(Stood(model, [[[0, 0, 0], [0, 0, 0.3], [x, 0, 0.03]] for x in (first, second)]))["above"]
        places = np.array([red_at(one)[0] for one in seen])
        np.testing.assert_allclose(places, 31.5 + 60 / 0.77 * (np.array([first, second]) - 0.3), atol=0.7)


@pytest.mark.parametrize("holds", ["", "<freejoint/>"])
def test_a_camera_on_a_body_looks_from_where_each_world_has_it(tmp_path, holds):
    twin = red_cube(tmp_path)
    (tmp_path / "scene.xml").write_text(SCENE.replace("<freejoint/>", holds))
    on_cube = replace(twin.cameras["above"], mount=Mount("cube", (0.1, 0.0, 0.77), DOWN))
    eyes, model = SplatEyes(replace(twin, cameras={"above": on_cube}), ("above",)), Scene.of(twin).nominal()
    seen = eyes.see(Stood(model, [[[0, 0, 0], [0, 0, 0.3], [x, 0, 0.03]] for x in (0.3, 0.65)]))["above"]
    for picture in seen:
        np.testing.assert_allclose(red_at(picture), [31.5 - 7.8, 23.5], atol=0.7)
    dark = (seen.max(axis=-1) < 20).mean(axis=(1, 2))  # beside the table, which ends at 0.7
    assert dark[0] < 0.1 < 0.3 < dark[1]


def test_camera_ranges_reach_the_pictures_of_episodes_by_their_seeds(drawable):
    info = parameter("camera.above.x").info
    ranges = Randomization(
        (Range(info, 0.2, 0.4, 0.3, Declared("planted"), "camera", "its place", "outlines", "a nudge"),), {}
    )
    eyes = SplatEyes(drawable, ("above",), width=32)
    task = with_pictures(push.of(drawable, home={"turn": 0.0}), eyes)

    def first(seed):
        arena = Arena(drawable, task, 4, draws=ranges, seed=seed, play=Play(bank=4, nthread=1), eyes=eyes)
        found = np.asarray(arena.reset(setups=[AT] * 4, seeds=[seed * 10 + k for k in range(4)])["image.above"])
        return np.array([red_at(one)[0] for one in found])

    assert np.ptp(first(1)) > 2  # 0.2 m are 7.8 px of 32
    np.testing.assert_array_equal(first(1), first(1))
    assert not np.allclose(first(1), first(2))


def test_pictures_come_late_by_each_worlds_own_draw(drawable):
    eyes = SplatEyes(drawable, ("above",))
    task = with_pictures(push.of(drawable, home={"turn": 0.0}), eyes)
    thetas = [Theta(), Theta({"image.latency": 1.2 * task.period_s}), Theta({"image.latency": 2 * task.period_s})]
    arena = Arena(drawable, task, 3, draws=thetas, play=Play(bank=3, nthread=1), eyes=eyes)
    arena.reset(setups=[AT] * 3, thetas=thetas)
    speed = arena.backing.view("qvel")
    speed[:, 1] = 1.0  # the cube slides along +x, in all worlds alike
    seen, still = [], arena.sensed.last * 0
    for _ in range(4):
        pictures = np.asarray(arena.step(still).observations["image.above"])
        seen.append([red_at(one)[0] for one in pictures])
    seen = np.array(seen)
    assert seen[1, 0] > 32.5
    np.testing.assert_allclose(seen[1:, 1], seen[:-1, 0], atol=1e-9)
    np.testing.assert_allclose(seen[2:, 2], seen[:-2, 0], atol=1e-9)
    begun = np.asarray(arena.reset(setups=[AT] * 3, thetas=thetas)["image.above"])
    np.testing.assert_array_equal(begun[0], begun[2])  # nothing is older than the episode
