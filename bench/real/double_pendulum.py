"""A real double pendulum through `twinproof run`: scored on the run that the split sealed, and on the tracking run.

    python -m bench.real.double_pendulum WORK

Six torque-driven runs become a folder of CSV files. The job fits links, friction and delay on four of them, and a
friction law of the motors, which the fifth judges. The sixth is sealed. The tracking run is never given to the job.
The authors' models run on their own equations from the same starts, each with the best of two inputs and eleven
delays, chosen on the scored windows themselves.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np
from bench.double_pendulum import DRIVEN_AT, PASSING, SCORED, TRACKED, TRACKED_AT, best_published, gaps, scores
from bench.double_pendulum_data import DRIVEN, TRACKING, XML, Log, read
from bench.real.public import fresh, keep, recordings, twinproof

from twinproof.nouns.posterior import Posterior
from twinproof.nouns.split import Split
from twinproof.nouns.theta import Theta
from twinproof.sim.drive import law_of
from twinproof.sim.driven import Driven
from twinproof.sim.law import Law
from twinproof.sim.scene import Scene

PUBLISHED = ("1.0", "2.0")  # 1.1 and 3.0 are far worse on these runs: bench/results/double_pendulum.md
LONGEST_DELAY_S = 0.2
RIG = """format = "twinproof/rig/1"
robot = "double_pendulum"

[[joints]]
name = "shoulder"

[[joints]]
name = "elbow"

[signals.state]
source = "state"
kind = "joint_position"
unit = "rad"
columns = ["shoulder", "elbow"]

[signals.command]
source = "command"
kind = "joint_command"
unit = "N m"
columns = ["shoulder", "elbow"]

[[labels]]
episodes = "*"
labels = { object = "none", session = "20230629" }
"""
JOB = """name = "real double pendulum"

[ingest]
source = "recordings"
rig = "rig.toml"

[split]
group_by = "none"
sizes = [0.66, 0.17, 0.17]

[reconstruct]
scene = "scene.xml"

[identify]
parameters = [
  "body.*.mass", "body.lower.com_z", "joint.*.armature", "joint.*.frictionloss", "joint.*.damping", "actuator.*.delay",
]
prior = [
  "body.upper.mass=0.1..3", "body.lower.mass=0.1..2", "body.lower.com_z=-0.5..-0.1", "joint.*.armature=0..0.1",
  "joint.*.frictionloss=0..1", "joint.*.damping=0..0.2", "actuator.*.delay=0..0.03",
]
actuators = true
"""


def write_source(folder: Path) -> None:
    """The runs as a user has them: positions and commanded torques with their own times."""
    for id in DRIVEN:
        log, place = read(id), folder / "recordings" / id
        place.mkdir(parents=True)
        with (recordings("double_pendulum") / f"{id}.csv").open() as file:
            times = [row["time"] for row in csv.DictReader(file)]
        for name, values in (("state", log.position), ("command", log.commanded)):
            with (place / f"{name}.csv").open("w", newline="") as file:
                table = csv.writer(file)
                table.writerow(["time_s", "shoulder", "elbow"])
                table.writerows([[t, *map(repr, row)] for t, row in zip(times, values.tolist(), strict=True)])
    for name, text in (("rig.toml", RIG), ("scene.xml", XML), ("job.toml", JOB)):
        (folder / name).write_text(text)


def found(work: Path) -> dict[str, tuple[Theta, Law]]:
    """What the job found: its posterior's point, and with the drive of its motors where validation adopted one."""
    posterior = Posterior.load(work / "run" / "posterior")
    made: dict[str, tuple[Theta, Law]] = {"parameters alone": (posterior.point(), PASSING)}
    if posterior.drive is not None:
        made["with the drive"] = (posterior.drive.applied(posterior.point()), law_of(posterior.drive))
    return made


def score(work: Path, sealed: Log, tracking: Log) -> dict[str, Any]:
    """Degrees at the ends of windows, ours and the published."""
    driven = Driven(Scene(XML).leaner().reserving(control_delay_s=LONGEST_DELAY_S), ("qpos",))
    rows: dict[str, Any] = {}
    for name, (theta, law) in found(work).items():
        rows[name] = {
            "sealed": scores(gaps(driven, sealed, "smoothed", SCORED, theta, law), DRIVEN_AT),
            "tracking": scores(gaps(driven, tracking, "smoothed", TRACKED, theta, law), TRACKED_AT),
        }
    for name in PUBLISHED:
        rows[f"published {name}"] = {
            "sealed": best_published([sealed], name, "smoothed", SCORED, DRIVEN_AT)["degrees"],
            "tracking": best_published([tracking], name, "smoothed", TRACKED, TRACKED_AT)["degrees"],
        }
    return rows


def main() -> None:
    """Runs the job, scores it, and writes bench/results/real_double_pendulum.json."""
    recordings("double_pendulum")
    work = fresh(Path(sys.argv[1]))
    write_source(work)
    spent = twinproof("run", work / "job.toml", "--out", work / "run")
    seen = {
        Path(episode.source).name
        for part in Split.load(work / "run" / "split").parts()[:2]
        for episode in part.recording.episodes
    }
    (sealed,) = sorted(set(DRIVEN) - seen)
    keep(
        "real_double_pendulum",
        {
            "command": "python -m bench.real.double_pendulum WORK",
            "sealed run": sealed,
            "seconds ahead": {"sealed": [0.1, 0.5, 1.0], "tracking": [0.1, 0.2, 0.5]},
            "degrees": _rounded(score(work, read(sealed), read(TRACKING))),
            "cpu_s": round(spent, 1),
        },
    )


def _rounded(rows: dict[str, Any]) -> dict[str, Any]:
    return {name: {kind: np.round(v, 3).tolist() for kind, v in row.items()} for name, row in rows.items()}


if __name__ == "__main__":
    main()
