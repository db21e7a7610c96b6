"""Boards in pictures: AprilTags (pupil-apriltags) and chessboards (OpenCV), as points and pixels.

Frames: a tag's frame has its origin in the middle, x to the right and y down as the tag is printed, z into the paper.
A chessboard's frame starts at its first inner corner, x along its columns, y along its rows. Pixels are OpenCV's, the
middle of the first pixel is (0, 0); AprilTag counts from the picture's edge, so half a pixel is taken off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.nouns.errors import MissingExtra, RecordingError, RigError
from twinproof.nouns.rig import Intrinsics
from twinproof.reconstruct.plane_pose import Sight
from twinproof.reconstruct.tag_pattern import aligned

if TYPE_CHECKING:
    from jaxtyping import Float, UInt8

CELLS = {"tag36h11": 8, "tag25h9": 7, "tag16h5": 6, "tag36h10": 8}  # across a tag, black border included
SQUARE = ((-1, 1), (1, 1), (1, -1), (-1, -1))  # corners in the detector's order, in half widths
TRIES = 3  # of the detector
GREY = np.array([0.299, 0.587, 0.114])


def april_tags(
    picture: UInt8[np.ndarray, "H W *C"],
    size_m: float,
    name: str = "picture",
    family: str = "tag36h11",
    lens: Intrinsics | None = None,
) -> dict[int, Sight]:
    """Every tag in the picture by its number. `size_m` is the width of the black square.

    Corners are refined over the tag's whole pattern where it is large and sharp enough; a `lens` with distortion makes
    that better near the picture's edge.
    """
    if family not in CELLS:
        raise RigError(f"AprilTag family {family!r} is not known. Known are {', '.join(CELLS)}.")
    if not (np.isfinite(size_m) and size_m > 0):
        raise RigError(f"a tag {size_m} m wide cannot be. Measure the black square, from outer edge to outer edge.")
    _package("pupil_apriltags")
    grey = _grey(picture, name)
    seen = dict[int, Sight]()
    for number, wrong_bits, places in _detected(np.round(grey).astype(np.uint8), family, name):
        if wrong_bits > 1:
            continue  # two wrong bits and more: as often a chance pattern as a tag
        if number in seen:
            raise RecordingError(
                f"{name}: AprilTag {number} is seen twice. Every board needs a number of its own: cover one of them."
            )
        corners = np.asarray(places, float) - 0.5
        better = aligned(grey, corners, CELLS[family], lens)
        points = np.array([(x * size_m / 2, y * size_m / 2, 0) for x, y in SQUARE])
        seen[number] = Sight(name, points, corners if better is None else better.corners)
    return seen


def _detected(grey: np.ndarray, family: str, name: str) -> list[tuple[int, int, list[list[float]]]]:
    """What the detector finds, in a child process: now and then it crashes, and works when it is asked again."""
    import io
    import json
    import subprocess
    import sys

    data = io.BytesIO()
    np.save(data, grey)
    command = [sys.executable, "-m", "twinproof.reconstruct.tag_worker", family]
    for _ in range(TRIES):
        done = subprocess.run(command, input=data.getvalue(), capture_output=True, check=False)
        if done.stdout.endswith(b"]"):
            found: list[tuple[int, int, list[list[float]]]] = json.loads(done.stdout)
            return found
    last = done.stderr.decode(errors="replace")[-200:]
    raise RecordingError(
        f"{name}: the AprilTag detector died {TRIES} times on this picture ({last}). Leave the picture out."
    )


def chessboard(
    picture: UInt8[np.ndarray, "H W *C"], inner: tuple[int, int], square_m: float, name: str = "picture"
) -> Sight | None:
    """The inner corners of a chessboard, (columns, rows) of them; None where the whole board is not seen."""
    columns, rows = inner
    if min(columns, rows) < 3 or columns % 2 == rows % 2:
        raise RigError(
            f"a chessboard with {columns} × {rows} inner corners looks the same when turned round. Count inner "
            "corners, not squares; use a board with one odd and one even number, 3 at least."
        )
    if not (np.isfinite(square_m) and square_m > 0):
        raise RigError(f"a square {square_m} m wide cannot be. Measure over several squares and divide.")
    cv2 = _package("cv2")
    grey = np.ascontiguousarray(np.round(_grey(picture, name)).astype(np.uint8))
    found, corners = cv2.findChessboardCornersSB(grey, (columns, rows), flags=cv2.CALIB_CB_ACCURACY)
    if not found:
        return None
    y, x = np.mgrid[:rows, :columns]
    points = np.stack([x.reshape(-1) * square_m, y.reshape(-1) * square_m, np.zeros(x.size)], axis=1)
    return Sight(name, points, np.asarray(corners, float).reshape(-1, 2))


def _grey(picture: np.ndarray, name: str) -> Float[np.ndarray, "H W"]:
    array = np.asarray(picture)
    if array.dtype != np.uint8 or array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] != 3):
        raise RecordingError(
            f"{name}: the picture is {array.dtype} of the shape {array.shape}; needed is uint8, grey or RGB."
        )
    grey: np.ndarray = array.astype(float) if array.ndim == 2 else array @ GREY
    return grey


def _package(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError:
        raise MissingExtra(
            f"tags and chessboards need {name}, which is not installed. Run: pip install 'twinproof[tags]'."
        ) from None
