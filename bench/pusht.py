"""A real T block, pushed by a real Franka: shape from three given cameras, followed, judged on frames kept apart.

python -m bench.pusht                shape and track on the first 500 pictures; then the sealed last 300, once
python -m bench.pusht --picture P    and a sheet of outlines over sealed pictures

The recording has no joint states, so no robot is drawn: what hides the block is told from it by colour alone. One click
in the first picture points at it. Figures compare the drawn outline with pixels that are orange, by fixed numbers.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from twinproof.nouns.clip import Clip
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.rig import Intrinsics
from twinproof.nouns.views import PosedView
from twinproof.reconstruct.couple_surface import object_views
from twinproof.reconstruct.generate_check import silhouette
from twinproof.reconstruct.generate_fit import Outline
from twinproof.reconstruct.masks import segment
from twinproof.reconstruct.object_block import FoundObject, at_rest, shaped
from twinproof.reconstruct.prompts import read_clicks
from twinproof.reconstruct.shape import ShapeRecipe, shape_from_masks
from twinproof.reconstruct.surface_refine import sights_of
from twinproof.sim.grid import Plane
from twinproof.sim.track import Following, Rest, Tracker
from twinproof.sim.track_clips import track
from twinproof.sim.track_object import surface_splats
from twinproof.sim.track_pose import Track

DATA = Path(__file__).parents[1].parent / "shared" / "data" / "franka_pusht_3cam"
OPEN, SEALED = (0, 500, 20), (500, 800, 12)  # pictures: from, to, one in so many
FULLEST = 4  # pictures of each camera
CLICK = "234222302164,0,195,110=tee"
ORANGE = ((0.55, 1.0), 0.55, 0.35)  # red at least so bright, green and blue below these shares of it


def camera_clips(span: tuple[int, int, int]) -> dict[str, Clip]:
    """The three cameras as the recording gives them."""
    import av

    cameras = json.loads((DATA / "cameras.json").read_text())
    clips = {}
    for name, told in cameras.items():
        meta = json.loads((DATA / "videos" / f"{name}.json").read_text())
        wanted = set(range(*span))
        with av.open(str(DATA / "videos" / f"{name}.mp4")) as video:
            pictures = {k: f.to_ndarray(format="rgb24") for k, f in enumerate(video.decode(video=0)) if k in wanted}
        K, kept = np.array(meta["K"]), sorted(k for k in pictures if k < len(meta["timestamps"]))
        pose = np.array(told["X_WC"]) @ np.diag([1.0, -1.0, -1.0, 1.0])  # theirs look along -z
        clips[name] = Clip(
            name, np.array(meta["timestamps"])[kept], np.stack([pictures[k] for k in kept]),
            Intrinsics(K[0, 0], K[1, 1], K[0, 2], K[1, 2]), np.tile(pose, (len(kept), 1, 1)),
        )  # fmt: skip
    return clips


def table() -> Plane:
    """The ground plane of the recording: n · p + d = 0."""
    a, b, c, d = json.loads((DATA / "ground_plane.json").read_text())["plane"]
    size = float(np.linalg.norm([a, b, c]))
    return Plane((a / size, b / size, c / size), -d / size)


def orange(rgb: np.ndarray) -> np.ndarray:
    """Pixels of the block's colour, by three fixed numbers."""
    red, green, blue = np.moveaxis(rgb.astype(float) / 255, -1, 0)
    (low, high), most_green, most_blue = ORANGE
    return (red >= low) & (red <= high) & (green < most_green * red) & (blue < most_blue * red)


def followed(
    thing: FoundObject, clips: dict[str, Clip], masks: dict[str, np.ndarray], start: np.ndarray | None
) -> Track:
    """Its pose at every picture, by outlines."""
    size = float(np.ptp(thing.mesh.vertices, axis=0).max())
    splats = surface_splats(thing.mesh, size / 16, 0.0025)
    tracker = Tracker(splats, Following(rest=Rest(thing.T_world_object, 0.002, 0.02)))
    return track(tracker, tuple(clips.values()), {}, start, masks=masks, again=False)


def carved(thing: FoundObject, clips: dict[str, Clip], masks: dict[str, np.ndarray], found: Track) -> FoundObject:
    """The hull of the fullest masks at the poses found: three cameras see many sides of a thing that turns.

    What the robot hides would be cut away, so only pictures that show nearly the most of it count.
    """
    views = object_views(tuple(clips.values()), masks, found)
    kept = list[PosedView]()
    for name, clip in clips.items():
        own = [(view, int((view.mask == 0).sum())) for view in views.views if view.name.startswith(f"{name}_")]
        lost = {f"{name}_{k}" for k, t in enumerate(clip.time_s) if found.lost[np.argmin(np.abs(found.time_s - t))]}
        own = sorted((each for each in own if each[0].name not in lost), key=lambda each: -each[1])
        kept += [view for view, _ in own[:FULLEST]]
    sights = sights_of(replace(views, views=tuple(kept)), "object")
    made = shape_from_masks([s.silhouette for s in sights], ShapeRecipe(across=96, faces=3000))
    return replace(thing, mesh=made.mesh)


