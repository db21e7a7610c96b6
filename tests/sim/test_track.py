"""Objects followed through pictures: planted poses come out, with the error that is claimed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2

from tests.sim.tracking import HALF, NOISE, SIZE, box_mesh, cameras, pictures, plates, sights, standing, thing
from twinproof.nouns.clip import Clip
from twinproof.nouns.errors import MeshError, RecordingError, SplatError
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.randomness import stream
from twinproof.nouns.rig import Intrinsics
from twinproof.nouns.splats import Splats
from twinproof.sim.render_camera import Camera
from twinproof.sim.splat.render import render
from twinproof.sim.track import Following, Rest, Tracker
from twinproof.sim.track_clips import times_of, track
from twinproof.sim.track_fit import Followed, Pixels, boxes, pulls, slopes
from twinproof.sim.track_object import inset, learnt, surface_splats
from twinproof.sim.track_pose import Track, by_camera, move_between, nudged
from twinproof.sim.track_sight import plate_of, projected, pyramid, sight


def near(T: np.ndarray, rng: np.random.Generator, m: float = 0.004, rad: float = 0.06) -> np.ndarray:
    return nudged(T, np.r_[rng.normal(0, m, 3), rng.normal(0, rad, 3)])


def followed(T: np.ndarray, rng: np.random.Generator, how: Following | None = None, **more: object) -> tuple:
    tracker = Tracker(thing(), how)
    tracker.restart(near(T, rng))
    pose = tracker.step(sights(T, rng, **more), 0.0)
    return pose, move_between(pose.T_world_object, T)


def test_a_planted_pose_is_found_whatever_the_exposure() -> None:
    rng = stream(0, "exposure")
    T = standing(0.02, -0.01, 0.7)
    pose, error = followed(T, rng, gains=(0.8, 1.1, 1.2))
    assert np.linalg.norm(error[:3]) < 3e-4
    assert np.linalg.norm(error[3:]) < 0.01
    assert not pose.lost
    assert pose.seen > 0.99
    assert pose.explained > 0.9


def test_ninety_percent_ellipsoids_cover_about_ninety_percent() -> None:
    rng = stream(1, "coverage")
    inside = []
    for _ in range(30):
        T = nudged(standing(), np.r_[rng.normal(0, 0.02, 3), rng.normal(0, 0.1, 2), rng.uniform(-3, 3)])
        pose, error = followed(T, rng)
        inside.append(error @ np.linalg.solve(pose.covariance, error) < chi2.ppf(0.9, 6))
    assert 0.75 <= np.mean(inside) <= 1.0


def test_an_outline_alone_places_an_object() -> None:
    rng = stream(2, "masks")
    T = standing(-0.01, 0.02, 0.4)
    seen = [render(thing(), camera, moved={"object": T}).alpha > 0.5 for camera in cameras()]
    tracker = Tracker(thing())
    tracker.restart(near(T, rng))
    pose = tracker.step([sight(c, None, None, None, mask) for c, mask in zip(cameras(), seen, strict=True)], 0.0)
    error = move_between(pose.T_world_object, T)
    assert np.linalg.norm(error[:3]) < 0.0015
    assert np.linalg.norm(error[3:]) < 0.08
    assert pose.explained > 0.8


def test_what_the_robot_hides_does_not_pull() -> None:
    rng = stream(3, "robot")
    T = standing(0.0, 0.0, 0.3)
    seen = pictures(T, rng)
    robot = np.zeros((SIZE[1], SIZE[0]), bool)
    robot[:, SIZE[0] // 2 :] = True
    for picture in seen:
        picture[robot] = (1.0, 0.1, 0.1)
    tracker = Tracker(thing())
    tracker.restart(near(T, rng))
    ready = [sight(c, p, b, robot) for c, p, b in zip(cameras(), seen, plates(), strict=True)]
    pose = tracker.step(ready, 0.0)
    error = move_between(pose.T_world_object, T)
    assert np.linalg.norm(error[:3]) < 1e-3
    assert 0.2 < pose.seen < 0.8


def test_a_robot_behind_the_object_hides_nothing_of_it() -> None:
    rng = stream(4, "depth")
    T = standing()
    behind = np.full((SIZE[1], SIZE[0]), 5.0, np.float32)
    thing_ = Followed.of(thing())
    for depth, least, most in ((behind, 0.4, 1.0), (behind * 0.01, 0.0, 0.01)):
        ready = [sight(c, p, b, depth) for c, p, b in zip(cameras(), pictures(T, rng), plates(), strict=True)]
        poses = [T] * 3
        found = pulls(thing_, ready, poses, boxes(thing_, ready, poses, 4.0), Pixels())
        share = sum(pull.open for pull in found if pull) / sum(pull.cover for pull in found if pull)
        assert least <= share <= most


def test_a_lost_object_is_found_where_cameras_see_a_difference() -> None:
    rng = stream(5, "lost")
    T = standing(0.05, -0.04, 2.5)
    tracker = Tracker(thing(), Following(rest=Rest(standing())))
    pose = tracker.step(sights(T, rng), 0.0)
    error = move_between(pose.T_world_object, T)
    assert not pose.lost
    assert np.linalg.norm(error[:3]) < 1e-3
    assert abs(error[5]) < 0.02
    nothing = tracker.step([sight(c, b, b) for c, b in zip(cameras(), plates(), strict=True)], 0.1)
    assert nothing.lost
    again = tracker.step(sights(standing(-0.03, 0.03, 2.0), rng), 0.2)
    assert not again.lost
    assert np.linalg.norm(again.T_world_object[:2, 3] - [-0.03, 0.03]) < 1e-3


def test_nothing_anywhere_is_lost_without_a_pose() -> None:
    pose = Tracker(thing()).step([sight(c, b, b) for c, b in zip(cameras(), plates(), strict=True)], 0.0)
    assert pose.lost
    assert np.isfinite(pose.covariance).all()


def test_a_table_ties_height_and_tilt_until_the_object_is_lifted() -> None:
    rng = stream(6, "rest")
    how = Following(rest=Rest(standing(), sd_m=5e-5))
    pose, error = followed(standing(0.01, 0.0, 0.5), rng, how, noise=0.05)
    assert pose.rests
    assert abs(error[2]) < 3e-4
    loose, _ = followed(standing(0.01, 0.0, 0.5), stream(6, "rest"), None, noise=0.05)
    assert pose.covariance[2, 2] < loose.covariance[2, 2]
    lifted = nudged(standing(), np.array([0, 0, 0.03, 0, 0, 0.2]))
    tracker = Tracker(thing(), how)
    tracker.restart(near(lifted, rng))
    pose = tracker.step(sights(lifted, rng), 0.0)
    assert not pose.rests
    assert np.linalg.norm(move_between(pose.T_world_object, lifted)[:3]) < 5e-4


def test_stated_errors_of_cameras_are_part_of_the_covariance() -> None:
    rng = stream(7, "cameras")
    T, inside = standing(), []
    for _ in range(12):
        off = [nudged(c.T_world_camera, np.r_[rng.normal(0, 0.002, 3), rng.normal(0, 0.002, 3)]) for c in cameras()]
        tracker = Tracker(thing(), Following(camera_sd_m=0.002, camera_sd_rad=0.002))
        tracker.restart(T)
        ready = [replace(s, camera=Camera(s.camera.lens, w)) for s, w in zip(sights(T, rng), off, strict=True)]
        pose = tracker.step(ready, 0.0)
        error = move_between(pose.T_world_object, T)
        inside.append(error @ np.linalg.solve(pose.covariance, error) < chi2.ppf(0.9, 6))
    assert np.mean(inside) >= 0.7
    assert np.sqrt(pose.covariance[0, 0]) > 5e-4


def test_moving_the_camera_is_moving_the_object_the_other_way() -> None:
    T, camera = standing(0.02, 0.01, 0.3), cameras()[0].T_world_camera
    move = np.array([1e-5, -2e-5, 1.5e-5, 2e-5, -1e-5, 3e-5])
    before, after = np.linalg.inv(camera), np.linalg.inv(nudged(camera, move))
    seen = nudged(T, by_camera(camera, T[:3, 3]) @ move)
    np.testing.assert_allclose(before @ seen, after @ T, atol=1e-8)


def test_slopes_and_costs_agree() -> None:
    rng = stream(8, "slopes")
    T, ready, box = near(standing(), rng, 0.001, 0.01), sights(standing(), rng), Followed.of(thing())
    poses, how = [T] * 3, Pixels(shade_sd=1e-6)
    crops = boxes(box, ready, poses, 6.0)
    by = slopes(box, ready, poses, crops, how, scale=True)
    found = pulls(box, ready, poses, crops, how, by=by)
    sigmas = [pull.sigma if pull else 0.0 for pull in found]
    gradient = sum(pull.gradient for pull in found if pull)
    assert gradient.shape == (7,)
    for k in (0, 5):
        step = np.eye(6)[k] * (1e-4 if k < 3 else 3e-3)
        ends = [pulls(box, ready, [nudged(T, s * step)] * 3, crops, how, sigmas) for s in (1, -1)]
        slope = np.subtract(*[sum(p.cost for p in end if p) for end in ends]) / (2 * step[k])
        assert -slope == pytest.approx(gradient[k], rel=0.05, abs=0.02 * np.abs(gradient).max())


def clips_of(poses, rng: np.random.Generator, later_s: float = 0.0, robot: bool = False) -> list[Clip]:
    lens = cameras()[0].lens
    known = Intrinsics(lens.fx, lens.fy, lens.cx, lens.cy)
    made = []
    for c, camera in enumerate(cameras()):
        time_s = np.arange(8) * 0.05 + c * later_s
        seen = [pictures(poses(t), rng)[c] for t in time_s]
        rgb = np.stack([np.clip(255 * p + 0.5, 0, 255).astype(np.uint8) for p in seen])
        hides = np.zeros((8, SIZE[1], SIZE[0]), bool) if robot else None
        made.append(Clip(f"c{c}", time_s, rgb, known, np.tile(camera.T_world_camera, (8, 1, 1)), hides))
    return made


def test_cameras_that_expose_at_other_times_see_one_motion() -> None:
    def poses(t: float) -> np.ndarray:
        return standing(0.2 * t - 0.04, 0.05 * t, 0.5 * t)

    clips = clips_of(poses, stream(9, "clips"), later_s=0.012, robot=True)
    known = {f"c{c}": plate for c, plate in enumerate(plates())}
    found = track(Tracker(thing(), Following(rest=Rest(standing()))), clips, known, poses(0.0))
    error = np.array([move_between(T, poses(t)) for T, t in zip(found.T_world_object, found.time_s, strict=True)])
    assert not found.lost.any()
    assert np.linalg.norm(error[1:-1, :3], axis=1).max() < 6e-4
    assert len(found) == 8
    assert (found.sd_m > 0).all()
    assert (found.sd_rad > 0).all()
    assert [len(group) for group in times_of(clips)[1]] == [3] * 8


def test_background_splats_stand_in_for_plates() -> None:
    wall = np.stack(np.meshgrid(np.linspace(-0.6, 0.6, 40), np.linspace(-0.6, 0.6, 40)), axis=-1).reshape(-1, 2)
    count = len(wall)
    means = np.concatenate([wall, np.full((count, 1), -0.01)], axis=1)
    grey = stream(10, "wall").normal(0, 0.5, (count, 1, 3))
    floor = Splats(
        means, np.tile([1.0, 0, 0, 0], (count, 1)), np.full((count, 3), np.log(0.025)), np.full(count, 5.0), grey,
        np.zeros(count, np.int32),
    )  # fmt: skip
    T = standing(0.01, 0.0, 0.2)
    camera = cameras()[0]
    clean = render(floor, camera).colour
    drawn = render(thing(), camera, moved={"object": T})
    rgb = np.clip(255 * (drawn.colour + (1 - drawn.alpha[..., None]) * clean), 0, 255).astype(np.uint8)
    lens = camera.lens
    clip = Clip(
        "c0", np.zeros(1), rgb[None], Intrinsics(lens.fx, lens.fy, lens.cx, lens.cy), camera.T_world_camera[None]
    )
    found = track(
        Tracker(thing(), Following(rest=Rest(standing()))), [clip], floor, nudged(T, np.r_[0.004, 0, 0, 0, 0, 0.05])
    )
    assert np.linalg.norm(found.T_world_object[0][:2, 3] - T[:2, 3]) < 2e-3


def test_colours_are_learnt_from_pictures_of_known_poses() -> None:
    rng = stream(11, "learn")
    grey = surface_splats(box_mesh(), 0.0075, 0.006)
    poses = [standing(0, 0, yaw) for yaw in (0.0, 1.5, 3.0, 4.5)]
    ready = [each for T in poses for each in sights(T, rng)]
    where = [T for T in poses for _ in range(3)]
    coloured = learnt(grey, ready, where)
    off = np.abs(coloured.sh - thing().sh).mean(), np.abs(grey.sh - thing().sh).mean()
    assert off[0] < 0.45 * off[1]
    nobody = learnt(grey, [sight(cameras()[0], None, None, None, np.zeros((SIZE[1], SIZE[0]), bool))], [poses[0]])
    assert nobody is grey


def test_splats_on_a_surface_keep_its_outline() -> None:
    camera = cameras()[0]
    for spacing in (0.004, 0.008):
        drawn = render(surface_splats(box_mesh(), spacing, 0.0058, (1, 0, 0)), camera, moved={"object": standing()})
        corners, _ = projected(box_mesh().moved(standing()).vertices, camera)
        rows, columns = np.nonzero(drawn.alpha > 0.5)
        assert abs((columns.max() - columns.min() + 1) - np.ptp(corners[:, 0])) < 1.3
        assert abs((rows.max() - rows.min() + 1) - np.ptp(corners[:, 1])) < 1.3
    assert np.allclose(np.abs(inset(box_mesh(), 0.004).vertices), HALF - 0.004, atol=4e-4)


def test_a_plate_is_what_stays_when_robot_and_objects_pass() -> None:
    rng = stream(12, "plate")
    seen, apart = [], []
    for k in range(6):
        picture = plates()[0] * (1 + 0.03 * k) + rng.normal(0, 0.01, plates()[0].shape)
        hides = np.zeros(picture.shape[:2], bool)
        hides[:, 10 * k : 10 * k + 20] = True
        hides[:5, :5] = True
        picture[hides] = 0.9
        seen.append(picture)
        apart.append(hides)
    plate = plate_of(seen, apart)
    assert np.isnan(plate[:5, :5]).all()
    known = np.isfinite(plate)
    assert np.abs(plate[known] - plates()[0][known]).mean() < 0.01
    assert not np.isnan(sight(cameras()[0], seen[0], plate).plate).any()


def test_half_pictures_see_the_same_rays() -> None:
    ready = pyramid(sights(standing(), stream(13, "half"))[0], 5)
    assert [each.camera.lens.width for each in ready] == [96, 48, 24]
    big, small = ready[0].camera.lens, ready[1].camera.lens
    assert (0.5 - big.cx) / big.fx == pytest.approx((0 - small.cx) / small.fx)


def test_sights_that_tell_nothing_are_refused() -> None:
    camera, plate = cameras()[0], plates()[0]
    with pytest.raises(SplatError, match="neither a picture nor a mask"):
        sight(camera, None, None)
    with pytest.raises(SplatError, match="without a plate"):
        sight(camera, plate, None)
    with pytest.raises(SplatError, match=r"the plate has the shape \(2, 2, 3\)"):
        sight(camera, plate, np.zeros((2, 2, 3)))
    with pytest.raises(SplatError, match="without splats"):
        Tracker(thing().take(np.zeros(len(thing()), bool)))


def test_clips_that_cannot_be_followed_are_refused() -> None:
    clips = clips_of(lambda t: standing(), stream(14, "bad"))
    with pytest.raises(RecordingError, match="there is no clip"):
        times_of([])
    with pytest.raises(RecordingError, match="camera c1 has no plate and no masks"):
        track(Tracker(thing()), clips, {"c0": plates()[0]}, standing())
    moving = np.array(clips[0].T_world_camera)
    moving[3:, 0, 3] += 0.01
    with pytest.raises(RecordingError, match="camera c0 moves"):
        track(Tracker(thing()), [replace(clips[0], T_world_camera=moving)], {"c0": plates()[0]}, standing())
    with pytest.raises(RecordingError, match="track: lost has the shape"):
        Track(np.zeros(1), np.eye(4)[None], np.eye(6)[None], np.ones(1), np.ones(1), np.zeros(2, bool))


def test_surfaces_that_cannot_be_covered_are_refused() -> None:
    with pytest.raises(MeshError, match="cannot lie 0 m apart"):
        surface_splats(box_mesh(), 0, 0.005)
    with pytest.raises(MeshError, match="1 to 20000 can be followed"):
        surface_splats(Mesh(box_mesh().vertices * 1000, box_mesh().faces), 0.01, 0.005)
    assert NOISE < 0.05
