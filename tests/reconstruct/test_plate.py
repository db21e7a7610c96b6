"""Backgrounds behind things: from other times, from other views, and made up only where nobody ever looked."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sim.shapes import looking
from twinproof.nouns.errors import RecordingError
from twinproof.reconstruct.plate import Origin, Plate, from_views, inpainted, plate_over_time, surface_points
from twinproof.sim.grid import Plane
from twinproof.sim.render_camera import Camera, Lens

LENS = Lens(60, 48, 70.0, 70.0, 29.5, 23.5)
TABLE = Plane()


def table_colour(points: np.ndarray) -> np.ndarray:
    x, y = points[..., 0], points[..., 1]
    return np.stack([120 + 60 * np.sin(9 * x), 120 + 60 * np.sin(8 * y), 100 + 0 * x], axis=-1)


def seen_from(eye) -> tuple[np.ndarray, Camera]:
    camera = Camera(LENS, looking(eye))
    return np.round(table_colour(surface_points(camera, TABLE))).astype(np.uint8), camera


def test_what_was_free_at_some_time_is_seen_and_a_passer_by_leaves_no_trace() -> None:
    rgb, _ = seen_from((0.3, -0.5, 0.8))
    frames, hidden = np.stack([rgb] * 5), np.zeros((5, 48, 60), bool)
    for k in range(5):  # something red goes across; at one time its mask is missing
        frames[k, 10:30, 8 * k : 8 * k + 12] = (255, 0, 0)
        hidden[k, 10:30, 8 * k : 8 * k + 12] = k != 2
    plate = plate_over_time(frames, hidden)
    assert (plate.origin == Origin.SEEN).all()
    assert np.abs(plate.rgb.astype(int) - rgb)[:, :30].max() <= 1
    assert plate.notes == ()


def test_what_is_always_hidden_comes_from_another_camera_with_its_exposure_undone() -> None:
    rgb, camera = seen_from((0.3, -0.5, 0.8))
    other, eye = seen_from((-0.4, -0.4, 0.9))
    hole = np.zeros((48, 60), bool)
    hole[15:30, 20:40] = True
    plate = Plate(np.where(hole[..., None], 0, rgb).astype(np.uint8), np.where(hole, 0, 1).astype(np.int8))
    dark = Plate(np.round(0.8 * other).astype(np.uint8), np.full((48, 60), Origin.SEEN, np.int8))
    filled = from_views(plate, camera, [(dark, eye)], TABLE)
    assert (filled.origin[hole] == Origin.OTHER_VIEW).all()
    assert np.abs(filled.rgb.astype(int) - rgb)[hole].mean() < 6
    assert "other views" in filled.notes[0]
    depth = (
        np.linalg.inv(camera.T_world_camera)[2]
        @ np.dstack([surface_points(camera, TABLE), np.ones((48, 60))]).reshape(-1, 4).T
    )
    by_depth = from_views(plate, camera, [(dark, eye)], depth.reshape(48, 60))
    assert np.abs(by_depth.rgb.astype(int) - filled.rgb).max() <= 1


def test_what_another_view_does_not_see_either_stays_open() -> None:
    rgb, camera = seen_from((0.3, -0.5, 0.8))
    hole = np.zeros((48, 60), bool)
    hole[15:30, 20:40] = True
    plate = Plate(rgb, np.where(hole, 0, 1).astype(np.int8))
    blind = Plate(rgb, np.zeros((48, 60), np.int8))
    assert (from_views(plate, camera, [(blind, camera)], TABLE).origin == plate.origin).all()


def test_the_rest_is_made_up_smoothly_and_labelled() -> None:
    ramp = np.repeat(np.linspace(40, 200, 60)[None, :, None], 48, axis=0).repeat(3, axis=2).astype(np.uint8)
    origin = np.full((48, 60), Origin.SEEN, np.int8)
    origin[10:30, 15:45] = Origin.NONE
    blank = np.where(origin[..., None] == Origin.NONE, 0, ramp).astype(np.uint8)
    plate = inpainted(Plate(blank, origin))
    assert (plate.origin[10:30, 15:45] == Origin.MADE_UP).all()
    assert np.abs(plate.rgb.astype(int) - ramp).max() <= 2  # a ramp is what diffusion makes
    assert "made up" in plate.notes[0]
    assert plate.share(Origin.MADE_UP) == pytest.approx(600 / 2880)
    assert inpainted(plate) is plate


def test_a_hole_at_the_border_is_filled_too() -> None:
    origin = np.full((6, 8), Origin.SEEN, np.int8)
    origin[:3, :3] = Origin.NONE
    plate = inpainted(Plate(np.full((6, 8, 3), 90, np.uint8), origin))
    assert (plate.rgb == 90).all()


def test_nonsense_is_refused() -> None:
    with pytest.raises(RecordingError, match="needed is"):
        plate_over_time(np.zeros((2, 3, 4, 3), np.uint8), np.zeros((2, 3, 5), bool))
    with pytest.raises(RecordingError, match="no pixel was ever seen"):
        inpainted(Plate(np.zeros((3, 4, 3), np.uint8), np.zeros((3, 4), np.int8)))
