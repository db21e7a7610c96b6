"""Refines a mesh and its looks together: silhouettes, colours and depth pull at vertices through the rasteriser.

refined = refine(bound, sights, Refining())

The vertices move by a smooth field: V = V0 + (1 + λ L)⁻¹ x with the mesh's Laplacian L, and the descent is on x
(Nicolet, Jacobson and Jakob, Large Steps in Inverse Rendering, 2021). A pull at one vertex so moves its surroundings,
and no term has to hold noise down. Beside that: neighbouring faces agree in their normals, and the volume does not
shrink below a share of what it was.

Discs have soft borders, and seen edge-on each is still a dot: they draw an object nearly a pixel too large. So the
pictures' silhouettes are drawn as softly and as large before they are compared: how, is measured at the start on the
mesh itself, whose exact silhouettes are known. Discs would also draw colours too far out (a planted ball of 56 pixels
came out 3 % too small), so colours pull at vertices without them (surface_colour), and the discs' own colours are
fitted on the mesh when it stands.
"""

# mypy: allow-untyped-calls, allow-untyped-defs, allow-incomplete-defs
from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from twinproof.nouns.errors import MeshError
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.randomness import stream
from twinproof.nouns.splats import Splats
from twinproof.nouns.views import Views
from twinproof.reconstruct.surface import Bound, Looks, bind
from twinproof.reconstruct.surface_colour import read_colours
from twinproof.reconstruct.surface_draw import edge_drawn, engine_on, opacities, towards
from twinproof.reconstruct.surface_smooth import (
    Spread,
    Spreading,
    above,
    area_of,
    bend,
    crosses,
    few_threads,
    neighbour_faces,
    volume_of,
)
from twinproof.reconstruct.surface_target import Sight, Target, targets_of, together
from twinproof.reconstruct.texture import Photo, vertex_colours
from twinproof.sim.grid import Plane
from twinproof.sim.render_camera import Camera, Lens
from twinproof.sim.silhouette import Silhouette
from twinproof.sim.splat.torch_render import Rendered, Scene, Settings
from twinproof.sim.threads import threads_usable

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Refining:
    """How far and how fast."""

    steps: int = 300
    views_a_step: int = 2
    smooth: float = 3.0  # λ: how far a pull at one vertex spreads, squared edges
    step_share: float = 3e-2  # of the object's extent: the largest move of x in one step; a tenth of it at the end
    colour_steps: int = 150
    colour_rate: float = 0.1
    bands: int = 1  # of spherical harmonics: 4 shine and shade with where they are seen from
    shine_rate: float = 0.01
    colour_pull: float = 1.0  # of colours on vertices, against 1 of silhouettes
    depth_weight: float = 2.0  # of metres over the extent
    normal_weight: float = 0.02
    area_weight: float = 0.0  # of the surface over its start's: what no outline shows lies flat
    least_volume: float = 0.95  # of the start; below, a penalty grows
    support: Plane | None = None  # nothing goes below it
    margin_px: int = 6
    threads: int = 4  # at most: pictures are cut to the object, and more threads than that wait for each other

    def __post_init__(self) -> None:
        if self.steps < 1 or self.views_a_step < 1 or self.smooth < 0 or not self.step_share > 0:
            raise MeshError(
                f"surface: {self.steps} steps of {self.views_a_step} views, smooth {self.smooth}, step share "
                f"{self.step_share}. Steps and views are at least 1, the share is above 0."
            )

    @property
    def drawn_by(self) -> int:
        """Threads that draw a picture."""
        return min(self.threads, threads_usable())


@dataclass(frozen=True, eq=False)
class Refined:
    """The moved mesh with its discs, and how the losses went."""

    bound: Bound
    history: list[dict[str, float]] = field(default_factory=list)
    cpu_s: float = 0.0

    @property
    def mesh(self) -> Mesh:
        """The shape."""
        return self.bound.mesh

    @property
    def splats(self) -> Splats:
        """The looks: surfels in a group of the object's name."""
        return self.bound.splats()


def sights_of(views: Views, group: str, hidden_by: Sequence[str] = ()) -> list[Sight]:
    """The object of a group in posed views. Pixels of groups that may hide it (the robot) are taken as not known."""
    if group not in views.groups:
        raise MeshError(f"views: there is no group {group!r}; there are {', '.join(views.groups)}.")
    own, hiders = views.groups.index(group), [views.groups.index(name) for name in hidden_by if name in views.groups]
    sights = []
    for view in views.views:
        if view.mask is None:
            continue
        mask = np.where(view.mask == own, 1, np.where((view.mask < 0) | np.isin(view.mask, hiders), -1, 0))
        k, (height, width) = view.intrinsics, mask.shape
        camera = Camera(Lens(width, height, k.fx, k.fy, k.cx, k.cy, k.distortion), view.T_world_camera)
        depth = None if view.depth_m is None else np.where(mask == 1, view.depth_m, 0)
        sights.append(Sight(Silhouette(mask.astype(np.int8), camera), view.rgb, depth))
    return sights


