"""Where tips are for N rows of joint angles: one small product a joint, in torch or numpy; on a CPU a kernel."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from twinproof.sim.kinematics import Chain
from twinproof.tasks.sensed import Array, Fixed


class TipPosition:
    """The place of a tip in the world. Each joint takes it from the joint's frame to the frame before:

    p_before = R (P p + cos θ (1 - P) p + sin θ K p) + t, with P along the axis and K across it (Rodrigues)
    """

    def __init__(self, chain: Chain, columns: Sequence[int]) -> None:
        """`columns` are the places of the chain's joints among those that will be given."""
        self._columns, self._slides = Fixed(np.array(columns, dtype=np.int64)), tuple(bool(s) for s in chain.slides)
        self._zero = Fixed(chain.zero)
        self._tip = Fixed(chain.T_before[-1][:3, 3])
        self._turn, self._shift, self._slide = list[Fixed](), list[Fixed](), list[Fixed]()
        for k, axis in enumerate(chain.axis):
            turned, along = chain.T_before[k][:3, :3], np.outer(axis, axis)
            across = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]])
            parts = [turned.T] if self._slides[k] else [(turned @ m).T for m in (along, np.eye(3) - along, across)]
            wide = np.concatenate(parts, axis=1)  # (3, 9): what stays, what goes with the cosine, with the sine
            self._turn.append(Fixed(np.pad(wide, ((0, 0), (0, 9 - wide.shape[1])))))
            self._shift.append(Fixed(chain.T_before[k][:3, 3]))
            self._slide.append(Fixed(turned @ axis))

    def __call__(self, position: Array, xp: Any) -> Array:
        """(N, 3) for joint values (N, J)."""
        if xp is not np or position.dtype != np.float64 or not self._slides:
            return self.by_parts(position, xp)
        found: np.ndarray = self.kernel(np.take(position, self._columns.host, axis=1))
        return found

    @functools.cached_property
    def kernel(self) -> Callable[[np.ndarray], np.ndarray]:
        """Tips (N, 3) for the joints of a chain that has some (N, K). Asked for, it is compiled or loaded: up to a
        second, which a robot must not wait for."""
        from twinproof.tasks import kernels

        wide = np.array([part.host for part in self._turn])
        shift, slide = (np.array([part.host for part in parts]) for parts in (self._shift, self._slide))
        zero, slides, tip = self._zero.host, np.array(self._slides), self._tip.host
        kernels.tips(np.zeros((1, len(slides))), zero, slides, wide, shift, slide, tip)
        return lambda angle: kernels.tips(angle, zero, slides, wide, shift, slide, tip)

    def by_parts(self, position: Array, xp: Any) -> Array:
        """The same, for all rows at a time: every joint's matrix at once, then a product a joint."""
        angle = position[:, self._columns.like(position)] - self._zero.like(position)
        point = self._tip.like(position) + 0 * position[:, :1]  # one row a world
        if not self._slides:
            return point
        along, across, beside, shift, slide = (each.like(position) for each in self._matrices)
        bent = angle[:, :, None, None]
        turned = along + xp.cos(bent) * across + xp.sin(bent) * beside
        moved = shift + angle[:, :, None] * slide
        for k in reversed(range(len(self._slides))):
            point = xp.matmul(turned[:, k], point[:, :, None])[:, :, 0] + moved[:, k]
        return point

    @functools.cached_property
    def _matrices(self) -> tuple[Fixed, ...]:
        """By joint: what stays whatever its angle, what goes with its cosine and its sine (K, 3, 3), the shift and the
        direction of a slide (K, 3)."""
        parts = [np.array([part.host[:, 3 * i : 3 * i + 3].T for part in self._turn]) for i in range(3)]
        slide = [each.host if slides else 0 * each.host for each, slides in zip(self._slide, self._slides, strict=True)]
        return (*map(Fixed, parts), Fixed([each.host for each in self._shift]), Fixed(slide))
