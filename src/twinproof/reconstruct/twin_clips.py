"""What the cameras of a twin saw in an episode: clips with the robot drawn into masks, as the twin believes them."""

from __future__ import annotations

from typing import Any

from twinproof.nouns.clip import Clip
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import TwinError
from twinproof.nouns.rig import Rig
from twinproof.nouns.strict import build
from twinproof.nouns.twin import Twin
from twinproof.reconstruct.calibration_block import FoundCamera, FoundRobot, robot_of
from twinproof.reconstruct.clips import clips_of
from twinproof.sim.scene import Scene


def clips_for(twin: Twin, episode: Episode, rig: Rig, frames: int = 60) -> dict[str, Clip]:
    """Clips of the still cameras that the twin was calibrated with; the rig names the same cameras and joints."""
    told: Any = twin.audits.get("calibration")
    if not told:
        raise TwinError(
            "the twin says nothing about its cameras' clocks: it was not made from pictures. Make it with --robot, or "
            "with --cameras given."
        )
    cameras = {
        name: build(FoundCamera, dict(entry), f"twin.audits.calibration.{name}", TwinError)
        for name, entry in told["cameras"].items()
        if name in rig.cameras
    }
    missing = sorted(set(told["cameras"]) - set(cameras))
    if not cameras:
        raise TwinError(
            f"the recording has none of the twin's cameras ({', '.join(missing)}). Name them alike in the rig."
        )
    offsets = {
        id.removeprefix("joint.").removesuffix(".offset"): float(value)
        for id, value in twin.start.items()
        if id.startswith("joint.") and id.endswith(".offset")
    }
    found = FoundRobot(cameras, offsets, {}, {}, (), {})
    robot = robot_of(Scene.of(twin), rig) if any(body.layer == "robot" for body in twin.bodies) else None
    return clips_of(episode, rig, found, robot, frames)
