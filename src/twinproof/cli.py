"""The stages as commands: parse, call, print; no logic. Nothing heavy is imported before parsing."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tyro.conf import Positional

from twinproof import __version__, cli_splat, settings
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
class LabRecord:
    """Record a practice robot: a simulated bench with wrong parameters and unmodelled effects plays the real one.

    examples:
      twinproof lab record push --episodes 12 --seed 0 --out practice
      twinproof lab record pendulum --episodes 8 --effects off --truth truth.json --out practice
      twinproof lab record handover --to mcap --size 320 240 --out practice
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
    tracker: Literal["tag", "mocap"] | None = None
    """A sensor for object poses, with noise and dropouts; without one there is no pose track."""
    behaviours: str | None = None
    """Behaviours to play, with commas, instead of the bench's own cycle."""
    scan: bool = True
    """Whether every sixth episode carries the wrist camera around the scene."""
    trajectory: Path | None = None
    """Play these commands (a file that `twinproof excite` wrote) in every episode, instead of behaviours."""


@dataclass(frozen=True)
class Reconstruct:
    """Make a Twin. So far from a scene that you state: MJCF or URDF, every part marked as declared.

    examples:
      twinproof reconstruct split --scene scene.xml --out twin
    """

    split: Positional[Path]
    """A Split folder; the twin belongs to its calibration part."""
    scene: Path
    """The scene's MJCF or URDF file; its meshes and textures lie beside it."""
    out: Path
    """The new Twin folder."""


@dataclass(frozen=True)
class Identify:
    """Find masses, frictions, dampings, delays from calibration episodes: a Posterior, and what they cannot tell.

    examples:
      twinproof identify twin split --parameters 'joint.*.damping' 'body.arm.mass' 'actuator.*.delay' --out posterior
      twinproof identify twin split --parameters 'body.cube.mass' --prior 'body.cube.mass=0.37+-0.01' --out posterior
      twinproof identify twin split --parameters 'object.cube.friction' --fit cloud --out posterior
      twinproof identify twin split --parameters 'body.object.mass' --differ 'body.object.mass=object' --out posterior
      twinproof identify twin split --parameters 'joint.*.damping' --method svgd --plots plots --out posterior

    A killed run goes on where it was when it is started again with the same settings.
    """

    twin: Positional[Path]
    """A Twin folder."""
    split: Positional[Path]
    """A Split folder. Calibration is fitted, validation tests the bands, the holdout stays sealed."""
    parameters: tuple[str, ...]
    """Ids or patterns (docs/parameters.md): 'joint.*.damping', 'object.cube.friction', 'signal.NAME.delay'."""
    out: Path
    """The new Posterior folder."""
    prior: tuple[str, ...] = ()
    """What is known: a range 'PATTERN=LOW..HIGH', or a value with its sd 'PATTERN=MEAN+-SD'. Default: a wide range."""
    differ: tuple[str, ...] = ()
    """Parameters that differ between objects or episodes: 'body.object.mass=object', 'joint.*.offset=episode'."""
    scenes: str | None = None
    """Other scenes for other objects, by label: 'practice/scene_{object}.xml'."""
    fix: tuple[str, ...] = ()
    """Known values that are not fitted: 'actuator.elbow.delay=0.012'."""
    method: Literal["laplace", "bootstrap", "svgd", "mdn", "npe"] = "laplace"
    """How the posterior is drawn. laplace is the fast default; mdn and npe need the extras learn and sbi."""
    fit: Literal["steps", "cloud"] = "steps"
    """How the best values are found: steps for smooth motion, cloud for tosses and tumbling."""
    horizons: str | None = None
    """Window lengths in s: stages apart by ';', lengths fitted at once by ','. Default: '0.15; 0.6; 0.15', or with
    --fit cloud '0.11, inf'. 'inf' is a whole episode."""
    starts: int = 1
    """Where the fit begins: the nominal values, and so many scattered points less one."""
    seed: int = 0
    """Decides everything that is drawn."""
    plots: Path | None = None
    """A new folder for pictures: fits, pairs, prior and posterior, weak directions, spectra, coverage."""
    actuators: Path | None = None
    """A new JSON file: the motors' friction as a law of its own (bristles, Stribeck, load), and whether it helps."""
    residual: Path | None = None
    """A new folder: a learned correction of joint torques, kept only if it helps on validation."""


