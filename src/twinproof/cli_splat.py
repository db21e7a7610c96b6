"""The splat commands: where their views come from, and what they print."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tyro.conf import Positional

from twinproof import settings
from twinproof.nouns.errors import ConfigError, MissingExtra

if TYPE_CHECKING:
    from twinproof.nouns.progress import Progress
    from twinproof.nouns.views import Views
    from twinproof.reconstruct.backdrop import Backdrop
    from twinproof.reconstruct.splat_recipe import Recipe

COLOURS = {
    "black": (0, 0, 0), "white": (255, 255, 255), "grey": (128, 128, 128), "green": (0, 255, 0), "blue": (0, 0, 255),
}  # fmt: skip


@dataclass(frozen=True)
class SplatFit:
    """Fit Gaussian splats to posed pictures, and judge them on views that were held out.

    examples:
      twinproof splat fit capture --out scene                    COLMAP model or transforms.json with its pictures
      twinproof splat fit photos --out scene                     plain pictures: poses by SfM first (extra sfm)
      twinproof splat fit split --out scene --every-s 0.5        a Recording or a Split (its calibration part)
      twinproof splat fit capture --out scene --splats 100000 --iterations 20000 --device cuda

    Stopped, the same command goes on. Writes scene.ply, scene.spz, fit.json, fit.png and previews.
    """

    source: Positional[Path]
    """A folder with a COLMAP model or a transforms.json, a Recording, a Split, or a folder of pictures."""
    out: Path
    """The scene's folder."""
    iterations: int = 3000
    """Steps, one picture each."""
    splats: int = 20_000
    """How many splats at most. More show finer detail, and want more iterations."""
    degree: Literal[0, 1, 2, 3] = 1
    """Of the colours' spherical harmonics: 0 looks the same from everywhere."""
    surfels: bool = False
    """Flat discs instead of volumes: better surfaces, somewhat less sharp pictures."""
    refine_poses: bool = False
    """Correct the cameras' poses too."""
    exposure: bool = True
    """Fit a gain and an offset of each picture's channels."""
    longest_px: int = 640
    """Larger pictures are shrunk to this, longest side."""
    hold_out_every: int = 8
    """Every so-manieth view is not fitted but judged; 0: none. A Split is judged on its validation part."""
    every_s: float | None = None
    """Of a Recording or Split: one picture every so many seconds. Default: all where the camera moves."""
    cameras: tuple[str, ...] = ()
    """Of a Recording or Split: only these cameras."""
    cpu_seconds: float | None = None
    """Stop by CPU time instead of steps; such a run is not repeatable to the last bit."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where to draw."""
    threads: int = 0
    """On the CPU; 0: all."""
    seed: int = 0
    """Of every random choice."""


@dataclass(frozen=True)
class SplatMesh:
    """Make a closed mesh with a texture of one object from posed pictures of it, and judge it on pictures held out.

    examples:
      twinproof splat mesh capture --out object                      masks/ beside the pictures, or transparent ones
      twinproof splat mesh capture --group mug --out object          masks of several things: masks/groups.txt
      twinproof splat mesh capture --backdrop black --out object     a plain backdrop: a colour, R,G,B, or border
      twinproof splat mesh photos --backdrop border --out object     plain pictures: poses by SfM first (extra sfm)
      twinproof splat mesh capture --backdrop white --by colours --out object     hollows too, in minutes

    Writes object.glb, object.ply, mesh.json and mesh.png.
    """

    source: Positional[Path]
    """A folder with a COLMAP model or a transforms.json, or a folder of pictures."""
    out: Path
    """The new folder."""
    backdrop: str = ""
    """The backdrop's colour: black, white, grey, green, blue, R,G,B (0 to 255), or border for what a picture's border
    shows. Default: the object is cut out by masks."""
    tolerance: float = 0.12
    """How far from the backdrop's colour the object begins, of the full scale."""
    group: str = ""
    """Which group of masks/groups.txt is the object."""
    by: Literal["outlines", "colours"] = "outlines"
    """The hull of the outlines, or also what colours show: hollows, where there is texture (extra learn, minutes)."""
    across: int = 160
    """Voxels along the longest side."""
    faces: int = 8000
    """Faces of the mesh."""
    wrong_share: float = 0.0
    """Share of the pictures whose masks may be wrong at a place."""
    stands_on: tuple[float, float, float, float] | None = None
    """The plane under an object that was not seen from below: its normal (x y z, length 1) and n · x."""
    texture_px: int = 1024
    """Side of the texture."""
    longest_px: int = 640
    """Larger pictures are shrunk to this, longest side."""
    hold_out_every: int = 8
    """Every so-manieth picture is not used but judged; 0: none."""


