"""The commands that change what stands in a twin, follow what moved, and say what a hand-made place decides."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from twinproof import settings
from twinproof.nouns.errors import ConfigError


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
