"""What `twinproof train` does: every seed learns, is judged, and is written with its curve.

OUT/policy.json, weights.safetensors     the Policy; with several seeds OUT/seed0/…, OUT/seed1/…
OUT/metrics.jsonl, curve.png             how it came about; also policy.onnx, tensorboard/
.OUT.training/seedK/                     while it runs: metrics and checkpoints (checkpoint.py)
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from twinproof.nouns.actor import Actor
from twinproof.nouns.errors import StoreError
from twinproof.nouns.files import new_folder
from twinproof.nouns.hashing import Json
from twinproof.nouns.policy import Contract, Policy
from twinproof.nouns.progress import Progress, quiet
from twinproof.policies.load import actor_of
from twinproof.tasks.arena import Arena
from twinproof.tasks.feasible import feasible
from twinproof.train.checkpoint import Run
from twinproof.train.curve import draw_curve
from twinproof.train.ground import Asked, Ground
from twinproof.train.judge import Judged, judge
from twinproof.train.loop import Budget, Outcome, Watch, train
from twinproof.train.onnx_export import export_onnx
from twinproof.train.stages import StagedLearner
from twinproof.train.torch_extra import check_device, quiet_torch
from twinproof.train.vec_env import Dress
from twinproof.train.written import Origin, Trained, policy_of, residual_of

Say = Callable[[str], None]
JUDGED = 200  # episodes that a finished policy is judged in, where nothing else was asked for
PROBED = 32  # episodes that the expert tries before
JUDGED_OFTEN = 50  # episodes after each segment of training
SEGMENT = {"dagger": 1, "clone": 1, "student": 1, "progressive": 5}  # iterations; stages are judged between segments
OTHER_DRAWS = 1_000_003  # judging draws starts and parameters that training did not
IRRELEVANT = (
    "out",
    "seeds",
    "seed",
    "onnx",
    "tensorboard",
    "probe",
    "split",
    "teacher",
    "base",
    "twin",
    "randomization",
    "safety",
)


@dataclass(frozen=True)
class Made:
    """One finished policy. `judged` are fresh episodes in the twin, without exploration."""

    policy: Policy
    folder: Path
    outcome: Outcome
    judged: Judged


def run(
    asked: Asked, progress: Progress = quiet, dress: Dress | None = None, say: Say = lambda text: None
) -> tuple[Made, ...]:
    """Trains every seed and writes its policy; what was done before a kill is not done again. Pictures are changed by
    `dress` while it learns; `say` is told what moves the worlds, and what a probe without an expert found."""
    check_device(asked.device)
    if asked.out.exists() and any(asked.out.iterdir()):
        raise StoreError(f"{asked.out} exists and is not empty. Nothing is overwritten: name another folder.")
    ground = Ground.of(asked, dress)
    if ground.drive is not None:
        say(f"worlds are moved as identified: {ground.drive.told}.")
    elif ground.draws is not None and ground.draws.drive is not None:
        say(f"--no-drive: worlds are moved by parameters alone, without the {ground.draws.drive.told}.")
    if asked.probe:
        progress(0, "probing the task", None)
        blind = replace(ground.blind(), asked=replace(asked, device="cpu", cameras=()))
        probed(blind.arena(PROBED, asked.seed), ground.expert, say)
    seeds = range(asked.seed, asked.seed + asked.seeds)
    root = run_folder(asked)
    with quiet_torch():
        finished = {seed: _learn(ground, seed, Run(root / f"seed{seed}"), progress) for seed in seeds}
    made = []
    with new_folder(asked.out) as scratch:  # all of it or nothing: what was learned stays in the run's folder till then
        for seed, (policy, outcome, judged) in finished.items():
            name = f"seed{seed}" if asked.seeds > 1 else ""
            _write(policy, scratch / name, Run(root / f"seed{seed}"), asked)
            made.append(Made(policy, asked.out / name, outcome, judged))
        if asked.seeds > 1:
            runs = {f"seed {seed}": Run(root / f"seed{seed}").lines() for seed in seeds}
            draw_curve(runs, _title(asked), scratch / "curve.png")
    Run(root).clear()
    return tuple(made)


def probed(arena: Arena, expert: Actor | None, say: Say) -> None:
    """Whether the task can be done: an expert that never succeeds is an error, what chance came to is said."""
    found = feasible(arena, expert)
    if expert is not None:
        return
    more = "" if found.succeeded else ". It may be hard, or impossible: look at one episode before you wait for hours"
    say(f"probe of {arena.task.name!r}: {found.told}{more}.")


def run_folder(asked: Asked) -> Path:
    """Where a run keeps its metrics and checkpoints until its policies are written."""
    return asked.out.with_name(f".{asked.out.name}.training")


def _learn(ground: Ground, seed: int, run: Run, progress: Progress) -> tuple[Policy, Outcome, Judged]:
    asked, started = ground.asked, datetime.now(UTC)
    contract = contract_of(ground)
    begun = run.begin(contract, {**_decides(asked), **ground.parents, **ground.limits, "seed": seed})
    learner = ground.learner(seed)
    budget = Budget(asked.steps, asked.target, segment=SEGMENT.get(asked.algo, 20))
    cpu = replace(ground, asked=replace(asked, device="cpu"))
    often = JUDGED_OFTEN if asked.judged is None else max(1, asked.judged // 4)
    panel = cpu.arena(often, seed + OTHER_DRAWS)

    def judged_now(trained: Trained) -> float:
        return judge(panel, actor_of(_policy(ground, trained, contract, Origin({}))), 0).success

    with _Watching(asked, run) as tell:
        outcome = train(learner, budget, run, begun, seed, Watch(progress, tell, judged_now))
    told: dict[str, Json] = {
        "algorithm": asked.algo,
        "task": asked.task,
        "relative": asked.relative,
        "steps": outcome.steps,
        "iterations": outcome.iterations,
        "worlds": asked.worlds,
        "success_while_training": outcome.success,
        **({"coarse": asked.coarse} if asked.coarse > 1 else {}),
        **({"model_error": True} if asked.model_error else {}),
        **ground.limits,
    }
    if isinstance(learner, StagedLearner):
        told["stage"] = learner.stage
    lessons = ground.lessons
    origin = Origin(
        ground.parents,
        seed,
        told,
        lessons.episodes if lessons else (),
        ground.split.ledger.head() if ground.split else None,
    )
    policy = _policy(ground, outcome.trained, contract, origin)
    progress(outcome.steps, "judging the policy", outcome.steps)
    judged = judge(cpu.arena(asked.judged or JUDGED, seed + 2 * OTHER_DRAWS), actor_of(policy), 0)
    told |= {"judged_episodes": judged.episodes, "judged_successes": judged.succeeded}
    policy = _policy(ground, outcome.trained, contract, replace(origin, training=told))
    if ground.split is not None:
        ground.split.log_fit("train", policy.hash, policy.episodes, started, datetime.now(UTC))
    return policy, outcome, judged


def contract_of(ground: Ground) -> Contract:
    """What the policy will see and do."""
    if ground.asked.algo == "teacher":
        return ground.task.contract
    return replace(ground.task.deployable, history=ground.asked.history)


def _policy(ground: Ground, trained: Trained, contract: Contract, origin: Origin) -> Policy:
    if ground.asked.algo == "residual":
        assert ground.other is not None
        return residual_of(trained, ground.other, ground.asked.share, origin)
    return policy_of(trained, contract, origin)


def _decides(asked: Asked) -> dict[str, Json]:
    """The settings that decide a curve, as plain data."""
    values = {name: value for name, value in vars(asked).items() if name not in IRRELEVANT}
    plain: dict[str, Json] = json.loads(json.dumps(values))
    return plain


def _write(policy: Policy, folder: Path, run: Run, asked: Asked) -> None:
    policy.save(folder)
    shutil.copyfile(run.folder / "metrics.jsonl", folder / "metrics.jsonl")
    draw_curve({f"seed {policy.seed}": run.lines()}, _title(asked), folder / "curve.png")
    if asked.onnx:
        export_onnx(policy, folder / "policy.onnx")
    if asked.tensorboard:
        shutil.copytree(run.folder / "tensorboard", folder / "tensorboard")


def _title(asked: Asked) -> str:
    return f"{asked.task}, {asked.algo}, {asked.worlds} worlds"


class _Watching:
    """Writes every line of metrics to TensorBoard too, where asked."""

    def __init__(self, asked: Asked, run: Run) -> None:
        self._wanted, self._folder = asked.tensorboard, run.folder / "tensorboard"
        self._writer: Any = None

    def __enter__(self) -> Callable[[Mapping[str, Json]], None] | None:
        if not self._wanted:
            return None
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(self._folder))
        return self._tell

    def _tell(self, line: Mapping[str, Json]) -> None:
        for name, value in line.items():
            if isinstance(value, (int, float)) and name not in ("iteration", "steps"):
                self._writer.add_scalar(name, value, line["steps"])

    def __exit__(self, *problem: object) -> None:
        if self._writer is not None:
            self._writer.close()
