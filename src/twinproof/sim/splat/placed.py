"""Splats moved for good: places, turns and the colours that depend on the direction."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.splats import Splats

if TYPE_CHECKING:
    from jaxtyping import Float

THIN = float(np.log(1e-6))


def placed(splats: Splats, T: Float[np.ndarray, "4 4"], scale: float = 1.0) -> Splats:
    """The splats scaled about the origin and then moved by a rigid transform, harmonics turned with them."""
    from scipy.spatial.transform import Rotation

    turn = Rotation.from_matrix(np.asarray(T)[:3, :3])
    quats = Rotation.from_quat(np.roll(splats.quats_wxyz.astype(float), -1, axis=1)) if len(splats) else None
    turned = np.roll((turn * quats).as_quat(), 1, axis=1) if quats is not None else splats.quats_wxyz
    means = scale * splats.means.astype(float) @ np.asarray(T)[:3, :3].T + np.asarray(T)[:3, 3]
    log_scales = splats.log_scales + np.float32(np.log(scale))
    bands = splats.sh.shape[1]
    sh = np.einsum("ij,njc->nic", turned_harmonics(np.asarray(T)[:3, :3], bands), splats.sh)
    return replace(splats, means=means, quats_wxyz=turned, log_scales=log_scales, sh=sh)


def turned_harmonics(R: Float[np.ndarray, "3 3"], bands: int) -> Float[np.ndarray, "K K"]:
    """The matrix that takes coefficients to those of the turned colours: the same seen from R d as before from d."""
    from twinproof.sim.splat.harmonics import basis

    k = np.arange(64) + 0.5
    z, turn = 1 - 2 * k / 64, np.pi * (1 + 5**0.5) * k
    rays = np.stack([np.sqrt(1 - z**2) * np.cos(turn), np.sqrt(1 - z**2) * np.sin(turn), z], axis=1)

    def values(directions: np.ndarray) -> np.ndarray:
        rows = np.zeros((len(directions), bands))
        for row, (x, y, z) in zip(rows, directions, strict=True):
            basis(x, y, z, bands, row)
        return rows

    return np.asarray(np.linalg.lstsq(values(rays @ R.T), values(rays), rcond=None)[0])


def as_volumes(splats: Splats) -> Splats:
    """Surfels as volumes of no thickness to speak of."""
    if not splats.flat:
        return splats
    scales = splats.log_scales.copy()
    scales[:, 2] = THIN
    return replace(splats, log_scales=scales, flat=False)
