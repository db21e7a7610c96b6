"""What touches: convex parts of a mesh, mass and inertia, and the MJCF of a body that has them.

mended, notes = mend(mesh)                        flipped faces turned, small holes closed, or refused by name
parts = convex_parts(mended, Decomposing())       CoACD in a process of its own, with a time limit
mass = mass_properties(mended, mass_kg=0.2)       about the centre of mass, of an even solid
assets, body = mjcf_body("cube", "visual.obj", ["part_0.stl", …], mass)
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from twinproof.nouns.errors import MeshError
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.mesh_files import read_mesh, welded, write_mesh
from twinproof.nouns.twin import CollisionPart
from twinproof.reconstruct.mesh_mend import checked, kept_faces, missing, outward, pieces

if TYPE_CHECKING:
    from jaxtyping import Float

VISUAL_GROUP, COLLISION_GROUP = 2, 3
HOLE_SHARE = 0.1  # of the object's extent: wider holes are not closed in silence


@dataclass(frozen=True)
class Decomposing:
    """How CoACD cuts."""

    threshold: float = 0.05  # concavity that is left, of the unit size; lower: more parts
    most_parts: int = 32
    seconds: float = 600.0  # of the clock, which runs on while a busy machine does other work
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0.01 <= self.threshold <= 1 or self.most_parts < 1 or not self.seconds > 0:
            raise MeshError(
                f"decomposition: threshold {self.threshold} lies between 0.01 and 1, parts {self.most_parts} and "
                f"seconds {self.seconds} are above 0."
            )


@dataclass(frozen=True)
class MassProperties:
    """Mass, centre of mass and inertia about it (xx yy zz xy xz yz), in the mesh's axes."""

    mass_kg: float
    com_m: tuple[float, float, float]
    inertia_kgm2: tuple[float, float, float, float, float, float]
    volume_m3: float


def mend(mesh: Mesh) -> tuple[Mesh, tuple[str, ...]]:
    """A closed mesh whose faces look outwards, and what was done for it; what cannot be mended is refused."""
    mesh, notes = welded(mesh), list[str]()
    mesh, turned = _turned_alike(mesh)
    if turned:
        notes.append(f"{turned} faces looked inwards and were turned")
    if not mesh.closed:
        mesh, closed = _holes_closed(mesh)
        if closed:
            notes.append(f"{closed} holes were closed by fans of triangles")
    whole = outward(pieces(mesh)[0])
    check = checked(whole)
    if not whole.closed or not check.solid:
        why = check.status if whole.closed else "it is open"
        raise MeshError(
            f"mesh: it does not bound a solid ({why}), and turning faces and closing small holes does not help. Mend it"
            " in a mesh editor, or make the shape anew with larger voxels."
        )
    return whole, tuple(notes)


def _turned_alike(mesh: Mesh) -> tuple[Mesh, int]:
    """Neighbours agree: along a shared edge they run in opposite directions; each part looks outwards."""
    faces = mesh.faces.copy()
    edges = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    owner = np.tile(np.arange(len(faces)), 3)
    key = np.sort(edges, axis=1)
    order = np.lexsort(key.T)
    same = np.flatnonzero((key[order][1:] == key[order][:-1]).all(axis=1))
    links = [list[tuple[int, bool]]() for _ in faces]
    for n in same:
        a, b = order[n], order[n + 1]
        odd = bool(edges[a][0] == edges[b][0])  # the same direction: one of the two is flipped
        links[owner[a]].append((int(owner[b]), odd))
        links[owner[b]].append((int(owner[a]), odd))
    flip, seen = np.zeros(len(faces), bool), np.zeros(len(faces), bool)
    for start in range(len(faces)):
        if seen[start]:
            continue
        part, todo = [start], [start]
        seen[start] = True
        while todo:
            here = todo.pop()
            for other, odd in links[here]:
                if not seen[other]:
                    seen[other], flip[other] = True, flip[here] ^ odd
                    part.append(other)
                    todo.append(other)
        index = np.array(part)
        turned = np.where(flip[index][:, None], faces[index][:, ::-1], faces[index])
        if Mesh(mesh.vertices - mesh.vertices.mean(axis=0), turned).volume_m3 < 0:
            flip[index] = ~flip[index]
    faces[flip] = faces[flip][:, ::-1]
    return Mesh(mesh.vertices, faces, mesh.colours), int(flip.sum())


