"""An object's pose as a recording holds it (a tag, motion capture), ready to join the refinement.

Nobody states where a sensor's body frame lies in ours, nor how well it measures. Both come from the pictures' own
track: the frame from the mean of what lies between the two, the error from how far they are apart then, which
counts the tracker's own errors too. So a recorded track tells how the object moves, and not where the world is.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation

from twinproof.nouns.episode import Episode
from twinproof.nouns.rig import Rig
from twinproof.nouns.signal import Signal
from twinproof.sim.track_pose import Track, move_between, poses_at

COLUMNS = ("x", "y", "z", "qw", "qx", "qy", "qz")
LEAST_SD_M, LEAST_SD_RAD = 0.0003, 0.003
FEWEST = 8  # samples while the pictures see the object


def recorded_track(episode: Episode, rig: Rig, name: str, followed: Track) -> tuple[Track | None, str]:
    """The track of signal `NAME_pose`, or of `object_pose`, in the frame of one followed in pictures; or none, and why.

    No more samples are taken than there are pictures: those in between err together.
    """
    signal = episode.signals.get(f"{name}_pose") or episode.signals.get("object_pose")
    if signal is None or signal.kind != "pose":
        return None, ""
    if {column.name for column in signal.columns} != set(COLUMNS) or {c.frame for c in signal.columns} - {"", "world"}:
        return None, f"{signal.name} is not used: its columns are not {' '.join(COLUMNS)} in the world"
    time_s, poses = _poses(signal, rig)
    seen = followed.time_s[~followed.lost]
    inside = np.flatnonzero((time_s >= seen[0]) & (time_s <= seen[-1])) if len(seen) else np.zeros(0, int)
    if len(inside) < FEWEST:
        return None, f"{signal.name} is not used: {len(inside)} samples of it are of times at which {name} was followed"
    some = inside[np.unique(np.linspace(0, len(inside) - 1, min(len(inside), len(seen))).round().astype(int))]
    ours = poses_at(followed, time_s[some])
    between = np.linalg.inv(poses[some]) @ ours
    T_sensor_object = np.eye(4)
    T_sensor_object[:3, :3] = Rotation.from_matrix(between[:, :3, :3]).mean().as_matrix()
    T_sensor_object[:3, 3] = np.median(between[:, :3, 3], axis=0)
    told = poses[some] @ T_sensor_object
    off = move_between(told, ours)
    sd_m, sd_rad = (float(np.sqrt(np.mean(np.square(each)))) for each in (off[:, :3], off[:, 3:]))
    sd_m, sd_rad = max(sd_m, LEAST_SD_M), max(sd_rad, LEAST_SD_RAD)
    spread = np.tile(np.diag(np.square([sd_m] * 3 + [sd_rad] * 3)), (len(some), 1, 1))
    full = np.ones(len(some))
    said = f"{signal.name} joins the refinement of {name}: {len(some)} poses, taken as {1e3 * sd_m:.1f} mm sure"
    return Track(time_s[some], told, spread, full, 0 * full, full < 0), said


def _poses(signal: Signal, rig: Rig) -> tuple[np.ndarray, np.ndarray]:
    """Times on the robot's clock and T_world_sensor of the whole samples."""
    rows = np.stack([signal.column(name) for name in COLUMNS], axis=1)
    whole = np.isfinite(rows).all(axis=1) & (np.linalg.norm(np.nan_to_num(rows[:, 3:]), axis=1) > 0.5)
    rule = rig.signals.get(signal.name)
    poses = np.tile(np.eye(4), (int(whole.sum()), 1, 1))
    poses[:, :3, :3] = Rotation.from_quat(rows[whole][:, [4, 5, 6, 3]]).as_matrix()
    poses[:, :3, 3] = rows[whole, :3]
    return signal.time_s[whole] + (rule.clock_offset_s if rule is not None else 0.0), poses
