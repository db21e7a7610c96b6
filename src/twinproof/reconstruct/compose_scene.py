"""Bodies cut out of one MJCF scene and put into another: names, meshes, materials and defaults come along.

scene = EditedScene(twin.root)
scene.remove("cube")
scene.move("bowl", pose)
files = scene.add(other.root, "cube", "red_cube", pose)      files to copy: path there -> path here
scene.text()
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import numpy as np

from twinproof.nouns.errors import TwinError
from twinproof.sim.references import file_references, parse_xml

OUTSIDE = ("actuator", "sensor", "equality", "contact", "tendon", "deformable")  # sections that name parts of bodies
TURNS = ("quat", "euler", "axisangle", "xyaxes", "zaxis")
ALIKE = {"angle": "degree", "eulerseq": "xyz", "coordinate": "local", "inertiafromgeom": "auto", "autolimits": "true"}
NAMES_OF = {  # attribute -> the section of <asset> that it names
    "mesh": "mesh", "material": "material", "texture": "texture", "hfield": "hfield",
}  # fmt: skip


class EditedScene:
    """A scene's tree while it is changed; `notes` says what went along with a body."""

    def __init__(self, root: Path) -> None:
        self.path = root / "scene.xml"
        self.tree = parse_xml(self.path.read_bytes(), str(self.path))
        self.notes: list[str] = []

    def text(self) -> str:
        """The scene as it is now."""
        indent(self.tree)
        return tostring(self.tree, encoding="unicode")

    def has(self, name: str) -> bool:
        """Whether there is a body of that name."""
        return any(body.get("name") == name for body in self.tree.iter("body"))

    def inner(self, name: str) -> set[str]:
        """The body and all bodies inside it."""
        return {body.get("name", "") for body in self._found(name)[1].iter("body")}

    def remove(self, name: str) -> None:
        """Takes a body out, with all that is inside it and all that names something of it."""
        parent, body = self._found(name)
        gone = {element.get("name", "") for element in body.iter() if element.get("name")}
        parent.remove(body)
        for section in [element for element in self.tree if element.tag in OUTSIDE]:
            for entry in list(section):
                words = {
                    value for each in entry.iter() for key, value in each.attrib.items() if key not in ("name", "class")
                }
                if words & gone:
                    section.remove(entry)
                    label = entry.get("name") or entry.tag
                    self.notes.append(f"{section.tag} {label!r} went with the body {name!r}")
        self._forget_keyframes()

    def move(self, name: str, position_m: np.ndarray, quat_wxyz: np.ndarray) -> None:
        """Puts a body that stands in the world elsewhere in it."""
        parent, body = self._found(name)
        if parent.tag != "worldbody":
            raise TwinError(
                f"{self.path}: body {name!r} hangs on {parent.get('name') or parent.tag!r}. Only bodies that stand in "
                "the world are moved: move what it hangs on."
            )
        _placed(body, position_m, quat_wxyz)
        self._forget_keyframes()

    def add(
        self, root: Path, name: str, new_name: str, position_m: np.ndarray, quat_wxyz: np.ndarray
    ) -> dict[str, str]:
        """Brings a body of another scene; gives the files that have to be copied (path there -> path here)."""
        other = EditedScene(root)
        self._check_alike(other)
        if self.has(new_name):
            raise TwinError(f"{self.path} has a body {new_name!r} already. Give the new one another name.")
        body = copy.deepcopy(other._found(name)[1])
        lost = [section.tag for section in other.tree if section.tag in OUTSIDE and _names_part_of(section, body)]
        for tag in sorted(set(lost)):
            self.notes.append(f"{tag} of body {name!r} was not brought along")
        for element in body.iter():
            if element.get("name"):
                element.set("name", new_name if element is body else _renamed(element.get("name", ""), name, new_name))
        _placed(body, position_m, quat_wxyz)
        files = self._bring_assets(other, body, new_name)
        self._bring_defaults(other, body, new_name)
        self._section("worldbody").append(body)
        self._forget_keyframes()
        return files

    def _found(self, name: str) -> tuple[Element, Element]:
        for parent in self.tree.iter():
            for body in parent.findall("body"):
                if body.get("name") == name:
                    return parent, body
        known = ", ".join(body.get("name", "") for body in self.tree.iter("body")) or "none"
        raise TwinError(f"{self.path} has no body {name!r}; it has {known}.")

    def _section(self, tag: str) -> Element:
        found = self.tree.find(tag)
        return found if found is not None else SubElement(self.tree, tag)

    def _forget_keyframes(self) -> None:
        for section in self.tree.findall("keyframe"):
            self.tree.remove(section)
            self.notes.append("keyframes were removed: their states do not fit the changed scene")

    def _check_alike(self, other: EditedScene) -> None:
        for key, default in ALIKE.items():
            values = [compiler_value(each.tree, key, default) for each in (self, other)]
            if values[0] != values[1]:
                raise TwinError(
                    f"{self.path} has compiler {key}={values[0]!r}, {other.path} {values[1]!r}: numbers would change "
                    "their meaning. Write one of the scenes anew (MjSpec.to_xml does)."
                )

    def _bring_assets(self, other: EditedScene, body: Element, new_name: str) -> dict[str, str]:
        """Copies what the body's geoms name, and what that names; file names and names get the body's in front."""
        theirs = {(e.tag, _asset_name(e)): e for s in other.tree.findall("asset") for e in s}
        paths = {id(element): path for element, path in file_references(other.tree)}
        wanted, brought, files = [body], dict[tuple[str, str], str](), dict[str, str]()
        while wanted:
            for element in wanted.pop().iter():
                for key, kind in NAMES_OF.items():
                    old = element.get(key)
                    if old is None or (kind, old) not in theirs:
                        continue
                    if (kind, old) not in brought:
                        brought[kind, old] = f"{new_name}_{old}"
                        asset = copy.deepcopy(theirs[kind, old])
                        asset.set("name", brought[kind, old])
                        source = paths.get(id(theirs[kind, old]))
                        if source is not None:
                            files[source] = self._landing(kind, new_name, source)
                            asset.set("file", self._named(kind, files[source]))
                        asset.attrib.pop("class", None)
                        self._section("asset").append(asset)
                        wanted.append(asset)
                    element.set(key, brought[kind, old])
        return files

    def _folder(self, kind: str) -> str:
        key = "texturedir" if kind == "texture" else "meshdir"
        return compiler_value(self.tree, key, compiler_value(self.tree, "assetdir", ""))

    def _landing(self, kind: str, new_name: str, source: str) -> str:
        folder = self._folder(kind)
        return PurePosixPath(folder or "meshes", f"{new_name}_{PurePosixPath(source).name}").as_posix()

    def _named(self, kind: str, path: str) -> str:
        folder = self._folder(kind)
        return PurePosixPath(path).relative_to(folder).as_posix() if folder else path

    def _bring_defaults(self, other: EditedScene, body: Element, new_name: str) -> None:
        """The other scene's defaults become a class of ours, below the body."""
        for section in other.tree.findall("default"):
            theirs = copy.deepcopy(section)
            theirs.set("class", f"{new_name}_{theirs.get('class', 'main')}")
            for element in theirs.iter("default"):
                if element is not theirs:
                    element.set("class", f"{new_name}_{element.get('class')}")
            ours = self._section("default")
            ours.append(theirs)
            for element in body.iter():
                for key in ("class", "childclass"):
                    if element.get(key):
                        element.set(key, f"{new_name}_{element.get(key)}")
            if not body.get("childclass"):
                body.set("childclass", str(theirs.get("class")))


def compiler_value(tree: Element, key: str, default: str) -> str:
    """An attribute of the scene's compiler: the last one counts."""
    found = default
    for element in tree.iter("compiler"):
        found = element.get(key, found)
    return found


def _asset_name(element: Element) -> str:
    return element.get("name") or PurePosixPath(element.get("file", "")).stem


def _renamed(name: str, old: str, new: str) -> str:
    return name.replace(old, new) if old in name else f"{new}_{name}"


def _placed(body: Element, position_m: np.ndarray, quat_wxyz: np.ndarray) -> None:
    for key in TURNS:
        body.attrib.pop(key, None)
    body.set("pos", " ".join(f"{x:.9g}" for x in position_m))
    body.set("quat", " ".join(f"{x:.9g}" for x in quat_wxyz))


def _names_part_of(section: Element, body: Element) -> bool:
    names = {element.get("name") for element in body.iter() if element.get("name")}
    return any(value in names for entry in _entries(section) for value in entry.attrib.values())


def _entries(section: Element) -> Iterator[Element]:
    for entry in section:
        yield from entry.iter()
