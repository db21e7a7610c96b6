"""Still cameras are measured against the scanned table: planted poses and lenses, clutter, other scenes, refusals."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from tests.reconstruct.test_hand_camera import (
    CLOCK_S,
    LENS,
    READOUT_S,
    filmed,
    gantry,
    picture,
    true_mount,
)
from twinproof.nouns.errors import TwinError
from twinproof.nouns.randomness import stream
from twinproof.reconstruct.hand_camera import NAMES, HandCamera
from twinproof.reconstruct.table_cameras import Level, Scan, Still, StillPicture, on_table
from twinproof.sim.grid import Plane
from twinproof.sim.render_camera import Camera, Lens

LEVELS = (Level(0.02, 0.3, 6), Level(0.01, 0.2, 4), Level(0.006, 0.1, 4))
EYE = Lens(160, 120, 130.0, 130.0, 79.5, 59.5)
# known before: 0.3°, 4 mm; and a distance that goes with the focal length, as the robot's outline leaves it
SD = np.array([0.005] * 3 + [0.004] * 3 + [0.004])
TRADE = 0.02


def looking(azimuth_deg: float) -> Camera:
    """From 0.5 m away and 45° above at the middle of the table."""
    T = np.eye(4)
    turn = Rotation.from_euler("ZX", [azimuth_deg, -135], degrees=True)
    T[:3, :3], T[:3, 3] = turn.as_matrix(), -0.5 * turn.as_matrix()[:, 2]
    return Camera(EYE, T)


def known(camera: Camera) -> np.ndarray:
    along = np.concatenate([np.zeros(3), 0.6 * camera.T_world_camera[:3, 2], [-1.0]]) * TRADE
    return np.asarray(np.diag(SD**2) + np.outer(along, along))


def wrong(camera: Camera, near_m: float = 0.011, log_focal: float = -0.018) -> Camera:
    """Too near with a lens too short, and a little of everything else."""
    T = np.array(camera.T_world_camera)
    T[:3, 3] += near_m * T[:3, 2] + (0.002, -0.003, 0.002)
    T[:3, :3] = T[:3, :3] @ Rotation.from_rotvec([0.004, -0.005, 0.005]).as_matrix()
    grown = float(np.exp(log_focal))
    return Camera(replace(camera.lens, fx=EYE.fx * grown, fy=EYE.fy * grown), T)


def shown(camera: Camera, seed: int, scene: str = "day") -> StillPicture:
    """The table with noise, its own exposure, a box that stands there and the robot, which is known to be there."""
    rows = np.repeat(camera.T_world_camera[None], EYE.height, axis=0)
    rng = stream(seed, "still")
    rgb = picture(rows, camera.lens) * rng.uniform(0.8, 1.1) + rng.normal(0, 2, (EYE.height, EYE.width, 3))
    rgb[55:68, 60:72] = 30
    hidden = np.zeros(rgb.shape[:2], bool)
    across = 20 + 5 * (seed % 10)
    rgb[:80, across : across + 20], hidden[:80, across : across + 20] = 240, True
    return StillPicture(scene, np.clip(rgb + 0.5, 0, 255).astype(np.uint8), hidden)


@cache
def scan(sd: float = 1e-5) -> Scan:
    names = (*NAMES, "plane_height", *(f"joint_{k}" for k in range(5)))
    covariance = sd**2 * np.eye(len(names))
    found = HandCamera(true_mount(), LENS, CLOCK_S, READOUT_S, 0.0, np.zeros(5), covariance, names, ())
    return Scan(found, [filmed()], gantry(), Plane(), ripple_rad=1e-5)


def still(azimuth_deg: float, seed: int, scene: str = "day") -> Still:
    camera = looking(azimuth_deg)
    return Still(wrong(camera), known(camera), [shown(camera, seed + k, scene) for k in range(3)])


def errors(found: Camera, true: Camera) -> np.ndarray:
    """In the seven unknowns."""
    turn = Rotation.from_matrix(true.T_world_camera[:3, :3].T @ found.T_world_camera[:3, :3]).as_rotvec()
    shift = found.T_world_camera[:3, 3] - true.T_world_camera[:3, 3]
    return np.array([*turn, *shift, np.log(found.lens.fx / true.lens.fx)])


def test_pose_and_focal_length_are_found_and_their_covariance_is_of_the_right_size() -> None:
    found = on_table(scan(), {"front": still(-90, 1), "side": still(0, 4)}, LEVELS)
    far = []
    for name, azimuth in (("front", -90), ("side", 0)):
        off, sd = errors(found[name].camera, looking(azimuth)), np.sqrt(np.diag(found[name].covariance))
        assert np.linalg.norm(off[:3]) < np.radians(0.1)
        assert np.linalg.norm(off[3:6]) < 0.001
        assert abs(off[6]) < 0.002
        assert (sd < 0.5 * np.sqrt(np.diag(known(looking(azimuth))))).all()
        far.append(off @ np.linalg.solve(found[name].covariance, off))
    assert 1 < sum(far) < 60  # of 14 unknowns in deviations


def test_what_is_uncertain_about_the_scan_is_uncertain_about_the_cameras() -> None:
    sure, unsure = (on_table(scan(sd), {"front": still(-90, 1)}, LEVELS[:2])["front"] for sd in (1e-5, 2e-3))
    assert (np.diag(unsure.covariance)[3:6] > 2 * np.diag(sure.covariance)[3:6]).all()


def test_a_camera_that_did_not_see_the_scanned_table_stays_as_it_was_and_says_why() -> None:
    plain, narrow = still(-90, 1), still(-90, 1)
    blank = [
        replace(p, rgb=stream(k, "plain").integers(90, 160, p.rgb.shape).astype(np.uint8))
        for k, p in enumerate(plain.pictures)
    ]
    slit = np.ones((EYE.height, EYE.width), bool)
    slit[60:80, 80:100] = False
    found = on_table(
        scan(),
        {
            "night": still(-90, 1, "night"),
            "plain": replace(plain, pictures=blank),
            "narrow": replace(narrow, pictures=[replace(p, hidden=slit) for p in narrow.pictures]),
        },
        LEVELS[:1],
    )  # fmt: skip
    for name, why in (
        ("night", "no picture of the scene"),
        ("plain", "correlation"),
        ("narrow", "squares of the scanned"),
    ):
        assert why in found[name].notes[0]
        np.testing.assert_array_equal(found[name].camera.T_world_camera, plain.start.T_world_camera)
        np.testing.assert_array_equal(found[name].covariance, plain.covariance)


def test_a_table_that_contradicts_what_was_known_is_told() -> None:
    sure = replace(still(-90, 1), covariance=np.diag(SD**2) / 4)
    assert "deviations of what was known before" in on_table(scan(), {"front": sure}, LEVELS[:2])["front"].notes[0]


def test_what_cannot_be_measured_is_refused_with_the_reason() -> None:
    camera = still(-90, 1)
    with pytest.raises(TwinError, match="the scan of the table has no pictures"):
        on_table(replace(scan(), frames=[]), {})
    with pytest.raises(TwinError, match="is not one of seven unknowns"):
        on_table(scan(), {"front": replace(camera, covariance=np.eye(6))})
    with pytest.raises(TwinError, match="is not one of seven unknowns"):
        on_table(scan(), {"front": replace(camera, covariance=np.ones((7, 7)))})
    small = replace(camera.pictures[0], hidden=np.zeros((60, 80), bool))
    with pytest.raises(TwinError, match="They must be the same"):
        on_table(scan(), {"front": replace(camera, pictures=[small])})
    with pytest.raises(TwinError, match="hardly sees the table from nearby"):
        on_table(replace(scan(), plane=Plane(offset_m=2.0)), {"front": camera}, LEVELS[:1])
