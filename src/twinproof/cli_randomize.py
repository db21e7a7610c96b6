"""The commands of randomisation: the ranges that training draws from, and labelled pictures drawn from them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from twinproof import settings


@dataclass(frozen=True)
class Randomize:
    """Turn a Posterior into ranges to train on: only what stays uncertain, each with source, reason and check.

    examples:
      twinproof randomize posterior --twin twin --split split --out ranges
      twinproof randomize posterior --twin twin --split split --widen --plots plots --out ranges
      twinproof randomize posterior --twin twin --extra ranges.toml --strength 2 --out wide
      twinproof randomize posterior --twin twin --split split --rehearse 4 --out ranges
      twinproof randomize posterior --twin twin --split split --scenes 'practice/scene_{object}.xml' --out ranges

    Whether the ranges cover validation lies beside them, in coverage.json.
    """

    posterior: Positional[Path]
    """A Posterior folder."""
    out: Path
    """The new Randomization folder."""
    split: Path | None = None
    """The Split of the posterior: validation tests the ranges, calibration shows noise and starts."""
    twin: Path | None = None
    """The Twin of the posterior: its cameras, sizes and looks get ranges, and episodes are simulated in it."""
    scenes: str | None = None
    """Other scenes for other objects, by label: 'practice/scene_{object}.xml'."""
    share: float = 0.95
    """Share of the posterior that the ranges cover, all parameters together."""
    strength: float = 1.0
    """0: the point estimate, 1: the posterior, above: wider."""
    extra: Path | None = None
    """Stated ranges, TOML (docs/randomize.md)."""
    looks: bool = True
    """Declared ranges of light, colours and picture noise, where the twin has cameras."""
    widen: bool = False
    """Widen what misses, on one half of validation; the other half judges."""
    plots: Path | None = None
    """A new folder for pictures: ranges against posterior and prior, correlations, coverage."""
    seed: int = 0
    """Decides the draws and the halves."""
    rehearse: int = 0
    """Episodes of the randomised twin in which the streaming tracker follows each object: its error becomes a range.
    About 10 CPU-s each. Without, a twin of pictures has declared ranges of it."""


@dataclass(frozen=True)
class Synth:
    """Draw labelled pictures from a randomised twin: RGB, depth, masks, boxes, 6-D poses, in BOP and COCO layouts.

    examples:
      twinproof synth twin ranges --count 1000 --out pictures
      twinproof synth twin ranges --count 200 --cameras front left --width 640 --looks meshes --out pictures

    A killed run goes on where it was when it is started again with the same settings. On meshes, light and shadows are
    drawn anew; on splats they are baked. Exposure, colours, blur and noise are added to both.
    """

    twin: Positional[Path]
    """A Twin folder."""
    randomization: Positional[Path]
    """A Randomization folder of that twin."""
    count: int
    """How many pictures; the cameras take turns."""
    out: Path
    """The new folder: train/ and models/ as BOP has them, instances.json as COCO has it, synth.json."""
    cameras: tuple[str, ...] = ()
    """Cameras of the scene; all of the twin's by default."""
    width: int | None = None
    """Pixels across; by default each camera's own."""
    looks: Literal["auto", "meshes", "splats"] = "auto"
    """What is drawn; auto: splats where the twin has some."""
    seed: int = 0
    """Decides every draw."""


def randomize(config: Randomize) -> int:
    """`twinproof randomize`."""
    from twinproof.nouns.posterior import Posterior
    from twinproof.nouns.progress import bar
    from twinproof.randomize import command, report

    with bar("randomize") as progress:
        found = command.run(command.Asked(**vars(config)), progress)
    settings.save(settings.resolved(config, "randomize"), config.out)
    report.randomization(found, Posterior.load(config.posterior), config.out)
    return 0


def synth(config: Synth) -> int:
    """`twinproof synth`."""
    from rich.console import Console

    from twinproof.nouns.progress import bar
    from twinproof.randomize import synth as work

    with bar("synth") as progress:
        told = work.run(work.Asked(**vars(config)), progress)
    settings.save(settings.resolved(config, "synth"), config.out)
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"{config.out}: {told['count']} pictures of {', '.join(told['cameras'])}, drawn from {told['looks']}")
    if told["left_out"]:
        console.print(f"not drawn, as a label's model has one size: {', '.join(told['left_out'])}")
    return 0