@dataclass(frozen=True)
class SplatConvert:
    """Write splats in another format: standard PLY, or SPZ for web viewers.

    examples:
      twinproof splat convert scene.ply --out scene.spz
    """

    source: Positional[Path]
    """A PLY file in the standard 3DGS layout."""
    out: Path
    """The new file; its ending says the format: .ply or .spz."""


def fit(config: SplatFit) -> int:
    """`twinproof splat fit`."""
    try:
        import torch as _  # noqa: F401
    except ImportError:
        raise MissingExtra("splats are fitted with torch. Run: pip install 'twinproof[learn]'.") from None
    from twinproof.ingest import report
    from twinproof.nouns.progress import bar
    from twinproof.reconstruct.splat_command import run

    started = datetime.now(UTC)
    with bar("views") as progress:
        views, apart = _views(config, progress)
    for note in views.notes:
        report.say(f"note: {note}")
    report.say(f"{config.source}: {len(views)} views, {len(views.points)} points to start from")
    try:
        with bar("fit") as progress:
            result = run(
                views, _recipe(config), config.out, apart=apart, every=config.hold_out_every, seed=config.seed,
                device=config.device, threads=config.threads, progress=progress,
            )  # fmt: skip
    except KeyboardInterrupt:
        sys.stderr.write(f"stopped: the same command goes on from the last checkpoint in {config.out}\n")
        return 130
    settings.save(settings.resolved(config, "splat fit"), config.out)
    _log(config, started)
    figures = result.figures()
    held = "no view was held out" if not figures else (
        f"{len(result.judged)} held-out views: PSNR {figures['psnr_db']:.2f} dB, SSIM {figures['ssim']:.3f}, "
        f"FLIP {figures['flip']:.3f} (lower is nearer)"
    )  # fmt: skip
    fitted = result.fitted
    report.say(
        f"{config.out}: {len(fitted.splats)} splats after {fitted.steps} steps, {fitted.cpu_s:.0f} CPU-s. {held}"
    )
    return 0


def _log(config: SplatFit, started: datetime) -> None:
    """Writes the fit into the ledger of the Split it was made from."""
    from twinproof.nouns.hashing import hash_file
    from twinproof.nouns.split import Split

    if (config.source / "split.json").is_file():
        split = Split.load(config.source)
        made = hash_file(config.out / "scene.ply")
        split.log_fit("splat fit", made, split.ids("calibration"), started, datetime.now(UTC))


def _recipe(config: SplatFit) -> Recipe:
    from twinproof.reconstruct.splat_recipe import Recipe

    base = Recipe(
        iterations=config.iterations, cpu_seconds=config.cpu_seconds, degree=config.degree, exposure=config.exposure,
        poses=config.refine_poses, flat=config.surfels, normal_weight=0.05 if config.surfels else 0.0,
    )  # fmt: skip
    return replace(base, growth=replace(base.growth, most=config.splats))


def _views(config: SplatFit, progress: Progress) -> tuple[Views, Views | None]:
    """What is fitted, and what it is judged on where the source says so."""
    from twinproof.nouns.recording import Recording
    from twinproof.nouns.split import Split
    from twinproof.reconstruct.views_of import views_of

    source = config.source
    if (source / "split.json").is_file():
        calibration, validation, _ = Split.load(source).parts()
        names = config.cameras or None
        return views_of(calibration, config.every_s, names), views_of(validation.recording, config.every_s, names)
    if (source / "recording.json").is_file():
        return views_of(Recording.load(source), config.every_s, config.cameras or None), None
    return _posed(source, config.out, config.longest_px, progress), None


