"""The page of a transfer study: its table, who beats whom and why, the ranks, and one figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from twinproof.nouns.files import write_json, write_whole
from twinproof.nouns.hashing import Json
from twinproof.nouns.policy import Policy
from twinproof.nouns.strict import plain
from twinproof.nouns.twin import Twin
from twinproof.study_plan import Plan, said
from twinproof.study_table import (
    OWN,
    Row,
    gap_lines,
    lines,
    ranks,
    reasons,
    relative_width,
    summary_of,
    table,
    verdicts,
)

FORMAT = "twinproof/transfer/3"
COLOURS = {"real": "#0f766e", "twin": "#94a3b8", "draws": "#cbd5e1", "nominal": "#e2e8f0", OWN: "#f1f5f9"}


def write_page(
    plan: Plan, policies: Mapping[str, Sequence[Path]], trials: Path, out: Path, panel: Mapping[str, Json]
) -> list[str]:
    """Writes transfer.json, transfer.md and transfer.png; gives the lines of the page. All policies sat `panel`."""
    rows, summary = table(plan, trials, _own(policies)), summary_of(trials)
    judged, why = verdicts(rows), reasons(rows, relative_width(plan))
    told = [
        {"variant": row.variant, "said": said(row.variant), "rates": row.rates, "success": row.success} for row in rows
    ]
    write_json(
        out / "transfer.json",
        {
            "format": FORMAT,
            "rows": plain(told),
            "verdict": " ".join(judged),
            "reasons": list(why),
            "agreement": plain(summary.get("agreement")),
            "training": plain(plan.training),
            "imitation": plain(plan.imitation),
            "panel": dict(panel),
            "twin": Twin.load(plan.run / "twin").hash,
        },
    )
    page = [*lines(rows), "", *judged, *why]
    for more in (gap_lines(rows), ranks(summary)):
        page += ["", *more] if more else []
    write_whole(out / "transfer.md", "\n".join([*page, ""]).encode())
    draw(rows, out / "transfer.png")
    return page


def _own(policies: Mapping[str, Sequence[Path]]) -> dict[str, list[float]]:
    """Variant -> seed -> success in worlds as it was trained in, which every policy was judged in at its end."""
    found: dict[str, list[float]] = {}
    for name, folders in policies.items():
        told = [Policy.load(folder).training for folder in folders]
        found[name] = [float(each["judged_successes"]) / float(each["judged_episodes"]) for each in told]
    return found


def draw(rows: Sequence[Row], path: Path) -> None:
    """The figure: success of every variant in each domain, with intervals over its units."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    domains = list(rows[0].rates)
    figure, axes = plt.subplots(figsize=(1.6 + 1.5 * len(rows), 3.6), layout="constrained")
    width = 0.8 / len(domains)
    for k, domain in enumerate(domains):
        places = [i + (k - (len(domains) - 1) / 2) * width for i in range(len(rows))]
        found = [row.success[domain] for row in rows]
        means = [100 * mean for mean, _, _ in found]
        spread = [[100 * (mean - low) for mean, low, _ in found], [100 * (high - mean) for mean, _, high in found]]
        axes.bar(places, means, width, color=COLOURS.get(domain, "#64748b"), label=domain)
        axes.errorbar(places, means, spread, fmt="none", ecolor="#334155", elinewidth=1, capsize=2)
    axes.set_xticks(range(len(rows)), [row.variant.replace("_", "\n") for row in rows])
    axes.set_ylim(0, 105)
    axes.set_ylabel("success, %")
    axes.set_title(
        f"Policies by what their worlds were drawn from ({rows[0].units} {rows[0].unit}s, 90 % over them)", fontsize=9
    )
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, fontsize=8, ncols=len(domains), loc="outside lower center")
    figure.savefig(path, dpi=130)
    plt.close(figure)
