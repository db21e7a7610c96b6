"""One object, ready for a twin: files, MJCF, mass, looks and audits from a closed mesh in the scene's frame.

parts = write_object(folder, "cup", mesh, splats, T_world_body, Making(density_kgm3=900))
twin's scene: asset.extend(parts.assets), worldbody.append(parts.element)
twin's body:  parts.body(source, first)        first: where its run of splats begins
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element

import numpy as np

from twinproof.nouns.baked import Baked
from twinproof.nouns.errors import MeshError
from twinproof.nouns.files import SAFE_NAME
from twinproof.nouns.hashing import Json
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.mesh_files import write_mesh
from twinproof.nouns.source import Source
from twinproof.nouns.splats import Splats
from twinproof.nouns.twin import Body, CollisionPart
from twinproof.reconstruct.collision import (
    Decomposing,
    MassProperties,
    convex_parts,
    even_hull,
    mass_properties,
    mend,
    mjcf_body,
    written_parts,
)
from twinproof.reconstruct.gap import collision_gap, one_way
from twinproof.reconstruct.margin import standing_margin
from twinproof.reconstruct.mesh_mend import simplified
from twinproof.reconstruct.poses import quat_of
from twinproof.sim.grid import Plane

if TYPE_CHECKING:
    from jaxtyping import Float


@dataclass(frozen=True)
class Making:
    """How an object is made: its mass, or its density, and how its collision shape is cut."""

    mass_kg: float | None = None
    density_kgm3: float | None = 600.0  # of wood and filled plastic; a guess, declared as that
    cut_faces: int = 2000  # of the mesh that CoACD gets: its time grows with them
    decomposing: Decomposing = field(default_factory=Decomposing)
    free: bool = True
    convex: bool = False  # it touches as one convex part: the hull, drawn in until it has the shape's volume


@dataclass(frozen=True, eq=False)
class ObjectParts:
    """What was written, and what goes into the twin."""

    name: str
    visual: str
    collision: tuple[CollisionPart, ...]
    mass: MassProperties
    assets: list[Element]
    element: Element
    splats: Splats | None
    audits: dict[str, Json]
    notes: tuple[str, ...]

    def body(self, source: Source, first: int = 0) -> Body:
        """The twin's entry; its splats are the run that begins at `first`."""
        run = None if self.splats is None else (first, len(self.splats))
        return Body(
            self.name,
            source,
            visual=self.visual,
            collision=self.collision,
            splats=run,
            lacks={} if run else {"splats": "only its shape was reconstructed"},
            mass_kg=self.mass.mass_kg,
            com_m=self.mass.com_m,
            inertia_kgm2=self.mass.inertia_kgm2,
        )


def write_object(
    folder: Path,
    name: str,
    shape: Mesh | Baked,
    splats: Splats | None = None,
    T_world_body: Float[np.ndarray, "4 4"] | None = None,
    how: Making | None = None,
    support: Plane | None = None,
) -> ObjectParts:
    """Writes meshes/NAME.obj (and its texture), meshes/NAME_part_K.stl; numbers are in the body's frame.

    `shape` and `splats` are in the scene's frame; the body's frame is T_world_body (its centre where none is given).
    """
    if not SAFE_NAME.fullmatch(name):
        raise MeshError(f"object: the name {name!r} must be made of letters, digits, '_', '.' and '-'.")
    how, plain = how or Making(), shape.mesh if isinstance(shape, Baked) else shape
    mended, notes = mend(plain)
    if T_world_body is None:
        T_world_body = np.eye(4)
        T_world_body[:3, 3] = 0.5 * (mended.vertices.min(axis=0) + mended.vertices.max(axis=0))
    T_body_world = np.linalg.inv(T_world_body)
    local = mended.moved(T_body_world)
    mass = mass_properties(
        local, mass_kg=how.mass_kg, density_kgm3=None if how.mass_kg is not None else how.density_kgm3
    )
    few, kept = simplified(local, how.cut_faces)
    cut = [even_hull(few)] if how.convex else convex_parts(few, how.decomposing)
    parts = written_parts(folder, name, cut)
    visual = f"meshes/{name}.obj"
    drawn = Baked(plain.moved(T_body_world), shape.uv, shape.texture) if isinstance(shape, Baked) else local
    write_mesh(folder / visual, drawn)
    texture = f"meshes/{name}.png" if isinstance(shape, Baked) else None
    assets, element = mjcf_body(name, visual, [part.path for part in parts], mass, free=how.free, texture=texture)
    place = T_world_body[:3, 3]
    element.set("pos", " ".join(f"{x:.9g}" for x in place))
    element.set("quat", " ".join(f"{x:.9g}" for x in quat_of(T_world_body)))
    audits: dict[str, Json] = {"collision_gap": collision_gap(local, cut).as_json()}
    if splats is not None:
        apart = one_way(splats.means.astype(float), mended)
        audits["splat_mesh_gap_m"] = {"mean": apart.mean_m, "p95": apart.p95_m, "worst": apart.worst_m}
    if support is not None:
        com = T_world_body[:3, :3] @ np.array(mass.com_m) + place
        audits["standing"] = standing_margin(
            [part.moved(T_world_body) for part in cut], com.tolist(), support
        ).as_json()
    if how.mass_kg is None:
        notes = (*notes, f"the mass of {name} is declared: {how.density_kgm3:g} kg/m³ times its volume")
    return ObjectParts(name, visual, parts, mass, assets, element, splats, audits, (*notes, *kept))
