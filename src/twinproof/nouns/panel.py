"""A panel: the examination that every policy sits, fixed and hashed before the first trial.

panel.json   task contract, conditions, domains, metrics with unit and direction, failure labels, trial counts
task/        the file or the motion of a task of the user's own
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from twinproof.nouns.artifact import Artifact
from twinproof.nouns.errors import PanelError
from twinproof.nouns.failure import LABELS
from twinproof.nouns.frozen import Frozen, settle
from twinproof.nouns.hashing import content_hash
from twinproof.nouns.ledger import LedgerHead
from twinproof.nouns.policy import Contract
from twinproof.nouns.trial import Trial

ClaimName = Literal["the twin fits", "the ranges cover", "the policy transfers"]
CLAIMS: tuple[ClaimName, ...] = ("the twin fits", "the ranges cover", "the policy transfers")


@dataclass(frozen=True)
class Task:
    """What is asked of a policy: its contract, when it has succeeded, when it has failed, and how long it may take."""

    name: str
    contract: Contract
    success: str  # in words and numbers: "cube within 2 cm of the goal for 0.5 s"
    failure: str
    horizon_s: float

    def __post_init__(self) -> None:
        if not (self.name.strip() and self.success.strip() and self.failure.strip()):
            raise PanelError(f"the task {self.name!r} needs a name, and says when it has succeeded and when failed.")
        if not 0 < self.horizon_s < np.inf:
            raise PanelError(f"the task {self.name!r} has a horizon of {self.horizon_s} s; it is above zero.")


@dataclass(frozen=True)
class Condition:
    """One situation: a holdout episode by its id (what is in it is read only at the opening), and a seed."""

    name: str
    episode: str
    seed: int
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        settle(self, labels=Frozen(self.labels))


@dataclass(frozen=True)
class Domain:
    """A world that trials run in: reality, the twin at its point, the twin under posterior draws, the nominal twin."""

    name: str
    kind: Literal["real", "twin", "draws", "nominal", "rebuilt"]
    trials: int  # for each policy in each condition
    description: str = ""  # "lab bench 'handover', simulated"


@dataclass(frozen=True)
class Metric:
    """A number computed from a trace, real or simulated, by one function."""

    name: str
    unit: str
    better: Literal["lower", "higher"]


@dataclass(frozen=True)
class Criterion:
    """What decides a claim, stated before the first trial: the number, its direction and its threshold."""

    claim: ClaimName
    number: str
    better: Literal["lower", "higher"]
    threshold: float


@dataclass(frozen=True)
class Cell:
    """One trial that has to be run. All policies and domains share a condition's seeds, so that trials pair up."""

    policy: str
    condition: Condition
    domain: Domain
    repeat: int
    seed: int


@dataclass(frozen=True, eq=False)
class Panel(Artifact):
    """Task, conditions, domains, metrics, labels. Names are unique; every condition names its holdout episode."""

    NAME: ClassVar = "panel"
    ERROR: ClassVar = PanelError

    task: Task
    conditions: tuple[Condition, ...]
    domains: tuple[Domain, ...]
    metrics: tuple[Metric, ...]
    parents: Mapping[str, str]  # "split" -> hash
    criteria: tuple[Criterion, ...] = ()
    failure_labels: tuple[str, ...] = LABELS
    order_seed: int = 0  # trials are run in an order that this shuffles
    ledger: LedgerHead | None = None
    task_files: Mapping[str, str] | None = None  # of the user's own: file below task/ -> its hash, the main one first

    def __post_init__(self) -> None:
        for what in ("conditions", "domains", "metrics"):
            names = [entry.name for entry in getattr(self, what)]
            if not names or "" in names or len(set(names)) != len(names):
                raise PanelError(f"a panel needs {what}, each with its own name; found {', '.join(names) or 'none'}.")
        for condition in self.conditions:
            if not condition.episode or condition.seed < 0:
                raise PanelError(f"condition {condition.name!r} needs the id of a holdout episode, and a seed from 0.")
        for domain in self.domains:
            if domain.trials < 1:
                raise PanelError(f"domain {domain.name!r} has {domain.trials} trials a cell; it needs at least one.")
        unknown = [label for label in self.failure_labels if label not in LABELS]
        if unknown or "undecided" not in self.failure_labels:
            raise PanelError(
                f"the failure labels {', '.join(self.failure_labels) or 'none'} must be from {', '.join(LABELS)}, and "
                "'undecided' among them, for traces that do not tell."
            )
        decided = [criterion.claim for criterion in self.criteria]
        if len(set(decided)) != len(decided):
            raise PanelError("a claim has two criteria. One number decides it: keep one.")
        settle(self, parents=Frozen(self.parents))
        if self.task_files is not None:
            settle(self, task_files=Frozen(self.task_files))

    def check_holdout(self, holdout: Collection[str]) -> None:
        """Every condition's episode is in the holdout."""
        for condition in self.conditions:
            if condition.episode not in holdout:
                raise PanelError(
                    f"condition {condition.name!r} names the episode {condition.episode}, which is not in the holdout. "
                    "A panel examines on what no fit has seen: name a holdout episode."
                )

    def cells(self, policies: Iterable[str]) -> Iterator[Cell]:
        """Every trial that has to be run for these policies."""
        for policy in policies:
            for condition in self.conditions:
                for domain in self.domains:
                    for repeat in range(domain.trials):
                        yield Cell(policy, condition, domain, repeat, trial_seed(condition, repeat))

    def check_trials(self, trials: Collection[Trial]) -> None:
        """Every policy met every condition in every domain, as often as stated, with the panel's seeds and metrics."""
        wanted = {(c.policy, c.condition.name, c.domain.name, c.repeat): c.seed for c in self._cells_of(trials)}
        metrics = {metric.name for metric in self.metrics}
        for trial in trials:
            seed = wanted.pop((trial.policy, trial.condition, trial.domain, trial.repeat), None)
            if seed is None:
                raise PanelError(f"{trial.where} is not in the panel, or stands twice. Run what the panel states.")
            if seed != trial.seed:
                raise PanelError(f"{trial.where} ran with seed {trial.seed}, the panel states {seed}. Run it again.")
            if not set(trial.metrics) <= metrics:
                raise PanelError(
                    f"{trial.where} has metrics that the panel does not: {sorted(set(trial.metrics) - metrics)}."
                )
            if trial.failure is not None and trial.failure.label not in self.failure_labels:
                raise PanelError(f"{trial.where} is labelled {trial.failure.label!r}, which the panel does not use.")
        if wanted:
            policy, condition, domain, repeat = next(iter(wanted))
            raise PanelError(
                f"{len(wanted)} trials are missing, the first is {repeat} of policy {policy!r} in condition "
                f"{condition!r}, domain {domain!r}. Nothing may be left out: run them."
            )

    def _cells_of(self, trials: Iterable[Trial]) -> Iterator[Cell]:
        return self.cells(dict.fromkeys(trial.policy for trial in trials))


def trial_seed(condition: Condition, repeat: int) -> int:
    """The seed of the n-th trial in a condition, the same for every policy and domain."""
    return int(content_hash([condition.name, condition.seed, repeat])[:15], 16)
