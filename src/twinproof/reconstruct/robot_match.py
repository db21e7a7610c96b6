"""How well the drawn robot matches the pictures, link by link: a model that does not fit is found and named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from twinproof.nouns.errors import TwinError
from twinproof.reconstruct import robot_fit as fit
from twinproof.reconstruct.robot_calibrate import Calibrated
from twinproof.reconstruct.robot_compare import KNOWN, foreground
from twinproof.reconstruct.robot_fit import Robot
from twinproof.reconstruct.robot_frames import RobotFrames
from twinproof.sim.link_splats import moved
from twinproof.sim.splat.render import render

AGREES = 0.2  # of full brightness, over the three channels: what light and shadow do to a link's colour
LEAST_PX = 40  # of a link over all pictures, before it is judged
LEAST_SHARE, LEAST_LINK = 0.55, 0.3
EDGE_PX = 2
REACH_PX = 6.0


@dataclass(frozen=True)
class Match:
    """Shares of drawn pixels whose colour agrees, by camera and by link, and of the robot's outline that is met."""

    by_camera: dict[str, float]
    by_link: dict[str, float]
    pixels: int
    outline_px: dict[str, float]  # rms gap of the drawn outline to the picture's, in recorded pixels, by camera


def match(robot: Robot, found: Calibrated) -> Match:
    """Counts over the frames that were fitted; two pixels along outlines are left out."""
    from scipy.ndimage import minimum_filter

    good, all_px, gaps = dict[str, float](), dict[str, float](), dict[str, list[np.ndarray]]()
    names = robot.fine.splats.groups
    for frames in found.frames:
        sight, look = found.guess.cameras[frames.camera], found.looks[frames.camera]
        for k in frames.chosen:
            poses = robot.poses.at(fit.angles_at(frames, sight, float(frames.time_s[k])) - found.guess.offsets)
            splats = robot.fine.towards(look.colours(robot.fine, poses), poses, sight.camera(), sight.swell_px)
            drawn = render(splats, sight.camera(), moved=moved(robot.fine, poses), what=("colour", "alpha", "group"))
            picture = fit.whole(drawn)
            assert picture.group is not None
            inner = minimum_filter(picture.alpha > 0.8, 2 * EDGE_PX + 1) & (picture.group >= 0)
            gaps.setdefault(frames.camera, []).append(frames.shrink * _outline_gaps(picture.alpha > 0.5, frames, k))
            off = np.linalg.norm(picture.colour - frames.rgb[k], axis=2)
            for key, where in [(frames.camera, inner)] + [
                (f"link {n}", inner & (picture.group == g)) for g, n in enumerate(names)
            ]:
                all_px[key] = all_px.get(key, 0) + float(where.sum())
                good[key] = good.get(key, 0) + float((off[where] < AGREES).sum())
    share = {key: good[key] / all_px[key] for key in all_px if all_px[key] >= LEAST_PX}
    return Match(
        {name: share.get(name, 0.0) for name in found.guess.cameras},
        {name: share[f"link {name}"] for name in names if f"link {name}" in share},
        int(sum(all_px.get(name, 0) for name in found.guess.cameras)),
        {name: float(np.sqrt(np.mean(px**2))) for name, each in gaps.items() if len(px := np.concatenate(each))},
    )


def _outline_gaps(drawn: np.ndarray, frames: RobotFrames, k: int) -> np.ndarray:
    """How far pixels of the drawn outline are from the outline of what the picture shows before the plate.

    Those count where the plate is known; what lies farther off than REACH_PX has no partner (it is hidden, or looks
    like the plate) and does not.
    """
    from scipy.ndimage import binary_erosion, distance_transform_edt

    shown = foreground(frames.rgb[k], frames.plate) > 0.5
    edge = shown & ~binary_erosion(shown, border_value=1)
    if not edge.any():
        return np.zeros(0)
    outline = drawn & ~binary_erosion(drawn, border_value=1) & (frames.trust > KNOWN)
    far = np.asarray(distance_transform_edt(~edge))[outline]
    return np.asarray(far[far < REACH_PX])


def check(found: Match, cameras: Sequence[str]) -> None:
    """Refuses a calibration whose robot is not in the pictures, or looks otherwise than its model."""
    if found.pixels < LEAST_PX * len(cameras):
        raise TwinError(
            f"the robot covers {found.pixels} pixels of {', '.join(cameras)}: it is not in view. Check the mounts that "
            "rig.toml states, and that these cameras look at the robot."
        )
    total = float(np.mean(list(found.by_camera.values())))
    worst = sorted(found.by_link.items(), key=lambda entry: entry[1])
    if total < LEAST_SHARE or (worst and worst[0][1] < LEAST_LINK):
        named = ", ".join(f"{name} {share:.0%}" for name, share in worst[:3])
        raise TwinError(
            f"the drawn robot agrees with {total:.0%} of the pixels it covers (by link: {named}). Either the model is "
            "not this robot's, or the mounts in rig.toml are off by more than 5 cm or 6°, or the joints' order or "
            "signs are wrong."
        )
