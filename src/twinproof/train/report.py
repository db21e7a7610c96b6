"""What `twinproof train` prints when it is done."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from twinproof.nouns.interval import clopper_pearson
from twinproof.train.command import Made
from twinproof.train.seeds import Came


def say(text: str) -> None:
    """A line."""
    sys.stdout.write(text + "\n")


def policies(made: Sequence[Made | Came], out: Path) -> None:
    """A line a policy, and where everything lies."""
    for each in made:
        judged, outcome = each.judged, each.outcome
        sure = clopper_pearson(judged.succeeded, judged.episodes)
        sys.stdout.write(
            f"seed {each.policy.seed}: {judged.succeeded} of {judged.episodes} fresh episodes in the twin succeed "
            f"({100 * judged.success:.1f} %, 95 % interval {100 * sure.low:.1f} to {100 * sure.high:.1f} %), after "
            f"{outcome.steps:,} steps in {outcome.wall_s:.0f} s\n"
        )
        if judged.diverged:
            sys.stdout.write(f"  {judged.diverged} of them diverged and count as no success\n")
    where = f"{out}: " if len(made) == 1 else f"{out}: seed{made[0].policy.seed} and so on, each with "
    more = [name for name in ("policy.onnx", "tensorboard") if any(out.rglob(name))]
    files = ["policy.json", "weights.safetensors", "metrics.jsonl", "curve.png", *more]
    sys.stdout.write(f"{where}{', '.join(files)}\n")
