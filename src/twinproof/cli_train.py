"""The command of training: a twin, its ranges and a task in; policies that a robot can run out."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from twinproof import settings


@dataclass(frozen=True)
class Train:
    """Train a policy for a task in a twin whose parameters are drawn anew for every episode.

    examples:
      twinproof train twin randomization --task reach --out policy
      twinproof train twin randomization --task push --algo dagger --steps 60000 --out policy
      twinproof train twin randomization --task push --algo teacher --out teacher
      twinproof train twin randomization --task push --algo student --teacher teacher --history 4 --out policy
      twinproof train twin randomization --task reach --algo clone --split split --out policy
      twinproof train twin randomization --task push --algo residual --base policy --out better
      twinproof train twin randomization --task push --algo rma --history 16 --out policy
      twinproof train twin randomization --task reach --seeds 3 --worlds 512 --onnx --out policies

    A killed run goes on where it was when it is started again with the same settings, to the same curve.
    """

    twin: Positional[Path]
    """A Twin folder."""
    randomization: Positional[Path | None] = None
    """A Randomization folder. Without one every episode has the twin's nominal parameters."""
    task: str = "reach"
    """reach, push, lift, drawer, handover, or a file of your own, such as examples/own_task/hover.py."""
    algo: Literal["ppo", "dagger", "clone", "teacher", "student", "residual", "rma"] = "ppo"
    """ppo: asymmetric critic. dagger: from the task's scripted expert. clone: from the recordings of --split, or from
    the expert where none is given. teacher: PPO that sees privileged channels. student: follows --teacher.
    residual: PPO on top of --base. rma: PPO that knows the drawn parameters, then feels them in its --history."""
    out: Path = Path("policy")
    """The new Policy folder; with several seeds a folder of them, seed0, seed1, …"""
    home: tuple[str, ...] = ()
    """Where the robot begins, 'elbow=0.9' in rad or m, where the scene has no keyframe 'home'."""
    relative: bool = True
    """Actions move the last command; --no-relative: they name the next one. Robots driven by torques take torques."""
    worlds: int = 256
    """Worlds that run at once."""
    steps: int = 1_000_000
    """Environment steps of each seed."""
    target: float | None = None
    """Stop when this share of the newest episodes succeeds, such as 0.97."""
    seeds: int = 1
    """How many policies, from --seed on."""
    seed: int = 0
    """Decides everything that is drawn."""
    hidden: tuple[int, ...] = (128, 128)
    """Widths of the hidden layers."""
    history: int = 1
    """Observations that a student, a clone, a DAgger or an rma policy sees at once."""
    strength: float = 1.0
    """How much of the randomisation: 0 its point, 1 as it is, 2 twice as wide."""
    split: Path | None = None
    """clone: a Split folder whose calibration episodes are learned from."""
    teacher: Path | None = None
    """student: the Policy that it follows."""
    base: Path | None = None
    """residual: the Policy that is corrected."""
    share: float = 0.3
    """residual: how far a correction may go, as a share of half an action's range."""
    device: str = "cpu"
    """cpu, cuda or cuda:N."""
    onnx: bool = False
    """Also write policy.onnx beside the policy."""
    tensorboard: bool = False
    """Also write TensorBoard files, into OUT/tensorboard."""
    probe: bool = True
    """First see whether the task's expert ever succeeds, and stop if not."""


def train(config: Train) -> int:
    """`twinproof train`."""
    from twinproof.nouns.progress import bar
    from twinproof.train import command, ground, report

    asked = ground.Asked(**vars(config))
    try:
        with bar("train") as progress:
            found = command.run(asked, progress)
    except KeyboardInterrupt:
        sys.stderr.write(
            f"stopped: {command.run_folder(asked)} has the checkpoints; the same command goes on from there\n"
        )
        raise
    settings.save(settings.resolved(config, "train"), config.out)
    report.policies(found, config.out)
    return 0
