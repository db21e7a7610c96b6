"""The command that finds cameras from a tag or a chessboard alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from twinproof import settings
from twinproof.nouns.errors import ConfigError


@dataclass(frozen=True)
class Calibrate:
    """Find where cameras stand from pictures of a tag or chessboard and the hand's reported poses, with errors.

    examples:
      twinproof calibrate recording --board tag36h11:10@hand=0.048 --out cameras
      twinproof calibrate recording --board chessboard:9x6@world=0.0236 --lens-sd 0.01 5 0.3 0.5 --out cameras

    `hand` is a signal of kind pose in the recording: x, y, z, qw, qx, qy, qz in the robot's base. With a board on the
    hand the camera stands; with a board in the world the camera rides on what its mount names. The hand stands still in
    every picture.
    """

    recording: Positional[Path]
    """A Recording folder, or the calibration part of a Split."""
    board: tuple[str, ...]
    """tag36h11:10@hand=0.048 or chessboard:9x6@world=0.0236: a board, what carries it, and its size in m."""
    out: Path
    """The new folder: cameras.json, with mounts and lenses as rig.toml has them."""
    lens_sd: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    """How far the lens may lie from the rig's: share of the focal length, centre in px, k1, k2; 0 holds it."""


def calibrate(config: Calibrate) -> int:
    """`twinproof calibrate`."""
    from twinproof.ingest import report
    from twinproof.nouns.files import new_folder
    from twinproof.nouns.progress import bar
    from twinproof.nouns.recording import Recording
    from twinproof.reconstruct.board_block import read_board
    from twinproof.reconstruct.boards_alone import placed_by_boards, write_cameras
    from twinproof.reconstruct.hand_eye_refine import LensFreedom

    if config.out.exists():
        raise ConfigError(f"{config.out} exists. Nothing is overwritten: name another folder, or remove it.")
    recording, boards = Recording.load(config.recording), [read_board(text) for text in config.board]
    with bar("calibrate") as progress:
        found = placed_by_boards(recording, boards, LensFreedom(*config.lens_sd), progress)
    with new_folder(config.out) as folder:
        write_cameras(found, recording, folder / "cameras.json")
    settings.save(settings.resolved(config, "calibrate"), config.out)
    for each in found:
        done, place = each.found, ", ".join(f"{x:.4f}" for x in each.found.answer.T_parent_camera[:3, 3])
        report.say(f"camera {each.camera} in {each.parent} at [{place}] m ± {done.sd_mm:.1f} mm, ± {done.sd_deg:.2f}°")
        report.say(
            f"  {each.board} in {each.pictures} pictures; the camera scatters by {done.answer.camera.deg:.3f}° and "
            f"{done.answer.camera.mm:.2f} mm from picture to picture, corners by {done.px:.2f} px"
        )
    return 0
