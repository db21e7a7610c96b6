"""What joint refinement believes of cameras beforehand is what calibration states, and how it hangs together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.reconstruct.test_motion_block import calibrated as stated
from tests.sim.tracking import cameras
from twinproof.reconstruct.couple import Coupling
from twinproof.reconstruct.joint_block import calibrated
from twinproof.sim.track_pose import by_camera, cross_matrix

SD_RAD = 0.005


def test_a_camera_that_is_known_to_look_at_the_table_does_not_move_what_stands_there() -> None:
    found, camera = stated(), cameras()[0]
    T, place = camera.T_world_camera, np.array([0.0, 0.0, 0.04])
    turned = SD_RAD * np.vstack([np.eye(3), cross_matrix(place - T[:3, 3]) @ T[:3, :3], np.zeros((1, 3))])
    spread = turned @ turned.T + np.diag([1e-8] * 3 + [1e-8] * 3 + [1e-6])
    sure = found.cameras["c0"].placed(T, 1.0, spread)
    how = Coupling(camera_sd_m=0.003, camera_sd_rad=SD_RAD, offset_sd_rad=0.002)
    belief = calibrated(replace(found, cameras={**found.cameras, "c0": sure}), ["c0", "c1"], ["push", "other"], how)
    assert belief.precision.shape == (14, 14)
    assert np.diag(belief.precision)[:2] == pytest.approx([3e-4**-2, 0.002**-2])
    known = np.linalg.inv(belief.precision)
    shown = by_camera(T, place)[:3] @ known[2:8, 2:8] @ by_camera(T, place)[:3].T
    assert np.sqrt(np.trace(shown)) < 0.001
    assert np.sqrt(np.trace(known[2:5, 2:5])) > 0.005  # though where it stands is known to no better than this
    assert np.sqrt(np.diag(known)[8:]) == pytest.approx([0.003] * 3 + [SD_RAD] * 3)
    assert np.allclose(belief.mean, 0)
