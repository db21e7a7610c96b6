"""The lab's commands: a practice robot recorded, a practice bench photographed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tyro.conf import Positional


@dataclass(frozen=True)
class LabRecord:
    """Record a practice robot: a simulated bench with wrong parameters and unmodelled effects plays the real one.

    examples:
      twinproof lab record push --episodes 12 --seed 0 --out practice
      twinproof lab record pendulum --episodes 8 --effects off --truth truth.json --out practice
      twinproof lab record handover --to mcap --size 320 240 --out practice
      twinproof lab record handover --to mcap --cameras front back --camera-hz 4 --tracker mocap --out practice
      twinproof lab record pendulum --episodes 1 --trajectory trajectory.json --out excited

    Writes a dataset, a rig.toml and the nominal model; what is hidden goes to --truth alone.
    """

    bench: Positional[Literal["pendulum", "push", "drawer", "handover"]]
    """Which bench."""
    out: Path
    """The new folder."""
    episodes: int = 12
    """How many takes."""
    seed: int = 0
    """Decides everything that is drawn."""
    truth: Path | None = None
    """Where the hidden truth goes, for scoring. No stage reads it."""
    to: Literal["lerobot", "mcap"] = "lerobot"
    """LeRobot v3.0 (a fixed-rate grid) or ROS 2 bags in MCAP (true stamps and latency)."""
    effects: str = "all"
    """Effects that no twin models: all, off, or names with commas (docs/lab.md)."""
    size: tuple[int, int] = (160, 120)
    """Width and height of the pictures."""
    images: bool = True
    """Whether the cameras run."""
    cameras: tuple[str, ...] = ()
    """Only these; all of the bench by default."""
    camera_hz: float | None = None
    """Pictures a second, with --to mcap; the bench's own rate by default."""
    tracker: Literal["tag", "mocap"] | None = None
    """A sensor for object poses, with noise and dropouts; without one there is no pose track."""
    behaviours: str | None = None
    """Behaviours to play, with commas, instead of the bench's own cycle."""
    scan: bool = True
    """Whether every sixth episode carries the wrist camera around the scene."""
    families: tuple[str, ...] = ()
    """Families of objects that are handled, such as box; all of the bench by default. The scene has the first one's."""
    trajectory: Path | None = None
    """Play these commands (a file that `twinproof excite` wrote) in every episode, instead of behaviours."""


@dataclass(frozen=True)
class LabScan:
    """Walk round a practice bench with a hand-held camera, or round one of its objects: pictures with poses.

    examples:
      twinproof lab scan push --out scan
      twinproof splat fit scan --out scene
      twinproof lab scan push --object tee_01 --out turntable      the object alone before a black backdrop
      twinproof splat mesh turntable --backdrop black --out object
    """

    bench: Positional[Literal["push", "drawer", "handover"]]
    """Which bench."""
    out: Path
    """The new folder: pictures and a transforms.json."""
    object: str = ""
    """One of its objects alone: FAMILY_NUMBER, as box_03, can_00, tee_01, cube_02. Its true size is in truth.json."""
    pictures: int = 40
    """How many."""
    size: tuple[int, int] = (320, 240)
    """Their width and height, px."""
    seed: int = 0
    """Which plant, and which walk."""


def record(config: LabRecord) -> int:
    """`twinproof lab record`."""
    from twinproof.ingest import report
    from twinproof.lab.record import Options
    from twinproof.lab.record import record as play
    from twinproof.nouns.progress import bar
    from twinproof.nouns.trajectory import read_trajectory

    names = tuple(name.strip() for name in (config.behaviours or "").split(",") if name.strip())
    played = None if config.trajectory is None else read_trajectory(config.trajectory)
    how = Options(
        config.to, config.effects, config.size, config.images, config.tracker, names, config.scan,
        cameras=config.cameras, camera_hz=config.camera_hz, families=config.families, trajectory=played,
    )  # fmt: skip
    with bar("lab") as progress:
        play(config.bench, config.episodes, config.seed, config.out, config.truth, how, progress)
    report.say(f"reality: lab bench {config.bench!r}, simulated; {config.episodes} episodes in {config.out}")
    report.say(f"  twinproof ingest {config.out / 'dataset'} --rig {config.out / 'rig.toml'} --out recording")
    return 0


def scan(config: LabScan) -> int:
    """`twinproof lab scan`."""
    from twinproof.ingest import report
    from twinproof.lab.scan import scan as walk
    from twinproof.lab.turntable import turntable
    from twinproof.nouns.progress import bar

    with bar("scan") as progress:
        if config.object:
            turntable(config.object, config.seed, config.out, config.pictures, config.size, progress)
        else:
            walk(config.bench, config.seed, config.out, config.pictures, config.size, progress)
    what = f"object {config.object!r}" if config.object else f"bench {config.bench!r}"
    report.say(f"reality: lab {what}, simulated; {config.pictures} pictures in {config.out}")
    return 0
