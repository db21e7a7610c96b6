"""`twinproof excite` from its texts to a trajectory file, and what a person sees of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

import numpy as np
from rich.console import Console
from rich.table import Table

from twinproof.identify.beliefs import Belief, Stated, beliefs
from twinproof.identify.command import number, pairs
from twinproof.identify.evolution import Evolution
from twinproof.identify.excite import Design, Excitation, Today, design
from twinproof.identify.excite_limits import Asked as Limits
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import ConfigError, StoreError
from twinproof.nouns.posterior import Posterior
from twinproof.nouns.progress import Progress
from twinproof.nouns.randomness import stream
from twinproof.nouns.split import Split
from twinproof.nouns.twin import Twin
from twinproof.sim.parameters.base import nearest
from twinproof.sim.scene import Scene

FEWEST = 8
RATE_HZ = 50.0  # of commands, where neither the user nor a recording tells


@dataclass(frozen=True)
class Asked:
    """The settings of the command: what is known is a twin with a posterior, or a scene with ranges."""

    artifacts: tuple[Path, ...]
    out: Path
    parameters: tuple[str, ...] = ()
    scene: Path | None = None
    prior: tuple[str, ...] = ()
    split: Path | None = None
    seconds: float = 10.0
    rate_hz: float | None = None  # None: that of the split's commands, or 50
    criterion: Literal["D", "E"] = "D"
    joints: tuple[str, ...] = ()
    speed: tuple[str, ...] = ()
    limit: tuple[str, ...] = ()
    home: tuple[str, ...] = ()
    torque_share: float = 0.8
    clearance_m: float = 0.02
    candidates: int = 48
    seed: int = 0


def run(asked: Asked, progress: Progress) -> Excitation:
    """Designs the experiment and writes its trajectory."""
    if asked.out.exists():
        raise StoreError(f"{asked.out} exists. Nothing is overwritten: name another file, or remove it.")
    _check(asked)
    scene, today, held = _known(asked)
    episodes = Split.load(asked.split).parts()[0].recording.episodes if asked.split else ()
    limits = Limits(
        {joint: _span(text) for joint, text in pairs(asked.limit, "--limit", "elbow=-1..1").items()},
        {joint: number(text, joint) for joint, text in pairs(asked.speed, "--speed", "elbow=2.5").items()},
        asked.torque_share,
        clearance_m=asked.clearance_m,
    )
    few = asked.candidates < Design().first
    how = Design(
        asked.seconds,
        _rate_hz(asked, episodes),
        asked.criterion,
        first=asked.candidates,
        evolution=Evolution(generations=3, population=6) if few else Evolution(),
    )
    found = design(
        scene,
        held,
        today,
        how,
        stream(asked.seed, "excite"),
        parameters=_chosen(asked.parameters, [belief.id for belief in held]),
        reference=episodes[0] if episodes else None,
        home={joint: number(text, joint) for joint, text in pairs(asked.home, "--home", "elbow=0.3").items()},
        joints=asked.joints,
        asked=limits,
        progress=progress,
    )
    found.trajectory.save(asked.out)
    return found


def _check(asked: Asked) -> None:
    if asked.scene is not None and asked.artifacts:
        raise ConfigError("a scene and a twin were given. Give a TWIN and its POSTERIOR, or --scene with --parameters.")
    if asked.scene is None and len(asked.artifacts) != 2:
        raise ConfigError(
            f"{len(asked.artifacts)} folders were given. Give a TWIN and its POSTERIOR, or --scene with --parameters."
        )
    if asked.scene is None and asked.prior:
        raise ConfigError("--prior goes with --scene: a posterior says itself what is known.")
    if not 0 <= asked.clearance_m < 10:
        raise ConfigError(f"--clearance-m {asked.clearance_m} cannot be kept. Give a distance from 0 to 10 m.")
    if not 0 < asked.torque_share <= 1:
        raise ConfigError(f"--torque-share {asked.torque_share} cannot be kept. Give a share above 0, at most 1.")
    if asked.candidates < FEWEST:
        raise ConfigError(f"--candidates {asked.candidates} is too few to choose from. Give {FEWEST} or more.")


def _known(asked: Asked) -> tuple[Scene, Today, tuple[Belief, ...]]:
    """The scene, what is known today, and the parameters that this is about."""
    if asked.scene is None:
        twin, posterior = Twin.load(asked.artifacts[0]), Posterior.load(asked.artifacts[1])
        if posterior.parents.get("twin") != twin.hash:
            raise ConfigError(
                f"the posterior {asked.artifacts[1]} was fitted to another twin than {asked.artifacts[0]} "
                f"({twin.hash[:16]}). Name the twin it belongs to."
            )
        today, held = Today.of_posterior(posterior)
        return Scene.of(twin), today, held
    scene = Scene.read(asked.scene)
    stated = tuple(Stated.parse(text) for text in asked.prior)
    held = beliefs(scene.reserving(control_delay_s=0.1).nominal(), asked.parameters, stated)
    return scene, Today.of_prior(held, stream(asked.seed, "excite", "prior")), held


def report(found: Excitation, out: Path, console: Console | None = None) -> None:
    """Every parameter's sd today and after the experiment, and how near the motion goes to the limits."""
    console = console or Console(highlight=False, soft_wrap=True, width=140)
    trajectory = found.trajectory
    console.print(f"{out}: {trajectory.seconds:.4g} s at {trajectory.rate_hz:g} Hz for {', '.join(trajectory.joints)}")
    table = Table(box=None, pad_edge=False)
    for heading in ("parameter", "sd now", "predicted", "times narrower"):
        table.add_column(heading, no_wrap=True, justify="left" if heading == "parameter" else "right")
    for k, id in enumerate(found.parameters):
        scale, sign = (100.0, " %") if found.relative[k] else (1.0, "")
        now, after = (f"{scale * float(sd[k]):.3g}{sign}" for sd in (found.sd_now, found.sd_after))
        table.add_row(id, now, after, f"{found.ratio[k]:.2f}")
    console.print(table)
    console.print(f"together {found.gain:.2f} times narrower (geometric mean); {found.candidates} candidates judged")
    for each in found.margins:
        shares = f"{each.position:.0%} of its range, {each.speed:.0%} of its speed, {each.torque:.0%} of its torque"
        console.print(f"  {each.joint}: at most {shares}")
    console.print(f"nearest approach to anything: {found.clearance_m * 1e3:.0f} mm")
    for note in found.notes:
        console.print(f"look: {note}")


