"""The commands that read recordings, show what is in them and write them in other formats."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from twinproof import settings
from twinproof.nouns.errors import ConfigError


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


def ingest(config: Ingest) -> int:
    """`twinproof ingest`."""
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


def inspect(config: Inspect) -> int:
    """`twinproof inspect`."""
    from twinproof.ingest import inspect as timeline
    from twinproof.ingest import report
    from twinproof.nouns.recording import Recording, verify

    if config.verify:
        verify(config.recording)
    recording = Recording.load(config.recording)
    chosen = (recording.episode(config.episode),) if config.episode else recording.episodes
    report.inspection(recording, chosen, ranges=config.episode is not None, as_json=config.json)
    if config.png:
        timeline.draw_timeline(recording, config.png)
        report.say(f"timeline: {config.png}", to_stderr=config.json)
    return 0


def convert(config: Convert) -> int:
    """`twinproof convert`."""
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
