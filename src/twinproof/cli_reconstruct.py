"""The commands that make twins, change what stands in them and follow what moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tyro.conf import Positional

from twinproof import settings
from twinproof.nouns.errors import ConfigError

if TYPE_CHECKING:
    from twinproof.nouns.ledger import LedgerHead
    from twinproof.nouns.parts import Calibration
    from twinproof.nouns.progress import Progress
    from twinproof.nouns.twin import Twin
    from twinproof.reconstruct.generate import Generator
    from twinproof.reconstruct.segmenters import Segmenter
    from twinproof.sim.grid import Plane


@dataclass(frozen=True)
class Reconstruct:
    """Make a Twin: from the recording's pictures and the robot's model, or from a scene that you state.

    examples:
      twinproof reconstruct split --robot robot.xml --out twin
      twinproof reconstruct split --robot robot.xml --object mug_3 --click front,12,160,110=mug --out twin
      twinproof reconstruct split --robot robot.xml --object cabinet --joint-of drawer --out twin
      twinproof reconstruct split --robot robot.xml --click front,12,160,110=mug --click front,12,80,90=bowl --out twin
      twinproof reconstruct split --robot robot.xml --segmenter sam2:large.pt --click front,0,160,110=mug --out twin
      twinproof reconstruct split --robot robot.xml --board tag36h11:10@hand=0.048 --out twin
      twinproof reconstruct split --scene scene.xml --out twin       every part marked as declared
      twinproof reconstruct split --robot robot.xml --scene scene.xml --out twin     cameras and offsets from pictures
      twinproof reconstruct split --robot robot.xml --scene scene.xml --click front,0,88,105=cube --out twin
      twinproof reconstruct split --cameras given --click front,0,195,110=tee --table-m 0.009 --out twin     no robot

    With --robot, cameras and joint offsets are found from pictures of the robot (no marker, no click), then the
    object's masks, mesh and surfels, then what its motion tells. Finished blocks are kept in OUT_work: a stopped run
    goes on from there.
    """

    split: Positional[Path]
    """A Split folder; the twin belongs to its calibration part."""
    out: Path
    """The new Twin folder."""
    robot: Path | None = None
    """The robot's MJCF or URDF, as in rig.toml: reconstruct from the pictures."""
    cameras: Literal["found", "given"] = "found"
    """found: from pictures of the robot. given: as rig.toml states them, no robot: only what prompts point at."""
    scene: Path | None = None
    """The whole scene's MJCF or URDF: nothing is looked at, everything is declared. With --robot, cameras and joint
    offsets come from the pictures, as do shape, looks and mass of the scene's bodies that a click names; the rest is
    declared."""
    object: str = ""
    """The label of the object to reconstruct. Default: that of the episode in which a riding camera goes farthest."""
    prompts: Path | None = None
    """A prompts.toml that points at the objects (docs/masks.md)."""
    click: tuple[str, ...] = ()
    """camera,frame,x,y=name: the same as a click in prompts.toml."""
    segmenter: str = ""
    """Who turns prompts into first regions: http://…, sam2:WEIGHTS, sam3:WEIGHTS, or dino:FOLDER+sam2:WEIGHTS. Default:
    none, and no weights are needed."""
    generate: str = ""
    """Who makes the shape where one or few views show the object: http://… or the command of a program; declared."""
    board: tuple[str, ...] = ()
    """tag36h11:10@hand=0.048 or chessboard:9x6@world=0.0236: a board, the link that carries it, and its size in m."""
    joint: bool = True
    """Refine poses, friction and mass together with a rollout, where a calibration episode shows the object handled."""
    joint_of: str = ""
    """The object is held by a joint (a drawer, a door, a lid): its name; type, axis and range come from its motion."""
    pictures: int = 40
    """How many pictures of the robot are fitted, of each still camera: more are slower and surer."""
    background_steps: int = 800
    """Steps of the background's fit, where a riding camera shows it from many sides; 0: none."""
    device: str = "cpu"
    """Where the object's surface, its colours and the background are fitted: cpu or cuda. All else runs on the CPU."""
    table_m: float = 0.0
    """Height of the table above the world's origin, along its normal; declared."""
    table_normal: tuple[float, float, float] = (0.0, 0.0, 1.0)
    """Which way is up from the table, in the world; declared."""
    density_kgm3: float = 500.0
    """Of the object; declared, until `identify` tells its mass."""
    scale: float = 1.0
    """A hand-made correction of the object's size; recorded as declared."""
    place: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """A hand-made correction of its place, m; recorded as declared."""

    def __post_init__(self) -> None:
        if self.cameras == "given":
            self._check_given()
        if self.scene is None:
            return
        pointed = self.robot is not None and bool(self.click or self.prompts)
        unused = OF_FOUND if pointed else OF_OBJECTS if self.robot is not None else (*OF_OBJECTS, *OF_PICTURES)
        given = [name for name in unused if getattr(self, name) != _default(name)]
        if given:
            flags = _flags(given)
            how = "" if self.robot is not None else " and its pictures are not looked at"
            which = (
                "an object's place and joint are as the scene has them"
                if pointed
                else (f"every object that no click points at is as the scene has it{how}")
            )
            raise ConfigError(
                f"{flags} would do nothing: with --scene {which}. Leave them out, or leave --scene out and reconstruct "
                "the object."
            )

    def _check_given(self) -> None:
        """Without a robot there is less that can be asked for, and nobody knows which thing is meant."""
        needless = [name for name in ("robot", "scene", *OF_ROBOT) if getattr(self, name) != _default(name)]
        if needless:
            raise ConfigError(
                f"{_flags(needless)} would do nothing: with --cameras given there is no robot to look for. Leave it "
                "out, or leave --cameras out to have cameras found from pictures of the robot."
            )
        if not self.click and self.prompts is None:
            raise ConfigError(
                "--cameras given: nothing is known of the robot, so what moves or stands out may be it. Point at the "
                "object: --click camera,frame,x,y=name."
            )


