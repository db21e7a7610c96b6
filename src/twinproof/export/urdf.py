"""URDF: links, inertias, joints with limits, visual and collision shapes. What it cannot say is told beside it.

A URDF joint turns about the origin of its link, so a link's frame is put where its joint is: all that the link has is
shifted against it. Zero of every joint is where the twin stands at rest. Loose objects hang on floating joints.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import numpy as np

from twinproof.export.chain import EMPTY_KG, EMPTY_KGM2, Step, between, chain, touched
from twinproof.export.subject import Subject, Written
from twinproof.nouns.baked import Baked
from twinproof.nouns.errors import TwinError
from twinproof.nouns.files import write_whole
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.mesh_files import write_mesh
from twinproof.nouns.mesh_glb import to_display, to_linear
from twinproof.sim.anatomy import Joint, Shape
from twinproof.sim.painted import ENDLESS_M
from twinproof.sim.scene import Scene, engine
from twinproof.sim.surface import Surface

if TYPE_CHECKING:
    from jaxtyping import Float

SLAB_M = 0.1  # thickness of the box that stands for a plane
FASTEST = 100.0  # rad/s or m/s: URDF demands a limit of speed, and MJCF has none
STRONGEST = 1e6  # N or N m, where a motor has no limit
FARTHEST_M = 1e3  # of a slide without limits
KINDS = {"hinge": "revolute", "slide": "prismatic", "free": "floating"}


def write_urdf(subject: Subject, folder: Path) -> Written:
    """Writes urdf/twin.urdf and urdf/meshes; what it leaves out."""
    root = folder / "urdf"
    (root / "meshes").mkdir(parents=True)
    writer = _Writer(subject, root)
    for step in loose_last(chain(subject.anatomy, split_balls=True)):
        writer.add(step)
    ET.indent(writer.robot)
    text = ET.tostring(writer.robot, encoding="utf-8", xml_declaration=True)
    write_whole(root / "twin.urdf", text + b"\n")
    again = Scene.read(root / "twin.urdf")  # by MuJoCo's own reader, in a limited process
    return Written(tuple(writer.lost()), (f"{engine()} reads {len(again.nominal().body_mass)} bodies from it",))


def loose_last(steps: Sequence[Step]) -> list[Step]:
    """The same with loose objects at the end: yourdfpy counts a follower's joint wrongly behind a floating one."""
    loose = set[str]()
    for step in steps:
        if step.parent in loose or (step.joint is not None and step.joint.kind == "free"):
            loose.add(step.name)
    return sorted(steps, key=lambda step: step.name in loose)