def refine(
    bound: Bound,
    sights: Sequence[Sight],
    how: Refining | None = None,
    seed: int = 0,
    progress: Progress = quiet,
    device: str = "cpu",
) -> Refined:
    """The mesh and its looks, moved to where the pictures have them. Faces stay: what has a wrong number of holes at
    the start has it at the end. On a GPU the views of a step are drawn at once."""
    how = how or Refining()
    targets = targets_of(sights, how.margin_px, device, alike=device != "cpu")
    if len(targets) < 2:
        raise MeshError(f"surface: {len(targets)} views show the object; 2 at least are needed. Mend the masks.")
    began, rng = time.process_time(), stream(seed, "surface refine")
    with few_threads(how.threads):
        edge = edge_drawn(bound, [sight.silhouette.camera for sight in sights], device=device)
        run = _Run(bound, [replace(t, mask=edge(t.distance)) for t in targets], how, rng, progress, device)
        vertices, looks = run.shape(), bound.looks
        if any(t.rgb is not None for t in targets):
            looks = replace(run, bound=painted(bound, vertices, sights)).colours(vertices)
    return Refined(bound.moved(vertices, looks), run.history, time.process_time() - began)


def coloured(
    mesh: Mesh,
    sights: Sequence[Sight],
    group: str,
    how: Refining | None = None,
    progress: Progress = quiet,
    device: str = "cpu",
) -> Splats:
    """Surfels on a mesh that stays, in the colours of the pictures."""
    how, bound = how or Refining(), bind(mesh, per_face=1, group=group)
    targets = targets_of(sights, how.margin_px, device)
    bound = painted(bound, bound.vertices, sights)
    run = _Run(bound, targets, how, stream(0, "surface colours"), progress, device)
    with few_threads(how.threads):
        return bound.splats(looks=run.colours(bound.vertices))


def painted(bound: Bound, vertices: Any, sights: Sequence[Sight]) -> Bound:
    """The same discs in the colours that the pictures show there: what no step of a fit reaches has them too."""
    mesh, _ = vertex_colours(Mesh(vertices.double().numpy(), bound.mesh.faces), photos_of(sights))
    looks = bind(mesh, bound.per_face, bound.group, bound.looks.sh.shape[1]).looks
    return replace(bound, looks=bound.looks._replace(sh=looks.sh))


def photos_of(sights: Sequence[Sight]) -> list[Photo]:
    """The pictures of the object, where only its own pixels show it."""
    return [Photo(s.rgb, s.silhouette.camera, s.silhouette.mask == 1) for s in sights if s.rgb is not None]