def _default(name: str) -> object:
    return Reconstruct.__dataclass_fields__[name].default


def _flags(names: Sequence[str]) -> str:
    return ", ".join(f"--{name.replace('_', '-')}" for name in names)


OF_FOUND = ("joint_of", "scale", "place")  # what a body of the scene has already
OF_OBJECTS = ("object", "prompts", "click", "segmenter", "generate", "density_kgm3", *OF_FOUND)
OF_ROBOT = ("board", "pictures", "joint")
OF_PICTURES = ("board", "pictures", "table_m", "table_normal")


def reconstruct(config: Reconstruct) -> int:
    """`twinproof reconstruct`."""
    import tempfile
    from datetime import UTC, datetime

    from twinproof.ingest import report
    from twinproof.nouns.progress import bar
    from twinproof.nouns.split import Split

    if config.out.exists():
        raise ConfigError(f"{config.out} exists. Nothing is overwritten: name another folder, or remove it.")
    if config.robot is None and config.scene is None and config.cameras == "found":
        raise ConfigError(
            "reconstruct needs one of --robot (from the pictures) and --scene (as you state it), or both; or --cameras "
            "given, and a click on the object."
        )
    split, started = Split.load(config.split), datetime.now(UTC)
    calibration, _, _ = split.parts()
    with tempfile.TemporaryDirectory() as scratch, bar("reconstruct") as progress:
        made = _made(config, calibration, Path(scratch), split.ledger.head(), progress)
        split.log_fit("reconstruct", made.hash, made.episodes, started, datetime.now(UTC))
        made.save(config.out)
    settings.save(settings.resolved(config, "reconstruct"), config.out)
    kinds = [body.source.kind for body in made.bodies]
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
    report.say(f"{config.out}: twin {made.hash[:16]}, {len(made.bodies)} bodies ({counts})")
    for name, camera in made.cameras.items():
        mount = camera.mount
        stands = f"± {1e3 * mount.position_sd_m:.1f} mm, ± {mount.rotation_sd_rad * 57.2958:.2f}°"
        surely = mount.position_sd_m > 0 or mount.rotation_sd_rad > 0
        report.say(f"  camera {name}: {stands if surely else 'as given, no error of it was stated'}")
    for note in made.notes:
        report.say(f"  {note}")
    return 0


