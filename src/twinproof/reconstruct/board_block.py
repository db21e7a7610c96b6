"""Cameras from a tag or a chessboard, where a recording shows one: hand-eye calibration as a block.

a camera that stands and a board on a link      the camera in the world
a camera on a link and a board that stands      the camera on its link
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.nouns.errors import ConfigError, RigError, TwinError
from twinproof.nouns.files import read_json, write_json
from twinproof.nouns.parts import Calibration
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.rig import Intrinsics, Mount
from twinproof.nouns.strict import build, plain
from twinproof.reconstruct.calibration_block import FoundCamera, triple
from twinproof.reconstruct.clips import offsets_of
from twinproof.reconstruct.hand_eye import Setup
from twinproof.reconstruct.hand_eye_refine import Calibrated, LensFreedom, calibrate
from twinproof.reconstruct.plane_pose import Sight
from twinproof.reconstruct.poses import quat_of
from twinproof.reconstruct.robot_frames import far_apart, joint_angles
from twinproof.reconstruct.tags import april_tags, chessboard

if TYPE_CHECKING:
    from twinproof.nouns.episode import Episode
    from twinproof.reconstruct.assemble import Room

FORMAT = "twinproof/reconstruct-boards/1"
PICTURES = 24  # of each camera, in postures far apart
FEWEST = 5  # pictures that must show the board
SLOW = 0.15  # rad/s or m/s: faster, and late stamps would move the board
TAG = re.compile(r"(?P<kind>tag\w+):(?P<number>\d+)@(?P<parent>[^=]+)=(?P<size>[0-9.eE-]+)")
CHESS = re.compile(r"chessboard:(?P<columns>\d+)x(?P<rows>\d+)@(?P<parent>[^=]+)=(?P<size>[0-9.eE-]+)")


@dataclass(frozen=True)
class Board:
    """A tag (its family and number) or a chessboard (its inner corners), and what carries it: a link, or "world".

    `size_m` is the width of a tag's black square, or of one square of the chessboard.
    """

    kind: str
    size_m: float
    parent: str = "world"
    number: int = 0
    inner: tuple[int, int] = (0, 0)

    def seen(self, rgb: np.ndarray, name: str, lens: Intrinsics) -> Sight | None:
        """The board in a picture; None where it is not there."""
        if self.kind == "chessboard":
            return chessboard(rgb, self.inner, self.size_m, name)
        return april_tags(rgb, self.size_m, name, self.kind, lens).get(self.number)

    def __str__(self) -> str:
        if self.kind == "chessboard":
            return f"the chessboard of {self.inner[0]} × {self.inner[1]} corners on {self.parent}"
        return f"{self.kind} {self.number} on {self.parent}"


def read_board(text: str) -> Board:
    """tag36h11:10@hand=0.048, or chessboard:9x6@world=0.0236."""
    if found := TAG.fullmatch(text):
        return Board(found["kind"], float(found["size"]), found["parent"], int(found["number"]))
    if found := CHESS.fullmatch(text):
        inner = int(found["columns"]), int(found["rows"])
        return Board("chessboard", float(found["size"]), found["parent"], inner=inner)
    raise ConfigError(
        f"--board {text!r} is neither FAMILY:NUMBER@LINK=METRES (tag36h11:10@hand=0.048) nor "
        "chessboard:COLUMNSxROWS@LINK=METRES (chessboard:9x6@world=0.0236)."
    )


@dataclass(frozen=True)
class FoundBoards:
    """Cameras that a board told more about than pictures of robot and table had; and what was seen."""

    cameras: Mapping[str, FoundCamera]
    notes: tuple[str, ...] = field(default=())

    def save(self, folder: Path) -> None:
        """Writes boards.json."""
        told: Any = plain(self)
        write_json(folder / "boards.json", {"format": FORMAT, **told})

    @classmethod
    def load(cls, folder: Path) -> FoundBoards:
        """Reads it back."""
        path = folder / "boards.json"
        data = dict(read_json(path, FORMAT, TwinError))
        data.pop("format")
        return build(cls, data, str(path), TwinError)

    def applied(self, room: Room) -> Room:
        """The room with these cameras in place of those before."""
        still = {n: self.cameras.get(n, c) for n, c in room.found.cameras.items()}
        riding = {n: self.cameras.get(n, c) for n, c in room.riding.items()}
        return replace(room, found=replace(room.found, cameras=still), riding=riding)


def found_boards(
    calibration: Calibration, room: Room, boards: Sequence[Board], progress: Progress = quiet
) -> FoundBoards:
    """Every camera with every board that it can be calibrated by; a board that no camera shows is an error."""
    assert room.robot is not None, "boards are found beside a robot"
    links, cameras, notes = room.robot.fine.splats.groups, dict[str, FoundCamera](), list[str]()
    for board in boards:
        if board.parent != "world" and board.parent not in links:
            raise RigError(
                f"--board: {board} hangs on nothing: the robot has no link {board.parent!r}; it has "
                f"{', '.join(links)}, and there is 'world'."
            )
        used = 0
        for name, camera in room.cameras.items():
            rides = camera.mount.parent != "world"
            if rides == (board.parent != "world"):
                continue  # both stand, or both ride: the hand between them does not move
            hand = camera.mount.parent if rides else board.parent
            hands, sights = _sights(calibration, room, name, board, hand, progress)
            if len(sights) < FEWEST:
                notes.append(f"camera {name} shows {board} in {len(sights)} pictures; {FEWEST} are needed")
                continue
            setup = Setup.EYE_IN_HAND if rides else Setup.EYE_TO_HAND
            freedom = LensFreedom(focal=max(camera.focal_sd, 1e-3))
            done = calibrate(setup, hands, sights, camera.intrinsics, freedom)
            used += 1
            better = _better(camera, done)
            notes.append(_sentence(name, board, done, len(sights), better is not None))
            if better is not None:
                cameras[name] = better
        if not used:
            raise TwinError(
                f"no camera shows {board} in {FEWEST} pictures of a slow hand. Check its family, number and size, and "
                "what carries it; record the hand standing still in 8 postures or more."
            )
    return FoundBoards(cameras, tuple(notes))


def _better(camera: FoundCamera, done: Calibrated) -> FoundCamera | None:
    """The camera as the board has it; None where it was known better before."""
    if 1e-3 * done.sd_mm >= camera.mount.position_sd_m > 0:
        return None
    T = done.answer.T_parent_camera
    turn = float(np.radians(done.sd_deg))
    mount = Mount(camera.mount.parent, triple(T[:3, 3]), quat_of(T), 1e-3 * done.sd_mm, turn)
    return replace(camera, mount=mount, intrinsics=done.lens)


def _sentence(name: str, board: Board, done: Calibrated, pictures: int, taken: bool) -> str:
    out = "" if taken else "; pictures of robot and table had told more, and stay"
    return (
        f"camera {name}: {board} in {pictures} pictures puts it to {done.sd_mm:.1f} mm and {done.sd_deg:.2f}°, corners "
        f"{done.px:.2f} px off{out}"
    )


def _sights(
    calibration: Calibration, room: Room, name: str, board: Board, hand: str, progress: Progress
) -> tuple[np.ndarray, list[Sight]]:
    """The link's poses and the board in pictures of all episodes, taken while the hand was slow."""
    rig, camera = calibration.recording.rig, room.cameras[name]
    assert room.robot is not None, "boards are found beside a robot"
    link = room.robot.fine.splats.groups.index(hand)
    episodes = [e for e in calibration.recording.episodes if name in e.videos]
    hands, sights = list[np.ndarray](), list[Sight]()
    late_s = rig.cameras[name].clock_offset_s + camera.clock_offset_s + camera.readout_s / 2
    for done, episode in enumerate(episodes):
        share = max(FEWEST, -(-PICTURES // len(episodes)))
        for q, rgb, label in _slow(episode.fresh(), calibration, room, name, late_s, share):
            sight = board.seen(rgb, label, camera.intrinsics)
            if sight is not None:
                hands.append(room.robot.poses.at(q)[link])
                sights.append(sight)
        progress(done + 1, f"{board} in {name}", len(episodes))
    return np.array(hands).reshape(-1, 4, 4), sights


def _slow(
    episode: Episode, calibration: Calibration, room: Room, name: str, late_s: float, share: int
) -> Iterator[tuple[np.ndarray, np.ndarray, str]]:
    """Joint angles and pictures in postures far apart, at times when no joint moves fast."""
    rig, video = calibration.recording.rig, episode.videos[name]
    angles = joint_angles(episode, rig)
    times = video.time_s + late_s
    inside = (times >= angles.time_s[0]) & (times <= angles.time_s[-1])
    speed = np.abs(np.gradient(angles.value, angles.time_s, axis=0)).max(axis=1)
    calm = np.flatnonzero(inside & (np.interp(times, angles.time_s, speed) < SLOW))
    if not len(calm):
        return
    q = angles.at(times[calm]) - offsets_of(rig, room.found)
    with video.reader() as reader:
        for k in far_apart(q, share):
            yield q[k], reader.frame(int(calm[k])), f"picture {int(calm[k])} of {name} in {episode.id[:8]}"
