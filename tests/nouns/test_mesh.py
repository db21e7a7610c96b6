"""Meshes and clips refuse what cannot be."""

from __future__ import annotations

import numpy as np
import pytest

from twinproof.nouns.clip import Clip
from twinproof.nouns.errors import MeshError, RecordingError
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.rig import Intrinsics

CORNERS = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], float)
FACES = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])


def test_a_corner_of_a_cube_is_closed_and_holds_a_sixth_of_it() -> None:
    mesh = Mesh(CORNERS, FACES)
    assert mesh.closed
    assert mesh.volume_m3 == pytest.approx(1 / 6)
    assert not Mesh(CORNERS, FACES[:3]).closed
    assert Mesh(CORNERS, FACES[:, ::-1]).volume_m3 == pytest.approx(-1 / 6)


def test_moving_a_mesh_scales_first_and_keeps_its_volume_otherwise() -> None:
    T = np.array([[0, -1, 0, 5], [1, 0, 0, 6], [0, 0, 1, 7], [0, 0, 0, 1.0]])
    moved = Mesh(CORNERS, FACES).moved(T, 2.0)
    assert moved.volume_m3 == pytest.approx(8 / 6)
    assert moved.vertices[1] == pytest.approx([5, 8, 7])


@pytest.mark.parametrize(
    ("vertices", "faces", "colours", "said"),
    [
        (CORNERS[:, :2], FACES, None, "needed is"),
        (CORNERS, FACES[:0], None, "no faces"),
        (np.where(CORNERS == 1, np.nan, CORNERS), FACES, None, "not finite"),
        (CORNERS, FACES + 1, None, "Count vertices from 0"),
        (CORNERS, FACES, CORNERS[:2], "colours have the shape"),
    ],
)
def test_a_mesh_that_cannot_be_is_refused(vertices, faces, colours, said) -> None:
    with pytest.raises(MeshError, match=said):
        Mesh(vertices, faces, colours)


def clip(**other) -> Clip:
    fields = {
        "camera": "front",
        "time_s": np.arange(3.0),
        "rgb": np.zeros((3, 4, 5, 3), np.uint8),
        "intrinsics": Intrinsics(5, 5, 2, 2),
        "T_world_camera": np.broadcast_to(np.eye(4), (3, 4, 4)),
    }
    return Clip(**{**fields, **other})


def test_a_clip_knows_its_size_and_whether_its_camera_stands_still() -> None:
    assert clip().size == (5, 4)
    assert clip().still
    moving = np.stack([np.eye(4)] * 3)
    moving[2, 0, 3] = 0.1
    assert not clip(T_world_camera=moving).still


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"rgb": np.zeros((3, 4, 5), np.uint8)}, "needed is uint8"),
        ({"robot": np.zeros((3, 4, 4), bool)}, "robot has the shape"),
        ({"time_s": np.array([0, 1, 1.0])}, "do not increase"),
    ],
)
def test_a_clip_that_cannot_be_is_refused(other, said) -> None:
    with pytest.raises(RecordingError, match=said):
        clip(**other)
