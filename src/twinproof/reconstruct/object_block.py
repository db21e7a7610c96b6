"""The second block of a reconstruction: one object's masks, shape and looks, from the calibrated cameras."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.nouns.artifact import read_arrays, write_arrays
from twinproof.nouns.baked import Baked
from twinproof.nouns.clip import Clip
from twinproof.nouns.errors import TwinError
from twinproof.nouns.files import read_json, write_json
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.mesh_files import read_mesh, write_mesh
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.splat_files import read_ply, write_ply
from twinproof.nouns.splats import Splats
from twinproof.nouns.views import PosedView, Views
from twinproof.reconstruct.background_block import found_background, kept_and_apart
from twinproof.reconstruct.background_fill import at_other_times, said
from twinproof.reconstruct.hand_views import pose_at_row
from twinproof.reconstruct.masks import Masks, segment
from twinproof.reconstruct.masks_agree import agreed
from twinproof.reconstruct.prompts import Prompts
from twinproof.reconstruct.views_kept import load_views, save_views
from twinproof.sim.grid import Plane
from twinproof.sim.splat.placed import placed
from twinproof.sim.splat.render import render

if TYPE_CHECKING:
    from jaxtyping import Float, UInt8

    from twinproof.reconstruct.generate import Generator
    from twinproof.reconstruct.masks_track import Track
    from twinproof.reconstruct.segmenters import Segmenter
    from twinproof.reconstruct.shape import Shape
    from twinproof.reconstruct.surface_refine import Refined
    from twinproof.reconstruct.surface_target import Sight

FORMAT = "twinproof/reconstruct-object/6"
SAME_PLACE_M = 0.008  # rests of an object no farther apart than this are one
AREA = 0.15  # cameras that look down leave the top of a hull open: the least surface that the outlines allow is flat
BANDS = 9  # of spherical harmonics: what shines does so in some pictures only
TEXTURE = 512  # texels a side
EVERY_S = 0.15  # between two views of a camera that moves


@dataclass(frozen=True, eq=False)
class FoundObject:
    """An object: closed mesh and surfels in its own frame, where it stood, and what is known about how good that is."""

    name: str
    mesh: Mesh
    splats: Splats
    T_world_object: Float[np.ndarray, "4 4"]
    silhouette_iou: Mapping[str, float]  # by view
    notes: tuple[str, ...]
    declared: tuple[str, ...]
    background: Splats | None = None  # what is behind it, in the world
    held_out: Mapping[str, float] = field(default_factory=dict)  # figures on views that nothing was fitted to
    made_by: str = ""  # a model's shape: who made it and what was checked; "": the pictures' own
    went_m: float = 0.0  # how far its middle went in the episode it was found in
    uv: Float[np.ndarray, "F 3 2"] | None = None  # where each corner of the mesh's faces lies in the texture
    texture: UInt8[np.ndarray, "S S 3"] | None = None
    episode: str = ""  # that it was found in
    pictures: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # of that episode, by camera
    views: Views | None = None  # of its rest, in the world: groups ("other", the object)

    def shape_at(self, T: Float[np.ndarray, "4 4"]) -> Mesh | Baked:
        """The mesh with its texture, if it has one, moved."""
        mesh = self.mesh.moved(T)
        return mesh if self.uv is None or self.texture is None else Baked(mesh, self.uv, self.texture)

    def save(self, folder: Path) -> None:
        """Writes mesh.ply, splats.ply, object.json, and texture.npz, background.ply and views where there are such."""
        write_mesh(folder / "mesh.ply", self.mesh)
        write_ply(folder / "splats.ply", self.splats)
        if self.background is not None:
            write_ply(folder / "background.ply", self.background)
        if self.uv is not None and self.texture is not None:
            write_arrays(folder / "texture.npz", {"uv": self.uv, "texture": self.texture})
        if self.views is not None:
            save_views(folder, self.views)
        head = {
            "format": FORMAT,
            "name": self.name,
            "T_world_object": self.T_world_object.tolist(),
            "silhouette_iou": dict(self.silhouette_iou),
            "notes": list(self.notes),
            "declared": list(self.declared),
            "held_out": dict(self.held_out),
            "made_by": self.made_by,
            "went_m": self.went_m,
            "episode": self.episode,
            "pictures": {name: list(numbers) for name, numbers in self.pictures.items()},
        }
        write_json(folder / "object.json", head)

    @classmethod
    def load(cls, folder: Path) -> FoundObject:
        """Reads it back."""
        head: Any = read_json(folder / "object.json", FORMAT, TwinError)
        painted = (folder / "texture.npz").is_file()
        paint = read_arrays(folder / "texture.npz", TwinError) if painted else {}
        return cls(
            head["name"],
            read_mesh(folder / "mesh.ply"),
            read_ply(folder / "splats.ply"),
            np.array(head["T_world_object"]),
            head["silhouette_iou"],
            tuple(head["notes"]),
            tuple(head["declared"]),
            read_ply(folder / "background.ply") if (folder / "background.ply").is_file() else None,
            head["held_out"],
            head["made_by"],
            head["went_m"],
            paint.get("uv"),
            paint.get("texture"),
            head["episode"],
            {name: tuple(numbers) for name, numbers in head["pictures"].items()},
            load_views(folder) if (folder / "views.json").is_file() else None,
        )


@dataclass(frozen=True)
class Shaping:
    """How an object is found: what points at it, who cuts it out, who makes its shape, and steps of the background."""

    prompts: Prompts | None = None
    segmenter: Segmenter | None = None
    generator: Generator | None = None
    background: int = 0
    device: str = "cpu"  # where surface, colours and background are fitted


def found_object(
    clips: Mapping[str, Clip],
    name: str,
    table: Plane,
    how: Shaping,
    more: Sequence[str] = (),
    progress: Progress = quiet,
) -> FoundObject:
    """Masks, hull, and a surface refined with its looks; then the background. Without prompts the first thing that is
    found is it. With a generator its shape is used instead of the hull, if the pictures allow it."""
    masks = segment(clips, how.prompts, table, how.segmenter, progress=progress)
    if not masks.names:
        raise TwinError(
            "no object was found: nothing but the robot moves, and nothing stands on the table that differs from it. "
            "Point at it: --click camera,frame,x,y=name."
        )
    which = name if name in masks.names else masks.names[0]
    views = only_of(at_rest(masks, which, clips), which)
    kept = agreed(kept_and_apart(views)[0] if how.background else views, which, table)
    mended = {view.name: view for view in kept.views}
    views = replace(views, views=tuple(mended.get(view.name, view) for view in views.views), notes=kept.notes)
    told = (*masks.notes, *more, *_moved(masks.tracks[which], name or which))
    if how.generator is not None:
        from twinproof.reconstruct.generate_block import generated

        found = generated(views, which, name or which, table, how.generator, told)
    else:
        found = shaped(kept, which, name or which, table, told, progress, how.device)
    found = replace(found, went_m=_went(masks.tracks[which]), pictures=_used(views, clips))
    elsewhen = at_other_times(clips, masks.labels, views) if how.background else ()
    return with_background(found, views, table, how, progress, elsewhen)


def with_background(
    found: FoundObject, views: Views, table: Plane, how: Shaping, progress: Progress = quiet,
    more: Sequence[PosedView] = (),
) -> FoundObject:  # fmt: skip
    """The object with what is behind it, where views are many enough, and its looks under one exposure; textured.

    `more` are pictures of what is behind it at other times.
    """
    from twinproof.reconstruct.surface_refine import Refining, coloured, sights_of

    T, group, how_seen = found.T_world_object, views.groups[1], Refining(bands=BANDS)
    back, own = np.linalg.inv(T), list[Views]()

    def looks(even: Views) -> Splats:
        own.append(even)
        return coloured(found.mesh.moved(T), sights_of(even, group), found.name, how_seen, progress, how.device)

    behind = found_background(views, placed(found.splats, T), table, how.background, progress, how.device, looks, more)
    if behind is None:
        return baked(found, views)
    figures = {
        "psnr_db": behind.psnr_db, "object_psnr_db": behind.object_psnr_db, "ssim": behind.ssim,
        "object_ssim": behind.object_ssim, "views": behind.apart,
    }  # fmt: skip
    figures = {k: float(v) for k, v in figures.items() if np.isfinite(v)}
    declared = (*found.declared, *said(behind.splats))
    found = replace(
        found, splats=placed(behind.thing, back), background=behind.splats, held_out=figures, declared=declared,
        notes=(*found.notes, *behind.notes),
    )  # fmt: skip
    return baked(found, own[0])


def baked(found: FoundObject, views: Views) -> FoundObject:
    """The object with a texture of what the views show of it, and these views."""
    from twinproof.reconstruct.surface_refine import photos_of, sights_of
    from twinproof.reconstruct.texture import bake

    painted = bake(found.mesh.moved(found.T_world_object), photos_of(sights_of(views, views.groups[1])), TEXTURE)
    mesh = painted.baked.mesh.moved(np.linalg.inv(found.T_world_object))
    about = f"texture of {found.name}: "  # an earlier one's is gone with it
    declared = [each for each in found.declared if not each.startswith(about)]
    declared += [about + each for each in painted.declared]
    return replace(
        found, mesh=mesh, uv=painted.baked.uv, texture=painted.baked.texture, declared=tuple(declared),
        views=views,
    )  # fmt: skip


def _moved(track: Track, name: str) -> tuple[str, ...]:
    """A word about an object that did not stand still while it was looked at."""
    from twinproof.reconstruct.masks_checks import moves

    found = moves(track)
    if found.first_s is None:
        return ()
    return (
        f"{name} did not stand still: at {found.first_s:.2f} s it left its place, by {1e3 * found.largest_m:.0f} mm at "
        "most; only pictures of it at rest in one place count",
    )


def _used(views: Views, clips: Mapping[str, Clip]) -> dict[str, tuple[int, ...]]:
    """The numbers of the views' pictures in their videos, by camera, where clips know them."""
    used = dict[str, list[int]]()
    for view in views.views:
        camera, _, frame = view.name.rpartition("/")
        numbers = clips[camera].numbers
        if numbers is not None:
            used.setdefault(camera, []).append(int(numbers[int(frame)]))
    return {camera: tuple(sorted(numbers)) for camera, numbers in used.items()}


