"""The commands of the whole loop: run a job, look at where it stands, practise on the lab."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tyro.conf import Positional

from twinproof.nouns.errors import ConfigError


@dataclass(frozen=True)
class Run:
    """Run a job from recordings to evidence. What is there already is not made again; a killed run goes on.

    examples:
      twinproof run job.toml --out run
      twinproof run job.toml --out run --until identify
      twinproof run job.toml --out run --full
      twinproof status run

    docs/run.md shows a job; its tables hold the options of the commands of the same name.
    """

    job: Positional[Path]
    """The job, a TOML file."""
    out: Path
    """The run's folder: new, or that of an earlier run of the same or a changed job."""
    until: str = ""
    """The last stage to run. Default: all that the job has."""
    on: str = ""
    """Where work that spreads runs: pool, pool:N, ray, ray://HOST:PORT, slurm (docs/scale.md); no number changes."""
    full: bool = False
    """The thorough run: with the options of the job's [full] tables."""


@dataclass(frozen=True)
class Status:
    """Show a run's stages: what is done, what a changed job would make again, how long each took, what it stands on.

    examples:
      twinproof status run
      twinproof status run --json
    """

    run: Positional[Path]
    """A run's folder."""
    json: bool = False
    """Print JSON instead of a table."""


@dataclass(frozen=True)
class Demo:
    """Run the whole loop on a practice bench: a simulated robot with hidden parameters plays the real one.

    examples:
      twinproof demo pendulum --out demo
      twinproof demo handover --out demo_handover
      twinproof demo push --out demo_push
      twinproof demo drawer --out demo_drawer
      twinproof demo drawer --full --out demo_drawer
    """

    bench: Positional[Literal["pendulum", "push", "drawer", "handover"]]
    """Which bench."""
    out: Path
    """The run's folder."""
    until: str = ""
    """The last stage to run. Default: all."""
    on: str = ""
    """Where work that spreads runs: pool, pool:N, ray, ray://HOST:PORT, slurm (docs/scale.md); no number changes."""
    full: bool = False
    """The thorough run, for an hour or more, instead of the small one."""


def run(config: Run) -> int:
    """`twinproof run`."""
    return _run(config.job, config.out, config.until, config.full, config.on)


def demo(config: Demo) -> int:
    """`twinproof demo`."""
    from importlib.resources import as_file, files

    with as_file(files("twinproof") / "jobs" / f"{config.bench}.toml") as job:
        return _run(job, config.out, config.until, config.full, config.on)


def _run(path: Path, out: Path, until: str, full: bool, on: str) -> int:
    from dataclasses import replace

    from twinproof.cli_evidence import told
    from twinproof.job import read_job
    from twinproof.nouns.files import write_whole
    from twinproof.nouns.kept import Kept, only_one
    from twinproof.run import SECTIONS, Doing, run
    from twinproof.run_ahead import Marks, expected_s

    job = read_job(path, SECTIONS, full).until(until, SECTIONS)
    job = replace(job, on=on)
    with only_one(out, _say):
        write_whole(out / "job.toml", path.read_bytes())
        write_whole(out / "job_folder.txt", f"{job.folder}\n{'full' if full else ''}\n".encode())
        ahead = run(Doing(job, Marks(out), _say))
        expected = expected_s(job.stages(SECTIONS), ahead, job.budget_s)
        outcomes = run(Doing(job, Kept(out, _say), _say, expected))
    reused = sum(outcome.state == "reused" for outcome in outcomes)
    _say(f"{out}: {len(outcomes)} stages, {reused} of them reused; {outcomes[-1].folder}")
    if outcomes[-1].stage.name == "evidence":
        told(out / "evidence")
    return 0


def status(config: Status) -> int:
    """`twinproof status`."""
    import json
    from dataclasses import replace

    from twinproof.job import read_job
    from twinproof.nouns.kept import Kept
    from twinproof.run import SECTIONS, Doing, run

    path = config.run / "job.toml"
    if not path.is_file():
        raise ConfigError(f"{config.run} holds no job.toml: it is no run. Start one with twinproof run JOB --out RUN.")
    folder, full = (config.run / "job_folder.txt").read_text(encoding="utf-8").split("\n")[:2]
    job = replace(read_job(path, SECTIONS, full == "full"), folder=Path(folder))
    outcomes = run(Doing(job, Kept(config.run, _say, dry=True), _say))
    rows: list[dict[str, Any]] = [
        {
            "stage": outcome.stage.name,
            "state": "to do" if outcome.state == "to do" else "done",
            "key": outcome.stage.key[:12],
            "seconds": round(outcome.seconds, 1),
            "stands on": list(outcome.stage.parents),
        }
        for outcome in outcomes
    ]
    if config.json:
        sys.stdout.write(json.dumps(rows, indent=1) + "\n")
        return 0
    from rich.console import Console
    from rich.table import Table

    table = Table("stage", "state", "s", "key", "stands on", title=f"{config.run}: job {job.name}")
    for row in rows:
        seconds = f"{row['seconds']}" if row["state"] == "done" else ""
        table.add_row(row["stage"], row["state"], seconds, row["key"], ", ".join(row["stands on"]))
    Console().print(table)
    return 0


def _say(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")