class _Writer:
    """The robot element, and how far each link's frame lies from the link's own (its joint's anchor)."""

    def __init__(self, subject: Subject, root: Path) -> None:
        self.subject, self.root = subject, root
        self.robot = ET.Element("robot", name="twin")
        self.robot.append(ET.Comment(f" twin {subject.twin.hash}; written by twinproof; see LOST.md "))
        self.shift: dict[str, Float[np.ndarray, "3"]] = {}
        self.followers = {tie.joint: tie for tie in subject.anatomy.couplings if tie.straight and tie.other}
        self.files = set[str]()

    def add(self, step: Step) -> None:
        anchor = np.array(step.joint.anchor_m) if step.joint and step.joint.kind != "free" else np.zeros(3)
        self.shift[step.name] = anchor
        link = ET.SubElement(self.robot, "link", name=step.name)
        if step.link is None:
            _inertial(link, EMPTY_KG, np.zeros(3), EMPTY_KGM2 * np.eye(3))
        elif step.link.mass_kg > 0:  # not the world, nor fixed links that are only looked at
            _inertial(link, step.link.mass_kg, np.array(step.link.com_m) - anchor, step.link.inertia_kgm2)
        if step.link is not None:
            for surface in self.subject.surfaces:
                if surface.link == step.link.name:
                    self._visual(link, surface, anchor)
            for shape in step.link.shapes:
                if shape.touches:
                    self._collision(link, shape, anchor)
        if step.parent is not None:
            self._joint(step, anchor)

    def _visual(self, link: ET.Element, surface: Surface, anchor: np.ndarray) -> None:
        visual = ET.SubElement(link, "visual", name=surface.name)
        ET.SubElement(visual, "origin", xyz=_text(-anchor), rpy="0 0 0")
        name = self._mesh_file(surface.name, "visual")
        tint, mesh = to_linear(np.array(surface.rgba[:3])), surface.mesh
        if surface.texture is not None and surface.st is not None:
            uv = np.stack([surface.st[..., 0], 1 - surface.st[..., 1]], axis=-1)
            dyed = np.round(255 * to_display(to_linear(surface.texture / 255) * tint)).astype(np.uint8)
            write_mesh(self.root / name, Baked(mesh, uv, dyed))
        elif mesh.colours is not None:
            write_mesh(self.root / name, Mesh(mesh.vertices, mesh.faces, to_display(to_linear(mesh.colours) * tint)))
        else:
            write_mesh(self.root / name, mesh)
        ET.SubElement(ET.SubElement(visual, "geometry"), "mesh", filename=name)
        if surface.texture is None and mesh.colours is None:  # a material here would hide what the mesh file says
            material = ET.SubElement(visual, "material", name=f"{surface.link}_{surface.name}")
            ET.SubElement(material, "color", rgba=_text(surface.rgba))

    def _collision(self, link: ET.Element, shape: Shape, anchor: np.ndarray) -> None:
        collision = ET.SubElement(link, "collision", name=shape.name)
        T, size = shape.T_link_shape.copy(), shape.size_m
        kind: str = shape.kind
        if kind == "plane":
            T[:3, 3] -= 0.5 * SLAB_M * T[:3, 2]
        ET.SubElement(collision, "origin", xyz=_text(T[:3, 3] - anchor), rpy=_text(_rpy(T)))
        geometry = ET.SubElement(collision, "geometry")
        match kind:
            case "sphere":
                ET.SubElement(geometry, "sphere", radius=_text(size[:1]))
            case "cylinder":
                ET.SubElement(geometry, "cylinder", radius=_text(size[:1]), length=_text([2 * size[1]]))
            case "box":
                ET.SubElement(geometry, "box", size=_text(2 * size))
            case "plane":
                x, y = (2 * float(s) if s > 0 else 2 * ENDLESS_M for s in size[:2])
                ET.SubElement(geometry, "box", size=_text([x, y, SLAB_M]))
            case _:
                name = self._mesh_file(shape.name, "collision", ".stl")
                write_mesh(self.root / name, touched(shape))
                ET.SubElement(geometry, "mesh", filename=name)

    def _mesh_file(self, name: str, what: str, ending: str = ".obj") -> str:
        safe = "".join(c if c.isalnum() or c in "_-" else "_" for c in name)[:80]
        path = f"meshes/{safe}_{what}{ending}"
        if path in self.files:
            path = f"meshes/{safe}_{what}_{len(self.files)}{ending}"
        self.files.add(path)
        return path

    def _joint(self, step: Step, anchor: np.ndarray) -> None:
        joint, parent = step.joint, str(step.parent)
        T = step.T_parent_step
        place = T[:3, 3] + T[:3, :3] @ anchor - self.shift[parent]
        name = joint.name if joint is not None else f"{step.name}_fixed"
        kind = "fixed" if joint is None else KINDS[joint.kind]
        if joint is not None and joint.kind == "hinge" and joint.range is None:
            kind = "continuous"
        element = ET.SubElement(self.robot, "joint", name=name, type=kind)
        ET.SubElement(element, "origin", xyz=_text(place), rpy=_text(_rpy(T)))
        ET.SubElement(element, "parent", link=parent)
        ET.SubElement(element, "child", link=step.name)
        if joint is not None and joint.kind in ("hinge", "slide"):
            self._motion(element, joint)

    def _motion(self, element: ET.Element, joint: Joint) -> None:
        ET.SubElement(element, "axis", xyz=_text(joint.axis))
        effort = joint.most if joint.most is not None else STRONGEST
        limit = {"effort": _text([effort]), "velocity": _text([FASTEST])}
        if joint.range is not None or joint.kind == "slide":
            low, high = joint.range or (-FARTHEST_M, FARTHEST_M)
            limit |= {"lower": _text([low]), "upper": _text([high])}
        ET.SubElement(element, "limit", limit)
        ET.SubElement(element, "dynamics", damping=_text([joint.damping]), friction=_text([joint.friction_loss]))
        tie = self.followers.get(joint.name)
        if tie is not None:
            ET.SubElement(
                element, "mimic", joint=tie.other, multiplier=_text([tie.multiplier]), offset=_text([tie.offset])
            )

    def lost(self) -> list[str]:
        """What the file does not say, or says otherwise."""
        whole = self.subject.anatomy
        joints = [joint for link in whole.links for joint in link.joints]
        said = [
            "splats",
            "contact: friction, softness and which pairs may touch",
            "rotor inertia (armature), springs, motors: gains, delays and control ranges",
            f"limits of speed: MJCF has none, {FASTEST:g} rad/s or m/s stands there",
            "gravity and the time step",
            *(f"{what} ({count})" for what, count in whole.more.items()),
        ]
        if unlimited := [joint.name for joint in joints if joint.kind in ("hinge", "slide") and joint.most is None]:
            said.append(f"effort of {', '.join(unlimited)}: no motor or no limit, {STRONGEST:g} stands there")
        if endless := [joint.name for joint in joints if joint.kind == "slide" and joint.range is None]:
            said.append(f"that {', '.join(endless)} has no end: {FARTHEST_M:g} m stands there")
        if rested := [joint.name for joint in joints if joint.rest]:
            said.append(f"MuJoCo's zero of {', '.join(rested)}: here zero is where the twin stands at rest")
        if bent := [tie.joint for tie in whole.couplings if not (tie.straight and tie.other)]:
            said.append(f"how {', '.join(bent)} is tied: URDF knows straight lines between two joints only")
        if balls := [joint.name for joint in joints if joint.kind == "ball"]:
            said.append(
                f"that {', '.join(balls)} is a ball joint: three hinges stand for it, which lock at a right angle"
            )
        if several := between(whole):
            said.append(f"that several joints move {', '.join(several)}: empty links of 1 g stand between them")
        if any(shape.kind == "plane" and shape.touches for link in whole.links for shape in link.shapes):
            said.append(f"planes: boxes {SLAB_M:g} m thick stand for them, below the surface")
        if any(shape.kind in ("capsule", "ellipsoid") for link in whole.links for shape in link.shapes):
            said.append("capsules and ellipsoids: meshes stand for them")
        return [*said, *self.subject.notes]


