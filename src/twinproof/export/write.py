"""A twin written in the formats of other tools, in one folder that appears whole.

export.json   the twin's hash, frame and colour space, every file's hash, what each format lost, and who loaded it
LOST.md       the same losses, to read
mjcf/         scene.xml and its files          urdf/   twin.urdf and its meshes
twin.usdz     physics, meshes and splats       twin.glb   meshes with textures
splats.ply    reference layout                 splats.spz version 3
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from twinproof.export.read_back import read_back
from twinproof.export.subject import Subject, Written, runs_of, subject_of
from twinproof.nouns.errors import ConfigError, TwinError
from twinproof.nouns.files import file_hashes, new_folder, write_sealed, write_whole
from twinproof.nouns.hashing import Json
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.twin import Twin

FORMAT = "twinproof/export/1"
FORMATS = ("mjcf", "urdf", "usdz", "glb", "ply", "spz")
FRAME = {
    "metres_per_unit": 1,
    "up": "+z (GLB: +y by its specification, turned by its root node)",
    "handedness": "right",
    "world": "the robot's world, as in scene.xml; T_world_splats is the identity",
    "colours": "display-referred sRGB (GLB factors and vertex colours: linear, by its specification)",
}


@dataclass(frozen=True)
class Exported:
    """What was written: files by format, with what each format could not say."""

    files: dict[str, tuple[str, ...]]
    written: dict[str, Written]


def asked(words: Sequence[str]) -> tuple[str, ...]:
    """The formats that were asked for, each once, in our order; names may be apart by commas."""
    names = [name.strip().lower() for word in words for name in word.split(",") if name.strip()]
    unknown = [name for name in names if name not in FORMATS]
    if unknown or not names:
        found = f"unknown format {unknown[0]!r}" if unknown else "no format is named"
        raise ConfigError(f"export: {found}. There are {', '.join(FORMATS)}; several are apart by commas.")
    return tuple(name for name in FORMATS if name in names)


def export(twin: Twin, formats: Sequence[str], out: Path, progress: Progress = quiet) -> Exported:
    """Writes a twin in each of the formats into a new folder; nothing is kept if one of them fails."""
    chosen = asked(formats)
    writers = {name: _writer(name) for name in chosen}  # a missing extra is told before any work
    progress(0, "reading", len(chosen))
    subject = subject_of(twin)
    with new_folder(out) as folder:
        files, written, before = dict[str, tuple[str, ...]](), dict[str, Written](), set[str]()
        for k, name in enumerate(chosen):
            progress(k, name, len(chosen))
            done = writers[name](subject, folder)
            now = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
            files[name], before = tuple(sorted(now - before)), now
            written[name] = replace(done, checked=(*done.checked, *_again(subject, folder, name, files[name])))
        progress(len(chosen), "done", len(chosen))
        write_whole(folder / "LOST.md", _lost_page(twin, written).encode())
        hashes = file_hashes(folder)
        entries: Json = {
            name: {"files": {file: hashes[file] for file in files[name]}, "lost": list(each.lost),
                   "checked": list(each.checked)}
            for name, each in written.items()
        }  # fmt: skip
        head: dict[str, Json] = {"format": FORMAT, "twin": twin.hash, "engine": twin.engine, "frame": FRAME}
        runs = {} if subject.splats is None else runs_of(subject.splats)
        write_sealed(folder / "export.json", {**head, "formats": entries, "splats": runs, "files": hashes})
    return Exported(files, written)


def _again(subject: Subject, folder: Path, name: str, files: tuple[str, ...]) -> tuple[str, ...]:
    """Reads a file of looks again, as a stranger would; all that was put in must come out."""
    if name in ("mjcf", "urdf"):
        return ()
    back = read_back(folder / files[0])
    splats = 0 if back.splats is None else len(back.splats)
    want = (len(subject.surfaces) if name in ("usdz", "glb") else 0, 0)
    if name in ("usdz", "ply", "spz") and subject.splats is not None:
        want = (want[0], len(subject.splats))
    if (len(back.surfaces), splats) != want:
        raise TwinError(
            f"{files[0]} gives back {len(back.surfaces)} surfaces and {splats} splats, and {want[0]} and {want[1]} "
            "were put in. Report this with the twin's hash."
        )
    return (f"read again by twinproof: {want[0]} surfaces, {want[1]} splats",)


def _writer(name: str) -> Callable[[Subject, Path], Written]:
    match name:
        case "mjcf":
            from twinproof.export.mjcf import write_mjcf

            return write_mjcf
        case "urdf":
            from twinproof.export.urdf import write_urdf

            return write_urdf
        case "usdz":
            from twinproof.export.usdz import usd, write_usdz

            usd()
            return write_usdz
        case "glb":
            from twinproof.export.glb import write_glb

            return write_glb
        case "ply":
            from twinproof.export.splat_file import write_splat_ply

            return write_splat_ply
        case _:
            from twinproof.export.splat_file import write_splat_spz

            return write_splat_spz


def _lost_page(twin: Twin, written: dict[str, Written]) -> str:
    lines = ["# What each format leaves out", "", f"Of the twin `{twin.hash}`. The twin itself has it all.", ""]
    for name, each in written.items():
        lines += [f"## {name}", "", *(f"- {what}" for what in each.lost), ""]
        lines += [f"Looked at: {'; '.join(each.checked)}.", ""]
    return "\n".join(lines)
