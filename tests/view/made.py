"""A small run to look at: the probe twin with splats, two trials of one condition (real and twin), a posterior; and one
without trials: recorded episodes, a split of them, a twin and a posterior."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from tests.export.probes import write_probe
from twinproof.evaluate.replay import replayed
from twinproof.guard.make import Grouping, make
from twinproof.nouns.belief import Prior
from twinproof.nouns.episode import Episode
from twinproof.nouns.failure import Failure
from twinproof.nouns.posterior import Posterior
from twinproof.nouns.randomness import stream
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import Arm, Intrinsics, Joint, Mount, Rig
from twinproof.nouns.signal import Column, Signal
from twinproof.nouns.source import Declared
from twinproof.nouns.theta import ParameterInfo, Theta
from twinproof.nouns.trace import Event, Trace
from twinproof.nouns.trial import Trial
from twinproof.nouns.trials import Trials
from twinproof.nouns.twin import Twin, TwinCamera
from twinproof.sim.scene import Scene

POSE = tuple(Column(name, unit) for name, unit in zip(("x", "y", "z", "qw", "qx", "qy", "qz"), "mmm    ", strict=True))
DAMPED, LATE_S = 1.2, 0.2  # the hinge's true damping in recorded episodes; when their commands begin
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


def twin_in(folder: Path, **parents: str) -> Twin:
    """The probe with a camera and an audit of its gap, saved."""
    probe = write_probe(folder.parent / f"{folder.name}_work")
    lens = Intrinsics(130.0, 130.0, 59.5, 44.5)
    camera = TwinCamera(120, 90, lens, Mount("world", (0.3, -0.3, 0.3), (0.5, -0.5, 0.5, -0.5)), Declared("planted"))
    audits = {"visual_against_collision": {"wedge": {"p95_m": 0.002}}}
    replace(probe, cameras={"front": camera}, audits=audits, parents={**probe.parents, **parents}).save(folder)
    return Twin.load(folder)


def posterior_for(twin: Twin, damping: float = 0.2) -> Posterior:
    """Draws of the hinge's damping."""
    draws = stream(0, "view").normal(damping, 0.01, (30, 1))
    info = ParameterInfo("joint.hinge.damping", "N m s/rad", 0.01, 2.0)
    prior = Prior(Declared("wide"))
    parents = {"twin": twin.hash, "split": twin.parents["split"]}
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


def recorded(scene: Scene, number: int) -> Episode:
    """What the probe does with the damping DAMPED; commands are logged from LATE_S on only, readings from the start."""
    up = {name: each for name, each in trace("real", 0.1 * number).signals.items() if each.kind != "pose"}
    asked = {name: replace(each, value=-each.value) for name, each in up.items()}  # downwards it would meet the table
    episode = Episode.of(asked, {})
    state = replayed(scene, episode, Theta({"joint.hinge.damping": DAMPED}), smooth=False).signals["state"]
    sent = asked["command"]
    late = sent.time_s >= LATE_S
    command = replace(sent, time_s=sent.time_s[late], value=sent.value[late])
    gone = [state.value[0], *state.value]  # a second sample before: the clock begins at -0.02 s
    state = replace(state, time_s=np.r_[-0.02, state.time_s], value=np.array(gone))
    labels = {"session": f"day_{number}", "behaviour": HOSTILE if number == 0 else "swing"}
    return Episode.of(
        {"state": state, "command": command}, {}, labels=labels, outcome="success", source=f"take_{number}"
    )


def write_recorded(folder: Path) -> Path:
    """RUN/split, RUN/twin, RUN/posterior: an identification without trials."""
    folder.mkdir()
    scene = Scene.of(write_probe(folder / "scratch", splats=False))
    rig = Rig("probe", (Joint("hinge"),), (Arm("arm", ("hinge",)),))
    recording = Recording(rig, tuple(recorded(scene, number) for number in range(5)), {"kind": "planted"})
    split = make(recording, folder / "split", Grouping())
    twin = twin_in(folder / "twin", split=split.hash)
    posterior_for(twin, DAMPED).save(folder / "posterior")
    return folder
