"""How far things are apart, by MuJoCo's own collision shapes: below 0 they interpenetrate.

solids = Solids({"cup": parts, "finger": [box]})         convex parts, each set movable
solids.separation_m("cup", "finger", T_world_cup)
overlaps(scene)                                          bodies of a scene that are inside each other as it starts
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np

from twinproof.nouns.errors import SimError
from twinproof.nouns.mesh import Mesh
from twinproof.sim.scene import Scene, compiled

if TYPE_CHECKING:
    from jaxtyping import Float


class Solids:
    """Named sets of convex meshes, compiled once; each set is placed when distances are asked for."""

    def __init__(self, sets: Mapping[str, Sequence[Mesh]]) -> None:
        spec: Any = mujoco.MjSpec()
        for name, parts in sets.items():
            body = spec.worldbody.add_body(name=name, mocap=True)
            for k, part in enumerate(parts):
                vertices = [float(x) for x in part.vertices.ravel()]
                spec.add_mesh(name=f"{name}/{k}", uservert=vertices, userface=[int(i) for i in part.faces.ravel()])
                body.add_geom(type=mujoco.mjtGeom.mjGEOM_MESH, meshname=f"{name}/{k}")
        self.model: Any = compiled(spec)
        self.data: Any = mujoco.MjData(self.model)
        self.names = tuple(sets)

    def separation_m(
        self,
        first: str,
        second: str,
        T_world_first: Float[np.ndarray, "4 4"] | None = None,
        T_world_second: Float[np.ndarray, "4 4"] | None = None,
        most_m: float = 0.1,
    ) -> float:
        """The least distance between two sets, at most `most_m`; below 0 the depth of the deepest overlap."""
        for name, pose in ((first, T_world_first), (second, T_world_second)):
            if name not in self.names:
                raise SimError(f"there is no solid {name!r}; there are {', '.join(self.names)}.")
            index = int(self.model.body(name).mocapid[0])
            T = np.eye(4) if pose is None else np.asarray(pose, float)
            self.data.mocap_pos[index] = T[:3, 3]
            mujoco.mju_mat2Quat(self.data.mocap_quat[index], T[:3, :3].ravel())
        mujoco.mj_kinematics(self.model, self.data)
        return float(
            min(
                mujoco.mj_geomDistance(self.model, self.data, a, b, most_m, None)
                for a in self._geoms(first)
                for b in self._geoms(second)
            )
        )

    def _geoms(self, name: str) -> range:
        body = self.model.body(name)
        return range(int(body.geomadr[0]), int(body.geomadr[0]) + int(body.geomnum[0]))


@dataclass(frozen=True)
class Overlap:
    """Two bodies that are inside each other."""

    first: str
    second: str
    depth_m: float


def overlaps(scene: Scene, tolerance_m: float = 0.001) -> tuple[Overlap, ...]:
    """Pairs of bodies that interpenetrate by more than the tolerance as the scene starts, deepest first.

    Pairs that never collide there (parent and child, excluded ones, other contact bits) are not looked at.
    """
    model: Any = scene.nominal()
    data: Any = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    deepest = dict[tuple[str, str], float]()
    for contact in data.contact:
        bodies = sorted(model.body(int(model.geom_bodyid[geom])).name for geom in contact.geom)
        pair = (bodies[0], bodies[1])
        deepest[pair] = max(deepest.get(pair, 0.0), -float(contact.dist))
    found = [Overlap(*pair, depth) for pair, depth in deepest.items() if depth > tolerance_m]
    return tuple(sorted(found, key=lambda each: -each.depth_m))
