"""What a model's text pulls in: includes are written out, and the names of its other files are listed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from xml.etree import ElementTree
from xml.parsers import expat

from twinproof.nouns.errors import SimError

TEXT_LIMIT = 64 << 20  # bytes of one XML file
INCLUDE_LIMIT = 200  # files
DEPTH_LIMIT = 200  # elements inside one another
PACKAGE = re.compile(r"package://([^/]+)/(.+)")


def parse_xml(data: bytes, where: str) -> ElementTree.Element:
    """The tree of an XML text. A DOCTYPE (entities, other files) is refused, and so is absurd depth."""
    if len(data) > TEXT_LIMIT:
        raise SimError(f"{where} has {len(data) >> 20} MB of XML, {TEXT_LIMIT >> 20} are allowed. Move data to files.")
    builder, parser, depth = ElementTree.TreeBuilder(), expat.ParserCreate(), [0]

    def doctype(*_: object) -> None:
        raise SimError(f"{where} has a DOCTYPE, which can define entities and pull in files. Remove it.")

    def start(tag: str, attributes: dict[str, str]) -> None:
        depth[0] += 1
        if depth[0] > DEPTH_LIMIT:
            raise SimError(f"{where} has elements {DEPTH_LIMIT} deep inside one another. Flatten it.")
        builder.start(tag, attributes)

    def end(tag: str) -> None:
        depth[0] -= 1
        builder.end(tag)

    parser.StartDoctypeDeclHandler, parser.StartElementHandler, parser.EndElementHandler = doctype, start, end
    parser.CharacterDataHandler = builder.data
    try:
        parser.Parse(data, True)
    except expat.ExpatError as problem:
        raise SimError(f"{where} is not well-formed XML ({problem}). Mend that line.") from None
    except (ValueError, LookupError) as problem:
        raise SimError(f"{where} is in an encoding that cannot be read ({problem}). Save it as UTF-8.") from None
    return builder.close()


def expand(path: Path, root: Path) -> str:
    """The model's text with every include written out, and URDF packages as paths; nothing lies outside the root."""
    tree = _Includes(path.parent, root).read(path, ())
    if tree.tag == "robot":
        _resolve_packages(tree, path.parent, root)
    return ElementTree.tostring(tree, encoding="unicode")


def pulled_in(path: Path) -> tuple[Path, ...]:
    """The files that a model reads beside its own, sorted, whether they exist or not: includes, theirs in turn, meshes,
    textures, height fields. A text that cannot be read is an error."""
    includes = _Includes(path.parent, path.parent)
    tree = includes.read(path, ())
    if tree.tag == "robot":
        _resolve_packages(tree, path.parent, path.parent)
    return tuple(sorted({*includes.seen[1:], *(path.parent / name for _, name in file_references(tree))}))


def inside_root(folder: Path, name: str, root: Path, where: str) -> Path:
    """The file `name` seen from the model's folder, refused when it lies outside the root by any trick."""
    path = folder / name
    if not name or "\x00" in name or Path(name).is_absolute() or re.match(r"[A-Za-z][\w+.-]*:|\\", name):
        raise SimError(f"{where} names the file {name!r}. Files are named by paths relative to the model's folder.")
    if not path.resolve().is_relative_to(root.resolve()):
        raise SimError(
            f"{where} names {name!r}, which lies outside {root}. Copy it inside, or name the folder that holds all."
        )
    return path


@dataclass
class _Includes:
    """Reads a model with its includes, as MuJoCo would: names are seen from the main file's folder, then their own."""

    folder: Path
    root: Path
    seen: list[Path] = field(default_factory=list)

    def read(self, path: Path, outer: tuple[Path, ...]) -> ElementTree.Element:
        if path.resolve() in outer:
            chain = " → ".join(each.name for each in (*outer, path))
            raise SimError(f"{path} includes itself ({chain}). Break the circle.")
        self.seen.append(path)
        if len(self.seen) > INCLUDE_LIMIT:
            raise SimError(f"{path}: more than {INCLUDE_LIMIT} includes. Write the model out in fewer files.")
        tree = parse_xml(_bytes(path), str(path))
        self._splice(tree, path, (*outer, path.resolve()))
        return tree

    def _splice(self, element: ElementTree.Element, path: Path, outer: tuple[Path, ...]) -> None:
        for child in list(element):
            if child.tag != "include":
                self._splice(child, path, outer)
                continue
            name = child.get("file", "")
            target = inside_root(self.folder, name, self.root, str(path))
            if not target.is_file():
                target = inside_root(path.parent, name, self.root, str(path))
            place = list(element).index(child)
            element[place : place + 1] = list(self.read(target, outer))


def _bytes(path: Path) -> bytes:
    if not path.is_file():
        raise SimError(f"the model file {path} does not exist. Check the path.")
    if path.stat().st_size > TEXT_LIMIT:
        raise SimError(
            f"{path} has {path.stat().st_size >> 20} MB, {TEXT_LIMIT >> 20} are allowed. Move data to files of its own."
        )
    return path.read_bytes()


def _resolve_packages(tree: ElementTree.Element, folder: Path, root: Path) -> None:
    """package://NAME/PATH becomes the path of that file below the root: NAME/PATH, or PATH where NAME is the root."""
    for element in tree.iter():
        found = PACKAGE.fullmatch(element.get("filename", ""))
        if not found:
            continue
        package, rest = found.groups()
        for name in (f"{package}/{rest}", rest):
            path = inside_root(root, name, root, f"a mesh of the robot {tree.get('name', '')!r}")
            if path.is_file():
                element.set("filename", Path(os.path.relpath(path.resolve(), folder.resolve())).as_posix())
                break
        else:
            raise SimError(
                f"the robot names {element.get('filename')!r}, and neither {package}/{rest} nor {rest} is in {root}. "
                "Name the folder that holds the package as root."
            )


def files_of(xml: str) -> tuple[str, ...]:
    """The files that a model without includes names, seen from its folder."""
    tree = parse_xml(xml.encode(), "the scene")
    return tuple(sorted({name for _, name in file_references(tree)}))


def file_references(tree: ElementTree.Element) -> Iterator[tuple[ElementTree.Element, str]]:
    """Every element that names a file, with the file's path seen from the model's folder."""
    folders, strip = {"mesh": "", "texture": ""}, False
    for compiler in tree.iter("compiler"):
        both = compiler.get("assetdir")
        for kind in folders:
            folders[kind] = compiler.get(f"{kind}dir", both if both is not None else folders[kind])
        strip = compiler.get("strippath", str(strip)).lower() == "true"
    for element in tree.iter():
        if element.tag in ("include", "model", "attach") and "file" in element.attrib:
            raise SimError(
                f"the scene pulls in {element.get('file')!r} with <{element.tag}>. Write the model out in one file."
            )
        kind = "texture" if element.tag == "texture" else "mesh"
        for key, name in element.attrib.items():
            if key.startswith("file") and name:
                name = PurePosixPath(name).name if strip else name
                yield element, PurePosixPath(folders[kind], name).as_posix()
