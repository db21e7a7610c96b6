"""An arm that pushes an object, recorded in its own scene, split and twinned: practice for tasks with an object."""

from __future__ import annotations

from pathlib import Path

from tests.evaluate.practice import Practice
from tests.tasks.scenes import home, lab_scene
from twinproof.evaluate.closed_loop import Job, run_jobs
from twinproof.evaluate.deploy import begins
from twinproof.guard.make import Grouping, make
from twinproof.nouns.episode import Episode
from twinproof.nouns.panel import Cell, Condition, Domain, trial_seed
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import Arm, Joint, Rig, SignalRule
from twinproof.nouns.split import Split
from twinproof.nouns.theta import Theta
from twinproof.reconstruct.declare import declared
from twinproof.tasks import push
from twinproof.tasks.experts import expert_of

KINDS = {"state": "joint_position", "velocity": "joint_velocity", "command": "joint_command", "object_pose": "pose"}


def rig() -> Rig:
    joints = push.of(lab_scene("push"), home=home("push")).machine.joints
    signals = {name: SignalRule(name, kind) for name, kind in KINDS.items()}
    return Rig("lab_push", tuple(Joint(name) for name in joints), (Arm("arm", joints),), None, signals)


def takes(count: int) -> tuple[Episode, ...]:
    """What the arm and a tracker record while the task's script pushes."""
    task = push.of(lab_scene("push"), home=home("push"), relative=True)
    condition = Condition("take", "none", 5)
    cells = [
        Cell("expert", condition, Domain("twin", "twin", count), k, trial_seed(condition, k)) for k in range(count)
    ]
    runs = run_jobs(task.machine.scene, task, expert_of(task), [Job(c, Theta(), begins(task, c)) for c in cells])
    return tuple(
        Episode.of(
            {name: run.trace.signals[name] for name in KINDS},
            {},
            labels={"behaviour": "push"},
            outcome="success" if run.success else "failure",
            source=f"take {k}",
        )
        for k, run in enumerate(runs)
    )


def shoving(folder: Path, episodes: int = 4) -> Practice:
    """Half is held out; the twin is the nominal scene."""
    make(Recording(rig(), takes(episodes), {"kind": "test", "name": "push"}), folder / "split",
         Grouping((), (0.25, 0.25, 0.5)))  # fmt: skip
    (folder / "work").mkdir()
    calibration = Split.load(folder / "split").parts()[0]
    declared(lab_scene("push"), "scene.xml", calibration, folder / "work").save(folder / "twin")
    return Practice(folder / "split", folder / "twin")
