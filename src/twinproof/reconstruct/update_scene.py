"""A twin's own MJCF with bodies put elsewhere: the text stays as it is but for their places."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import numpy as np

from twinproof.nouns.errors import TwinError
from twinproof.sim.handled import qpos_of

if TYPE_CHECKING:
    from jaxtyping import Float

TURNS = ("quat", "axisangle", "euler", "xyaxes", "zaxis")


def movable(path: Path) -> tuple[str, ...]:
    """Bodies that stand in the world by themselves: what holds them is nothing but their own place."""
    return tuple(body.get("name", "") for body in _bodies(_read(path)))


def has_keys(path: Path) -> bool:
    """Whether the scene has key frames."""
    return bool(_read(path).findall("keyframe/key"))


def moved_scene(path: Path, poses: Mapping[str, Float[np.ndarray, "4 4"]]) -> str:
    """The scene's text with these bodies at T_world_body. Key frames, which hold whole states, are left out."""
    root = _read(path)
    if not poses:
        return path.read_text(encoding="utf-8")
    known = {body.get("name", ""): body for body in _bodies(root)}
    for name, T in poses.items():
        if name not in known:
            raise TwinError(f"{path}: the body {name!r} does not stand in the world by itself. Move what it hangs on.")
        place = qpos_of(T)
        body = known[name]
        for turn in TURNS:
            body.attrib.pop(turn, None)
        body.set("pos", " ".join(f"{v:.9g}" for v in place[:3]))
        body.set("quat", " ".join(f"{v:.9g}" for v in place[3:]))
    for key in root.findall("keyframe"):
        root.remove(key)
    return ElementTree.tostring(root, encoding="unicode")


def _read(path: Path) -> ElementTree.Element:
    text = path.read_text(encoding="utf-8")
    if re.search(r"<!(DOCTYPE|ENTITY)", text):
        raise TwinError(f"{path} declares entities. A twin's scene is plain MJCF: write it without them.")
    return ElementTree.fromstring(text)


def _bodies(root: ElementTree.Element) -> list[ElementTree.Element]:
    return [body for world in root.findall("worldbody") for body in world.findall("body")]
