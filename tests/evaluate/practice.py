"""A lab pendulum recorded, split and twinned in memory and in a folder: what the evaluation of policies starts from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from twinproof.guard.make import Grouping, make
from twinproof.lab.benches import bench
from twinproof.lab.record import in_memory
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import Arm, Joint, Rig, SignalRule
from twinproof.nouns.split import Split
from twinproof.nouns.twin import Twin
from twinproof.reconstruct.declare import declared
from twinproof.sim.scene import Scene

JOINTS = ("shoulder", "elbow")
PLANT = 0


@dataclass(frozen=True)
class Practice:
    """Folders of a split and of a twin whose values are the nominal ones."""

    split: Path
    twin: Path


def rig() -> Rig:
    kinds = {"state": "joint_position", "velocity": "joint_velocity", "command": "joint_command"}
    signals = {name: SignalRule(name, kind) for name, kind in kinds.items()}
    return Rig("lab_pendulum", tuple(Joint(name) for name in JOINTS), (Arm("arm", JOINTS),), None, signals)


def pendulum(folder: Path, episodes: int = 6) -> Practice:
    """Records, splits (half is held out) and states the nominal scene as the twin."""
    made, _ = in_memory("pendulum", episodes, PLANT)
    recording = Recording(rig(), made, {"kind": "lab", "name": "pendulum"})
    make(recording, folder / "split", Grouping((), (0.3, 0.2, 0.5)))
    calibration, _, _ = Split.load(folder / "split").parts()
    (folder / "work").mkdir()
    scene = Scene(bench("pendulum").robot_text())
    declared(scene, "robot.xml", calibration, folder / "work").save(folder / "twin")
    Twin.load(folder / "twin")
    return Practice(folder / "split", folder / "twin")
