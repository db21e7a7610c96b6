"""Splat files: the standard 3DGS PLY in and out, and SPZ version 3 out.

PLY: float32, little endian: x y z nx ny nz f_dc_* f_rest_* opacity scale_* rot_*. `f_rest_*` is channel-major (all of
red, then green, then blue). Surfels have no scale_2. Groups are an extra `property int group` and header lines
`comment group 0 NAME`, which other viewers pass over. Splats stay in their groups' frames.

SPZ: a gzip of a 16-byte header and six planes (positions, alphas, colours, scales, rotations, harmonics), quantised.
It knows no groups: every splat is written where its group's frame has it. By its specification SPZ is RUB (x right,
y up, z back); we write our own world axes (right-handed, z up) as they are, because turning them would mean to
quantise turned harmonics. A viewer that believes RUB shows the scene lying down: turn it by -90° about x.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from twinproof.nouns.errors import SplatError, TwinError
from twinproof.nouns.files import write_whole
from twinproof.nouns.splats import BANDS, Splats
from twinproof.nouns.twin_files import HEADER_LIMIT, SplatHeader, splat_header

REST = {
    3 * (coefficients - 1): coefficients for coefficients in BANDS
}  # f_rest_* in a file -> coefficients of a colour
THIN = float(np.log(1e-6))  # third log scale of a surfel that was read: a file has none, and nobody looks at it
SPZ_MOST = 10_000_000  # splats that the reference reader takes
SPZ_FINEST_BITS = 20  # of a metre: 1 µm; coarser where the scene is wider than 8 m each way


def read_ply(path: Path, groups: Sequence[str] = ()) -> Splats:
    """The splats in a PLY of the standard layout; `groups` names its groups where the file does not.

    A file without groups is one group, "background". Sizes are checked before anything is allocated.
    """
    try:
        header = splat_header(path)
    except TwinError as problem:
        raise SplatError(str(problem)) from None
    rows = np.memmap(path, header.dtype, "r", header.offset, (header.count,)) if header.count else _no_rows(header)
    rest = sorted((name for name in header.fields if name.startswith("f_rest_")), key=lambda name: (len(name), name))
    if len(rest) not in REST or rest != [f"f_rest_{k}" for k in range(len(rest))]:
        raise SplatError(
            f"{path}: it has {len(rest)} fields f_rest_*; the standard layout has f_rest_0 and on, {_counts()} in all. "
            "Export it again."
        )
    flat = "scale_2" not in header.fields
    scales = _columns(rows, ("scale_0", "scale_1") if flat else ("scale_0", "scale_1", "scale_2"))
    group, names = _groups(path, header, rows, groups)
    dc = _columns(rows, ("f_dc_0", "f_dc_1", "f_dc_2"))
    higher = _columns(rows, rest).reshape(header.count, 3, len(rest) // 3).transpose(0, 2, 1)
    try:
        return Splats(
            means=_columns(rows, ("x", "y", "z")),
            quats_wxyz=_columns(rows, ("rot_0", "rot_1", "rot_2", "rot_3")),
            log_scales=np.pad(scales, ((0, 0), (0, 1)), constant_values=THIN) if flat else scales,
            logit_opacities=_columns(rows, ("opacity",))[:, 0],
            sh=np.concatenate([dc[:, None], higher], axis=1),
            group=group,
            groups=names,
            flat=flat,
        )
    except SplatError as problem:
        raise SplatError(f"{path}: {problem}") from None


def write_ply(path: Path, splats: Splats, *, groups: bool = True) -> None:
    """Writes the splats in the standard layout; readers see the old file or the new one, never a part.

    Without groups nothing stands in it that the reference viewer, which reads records of a fixed size, does not know.
    """
    for name in splats.groups if groups else ():
        if not name or name != name.strip() or not name.isprintable():
            raise SplatError(f"{path}: the group {name!r} cannot stand in a PLY header. Use printable letters.")
    higher = splats.sh[:, 1:].transpose(0, 2, 1).reshape(len(splats), 3 * (splats.sh.shape[1] - 1))
    scales = splats.log_scales[:, :2] if splats.flat else splats.log_scales
    columns = {
        **_named("xyz", splats.means),
        **_named(("nx", "ny", "nz"), np.zeros_like(splats.means)),
        **_named([f"f_dc_{k}" for k in range(3)], splats.sh[:, 0]),
        **_named([f"f_rest_{k}" for k in range(higher.shape[1])], higher),
        "opacity": splats.logit_opacities,
        **_named([f"scale_{k}" for k in range(scales.shape[1])], scales),
        **_named([f"rot_{k}" for k in range(4)], splats.quats_wxyz),
    }
    own = {"group": splats.group} if groups else {}
    rows = np.empty(len(splats), [*((name, "<f4") for name in columns), *((name, "<i4") for name in own)])
    for name, values in {**columns, **own}.items():
        rows[name] = values
    lines = [
        *("ply", "format binary_little_endian 1.0"),
        *(f"comment group {k} {name}" for k, name in enumerate(splats.groups if groups else ())),
        f"element vertex {len(splats)}",
        *(f"property float {name}" for name in columns),
        *(f"property int {name}" for name in own),
        "end_header\n",
    ]
    head = "\n".join(lines).encode()
    if len(head) > HEADER_LIMIT:
        raise SplatError(
            f"{path}: {len(splats.groups)} groups do not fit into a PLY header. Join some, or shorten names."
        )
    _write(path, head + rows.tobytes())


def write_spz(path: Path, splats: Splats) -> None:
    """Writes SPZ version 3, for viewers: smaller, and lossy (see the module's text for axes and groups).

    Positions are 24-bit fixed point (as fine as the scene's width allows, at most 1 µm), the rest 8 bits or less.
    """
    if len(splats) > SPZ_MOST:
        raise SplatError(f"{path}: {len(splats)} splats; SPZ readers take {SPZ_MOST} at most. Remove some, or use PLY.")
    bits = _fraction_bits(path, splats)
    fixed = np.round(splats.means.astype(np.float64) * 2.0**bits).astype("<i4")
    scales = (
        np.pad(splats.log_scales[:, :2], ((0, 0), (0, 1)), constant_values=-10.0) if splats.flat else splats.log_scales
    )
    opacity = 1 / (1 + np.exp(-splats.logit_opacities.clip(-50, 50)))
    planes = (
        fixed.view(np.uint8).reshape(len(splats), 3, 4)[..., :3],  # the low three bytes: two's complement of 24 bits
        _byte(opacity * 255).clip(1, 254),  # readers turn 0 and 255 into infinite logits
        _byte(splats.sh[:, 0] * (0.15 * 255) + 127.5),
        _byte((scales + 10) * 16),
        _smallest_three(splats.quats_wxyz),
        _buckets(splats.sh[:, 1:4], 8),
        _buckets(splats.sh[:, 4:], 16),
    )
    harmonics = np.concatenate(planes[5:], axis=1)
    head = struct.pack("<4sIIBBBB", b"NGSP", 3, len(splats), splats.degree, bits, 0, 0)
    data = head + b"".join(np.ascontiguousarray(plane).tobytes() for plane in (*planes[:5], harmonics))
    _write(path, gzip.compress(data, mtime=0))


def _no_rows(header: SplatHeader) -> np.ndarray:
    return np.empty(0, header.dtype)  # a file of no bytes cannot be mapped


def _counts() -> str:
    return ", ".join(map(str, REST))


def _columns(rows: np.ndarray, names: Sequence[str]) -> np.ndarray:
    found = np.empty((len(rows), len(names)), np.float32)
    with np.errstate(over="ignore"):  # a double beyond float32 becomes infinite, and Splats says so
        for k, name in enumerate(names):
            found[:, k] = rows[name]
    return found


def _named(names: Sequence[str], values: np.ndarray) -> dict[str, np.ndarray]:
    return {name: values[:, k] for k, name in enumerate(names)}


def _groups(
    path: Path, header: SplatHeader, rows: np.ndarray, given: Sequence[str]
) -> tuple[np.ndarray, tuple[str, ...]]:
    """The group of every splat, and the names: the file's, else the caller's, else numbers."""
    if "group" not in header.fields:
        return np.zeros(header.count, np.int32), tuple(given) or ("background",)
    column = np.array(rows["group"], np.float64)
    if not (np.isfinite(column).all() and (column == np.floor(column)).all() and (np.abs(column) < 1 << 20).all()):
        raise SplatError(f"{path}: the property group holds numbers that count no groups. Write it as int, from 0 on.")
    stated = [line.split(maxsplit=2)[1:] for line in header.comments if line.startswith("group ")]
    names = {int(words[0]): words[1] for words in stated if len(words) == 2 and words[0].isdecimal()}
    if sorted(names) != list(range(len(names))):
        raise SplatError(f"{path}: its lines 'comment group K NAME' name {sorted(names)}. Number them from 0 on.")
    count = int(column.max()) + 1 if len(column) else 1
    named = tuple(names[k] for k in sorted(names)) or tuple(given)
    return column.astype(np.int32), named or tuple(f"group_{k}" for k in range(count))


def _write(path: Path, data: bytes) -> None:
    try:
        write_whole(path, data)
    except OSError as problem:
        raise SplatError(
            f"{path} cannot be written ({problem.strerror}). Name a place with room that you may write to."
        ) from None


def _byte(values: np.ndarray) -> np.ndarray:
    rounded: np.ndarray = np.round(values).clip(0, 255).astype(np.uint8)
    return rounded


def _fraction_bits(path: Path, splats: Splats) -> int:
    """Bits after the point, so that the farthest splat still fits into 24 bits with a sign."""
    most = float(np.abs(splats.means).max(initial=2.0**-30))
    bits = int(np.floor(np.log2((2**23 - 1) / most)))
    if bits < 0:
        raise SplatError(
            f"{path}: a splat is {most:.3g} m from the origin; SPZ reaches 8388 km. Remove it, or use PLY."
        )
    return min(bits, SPZ_FINEST_BITS)


def _smallest_three(quats_wxyz: np.ndarray) -> np.ndarray:
    """Four bytes a rotation: index of the largest of x y z w, then sign and 9 bits of each other one, in order."""
    xyzw = np.roll(quats_wxyz.astype(np.float64), -1, axis=1)
    xyzw /= np.linalg.norm(xyzw, axis=1, keepdims=True)
    largest = np.abs(xyzw).argmax(axis=1)
    xyzw *= np.where(np.take_along_axis(xyzw, largest[:, None], 1) < 0, -1, 1)  # -q is the same rotation
    packed = largest.astype(np.uint32)
    magnitude = np.floor(511 * np.abs(xyzw) * np.sqrt(2) + 0.5).astype(np.uint32)
    for k in range(4):
        field = (np.signbit(xyzw[:, k]).astype(np.uint32) << 9) | magnitude[:, k].clip(0, 511)
        packed = np.where(largest == k, packed, (packed << 10) | field)
    rotations: np.ndarray = packed.astype("<u4").view(np.uint8).reshape(-1, 4)
    return rotations


def _buckets(sh: np.ndarray, width: int) -> np.ndarray:
    """Harmonics as bytes around 128, rounded to buckets so that they compress; coefficient by coefficient, r g b."""
    steps = np.floor((np.round(sh * 128.0) + 128 + width // 2) / width) * width
    quantised: np.ndarray = steps.clip(0, 255).astype(np.uint8)
    return quantised.reshape(len(sh), 3 * sh.shape[1])