@dataclass(frozen=True)
class Excite:
    """Design the next experiment: a motion within limits that tells most about named parameters, and by how much.

    examples:
      twinproof excite twin posterior --parameters 'joint.*.damping' --split split --out trajectory.json
      twinproof excite twin posterior --seconds 20 --criterion E --speed elbow=1.5 --limit 'elbow=-1..1' --out t.json
      twinproof excite --scene scene.xml --parameters 'joint.*.damping' --out trajectory.json

    The trajectory is played through the robot interface (docs/robot_interface.md).
    """

    artifacts: Positional[tuple[Path, ...]]
    """A Twin folder and a Posterior folder: what is known today. Or --scene instead of both."""
    out: Path
    """The new trajectory file, JSON."""
    parameters: tuple[str, ...] = ()
    """Ids or patterns of the parameters that the experiment is for; all of the posterior's by default."""
    scene: Path | None = None
    """A scene instead of a twin: nothing is known yet but ranges."""
    prior: tuple[str, ...] = ()
    """With --scene: what is known, 'PATTERN=LOW..HIGH' or 'PATTERN=MEAN+-SD'."""
    split: Path | None = None
    """A Split whose calibration shows what the robot measures, how well, and where it begins."""
    seconds: float = 10.0
    """How long."""
    rate_hz: float = 50.0
    """Commands a second."""
    criterion: Literal["D", "E"] = "D"
    """Shrink the volume of what stays unknown (D), or its longest axis (E)."""
    joints: tuple[str, ...] = ()
    """Joints that may move; all driven ones by default."""
    speed: tuple[str, ...] = ()
    """Largest speeds, 'elbow=1.5' in rad/s or m/s."""
    limit: tuple[str, ...] = ()
    """Narrower ranges, 'elbow=-1..1' in rad or m."""
    home: tuple[str, ...] = ()
    """Where it begins and ends, 'elbow=0.3'."""
    torque_share: float = 0.8
    """Share of the motors' torque that may be used."""
    candidates: int = 48
    """Random motions that the search begins with."""
    seed: int = 0
    """Decides the search."""


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


def _lab_record(config: LabRecord) -> int:
    from twinproof.ingest import report
    from twinproof.lab.record import Options, record
    from twinproof.nouns.progress import bar
    from twinproof.nouns.trajectory import read_trajectory

    names = tuple(name.strip() for name in (config.behaviours or "").split(",") if name.strip())
    played = None if config.trajectory is None else read_trajectory(config.trajectory)
    how = Options(
        config.to, config.effects, config.size, config.images, config.tracker, names, config.scan, trajectory=played
    )
    with bar("lab") as progress:
        record(config.bench, config.episodes, config.seed, config.out, config.truth, how, progress)
    report.say(f"reality: lab bench {config.bench!r}, simulated; {config.episodes} episodes in {config.out}")
    report.say(f"  twinproof ingest {config.out / 'dataset'} --rig {config.out / 'rig.toml'} --out recording")
    return 0


def _reconstruct(config: Reconstruct) -> int:
    import tempfile
    from datetime import UTC, datetime

    from twinproof.ingest import report
    from twinproof.nouns.split import Split as SplitNoun
    from twinproof.reconstruct.declare import declared
    from twinproof.sim.scene import Scene

    if config.out.exists():
        raise ConfigError(f"{config.out} exists. Nothing is overwritten: name another folder, or remove it.")
    split, started = SplitNoun.load(config.split), datetime.now(UTC)
    calibration, _, _ = split.parts()
    with tempfile.TemporaryDirectory() as scratch:
        scene = Scene.read(config.scene)
        twin = declared(scene, config.scene.name, calibration, Path(scratch), split.ledger.head())
        split.log_fit("reconstruct", twin.hash, twin.episodes, started, datetime.now(UTC))
        twin.save(config.out)
    settings.save(settings.resolved(config, "reconstruct"), config.out)
    report.say(f"{config.out}: twin {twin.hash[:16]}, {len(twin.bodies)} bodies, all declared")
    return 0


def _identify(config: Identify) -> int:
    from twinproof.identify import command, report

    with command.bars() as progress:
        found = command.run(command.Asked(**vars(config)), progress)
    settings.save(settings.resolved(config, "identify"), config.out)
    report.posterior(found, config.out)
    return 0


def _excite(config: Excite) -> int:
    from twinproof.identify import excite_command
    from twinproof.nouns.progress import bar

    with bar("excite") as progress:
        found = excite_command.run(excite_command.Asked(**vars(config)), progress)
    excite_command.report(found, config.out)
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
    "lab record": (LabRecord, _lab_record),
    "lab scan": (cli_splat.LabScan, cli_splat.scan),
    "reconstruct": (Reconstruct, _reconstruct),
    "identify": (Identify, _identify),
    "excite": (Excite, _excite),
    "splat fit": (cli_splat.SplatFit, cli_splat.fit),
    "splat convert": (cli_splat.SplatConvert, cli_splat.convert),
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
