"""The stages as commands: parse, call, print; no logic. Nothing heavy is imported before parsing."""

from __future__ import annotations

import errno
import os
import select
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from twinproof import (
    __version__,
    cli_calibrate,
    cli_compare,
    cli_evaluate,
    cli_evidence,
    cli_export,
    cli_guard,
    cli_identify,
    cli_ingest,
    cli_lab,
    cli_policy,
    cli_randomize,
    cli_reconstruct,
    cli_retarget,
    cli_run,
    cli_splat,
    cli_study,
    cli_train,
    cli_twin,
    cli_view,
    settings,
)
from twinproof.nouns.errors import ConfigError, TwinproofError


@dataclass(frozen=True)
class Doctor:
    """Say what this machine can do: versions, threads, GL, GPU, codecs, each extra, and how to add what is missing.

    examples:
      twinproof doctor
      twinproof doctor --json
    """

    json: bool = False
    """Print JSON instead of a table."""


def _doctor(config: Doctor) -> int:
    from twinproof import doctor

    return doctor.run(as_json=config.json)


COMMANDS: dict[str, tuple[type[Any], Callable[[Any], int]]] = {
    "run": (cli_run.Run, cli_run.run),
    "status": (cli_run.Status, cli_run.status),
    "demo": (cli_run.Demo, cli_run.demo),
    "ingest": (cli_ingest.Ingest, cli_ingest.ingest),
    "inspect": (cli_ingest.Inspect, cli_ingest.inspect),
    "split": (cli_guard.Split, cli_guard.split),
    "audit": (cli_guard.Audit, cli_guard.audit),
    "convert": (cli_ingest.Convert, cli_ingest.convert),
    "lab record": (cli_lab.LabRecord, cli_lab.record),
    "lab scan": (cli_lab.LabScan, cli_lab.scan),
    "reconstruct": (cli_reconstruct.Reconstruct, cli_reconstruct.reconstruct),
    "calibrate": (cli_calibrate.Calibrate, cli_calibrate.calibrate),
    "compose": (cli_twin.Compose, cli_twin.compose),
    "update": (cli_twin.Update, cli_twin.update),
    "study sensitivity": (cli_twin.StudySensitivity, cli_twin.study_sensitivity),
    "study transfer": (cli_study.StudyTransfer, cli_study.study_transfer),
    "study pool": (cli_study.StudyPool, cli_study.study_pool),
    "identify": (cli_identify.Identify, cli_identify.identify),
    "excite": (cli_identify.Excite, cli_identify.excite),
    "randomize": (cli_randomize.Randomize, cli_randomize.randomize),
    "synth": (cli_randomize.Synth, cli_randomize.synth),
    "retarget": (cli_retarget.Retarget, cli_retarget.retarget),
    "train": (cli_train.Train, cli_train.train),
    "policy check": (cli_policy.PolicyCheck, cli_policy.check),
    "policy suggest": (cli_policy.PolicySuggest, cli_policy.suggest),
    "splat fit": (cli_splat.SplatFit, cli_splat.fit),
    "splat mesh": (cli_splat.SplatMesh, cli_splat.mesh),
    "splat convert": (cli_splat.SplatConvert, cli_splat.convert),
    "compare": (cli_compare.Compare, cli_compare.compare),
    "panel": (cli_evaluate.Panel, cli_evaluate.panel),
    "evaluate": (cli_evaluate.Evaluate, cli_evaluate.evaluate),
    "evidence": (cli_evidence.Evidence, cli_evidence.evidence),
    "sign": (cli_evidence.Sign, cli_evidence.sign),
    "verify": (cli_evidence.Verify, cli_evidence.verify),
    "export": (cli_export.Export, cli_export.export),
    "view": (cli_view.View, cli_view.view),
    "doctor": (Doctor, _doctor),
}


def main(arguments: list[str] | None = None) -> None:
    """Entry point of `twinproof`."""
    try:
        try:
            _main(sys.argv[1:] if arguments is None else arguments)
        finally:
            sys.stdout.flush()  # here, where a reader that is gone (`| head`) can be noticed
    except BrokenPipeError:
        if not _reader_gone():
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more as it ends
        sys.exit(128 + signal.SIGPIPE)


def _reader_gone() -> bool:
    """Whether stdout is what broke, and no other pipe or socket."""
    look = select.poll()
    look.register(sys.stdout.fileno(), select.POLLOUT)
    return any(state & select.POLLERR for _, state in look.poll(0))


def _main(arguments: list[str]) -> None:
    if not arguments or arguments[0] in ("-h", "--help"):
        sys.stdout.write(overview())
        sys.exit(0)
    if arguments[0] == "--version":
        sys.stdout.write(f"twinproof {__version__}\n")
        sys.exit(0)
    for stop in (signal.SIGTERM, signal.SIGHUP):  # end like Ctrl-C: scratch folders are cleared, nothing half remains
        signal.signal(stop, _interrupt)
    words = 2 if " ".join(arguments[:2]) in COMMANDS else 1
    try:
        sys.exit(_run(" ".join(arguments[:words]), arguments[words:]))
    except TwinproofError as problem:
        sys.stderr.write(f"error: {problem}\n")
        sys.exit(1)
    except OSError as problem:
        if problem.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        where = f" while writing {problem.filename}" if problem.filename else ""
        sys.stderr.write(f"error: the disk is full{where}. What is finished is kept: free space, run again.\n")
        sys.exit(1)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: no result was written; long work goes on where it was when started again\n")
        sys.exit(130)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _run(command: str, arguments: list[str]) -> int:
    if command not in COMMANDS:
        raise ConfigError(f"there is no command {command!r}. Commands: {', '.join(COMMANDS)}.")
    kind, act = COMMANDS[command]
    config = settings.parse(kind, arguments, command)
    shown = settings.resolved(config, command)
    sys.stderr.write(f"twinproof {command} {shown['hash'][:12]}: {_line(shown['settings'])}\n")
    return act(config)


def _line(values: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def overview() -> str:
    """The text of `twinproof --help`."""
    lines = ["twinproof: a robot's recordings in; a checked twin and its evidence out.", "", "commands:"]
    for name, (kind, _) in COMMANDS.items():
        lines.append(f"  {name:<13} {(kind.__doc__ or '').splitlines()[0]}")
    lines += ["", "Each command has --help with examples, and takes --config FILE.toml.", ""]
    lines += ["first steps:", "  twinproof doctor", "  twinproof ingest DATASET --suggest-rig --out rig.toml", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
