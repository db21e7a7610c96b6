"""Push on the practice robot, seen through its cameras: `python -m bench.tracked_push TWIN SPLIT --object can_08`.

The twin was reconstructed from pictures (make demo makes one). The task's script pushes the object to a mark; where the
object is, the streaming tracker tells from the robot's pictures. Beside it the twin's own trials with the same seeds.
The lab's referee decides; what the tracker would have said stands beside it.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from twinproof.evaluate.closed_loop import Job, run_jobs
from twinproof.evaluate.command import home_of
from twinproof.evaluate.deploy import Place, begins, real_run
from twinproof.evaluate.sight import TwinSight, clock_offsets
from twinproof.lab.robot import LabRobot
from twinproof.nouns.panel import Cell, Condition, Domain, trial_seed
from twinproof.nouns.split import Split
from twinproof.nouns.twin import Twin
from twinproof.tasks import push
from twinproof.tasks.experts import expert_of


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
    task = push.of(twin, home=home_of((), twin, split))
    rig = split.parts()[0].recording.rig
    sight = TwinSight(twin, task.tracked[0], task.machine.joints, clock_offsets(twin, rig))
    lens = next(iter(sight.cameras.values())).lens
    robot = LabRobot("push", asked.plant, cameras=tuple(sight.cameras), size=(lens.width, lens.height))
    seen, said, foreseen = list[bool](), list[bool](), list[bool]()
    for k in range(asked.trials):
        labels = {"object": asked.object, "session": asked.session}
        condition = Condition(f"h{k:02d}", f"e{k}", 100 + k, labels)
        cell = Cell("expert", condition, Domain("real", "real", 1), 0, trial_seed(condition, 0))
        setup = begins(task, cell)
        begun = time.process_time()
        run, _ = real_run(Place(robot, "lab", sight), task, expert_of(task), cell, setup)
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
    print(f"tracker {sum(seen)}/{count}, referee {sum(said)}/{count}, twin {sum(foreseen)}/{count}")


if __name__ == "__main__":
    main()
