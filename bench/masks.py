"""IoU of masks by prompt: on lab recordings with planted truth, and on a real T block. Results: bench/results/masks.md.

    python -m bench.masks lab --seeds 21 22 --episodes 6 --every 2
    python -m bench.masks pusht --every 8

In the lab cameras, clocks and joint zeros are the true ones (finding them is calibration's task), pictures and joints
are as recorded. The click is drawn from the pixels of the object in one still camera's first picture. Scored are all
pictures in which at least 60 pixels of the object are seen. GrabCut gets the true box, 4 pixels wider, in each picture.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
from bench.masks_data import ROOT, Take, lab_takes, orange, pusht_clips, pusht_table

from twinproof.nouns.clip import Clip
from twinproof.nouns.errors import TwinproofError
from twinproof.nouns.randomness import stream
from twinproof.reconstruct.masks import Masks, segment
from twinproof.reconstruct.overlay import sheet
from twinproof.reconstruct.prompts import Prompts, read_clicks
from twinproof.sim.grid import Plane

SEEN = 60  # pixels of an object that must be seen for a picture to count
Rows = list[dict[str, object]]


def overlap(found: np.ndarray, true: np.ndarray) -> float:
    """Intersection over union."""
    return float((found & true).sum() / max(int((found | true).sum()), 1))


def click_for(take: Take, cameras: tuple[str, ...]) -> str:
    """`camera,frame,x,y=object`: a pixel drawn from the inner ones of the object, in a camera that is drawn too."""
    from scipy import ndimage

    rng = stream(0, "bench", "masks", take.name)
    for camera in rng.permutation(np.array(cameras)).tolist():
        inner = ndimage.binary_erosion(take.truth[camera][0], iterations=2)
        if inner.sum() >= 50:
            y, x = np.argwhere(inner)[rng.integers(int(inner.sum()))]
            return f"{camera},0,{x},{y}=object"
    raise SystemExit(f"{take.name}: no camera sees the object in its first picture")


def grabcut(clip: Clip, true: np.ndarray, every: int) -> list[float]:
    """IoU of OpenCV's GrabCut from the true box in each `every`-th picture; the drawn robot is told as background."""
    import cv2

    scores = []
    for k in range(0, len(clip), every):
        if true[k].sum() < SEEN:
            continue
        y, x = np.nonzero(true[k])
        state = np.zeros(true[k].shape, np.uint8)
        state[max(0, y.min() - 4) : y.max() + 5, max(0, x.min() - 4) : x.max() + 5] = cv2.GC_PR_FGD
        if clip.robot is not None:
            state[clip.robot[k]] = cv2.GC_BGD
        models = np.zeros((1, 65)), np.zeros((1, 65))
        cv2.setRNGSeed(0)
        bgr = np.ascontiguousarray(clip.rgb[k][..., ::-1])
        cv2.grabCut(bgr, state, None, *models, 5, cv2.GC_INIT_WITH_MASK)
        scores.append(overlap((state == cv2.GC_FGD) | (state == cv2.GC_PR_FGD), true[k]))
    return scores


def scored(take: Take, how: str, masks: Masks, cpu_s: float) -> Rows:
    """A row for every camera; of several objects the one that fits best over all is the one that was meant."""
    best = max(masks.names, key=lambda name: _total(take, masks, name))
    rows: Rows = []
    for camera, true in take.truth.items():
        found = masks.of(best, camera)
        seen = [k for k in range(len(true)) if true[k].sum() >= SEEN]
        gone = [k for k in range(len(true)) if true[k].sum() < 5]
        ious = [overlap(found[k], true[k]) for k in seen]
        ghosts = sum(int(found[k].sum() >= SEEN) for k in gone)
        rows.append(
            {"take": take.name, "family": take.family, "camera": camera, "how": how, "iou": ious, "cpu_s": cpu_s}
            | {"pictures": sum(map(len, take.truth.values())), "gone": len(gone), "ghosts": ghosts}
            | {"things": len(masks.names)}
        )
    return rows


def _total(take: Take, masks: Masks, name: str) -> float:
    return sum(overlap(masks.of(name, camera), true) for camera, true in take.truth.items())


def timed(
    clips: dict[str, Clip], asked: Prompts | None, table: Plane, tolerance_px: int = 2
) -> tuple[Masks | str, float]:
    """The masks, or what was said instead, and the CPU seconds."""
    start = time.process_time()
    try:
        made: Masks | str = segment(clips, asked, table, None, tolerance_px)
    except TwinproofError as problem:
        made = str(problem)
    return made, time.process_time() - start


def lab(seeds: list[int], episodes: int, every: int, folder: Path, zeros_known: bool, only: list[int]) -> Rows:
    """All takes of the seeds, with one click and with none, and GrabCut beside them."""
    rows: Rows = []
    folder.mkdir(parents=True, exist_ok=True)
    tolerance = 2 if zeros_known else 8
    for seed in seeds:
        for take in lab_takes(seed, episodes, folder, zeros_known, every, only):
            fixed = tuple(name for name, clip in take.clips.items() if clip.still)
            prompts: dict[str, Prompts | None] = {"one click": read_clicks([click_for(take, fixed)]), "no prompt": None}
            for how, asked in prompts.items():
                if not zeros_known and asked is None:
                    continue
                made, cpu_s = timed(take.clips, asked, Plane(), tolerance)
                if isinstance(made, str):
                    rows += [
                        {
                            "take": take.name,
                            "family": take.family,
                            "camera": c,
                            "how": how,
                            "cpu_s": cpu_s,
                            "said": made,
                        }
                        | {
                            "iou": [0.0 for m in t if m.sum() >= SEEN],
                            "gone": 0,
                            "ghosts": 0,
                            "things": 0,
                            "pictures": 0,
                        }
                        for c, t in take.truth.items()
                    ]
                    continue
                rows += scored(take, how, made, cpu_s)
                _save(sheet(take.clips, made, _spread(take.clips)), folder / f"{take.name}_{how}")
            if zeros_known:
                rows += [
                    {"take": take.name, "family": take.family, "camera": c, "how": "GrabCut, true box in each picture"}
                    | {"iou": grabcut(clip, take.truth[c], 4), "gone": 0, "ghosts": 0, "things": 1}
                    for c, clip in take.clips.items()
                ]
            (folder / "lab.json").write_text(json.dumps(rows), encoding="utf-8")  # what is done, should it be stopped
            print(take.name, [f"{r['camera']} {r['how']} {np.median(r['iou'] or [np.nan]):.3f}" for r in rows[-12:]])
    return rows


