"""The command of retargeting: a track of a human hand with an object in, a motion of the robot out."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from twinproof import settings


@dataclass(frozen=True)
class Retarget:
    """Make a robot's motion from how a human hand moved an object: what the hand did relative to the object is kept.

    examples:
      twinproof retarget track.npz --twin twin --out motion
      twinproof train twin randomization --task motion --algo dagger --steps 60000 --out policy

    TRACK is a .npz of keypoints and object poses (docs/train.md). The motion is a Recording that --task takes.
    """

    track: Positional[Path]
    """The hand's track, a .npz file."""
    twin: Path
    """A Twin folder with one arm and an object."""
    out: Path = Path("motion")
    """The new Recording folder, with motion.png."""
    home: tuple[str, ...] = ()
    """Where the robot rests, 'elbow=0.9' in rad or m, where the scene has no keyframe 'home'."""
    object: str = ""
    """The object's body, where the twin has several that move freely."""
    smooth: float = 0.06
    """Seconds (sd) that keypoints and poses are smoothed over."""
    within: float = 0.02
    """The median error in m that is asked for; a track that no placement keeps within it is refused."""


def retarget(config: Retarget) -> int:
    """`twinproof retarget`."""
    from twinproof.nouns.twin import Twin
    from twinproof.tasks.home import home_of
    from twinproof.tasks.machine import Machine
    from twinproof.train import retarget as room
    from twinproof.train.hand_track import HandTrack
    from twinproof.train.motion_plot import draw_motion

    twin = Twin.load(config.twin)
    machine = Machine.of(twin, home=home_of(config.home, twin))
    how = room.Retarget(smooth_s=config.smooth, within_m=config.within)
    motion = room.retarget(HandTrack.load(config.track), machine, how, config.object)
    room.recording_of(motion, machine, config.track.name, config.object).save(config.out)
    draw_motion(motion, machine, config.track.name, config.out / "motion.png")
    settings.save(settings.resolved(config, "retarget"), config.out)
    error_mm = sorted(1e3 * motion.error_m)
    sys.stdout.write(
        f"{config.out}: {motion.time_s[-1]:.1f} s of motion, {motion.slowed:.2f} times as long as the track; the tip "
        f"is within {error_mm[len(error_mm) // 2]:.1f} mm of the hand in the median, {error_mm[-1]:.1f} mm at most, "
        f"seen from the object; one unit of the track is {motion.scale:.3f} m\n"
    )
    return 0