def _posed(source: Path, out: Path, longest_px: int, progress: Progress) -> Views:
    """The views of a folder of pictures, whose poses are found first where it has none."""
    from twinproof.ingest.posed_read import is_posed
    from twinproof.ingest.posed_views import posed_views

    if not source.is_dir():
        raise ConfigError(f"{source} is no folder. Name one with posed pictures, a Recording, a Split, or pictures.")
    if not is_posed(source):
        from twinproof.reconstruct.sfm import structure_from_motion

        model = out.with_name(out.name + "_sfm")
        if not is_posed(model):
            structure_from_motion(source, model, progress)
        source = model
    return posed_views(source, longest_px, progress)


def mesh(config: SplatMesh) -> int:
    """`twinproof splat mesh`."""
    from twinproof.ingest import report
    from twinproof.nouns.progress import bar
    from twinproof.reconstruct.backdrop import cut_out
    from twinproof.reconstruct.mesh_command import Meshing, write
    from twinproof.reconstruct.shape import ShapeRecipe
    from twinproof.sim.grid import Plane

    recipe = ShapeRecipe(across=config.across, faces=config.faces, wrong_share=config.wrong_share)
    support = None if config.stands_on is None else Plane(config.stands_on[:3], config.stands_on[3])
    how = Meshing(config.by, recipe, support, config.texture_px, config.hold_out_every)
    backdrop = _backdrop(config.backdrop, config.tolerance)
    with bar("views") as progress:
        views = cut_out(_posed(config.source, config.out, config.longest_px, progress), backdrop, config.group)
    with bar("mesh") as progress:
        made = write(views, how, config.out, progress)
    settings.save(settings.resolved(config, "splat mesh"), config.out)
    for note in (*views.notes, *made.shape.notes):
        report.say(f"note: {note}")
    for each in (*made.shape.declared, *made.painted.declared):
        report.say(f"assumed: {each}")
    agree = sorted(made.agreement.values())
    judged = "no picture was held out" if not agree else (
        f"outlines in {len(agree)} held-out pictures agree to {sum(agree) / len(agree):.1%} (worst {agree[0]:.1%})"
    )  # fmt: skip
    report.say(
        f"{config.out}: closed mesh of {len(made.shape.mesh.faces)} faces from {made.used} pictures, {judged}. "
        "Lengths are in the unit of the poses"
    )
    return 0


def _backdrop(text: str, tolerance: float) -> Backdrop | None:
    from twinproof.reconstruct.backdrop import Backdrop

    match text:
        case "":
            return None
        case "border":
            return Backdrop(None, tolerance)
        case name if name in COLOURS:
            return Backdrop(COLOURS[name], tolerance)
    try:
        red, green, blue = (int(word) for word in text.split(","))
    except ValueError:
        raise ConfigError(f"--backdrop {text!r} is no colour. Use {', '.join(COLOURS)}, border or R,G,B.") from None
    return Backdrop((red, green, blue), tolerance)


def convert(config: SplatConvert) -> int:
    """`twinproof splat convert`."""
    from twinproof.ingest import report
    from twinproof.nouns.splat_files import read_ply, write_ply, write_spz

    if config.out.exists():
        raise ConfigError(f"{config.out} exists. Nothing is overwritten: name another file, or remove it.")
    splats = read_ply(config.source)
    match config.out.suffix:
        case ".ply":
            write_ply(config.out, splats)
        case ".spz":
            write_spz(config.out, splats)
        case other:
            raise ConfigError(
                f"{config.out}: the ending {other!r} is neither .ply nor .spz. Name a file with one of them."
            )
    report.say(f"{config.out}: {len(splats)} splats, {config.out.stat().st_size / 1e6:.1f} MB")
    return 0
