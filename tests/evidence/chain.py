"""A whole chain on a pendulum, small and real: recording, split, twin, posterior, ranges, policies, panel, trials."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from tests.identify.folders import TRUTH, recorded
from tests.sim.motions import PENDULUM, joint_signals, moved, sines
from twinproof.cli_identify import Identify
from twinproof.evaluate.verdict import ranks
from twinproof.evidence.gather import Folders
from twinproof.guard.make import Grouping, make
from twinproof.identify.command import Asked, run
from twinproof.nouns.failure import Failure
from twinproof.nouns.panel import Condition, Criterion, Domain, Metric, Panel, Task
from twinproof.nouns.policy import Channel, Contract, Policy
from twinproof.nouns.posterior import Posterior
from twinproof.nouns.progress import quiet
from twinproof.nouns.randomization import Randomization, Range
from twinproof.nouns.randomness import stream
from twinproof.nouns.source import Declared, Inferred, Measured
from twinproof.nouns.split import Split
from twinproof.nouns.theta import ParameterInfo, Theta
from twinproof.nouns.trace import Event, Trace
from twinproof.nouns.trial import Trial
from twinproof.nouns.trials import Trials
from twinproof.nouns.twin import Twin
from twinproof.reconstruct.declare import declared
from twinproof.sim.scene import Scene, engine

PARAMETERS = ("joint.hinge.damping", "joint.hinge.frictionloss", "body.bob.mass", "actuator.hinge.gain")
DELAY = ParameterInfo("actuator.hinge.delay", "s", 0.0, 0.1)
LAMP = ParameterInfo("light.lamp.intensity", "1", 0.05, 20.0, log=True)
SECONDS = 0.8
SUMMARY = {
    "notes": ["the stand was screwed down"],
    "decomposition": [
        {"step": 1, "what": "replay of the robot's commands", "unit": "share", "value": 0.03, "interval": [0.02, 0.04]},
        {"step": 2, "what": "closed loop", "unit": "share", "value": 0.05},
    ],
    "replay": {
        "worlds": [
            {"condition": "a", "domain": "twin", "repeat": 0, "time_s": [0.0, 0.5, 1.0], "course": [0.0, 0.01, 0.02]},
            {"condition": "b", "domain": "twin", "repeat": 0, "time_s": [0.0, 0.5, 1.0], "course": [0.0, 0.02, 0.05]},
            {"condition": "a", "domain": "nominal", "repeat": 0, "time_s": [0.0, 1.0], "course": [0.0, 0.09]},
        ]
    },
}


def build(folder: Path) -> Folders:
    """Every folder of the chain below `folder`."""
    folder.mkdir(parents=True)
    (folder / "scene.xml").write_text(PENDULUM)
    recording = recorded(count=10, seconds=SECONDS)
    recording.save(folder / "recording")
    make(recording, folder / "split", Grouping(("session",)))
    twin = _twin(folder)
    posterior = _posterior(folder)
    randomization = _ranges(folder, posterior)
    policies = _policies(folder, twin, randomization)
    panel = _panel(folder)
    _trials(folder, panel, posterior, policies)
    return folders(folder)


def folders(folder: Path) -> Folders:
    """Where everything of a chain lies."""
    return Folders(
        **{
            name: folder / name
            for name in ("recording", "split", "twin", "posterior", "randomization", "panel", "trials")
        },
        policies={name: folder / "policies" / name for name in ("ppo", "scripted")},
    )


def _twin(folder: Path) -> Twin:
    split, started = Split.load(folder / "split"), datetime.now(UTC)
    calibration, _, _ = split.parts()
    scratch = folder / "scratch"
    scratch.mkdir()
    twin = declared(Scene.read(folder / "scene.xml"), "scene.xml", calibration, scratch, split.ledger.head())
    split.log_fit("reconstruct", twin.hash, twin.episodes, started, datetime.now(UTC))
    twin.save(folder / "twin")
    return twin


def _posterior(folder: Path) -> Posterior:
    weighed = ("body.bob.mass=0.6+-0.01",)  # by motion alone, mass and gain cannot be told apart
    identify = Identify(folder / "twin", folder / "split", PARAMETERS, folder / "posterior", weighed)
    run(Asked(**vars(identify)), quiet)
    return Posterior.load(folder / "posterior")


def _ranges(folder: Path, posterior: Posterior) -> Randomization:
    split = Split.load(folder / "split")
    rows = np.array(posterior.draws)
    ranges = []
    for k, parameter in enumerate(posterior.parameters):
        low, high = float(rows[:, k].min()), float(rows[:, k].max())
        ranges.append(
            Range(parameter, low, high, posterior.mean(parameter.id), Inferred(posterior.hash, 0.95), "dynamics",
                  parameter.id, "posterior predictive on validation", "what the recordings leave open")
        )  # fmt: skip
    ranges.append(
        Range(
            DELAY,
            0.0,
            0.02,
            0.01,
            Measured("oscilloscope, 1 ms"),
            "sensor",
            "motor latency",
            "step response",
            "one tick",
        )
    )
    ranges.append(
        Range(LAMP, 0.5, 2.0, 1.0, Declared("lamps were never measured"), "visual", "daylight", "none yet", "windows")
    )
    parents = {"posterior": posterior.hash, "twin": posterior.parents["twin"], "split": split.hash}
    made = Randomization(tuple(ranges), parents, posterior.ids, rows, seed=3)
    made.save(folder / "randomization")
    coverage = {
        "format": "twinproof/coverage/1", "randomization": made.hash, "split": split.hash, "level": 0.9,
        "episodes": list(split.validation), "covered": 0.93, "interval": [0.86, 0.97], "count": 400,
        "signals": [
            {"signal": "state.hinge", "unit": "rad", "share": {"covered": 0.94, "low": 0.9, "high": 0.97, "windows": 9}}
        ],
    }  # fmt: skip
    (folder / "randomization" / "coverage.json").write_text(json.dumps(coverage))
    return made


def contract() -> Contract:
    """One angle in, one torque out."""
    return Contract(
        (Channel("hinge", "rad", -3.2, 3.2), Channel("speed", "rad/s")), (Channel("hinge", "N m", -1, 1),), 50
    )


def _policies(folder: Path, twin: Twin, randomization: Randomization) -> dict[str, Policy]:
    rng = stream(0, "weights")
    weights = {"layers.0.weight": rng.normal(size=(1, 2)).astype(np.float32)}
    parents = {"twin": twin.hash, "randomization": randomization.hash}
    made = {
        "ppo": Policy("mlp", contract(), parents, {"layers": [2, 1]}, weights, seed=7, training={"algorithm": "ppo"}),
        "scripted": Policy("scripted", contract(), {}),
    }
    for name, policy in made.items():
        policy.save(folder / "policies" / name)
    curve = [{"steps": 4000.0 * k, "success": float(1 - np.exp(-k / 9)) * 0.95, "reward": k / 40} for k in range(41)]
    (folder / "policies" / "ppo" / "metrics.jsonl").write_text("\n".join(json.dumps(row) for row in curve))
    return made


def _panel(folder: Path) -> Panel:
    split = Split.load(folder / "split")
    conditions = tuple(Condition(f"from rest {k}", id, 10 + k) for k, id in enumerate(split.holdout))
    task = Task(
        "swing and hold", contract(), "the bob ends within 0.6 rad of the mark",
        "it does not, within the time", SECONDS,
    )  # fmt: skip
    panel = Panel(
        task,
        conditions,
        (Domain("lab", "real", 4, "lab bench 'pendulum', simulated"), Domain("twin", "twin", 4),
         Domain("draws", "draws", 4), Domain("nominal", "nominal", 4)),
        (Metric("miss", "rad", "lower"), Metric("effort", "N m", "lower"), Metric("replay_rmse", "1", "lower")),
        {"split": split.hash},
        (Criterion("the twin fits", "model error of state.hinge at 0.2 s", "lower", 0.05),
         Criterion("the ranges cover", "coverage on validation, lower bound", "higher", 0.8),
         Criterion("the policy transfers", "success in lab, lower bound", "higher", 0.9)),
        order_seed=5,
        ledger=split.ledger.head(),
    )  # fmt: skip
    panel.save(folder / "panel")
    return panel


def _trials(folder: Path, panel: Panel, posterior: Posterior, policies: dict[str, Policy]) -> None:
    split = Split.load(folder / "split")
    scene = Scene.read(folder / "scene.xml")
    rows, traces = [], {}
    with split.parts()[2].open(by=panel.hash) as opened:
        for cell in panel.cells(policies):
            theta = _world(cell.domain.kind, posterior, cell.seed)
            trace, miss, effort = _play(scene, theta, cell.domain, cell.policy, cell.seed)
            failed = miss > 0.6
            kept = cell.policy == "ppo"
            label = Failure.CONTACT if cell.seed % 2 else Failure.UNDECIDED
            metrics = {"miss": miss, "effort": effort, "replay_rmse": 0.01 + 0.001 * len(cell.condition.name)}
            rows.append(
                Trial(cell.policy, cell.condition.name, cell.domain.name, cell.seed, not failed,
                      label if failed else None, metrics, trace.hash if kept else None, cell.repeat,
                      f"ended {miss:.2f} rad off" if failed else "")
            )  # fmt: skip
            if kept:
                traces[trace.hash] = trace
        attempt, ledger = opened.attempt, opened.ledger
    hashes = {f"policy/{name}": policy.hash for name, policy in policies.items()}
    parents = {"panel": panel.hash, "split": split.hash, "posterior": posterior.hash, **hashes}
    summary = {**SUMMARY, "agreement": ranks(panel, rows, list(policies), fewest=2)}
    Trials(
        tuple(rows), parents, traces, summary,
        reality="lab bench 'pendulum', simulated", attempt=attempt, ledger=ledger, versions={"mujoco": "3.17.0"},
    ).save(folder / "trials")  # fmt: skip


def _world(kind: str, posterior: Posterior, seed: int) -> Theta:
    match kind:
        case "real":
            return Theta(TRUTH)
        case "twin":
            return posterior.point()
        case "draws":
            return posterior.draw(stream(seed, "world"))
    return Theta({})


def _play(scene: Scene, theta: Theta, domain: Domain, policy: str, seed: int) -> tuple[Trace, float, float]:
    size = 0.5 if policy == "ppo" else 0.7
    controls = sines(round(SECONDS / 0.004), 1, 0.004, seed % 1000, size)
    motion = moved(scene, controls, theta)
    signals = joint_signals(motion, controls, every=5)
    angle = motion.qpos[:, 0]
    events = (Event("start", 0.0), Event("turn", float(motion.time_s[np.argmax(np.abs(angle))])), Event("end", SECONDS))
    simulated = domain.kind != "real"
    trace = Trace("real" if not simulated else domain.name, signals, events, engine() if simulated else "",
                  theta if simulated else Theta({}), (f"{policy}, seed {seed}",))  # fmt: skip
    return trace, abs(float(angle[-1])), float(np.abs(controls).mean())
