"""Pictures decoded, and what lies beside them: masks of groups, and depth.

masks/NAME.png       one grey picture for each picture NAME (its whole file name, or without its ending): 0 does not
                     count; without groups.txt every other value does
masks/groups.txt     one name a line: the value k means the group in line k
mask_path            of a frame in transforms.json: the same, by name
depth_file_path      of a frame in transforms.json: 16-bit PNG, depth along the view axis in millimetres (or in
                     depth_unit_scale_factor metres), 0 where it is not known
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from twinproof.ingest.posed import Posed
from twinproof.nouns.errors import SplatError
from twinproof.nouns.files import inside
from twinproof.nouns.pictures import picture_head

UNKNOWN_DEPTH = 65535  # some sensors write it, others 0
FOLDER, NAMES = "masks", "groups.txt"


def decoded(path: Path, longest_px: int | None = None) -> tuple[np.ndarray, bool, tuple[int, int]]:
    """A picture file as RGBA, made smaller where its longer side exceeds `longest_px`; alpha?; its stored size."""
    from av.video.reformatter import Interpolation

    frame = _frame(path)
    stored = (int(frame.width), int(frame.height))
    share = min(1.0, longest_px / max(stored)) if longest_px is not None else 1.0
    width, height = (max(1, round(side * share)) for side in stored)
    has_alpha = any(component.is_alpha for component in frame.format.components) or "pal" in frame.format.name
    # Without these two flags the conversion from YUV is fast and darkens every picture by about 0.7 of 255.
    how = Interpolation.FULL_CHR_H_INT | Interpolation.ACCURATE_RND
    how |= Interpolation.AREA if share < 1 else Interpolation.BICUBIC
    rgba: np.ndarray = frame.reformat(width, height, "rgba", interpolation=int(how)).to_ndarray()
    return rgba, has_alpha, stored


@dataclass(frozen=True)
class Masks:
    """Where masks lie, and the groups that their values name."""

    folder: Path
    pictures: Path
    groups: tuple[str, ...] = ("background",)
    named: bool = False

    @staticmethod
    def below(root: Path, pictures: Path) -> Masks:
        """The masks of a folder with posed pictures; it need not have any."""
        path = root / FOLDER / NAMES
        if not path.is_file():
            return Masks(root / FOLDER, pictures)
        groups = tuple(line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
        if not groups or len(set(groups)) != len(groups):
            raise SplatError(f"{path} names {len(groups)} groups, some twice or none. Write one name a line.")
        return Masks(root / FOLDER, pictures, groups, named=True)

    def of(self, image: Posed, stored: tuple[int, int], size: tuple[int, int]) -> np.ndarray | None:
        """The group of every pixel, -1 where it does not count, in the size of the picture; None without a mask."""
        path = inside(self.pictures, image.mask, SplatError) if image.mask else self._beside(image.file)
        if path is None:
            return None
        values = _plane(path, "gray", stored, size).astype(np.int32)
        if not self.named:
            return np.where(values > 0, 0, -1)
        if values.max() > len(self.groups):
            raise SplatError(
                f"{path} has the value {values.max()}, but {self.folder / NAMES} names {len(self.groups)} groups. Name "
                "every value from 1 on."
            )
        return values - 1

    def _beside(self, file: str) -> Path | None:
        names = (f"{file}.png", str(Path(file).with_suffix(".png")))
        short = tuple(name.removeprefix("images/") for name in names)  # transforms.json names the folder as well
        return next((path for name in (*names, *short) if (path := self.folder / name).is_file()), None)


def depth_of(pictures: Path, image: Posed, stored: tuple[int, int], size: tuple[int, int]) -> np.ndarray | None:
    """Depth in metres, 0 where it is not known, in the size of the picture; None where the model names none."""
    if not image.depth:
        return None
    counts = _plane(inside(pictures, image.depth, SplatError), "gray16le", stored, size)
    return np.where(counts == UNKNOWN_DEPTH, 0, counts).astype(np.float32) * np.float32(image.depth_unit_m)


def _plane(path: Path, kind: str, stored: tuple[int, int], size: tuple[int, int]) -> np.ndarray:
    """One value for each pixel, taken from the nearest: values of masks and depth have no mean."""
    frame = _frame(path)
    sixteen = "16" in frame.format.name
    if not frame.format.name.startswith("gray") or sixteen != ("16" in kind):
        raise SplatError(f"{path} is {frame.format.name}; needed is a grey PNG of {16 if '16' in kind else 8} bits.")
    if (frame.width, frame.height) != stored:
        raise SplatError(
            f"{path} is {frame.width}×{frame.height}, its picture {stored[0]}×{stored[1]}. Make both one size."
        )
    values: np.ndarray = frame.to_ndarray(format=kind)
    if stored == size:
        return values
    rows, columns = (((np.arange(n) + 0.5) * m / n).astype(int) for n, m in zip(size[::-1], stored[::-1], strict=True))
    picked: np.ndarray = values[rows][:, columns]
    return picked


def _frame(path: Path) -> Any:
    import av

    try:
        data = path.read_bytes()
    except OSError as problem:
        raise SplatError(f"{path} cannot be read ({problem.strerror}). Restore it, or remove its name.") from None
    head = picture_head(data, str(path))
    try:
        codec: Any = av.CodecContext.create(head.codec, "r")
        frames = [*codec.decode(av.Packet(data)), *codec.decode(None)]
    except (av.error.FFmpegError, OSError, ValueError) as problem:
        raise SplatError(f"{path} does not decode ({problem}). Restore it, or remove its pose.") from None
    if not frames:
        raise SplatError(f"{path} holds no picture. Restore it, or remove its pose.")
    return frames[0]
