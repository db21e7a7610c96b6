"""Cameras that stand still, measured against the table that the camera on the hand has scanned.

An outline of the robot hardly tells a longer lens from a camera farther away. The mosaic of the table can: its scale is
the arm's own. A still camera's picture of it has the eight numbers of a homography for seven unknowns.

unknown: turn (3, rad, camera frame), shift (3, m, world), log focal length
measured: the camera's picture laid on the table − the mosaic; what was known before enters with its covariance
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import TwinError
from twinproof.nouns.progress import Progress, quiet
from twinproof.reconstruct.hand_camera import HEIGHT
from twinproof.reconstruct.hand_camera_plane import SLOW, Sight, Texels, channels_of, lay
from twinproof.reconstruct.robot_look import pixels_of
from twinproof.reconstruct.table_scan import TOGETHER, Filmed, Scan, Table, tables_of
from twinproof.sim.grid import Plane
from twinproof.sim.render_camera import Camera

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

UNKNOWN = 7
MOST = np.array([0.01] * 3 + [0.01] * 3 + [0.02])  # that one step changes
UNIT_M = 0.10  # texels of squares so wide share their errors: one unit of the scatter
STANDS = 1.5  # texels that differ by so many times the scale from the mosaic show something else than the table
LEAST_UNITS = 12  # fewer cannot tell how much seven unknowns scatter
LEAST_ALIKE = 0.4  # correlation below which a picture does not show the mosaic
SURPRISE = 18.5  # squared way from the start in deviations: 1 % of seven unknowns go farther


@dataclass(frozen=True)
class Level:
    """Texels of this size, misfits beyond which a texel counts little in any case, and rounds."""

    texel_m: float
    scale: float  # of log brightness
    rounds: int


LEVELS = (Level(0.020, 0.3, 4), Level(0.012, 0.2, 4), Level(0.008, 0.08, 4), Level(0.005, 0.04, 5))


@dataclass(frozen=True, eq=False)
class StillPicture:
    """One picture. `hidden` is True where the robot is, or anything else that is known to stand on the table."""

    scene: str  # as in HandFrames: table and light are the same
    rgb: Float[np.ndarray, "H W 3"]  # uint8
    hidden: Bool[np.ndarray, "H W"]


@dataclass(frozen=True, eq=False)
class Still:
    """A camera as known before, over the seven unknowns, from what has not seen the table; and its pictures."""

    start: Camera
    covariance: Float[np.ndarray, "7 7"]
    pictures: Sequence[StillPicture]


@dataclass(frozen=True, eq=False)
class TableCamera:
    """A still camera after what was known before and the table are put together; notes say where one of them failed."""

    camera: Camera
    covariance: Float[np.ndarray, "7 7"]
    notes: tuple[str, ...]


def on_table(
    scan: Scan, stills: Mapping[str, Still], levels: Sequence[Level] = LEVELS, progress: Progress = quiet
) -> dict[str, TableCamera]:
    """Every still camera, where its picture of the table agrees with the scan; other scenes are left out."""
    frames = [f for f in scan.frames if len(f.time_s)]
    if not frames:
        raise TwinError(
            "the scan of the table has no pictures. Record an episode in which the hand's camera sees the table."
        )
    for name, still in stills.items():
        _check(name, still)
    scenes = tuple(dict.fromkeys(f.scene for f in frames))
    plates = {name: _plates(still, scenes) for name, still in stills.items()}
    now = {name: still.start for name, still in stills.items() if plates[name]}
    films = [Filmed.of(scan, f) for f in frames]
    why = {name: f"has no picture of the scene of the scan ({', '.join(scenes)})" for name in stills if name not in now}
    covariances, clear = dict[str, np.ndarray](), plates
    for done, level in enumerate(levels):
        tables = tables_of(scan, films, level.texel_m, level.scale)
        for last in [False] * level.rounds + [True]:
            sums = {name: _sums(camera, clear[name], tables, scan.plane) for name, camera in now.items()}
            if last:
                why |= {name: reason for name, each in sums.items() if (reason := _unlike(each))}
            good = {name: each for name, each in sums.items() if name not in why}
            steps, covariances = _steps(good, stills, now, scan) if good else ({}, covariances)
            now = {name: now[name] if last else _changed(now[name], step) for name, step in steps.items()}
        clear = {name: _cleared(camera, plates[name], tables, scan.plane) for name, camera in now.items()}
        progress(done + 1, f"still cameras on a table in texels of {1000 * level.texel_m:.3g} mm", len(levels))
    return {name: _result(name, still, now, covariances, why) for name, still in stills.items()}


def _check(name: str, still: Still) -> None:
    P, lens = np.asarray(still.covariance), still.start.lens
    whole = P.shape == (UNKNOWN, UNKNOWN) and bool(np.isfinite(P).all())
    if not whole or np.linalg.eigvalsh(P / np.sqrt(np.outer(np.diag(P), np.diag(P)))).min() <= 0:
        raise TwinError(
            f"camera {name}: the covariance beforehand, of shape {P.shape}, is not one of seven unknowns. Give a "
            "positive definite 7 × 7 matrix over turn (camera frame), shift (world) and log focal length."
        )
    for picture in still.pictures:
        sizes = {picture.rgb.shape[:2], picture.hidden.shape, (lens.height, lens.width)}
        if len(sizes) > 1:
            raise TwinError(
                f"camera {name}: picture, mask and lens have the sizes {sorted(sizes)} (height, width). They must "
                "be the same: shrink the lens with the pictures."
            )


def _plates(still: Still, scenes: Sequence[str]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """By scene."""
    held = {scene: [p for p in still.pictures if p.scene == scene] for scene in scenes}
    return {scene: _plate(pictures) for scene, pictures in held.items() if pictures}


def _plate(pictures: Sequence[StillPicture]) -> tuple[np.ndarray, np.ndarray]:
    """The channels that a camera sees most of the time, exposures evened out; and which pixels were seen."""
    values = np.stack([channels_of(p.rgb.astype(np.float32) / 255) for p in pictures])
    seen = np.stack([~p.hidden for p in pictures])
    never = ~seen.any(axis=0)
    holed = np.where((seen | never)[..., None], values, np.float32(np.nan))
    middle = np.nanmedian(holed, axis=0)
    for mine, use in zip(holed, seen, strict=True):
        if use.any():
            mine -= np.median((mine - middle)[use], axis=0)
    return np.nanmedian(holed, axis=0).astype(np.float32), np.asarray(~never)


@dataclass(frozen=True, eq=False)
class _Sums:
    """hessian · step = pull measures a camera's unknowns, with what the pull scatters by over the squares.

    `shifts` is how the pull changes with each unknown of the scan: by scene, for each group of its pictures alone.
    """

    hessian: np.ndarray
    pull: np.ndarray
    scatter: np.ndarray
    shifts: Mapping[str, Float[np.ndarray, "7 G P"]]
    units: int
    alike: float


def _sums(
    camera: Camera, plates: Mapping[str, tuple[np.ndarray, np.ndarray]], tables: Mapping[str, Table], plane: Plane
) -> _Sums:
    """What a camera sees of the table against the mosaics: squares of the table are the units of the scatter."""
    hessians, pulls, shifts, alike = list[np.ndarray](), list[np.ndarray](), dict[str, np.ndarray](), list[float]()
    sight = _sight(camera, plane)
    for scene, (picture, use) in plates.items():
        table, scale = tables[scene], tables[scene].mosaic.scale
        laid = lay(picture, use, sight, table.texels)
        good = laid.seen & (table.mosaic.count > 0)
        value, mean = laid.value[good], table.mosaic.value[good]
        alike.append(_alike(value, mean))
        columns = _columns(sight, table.texels, good, table.mosaic.slope[good]) / scale
        off = (value - _contrast(value, mean, scale) * mean) / scale
        fast = _fast(np.concatenate([off[..., None], columns], -1), 1 / (1 + off * off) ** 2, table.texels, good)
        off, columns = fast[..., 0], fast[..., 1:]
        w = 1 / (1 + off * off) ** 2
        J, unit = columns[..., :UNKNOWN], _unit(table.texels, good)
        own = np.zeros((unit.max(initial=-1) + 1, UNKNOWN, UNKNOWN + 1))
        np.add.at(own, unit, np.einsum("nci,ncj,nc->nij", J, np.concatenate([J, -off[..., None]], -1), w))
        hessians.append(own[..., :UNKNOWN])
        pulls.append(own[..., UNKNOWN])
        weighted = (J * w[..., None]).reshape(-1, UNKNOWN)
        shifts[scene] = np.tensordot(
            weighted, -table.moves[good].reshape(len(weighted), *table.moves.shape[2:]), (0, 0)
        )
        # the table's height moves what this camera sees too; it is shared by all groups
        shifts[scene][..., HEIGHT] += (weighted.T @ columns[..., UNKNOWN].reshape(-1))[:, None] / table.moves.shape[2]
    H, g = np.concatenate(hessians), np.concatenate(pulls)
    return _Sums(H.sum(axis=0), g.sum(axis=0), _scatter(H, g), shifts, len(g), min(alike))


def _sight(camera: Camera, plane: Plane) -> Sight:
    """The camera, its seven unknowns, and the table's height."""
    T = np.linalg.inv(camera.T_world_camera)
    twists = np.zeros((UNKNOWN + 1, 6))
    twists[:3, :3] = np.eye(3)
    twists[3:6, 3:] = camera.T_world_camera[:3, :3]
    twists[UNKNOWN, 3:] = -T[:3, :3] @ np.array(plane.normal)
    return Sight(camera.lens, np.stack([T, T]), twists)


