"""The stages as commands: parse, call, print; no logic. Nothing heavy is imported before parsing."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tyro.conf import Positional

from twinproof import __version__, cli_evaluate, cli_identify, cli_lab, cli_reconstruct, cli_splat, settings
from twinproof.nouns.errors import ConfigError, TwinproofError


@dataclass(frozen=True)
class Ingest:
    """Read a LeRobot dataset, a ROS 2 bag, a folder or posed images into a Recording.

    examples:
      twinproof ingest ./my_dataset --suggest-rig --out rig.toml     write a first rig, then complete it
      twinproof ingest ./my_dataset --rig rig.toml --out recording
      twinproof ingest run.mcap --rig rig.toml --out recording --max-gap-s 5
    """

    source: Positional[Path]
    """A dataset folder, a bag, a folder of files, or an archive of one of these."""
    out: Path
    """The new Recording folder; with --suggest-rig, the new rig.toml."""
    rig: Path | None = None
    """What the recording's names and numbers mean (docs/rig.md). Recordings written by twinproof carry their own."""
    suggest_rig: bool = False
    """Write a first rig.toml from the source instead of reading it."""
    nan_is_missing: bool = False
    """NaN means "no reading": mark it missing. Otherwise NaN is an error."""
    max_gap_s: float = 1.0
    """A silence longer than this and than 20 usual steps is taken for a clock jump. The rig may allow more to one."""


@dataclass(frozen=True)
class Inspect:
    """Show what is in a Recording, episode by episode: rates, gaps, jitter, dropped frames, and ranges with --episode.

    examples:
      twinproof inspect recording
      twinproof inspect recording --episode 3f2a --png timeline.png
      twinproof inspect recording --json | jq .
    """

    recording: Positional[Path]
    """A Recording folder."""
    png: Path | None = None
    """Where the timeline picture goes."""
    episode: str | None = None
    """Only the episode whose id starts so, with the range of every column."""
    json: bool = False
    """Print JSON instead of tables."""
    verify: bool = False
    """Also read every byte and compare it with its hash."""


@dataclass(frozen=True)
class Split:
    """Split a Recording into calibration, validation and a sealed holdout, before anything is fitted.

    examples:
      twinproof split recording --group-by object,session --out split
      twinproof split recording --sizes 0.5 0.2 0.3 --seed 7 --out split
      twinproof split one_long_run --spans --gap-s 2 --out split
    """

    recording: Positional[Path]
    """A Recording folder."""
    out: Path
    """The new Split folder."""
    group_by: str | None = None
    """Labels that may not stand in two parts, with commas, or "none". Default: object, scene, session, camera_path."""
    sizes: tuple[float, float, float] = (0.6, 0.2, 0.2)
    """Shares of calibration, validation and holdout, met as well as whole groups allow."""
    seed: int = 0
    """Decides which groups go where."""
    duplicates: Literal["group", "refuse"] = "group"
    """Episodes that copy one another are kept in one part, or refused."""
    threshold: float = 3.0
    """Two episodes closer than this many noise floors are copies."""
    spans: bool = False
    """Cut each episode into three stretches of time instead of keeping episodes whole."""
    gap_s: float = 1.0
    """With --spans: how much is thrown away between two stretches."""


@dataclass(frozen=True)
class Audit:
    """Check a Split: the ledger's chain, the sealed holdout, every file, and who fitted what and when.

    examples:
      twinproof audit split
      twinproof audit split posterior twin       also checks what these artifacts say they saw

    Exit code 1 on any break.
    """

    split: Positional[Path]
    """A Split folder."""
    artifacts: Positional[tuple[Path, ...]] = ()
    """Folders made from it."""
    json: bool = False
    """Print JSON instead of sentences."""


@dataclass(frozen=True)
class Convert:
    """Write a Recording as a LeRobot v3.0 dataset or as ROS 2 bags in MCAP, so that it can travel back.

    examples:
      twinproof convert recording --to lerobot --out dataset
      twinproof convert split/calibration --to mcap --out bags
    """

    recording: Positional[Path]
    """A Recording folder."""
    to: Literal["lerobot", "mcap"]
    """The format."""
    out: Path
    """The new folder."""
    fps: int | None = None
    """LeRobot only: rows per second. Default: the rate of the cameras, or of the joints."""


@dataclass(frozen=True)
class Doctor:
    """Say what this machine can do: versions, threads, GL, GPU, codecs, each extra, and how to add what is missing.

    examples:
      twinproof doctor
      twinproof doctor --json
    """

    json: bool = False
    """Print JSON instead of a table."""


