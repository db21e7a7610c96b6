"""How a human hand moved an object, as a tracker saw it: keypoints of the hand and the object's pose, on one clock.

track.npz (numpy, nothing pickled)
  time_s       (T,)        rising
  names        (K,)        text: wrist, thumb_tip and index_tip are needed; others are welcome and unused
  points       (T, K, 3)   keypoints, z up; NaN where one was not seen
  object_pose  (T, 7)      x, y, z, qw, qx, qy, qz of the object in the same frame; NaN where it was not seen
  object_size  (3,)        sides of the box around the object along its own axes, in the same unit

The unit is the tracker's own: the object's size, which the twin knows, gives the scale. The frame is its own too, but
z is up.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import RecordingError
from twinproof.nouns.frozen import frozen_array, settle

if TYPE_CHECKING:
    from jaxtyping import Float

NEEDED = ("wrist", "thumb_tip", "index_tip")
LONGEST_GAP_S = 0.5  # that is bridged by a straight line
ARRAYS = {"time_s": 1, "names": 1, "points": 3, "object_pose": 2, "object_size": 1}


@dataclass(frozen=True, eq=False)
class HandTrack:
    """See the module. Gaps up to half a second are bridged here; a longer one is refused."""

    time_s: Float[np.ndarray, "T"]
    names: tuple[str, ...]
    points: Float[np.ndarray, "T K 3"]
    object_pose: Float[np.ndarray, "T 7"]
    object_size: Float[np.ndarray, "3"]
    source: str = "the track"

    def __post_init__(self) -> None:
        count = len(self.time_s)
        wanted = {"points": (count, len(self.names), 3), "object_pose": (count, 7), "object_size": (3,)}
        for name, shape in wanted.items():
            found = np.shape(getattr(self, name))
            if found != shape:
                raise RecordingError(f"{self.source}: {name!r} has the shape {found}; {shape} is needed.")
        if count < 8 or not (np.diff(self.time_s) > 0).all():
            raise RecordingError(f"{self.source}: its {count} times must rise, and be eight or more.")
        missing = [name for name in NEEDED if name not in self.names]
        if missing:
            raise RecordingError(
                f"{self.source}: the hand lacks {', '.join(missing)}; it has {', '.join(self.names)}. Name the points "
                "wrist, thumb_tip and index_tip."
            )
        if not (np.asarray(self.object_size) > 0).all():
            raise RecordingError(f"{self.source}: object_size is {list(self.object_size)}; every side is above zero.")
        flat = np.asarray(self.points, dtype=np.float64).reshape(count, -1)
        points = self._bridged(flat, "the hand").reshape(count, -1, 3)
        pose = self._bridged(np.asarray(self.object_pose, dtype=np.float64), "the object")
        turn = np.linalg.norm(pose[:, 3:], axis=1, keepdims=True)
        if (turn < 0.5).any():
            raise RecordingError(f"{self.source}: object_pose has orientations that are no quaternions (qw to qz).")
        settle(
            self,
            time_s=frozen_array(self.time_s),
            points=frozen_array(points),
            object_pose=frozen_array(np.concatenate([pose[:, :3], pose[:, 3:] / turn], axis=1)),
            object_size=frozen_array(self.object_size),
        )

    def _bridged(self, rows: np.ndarray, who: str) -> np.ndarray:
        seen = np.isfinite(rows)
        found = rows.copy()
        for k in range(rows.shape[1]):
            at = np.flatnonzero(seen[:, k])
            if not len(at):
                if k // 3 < len(self.names) and who == "the hand" and self.names[k // 3] not in NEEDED:
                    found[:, k] = 0.0  # a point that nobody asks for
                    continue
                raise RecordingError(f"{self.source}: {who} was never seen. Track it again.")
            edges = np.r_[self.time_s[0], self.time_s[at], self.time_s[-1]]
            gap_s = float(np.diff(edges).max())
            if gap_s > LONGEST_GAP_S and (who != "the hand" or self.names[k // 3] in NEEDED):
                raise RecordingError(
                    f"{self.source}: {who} was not seen for {gap_s:.2f} s; {LONGEST_GAP_S:g} s can be bridged. Cut the "
                    "track there, or track it again."
                )
            found[:, k] = np.interp(self.time_s, self.time_s[at], rows[at, k])
        return found

    def point(self, name: str) -> Float[np.ndarray, "T 3"]:
        """One point of the hand."""
        found: np.ndarray = self.points[:, self.names.index(name)]
        return found

    @staticmethod
    def load(path: Path) -> HandTrack:
        """Reads a track.npz."""
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
        except (OSError, ValueError) as problem:
            raise RecordingError(
                f"{path} is no readable .npz file ({problem}). Give a track (docs/train.md)."
            ) from None
        lacking = [name for name in ARRAYS if name not in arrays]
        wrong = [name for name, axes in ARRAYS.items() if name in arrays and arrays[name].ndim != axes]
        if lacking or wrong or arrays["names"].dtype.kind != "U":
            raise RecordingError(
                f"{path}: a track has {', '.join(f'{n} with {a} axes' for n, a in ARRAYS.items())}, names as text; "
                f"lacking are {', '.join(lacking) or 'none'}, of another shape {', '.join(wrong) or 'none'}."
            )
        names = tuple(str(name) for name in arrays["names"])
        time_s, points, pose, size = (np.asarray(arrays[n], dtype=np.float64) for n in ARRAYS if n != "names")
        return HandTrack(time_s, names, points, pose, size, str(path))

    def save(self, path: Path) -> None:
        """Writes a track.npz."""
        arrays = {name: getattr(self, name) for name in ("time_s", "points", "object_pose", "object_size")}
        np.savez(path, names=np.array(self.names), **arrays)
