"""Cameras from a tag or a chessboard alone: pictures of a hand that stands still, and its pose as the robot reports it.

No robot's model and no joint angles are needed: the recording has the hand's pose as a signal. For a whole twin the
board is one block among others (board_block.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import RecordingError, RigError
from twinproof.nouns.files import write_json
from twinproof.nouns.hashing import Json
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.strict import plain
from twinproof.reconstruct.board_block import FEWEST, Board
from twinproof.reconstruct.hand_eye import Setup
from twinproof.reconstruct.hand_eye_refine import Calibrated, LensFreedom, calibrate
from twinproof.reconstruct.plane_pose import Sight
from twinproof.reconstruct.poses import quat_of

if TYPE_CHECKING:
    from twinproof.nouns.episode import Episode
    from twinproof.nouns.recording import Recording
    from twinproof.nouns.rig import Intrinsics
    from twinproof.nouns.signal import Signal

FORMAT = "twinproof/cameras/1"
APART_S = 0.05  # a pose farther than this from its picture is another posture's
POSE = 7  # x, y, z, qw, qx, qy, qz


@dataclass(frozen=True, eq=False)
class Placed:
    """One camera as a board has it."""

    camera: str
    parent: str
    board: Board
    pictures: int
    found: Calibrated


def placed_by_boards(
    recording: Recording, boards: Sequence[Board], freedom: LensFreedom, progress: Progress = quiet
) -> tuple[Placed, ...]:
    """Every camera of the rig with every board that it shows; a camera that shows none is an error."""
    cameras = {name: camera for name, camera in recording.rig.cameras.items() if camera.intrinsics is not None}
    made = list[Placed]()
    for name, camera in cameras.items():
        told = []
        for board in boards:
            rides = board.parent == "world"
            parent = camera.mount.parent if camera.mount is not None else "world"
            if rides and parent == "world":
                raise RigError(
                    f"camera {name} and {board} both stand: the hand between them does not move. State in rig.toml "
                    f"what carries the camera ([cameras.{name}.mount], parent), or what carries the board."
                )
            hand = parent if rides else board.parent
            pairs = [pair for episode in recording.episodes for pair in _pictures(episode, name, hand)]
            lens = camera.intrinsics
            assert lens is not None
            done = _calibrated(pairs, board, lens, freedom, Setup.EYE_IN_HAND if rides else Setup.EYE_TO_HAND)
            told.append(f"{board} in {done if isinstance(done, int) else len(done.robot)} pictures")
            if not isinstance(done, int):
                made.append(Placed(name, hand if rides else "world", board, len(done.robot), done))
            progress(len(told), f"{board} in {name}", len(boards))
        if not any(each.camera == name for each in made):
            raise RecordingError(
                f"camera {name} shows {', '.join(told)}; {FEWEST} are needed. Check the board's family, number and "
                "size, and record the hand standing still in 8 postures or more."
            )
    if not cameras:
        raise RigError("no camera of the rig has intrinsics. State [cameras.NAME.intrinsics] as well as you know them.")
    return tuple(made)


def _calibrated(
    pairs: Sequence[tuple[np.ndarray, np.ndarray, str]], board: Board, lens: Intrinsics, freedom: LensFreedom,
    setup: Setup,
) -> Calibrated | int:  # fmt: skip
    """The calibration, or in how few pictures the board was seen. With a free lens corners are found twice."""
    seen = [(pose, board.seen(rgb, name, lens)) for pose, rgb, name in pairs]
    hands, sights = _both(seen)
    if len(sights) < FEWEST:
        return len(sights)
    done = calibrate(setup, hands, sights, lens, freedom)
    if not freedom.sd.any():
        return done
    hands, sights = _both([(pose, board.seen(rgb, name, done.lens)) for pose, rgb, name in pairs])
    return calibrate(setup, hands, sights, lens, freedom)


def _both(seen: Sequence[tuple[np.ndarray, Sight | None]]) -> tuple[np.ndarray, list[Sight]]:
    kept = [(pose, sight) for pose, sight in seen if sight is not None]
    return np.array([pose for pose, _ in kept]).reshape(-1, 4, 4), [sight for _, sight in kept]


def _pictures(episode: Episode, camera: str, hand: str) -> list[tuple[np.ndarray, np.ndarray, str]]:
    """T_base_hand and picture, for every picture of a camera in an episode."""
    if camera not in episode.videos:
        return []
    signal, video = _poses(episode, hand), episode.videos[camera]
    pairs = []
    for k, (time_s, rgb) in enumerate(video.frames()):
        at = int(np.argmin(np.abs(signal.time_s - time_s)))
        if abs(float(signal.time_s[at]) - time_s) > APART_S:
            raise RecordingError(
                f"picture {k} of {camera} at {time_s:.3f} s has no pose of {hand!r} within {APART_S} s; the nearest is "
                f"at {signal.time_s[at]:.3f} s. Log the pose of every picture."
            )
        pairs.append((_matrix(signal.value[at]), rgb, f"picture {k} of {camera} in {episode.id[:8]}"))
    return pairs


def _poses(episode: Episode, hand: str) -> Signal:
    signal = episode.signals.get(hand)
    if signal is None or signal.kind != "pose" or signal.value.shape[1] != POSE:
        poses = [each.name for each in episode.of_kind("pose")]
        raise RecordingError(
            f"episode {episode.id[:8]} has no pose of {hand!r}; its poses are {', '.join(poses) or 'none'}. Name one "
            "of these after the @ of --board, or log x, y, z, qw, qx, qy, qz of the hand as a signal of kind pose."
        )
    return signal


def _matrix(row: np.ndarray) -> np.ndarray:
    from scipy.spatial.transform import Rotation

    T = np.eye(4)
    T[:3, 3], T[:3, :3] = row[:3], Rotation.from_quat(row[[4, 5, 6, 3]]).as_matrix()
    return T


def write_cameras(placed: Sequence[Placed], recording: Recording, path: Path) -> None:
    """A new JSON file with mounts, lenses and errors; mounts and lenses are called as in rig.toml."""
    told: Json = [_told(each) for each in placed]
    write_json(path, {"format": FORMAT, "recording": recording.hash, "cameras": told})


def _told(each: Placed) -> dict[str, Json]:
    found, T = each.found, each.found.answer.T_parent_camera
    return {
        "camera": each.camera,
        "board": str(each.board),
        "pictures": each.pictures,
        "mount": {
            "parent": each.parent,
            "position_m": T[:3, 3].tolist(),
            "quat_wxyz": list(quat_of(T)),
            "position_sd_m": found.sd_mm / 1e3,
            "rotation_sd_rad": float(np.radians(found.sd_deg)),
        },
        "intrinsics": plain(found.lens),
        "scatter_of_camera": {"deg": found.answer.camera.deg, "mm": found.answer.camera.mm},
        "scatter_of_board": {"deg": found.answer.board.deg, "mm": found.answer.board.mm},
        "corners_px": found.px,
        "suspects": list(found.suspects),
    }
