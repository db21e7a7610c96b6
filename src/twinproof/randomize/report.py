"""What a person sees of a randomisation on the terminal."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from twinproof.nouns.posterior import Posterior
from twinproof.randomize.coverage import Coverage
from twinproof.randomize.residual import Residual


def randomization(found: Residual, posterior: Posterior, out: Path, console: Console | None = None) -> None:
    """The ranges by gap, what is unknown, whether they cover, and what was missed or widened."""
    console = console or Console(highlight=False, soft_wrap=True, width=160)
    made = found.randomization
    at = "" if made.strength == 1 else f" at strength {made.strength:g}"
    console.print(
        f"{out}: randomization {made.hash[:16]} of {len(made.ranges)} parameters{at}, {len(made.joint)} drawn jointly"
    )
    table = Table(box=None, pad_edge=False)
    for heading in ("gap", "parameter"):
        table.add_column(heading, no_wrap=True)
    table.add_column("point", justify="right", no_wrap=True)
    for heading in ("range", "unit", "source"):
        table.add_column(heading, no_wrap=True)
    for entry in sorted(made.ranges, key=lambda each: (each.gap, each.id)):
        span = f"{entry.low:.4g} … {entry.high:.4g}"
        table.add_row(entry.gap, entry.id, f"{entry.point:.4g}", span, entry.parameter.unit, entry.source.kind)
    console.print(table)
    console.print("why each is in doubt and what checks it stands in randomization.json")
    for id in posterior.unidentified:
        console.print(f"unidentified: {id} is as wide as before the recordings")
    for note in found.notes:
        console.print(f"note: {note}")
    if found.coverage is None:
        console.print(
            "not tested against validation: give --split and --twin, or nobody can claim that the ranges cover"
        )
    else:
        _coverage(found.coverage, console)


def _coverage(told: Coverage, console: Console) -> None:
    whole, judged = told.judged.whole, told.judged
    console.print(
        f"{told.half}: 90 % bands cover {whole.covered:.1%} (95 % interval {whole.low:.1%} to {whole.high:.1%}; the "
        f"parameters alone {judged.alone:.1%})"
    )
    if told.before is not None and told.widened:
        console.print(f"  before widening the same episodes were covered to {told.before.whole.covered:.1%}")
    for text in told.widened:
        console.print(f"widened: {text}")
    for text in judged.misses:
        console.print(f"missed: {text}")
    if not judged.misses:
        console.print("nothing is missed")
