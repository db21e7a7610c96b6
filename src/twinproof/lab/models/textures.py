"""Pictures for surfaces, drawn from named streams: wood, mat, cardboard, brushed metal, speckle. PNG, 8 bit."""

from __future__ import annotations

import struct
import zlib
from functools import cache

import numpy as np

from twinproof.nouns.randomness import stream

SIDE = 256  # pixels


@cache
def assets() -> dict[str, bytes]:
    """File name -> PNG of every texture that the lab's models use."""
    made = {"wood": _wood(), "mat": _mat(), "card": _card(), "metal": _metal(), "speckle": _speckle(), "wall": _wall()}
    return {f"{name}.png": png(picture) for name, picture in made.items()}


FLAT = {"wood": (0.25, 2), "mat": (0.05, 1), "wall": (0.02, 3)}  # name -> shine, repeats; seen from one side
AROUND = {"card": 0.02, "metal": 0.6, "speckle": 0.3}  # on all six sides of a thing


def elements() -> str:
    """The <texture> and <material> elements that use them, by the same names."""
    lines = [f'<texture name="{name}" type="2d" file="{name}.png"/>' for name in FLAT]
    lines += [f'<texture name="{name}" type="cube" file="{name}.png"/>' for name in AROUND]
    lines += [
        f'<material name="{name}" texture="{name}" specular="{shine}" shininess="{shine}" texrepeat="{times} {times}"/>'
        for name, (shine, times) in FLAT.items()
    ]
    lines += [
        f'<material name="{name}" texture="{name}" specular="{shine}" shininess="{shine}"/>'
        for name, shine in AROUND.items()
    ]
    return "\n    ".join(lines)


def _noise(name: str, cells: int, octaves: int = 4) -> np.ndarray:
    """Smooth noise in -1 .. 1 that tiles: random values on a grid, blended, several scales."""
    total, weight = np.zeros((SIDE, SIDE)), 0.0
    for octave in range(octaves):
        count = cells * 2**octave
        grid = stream(0, "lab", "texture", name, f"octave{octave}").uniform(-1, 1, (count, count))
        place = np.arange(SIDE) * count / SIDE
        low, share = place.astype(int), place - place.astype(int)
        share = share * share * (3 - 2 * share)
        rows = grid[low] * (1 - share)[:, None] + grid[(low + 1) % count] * share[:, None]
        total += (rows[:, low] * (1 - share) + rows[:, (low + 1) % count] * share) / 2**octave
        weight += 1 / 2**octave
    smooth: np.ndarray = total / weight
    return smooth


def _coloured(grey: np.ndarray, dark: tuple[int, int, int], bright: tuple[int, int, int]) -> np.ndarray:
    share = np.clip(grey, 0, 1)[..., None]
    mixed: np.ndarray = np.array(dark) * (1 - share) + np.array(bright) * share
    return mixed


def _wood() -> np.ndarray:
    """Boards of beech along x, with rings, pores and joints."""
    y, x = np.mgrid[0:SIDE, 0:SIDE] / SIDE
    board = (y * 4).astype(int)
    shift = stream(0, "lab", "texture", "boards").uniform(0, 1, 4)[board]
    rings = np.sin(2 * np.pi * (14 * (y + shift) + 0.9 * _noise("rings", 2) + 0.25 * np.sin(2 * np.pi * (x + shift))))
    pores = np.repeat(_noise("pores", 16, 2)[:, ::8], 8, axis=1)
    grey = 0.55 + 0.09 * rings + 0.16 * pores + 0.22 * (shift - 0.5)
    grey = np.where((y * 4) % 1 < 0.02, grey - 0.45, grey)
    return _coloured(grey, (106, 68, 38), (214, 172, 122))


def _mat() -> np.ndarray:
    """A green cutting mat with a grid and some wear."""
    y, x = np.mgrid[0:SIDE, 0:SIDE]
    fine, coarse = (x % 16 == 0) | (y % 16 == 0), (x % 64 < 2) | (y % 64 < 2)
    grey = 0.35 + 0.12 * _noise("mat", 8) + 0.18 * fine + 0.4 * coarse
    return _coloured(grey, (16, 52, 46), (150, 190, 160))


def _card() -> np.ndarray:
    fibres = np.repeat(_noise("fibres", 32, 2)[:, ::4], 4, axis=1)
    return _coloured(0.55 + 0.25 * _noise("card", 6) + 0.2 * fibres, (134, 96, 60), (206, 166, 120))


def _metal() -> np.ndarray:
    brushed = np.repeat(stream(0, "lab", "texture", "metal").uniform(-1, 1, (SIDE, 1)), SIDE, axis=1)
    return _coloured(0.6 + 0.12 * brushed + 0.1 * _noise("metal", 3), (96, 100, 106), (214, 218, 222))


def _speckle() -> np.ndarray:
    """Moulded plastic with flecks; a material's colour tints it."""
    grain = stream(0, "lab", "texture", "speckle").uniform(0, 1, (SIDE // 4, SIDE // 4)).repeat(4, 0).repeat(4, 1)
    grey = 0.8 + 0.12 * _noise("plastic", 6) - 0.45 * (grain > 0.93) + 0.2 * (grain < 0.05)
    return _coloured(grey, (40, 40, 40), (255, 255, 255))


def _wall() -> np.ndarray:
    """Painted plaster with the joint of two panels."""
    grey = 0.7 + 0.15 * _noise("wall", 4)
    grey[:, :3] -= 0.35
    return _coloured(grey, (150, 150, 146), (226, 226, 220))


def png(picture: np.ndarray) -> bytes:
    """An (H, W, 3) picture as PNG bytes."""
    rows = np.clip(np.round(picture), 0, 255).astype(np.uint8)
    height, width = rows.shape[:2]
    raw = b"".join(b"\x00" + row.tobytes() for row in rows)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b"")
