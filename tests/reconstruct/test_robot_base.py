"""Edges of the base tell how all cameras are turned about it, which nothing else does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr

from tests.reconstruct.test_robot_calibrate import ARM, JOINTS, LATE_S, OFFSETS, taken  # noqa: F401
from twinproof.nouns.randomness import stream
from twinproof.reconstruct.edge_marks import Drawn, marks, step
from twinproof.reconstruct.robot_base import Base, Told, sharpened, standing
from twinproof.reconstruct.robot_calibrate import MOST_JOINT, _within, calibrate
from twinproof.reconstruct.robot_doubt import Unknowns
from twinproof.reconstruct.robot_fit import CAMERA, Guess, Level, Robot, shrunk_lens
from twinproof.reconstruct.robot_look import Look
from twinproof.reconstruct.robot_starts import Starts
from twinproof.sim.link_edges import link_edges
from twinproof.sim.link_splats import LinkPoses, link_splats
from twinproof.sim.ray_scene import linear
from twinproof.sim.render_camera import Camera
from twinproof.sim.render_rays import Rays
from twinproof.sim.world import World, compile_text

UNKNOWNS = Unknowns(("front", "side"), JOINTS)
AXIS = np.array([0.0, 0.0, 1.0])
WAIST = len(UNKNOWNS) - len(JOINTS)  # the first joint's offset


def turned(truth: Guess, by_rad: float) -> tuple[Guess, np.ndarray]:
    """The guess with all cameras turned about the base and the first joint with them, and that direction."""
    way = np.zeros(len(UNKNOWNS))
    for k, name in enumerate(UNKNOWNS.cameras):
        T, first = truth.cameras[name].T_world_camera, k * len(CAMERA)
        way[first : first + 3] = T[:3, :3].T @ AXIS
        way[first + 3 : first + 6] = np.cross(AXIS, T[:3, 3])
    way[WAIST] = -1.0
    return truth.changed(UNKNOWNS.cameras, (0, 1, 2), by_rad * way), way


@pytest.mark.parametrize("at", [-1.3, 0.0, 0.42])
def test_a_step_is_found_within_a_few_hundredths_of_a_pixel(at: float) -> None:
    y, x = np.mgrid[-3:4, -6:7]
    across, along = x.ravel() * 0.5, y.ravel() / 6
    rng = stream(0, "step")
    sides = 0.1 + 0.02 * across, 0.3 - 0.01 * across + 0.05 * along
    light = sides[0] + (sides[1] - sides[0]) * ndtr((across - at) / 0.4)
    noisy = light[:, None] * [1.0, 0.8, 0.6] + rng.normal(0, 0.004, (len(light), 3))
    assert step(across, along, noisy) == pytest.approx(at, abs=0.04)
    assert step(across, along, sides[1][:, None] + rng.normal(0, 0.004, (len(light), 3))) is None


def test_a_wide_step_is_a_shadow_s_and_no_edge() -> None:
    across = np.linspace(-3.5, 3.5, 60)
    light = (0.2 + 0.2 * ndtr(across / 1.5))[:, None] * np.ones(3)
    assert step(across, np.zeros(60), light) is None


def test_bright_sides_do_not_look_larger(taken) -> None:  # noqa: F811
    """Drawn edges meet the picture's in linear light; as displayed, bright sides push them outwards."""
    robot, _, truth = taken
    model, camera = robot.poses.model, truth.cameras["front"].camera()
    fine = Camera(
        replace(camera.lens, width=256, height=192, fx=260.0, fy=260.0, cx=127.5, cy=95.5), camera.T_world_camera
    )
    world = World(model)
    world.qpos[:] = [2.5, -1.2, 0.0]  # the arm points away
    world.forward()
    rgb = Rays(threads=1, shadow_samples=1).render(model, world.data, fine, ["rgb"]).rgb / 255
    body = model.body("stand").id
    edges = link_edges(model, [body], robot.poses.at_rest()[standing(robot)])
    often = np.full(rgb.shape[:2], 9)
    drawn = Drawn.of(edges, fine)
    found = marks(drawn, linear(rgb), often)
    assert len(found.off_px) > 12
    assert np.median(np.abs(found.off_px)) < 0.05
    shown = marks(drawn, rgb, often)
    assert np.median(np.abs(shown.off_px)) > np.median(np.abs(found.off_px))


def test_links_that_no_joint_moves_stand(taken) -> None:  # noqa: F811
    robot = taken[0]
    assert [name for name, still in zip(robot.fine.splats.groups, standing(robot), strict=True) if still] == ["stand"]


