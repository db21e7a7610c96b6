"""Whether a generated shape may enter a twin: outlines in all pictures, closed, of a likely size, at rest on its table.

What enters is marked as declared, with the reasons. What fails is refused with every reason at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import TwinError
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.source import Declared
from twinproof.nouns.splats import Splats
from twinproof.reconstruct.generate import Generated
from twinproof.reconstruct.generate_fit import Outline, Similarity
from twinproof.sim.splat.placed import placed

if TYPE_CHECKING:
    from jaxtyping import Bool, Float


@dataclass(frozen=True)
class Limits:
    """What is likely. `gap` and `slack` are shares of the longest side: off the table, and uneven below."""

    least_iou: float = 0.7  # of the outline in every picture
    least_m: float = 0.005  # longest side
    most_m: float = 1.0
    gap: float = 0.08
    slack: float = 0.03
    fullness: tuple[float, float] = (0.005, 1.0)  # volume as a share of the box around it


@dataclass(frozen=True, eq=False)
class Admitted:
    """A shape in the world that passed, where it came from, and the figures it passed with."""

    mesh: Mesh
    splats: Splats | None
    source: Declared
    figures: dict[str, float]


def admit(
    generated: Generated,
    fit: Similarity,
    outlines: Sequence[Outline],
    table: Float[np.ndarray, "4"] | None = None,
    limits: Limits | None = None,
) -> Admitted:
    """The shape in the world, or an error with everything that speaks against it.

    `table` is the plane (a, b, c, d) with a·x + b·y + c·z = d and (a, b, c) pointing up, of unit length.
    """
    bounds, mesh = limits or Limits(), fit.of(generated.mesh)
    if mesh.volume_m3 < 0:
        mesh = Mesh(mesh.vertices, mesh.faces[:, ::-1], mesh.colours)  # wound inside out: the same shape
    figures, problems = dict[str, float](), list[str]()
    _check_solid(mesh, bounds, figures, problems)
    for k, outline in enumerate(outlines):
        seen = silhouette(mesh, outline)
        iou = float((seen & outline.mask).sum() / max(1, (seen | outline.mask).sum()))
        figures[f"iou {k}"] = iou
        if iou < bounds.least_iou:
            problems.append(
                f"its outline meets the mask of picture {k} with an IoU of {iou:.2f} ({bounds.least_iou} needed)"
            )
    if table is not None:
        _check_rest(mesh, np.asarray(table, float), bounds, figures, problems)
    if problems:
        raise TwinError(
            f"the shape that {generated.name} made may not enter the twin: {'; '.join(problems)}. Record the thing "
            "from more sides, try another picture or model, or loosen the limits knowingly."
        )
    outlined = f"outlines in {len(outlines)} pictures agree" if outlines else "no outline was compared"
    rested = "it rests on its table" if table is not None else "no table was given"
    reason = f"made by {generated.name} from one picture; scale and pose fitted; closed; {outlined}; {rested}"
    splats = None if generated.splats is None else placed(generated.splats, fit.T_world_object, fit.scale)
    return Admitted(mesh, splats, Declared(reason), figures)


def _check_solid(mesh: Mesh, bounds: Limits, figures: dict[str, float], problems: list[str]) -> None:
    sides = np.ptp(mesh.vertices, axis=0)
    figures["longest_m"], figures["volume_m3"] = float(sides.max()), mesh.volume_m3
    if not mesh.closed:
        problems.append("it is not closed, so it has no volume and no mass")
    elif not bounds.fullness[0] <= mesh.volume_m3 / max(float(sides.prod()), 1e-18) <= bounds.fullness[1]:
        problems.append(f"it fills {mesh.volume_m3 / max(float(sides.prod()), 1e-18):.2g} of the box around it")
    if not bounds.least_m <= sides.max() <= bounds.most_m:
        problems.append(f"its longest side is {sides.max():.3g} m ({bounds.least_m} to {bounds.most_m} m are likely)")


def _check_rest(mesh: Mesh, table: np.ndarray, bounds: Limits, figures: dict[str, float], problems: list[str]) -> None:
    """It touches the table, and its centre of mass is above what it stands on."""
    size = float(np.ptp(mesh.vertices, axis=0).max())
    height = mesh.vertices @ table[:3] - table[3]
    figures["table_gap_m"] = float(height.min())
    if abs(height.min()) > bounds.gap * size:
        where = "above" if height.min() > 0 else "in"
        problems.append(f"it is {1e3 * abs(height.min()):.0f} mm {where} the table")
    if mesh.closed:
        margin = _margin(mesh, table, height, bounds.slack * size)
        figures["rest_margin"] = margin / size
        if margin < 0:
            problems.append(
                f"it would fall over: its centre of mass is {-1e3 * margin:.0f} mm outside of what it stands on"
            )


def _margin(mesh: Mesh, table: np.ndarray, height: np.ndarray, slack: float) -> float:
    """Distance in m of the centre of mass from the border of the support, seen from above; negative outside."""
    from scipy.spatial import ConvexHull, QhullError

    side = np.cross(table[:3], np.eye(3)[int(np.abs(table[:3]).argmin())])
    side /= np.linalg.norm(side)
    flat = np.stack([side, np.cross(table[:3], side)], axis=1)
    foot = mesh.vertices[height <= height.min() + slack] @ flat
    middle = centre_of_mass(mesh) @ flat
    try:
        hull = ConvexHull(foot)
    except (QhullError, ValueError):  # one point or one line: nothing stands on that
        return -float(np.linalg.norm(foot - middle, axis=1).min())
    return float(-(hull.equations[:, :2] @ middle + hull.equations[:, 2]).max())


def centre_of_mass(mesh: Mesh) -> Float[np.ndarray, "3"]:
    """Of a closed mesh that is filled evenly."""
    a, b, c = (mesh.vertices[mesh.faces[:, k]] for k in range(3))
    volume = np.einsum("ij,ij->i", a, np.cross(b, c)) / 6
    centre: np.ndarray = (volume[:, None] * (a + b + c) / 4).sum(axis=0) / volume.sum()
    return centre


def silhouette(mesh: Mesh, outline: Outline) -> Bool[np.ndarray, "H W"]:
    """The pixels whose middle the mesh covers; triangles behind the camera are left out."""
    height, width = np.asarray(outline.mask).shape
    pixels, depth = outline.seen(mesh.vertices)
    covered = np.zeros((height, width), bool)
    for a, b, c in pixels[mesh.faces[(depth[mesh.faces] > 2e-3).all(axis=1)]]:
        low = np.maximum(np.ceil(np.minimum(np.minimum(a, b), c)), 0).astype(int)
        high = np.minimum(np.floor(np.maximum(np.maximum(a, b), c)), (width - 1, height - 1)).astype(int)
        if (high < low).any():
            continue
        x, y = np.meshgrid(np.arange(low[0], high[0] + 1), np.arange(low[1], high[1] + 1))
        sides = [(q[0] - p[0]) * (y - p[1]) - (q[1] - p[1]) * (x - p[0]) for p, q in ((a, b), (b, c), (c, a))]
        inside = ((sides[0] >= 0) & (sides[1] >= 0) & (sides[2] >= 0)) | (
            (sides[0] <= 0) & (sides[1] <= 0) & (sides[2] <= 0)
        )
        covered[low[1] : high[1] + 1, low[0] : high[0] + 1] |= inside
    return covered
