"""What a person sees of a posterior on the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from twinproof.identify import recheck
from twinproof.identify.laws import Tried
from twinproof.nouns.belief import weighted_quantile
from twinproof.nouns.errors import PosteriorError
from twinproof.nouns.posterior import Posterior
from twinproof.nouns.strict import build


def posterior(found: Posterior, out: Path, console: Console | None = None) -> None:
    """The parameters with their intervals, what is not determined, how the bands cover, and what looked wrong."""
    console = console or Console(highlight=False, soft_wrap=True, width=140)
    console.print(f"{out}: posterior {found.hash[:16]} by {found.method}, {len(found.episodes)} calibration episodes")
    table = Table(box=None, pad_edge=False)
    table.add_column("parameter", no_wrap=True)
    table.add_column("mean", justify="right", no_wrap=True)
    for heading in ("90 % interval", "prior", "unit"):
        table.add_column(heading, no_wrap=True)
    for info in found.parameters:
        low, high = found.interval(info.id)
        span = f"{low:.4g} … {high:.4g}"
        if info.id in found.unidentified:
            span += "  unidentified"
        table.add_row(info.id, f"{found.mean(info.id):.4g}", span, f"{info.low:.3g} … {info.high:.3g}", info.unit)
    console.print(table)
    if found.population is not None:
        family = found.population
        console.print(f"family {family.family}: {len(family.instances)} measured; a new one:")
        for k, id in enumerate(family.parameters):
            low, high = (weighted_quantile(family.predictive[:, k], found.weights, share) for share in (0.05, 0.95))
            console.print(f"  {id}: {low:.4g} … {high:.4g} (90 %)")
    for sentence in found.weak_directions:
        console.print(f"weak: {sentence}")
    diagnostics: Any = found.diagnostics
    for sentence in diagnostics.get("at_bounds", []):
        console.print(f"bound: {sentence}")
    for sentence in diagnostics.get("warnings", []):
        console.print(f"look: {sentence}")
    coloured = [name for name, told in diagnostics.get("whiteness", {}).items() if not told["white"]]
    if coloured:
        console.print(f"residuals are not white in {', '.join(coloured)}: the model misses something there")
    for told in diagnostics.get("drive", ()):
        console.print(f"tried {build(Tried, told, 'drive', PosteriorError)}")
    if "drive" in diagnostics:
        console.print(
            "drive: none was adopted; the twin is moved by its parameters alone"
            if found.drive is None
            else f"drive: {found.drive.told}. randomize, train, evaluate and view move the twin by it; excite and "
            "export do not"
        )
    checked = diagnostics.get("validation")
    if checked:
        before = diagnostics.get("validation_without_drive")
        told = "" if not before else f"; without the drive, which validation chose: {before['covered']:.1%}"
        console.print(
            f"validation: 90 % bands cover {checked['covered']:.1%} of {len(checked['episodes'])} episodes that "
            f"nothing was fitted to (the spread of the parameters alone: {checked['covered_by_parameters_alone']:.1%}"
            f"{told})"
        )
    ranked = diagnostics.get("calibration_check")
    if ranked:
        console.print(recheck.sentence(ranked))
    cost = diagnostics.get("cost", {})
    if cost:
        console.print(f"{cost['windows_rolled']} windows rolled, {cost['cpu_s']} CPU-seconds, {cost['wall_s']} s")