def drawn(mesh: Mesh, clip: Clip, k: int, time_s: np.ndarray, poses: np.ndarray) -> np.ndarray:
    """The outline of the mesh in picture k, at the pose nearest in time."""
    blank = Outline(np.ones(clip.rgb.shape[1:3], bool), clip.intrinsics, clip.T_world_camera[k])
    return silhouette(mesh.moved(poses[int(np.argmin(np.abs(time_s - clip.time_s[k])))]), blank)


def scores(mesh: Mesh, clips: dict[str, Clip], time_s: np.ndarray, poses: np.ndarray) -> dict[str, list[float]]:
    """Intersection over union of the drawn outline and orange pixels, by camera."""
    out = {}
    for name, clip in clips.items():
        pairs = [(drawn(mesh, clip, k, time_s, poses), orange(rgb)) for k, rgb in enumerate(clip.rgb)]
        out[name] = [float((mine & seen).sum() / max(1, (mine | seen).sum())) for mine, seen in pairs]
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--picture", type=Path)
    asked = parser.parse_args()
    if not DATA.is_dir():
        raise SystemExit(f"{DATA} is not there: this benchmark needs the real recording of the shared data.")
    began, ground = time.process_time(), table()
    clips = camera_clips(OPEN)
    masks = segment(clips, read_clicks([CLICK]), ground)
    own = {name: np.array(masks.of("tee", name)) for name in clips}
    first = shaped(at_rest(masks, "tee", clips), "tee", "tee", ground)
    print(f"hull of one rest: {_size(first)}; {time.process_time() - began:.0f} CPU-s", flush=True)
    thing, found = first, followed(first, clips, own, None)
    thing = carved(thing, clips, own, found)
    found = followed(thing, clips, own, found.T_world_object[int(np.argmin(found.lost))])
    spent = f"lost in {found.lost.mean():.0%}; {time.process_time() - began:.0f} CPU-s"
    print(f"hull of the fullest masks: {_size(thing)}; {spent}", flush=True)
    _print("pictures it was made from", scores(thing.mesh, clips, found.time_s, found.T_world_object))
    sealed = camera_clips(SEALED)
    last = found.T_world_object[np.flatnonzero(~found.lost)[-1]]
    seen = {name: orange(clip.rgb) for name, clip in sealed.items()}
    later = followed(thing, sealed, seen, last)
    _print("sealed pictures", scores(thing.mesh, sealed, later.time_s, later.T_world_object))
    print(f"lost in {later.lost.mean():.0%} of the sealed times; {time.process_time() - began:.0f} CPU-s in all")
    if asked.picture:
        sheet(thing.mesh, sealed, later.time_s, later.T_world_object, asked.picture)


def _size(thing: FoundObject) -> str:
    sides = np.sort(np.ptp(thing.mesh.vertices @ np.linalg.svd(np.cov(thing.mesh.vertices.T))[0], axis=0))[::-1]
    across = " × ".join(f"{1e3 * s:.0f}" for s in sides)
    return f"{across} mm, {1e6 * thing.mesh.volume_m3:.0f} cm³, closed {thing.mesh.closed}"


def _print(what: str, found: dict[str, list[float]]) -> None:
    cells = "; ".join(f"{name}: {np.median(v):.3f} (worst {min(v):.2f})" for name, v in found.items())
    print(f"IoU on {what}, median: {np.median(np.concatenate(list(found.values()))):.3f}; {cells}", flush=True)


def sheet(mesh: Mesh, clips: dict[str, Clip], time_s: np.ndarray, poses: np.ndarray, path: Path) -> None:
    """Four pictures of every camera with the drawn outline over them."""
    from PIL import Image
    from scipy.ndimage import binary_erosion

    rows = []
    for clip in clips.values():
        row = []
        for k in np.linspace(0, len(clip) - 1, 4).astype(int):
            mine, picture = drawn(mesh, clip, int(k), time_s, poses), clip.rgb[k].copy()
            picture[mine & ~binary_erosion(mine, iterations=2)] = (0, 255, 255)
            row.append(picture)
        rows.append(np.concatenate(row, axis=1))
    Image.fromarray(np.concatenate(rows)).save(path)


if __name__ == "__main__":
    main()