def _inertial(link: ET.Element, mass_kg: float, com_m: np.ndarray, inertia_kgm2: np.ndarray) -> None:
    inertial = ET.SubElement(link, "inertial")
    ET.SubElement(inertial, "origin", xyz=_text(com_m), rpy="0 0 0")
    ET.SubElement(inertial, "mass", value=_text([mass_kg]))
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = inertia_kgm2.tolist()
    values = {"ixx": xx, "ixy": xy, "ixz": xz, "iyy": yy, "iyz": yz, "izz": zz}
    ET.SubElement(inertial, "inertia", {name: _text([value]) for name, value in values.items()})


def _rpy(T: np.ndarray) -> np.ndarray:
    """Roll, pitch, yaw: URDF turns about fixed axes x, y, z in this order."""
    R = T[:3, :3]
    level = float(np.hypot(R[0, 0], R[1, 0]))
    pitch = np.arctan2(-R[2, 0], level)
    if level < 1e-9:  # straight up or down: roll and yaw turn about one axis, and one of them is enough
        return np.array([np.arctan2(-R[1, 2], R[1, 1]), pitch, 0.0])
    return np.array([np.arctan2(R[2, 1], R[2, 2]), pitch, np.arctan2(R[1, 0], R[0, 0])])


def _text(values: object) -> str:
    numbers = np.asarray(values, float).ravel()
    if not np.isfinite(numbers).all():
        raise TwinError(
            f"urdf: the numbers {numbers.tolist()} of the twin's scene are not finite. Make the twin again."
        )
    return " ".join(f"{x:.9g}" for x in numbers + 0.0)