def _holes_closed(mesh: Mesh) -> tuple[Mesh, int]:
    """Fans over the loops of edges that have one face only; wide loops stay."""
    edges = np.concatenate([mesh.faces[:, [0, 1]], mesh.faces[:, [1, 2]], mesh.faces[:, [2, 0]]])
    there = {(int(a), int(b)) for a, b in edges}
    after = {b: a for a, b in there if (b, a) not in there}  # the way round that closes
    extent, points, faces, count = float(np.ptp(mesh.vertices, axis=0).max()), [mesh.vertices], [mesh.faces], 0
    total = len(mesh.vertices)
    while after:
        first, here = next(iter(after.items()))
        del after[first]
        loop = [first]
        while here != first and here in after:
            loop.append(here)
            here = after.pop(here)
        corners = mesh.vertices[loop]
        if here != first or len(loop) < 3 or np.ptp(corners, axis=0).max() > HOLE_SHARE * extent:
            continue
        points.append(corners.mean(axis=0, keepdims=True))
        ring = np.array(loop)
        faces.append(np.stack([ring, np.roll(ring, -1), np.full(len(ring), total)], axis=1))
        total, count = total + 1, count + 1
    return Mesh(np.concatenate(points), np.concatenate(faces)), count


def convex_parts(mesh: Mesh, how: Decomposing | None = None) -> list[Mesh]:
    """Convex, closed parts that cover the mesh, largest first. Runs beside us: what hangs or crashes ends there."""
    how = how or Decomposing()
    from importlib.util import find_spec

    if find_spec("coacd") is None:
        raise missing("coacd")
    with tempfile.TemporaryDirectory() as scratch:
        source, target = Path(scratch) / "mesh.ply", Path(scratch) / "parts.npz"
        write_mesh(source, mesh)
        order = [str(source), str(target), str(how.threshold), str(how.most_parts), str(how.seed)]
        try:
            done = subprocess.run(
                [sys.executable, "-m", "twinproof.reconstruct.coacd_worker", *order],
                capture_output=True, text=True, errors="replace", timeout=how.seconds, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise MeshError(
                f"decomposition: {len(mesh.faces)} faces were not cut within {how.seconds:g} s. Simplify the mesh to "
                "some 2000 faces, raise the threshold, or allow more time."
            ) from None
        if done.returncode or not target.is_file():
            words = " ".join(done.stderr.split())[-300:] or "none"
            raise MeshError(
                f"decomposition: CoACD's process ended with {done.returncode}. Its last words: {words}. Check that the "
                "mesh is closed and has no face without area."
            )
        with np.load(target) as found:
            count = int(found["count"])
            parts = [hull_of(found[f"points_{k}"]) for k in range(count)]
    return sorted(parts, key=lambda part: part.volume_m3, reverse=True)


def hull_of(points: Float[np.ndarray, "P 3"]) -> Mesh:
    """The convex hull, faces outwards, without vertices that no face uses."""
    from scipy.spatial import ConvexHull, QhullError

    try:
        found = ConvexHull(points)
    except QhullError:
        raise MeshError(
            f"hull: {len(points)} points lie in one plane and enclose nothing. Leave the part out, or thicken it."
        ) from None
    corners = points[found.simplices]
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    inwards = np.einsum("fd,fd->f", normal, found.equations[:, :3]) < 0
    faces = np.where(inwards[:, None], found.simplices[:, ::-1], found.simplices)
    return kept_faces(Mesh(points, faces), np.ones(len(faces), bool))


def even_hull(mesh: Mesh) -> Mesh:
    """The convex hull, drawn in about its middle until it has the mesh's volume: bumps on a flat side would else stand
    for the side."""
    whole = hull_of(mesh.vertices)
    middle = np.array(mass_properties(whole, mass_kg=1.0).com_m)
    return Mesh(middle + np.cbrt(mesh.volume_m3 / whole.volume_m3) * (whole.vertices - middle), whole.faces)


def mass_properties(mesh: Mesh, *, mass_kg: float | None = None, density_kgm3: float | None = None) -> MassProperties:
    """Of a closed mesh filled evenly, from its mass or its density: sums over the tetrahedra of its faces."""
    if (mass_kg is None) == (density_kgm3 is None):
        raise MeshError("mass: give either a mass or a density, and not both.")
    if not (mesh.closed and mesh.volume_m3 > 0):
        raise MeshError("mass: the mesh is open or inside out, so it has no volume. Mend it first.")
    centre = mesh.vertices.mean(axis=0)  # near the mesh: sums of small numbers
    a, b, c = (mesh.vertices[mesh.faces[:, k]] - centre for k in range(3))
    volumes = np.einsum("fd,fd->f", a, np.cross(b, c)) / 6
    volume = float(volumes.sum())
    scale = density_kgm3 if density_kgm3 is not None else float(mass_kg or 0) / volume
    if not 0 < scale < np.inf:
        raise MeshError(f"mass: {mass_kg} kg, {density_kgm3} kg/m³. A mass and a density are positive.")
    com = np.einsum("f,fd->d", volumes, (a + b + c) / 4) / volume
    total = a + b + c
    second = sum(np.einsum("f,fi,fj->ij", volumes, p, p) for p in (a, b, c, total)) / 20
    second = scale * (second - volume * np.outer(com, com))
    inertia = np.trace(second) * np.eye(3) - second
    xx, yy, zz, xy, xz, yz = (float(inertia[i, j]) for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)))
    place = com + centre
    where = (float(place[0]), float(place[1]), float(place[2]))
    return MassProperties(scale * volume, where, (xx, yy, zz, xy, xz, yz), volume)


