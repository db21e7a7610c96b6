"""The commands of the transfer study: which way of randomising brings a policy from the twin to reality."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tyro.conf import Positional

from twinproof.nouns.errors import ConfigError

if TYPE_CHECKING:
    from twinproof.fleet.spread import Where
    from twinproof.nouns.hashing import Json
    from twinproof.study_plan import Plan

JUDGED = 48  # episodes in the twin that a policy ends with: it is the panel's trials that count
SHAKEN = {"mix": 1.0, "spread": 0.2, "input_noise": 0.0, "updates": 1_500}  # how a script teaches (cli_train.py)


@dataclass(frozen=True)
class StudyTransfer:
    """Compare ways of randomising: nominal, hand-set wide, point identification, posterior; success in reality.

    examples:
      twinproof study transfer run --task reach --robot 'lab:pendulum?plant=0' --out study
      twinproof study transfer run --task reach --robot my_driver.py --seeds 5 --on pool:2 --out study
      twinproof study transfer run --task drawer --imitate 60000 --robot 'lab:drawer?tracker=mocap' --out study
      twinproof study transfer run --task reach --gap --robot 'lab:pendulum?plant=0' --out study
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
    """What is compared: nominal, wide, point, stated, wide_identified, mild, posterior, strong, posterior_error; with
    cameras also visual and dynamics (docs/study.md)."""
    reconstruct: Literal["", "on", "off", "both"] = ""
    """Every variant with the encoders' zeros that pictures told, without, or both. Default: nominal and wide without,
    the others with them."""
    gap: bool = False
    """Also a gap analysis: the identified twin with a wrong friction, mass and sensor noise, one at a time, and what
    randomisation, identification and both win back."""
    cameras: tuple[str, ...] = ()
    """Cameras whose pictures policies see."""
    seeds: int = 5
    """Policies of each variant."""
    steps: int = 400_000
    """Environment steps of each policy. 0, with --imitate: imitation alone."""
    worlds: int = 256
    """Worlds that run at once."""
    algo: Literal["ppo", "dagger"] = "ppo"
    """How policies learn."""
    imitate: int = 0
    """Environment steps in which a first policy learns from the task's script, which drives, is shaken, and knows what
    its variant knows; PPO then corrects that policy. 0: PPO alone."""
    home: tuple[str, ...] = ()
    """Where the robot begins, 'elbow=0.9' in rad or m. Default: the scene's keyframe 'home', or as it was recorded."""
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
    change: str = ""
    """What changed since the holdout was last open, where something was fitted after it; the ledger keeps it."""


@dataclass(frozen=True)
class StudyPool:
    """Several transfer studies of one design, each of another robot, as one table: robots are the units.

    examples:
      twinproof study pool study_of_robot_1 study_of_robot_2 study_of_robot_3 --out pool

    Studies of one design differ in their robot alone: the same variants, seeds, domains and training.
    """

    studies: Positional[tuple[Path, ...]]
    """Folders of finished studies."""
    out: Path
    """Where pool.md, pool.png and pool.json go."""


def study_pool(config: StudyPool) -> int:
    """`twinproof study pool`."""
    from twinproof.study_pool import write_pool

    for line in [*write_pool(config.studies, config.out), f"figure: {config.out / 'pool.png'}"]:
        _say(line)
    return 0


def study_transfer(config: StudyTransfer) -> int:
    """`twinproof study transfer`."""
    from twinproof import study
    from twinproof.nouns.progress import bar
    from twinproof.study_page import write_page

    if not config.robot and not config.train_only:
        raise ConfigError("a transfer study needs a reality: give --robot, or --train-only to train alone.")
    plan = _plan(config)
    with bar("study") as progress:
        policies = study.trained(plan, config.out, _where(config), progress)
    if config.train_only:
        _say(f"{config.out}: {sum(map(len, policies.values()))} policies are trained")
        return 0
    panel = {"task": config.task, "domains": list(config.domains), "reality": config.robot}
    if config.cameras:
        panel["cameras"] = list(config.cameras)
    if config.home:
        panel["home"] = list(config.home)
    trials = study.examined(plan, policies, config.out, panel, config.robot, config.change)
    for line in [*write_page(plan, policies, trials, config.out, panel), f"figure: {config.out / 'transfer.png'}"]:
        _say(line)
    return 0


def _plan(config: StudyTransfer) -> Plan:
    from twinproof.study_plan import Plan, with_gaps

    training: dict[str, Json] = {
        "task": config.task, "algo": config.algo, "worlds": config.worlds, "steps": config.steps,
        "device": config.device, "probe": False, "judged": JUDGED,
    }  # fmt: skip
    if config.cameras:
        training["cameras"] = list(config.cameras)
    if home := _home(config):
        training["home"] = home
    first: dict[str, Json] | None = None
    if config.imitate:
        first = {**training, "algo": "dagger", "steps": config.imitate, "worlds": min(config.worlds, 64), **SHAKEN}
    if first is not None and not config.steps:
        training, first = first, None
    elif first is not None:
        training |= {"algo": "residual", "share": 0.1}
    asked = config.variants
    if config.reconstruct == "both":
        asked = tuple(f"{name}-{zeros}" for name in asked for zeros in ("off", "on"))
    elif config.reconstruct:
        asked = tuple(f"{name}-{config.reconstruct}" for name in asked)
    plan = Plan(config.run, training, asked, config.seeds, first)
    return with_gaps(plan) if config.gap else plan


def _home(config: StudyTransfer) -> list[Json]:
    """Where the robot begins, in training as in the trials: as stated; as recorded, where the scene does not say."""
    from twinproof.evaluate.command import MOTION, home_of
    from twinproof.nouns.split import Split
    from twinproof.nouns.twin import Twin
    from twinproof.tasks.home import texts_of

    if not config.home and (Path(config.task) / MOTION).is_file():  # a motion says where it begins
        return []
    found = home_of(config.home, config.task, Twin.load(config.run / "twin"), Split.load(config.run / "split"))
    return list(texts_of(found))


def _where(config: StudyTransfer) -> Where:
    from twinproof.fleet.place import place_of

    return place_of(config.on or (f"pool:{config.workers}" if config.workers > 1 else "here"), config.out)


def _say(sentence: str) -> None:
    sys.stdout.write(f"{sentence}\n")
