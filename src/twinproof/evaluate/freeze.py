"""A panel is made: what is asked, on which holdout episodes, how often, in which worlds, and what would decide.

Holdout episodes are named by id; nothing in them is read. The split's ledger gets a line, so that anyone can see that
the panel stood before the holdout was opened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from twinproof.evaluate.tally import METRICS as OF_POLICY
from twinproof.nouns.errors import ConfigError, PanelError
from twinproof.nouns.panel import Condition, Criterion, Domain, Metric, Panel, Task
from twinproof.nouns.randomness import stream
from twinproof.nouns.split import Split

LINE = "panel"  # the kind of the ledger's line
ROBOT = "robot"  # of the one that says where real trials come from
METRICS = (
    Metric("time_s", "s", "lower"),  # until it succeeded, failed, or had no time left
    Metric("final_error", "1", "lower"),  # what was left to do at the end, in the task's own unit
    Metric("replay_rmse", "1", "lower"),  # logged actions of the condition's episode in the same world, joints
    Metric("replay_tip_m", "m", "lower"),  # the same, end effector
    Metric("apart_rmse", "1", "lower"),  # joints, against the real trial with the same seed
    *OF_POLICY,  # how long it thinks, which limits it meets
)
# The numbers that decide the three claims, as evidence reads them.
FITS = "replay_rmse in {domain}, upper bound"  # mean over conditions
COVERS = "coverage on validation"
TRANSFERS = "success in {domain}, lower bound"  # of the first policy, exact, 95 %


@dataclass(frozen=True)
class Design:
    """What a panel fixes beside its task. Thresholds decide the three claims, and are stated before any trial."""

    domains: tuple[Domain, ...]
    conditions: int | None = None  # that many holdout episodes, drawn; None is all
    only: Mapping[str, str] = field(default_factory=dict)  # episodes with these values of the split's grouping keys
    fits_below: float = 0.05
    covers_above: float = 0.8
    transfers_above: float = 0.5
    seed: int = 0


def freeze(task: Task, split: Split, how: Design, task_files: Mapping[str, str] | None = None) -> Panel:
    """The panel of a task on a split's holdout, with its line in the ledger; of a user's own task, with its files."""
    panel = Panel(
        task,
        _conditions(split, how),
        how.domains,
        METRICS,
        {"split": split.hash},
        (
            Criterion("the twin fits", FITS.format(domain=_named(how, "twin")), "lower", how.fits_below),
            Criterion("the ranges cover", COVERS, "higher", how.covers_above),
            Criterion(
                "the policy transfers", TRANSFERS.format(domain=_named(how, "real")), "higher", how.transfers_above
            ),
        ),
        order_seed=how.seed,
        ledger=split.ledger.head(),
        task_files=task_files,
    )
    panel.check_holdout(split.holdout)
    split.ledger.append(LINE, {"panel": panel.hash, "task": task.name, "conditions": len(panel.conditions)})
    return panel


def check_frozen(panel: Panel, split: Split) -> None:
    """The panel was frozen on this split: the ledger has its line."""
    lines = split.ledger.lines()
    if not any(line.kind == LINE and line.fields.get("panel") == panel.hash for line in lines):
        raise PanelError(
            f"the panel {panel.hash[:16]} has no line in the ledger of the split {split.hash[:16]}: it was not frozen "
            "on it. Make it again with `twinproof panel`."
        )


def check_same_robot(panel: Panel, split: Split, real: str, change: str | None) -> None:
    """Real trials of an attempt come from one robot: another driver, or other logged trials, need a stated change."""
    lines = split.ledger.lines()
    opened = next((line for line in reversed(lines) if line.kind == "opened"), None)
    if not real or opened is None or change not in (None, opened.fields["change"]):
        return
    stated = [line.fields for line in lines if line.kind == ROBOT and line.n > opened.n]
    other = next((each for each in stated if each["panel"] == panel.hash and each["robot"] != real), None)
    if other is not None:
        raise PanelError(
            f"attempt {opened.fields['attempt']} was begun on the robot {str(other['robot'])[:16]}, and this is "
            f"{real[:16]}: its driver, or the logged trials, changed. Restore it, or say what changed with --change, "
            "and it becomes another attempt."
        )


def state_robot(panel: Panel, split: Split, real: str) -> None:
    """Writes into the ledger where the real trials of the open attempt come from, once."""
    lines = split.ledger.lines()
    opened = max(line.n for line in lines if line.kind == "opened")
    fields = {"panel": panel.hash, "robot": real}
    if real and not any(line.kind == ROBOT and line.n > opened and dict(line.fields) == fields for line in lines):
        split.ledger.append(ROBOT, fields)


def domains_of(texts: Sequence[str], reality: str = "") -> tuple[Domain, ...]:
    """Domains from texts such as 'real=4' or 'draws=20': their kind, and trials a policy and condition."""
    found = []
    for text in texts:
        kind, sign, count = text.partition("=")
        if kind not in ("real", "twin", "draws", "nominal", "rebuilt") or not sign or not count.isdigit():
            raise ConfigError(
                f"the domain {text!r} cannot be read. Write KIND=TRIALS, with real, twin, draws, nominal or rebuilt: "
                "'draws=20'."
            )
        found.append(Domain(kind, kind, int(count), reality if kind == "real" else ""))  # type: ignore[arg-type]
    return tuple(found)


def _named(how: Design, kind: str) -> str:
    """The panel's name of the first domain of a kind; the kind itself where it has none."""
    return next((domain.name for domain in how.domains if domain.kind == kind), kind)


def _conditions(split: Split, how: Design) -> tuple[Condition, ...]:
    unknown = sorted(set(how.only) - set(split.keys))
    if unknown:
        raise ConfigError(
            f"episodes are to be chosen by {', '.join(unknown)}; the split knows {', '.join(split.keys) or 'no label'} "
            "of its sealed episodes. Choose by those, or group the split by it."
        )
    fits = [id for id in split.holdout if all(split.labels[id].get(k) == v for k, v in how.only.items())]
    wanted = len(fits) if how.conditions is None else how.conditions
    if not 1 <= wanted <= len(fits):
        raise PanelError(
            f"{wanted} conditions were asked for, and {len(fits)} holdout episodes fit. Ask for fewer, or hold out "
            "more."
        )
    rng = stream(how.seed, "panel", "conditions")
    chosen = sorted(fits[k] for k in rng.choice(len(fits), wanted, replace=False))
    seeds = stream(how.seed, "panel", "seeds").integers(0, 2**31, wanted)
    named = enumerate(zip(chosen, seeds, strict=True), 1)
    return tuple(Condition(f"h{k:02d}", id, int(seed), split.labels[id]) for k, (id, seed) in named)