def written_parts(folder: Path, name: str, parts: Sequence[Mesh]) -> tuple[CollisionPart, ...]:
    """Writes parts as binary STL into `folder`/meshes, as a twin names them, with the volumes readers will find."""
    (folder / "meshes").mkdir(parents=True, exist_ok=True)
    found = []
    for k, part in enumerate(parts):
        path = f"meshes/{name}_part_{k}.stl"
        write_mesh(folder / path, part)
        found.append(CollisionPart(path, read_mesh(folder / path).volume_m3))
    return tuple(found)


def mjcf_body(
    name: str,
    visual: str | None,
    parts: Sequence[str],
    mass: MassProperties,
    *,
    free: bool = True,
    texture: str | None = None,
) -> tuple[list[Element], Element]:
    """Assets and a body: the visual mesh in group 2 touches nothing, the parts in group 3 touch and are not drawn."""
    assets, body = list[Element](), Element("body", name=name)
    if free:
        SubElement(body, "freejoint", name=f"{name}_free")
    numbers = {"mass": f"{mass.mass_kg:.9g}", "pos": _row(mass.com_m), "fullinertia": _row(mass.inertia_kgm2)}
    SubElement(body, "inertial", numbers)
    if texture is not None:
        assets.append(Element("texture", name=f"{name}_texture", type="2d", file=texture))
        assets.append(Element("material", name=f"{name}_material", texture=f"{name}_texture"))
    if visual is not None:
        assets.append(Element("mesh", name=f"{name}_visual", file=visual))
        shown = {"name": f"{name}_visual", "type": "mesh", "mesh": f"{name}_visual", "group": str(VISUAL_GROUP)}
        shown |= {"contype": "0", "conaffinity": "0", "mass": "0"}
        SubElement(body, "geom", shown | ({"material": f"{name}_material"} if texture else {}))
    for k, part in enumerate(parts):
        assets.append(Element("mesh", name=f"{name}_part_{k}", file=part))
        touch = {"name": f"{name}_part_{k}", "type": "mesh", "mesh": f"{name}_part_{k}", "group": str(COLLISION_GROUP)}
        SubElement(body, "geom", touch | {"mass": "0"})
    return assets, body


def _row(numbers: Sequence[float]) -> str:
    return " ".join(f"{x:.9g}" for x in numbers)
