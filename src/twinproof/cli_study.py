"""The command of the transfer study: which way of randomising brings a policy from the twin to reality."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tyro.conf import Positional

from twinproof.nouns.errors import ConfigError

if TYPE_CHECKING:
    from twinproof.fleet.spread import Where
    from twinproof.study import Row

JUDGED = 48  # episodes in the twin that a policy ends with: it is the panel's trials that count
SHAKEN = {"mix": 1.0, "spread": 0.2, "input_noise": 0.0, "updates": 1_500}  # how a script teaches (cli_train.py)
COLOURS = {"real": "#0f766e", "twin": "#94a3b8", "draws": "#cbd5e1", "nominal": "#e2e8f0"}


@dataclass(frozen=True)
class StudyTransfer:
    """Compare ways of randomising: nominal, hand-set wide, point identification, posterior; success in reality.

    examples:
      twinproof study transfer run --task reach --robot 'lab:pendulum?plant=0' --out study
      twinproof study transfer run --task reach --robot my_driver.py --seeds 5 --on pool:2 --out study
      twinproof study transfer run --task drawer --imitate 60000 --robot 'lab:drawer?tracker=mocap' --out study
      twinproof study transfer run --task reach --device cuda --train-only --out study

    RUN is a finished `twinproof run`: its twin, split, posterior and ranges are used. Policies that are trained already
    are not trained again. The holdout is opened once more, and the ledger says so.
    """

    run: Positional[Path]
    """The folder of a run."""
    out: Path
    """The study's folder: new, or an earlier one to go on with."""
    task: str = "reach"
    """What is learned."""
    robot: str = ""
    """Reality: 'lab:BENCH?plant=0', or a Python file whose robot() gives a driver."""
    variants: tuple[str, ...] = ("nominal", "wide", "point", "posterior")
    """What is compared."""
    seeds: int = 5
    """Policies of each variant."""
    steps: int = 400_000
    """Environment steps of each policy."""
    worlds: int = 256
    """Worlds that run at once."""
    algo: Literal["ppo", "dagger"] = "ppo"
    """How policies learn."""
    imitate: int = 0
    """Environment steps in which a first policy learns from the task's script, which drives, is shaken, and knows what
    its variant knows; PPO then corrects that policy. 0: PPO alone."""
    domains: tuple[str, ...] = ("real=10", "twin=10", "draws=10")
    """Worlds and trials of each policy in each condition."""
    workers: int = 1
    """Policies that are trained at once on this machine."""
    on: str = ""
    """Where policies are trained instead: pool:N, ray, ray://HOST:PORT, slurm (docs/scale.md)."""
    device: str = "cpu"
    """cpu, cuda or cuda:N."""
    train_only: bool = False
    """Stop when all policies are trained."""


def study_transfer(config: StudyTransfer) -> int:
    """`twinproof study transfer`."""
    from twinproof import study
    from twinproof.nouns.files import write_json, write_whole
    from twinproof.nouns.progress import bar
    from twinproof.nouns.strict import plain

    if not config.robot and not config.train_only:
        raise ConfigError("a transfer study needs a reality: give --robot, or --train-only to train alone.")
    training = {
        "task": config.task, "algo": config.algo, "worlds": config.worlds, "steps": config.steps,
        "device": config.device, "probe": False, "judged": JUDGED,
    }  # fmt: skip
    first = {**training, "algo": "dagger", "steps": config.imitate, "worlds": min(config.worlds, 64), **SHAKEN}
    if config.imitate:
        training |= {"algo": "residual", "share": 0.1}
    plan = study.Plan(config.run, training, config.variants, config.seeds, first if config.imitate else None)
    with bar("study") as progress:
        policies = study.trained(plan, config.out, _where(config), progress)
    if config.train_only:
        _say(f"{config.out}: {sum(map(len, policies.values()))} policies are trained")
        return 0
    panel = {"task": config.task, "domains": list(config.domains), "reality": config.robot}
    trials = study.examined(plan, policies, config.out, panel, config.robot)
    rows = study.table(plan, trials)
    told = study.verdict(rows)
    write_json(config.out / "transfer.json", {"format": study.FORMAT, "rows": plain(rows), "verdict": told})
    write_whole(config.out / "transfer.md", "\n".join([*_lines(rows), "", told, ""]).encode())
    _draw(rows, config.out / "transfer.png")
    for line in [*_lines(rows), told, f"figure: {config.out / 'transfer.png'}"]:
        _say(line)
    return 0


def _where(config: StudyTransfer) -> Where:
    from twinproof.fleet.place import place_of

    return place_of(config.on or (f"pool:{config.workers}" if config.workers > 1 else "here"), config.out)


def _lines(rows: Sequence[Row]) -> list[str]:
    domains = list(rows[0].success)
    lines = [f"| variant | seeds | {' | '.join(domains)} |", "|---|---|" + "---|" * len(domains)]
    for row in rows:
        cells = [
            f"{100 * mean:.0f} % ({100 * low:.0f}–{100 * high:.0f})"
            for mean, low, high in (row.success[domain] for domain in domains)
        ]
        lines.append(f"| {row.variant} | {row.seeds} | {' | '.join(cells)} |")
    return lines


def _draw(rows: Sequence[Row], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    domains = list(rows[0].success)
    figure, axes = plt.subplots(figsize=(1.6 + 1.5 * len(rows), 3.6), layout="constrained")
    width = 0.8 / len(domains)
    for k, domain in enumerate(domains):
        places = [i + (k - (len(domains) - 1) / 2) * width for i in range(len(rows))]
        found = [row.success[domain] for row in rows]
        means = [100 * mean for mean, _, _ in found]
        spread = [[100 * (mean - low) for mean, low, _ in found], [100 * (high - mean) for mean, _, high in found]]
        axes.bar(places, means, width, color=COLOURS.get(domain, "#64748b"), label=domain)
        axes.errorbar(places, means, spread, fmt="none", ecolor="#334155", elinewidth=1, capsize=2)
    axes.set_xticks(range(len(rows)), [row.variant for row in rows])
    axes.set_ylim(0, 105)
    axes.set_ylabel("success, %")
    axes.set_title(
        f"Policies by what their worlds were drawn from ({rows[0].seeds} seeds, 90 % over seeds)", fontsize=9
    )
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, ncols=len(domains), loc="upper left")
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _say(sentence: str) -> None:
    sys.stdout.write(f"{sentence}\n")