def pusht(every: int, folder: Path) -> Rows:
    """The real T block from one click, scored on the first two thirds and on the sealed last third apart."""
    clips = pusht_clips(0, 803, every)
    a, b, c, d = pusht_table()
    true = {name: np.stack([orange(rgb) for rgb in clip.rgb]) for name, clip in clips.items()}
    camera = "234222302164"
    y, x = (round(v.mean()) for v in np.nonzero(true[camera][0]))
    made, cpu_s = timed(clips, read_clicks([f"{camera},0,{x},{y}=tee"]), Plane((a, b, c), -d))
    assert isinstance(made, Masks), made
    rows: Rows = []
    for name, clip in clips.items():
        for part, frames in (("built on", range(0, 535)), ("sealed", range(535, 803))):
            chosen = [k for k in range(len(clip)) if k * every in frames and true[name][k].sum() >= SEEN]
            found = made.of("tee", name)
            rows.append(
                {"take": part, "family": "T block", "camera": name, "how": f"one click, {part}", "cpu_s": cpu_s}
                | {"iou": [overlap(found[k], true[name][k]) for k in chosen], "gone": 0, "ghosts": 0, "things": 1}
                | {"pictures": sum(len(each) for each in clips.values())}
            )
            cut = Clip(name, clip.time_s[chosen], clip.rgb[chosen], clip.intrinsics, clip.T_world_camera[chosen])
            rows.append(
                {"take": part, "family": "T block", "camera": name, "how": f"GrabCut, true box, {part}"}
                | {"iou": grabcut(cut, true[name][chosen], 1), "gone": 0, "ghosts": 0, "things": 1}
            )
    _save(sheet(clips, made, _spread(clips)), folder / "pusht")
    return rows


def _spread(clips: dict[str, Clip]) -> list[float]:
    clip = next(iter(clips.values()))
    return np.linspace(clip.time_s[0], clip.time_s[-1], 6).tolist()


def _save(picture: np.ndarray, path: Path) -> None:
    from PIL import Image

    Image.fromarray(picture).save(path.parent / f"{path.name.replace(' ', '_')}.png")


def table(rows: Rows) -> str:
    """Median, fifth percentile and number of pictures, by how, family and camera; then all together."""
    lines = ["| how | family | camera | median IoU | 5th percentile | pictures |", "|---|---|---|---|---|---|"]
    families, cameras = ["*"], ["*"]
    families = sorted({str(r["family"]) for r in rows}) + families
    cameras = sorted({str(r["camera"]) for r in rows}) + cameras
    for how in dict.fromkeys(str(r["how"]) for r in rows):
        for family in families:
            for camera in cameras:
                ious = [
                    iou
                    for r in rows
                    if r["how"] == how and family in ("*", r["family"]) and camera in ("*", r["camera"])
                    for iou in r["iou"]  # type: ignore[attr-defined]
                ]
                if ious:
                    low = np.percentile(ious, 5)
                    lines.append(f"| {how} | {family} | {camera} | {np.median(ious):.3f} | {low:.3f} | {len(ious)} |")
    return "\n".join(lines)


def main() -> None:
    """Prints the tables and writes the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("lab", "pusht"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[3])
    parser.add_argument("--episodes", type=int, default=4)
    parser.add_argument("--every", type=int, default=2)
    parser.add_argument("--only", type=int, nargs="*", default=[], help="numbers of the episodes; all by default")
    parser.add_argument("--zeros-unknown", action="store_true", help="the robot is drawn from raw encoder angles")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "masks")
    told = parser.parse_args()
    told.folder.mkdir(parents=True, exist_ok=True)
    if told.what == "lab":
        rows = lab(told.seeds, told.episodes, told.every, told.folder, not told.zeros_unknown, told.only)
    else:
        rows = pusht(told.every, told.folder)
    name = f"{told.what}_{'_'.join(map(str, told.seeds))}{'_raw' if told.zeros_unknown else ''}.json"
    (told.folder / name).write_text(json.dumps(rows), encoding="utf-8")
    print(table(rows))
    for how in dict.fromkeys(str(r["how"]) for r in rows if "cpu_s" in r):
        spent = {(r["take"], r["cpu_s"], r.get("pictures")) for r in rows if r["how"] == how}
        shown = sum(int(p or 0) for _, _, p in spent)  # type: ignore[call-overload]
        total = sum(float(s) for _, s, _ in spent)  # type: ignore[arg-type]
        print(f"{how}: {total:.0f} CPU-s for {shown} pictures, {100 * total / max(shown, 1):.1f} CPU-s for 100")
    print(
        "ghosts:", sum(int(r["ghosts"]) for r in rows), "of", sum(int(r["gone"]) for r in rows), "pictures without it"
    )  # type: ignore[call-overload]
    print("refused:", sorted({f"{r['take']} {r['how']}: {r['said']}" for r in rows if "said" in r}))


if __name__ == "__main__":
    main()
