"""A small run to look at: the probe twin with splats, two trials of one condition (real and twin), a posterior."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from tests.export.probes import write_probe
from twinproof.nouns.belief import Prior
from twinproof.nouns.failure import Failure
from twinproof.nouns.posterior import Posterior
from twinproof.nouns.randomness import stream
from twinproof.nouns.rig import Intrinsics, Mount
from twinproof.nouns.signal import Column, Signal
from twinproof.nouns.source import Declared
from twinproof.nouns.theta import ParameterInfo
from twinproof.nouns.trace import Event, Trace
from twinproof.nouns.trial import Trial
from twinproof.nouns.trials import Trials
from twinproof.nouns.twin import Twin, TwinCamera

POSE = tuple(Column(name, unit) for name, unit in zip(("x", "y", "z", "qw", "qx", "qy", "qz"), "mmm    ", strict=True))
HOSTILE = "<img src=x onerror=alert(1)> [x](javascript:alert(2))"


def trace(domain: str, lag: float = 0.0, seconds: float = 1.0) -> Trace:
    """The hinge swings up by a rad, the probe slides along x; the twin is late by `lag` rad."""
    time_s = np.linspace(0.0, seconds, 51)
    hinge = np.sin(np.pi * time_s / 2 / seconds) * (1 - lag)
    free = np.tile([0.05, -0.04, 0.07, 1.0, 0.0, 0.0, 0.0], (51, 1))
    free[:, 0] += 0.1 * time_s + 1e-9
    made = [
        Signal("state", "joint_position", (Column("hinge", "rad"),), time_s, hinge[:, None]),
        Signal("velocity", "joint_velocity", (Column("hinge", "rad/s"),), time_s, np.gradient(hinge, time_s)[:, None]),
        Signal("command", "joint_command", (Column("turn", "rad"),), time_s[:-1], hinge[1:, None]),
        Signal("probe_pose", "pose", POSE, time_s, free),
    ]
    events = (Event("begin", 0.0), Event("contact", 0.4), Event("end", seconds))
    return Trace(domain, {each.name: each for each in made}, events, "" if domain == "real" else "mujoco 3.17.0")


def twin_in(folder: Path) -> Twin:
    """The probe with a camera and an audit of its gap, saved."""
    probe = write_probe(folder.parent / f"{folder.name}_work")
    lens = Intrinsics(130.0, 130.0, 59.5, 44.5)
    camera = TwinCamera(120, 90, lens, Mount("world", (0.3, -0.3, 0.3), (0.5, -0.5, 0.5, -0.5)), Declared("planted"))
    audits = {"visual_against_collision": {"wedge": {"p95_m": 0.002}}}
    replace(probe, cameras={"front": camera}, audits=audits).save(folder)
    return Twin.load(folder)


def posterior_for(twin: Twin) -> Posterior:
    """Draws of the hinge's damping."""
    draws = stream(0, "view").normal(0.2, 0.01, (30, 1))
    info = ParameterInfo("joint.hinge.damping", "N m s/rad", 0.01, 2.0)
    prior = Prior(Declared("wide"))
    parents = {"twin": twin.hash, "split": "5" * 64}
    return Posterior(
        (info,), (prior,), draws, np.full(30, -np.log(30)), "planted", ("e1",), parents, no_discrepancy="planted"
    )


def write_run(folder: Path) -> Path:
    """RUN/twin, RUN/trials, RUN/posterior."""
    folder.mkdir()
    twin = twin_in(folder / "twin")
    real, again = trace("real"), trace("twin", 0.2)
    lost = Failure.of("undecided")
    trials = (
        Trial("ppo", "h1", "real", 1, True, trace=real.hash),
        Trial("ppo", "h1", "twin", 1, False, lost, trace=again.hash, note=HOSTILE),
        Trial("ppo", "h1", "nominal", 1, False, lost),
    )
    parents = {"twin": twin.hash, "panel": "6" * 64}
    Trials(trials, parents, {each.hash: each for each in (real, again)}).save(folder / "trials")
    posterior_for(twin).save(folder / "posterior")
    return folder
