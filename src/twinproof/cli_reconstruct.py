"""The command that makes twins."""

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
