"""The transfer study over robots: each made anew, recorded, identified, trained for and tried; robots are the units.

`python -m bench.robots OUT`               plants 1 to 8, on one core about six minutes each; a stopped one goes on
`python -m bench.robots OUT 100 101 102`   others
`python -m bench.robots OUT --second`      plants 9 to 24, without posterior_error
`python -m bench.robots OUT --apart`       then: all 24 again, beside what was stated drawn alone
`python -m bench.robots OUT --pairs`       then: differences paired over the first, the second and all robots
`python -m bench.robots OUT --effects`     then: the same policies in realities that have one unmodelled effect, or none

Plants 100 to 102 are for trying settings out; the settings here were found there. Scored are 1 to 8, then 9 to 24.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

import twinproof
from twinproof.study_table import over_units

HERE = Path(__file__).parent
JOB = Path(twinproof.__file__).parent / "jobs" / "pendulum.toml"
SCORED, SECOND = tuple(range(1, 9)), tuple(range(9, 25))
ALONE = ("off", "cable_drag", "gear_ripple", "table_flex")
VARIANTS = ("wide", "point", "posterior", "posterior_error")
STUDY = (
    *("--task", "reach", "--seeds", "1", "--steps", "1200000", "--worlds", "256"),
    *("--domains", "real=4", "twin=4", "--variants"),
)


def job(plant: int, out: Path) -> Path:
    """The demo's job for another robot, with what is stated of every one."""
    text = JOB.read_text()
    for old, new in (
        ('name = "pendulum"', f'name = "pendulum_{plant}"'),
        ("[lab]\n", f"[lab]\nseed = {plant}\n"),
        ("[randomize]\n", f'[randomize]\nextra = "{HERE / "robots_ranges.toml"}"\n'),
    ):
        if text.count(old) != 1:
            raise SystemExit(f"{JOB.name} has {text.count(old)} of {old!r}; this bench changes one.")
        text = text.replace(old, new)
    path = out / f"pendulum_{plant}.toml"
    path.write_text(text)
    return path


def twinproof_does(*arguments: object) -> None:
    """A command, as a user gives it."""
    subprocess.run([sys.executable, "-m", "twinproof", *map(str, arguments)], check=True)


def effects(out: Path, plants: tuple[int, ...]) -> None:
    """The policies that are trained, tried on the same robots with fewer of the effects that no model has."""
    for some in ALONE:
        studies = []
        for plant in plants:
            study = out / some / f"plant_{plant}"
            if not (study / "transfer.json").is_file():
                shutil.copytree(out / f"plant_{plant}" / "store", study / "store", dirs_exist_ok=True)
                robot = f"lab:pendulum?plant={plant}&effects={some}"
                asked = (*STUDY, *VARIANTS, "--robot", robot, "--out", study)
                twinproof_does("study", "transfer", out / f"run_{plant}", *asked)
            studies.append(study)
        twinproof_does("study", "pool", *studies, "--out", out / some / "pool")


def apart(out: Path, plants: tuple[int, ...]) -> None:
    """Whose merit it is, the posterior's or that of what was stated beside it."""
    studies = []
    for plant in plants:
        study = out / "apart" / f"plant_{plant}"
        if not (study / "transfer.json").is_file():
            shutil.copytree(out / f"plant_{plant}" / "store", study / "store", dirs_exist_ok=True)
            asked = (*STUDY, "point", "stated", "posterior", "--robot", f"lab:pendulum?plant={plant}", "--out", study)
            twinproof_does("study", "transfer", out / f"run_{plant}", *asked, "--change", "what was stated drawn alone")
        studies.append(study)
    twinproof_does("study", "pool", *studies, "--out", out / "apart" / "pool")


def pairs(out: Path) -> None:
    """Prints the posterior minus each other, and what was stated minus the point: points of success in reality."""
    for where, others in ((out, ("point", "wide")), (out / "apart", ("point", "stated"))):
        for plants in (SCORED, SECOND, (*SCORED, *SECOND)):
            told = [json.loads((where / f"plant_{plant}" / "transfer.json").read_text())["rows"] for plant in plants]
            real = [{row["variant"]: float(np.mean(row["rates"]["real"])) for row in rows} for rows in told]
            wanted = [("posterior", other) for other in others]
            wanted += [("stated", "point")] if "stated" in others else []
            for one, other in wanted:
                mean, low, high = over_units([100 * (each[one] - each[other]) for each in real])
                span = f"{plants[0]} to {plants[-1]}"
                sys.stdout.write(f"robots {span}: {one} - {other} {mean:+.0f} ({low:+.0f} to {high:+.0f})\n")


def main(out: Path, plants: tuple[int, ...], variants: tuple[str, ...] = VARIANTS, pool: str = "pool") -> None:
    """Every robot's run and study, then the pool."""
    out.mkdir(parents=True, exist_ok=True)
    studies = []
    for plant in plants:
        run, study = out / f"run_{plant}", out / f"plant_{plant}"
        if not (study / "transfer.json").is_file():
            twinproof_does("run", job(plant, out), "--until", "randomize", "--out", run)
            asked = (*STUDY, *variants, "--robot", f"lab:pendulum?plant={plant}", "--out", study)
            twinproof_does("study", "transfer", run, *asked)
        studies.append(study)
    twinproof_does("study", "pool", *studies, "--out", out / pool)


if __name__ == "__main__":
    plain = [each for each in sys.argv[1:] if not each.startswith("--")]
    where, named = Path(plain[0]), tuple(map(int, plain[1:]))
    if "--effects" in sys.argv:
        effects(where, named or SCORED)
    elif "--apart" in sys.argv:
        apart(where, named or (*SCORED, *SECOND))
    elif "--second" in sys.argv:
        main(where, named or SECOND, VARIANTS[:3], "pool_second")
    elif "--pairs" in sys.argv:
        pairs(where)
    else:
        main(where, named or SCORED)