def _chosen(patterns: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    for pattern in patterns:
        if not any(fnmatchcase(id, pattern) for id in known):
            raise ConfigError(f"nothing is known of a parameter {pattern!r}. {nearest(pattern, known)}")
    return tuple(id for id in known if any(fnmatchcase(id, pattern) for pattern in patterns))


def _rate_hz(asked: Asked, episodes: Sequence[Episode]) -> float:
    """Commands a second: as asked, or as the robot took them when it was recorded."""
    if asked.rate_hz is not None:
        return asked.rate_hz
    return rate_of(episodes[0]) if episodes else RATE_HZ


def rate_of(episode: Episode) -> float:
    """Commands a second of an episode, a whole number where it is near one."""
    told = episode.of_kind("joint_command")
    if not told or len(told[0].time_s) < 3:
        raise ConfigError(f"{episode.source or episode.id} has no commands to take a rate from. Give --rate-hz.")
    rate = 1 / float(np.median(np.diff(told[0].time_s)))
    return float(round(rate)) if abs(rate - round(rate)) < 0.02 * rate else rate


def _span(text: str) -> tuple[float, float]:
    low, dots, high = text.partition("..")
    if not dots:
        raise ConfigError(f"--limit {text!r} cannot be read. Write JOINT=LOW..HIGH, as in 'elbow=-1..1'.")
    return number(low, "--limit"), number(high, "--limit")