def _made(
    config: Reconstruct, calibration: Calibration, scratch: Path, ledger: LedgerHead | None, progress: Progress
) -> Twin:
    if config.scene is not None and config.robot is None:
        from twinproof.reconstruct.declare import declared
        from twinproof.sim.scene import Scene

        return declared(Scene.read(config.scene), config.scene.name, calibration, scratch, ledger)
    from twinproof.reconstruct.assemble import Physical
    from twinproof.reconstruct.board_block import read_board
    from twinproof.reconstruct.build import Building, built
    from twinproof.reconstruct.object_block import Shaping
    from twinproof.reconstruct.prompts import read_clicks, read_prompts
    from twinproof.reconstruct.stated import stated

    prompts = read_prompts(config.prompts) if config.prompts is not None else None
    if config.click:
        prompts = read_clicks(config.click, prompts)
    how = Building(
        config.object,
        _table(config),
        Physical(config.density_kgm3),
        Shaping(
            prompts, _segmenter(config.segmenter), _generator(config.generate), config.background_steps, config.device
        ),
        config.pictures,
        tuple(read_board(text) for text in config.board),
        config.joint,
        config.joint_of,
        config.scale,
        config.place,
    )
    work = config.out.with_name(config.out.name + "_work")
    if config.scene is not None and config.robot is not None:
        return stated(calibration, config.robot, config.scene, how, work, scratch, progress=progress, ledger=ledger)
    return built(calibration, config.robot, how, work, scratch, progress=progress, ledger=ledger)


def _table(config: Reconstruct) -> Plane:
    from math import sqrt

    from twinproof.sim.grid import Plane

    x, y, z = config.table_normal
    size = sqrt(x * x + y * y + z * z)
    if not 0.1 < size < 10:
        raise ConfigError(f"--table-normal {x} {y} {z} is no direction. The z axis is 0 0 1.")
    return Plane((x / size, y / size, z / size), config.table_m)


def _segmenter(text: str) -> Segmenter | None:
    """The model that --segmenter names."""
    from twinproof.reconstruct.segmenters import GroundingDino, HttpSegmenter, Sam2, Sam3

    kind, _, rest = text.partition(":")
    match kind:
        case "":
            return None
        case "http" | "https":
            return HttpSegmenter(text)
        case "sam2" if rest:
            return Sam2(rest)
        case "sam3" if rest:
            return Sam3(rest)
        case "dino" if "+" in rest and (then := _segmenter(rest.partition("+")[2])) is not None:
            return GroundingDino(rest.partition("+")[0], then)
        case _:
            raise ConfigError(
                f"--segmenter {text!r} is none of http://…, sam2:WEIGHTS, sam3:WEIGHTS and dino:FOLDER+sam2:WEIGHTS."
            )


def _generator(text: str) -> Generator | None:
    """The model that --generate names."""
    import shlex

    from twinproof.reconstruct.generate import HttpGenerator, Subprocess

    if not text:
        return None
    return HttpGenerator(text) if text.startswith(("http://", "https://")) else Subprocess(tuple(shlex.split(text)))