def test_a_robot_all_of_which_moves_has_no_base(taken) -> None:  # noqa: F811
    frames, truth = taken[1:]
    model = compile_text(ARM)
    links = link_splats(model, ("upper", "lower"), 0.03)
    robot = Robot((links, links, links), LinkPoses(model, JOINTS, links.bodies), (0, 1, 2))
    assert Base.of(robot, truth, frames, dict.fromkeys(UNKNOWNS.cameras, Look.of_model(links))) is None


@pytest.fixture(scope="module")
def finer(taken):  # noqa: F811
    """The same two cameras and robot in pictures of twice the size, with what was true."""
    robot, frames, truth = taken
    model, rng, shown, cameras = robot.poses.model, stream(5, "finer"), [], {}
    world = World(model)
    for f in frames:
        sight = truth.cameras[f.camera]
        lens = shrunk_lens(sight.lens, 0.5)
        cameras[f.camera] = replace(sight, lens=lens)
        stamps, pictures = f.time_s[::2], []
        for row in f.angles.at(stamps + LATE_S):
            world.qpos[:] = row - OFFSETS
            world.forward()
            camera = Camera(lens, sight.T_world_camera)
            rgb = Rays(threads=1, shadow_samples=1).render(model, world.data, camera, ["rgb"]).rgb / 255
            pictures.append(rgb + rng.normal(0, 0.008, rgb.shape))
        rgb = np.stack(pictures).astype(np.float32)
        trust = np.ones(rgb.shape[1:3], np.float32)
        chosen = tuple(range(len(stamps)))
        shown.append(replace(f, time_s=stamps, rgb=rgb, plate=np.median(rgb, 0), trust=trust, chosen=chosen))
    return robot, shown, replace(truth, cameras=cameras)


def test_edges_of_the_base_turn_the_cameras_back(finer) -> None:
    robot, frames, truth = finer
    off_rad = np.radians(1.0)
    guess, way = turned(truth, off_rad)
    base = Base.of(robot, guess, frames, dict.fromkeys(UNKNOWNS.cameras, Look.of_model(robot.fine)))
    told = base.told(guess, UNKNOWNS)
    assert told.enough
    free = np.outer(way, way) * 0.05**2 + 1e-8 * np.eye(len(way))  # nothing but that turn is unknown
    found, covariance = sharpened(np.zeros(len(way)), free, told)
    gap_rad, sd_rad = found[WAIST] - off_rad, np.sqrt(covariance[WAIST, WAIST])
    assert abs(gap_rad) < np.radians(0.15)  # 0.07 pixels at the base's corners
    assert abs(gap_rad) < 2.5 * sd_rad < np.radians(0.6)


def test_calibration_comes_back_along_the_turn_that_the_base_alone_tells(finer) -> None:
    robot, frames, truth = finer
    start = turned(truth, np.radians(1.5))[0]
    levels = (Level(1, 1.0, 0.25, 2, 3, (*CAMERA[:6], "clock"), grow_px=3),)
    found = calibrate(robot, JOINTS, start, frames, levels, starts=Starts(count=0))
    gap = np.degrees(found.guess.offsets - OFFSETS)[0]
    assert abs(gap) < 0.25
    assert abs(gap) < 2.5 * np.degrees(np.sqrt(found.covariance[WAIST, WAIST]))


def test_a_line_that_is_off_by_far_is_left_alone() -> None:
    rng = stream(1, "lines")
    line = np.repeat(np.arange(8), 6)
    place = np.tile(np.linspace(-1, 1, 6), 8)
    rows = rng.normal(size=(48, 3))
    true = np.array([0.3, -0.2, 0.5])
    off = rows @ true + 0.05 * rng.normal(size=8)[line] + 0.02 * rng.normal(size=48)
    off[line == 3] += 1.5  # a shadow beside it
    found, covariance = sharpened(np.zeros(3), np.eye(3), Told(rows, off, line, place))
    assert np.abs(found - true).max() < 0.1
    assert (np.abs(found - true) < 3 * np.sqrt(np.diag(covariance))).all()


def test_a_weak_direction_goes_as_far_as_it_has_to() -> None:
    """As the base tells it: both unknowns together are told a million times better than one against the other."""
    stiff, weak = np.array([1.0, 1.0]) / np.sqrt(2), np.array([1.0, -1.0]) / np.sqrt(2)
    H = 1e6 * np.outer(stiff, stiff) + np.outer(weak, weak)
    most = np.full(2, MOST_JOINT)
    inside = _within(H, H @ (0.01 * weak), most)
    assert inside == pytest.approx(0.01 * weak, rel=1e-3)
    cut = _within(H, H @ (0.1 * weak + 0.001 * stiff), most)
    assert np.abs(cut).max() <= MOST_JOINT * 1.0001
    assert cut @ stiff == pytest.approx(0.001, rel=0.05)  # what is told well is not given up for the limit
