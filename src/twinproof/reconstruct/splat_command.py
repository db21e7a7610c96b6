"""`twinproof splat fit`: from posed pictures to a scene on disk, with figures and pictures to look at.

OUT/scene.ply      the splats in the standard layout;  scene.spz  the same, small, for web viewers
OUT/fit.json       settings, views, figures of the held-out views, exposures and poses
OUT/fit.png        loss over steps, and held-out photographs beside what the scene shows
OUT/previews/      one held-out view as the fit went on
OUT/checkpoint.npz while it runs: the same command goes on from there
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from twinproof.nouns.errors import SplatError
from twinproof.nouns.files import read_json, write_json
from twinproof.nouns.hashing import content_hash
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.splat_files import write_ply, write_spz
from twinproof.nouns.views import Views
from twinproof.reconstruct.splat_fit import CHECKPOINT, Fitted, check, fit
from twinproof.reconstruct.splat_judge import Judged, drawn, exposure_for, grouped, held_out, judge, settled
from twinproof.reconstruct.splat_recipe import Recipe
from twinproof.sim.splat.render import Device

FORMAT = "twinproof/splat-fit/1"
ASKED = "asked.json"


@dataclass(frozen=True)
class Result:
    """What the command prints."""

    fitted: Fitted
    judged: tuple[Judged, ...]

    def figures(self) -> dict[str, float]:
        """Means over the held-out views; none without any."""
        if not self.judged:
            return {}
        names = ("psnr_db", "ssim", "flip")
        return {name: float(np.mean([getattr(each, name) for each in self.judged])) for name in names}


def run(
    views: Views,
    recipe: Recipe,
    out: Path,
    *,
    apart: Views | None = None,
    every: int = 8,
    seed: int = 0,
    device: str = "cpu",
    threads: int = 0,
    progress: Progress = quiet,
) -> Result:
    """Fits and writes. `apart` are views to judge on; without them every `every`-th view is held out."""
    import torch

    torch.set_num_threads(1)  # torch's part is small: its threads would only wait for ours
    train, test = (views, apart) if apart is not None else held_out(views, every)
    check(train)
    _claim(out, train, recipe, seed)
    watched = _watch(out, train, test)
    fitted = fit(train, recipe, seed, device=device, threads=threads, folder=out, progress=progress, look=watched)
    fitted = settled(fitted)
    where = Device("cpu", threads) if device == "cpu" else Device("cuda")
    judged = judge(fitted, train, test, where)
    result = Result(fitted, judged)
    splats = grouped(fitted.splats, train)
    write_ply(out / "scene.ply", splats)
    write_spz(out / "scene.spz", splats)
    _plot(out / "fit.png", result, test)
    write_json(out / "fit.json", _story(result, train, test, recipe, seed))
    for name in (CHECKPOINT, ASKED):
        (out / name).unlink(missing_ok=True)
    return result


def _claim(out: Path, train: Views, recipe: Recipe, seed: int) -> None:
    """Makes the folder this fit's own: a finished fit and a stopped one of other settings are not touched."""
    asked = {
        "format": FORMAT,
        "recipe": content_hash(_plain(recipe)),
        "views": content_hash([[view.name, *view.rgb.shape[:2]] for view in train.views]),
        "seed": seed,
    }
    if (out / "fit.json").exists():
        raise SplatError(f"{out} already holds a fitted scene. Name another folder, or remove it.")
    if (out / ASKED).exists() and read_json(out / ASKED, FORMAT, SplatError) != asked:
        raise SplatError(
            f"{out} holds a stopped fit with other settings or pictures. Use those, or name another folder."
        )
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / ASKED, asked)


def _plain(recipe: Recipe) -> dict[str, Any]:
    plain: dict[str, Any] = {**asdict(recipe), "sizes": [list(size) for size in recipe.sizes]}
    return plain


def _watch(out: Path, train: Views, test: Views) -> Any:
    """Writes a held-out view (or the first fitted one) as the scene shows it now."""
    view = (test.views or train.views)[0]
    names = [each.name for each in train.views]

    def look(step: int, fitted: Fitted) -> None:
        picture = drawn(fitted.splats, view, exposure_for(view.name, names, fitted.exposures))
        _picture(out / "previews" / f"step_{step:06d}.png", np.concatenate([view.rgb / 255, picture], axis=1))

    return look


def _picture(path: Path, rgb: np.ndarray) -> None:
    from matplotlib.image import imsave

    path.parent.mkdir(parents=True, exist_ok=True)
    imsave(path, np.clip(rgb, 0, 1))


def _story(result: Result, train: Views, test: Views, recipe: Recipe, seed: int) -> dict[str, Any]:
    fitted = result.fitted
    return {
        "format": FORMAT,
        "recipe": _plain(recipe),
        "seed": seed,
        "splats": len(fitted.splats),
        "steps": fitted.steps,
        "cpu_s": round(fitted.cpu_s, 1),
        "fitted": [view.name for view in train.views],
        "held_out": [{"name": j.name, "psnr_db": j.psnr_db, "ssim": j.ssim, "flip": j.flip} for j in result.judged],
        "figures": result.figures(),
        "exposure_of_held_out_views": "mean of the neighbours by name: the pictures themselves were not looked at",
        "exposures": fitted.exposures.tolist(),
        "T_world_camera": fitted.poses.tolist(),
        "notes": list(train.notes),
        "history": fitted.history,
    }


def _plot(path: Path, result: Result, test: Views) -> None:
    """The loss, and up to three held-out views: photograph, scene, difference."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    shown = list(zip(test.views, result.judged, strict=True))[:3]
    figure, axes = plt.subplots(1 + len(shown), 3, figsize=(11, 2.2 + 2.8 * len(shown)), squeeze=False)
    history = result.fitted.history
    steps = [row["step"] for row in history]
    for ax, key in zip(axes[0], ("loss", "splats", "cpu_s"), strict=True):
        ax.plot(steps, [row[key] for row in history])
        ax.set(xlabel="step", title={"cpu_s": "CPU seconds"}.get(key, key))
    for row, (view, judged) in zip(axes[1:], shown, strict=True):
        gap = np.abs(view.rgb.astype(int) - judged.drawn).mean(axis=2)
        titles = (view.name, f"scene: {judged.psnr_db:.1f} dB, SSIM {judged.ssim:.3f}, FLIP {judged.flip:.3f}")
        for ax, picture, title in zip(row, (view.rgb, judged.drawn, gap), (*titles, "difference"), strict=True):
            ax.imshow(picture, **({"cmap": "magma", "vmin": 0, "vmax": 80} if picture.ndim == 2 else {}))
            ax.set_title(title, fontsize=8)
            ax.axis("off")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