@dataclass(frozen=True)
class Compose:
    """Make a new Twin of an old one: objects removed, moved, replaced, and brought in from other twins.

    examples:
      twinproof compose twin --remove mug --out empty
      twinproof compose twin --move mug=0.3,0.1,0.05 --out moved
      twinproof compose twin --add other_twin:cube=cube_2@0.35,-0.1,0.03 --out clutter
      twinproof compose twin --replace mug=other_twin:bowl --out swapped

    Every part keeps its source. What would interpenetrate is refused.
    """

    twin: Positional[Path]
    """The Twin to begin with; it stays as it is."""
    out: Path
    """The new Twin folder."""
    remove: tuple[str, ...] = ()
    """Bodies to leave out."""
    move: tuple[str, ...] = ()
    """BODY=x,y,z or BODY=x,y,z,yaw: where it stands instead (m, rad)."""
    add: tuple[str, ...] = ()
    """TWIN:BODY=NAME@x,y,z or …,yaw: a body of another twin under a new name."""
    replace: tuple[str, ...] = ()
    """BODY=TWIN:OTHER: another twin's body in its place."""
    tolerance_m: float = 0.001
    """How deep two bodies may overlap."""


def compose(config: Compose) -> int:
    """`twinproof compose`."""
    import tempfile

    from twinproof.ingest import report
    from twinproof.nouns.twin import Twin
    from twinproof.reconstruct import compose as room

    if config.out.exists():
        raise ConfigError(f"{config.out} exists. Nothing is overwritten: name another folder, or remove it.")
    edits: list[room.Edit] = [room.Remove(name) for name in config.remove]
    for text in config.move:
        body, place = _parted(text, "=", "--move", "BODY=x,y,z")
        edits.append(room.Move(body, *_pose(place, text)))
    for text in config.replace:
        body, other = _parted(text, "=", "--replace", "BODY=TWIN:OTHER")
        folder, name = _parted(other, ":", "--replace", "BODY=TWIN:OTHER")
        edits.append(room.Replace(body, Twin.load(Path(folder)), name))
    for text in config.add:
        what, place = _parted(text, "@", "--add", "TWIN:BODY=NAME@x,y,z")
        source, name = _parted(what, "=", "--add", "TWIN:BODY=NAME@x,y,z")
        folder, body = _parted(source, ":", "--add", "TWIN:BODY=NAME@x,y,z")
        edits.append(room.Add(Twin.load(Path(folder)), body, name, *_pose(place, text)))
    if not edits:
        raise ConfigError("compose changes nothing: give --remove, --move, --replace or --add.")
    with tempfile.TemporaryDirectory() as scratch:
        made = room.compose(Twin.load(config.twin), edits, Path(scratch), tolerance_m=config.tolerance_m)
        made.save(config.out)
    settings.save(settings.resolved(config, "compose"), config.out)
    report.say(f"{config.out}: twin {made.hash[:16]}, {len(made.bodies)} bodies")
    return 0


def _parted(text: str, by: str, flag: str, form: str) -> tuple[str, str]:
    left, found, right = text.rpartition(by)
    if not found or not left or not right:
        raise ConfigError(f"{flag} {text!r} is not of the form {form}.")
    return left, right


def _pose(text: str, whole: str) -> tuple[tuple[float, float, float], tuple[float, float, float, float]]:
    from math import cos, isfinite, sin

    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in (3, 4) or not all(isfinite(number) for number in numbers):
        raise ConfigError(f"{whole!r}: the place {text!r} is not x,y,z or x,y,z,yaw in metres and radians.")
    x, y, z, yaw = (*numbers, 0.0)[:4]
    return (x, y, z), (cos(yaw / 2), 0.0, 0.0, sin(yaw / 2))


@dataclass(frozen=True)
class Update:
    """Follow a twin's objects through a new recording: what moved is moved, what no longer fits is named.

    examples:
      twinproof update twin recording --out twin_today
      twinproof update twin recording --episode 3f2a --out twin_today
      twinproof update twin recording --click front,0,195,110=tee --out twin_today

    The cameras must stand as they did. A new Twin comes out; the old one stays as it is.
    """

    twin: Positional[Path]
    """The Twin that was reconstructed from pictures."""
    recording: Positional[Path]
    """A Recording folder of the same rig."""
    out: Path
    """The new Twin folder."""
    episode: str | None = None
    """The episode whose id starts so. Default: the last one."""
    click: tuple[str, ...] = ()
    """camera,frame,x,y=name: where the object is, in a twin without background; what else moves is left alone then."""
    pictures: int = 60
    """How many pictures of each camera are looked at, evenly over the episode."""


