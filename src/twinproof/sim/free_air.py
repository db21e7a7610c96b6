"""A robot alone: the scene without what lies about, and how near a motion comes to everything that is there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import mujoco
import numpy as np

from twinproof.sim.references import parse_xml

if TYPE_CHECKING:
    from jaxtyping import Float

    from twinproof.sim.scene import Scene

REFERRING = ("sensor", "contact", "equality", "actuator", "tendon", "keyframe")


def free_air(scene: Scene, step_s: float | None = None) -> Scene:
    """The same robot with nothing to touch: no contacts, no bodies that move freely, nothing that only shows.

    With `step_s` its physics takes steps of this length. A URDF has neither objects nor options, and stays as it is.
    """
    tree = parse_xml(scene.xml.encode(), "the scene")
    if tree.tag != "mujoco":
        return scene.leaner()
    gone: set[str] = set()
    for parent in list(tree.iter()):
        for body in [child for child in parent if child.tag == "body" and _floats(child)]:
            gone |= {name for element in body.iter() if (name := element.get("name"))}
            parent.remove(body)
    for section in [child for child in tree if child.tag in REFERRING]:
        if section.tag == "keyframe" and gone:
            tree.remove(section)  # its rows have the width of the whole scene
            continue
        for element in list(section):
            if gone & {value for key, value in _attributes(element) if key not in ("name", "class")}:
                section.remove(element)
    option = ElementTree.SubElement(tree, "option", {} if step_s is None else {"timestep": repr(step_s)})
    ElementTree.SubElement(option, "flag", {"contact": "disable"})
    return replace(scene, xml=ElementTree.tostring(tree, encoding="unicode"), lean=True)


def _floats(body: ElementTree.Element) -> bool:
    return any(child.tag == "freejoint" or (child.tag == "joint" and child.get("type") == "free") for child in body)


def _attributes(element: ElementTree.Element) -> Iterable[tuple[str, str]]:
    for each in element.iter():
        yield from each.attrib.items()


class Clearance:
    """Distances between the robot's moving parts and everything they may touch, up to `reach_m`.

    What is that near at home already (a base on its table, neighbouring links) is left out.
    """

    def __init__(self, scene: Scene, home: np.ndarray, reach_m: float) -> None:
        self.model: Any = scene.leaner().compile()
        self.reach_m = reach_m
        self.model.geom_margin[:] = np.maximum(self.model.geom_margin, reach_m)
        self.data = mujoco.MjData(self.model)
        self._moves = self._driven()
        self._known = set[tuple[int, int]]()
        self._known = set(self._near(home))

    def _driven(self) -> np.ndarray:
        """Which geoms an actuator can move."""
        model = self.model
        joints = {int(model.actuator_trnid[a, 0]) for a in range(model.nu) if model.actuator_trntype[a] == 0}
        moved = np.zeros(model.nbody, dtype=bool)
        for body in range(1, model.nbody):
            first, count = int(model.body_jntadr[body]), int(model.body_jntnum[body])
            own = any(joint in joints for joint in range(first, first + count)) if count else False
            moved[body] = own or moved[model.body_parentid[body]]
        found: np.ndarray = moved[model.geom_bodyid]
        return found

    def _near(self, qpos: np.ndarray) -> dict[tuple[int, int], float]:
        model, data = self.model, self.data
        data.qpos[:] = qpos
        mujoco.mj_kinematics(model, data)
        mujoco.mj_collision(model, data)
        found: dict[tuple[int, int], float] = {}
        if not data.ncon:
            return found
        pairs, distance = data.contact.geom, data.contact.dist
        for (one, other), each in zip(pairs.tolist(), distance.tolist(), strict=True):
            if (self._moves[one] or self._moves[other]) and (one, other) not in self._known:
                found[one, other] = min(each, found.get((one, other), np.inf))
        return found

    def least(self, qpos: Float[np.ndarray, "T nq"]) -> tuple[float, str]:
        """The least distance on the way, at most `reach_m`, and between which two ("" where nothing is that near)."""
        least, who = self.reach_m, ""
        for row in qpos:
            for (one, other), distance in self._near(row).items():
                if distance < least:
                    least, who = distance, f"{self._name(one)} and {self._name(other)}"
        return least, who

    def _name(self, geom: int) -> str:
        body = self.model.body(int(self.model.geom_bodyid[geom])).name
        return body or self.model.geom(geom).name or f"geom {geom}"
