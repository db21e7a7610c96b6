"""The command of training: a twin, its ranges and a task in; policies that a robot can run out."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tyro.conf import Positional

from twinproof import settings


@dataclass(frozen=True)
class Train:
    """Train a policy for a task in a twin whose parameters are drawn anew for every episode.

    examples:
      twinproof train twin randomization --task reach --out policy
      twinproof train twin randomization --task push --algo dagger --steps 60000 --out policy
      twinproof train twin randomization --task push --algo dagger --steps 60000 --home split --out policy
      twinproof train twin randomization --task push --algo teacher --out teacher
      twinproof train twin randomization --task push --algo student --teacher teacher --history 4 --out policy
      twinproof train twin randomization --task reach --algo clone --split split --out policy
      twinproof train twin randomization --task push --algo residual --base policy --out better
      twinproof train twin randomization --task push --algo rma --history 16 --out policy
      twinproof train twin randomization --task push --algo dagger --cameras front --worlds 16 --out policy
      twinproof train twin randomization --task push --device cuda --worlds 4096 --coarse 2 --out policy
      twinproof train twin randomization --task reach --seeds 3 --worlds 512 --onnx --out policies

    A killed run goes on where it was when it is started again with the same settings, to the same curve.
    """

    twin: Positional[Path]
    """A Twin folder."""
    randomization: Positional[Path | None] = None
    """A Randomization folder. Without one every episode has the twin's nominal parameters."""
    task: str = "reach"
    """reach, push, lift, drawer, handover, or a file of your own, such as examples/own_task/hover.py."""
    algo: Literal["ppo", "dagger", "clone", "teacher", "student", "residual", "rma", "progressive"] = "ppo"
    """ppo: asymmetric critic. dagger: from the task's scripted expert. clone: from the recordings of --split, or from
    the expert where none is given. teacher: PPO that sees privileged channels. student: follows --teacher.
    residual: PPO on top of --base. rma: PPO that knows the drawn parameters, then feels them in its --history.
    progressive: PPO in stages, from the nominal model to the ranges."""
    out: Path = Path("policy")
    """The new Policy folder; with several seeds a folder of them, seed0, seed1, …"""
    home: tuple[str, ...] = ()
    """Where the robot begins, 'elbow=0.9' in rad or m, where the scene has no keyframe 'home'; or a Split folder: then
    where its calibration episodes begin."""
    relative: bool = True
    """Actions move the last command; --no-relative: they name the next one. Robots driven by torques take torques."""
    worlds: int = 256
    """Worlds that run at once."""
    steps: int = 1_000_000
    """Environment steps of each seed; dagger, clone and student go on to the end of a round of whole episodes."""
    target: float | None = None
    """Stop when this share of the episodes that the policy is judged in, between parts of the training, succeeds."""
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
    """clone, dagger: a Split folder whose calibration episodes are learned from, for dagger beside the expert."""
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
    """First see whether the task's expert ever succeeds, and stop if not; without one, say what chance came to."""
    on: str = ""
    """Where --seeds are learned: pool, pool:N, ray, ray://HOST:PORT, slurm (docs/scale.md). Same policies anywhere."""
    updates: int = 400
    """dagger, clone, student: minibatches of each round."""
    input_noise: float = 0.02
    """dagger, clone, student: noise on what is seen while fitting, in shares of its spread. Long motions need less."""
    mix: float = 0.5
    """dagger: the share of worlds that the expert drives in the second round, its square in the third; 1: all."""
    spread: float = 0.05
    """dagger, clone: noise on what is done while the expert is watched, as a share of half an action's range."""
    judged: int | None = None
    """Episodes that the finished policy is judged in, and a quarter of them after each part of the training; 200."""
    cameras: tuple[str, ...] = ()
    """ppo, dagger, clone, student: the policy sees the pictures of these cameras, drawn from the twin's splats and
    changed as the randomisation says, in place of object poses."""
    pixels: int = 64
    """How wide its pictures are."""
    safety: Path | None = None
    """Limits that breaking costs, in all but imitation: the safety.toml of `twinproof evaluate` (docs/policies.md)."""
    model_error: bool = False
    """Joints also stray at random, as far as the posterior behind the ranges could not explain."""
    coarse: int = 1
    """While it learns, physics steps so many times as long as the scene's, and contacts are solved in few tries:
    faster, a little less exact. It divides the steps of a tick. What it is judged in is not coarse."""
    drive: bool = True
    """Worlds are moved by the models of motors and residual dynamics that `identify --actuators --residual` adopted,
    where the randomisation carries some; --no-drive: by parameters alone, as worlds on a GPU must be."""


def train(config: Train) -> int:
    """`twinproof train`."""
    from twinproof.nouns.progress import bar
    from twinproof.train import command, ground, report

    if config.on and config.seeds > 1:
        return _spread(config)
    if config.on:
        report.say(f"one seed is learned here: --on {config.on} spreads several (--seeds).")
    asked = ground.Asked(**_without_place(config))
    try:
        with bar("train") as progress:
            found = command.run(asked, progress, _dress(config), report.say)
    except KeyboardInterrupt:
        sys.stderr.write(
            f"stopped: {command.run_folder(asked)} has the checkpoints; the same command goes on from there\n"
        )
        raise
    settings.save(settings.resolved(config, "train"), config.out)
    report.policies(found, config.out)
    return 0


def _without_place(config: Train) -> dict[str, Any]:
    """What decides the policies. A home that a split tells is stated joint by joint, wherever they are learned."""
    from twinproof.nouns.twin import Twin
    from twinproof.tasks.home import home_of, texts_of

    home = texts_of(home_of(config.home, Twin.load(config.twin))) if config.home else ()
    return {name: value for name, value in vars(config).items() if name != "on"} | {"home": home}


def _spread(config: Train) -> int:
    """Seeds on workers of a place; one that is finished is kept."""
    from twinproof.fleet.place import place_of
    from twinproof.nouns.progress import bar
    from twinproof.train import command, ground, report
    from twinproof.train.seeds import learn_spread

    asked = ground.Asked(**_without_place(config))
    with bar("train") as progress:
        found = learn_spread(asked, place_of(config.on, command.run_folder(asked)), progress, report.say)
    settings.save(settings.resolved(config, "train"), config.out)
    report.policies(found, config.out)
    return 0


def _dress(config: Train) -> Callable[[Any, int], Any] | None:
    """How a policy's pictures are changed while it learns."""
    if not config.cameras or config.randomization is None:
        return None
    from twinproof.nouns.randomization import Randomization
    from twinproof.randomize.augment import Augment

    return Augment(Randomization.load(config.randomization).at(config.strength), config.seed)
