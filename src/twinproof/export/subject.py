"""What an export starts from: a twin's links and shapes, its coloured surfaces, and its splats by body."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from twinproof.export.atlas import textured
from twinproof.export.discs import cut_discs
from twinproof.nouns.errors import TwinError
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.mesh_files import read_mesh
from twinproof.nouns.splat_files import read_ply
from twinproof.nouns.splats import SH0, Splats
from twinproof.nouns.twin import Twin
from twinproof.sim.anatomy import Anatomy, anatomy
from twinproof.sim.painted import surfaces
from twinproof.sim.scene import Scene
from twinproof.sim.splat.placed import placed
from twinproof.sim.surface import Surface, moved

if TYPE_CHECKING:
    from jaxtyping import Float

    from twinproof.export.atlas import ColourAt

NOBODY = "unowned"  # splats that no body has
NEAREST = 8  # splats that give a vertex its colour


@dataclass(frozen=True)
class Written:
    """What a format could not hold, and who has looked at what was written."""

    lost: tuple[str, ...]
    checked: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Subject:
    """A twin, read once for all formats. Surfaces are in their links' frames, splats in the scene's, at rest."""

    twin: Twin
    scene: Scene
    anatomy: Anatomy
    surfaces: tuple[Surface, ...]
    splats: Splats | None  # volumes, one group for each body, in the order of splats.ply
    notes: tuple[str, ...] = ()  # what was simplified in surfaces
    by_splats: frozenset[int] = frozenset()  # places of the surfaces that took their colours from splats
    splat_notes: tuple[str, ...] = ()  # what was changed in splats

    def standing(self) -> list[Surface]:
        """All surfaces where they stand in the world."""
        return [moved(each, self.anatomy.named[each.link].T_world_link) for each in self.surfaces]

    def textured(self) -> list[Surface]:
        """All surfaces in their links' frames, with textures in the place of colours of vertices."""
        return [
            each if each.mesh.colours is None or each.texture is not None else textured(each, self._splats_of(k))
            for k, each in enumerate(self.surfaces)
        ]

    def _splats_of(self, k: int) -> ColourAt | None:
        """Colours of places on a surface that has them from splats: there may be more of those than of vertices."""
        if k not in self.by_splats or self.splats is None:
            return None
        link = self.surfaces[k].link
        T, own = self.anatomy.named[link].T_world_link, self.splats.of(link)
        return lambda places: _from_splats(places @ T[:3, :3].T + T[:3, 3], own)

    def worn(self) -> dict[str, Splats]:
        """The splats of each link in its own frame; what belongs to no link is the world's."""
        if self.splats is None:
            return {}
        parts = dict[str, list[int]]()
        for k, name in enumerate(self.splats.groups):
            parts.setdefault(name if name in self.anatomy.named else self.anatomy.links[0].name, []).append(k)
        found = dict[str, Splats]()
        for link, groups in parts.items():
            mine = self.splats.take(np.isin(self.splats.group, groups))
            one = replace(mine, group=np.zeros(len(mine), np.int32), groups=(link,))
            if len(one):
                found[link] = placed(one, np.linalg.inv(self.anatomy.named[link].T_world_link))
        return found


def subject_of(twin: Twin) -> Subject:
    """Everything that is written about a twin."""
    scene = Scene.of(twin)
    whole = anatomy(scene)
    splats, told = splats_of(twin, whole)
    painted, notes, by_splats = list[Surface](), list[str](), set[int]()
    for k, each in enumerate(surfaces(scene)):
        shown, worn = _coloured(each, twin, whole, splats)
        painted.append(shown)
        by_splats |= {k} if worn else set()
        if each.simplified:
            notes.append(f"{each.name}: {each.simplified}")
    return Subject(twin, scene, whole, tuple(painted), splats, tuple(notes), frozenset(by_splats), told)


