"""Push on the practice robot, seen through its cameras: `python -m bench.tracked_push TWIN SPLIT --object can_08`.

The twin was reconstructed from pictures (make demo makes one). The task's script pushes the object to a mark; where the
object is, the streaming tracker tells from the robot's pictures. Beside it the twin's own trials with the same seeds.
The lab's referee decides; what the tracker would have said stands beside it. How far the tracker is off is measured
against the lab's truth, from the scoring side. Where its body's frame lies in the lab's is taken from the first tick:
two models of one object need not share a frame.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from twinproof.evaluate.closed_loop import Job, run_jobs
from twinproof.evaluate.command import home_of
from twinproof.evaluate.deploy import Place, begins, real_run
from twinproof.lab.models.things import OBJECT
from twinproof.lab.robot import LabRobot
from twinproof.nouns.panel import Cell, Condition, Domain, trial_seed
from twinproof.nouns.robot import Observation
from twinproof.nouns.split import Split
from twinproof.nouns.twin import Twin
from twinproof.tasks import push
from twinproof.tasks.experts import expert_of
from twinproof.tasks.sight import TwinSight, clock_offsets
from twinproof.tasks.task import Setup


class Checked:
    """A sight whose poses are held against the truth at the tick at which they are used: lateness counts as error."""

    def __init__(self, sight: TwinSight, robot: LabRobot) -> None:
        self._sight, self._robot = sight, robot
        self.errors_m: list[float] = []
        self.errors_rad: list[float] = []

    def begin(self, seen: Observation, setup: Setup) -> None:
        """A new episode."""
        self._T_true_seen: np.ndarray | None = None
        self._sight.begin(seen, setup)

    def look(self, seen: Observation) -> Mapping[str, np.ndarray]:
        """As the tracker says."""
        found = self._sight.look(seen)
        assert self._robot._reality is not None
        true = self._robot._reality.world.body_pose(OBJECT)
        for pose in found.values():
            told = np.eye(4)
            told[:3, :3] = Rotation.from_quat(np.roll(pose[3:], -1)).as_matrix()
            told[:3, 3] = pose[:3]
            if self._T_true_seen is None:
                self._T_true_seen = np.linalg.inv(true) @ told
            wanted = true @ self._T_true_seen
            self.errors_m.append(float(np.linalg.norm(told[:3, 3] - wanted[:3, 3])))
            turned = Rotation.from_matrix(told[:3, :3].T @ wanted[:3, :3])
            self.errors_rad.append(float(turned.magnitude()))
        return found


def main() -> None:
    """Prints a line a trial, and both counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("twin", type=Path)
    parser.add_argument("split", type=Path)
    parser.add_argument("--object", required=True)
    parser.add_argument("--session", default="day_0")
    parser.add_argument("--plant", type=int, default=0)
    parser.add_argument("--trials", type=int, default=4)
    asked = parser.parse_args()
    twin, split = Twin.load(asked.twin), Split.load(asked.split)
    task = push.of(twin, home=home_of((), "push", twin, split))
    rig = split.parts()[0].recording.rig
    sight = TwinSight(twin, task.tracked[0], task.machine.joints, clock_offsets(twin, rig))
    lens = next(iter(sight.cameras.values())).lens
    robot = LabRobot("push", asked.plant, cameras=tuple(sight.cameras), size=(lens.width, lens.height))
    checked = Checked(sight, robot)
    seen, said, foreseen = list[bool](), list[bool](), list[bool]()
    for k in range(asked.trials):
        labels = {"object": asked.object, "session": asked.session}
        condition = Condition(f"h{k:02d}", f"e{k}", 100 + k, labels)
        cell = Cell("expert", condition, Domain("real", "real", 1), 0, trial_seed(condition, 0))
        setup = begins(task, cell)
        begun = time.process_time()
        run, _ = real_run(Place(robot, "lab", checked), task, expert_of(task), cell, setup)
        spent = time.process_time() - begun
        word = robot.succeeded("push", np.array(setup.goal))
        in_twin = run_jobs(twin, task, expert_of(task), [Job(cell, twin.start, replace(setup))])[0]
        seen.append(run.success)
        said.append(word)
        foreseen.append(in_twin.success)
        off = np.nan if run.final_error is None else 1e3 * run.final_error
        told = f"tracker {run.success} ({off:.0f} mm), referee {word}, twin {in_twin.success}"
        print(f"trial {k}: {told}; {run.time_s:.2f} s, {spent:.0f} CPU-s {run.note}", flush=True)
    count = asked.trials
    mm, degrees = 1e3 * np.array(checked.errors_m), np.degrees(checked.errors_rad)
    for name, values, unit in (("position", mm, "mm"), ("turn", degrees, "°")):
        p50, p95 = np.percentile(values, [50, 95])
        told = f"median {p50:.1f}, 95 % below {p95:.1f}, worst {values.max():.1f} {unit}"
        print(f"the tracker's {name} at the tick it is used, over {len(values)} ticks: {told}")
    print(f"tracker {sum(seen)}/{count}, referee {sum(said)}/{count}, twin {sum(foreseen)}/{count}")


if __name__ == "__main__":
    main()