def _went(track: Track) -> float:
    """How far the middle was from where it began, at most; single votes that fly off do not count."""
    from scipy.ndimage import median_filter

    seen = track.centre[np.asarray(track.seen, bool)]
    if len(seen) < 5:
        return 0.0
    calm = median_filter(seen, (5, 1), mode="nearest")
    return float(np.linalg.norm(calm - calm[0], axis=1).max())


def only_of(views: Views, which: str) -> Views:
    """The same views with one object, all else but the background not counting."""
    number = views.groups.index(which)
    own = tuple(replace(v, mask=_own(v, number)) for v in views.views)
    return Views(own, groups=("other", which), notes=views.notes)


def _own(view: PosedView, group: int) -> np.ndarray:
    assert view.mask is not None
    return np.where(view.mask == group, 1, np.where(view.mask == 0, 0, -1))


def at_rest(masks: Masks, name: str, clips: Mapping[str, Clip]) -> Views:
    """Views of the longest rest and of others in the same place: a vote that flickers does not cut a rest in two."""
    spans = masks.still_spans()
    if not spans:
        return masks.views(clips)  # says so
    track = masks.tracks[name]
    first = np.asarray(track.at(sum(spans[0]) / 2))
    same = [s for s in spans if np.linalg.norm(np.asarray(track.at(sum(s) / 2)) - first) < SAME_PLACE_M]
    parts = [masks.views(clips, span, EVERY_S) for span in same]
    number = parts[0].groups.index(name)
    once = {view.name: _when_seen(view, number, clips) for part in parts for view in part.views}
    still = {name for name, clip in clips.items() if clip.still}
    kept, seen = list[PosedView](), set[str]()
    for view in once.values():  # of a camera that stands still one picture is enough
        camera = view.name.split("/")[0]
        if camera not in still or camera not in seen:
            kept.append(view)
            seen.add(camera)
    return Views(tuple(kept), groups=parts[0].groups, notes=tuple(note for part in parts for note in part.notes))