def splats_of(twin: Twin, whole: Anatomy) -> tuple[Splats | None, tuple[str, ...]]:
    """A twin's splats in the scene's frame, as volumes, in groups named after their bodies; what was changed."""
    if "splats.ply" not in twin.files:
        return None, ()
    found = read_ply(twin.path("splats.ply"))
    names, group = [NOBODY], np.zeros(len(found), np.int32)
    for body in twin.bodies:
        if body.splats:
            first, count = body.splats
            group[first : first + count] = len(names)
            names.append(body.name)
    grouped = replace(found, group=group, groups=tuple(names))
    if not found.flat:
        return grouped, ()
    volumes, cut = cut_discs(grouped, _eyes(twin, whole))
    more = f"; {cut} large ones near cameras are cut, {len(volumes)} stand for {len(found)}" if cut else ""
    return volumes, (f"surfels are written as volumes 1 µm thick{more}",)


def _eyes(twin: Twin, whole: Anatomy) -> Float[np.ndarray, "C 3"]:
    """Where the twin's cameras stand, at rest."""
    mounts = [camera.mount for camera in twin.cameras.values()]
    world = whole.links[0].T_world_link
    poses = [whole.named[m.parent].T_world_link if m.parent in whole.named else world for m in mounts]
    places = [T[:3, :3] @ m.position_m + T[:3, 3] for T, m in zip(poses, mounts, strict=True)]
    return np.array(places).reshape(-1, 3)


def needed_splats(subject: Subject, what: str) -> Splats:
    """The subject's splats, or an error that says what cannot be written without."""
    if subject.splats is None:
        raise TwinError(
            f"{subject.twin.root} has no splats, and {what} holds nothing else. Leave {what} out, or fit splats first."
        )
    return subject.splats


def _coloured(surface: Surface, twin: Twin, whole: Anatomy, splats: Splats | None) -> tuple[Surface, bool]:
    """A bare mesh takes the colours of the file it was made from, or else of the splats that lie on it (then True)."""
    body = next((body for body in twin.bodies if body.name == surface.link), None)
    if body is None or surface.texture is not None or surface.mesh.colours is not None or not body.visual:
        return surface, False
    colours, worn = _from_file(surface.mesh, twin, body.visual), False
    if colours is None and splats is not None and body.splats:
        placed_mesh = surface.mesh.moved(whole.named[surface.link].T_world_link)
        colours, worn = _from_splats(placed_mesh.vertices, splats.of(body.name)), True
    if colours is None:
        return surface, False
    mesh = Mesh(surface.mesh.vertices, surface.mesh.faces, colours)
    return replace(surface, mesh=mesh, rgba=(1.0, 1.0, 1.0, surface.rgba[3])), worn


def _from_file(mesh: Mesh, twin: Twin, visual: str) -> Float[np.ndarray, "V 3"] | None:
    from scipy.spatial import KDTree

    if not visual.lower().endswith((".obj", ".ply")):
        return None
    file = read_mesh(twin.path(visual))
    if file.colours is None:
        return None
    return np.asarray(file.colours[KDTree(file.vertices).query(mesh.vertices)[1]], float)


def _from_splats(places: Float[np.ndarray, "N 3"], splats: Splats) -> Float[np.ndarray, "N 3"]:
    """Colours of places in the scene: the mean of the nearest splats, near and dense ones count most."""
    from scipy.spatial import KDTree

    colour = np.clip(0.5 + SH0 * splats.sh[:, 0].astype(float), 0, 1)
    dense = 1 / (1 + np.exp(-splats.logit_opacities.astype(float)))
    count = min(NEAREST, len(splats))
    apart, index = KDTree(splats.means).query(places, k=list(range(1, count + 1)))
    scale = np.maximum(apart[:, [-1]] / 2, 1e-9)
    weight = dense[index] * np.exp(-0.5 * (apart / scale) ** 2) + 1e-12
    mean: np.ndarray = np.einsum("nk,nkc->nc", weight / weight.sum(axis=1, keepdims=True), colour[index])
    return mean


def runs_of(splats: Splats) -> dict[str, list[list[int]]]:
    """Where each body's splats stand in the file that was written: [first, count] pairs."""
    edges = np.flatnonzero(np.diff(splats.group, prepend=-1, append=-1))
    found = dict[str, list[list[int]]]()
    for first, last in itertools.pairwise(edges.tolist()):
        found.setdefault(splats.groups[int(splats.group[first])], []).append([first, last - first])
    return found