def _ingest(config: Ingest) -> int:
    from twinproof.ingest import read, report
    from twinproof.ingest.assemble import Tolerances
    from twinproof.ingest.suggest import suggest_rig
    from twinproof.nouns.files import write_whole
    from twinproof.nouns.progress import bar
    from twinproof.nouns.rig import read_rig

    if config.suggest_rig:
        if config.out.exists():
            raise ConfigError(f"{config.out} exists. Nothing is overwritten: name another file, or remove it.")
        probe = read.probe(config.source, config.out)
        write_whole(config.out, suggest_rig(probe).encode())
        report.say(f"{config.out} written: complete the lines marked CHECK, then")
        report.say(f"  twinproof ingest {config.source} --rig {config.out} --out recording")
        return 0
    rig = read_rig(config.rig) if config.rig else read.own_rig(config.source)
    accept = Tolerances(config.nan_is_missing, config.max_gap_s)
    with bar("ingest") as progress:
        recording = read.ingest(config.source, rig, config.out, accept, progress)
    settings.save(settings.resolved(config, "ingest"), config.out)
    report.recording(recording, config.out)
    return 0


def _inspect(config: Inspect) -> int:
    from twinproof.ingest import inspect, report
    from twinproof.nouns.recording import Recording, verify

    if config.verify:
        verify(config.recording)
    recording = Recording.load(config.recording)
    chosen = (recording.episode(config.episode),) if config.episode else recording.episodes
    report.inspection(recording, chosen, ranges=config.episode is not None, as_json=config.json)
    if config.png:
        inspect.draw_timeline(recording, config.png)
        report.say(f"timeline: {config.png}", to_stderr=config.json)
    return 0


def _split(config: Split) -> int:
    from twinproof.guard import report
    from twinproof.guard.make import Grouping, make
    from twinproof.nouns.progress import bar
    from twinproof.nouns.recording import Recording

    named = None if config.group_by is None else tuple(key.strip() for key in config.group_by.split(",") if key.strip())
    keys = () if named == ("none",) else named
    how = Grouping(keys, config.sizes, config.seed, config.duplicates, config.threshold, config.spans, config.gap_s)
    with bar("split") as progress:
        split = make(Recording.load(config.recording), config.out, how, progress)
    settings.save(settings.resolved(config, "split"), config.out)
    report.split(split, config.out)
    return 0


def _audit(config: Audit) -> int:
    from twinproof.guard import report
    from twinproof.guard.audit import audit

    return report.audit(audit(config.split, config.artifacts), as_json=config.json)


def _convert(config: Convert) -> int:
    from twinproof.ingest import report
    from twinproof.ingest.bag_write import write_mcap
    from twinproof.ingest.lerobot_write import write_lerobot
    from twinproof.nouns.progress import bar
    from twinproof.nouns.recording import Recording

    recording = Recording.load(config.recording)
    left_out: tuple[str, ...] = ()
    with bar("convert") as progress:
        match config.to:
            case "lerobot":
                left_out = write_lerobot(recording, config.out, fps=config.fps, progress=progress)
            case "mcap":
                write_mcap(recording, config.out, progress)
    report.say(f"{len(recording.episodes)} episodes written to {config.out}")
    for left in left_out:
        report.say(f"  left out: {left}")
    return 0


def _doctor(config: Doctor) -> int:
    from twinproof import doctor

    return doctor.run(as_json=config.json)


COMMANDS: dict[str, tuple[type[Any], Callable[[Any], int]]] = {
    "ingest": (Ingest, _ingest),
    "inspect": (Inspect, _inspect),
    "split": (Split, _split),
    "audit": (Audit, _audit),
    "convert": (Convert, _convert),
    "lab record": (cli_lab.LabRecord, cli_lab.record),
    "lab scan": (cli_lab.LabScan, cli_lab.scan),
    "reconstruct": (cli_reconstruct.Reconstruct, cli_reconstruct.reconstruct),
    "compose": (cli_reconstruct.Compose, cli_reconstruct.compose),
    "update": (cli_reconstruct.Update, cli_reconstruct.update),
    "study sensitivity": (cli_reconstruct.StudySensitivity, cli_reconstruct.study_sensitivity),
    "identify": (cli_identify.Identify, cli_identify.identify),
    "excite": (cli_identify.Excite, cli_identify.excite),
    "splat fit": (cli_splat.SplatFit, cli_splat.fit),
    "splat convert": (cli_splat.SplatConvert, cli_splat.convert),
    "compare": (cli_evaluate.Compare, cli_evaluate.compare),
    "doctor": (Doctor, _doctor),
}


def main(arguments: list[str] | None = None) -> None:
    """Entry point of `twinproof`."""
    arguments = sys.argv[1:] if arguments is None else arguments
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
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: nothing was kept; what was there before is unchanged\n")
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
