"""Real cube tosses through `twinproof run`: ingest, split, reconstruct, identify; scored on what the split sealed.

    python -m bench.real.cube_tosses WORK

220 tosses (the first 220 of a fixed draw) become a folder of CSV files; the job splits and identifies them. CMA-ES, our
baseline at its best settings, is fitted to the same calibration tosses. Velocities are not given to the job: it has
the motion capture's poses alone, while CMA-ES starts from the velocities of the file.
"""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from bench.cube_tosses import BAR, CONTACT, INERTIA, evolved
from bench.cube_tosses_baseline import SIX
from bench.cube_tosses_data import STEP_S, XML, Toss, read, roller, score
from bench.real.public import fresh, keep, recordings, twinproof

from twinproof.nouns.posterior import Posterior
from twinproof.nouns.split import Split
from twinproof.sim.scene import Scene

COUNT, SIZES = 220, (60, 60, 100)
COLUMNS = ("x", "y", "z", "qw", "qx", "qy", "qz")
RIG = """format = "twinproof/rig/1"
robot = "cube"

[signals.cube]
source = "cube"
kind = "pose"
units = ["m", "m", "m", "1", "1", "1", "1"]
columns = ["x", "y", "z", "qw", "qx", "qy", "qz"]

[[labels]]
episodes = "*"
labels = { object = "cube" }
"""
JOB = """name = "real cube tosses"

[ingest]
source = "recordings"
rig = "rig.toml"

[split]
group_by = "none"
sizes = {sizes}

[reconstruct]
scene = "scene.xml"

[identify]
parameters = {parameters}
prior = {prior}
fit = "cloud"
method = "bootstrap"
"""


def write_source(tosses: list[Toss], folder: Path) -> None:
    """The tosses as a user has them: a folder of CSV files, a rig, a scene and a job."""
    for toss in tosses:
        place = folder / "recordings" / f"toss_{toss.id:03d}"
        place.mkdir(parents=True)
        with (place / "cube.csv").open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["time_s", *COLUMNS])
            table.writerows([[repr(k * STEP_S), *map(repr, row.tolist())] for k, row in enumerate(toss.qpos)])
    stated = [*CONTACT, *INERTIA]
    lists = {"parameters": [text.split("=")[0] for text in stated], "prior": stated}
    sizes = [size / COUNT for size in SIZES]
    (folder / "rig.toml").write_text(RIG)
    (folder / "scene.xml").write_text(XML)
    (folder / "job.toml").write_text(JOB.format(sizes=sizes, **{k: _toml(v) for k, v in lists.items()}))


def _toml(texts: list[str]) -> str:
    return "[" + ", ".join(f'"{text}"' for text in texts) + "]"


def main() -> None:
    """Runs the job, scores it and the baseline, and writes bench/results/real_cube_tosses.json."""
    recordings("cube_tosses")
    work = fresh(Path(sys.argv[1]))
    tosses = read()
    chosen = [tosses[k] for k in np.random.default_rng(0).permutation(len(tosses))[:COUNT]]
    write_source(chosen, work)
    spent = twinproof("run", work / "job.toml", "--out", work / "run")
    calibration, validation, _ = Split.load(work / "run" / "split").parts()
    number = {toss.id: toss for toss in chosen}
    fitted, used = (
        {int(Path(e.source).name.split("_")[1]) for e in part.recording.episodes} for part in (calibration, validation)
    )
    scored = [toss for id, toss in number.items() if id not in fitted | used]
    posterior = Posterior.load(work / "run" / "posterior")
    ours = score(roller(Scene(XML), posterior.point()), scored)
    began = time.process_time()
    roll, told = evolved(SIX)([number[id] for id in sorted(fitted)], 0)
    baseline_cpu_s = time.process_time() - began
    keep(
        "real_cube_tosses",
        {
            "command": "python -m bench.real.cube_tosses WORK",
            "tosses": {"calibration": len(fitted), "validation": len(used), "scored": len(scored)},
            "figures": ["position % of width", "median", "rotation deg", "median", "108 ms mm", "108 ms deg"],
            "ours": {"scored": ours.row, "cpu_s": round(spent, 1), "covered": _covered(posterior)},
            "CMA-ES": {"scored": score(roll, scored).row, "cpu_s": round(baseline_cpu_s, 1), **told},
            "stated baseline, other tosses": BAR.row,
        },
    )


def _covered(posterior: Posterior) -> float | None:
    checked = posterior.diagnostics.get("validation")
    return float(checked["covered"]) if isinstance(checked, Mapping) else None


if __name__ == "__main__":
    main()