def update(config: Update) -> int:
    """`twinproof update`."""
    import tempfile

    from twinproof.ingest import report
    from twinproof.nouns.progress import bar
    from twinproof.nouns.recording import Recording
    from twinproof.nouns.twin import Twin
    from twinproof.reconstruct import update as room
    from twinproof.reconstruct.prompts import read_clicks
    from twinproof.reconstruct.twin_clips import clips_for

    if config.out.exists():
        raise ConfigError(f"{config.out} exists. Nothing is overwritten: name another folder, or remove it.")
    twin, recording = Twin.load(config.twin), Recording.load(config.recording)
    episode = recording.episode(config.episode) if config.episode else recording.episodes[-1]
    with tempfile.TemporaryDirectory() as scratch, bar("update") as progress:
        clips = clips_for(twin, episode.fresh(), recording.rig, config.pictures)
        prompts = read_clicks(config.click) if config.click else None
        done = room.update(
            twin, tuple(clips.values()), Path(scratch), recording.hash, prompts=prompts, progress=progress
        )
        done.twin.save(config.out)
    settings.save(settings.resolved(config, "update"), config.out)
    report.say(f"{config.out}: twin {done.twin.hash[:16]} from {twin.hash[:16]}, episode {episode.id[:8]}")
    for name, move in done.moves.items():
        report.say(f"  {name} moved by {1e3 * float((move[:3] ** 2).sum() ** 0.5):.1f} mm")
    for flag in done.flags:
        report.say(f"  {flag.sentence}")
    return 0


@dataclass(frozen=True)
class StudySensitivity:
    """Say what a hand-made place or size of a body decides: its outlines in the cameras, its mass, where it stands.

    examples:
      twinproof study sensitivity twin --body mug --scale 0.05 --out study
      twinproof study sensitivity twin --body mug --shift-m 0.01 --yaw-rad 0.1 --out study
    """

    twin: Positional[Path]
    """A Twin folder."""
    body: str
    """The body whose place or size was made by hand."""
    out: Path
    """The new folder: sensitivity.json and sensitivity.md."""
    shift_m: float = 0.0
    """How far the truth may lie to either side of its place."""
    yaw_rad: float = 0.0
    """How far it may be turned about the vertical."""
    scale: float = 0.0
    """By what share it may be larger or smaller."""
    draws: int = 16
    """Random combinations of all of these."""


def study_sensitivity(config: StudySensitivity) -> int:
    """`twinproof study sensitivity`."""
    from twinproof.ingest import report
    from twinproof.nouns.files import new_folder, write_json
    from twinproof.nouns.progress import bar
    from twinproof.nouns.twin import Twin
    from twinproof.reconstruct.placement_study import placement_study
    from twinproof.reconstruct.sensitivity import DeclaredRange

    if config.out.exists():
        raise ConfigError(f"{config.out} exists. Nothing is overwritten: name another folder, or remove it.")
    shift = config.shift_m
    declared = DeclaredRange(f"{config.body} by hand", shift, shift, shift, yaw=config.yaw_rad, scale=config.scale)
    with bar("study") as progress:
        found = placement_study(Twin.load(config.twin), config.body, declared, draws=config.draws, progress=progress)
    with new_folder(config.out) as folder:
        write_json(folder / "sensitivity.json", found.report())
        (folder / "sensitivity.md").write_text("\n".join([*found.sentences(), "", found.table(), ""]), encoding="utf-8")
    for sentence in found.sentences():
        report.say(sentence)
    return 0
