"""The command of exports: a twin in the formats that other tools read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from twinproof import settings


@dataclass(frozen=True)
class Export:
    """Write a Twin for other tools: MJCF, URDF, USDZ with splats, GLB, PLY, SPZ; and say what each cannot hold.

    examples:
      twinproof export twin --to mjcf,urdf,usdz,glb,ply,spz --out exported
      twinproof export twin --to usdz --out for_isaac        needs the extra usd
      twinproof export twin --to spz --out for_the_web
    """

    twin: Positional[Path]
    """A Twin folder."""
    to: tuple[str, ...]
    """Formats, apart by commas or spaces: mjcf, urdf, usdz, glb, ply, spz."""
    out: Path
    """The new folder. export.json in it has hashes and losses, LOST.md the losses in words."""


def export(config: Export) -> int:
    """`twinproof export`."""
    from rich.console import Console
    from rich.markup import escape

    from twinproof.export.write import asked
    from twinproof.export.write import export as write
    from twinproof.nouns.progress import bar
    from twinproof.nouns.twin import Twin

    asked(config.to)  # a typing error is told before the twin is read
    twin = Twin.load(config.twin)
    with bar("export") as progress:
        done = write(twin, config.to, config.out, progress)
    settings.save(settings.resolved(config, "export"), config.out)
    screen = Console()
    for name, files in done.files.items():
        size = sum((config.out / file).stat().st_size for file in files) / 1e6
        first = next((file for file in files if file.endswith(("scene.xml", ".urdf"))), files[0])
        line = f"{config.out / first}: {size:.1f} MB in all; {len(done.written[name].lost)} things left out"
        screen.print(escape(line), highlight=False, soft_wrap=True)
        for line in done.written[name].checked:
            screen.print(escape(f"  {line}"), highlight=False, soft_wrap=True)
    screen.print(escape(f"what each format leaves out: {config.out / 'LOST.md'}"), highlight=False, soft_wrap=True)
    return 0