def _when_seen(view: PosedView, group: int, clips: Mapping[str, Clip]) -> PosedView:
    """The view from where its camera was when the rows that show the object were taken."""
    assert view.mask is not None
    camera, _, frame = view.name.rpartition("/")
    rows = np.nonzero(view.mask == group)[0]
    if not len(rows):
        return view
    return replace(view, T_world_camera=pose_at_row(clips[camera], int(frame), float(rows.mean())))


def shaped(
    views: Views, group: str, name: str, table: Plane, notes: Sequence[str] = (), progress: Progress = quiet,
    device: str = "cpu",
) -> FoundObject:  # fmt: skip
    """An object's mesh and looks from masked views of one moment, in a frame at the middle of its volume.

    Tips that stick out of a hull move the middle of the box around it by half their length, and this one hardly.
    """
    from twinproof.reconstruct.collision import mass_properties
    from twinproof.reconstruct.depth_shape import measured
    from twinproof.reconstruct.surface_refine import sights_of

    sights, deep = sights_of(views, group), measured(views, group)
    shown = [s for s in sights if (s.silhouette.mask == 1).any()]
    if len(shown) < 2 and not deep:
        raise TwinError(
            f"{name} is seen by {len(shown)} of {len(sights)} views without depth, and one has no shape. Add a camera, "
            "a scan by the wrist camera or a depth camera, or give a generator (docs/reconstruct.md)."
        )
    first = _first_shape(views, group, shown, table, deep)
    done = pulled(first.mesh, shown, name, table, deep, progress, device)
    middle = np.eye(4)
    middle[:3, 3] = mass_properties(done.mesh, mass_kg=1.0).com_m
    back = np.linalg.inv(middle)
    splats = placed(done.splats, back)
    iou = {view.name: outline_iou(done.splats, s) for view, s in zip(views.views, sights, strict=False) if s in shown}
    return FoundObject(
        name, done.mesh.moved(back), splats, middle, iou, (*notes, *first.notes, *views.notes), first.declared
    )