@dataclass
class _Run:
    """One refinement under way."""

    bound: Bound
    targets: list[Target]
    how: Refining
    rng: np.random.Generator
    progress: Progress
    device: str
    history: list[dict[str, float]] = field(default_factory=list)

    def batches(self, steps: int) -> Iterator[list[Target]]:
        """Views in random order, all of them before one comes again."""
        order = list[int]()
        for _ in range(steps):
            batch = list[Target]()
            for _ in range(self.how.views_a_step):
                order = order or self.rng.permutation(len(self.targets)).tolist()
                batch.append(self.targets[order.pop()])
            yield batch

    def shape(self) -> Any:
        """The vertices, on the CPU, after descending on silhouettes, depth and, as far as it may pull, colour."""
        bound, how, mesh = self.bound, self.how, self.bound.mesh
        start, extent = bound.vertices.to(self.device), float(np.ptp(mesh.vertices, axis=0).max())
        grey = np.full(mesh.vertices.shape, 0.5) if mesh.colours is None else mesh.colours
        shades = torch.tensor(grey, dtype=start.dtype, device=self.device).requires_grad_()
        x, pairs = torch.zeros_like(start, requires_grad=True), neighbour_faces(mesh).to(self.device)
        spreading, volume = Spreading(mesh, how.smooth, self.device), mesh.volume_m3
        area = float(area_of(crosses(start, mesh)[1]))
        adam = torch.optim.Adam([shades], lr=0.3 * how.colour_rate, betas=(0.9, 0.99))
        first, second = torch.zeros_like(start), torch.zeros((), device=self.device)
        for step, batch in enumerate(self.batches(how.steps)):
            vertices = above(start + Spread.apply(x, spreading), how.support)
            terms = dict[str, Any]()
            for target, drawn in zip(batch, self.drawn(bound.scene(vertices, still=True), batch), strict=True):
                found = _losses(drawn, target, extent, how)
                if how.colour_pull > 0 and target.rgb is not None:
                    found["colour"] = how.colour_pull * _sliding(vertices, mesh, shades, target)
                for name, value in found.items():
                    terms[name] = terms.get(name, 0.0) + value / len(batch)
            corners, cross = crosses(vertices, mesh)
            terms["normals"] = how.normal_weight * bend(cross, pairs)
            terms["area"] = how.area_weight * 0.03 ** (step / how.steps) * area_of(cross) / area
            terms["volume"] = 10 * torch.relu(how.least_volume - volume_of(corners, cross) / volume) ** 2
            sum(terms.values()).backward()
            with torch.no_grad():  # Adam with one scale for all: a smooth field stays smooth
                first.lerp_(x.grad, 0.1)
                second = 0.99 * second + 0.01 * (x.grad**2).max()
                k, size = step + 1, how.step_share * extent * 0.1 ** (step / how.steps)
                x -= size * (first / (1 - 0.9**k)) / ((second / (1 - 0.99**k)).sqrt() + 1e-20)
            if how.colour_pull > 0:
                adam.step()
            adam.zero_grad()
            x.grad = None
            self.note(step, how.steps, terms)
        with torch.no_grad():
            return above(start + Spread.apply(x, spreading), how.support).cpu()

    def drawn(self, scene: Scene, batch: Sequence[Target]) -> list[Rendered]:
        """The pictures of a batch, those of one size drawn at once."""
        more = any(target.depth is not None for target in batch)
        settings, pictures = Settings(True, more, threads=self.how.drawn_by), dict[int, Rendered]()
        for places in together(batch):
            poses = torch.cat([batch[k].T_camera_world for k in places])
            lenses = torch.cat([batch[k].lens for k in places])
            found = engine_on(self.device)(scene, poses, lenses, None, settings)
            for row, k in enumerate(places):
                pictures[k] = Rendered(*(None if each is None else each[row] for each in found))
        return [pictures[k] for k in range(len(batch))]

    def colours(self, vertices: Any) -> Looks:
        """The looks, on the CPU, on a mesh that stays: colours that descend, opacities as the discs' number asks for.

        Every view has the discs that look at it, so views are drawn one by one."""
        bound, how, vertices = self.bound, self.how, vertices.to(self.device)
        even = bound.looks.sh[:, :1].to(self.device, copy=True).requires_grad_()
        # what depends on where it is seen from
        shine = torch.zeros(len(even), how.bands - 1, 3, device=self.device).requires_grad_()
        rates = {id(even): how.colour_rate, id(shine): how.shine_rate}
        adam = torch.optim.Adam([{"params": [each]} for each in (even, shine)], betas=(0.9, 0.99))
        for step, batch in enumerate(self.batches(how.colour_steps)):
            sh = torch.cat([even, shine], dim=1)
            scene = bound.scene(vertices, bound.looks._replace(sh=sh))
            loss = torch.zeros((), device=self.device)
            for target in batch:
                if target.rgb is not None:
                    near_side = towards(scene, bound, vertices, target.T_camera_world, target.focal_px)
                    loss = loss + _colour_loss(self.drawn(near_side, [target])[0], target) / len(batch)
            if not loss.requires_grad:
                continue
            loss.backward()
            for group in adam.param_groups:
                group["lr"] = rates[id(group["params"][0])] * 0.1 ** (step / how.colour_steps)
            adam.step()
            adam.zero_grad()
            self.note(step, how.colour_steps, {"colour": loss})
        with torch.no_grad():
            each = torch.stack([opacities(bound, vertices, t.T_camera_world, t.focal_px) for t in self.targets])
            seen = each > 0
            opacity = (each.sum(dim=0) / seen.sum(dim=0).clamp(min=1)).clamp(0.02, 0.98)
            opacity = torch.where(seen.any(dim=0), opacity, 0.95)  # what no view saw is solid all the same
        sh = torch.cat([even, shine], dim=1).detach()
        return bound.looks._replace(sh=sh.cpu(), logits=torch.logit(opacity).cpu())

    def note(self, step: int, steps: int, terms: dict[str, Any]) -> None:
        """A line of the history at every tenth step."""
        if step % 10 == 0 or step == steps - 1:
            self.history.append({"step": step, **{name: float(value.detach()) for name, value in terms.items()}})
            name = next(iter(terms))
            self.progress(step + 1, f"{name} {self.history[-1][name]:.4f}", steps)


def _losses(drawn: Rendered, target: Target, extent: float, how: Refining) -> dict[str, Any]:
    """What one picture says: means over the pixels that are known, as shares of the object's own pixels."""
    own = target.mask.sum().clamp(min=1)
    losses = {"silhouette": ((drawn.alpha - target.mask) ** 2 * target.known).sum() / own}
    if target.depth is not None and drawn.median is not None:  # the mean depth would see the far side shine through
        seen = (target.depth > 0) & (drawn.median > 0)
        losses["depth"] = how.depth_weight * ((drawn.median - target.depth).abs() * seen).sum() / extent / own
    return losses


def _sliding(vertices: Any, mesh: Mesh, shades: Any, target: Target) -> Any:
    """How far the colours at the vertices are off from what the pixels show: the mean over the object's pixels."""
    assert target.rgb is not None
    seen, colours = read_colours(vertices, mesh, shades, target.camera, target.rays)
    some = torch.tensor(seen, device=vertices.device)
    off = (colours - target.rgb[some]).abs().mean(dim=1)
    return (off * target.inside[some]).sum() / target.inside.sum().clamp(min=1)


def _colour_loss(drawn: Rendered, target: Target) -> Any:
    """By alpha, and away from the border: else to draw less would be the way to a smaller loss."""
    colour = drawn.colour / drawn.alpha.clamp(min=0.5)[..., None]
    return ((colour - target.rgb).abs().mean(dim=2) * target.inside).sum() / target.inside.sum().clamp(min=1)
