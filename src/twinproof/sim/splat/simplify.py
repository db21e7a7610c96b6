"""Fewer splats that look alike: neighbours in one cell are merged into one of the same mass, place and spread.

For small pictures: where a pixel covers many splats, drawing each of them costs time and shows nothing.
"""

from __future__ import annotations

import numpy as np

from twinproof.nouns.errors import SplatError
from twinproof.nouns.splats import Splats


def simplified(splats: Splats, count: int) -> Splats:
    """At most `count` splats, merged cell by cell (cells of one size, as small as that allows); groups stay apart."""
    if count < len(splats.groups):
        raise SplatError(f"splats: {count} cannot stand for {len(splats.groups)} groups. Ask for more.")
    if len(splats) <= count:
        return splats
    low, high = 0.0, float(np.ptp(splats.means, axis=0).max()) + 1e-9
    for _ in range(30):
        middle = (low + high) / 2
        if len(np.unique(_cells(splats, middle))) > count:
            low = middle
        else:
            high = middle
    return _merged(splats, np.unique(_cells(splats, high), return_inverse=True)[1].reshape(-1))


def _cells(splats: Splats, size: float) -> np.ndarray:
    """A number for the cell of each splat."""
    steps = np.floor((splats.means.astype(float) - splats.means.min(axis=0)) / max(size, 1e-12)).astype(np.int64)
    spans = steps.max(axis=0) + 1
    cells: np.ndarray = ((splats.group.astype(np.int64) * spans[0] + steps[:, 0]) * spans[1] + steps[:, 1]) * spans[2]
    cells += steps[:, 2]
    return cells


def _merged(splats: Splats, cell: np.ndarray) -> Splats:
    cells, opacity = int(cell.max()) + 1, 1 / (1 + np.exp(-splats.logit_opacities.astype(float)))
    scales = np.exp(splats.log_scales.astype(float))
    if splats.flat:
        scales[:, 2] = 0
    area = _area(scales)
    weight = opacity * area + 1e-30

    def mean(values: np.ndarray) -> np.ndarray:
        flat = values.reshape(len(values), -1)
        sums = np.stack([np.bincount(cell, weight * column, cells) for column in flat.T], -1)
        total = np.bincount(cell, weight, cells)
        means: np.ndarray = (sums / total[:, None]).reshape(cells, *values.shape[1:])
        return means

    centre = mean(splats.means.astype(float))
    axes = _rotations(splats.quats_wxyz.astype(float)) * scales[:, None, :]
    off = splats.means - centre[cell]
    spread = mean(axes @ axes.transpose(0, 2, 1) + off[:, :, None] * off[:, None, :])
    squares, turn = np.linalg.eigh(spread)
    turn[:, :, 0] *= np.sign(np.linalg.det(turn))[:, None]
    order = [2, 1, 0]  # the shortest last, so that a disc stays one; (2, 1, 0) mirrors, so one axis is turned round
    turn = turn[:, :, order]
    turn[:, :, 2] *= -1
    size = np.sqrt(np.maximum(squares[:, order], 1e-14))
    mass = np.bincount(cell, opacity * area, cells)
    merged = np.clip(mass / np.maximum(_area(size), 1e-30), 0.01, 0.99)
    group = np.zeros(cells, np.int32)
    group[cell] = splats.group
    return Splats(
        centre, _quaternions(turn), np.log(size), np.log(merged / (1 - merged)), mean(splats.sh.astype(float)), group,
        splats.groups, splats.flat,
    )  # fmt: skip


def _area(scales: np.ndarray) -> np.ndarray:
    """About how much of a picture a splat covers: the product of its two longest scales."""
    longest = np.sort(scales, axis=1)
    covered: np.ndarray = longest[:, 1] * longest[:, 2]
    return covered


def _rotations(quats_wxyz: np.ndarray) -> np.ndarray:
    from scipy.spatial.transform import Rotation

    matrices: np.ndarray = Rotation.from_quat(quats_wxyz, scalar_first=True).as_matrix()
    return matrices


def _quaternions(turn: np.ndarray) -> np.ndarray:
    from scipy.spatial.transform import Rotation

    quats_wxyz: np.ndarray = Rotation.from_matrix(turn).as_quat(scalar_first=True)
    return quats_wxyz
