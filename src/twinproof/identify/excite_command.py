"""`twinproof excite` from its texts to a saved trajectory: strings become objects here, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

import numpy as np
from rich.console import Console
from rich.table import Table

from twinproof.identify import excite_limits as limits
from twinproof.identify.beliefs import Belief, Stated, beliefs
from twinproof.identify.command import number, pairs
from twinproof.identify.evolution import Evolution
from twinproof.identify.excitation import Design, Excitation, Today
from twinproof.identify.excite import design
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import ConfigError, StoreError
from twinproof.nouns.posterior import Posterior
from twinproof.nouns.progress import Progress
from twinproof.nouns.randomness import stream
from twinproof.nouns.recording import Recording
from twinproof.nouns.twin import Twin
from twinproof.sim.parameters.base import nearest
from twinproof.sim.scene import Scene

LONGEST_DELAY_S = 0.2  # only so that the vocabulary lists delays
RATE_HZ = 50.0  # of commands, where neither the user nor a recording tells
ONCE = 12  # candidates of a generation


@dataclass(frozen=True)
class Asked:
    """The settings of the command, as texts."""

    artifacts: tuple[Path, ...]  # a Twin and a Posterior of it, or nothing where a scene is given
    out: Path
    parameters: tuple[str, ...] = ()
    scene: Path | None = None
    prior: tuple[str, ...] = ()
    like: Path | None = None
    seconds: float = 10.0
    rate_hz: float | None = None
    criterion: Literal["D", "E"] = "D"
    joints: tuple[str, ...] = ()
    home: tuple[str, ...] = ()
    limit: tuple[str, ...] = ()
    speed: tuple[str, ...] = ()
    torque_share: float = 0.8
    clearance_m: float = 0.02
    candidates: int = 200
    seed: int = 0


def run(asked: Asked, progress: Progress) -> Excitation:
    """Designs the experiment and writes its trajectory."""
    if asked.out.exists():
        raise StoreError(f"{asked.out} exists. Nothing is overwritten: name another file, or remove it.")
    scene, held, today = _known(asked)
    reference = _reference(asked.like)
    rate_hz = asked.rate_hz or (RATE_HZ if reference is None else _rate(reference))
    found = design(
        scene,
        held,
        today,
        _how(asked, rate_hz),
        stream(asked.seed, "excite"),
        parameters=_matching(asked.parameters, held),
        reference=reference,
        home={name: number(value, f"home of {name}") for name, value in _pairs(asked.home, "--home", "elbow=0.5")},
        joints=asked.joints,
        asked=_limits(asked),
        progress=progress,
    )
    asked.out.absolute().parent.mkdir(parents=True, exist_ok=True)
    found.trajectory.save(asked.out)
    return found


def _known(asked: Asked) -> tuple[Scene, tuple[Belief, ...], Today]:
    """The scene, its parameters, and what is known of them: a posterior's draws, or priors alone."""
    if asked.scene is not None:
        if asked.artifacts:
            raise ConfigError(
                "a scene and a twin were given. Give TWIN POSTERIOR, or --scene FILE without a posterior."
            )
        scene = Scene.read(asked.scene)
        model = scene.reserving(control_delay_s=LONGEST_DELAY_S).nominal()
        held = beliefs(model, asked.parameters, [Stated.parse(text) for text in asked.prior])
        return scene, held, Today.of_prior(held, stream(asked.seed, "excite", "prior"))
    if len(asked.artifacts) != 2:
        raise ConfigError(f"{len(asked.artifacts)} folders were given. Give TWIN POSTERIOR, or --scene FILE.")
    if asked.prior:
        raise ConfigError("--prior goes with --scene: a posterior has its own priors. Leave it out.")
    twin, posterior = Twin.load(asked.artifacts[0]), Posterior.load(asked.artifacts[1])
    if posterior.parents.get("twin") != twin.hash:
        raise ConfigError(
            f"the posterior {asked.artifacts[1]} was fitted to another twin than {asked.artifacts[0]} "
            f"({twin.hash[:16]}). Name the twin it belongs to."
        )
    today, held = Today.of_posterior(posterior)
    return Scene.of(twin), held, today


