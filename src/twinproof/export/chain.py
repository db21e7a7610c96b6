"""Links with one joint each: other formats allow no more between two links, and know no joint but between two.

A link with joints a, b, c becomes three steps in a row: LINK__a, LINK__b and LINK itself, which carries all that the
link has. All steps of a link have the link's own frame at rest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.mesh import Mesh
from twinproof.nouns.mesh_files import welded
from twinproof.sim.anatomy import SHAPES, Anatomy, Joint, Link, Shape
from twinproof.sim.painted import ROUND
from twinproof.sim.tessellate import solid_triangles

if TYPE_CHECKING:
    from jaxtyping import Float

EMPTY_KG = 1e-3  # mass of an empty link between two joints: none at all would stop the solvers
EMPTY_KGM2 = 1e-6


@dataclass(frozen=True, eq=False)
class Step:
    """A link, or an empty one between two joints of a link (then `link` is None)."""

    name: str
    parent: str | None
    T_parent_step: Float[np.ndarray, "4 4"]
    T_world_step: Float[np.ndarray, "4 4"]
    joint: Joint | None
    link: Link | None


def chain(anatomy: Anatomy, *, split_balls: bool = False) -> tuple[Step, ...]:
    """All links as steps, parents first; the world is the first. Ball joints may become three hinges."""
    steps = list[Step]()
    for link in anatomy.links:
        joints: list[Joint | None] = [each for joint in link.joints for each in _hinges(joint, split_balls)] or [None]
        parent, T = link.parent, link.T_parent_link
        for k, joint in enumerate(joints):
            last = k == len(joints) - 1
            name = link.name if last or joint is None else f"{link.name}__{joint.name}"
            steps.append(Step(name, parent, T, link.T_world_link, joint, link if last else None))
            parent, T = name, np.eye(4)
    return tuple(steps)


def _hinges(joint: Joint, split: bool) -> list[Joint]:
    if joint.kind != "ball" or not split:
        return [joint]
    axes = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}
    return [
        replace(joint, name=f"{joint.name}_{name}", kind="hinge", axis=axis, range=None, drives=())
        for name, axis in axes.items()
    ]


def between(anatomy: Anatomy) -> list[str]:
    """Links that several joints move: others need an empty link between two of them."""
    return [link.name for link in anatomy.links if len(link.joints) > 1]


def touched(shape: Shape) -> Mesh:
    """Triangles of a collision shape in its own frame, for formats that do not know the shape."""
    if shape.mesh is not None:
        return shape.mesh
    soup = solid_triangles(SHAPES.index(shape.kind), shape.size_m, float(shape.size_m[0]) / ROUND)
    return welded(Mesh(soup.reshape(-1, 3), np.arange(3 * len(soup)).reshape(-1, 3)))