def _columns(sight: Sight, texels: Texels, good: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """How what the camera shows of a texel changes with each unknown: what a pixel sees moves over the table."""
    row, column = np.divmod(np.flatnonzero(good), texels.shape[1])
    places = texels.corner + texels.texel_m * (column[:, None] * texels.along + row[:, None] * texels.across)
    T = sight.T_camera_world[0]
    q = places @ T[:3, :3].T + T[:3, 3]
    e = np.stack([texels.along, texels.across, np.cross(texels.along, texels.across)]) @ T[:3, :3].T
    dq = np.cross(sight.twists[:, None, :3], q[None]) + sight.twists[:, None, 3:]
    dq[UNKNOWN - 1] = -q * (1.0, 1.0, 0.0)
    du = (dq @ e[:2].T - ((dq @ e[2]) / (q @ e[2]))[..., None] * (q @ e[:2].T)) / texels.texel_m
    return np.asarray(-np.einsum("nca,kna->nck", slope, du))


def _cleared(
    camera: Camera, plates: Mapping[str, tuple[np.ndarray, np.ndarray]], tables: Mapping[str, Table], plane: Plane
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The plates without what stands on the table or shades it, so that it weighs on nothing around it."""
    from scipy.ndimage import binary_closing, binary_opening

    out, sight = {}, _sight(camera, plane)
    for scene, (picture, use) in plates.items():
        texels, mosaic = tables[scene].texels, tables[scene].mosaic
        laid = lay(picture, use, sight, texels)
        good = laid.seen & (mosaic.count > 0)
        off = np.where(good, np.abs(laid.value - mosaic.value).max(axis=1), 0) > STANDS * mosaic.scale
        whole = binary_opening(binary_closing(off.reshape(texels.shape), iterations=1), iterations=1)
        row, column = np.nonzero(whole)
        places = texels.corner + texels.texel_m * (column[:, None] * texels.along + row[:, None] * texels.across)
        out[scene] = picture, use & ~_covered(camera, places, texels.texel_m)
    return out


def _covered(camera: Camera, places: np.ndarray, texel_m: float) -> np.ndarray:
    """Pixels that show one of the texels at these places."""
    from scipy.ndimage import maximum_filter

    lens = camera.lens
    hit = np.zeros((lens.height, lens.width), bool)
    if not len(places):
        return hit
    pixel, depth = pixels_of(camera, places)
    column, row = np.clip(np.round(pixel).astype(int), 0, (lens.width - 1, lens.height - 1)).T
    hit[row, column] = True
    return np.asarray(maximum_filter(hit, 2 * int(np.ceil(0.5 * texel_m * lens.fx / float(np.median(depth)))) + 1))


def _fast(fields: np.ndarray, weight: np.ndarray, texels: Texels, good: np.ndarray) -> Float[np.ndarray, "N 2 K"]:
    """Misfits and their slopes without what is slow over the table.

    Each picture has its slow part taken off over what it sees; at rims and beside things that stand there it differs.
    """
    from scipy.ndimage import uniform_filter

    def slow(values: np.ndarray) -> np.ndarray:
        size = int(np.prod(values.shape[1:]))
        whole = np.zeros((*texels.shape, size), np.float32)
        whole.reshape(-1, size)[good] = values.reshape(len(values), size)
        for _ in range(2):
            whole = uniform_filter(whole, (SLOW + 1, SLOW + 1, 1))
        return np.asarray(whole.reshape(-1, size)[good].reshape(values.shape))

    return np.asarray(fields - slow(fields * weight[..., None]) / np.maximum(slow(weight), 1e-3)[..., None])


def _contrast(value: np.ndarray, mean: np.ndarray, scale: float) -> np.ndarray:
    """By how much a picture is paler than the mosaic: a camera farther away is less sharp."""
    gain = np.ones(2)
    for _ in range(3):
        w = 1 / (1 + ((value - gain * mean) / scale) ** 2) ** 2
        gain = np.clip((w * value * mean).sum(axis=0) / np.maximum((w * mean * mean).sum(axis=0), 1e-9), 0.3, 1.5)
    return gain


def _alike(value: np.ndarray, mean: np.ndarray) -> float:
    a, b = value[:, 0].astype(float), mean[:, 0].astype(float)
    return float(a @ b / max(1e-9, np.sqrt((a @ a) * (b @ b))))


def _unit(texels: Texels, good: np.ndarray) -> np.ndarray:
    """The square of the table that each texel is in, counted through."""
    row, column = np.divmod(np.flatnonzero(good), texels.shape[1])
    wide = max(1, round(UNIT_M / texels.texel_m))
    return np.asarray(np.unique(row // wide * texels.shape[1] + column // wide, return_inverse=True)[1]).reshape(-1)


def _scatter(hessians: np.ndarray, pulls: np.ndarray) -> np.ndarray:
    """Covariance of the pull as the squares of the table show it, about the best step."""
    H = hessians.sum(axis=0)
    size = np.sqrt(np.maximum(np.diag(H), 1e-12))
    best = np.linalg.lstsq(H / size[:, None] / size, pulls.sum(axis=0) / size, rcond=1e-9)[0] / size
    left = pulls - hessians @ best
    few = len(left) / max(
        1.0, len(left) - 2.0 * UNKNOWN
    )  # the inverse of what few units scatter by is too large so much
    return np.asarray(few * left.T @ left + 1e-6 * np.diag(size**2))


def _unlike(sums: _Sums) -> str:
    """Why a camera's pictures cannot be laid on the mosaic; empty if they can."""
    if sums.units < LEAST_UNITS:
        return f"sees {sums.units} squares of the scanned table, {LEAST_UNITS} are needed"
    if sums.alike < LEAST_ALIKE:
        return f"does not show the scanned table: the correlation is {sums.alike:.2f}, {LEAST_ALIKE} is needed"
    return ""


def _changed(camera: Camera, by: np.ndarray) -> Camera:
    from scipy.spatial.transform import Rotation

    T, grown = np.array(camera.T_world_camera), float(np.exp(by[6]))
    T[:3, :3] = T[:3, :3] @ Rotation.from_rotvec(by[:3]).as_matrix()
    T[:3, 3] += by[3:6]
    return Camera(replace(camera.lens, fx=camera.lens.fx * grown, fy=camera.lens.fy * grown), T)


def _gone(start: Camera, now: Camera) -> np.ndarray:
    from scipy.spatial.transform import Rotation

    then, T = start.T_world_camera, now.T_world_camera
    turn = Rotation.from_matrix(then[:3, :3].T @ T[:3, :3]).as_rotvec()
    return np.array([*turn, *(T[:3, 3] - then[:3, 3]), np.log(now.lens.fx / start.lens.fx)])


def _steps(
    sums: Mapping[str, _Sums], stills: Mapping[str, Still], now: Mapping[str, Camera], scan: Scan
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The steps to where all measurements together are likeliest, and the covariances there.

    All cameras share the mosaic, so its errors, which are the scan's and the joints' at each group, link them.
    """
    from scipy.linalg import block_diag

    before = block_diag(*(np.linalg.inv(stills[name].covariance) for name in sums))
    H = block_diag(*(each.hessian for each in sums.values()))
    M = block_diag(*(each.scatter for each in sums.values()))
    scenes = {scene: shift.shape for each in sums.values() for scene, shift in each.shifts.items()}
    common = np.zeros((len(H), len(scan.found.names)))
    for scene, shape in scenes.items():
        moved = np.concatenate([each.shifts.get(scene, np.zeros(shape)) for each in sums.values()])
        common += moved.sum(axis=1)
        ripple = moved[..., HEIGHT + 1 :].reshape(len(H), -1) * scan.ripple_rad / np.sqrt(TOGETHER)  # of their mean
        M += ripple @ ripple.T
    M += common @ scan.found.covariance @ common.T
    through = np.linalg.solve(M, H).T
    covariance = np.linalg.inv(before + through @ H)
    gone = np.concatenate([_gone(stills[name].start, now[name]) for name in sums])
    step = covariance @ (through @ np.concatenate([each.pull for each in sums.values()]) - before @ gone)
    places = {name: slice(k * UNKNOWN, (k + 1) * UNKNOWN) for k, name in enumerate(sums)}
    return (
        {name: np.clip(step[at], -MOST, MOST) for name, at in places.items()},
        {name: 0.5 * (covariance[at, at] + covariance[at, at].T) for name, at in places.items()},
    )


def _result(
    name: str, still: Still, now: Mapping[str, Camera], covariances: Mapping[str, np.ndarray], why: Mapping[str, str]
) -> TableCamera:
    """The camera found, or the start with the reason why the table said nothing."""
    if name in why:
        return TableCamera(
            still.start, np.array(still.covariance), (f"camera {name} {why[name]}; it stays as it was.",)
        )
    gone = _gone(still.start, now[name])
    far = float(gone @ np.linalg.solve(still.covariance, gone))
    told = f"camera {name}: the table moves it by {np.sqrt(far):.1f} deviations of what was known before."
    return TableCamera(now[name], covariances[name], (told,) if far > SURPRISE else ())
