"""What a person sees of a policy check on the terminal."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from twinproof.policies.check import Checked


def checked(found: Checked, out: Path, console: Console | None = None) -> None:
    """Predicted against logged, how fast the answers came, and what looks wrong."""
    console = console or Console(highlight=False, soft_wrap=True, width=140)
    asked = (
        f"{len(found.asked)} questions over {found.time_s[-1] - found.time_s[0]:.1f} s at {found.contract.rate_hz:g} Hz"
    )
    console.print(f"{out}: episode {found.episode[:16]}, {asked}, chunks of {found.contract.chunk}")
    console.print(f"  {'; '.join(found.sources)}")
    table = Table(box=None, pad_edge=False)
    table.add_column("action", no_wrap=True)
    for heading in ("RMSE", "of range", "bias", "worst", "holding still", "correlation", "beyond"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("unit", no_wrap=True)
    for each in found.agreement:
        correlation = "-" if each.correlation is None else f"{each.correlation:.2f}"
        numbers = (each.rmse, each.bias, each.worst, each.hold_rmse)
        rmse, bias, worst, hold = (f"{number:.3g}" for number in numbers)
        row = (rmse, f"{each.share:.1%}", bias, worst, hold, correlation, str(each.beyond_limits))
        table.add_row(each.action, *row, each.unit)
    if found.agreement:
        console.print(table)
    if found.timing is not None:
        t = found.timing
        times = ", ".join(f"{name} {value * 1e3:.3g} ms" for name, value in
                          (("p50", t.p50_s), ("p95", t.p95_s), ("p99", t.p99_s), ("worst", t.worst_s)))  # fmt: skip
        console.print(f"latency of {t.count} answers: {times}")
    for sentence in found.problems:
        console.print(f"look: {sentence}")
    if found.failed:
        console.print(f"failed: {found.failed}")
    elif not found.problems:
        console.print("nothing looks wrong. What it would do is in check.png.")
