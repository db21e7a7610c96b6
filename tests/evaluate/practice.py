"""A small pendulum recorded, split and twinned: what the evaluation of policies starts from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from twinproof.guard.make import Grouping, make
from twinproof.lab.benches import bench
from twinproof.nouns.episode import Episode
from twinproof.nouns.randomness import stream
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import Arm, Camera, Joint, Rig, SignalRule
from twinproof.nouns.signal import Column, Signal
from twinproof.nouns.split import Split
from twinproof.nouns.theta import Theta
from twinproof.reconstruct.declare import declared
from twinproof.sim.rollout import Rollouts
from twinproof.sim.scene import Scene
from twinproof.sim.windows import Start

JOINTS = ("shoulder", "elbow")
TRUTH = Theta({"body.lower_link.mass": 0.5, "joint.elbow.damping": 0.02})  # the twin believes the nominal
SECONDS, RATE_HZ = 1.2, 100


@dataclass(frozen=True)
class Practice:
    """Folders of a split and of a twin whose values are the nominal ones."""

    split: Path
    twin: Path


def rig(cameras: dict[str, Camera] | None = None) -> Rig:
    kinds = {"state": "joint_position", "velocity": "joint_velocity", "command": "joint_command"}
    signals = {name: SignalRule(name, kind) for name, kind in kinds.items()}
    joints = tuple(Joint(name) for name in JOINTS)
    return Rig("lab_pendulum", joints, (Arm("arm", JOINTS),), None, signals, cameras or {})


def take(number: int) -> Episode:
    """What the pendulum records when it is driven by some sines."""
    scene = Scene(bench("pendulum").robot_text())
    sent_s = np.arange(round(SECONDS * RATE_HZ)) / RATE_HZ
    rate, phase = stream(number, "take").uniform([[3, 5], [0, 0]], [[6, 9], [6, 6]])
    torque = np.sin(rate * sent_s[:, None] + phase) * [0.8, 0.3]
    still = Start(np.zeros((1, 2)), np.zeros((1, 2)))
    rolled = Rollouts(scene, substeps=round(1 / RATE_HZ / 0.002)).roll([TRUTH], still, torque[None])
    read_s = np.arange(len(sent_s) + 1) / RATE_HZ
    first = np.zeros((1, 2))
    columns = {unit: tuple(Column(name, unit) for name in JOINTS) for unit in ("rad", "rad/s", "N m")}
    noise = stream(number, "noise").normal(0, 1e-4, (2, len(read_s), 2))
    signals = {
        "state": Signal("state", "joint_position", columns["rad"], read_s,
                        np.concatenate([first, rolled["qpos"][0, 0]]) + noise[0]),
        "velocity": Signal("velocity", "joint_velocity", columns["rad/s"], read_s,
                           np.concatenate([first, rolled["qvel"][0, 0]]) + noise[1]),
        "command": Signal("command", "joint_command", columns["N m"], sent_s, torque),
    }  # fmt: skip
    return Episode.of(signals, {}, labels={"behaviour": "sines"}, outcome="success", source=f"take {number}")


def pendulum(folder: Path, episodes: int = 6, text: str = "", cameras: dict[str, Camera] | None = None) -> Practice:
    """Records, splits (half is held out) and states the nominal scene, or another text of it, as the twin."""
    made = tuple(take(number) for number in range(episodes))
    recording = Recording(rig(cameras), made, {"kind": "test", "name": "pendulum"})
    make(recording, folder / "split", Grouping((), (0.3, 0.2, 0.5)))
    calibration, _, _ = Split.load(folder / "split").parts()
    (folder / "work").mkdir()
    scene = Scene(text or bench("pendulum").robot_text())
    declared(scene, "robot.xml", calibration, folder / "work").save(folder / "twin")
    return Practice(folder / "split", folder / "twin")