def _first_shape(views: Views, group: str, shown: Sequence[Sight], table: Plane, deep: bool) -> Shape:
    """By fusion where depth was measured, else the hull of the outlines."""
    from twinproof.reconstruct.depth_shape import fused
    from twinproof.reconstruct.shape import ShapeRecipe, shape_from_masks

    recipe, outlines = ShapeRecipe(across=96, faces=4000), [s.silhouette for s in shown]
    if deep:
        return fused(views, group, outlines, recipe, table)
    return shape_from_masks(outlines, recipe, support=table)


def pulled(
    mesh: Mesh, shown: Sequence[Sight], name: str, table: Plane, deep: bool, progress: Progress, device: str
) -> Refined:
    """The mesh pulled by outlines, colours and depth; where one picture alone shows it, only painted.

    The least surface stands in for what outlines leave open at the top, and depth leaves nothing open there.
    """
    from twinproof.reconstruct.surface import bind
    from twinproof.reconstruct.surface_refine import Refined, Refining, painted, photos_of, refine
    from twinproof.reconstruct.texture import vertex_colours

    coloured, _ = vertex_colours(mesh, photos_of(shown))
    bound = bind(coloured, per_face=1, group=name)
    if len(shown) < 2:
        return Refined(painted(bound, bound.vertices, shown))
    how = Refining(area_weight=0.0 if deep else AREA, support=table)
    return refine(bound, shown, how, progress=progress, device=device)


def outline_iou(splats: Splats, sight: Sight) -> float:
    """How far what is drawn and the picture's silhouette overlap, where it is known."""
    drawn = render(splats, sight.silhouette.camera, what=("alpha",)).alpha > 0.5
    known, mask = sight.silhouette.mask >= 0, sight.silhouette.mask == 1
    both, either = (drawn & mask & known).sum(), ((drawn | mask) & known).sum()
    return float(both / max(1, either))
