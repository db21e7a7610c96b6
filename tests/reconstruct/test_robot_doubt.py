"""Slopes of the drawn robot, what holds a calibration where pictures do not, and how sure it says that it is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.reconstruct.test_robot_calibrate import taken  # noqa: F401  (a fixture)
from twinproof.nouns.rig import Mount
from twinproof.reconstruct.robot_doubt import LOOSE, PRIOR, Unknowns, held, jackknifed, weak
from twinproof.reconstruct.robot_fit import CAMERA, SWELL, Level, Part, drawn_at, frame_part
from twinproof.reconstruct.robot_look import Look, pixels_of
from twinproof.reconstruct.robot_slopes import Shown, slopes_of
from twinproof.sim.render_camera import Camera, Lens

LEVEL = Level(1, 1.0, 0.25, 1)


def test_pixels_move_as_the_camera_and_the_joints_do(taken) -> None:  # noqa: F811
    """The drawn picture after a small change is the one before, less its slopes along the pixels' way."""
    robot, frames, truth = taken
    look, one = Look.of_model(robot.fine), frames[0]
    time_s = float(one.time_s[2])
    sight = truth.cameras[one.camera]
    picture = drawn_at(robot, truth, one, time_s, look, LEVEL)
    shown = Shown.of(picture, sight.camera())
    motions = shown.by_camera()
    slope = slopes_of(picture.alpha[shown.rows, shown.cols][..., None])[..., 0, :]
    for k, step in ((0, 2e-3), (4, 2e-3), (6, 5e-3)):
        pair = []
        for sign in (1, -1):
            moved = sight.changed(sign * step * np.eye(len(CAMERA))[k])
            other = replace(truth, cameras={**truth.cameras, one.camera: moved})
            pair.append(drawn_at(robot, other, one, time_s, look, LEVEL).alpha[shown.rows, shown.cols])
        seen, told = (pair[0] - pair[1]) / (2 * step), -np.einsum("hwa,hwa->hw", slope, motions[k])
        assert np.corrcoef(seen.ravel(), told.ravel())[0, 1] > 0.9
        assert (seen * told).sum() / (told * told).sum() == pytest.approx(1.0, abs=0.2)


NONE = np.zeros((1, 1, 2))


def test_a_bent_lens_moves_pixels_as_it_shows_them() -> None:
    lens = Lens(64, 48, 60.0, 60.0, 31.5, 23.5, (-0.2, 0.05, 0.0, 0.0))
    points = np.array([[[0.3, -0.1, 1.0]]])
    shown = Shown(slice(0, 1), slice(0, 1), points, np.zeros((1, 1), int), NONE, NONE, Camera(lens, np.eye(4)))
    by = shown.by_camera()[3][0, 0]  # a shift of the camera along x
    near = [pixels_of(Camera(lens, shifted(s)), points[0])[0][0] for s in (1e-5, -1e-5)]
    assert by == pytest.approx((near[0] - near[1]) / 2e-5, rel=1e-3)


def shifted(x: float) -> np.ndarray:
    T = np.eye(4)
    T[0, 3] = x
    return T


def test_a_robot_out_of_view_says_nothing(taken) -> None:  # noqa: F811
    robot, frames, truth = taken
    away = np.diag([1.0, -1.0, -1.0, 1.0])
    away[:3, 3] = (0, 0, -5)
    sight = replace(truth.cameras[frames[0].camera], T_world_camera=away)
    lost = replace(truth, cameras={**truth.cameras, frames[0].camera: sight})
    part = frame_part(robot, lost, frames[0], 0, Look.of_model(robot.fine), LEVEL, by_link=True)
    assert not part.pull.any()
    assert part.by_link.shape[0] == len(robot.fine.splats.groups)


UNKNOWNS = Unknowns(("a",), ("waist",))


def part(pull: float, episode: str) -> Part:
    """One number of the camera is told, with a curvature of 100 in each of two links."""
    width = len(CAMERA) + 1
    H, g = np.zeros((width, width)), np.zeros(width)
    H[3, 3], g[3] = 1e6, pull
    both = np.zeros((2, width, width + 1))
    both[:, 3, 3], both[0, 3, -1] = 5e5, pull
    return Part("a", H, g, 0.0, episode, both)


def test_the_doubt_is_how_far_the_answer_goes_without_a_link_or_an_episode() -> None:
    quiet = jackknifed([part(1.0, "e"), part(-1.0, "f")], UNKNOWNS, np.zeros(len(UNKNOWNS)))
    loud = jackknifed([part(900.0, "e"), part(-900.0, "f")], UNKNOWNS, np.zeros(len(UNKNOWNS)))
    assert quiet[3, 3] < 1e-7 < loud[3, 3]
    assert np.sqrt(loud[3, 3]) == pytest.approx(900e-6, rel=0.6)
    assert np.sqrt(quiet[-1, -1]) == pytest.approx(PRIOR["joint"] / np.sqrt(LOOSE), rel=1e-3)  # nothing told of it
    assert jackknifed([part(1.0, "e"), part(-1.0, "e")], UNKNOWNS, np.zeros(len(UNKNOWNS))).shape == (11, 11)
    said = weak(quiet, UNKNOWNS.names, UNKNOWNS.precision())
    assert len(said) == 5
    assert "the pictures hardly tell" in said[0]


def test_what_the_rig_states_holds_what_pictures_do_not_tell() -> None:
    stated = UNKNOWNS.precision({"a": Mount(position_sd_m=0.01, rotation_sd_rad=0.03)})
    assert stated[3] == pytest.approx(1e4)
    assert UNKNOWNS.precision()[3] == pytest.approx(PRIOR["shift"] ** -2)
    covariance = np.diag(np.full(len(UNKNOWNS), 1e-8))
    covariance[3, 3], covariance[SWELL, SWELL] = 1e-2, 1e-4
    behind = np.zeros(len(UNKNOWNS))
    behind[3], behind[4] = 0.05, 0.05
    step, left = held(covariance, behind, stated)
    assert step[3] == pytest.approx(-0.05 * 1e-2 / (1e-2 + 1e-4))
    assert abs(step[4]) < 1e-4
    assert left[3, 3] < 1e-4


def test_what_one_link_alone_tells_is_as_doubtful_as_its_model() -> None:
    """The base may be off in every camera: without it in all of them, the answer goes back to what was believed."""
    both = Unknowns(("a", "b"), ("waist",))
    width = len(CAMERA) + 1
    shares = np.zeros((2, width, width + 1))
    shares[0, -1, width - 1] = 1e6  # the joint is seen by the first link only
    shares[1, : len(CAMERA), : len(CAMERA)] = 1e6 * np.eye(len(CAMERA))
    told = shares[:, :, :-1].sum(axis=0), shares[:, :, -1].sum(axis=0)
    parts = [Part(camera, *told, 0.0, episode, shares) for camera in ("a", "b") for episode in ("e", "f")]
    behind = np.zeros(len(both))
    behind[-1] = 0.02
    sd = np.sqrt(np.diag(jackknifed(parts, both, behind)))
    assert sd[-1] > 0.01
    assert sd[:-1].max() < 1e-3