def _matching(patterns: Sequence[str], held: Sequence[Belief]) -> tuple[str, ...]:
    known, found = [belief.id for belief in held], list[str]()
    for pattern in patterns:
        fits = [id for id in known if fnmatchcase(id, pattern)]
        if not fits:
            raise ConfigError(f"nothing is known of a parameter {pattern!r}. {nearest(pattern, known)}")
        found += [id for id in fits if id not in found]
    return tuple(found)


def _reference(folder: Path | None) -> Episode | None:
    if folder is None:
        return None
    return Recording.load(folder).episodes[0]


def _rate(episode: Episode) -> float:
    """Commands a second of an episode, as a whole number where it is near one."""
    told = episode.of_kind("joint_command")
    if not told or len(told[0].time_s) < 3:
        raise ConfigError(f"{episode.source or episode.id} has no commands to take a rate from. Give --rate-hz.")
    rate = 1 / float(np.median(np.diff(told[0].time_s)))
    return float(round(rate)) if abs(rate - round(rate)) < 0.02 * rate else rate


def _how(asked: Asked, rate_hz: float) -> Design:
    if asked.candidates < 8:
        raise ConfigError(f"{asked.candidates} candidates are too few to choose from. Use 8 or more.")
    first = max(4, asked.candidates // 4)
    evolution = Evolution(generations=max(1, (asked.candidates - first) // ONCE), population=ONCE)
    return Design(asked.seconds, rate_hz, asked.criterion, first, evolution)


def _limits(asked: Asked) -> limits.Asked:
    ranges = {}
    for name, value in _pairs(asked.limit, "--limit", "elbow=-1..1.5"):
        low, sign, high = value.partition("..")
        if not sign:
            raise ConfigError(f"--limit '{name}={value}' cannot be read. Write JOINT=LOW..HIGH: 'elbow=-1..1.5'.")
        ranges[name] = (number(low, name), number(high, name))
    speeds = {name: number(value, name) for name, value in _pairs(asked.speed, "--speed", "elbow=1.5")}
    if not 0 < asked.torque_share <= 1 or not 0 <= asked.clearance_m < 10:
        raise ConfigError(
            f"a torque share of {asked.torque_share:g} and a clearance of {asked.clearance_m:g} m cannot be kept. Use "
            "a share from 0 to 1 and a clearance from 0 to 10 m."
        )
    return limits.Asked(ranges, speeds, asked.torque_share, clearance_m=asked.clearance_m)


def _pairs(texts: Sequence[str], option: str, example: str) -> list[tuple[str, str]]:
    return list(pairs(texts, option, example).items())


def report(found: Excitation, out: Path, console: Console | None = None) -> None:
    """What each parameter's sd is now and should be afterwards, and how near the motion goes to every limit."""
    console = console or Console(highlight=False, soft_wrap=True, width=140)
    trajectory = found.trajectory
    console.print(
        f"{out}: {trajectory.seconds:g} s of {trajectory.kind} commands at {trajectory.rate_hz:g} Hz for "
        f"{', '.join(trajectory.joints)}; the best of {found.candidates} by {found.criterion}-optimality"
    )
    table = Table(box=None, pad_edge=False)
    table.add_column("parameter", no_wrap=True)
    for heading in ("sd now", "predicted", "times narrower"):
        table.add_column(heading, justify="right", no_wrap=True)
    for k, id in enumerate(found.parameters):
        now, then = (_shown(float(sd[k]), found.relative[k]) for sd in (found.sd_now, found.sd_after))
        table.add_row(id, now, then, f"{found.ratio[k]:.2f}")
    console.print(table)
    console.print(f"geometric mean over directions: {found.gain:.2f} times narrower, if the model holds")
    for each in found.margins:
        console.print(
            f"{each.joint}: {each.position:.0%} of its range, {each.speed:.0%} of its speed, {each.torque:.0%} of its "
            "torque at most, under any draw"
        )
    console.print(f"at least {found.clearance_m * 100:.1f} cm to anything it could touch")
    for note in found.notes:
        console.print(note)


def _shown(sd: float, relative: bool) -> str:
    return f"{100 * sd:.3g} %" if relative else f"{sd:.3g}"
