"""Sizes of geoms and meshes, and the direction and strength of gravity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from twinproof.nouns.errors import SimError
from twinproof.sim.parameters.base import Named, Parameter
from twinproof.sim.parameters.columns import Entry

if TYPE_CHECKING:
    from mujoco import MjModel, MjSpec

    from twinproof.sim.fields import Fields

# A mesh is turned to its principal axes when it is compiled; trees of boxes are built around it.
MESHES = (
    *("mesh_vert", "mesh_scale", "mesh_pos", "mesh_quat", "mesh_normal", "mesh_extrema", "mesh_polynormal"),
    *("bvh_aabb", "bvh_nodeid", "bvh_child", "bvh_depth", "oct_aabb", "oct_coeff"),
)
FREE = 0  # mjtJoint
PLANE, HFIELD, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX, MESH, SDF = range(9)  # mjtGeom


@dataclass(frozen=True)
class _Scale(Named):
    """A factor on a size. A mass that came from density follows; a stated mass stays (a geom's inertia then follows its
    size, a body's stated inertia stays). A body.NAME.mass in the same Theta states the mass, at the nominal shape.

    The compiler shares a body's mass out among its geoms and forgets how, so every value needs a compiled model.
    """

    QUANTITY: ClassVar = "scale"
    LIMITS: ClassVar = (0.01, 100.0)
    LOG: ClassVar = True
    FIELDS: ClassVar = ("geom_size", "geom_pos", "geom_quat", "geom_rbound", "geom_aabb", "geom_fluid")
    DERIVES: ClassVar = True

    @property
    def fields(self) -> tuple[str, ...]:
        return (*self.FIELDS, "body_mass", "body_ipos", "body_iquat", "body_inertia", *MESHES)

    def read(self, model: MjModel) -> float:
        return 1.0

    def fast(self, model: MjModel) -> bool:
        return False

    def poke(self, fields: Fields, value: np.ndarray) -> None:
        raise SimError(f"{self.id} needs a model compiled for every value. Use instantiate.")


@dataclass(frozen=True)
class GeomScale(_Scale):
    """The size of one geom, about its own middle; a mesh grows about its own origin."""

    KIND: ClassVar = "geom"

    def lacks(self, model: MjModel) -> str:
        i = self.index(model)
        kind, mesh = int(model.geom_type[i]), int(model.geom_dataid[i])
        if kind in (PLANE, HFIELD, SDF):
            return f"the geom {self.name!r} is a plane, a height field or a distance field"
        shared = int((model.geom_dataid == mesh).sum()) if kind == MESH else 1
        if shared > 1:
            return f"{shared} geoms share the mesh of {self.name!r}: scale mesh.{model.mesh(mesh).name}.scale"
        return ""

    def write(self, spec: MjSpec, value: float) -> None:
        import mujoco

        geom = spec.geom(self.name)
        if geom.type == mujoco.mjtGeom.mjGEOM_MESH:
            mesh = spec.mesh(geom.meshname)
            mesh.scale = mesh.scale * value
        elif geom.meshname:  # a primitive fitted to a mesh
            geom.fitscale *= value
        else:
            geom.size = geom.size * value
            if np.isfinite(geom.fromto[0]):
                middle = (geom.fromto[:3] + geom.fromto[3:]) / 2
                half = (geom.fromto[3:] - geom.fromto[:3]) / 2 * value
                geom.fromto = np.concatenate([middle - half, middle + half])


@dataclass(frozen=True)
class MeshScale(_Scale):
    """The size of a mesh wherever it is used, about its own origin."""

    KIND: ClassVar = "mesh"

    def write(self, spec: MjSpec, value: float) -> None:
        mesh = spec.mesh(self.name)
        mesh.scale = mesh.scale * value


@dataclass(frozen=True)
class BodyScale(_Scale):
    """The size of a body: all its geoms and the meshes that only it has, about the body's own origin."""

    KIND: ClassVar = "body"

    def lacks(self, model: MjModel) -> str:
        mine = np.flatnonzero(model.geom_bodyid == self.index(model))
        if not mine.size:
            return f"the body {self.name!r} has no geoms"
        if np.isin(model.geom_type[mine], (PLANE, HFIELD, SDF)).any():
            return f"the body {self.name!r} has a plane, a height field or a distance field"
        meshes = model.geom_dataid[mine][model.geom_dataid[mine] >= 0]
        shared = np.isin(model.geom_dataid, meshes) & (model.geom_bodyid != self.index(model))
        return f"another body shares a mesh with {self.name!r}" if shared.any() else ""

    def write(self, spec: MjSpec, value: float) -> None:
        grown = set[str]()
        for geom in spec.body(self.name).geoms:
            geom.pos = geom.pos * value
            if geom.meshname:
                grown.add(geom.meshname)
            elif np.isfinite(geom.fromto[0]):
                geom.fromto, geom.size = geom.fromto * value, geom.size * value
            else:
                geom.size = geom.size * value
        for name in sorted(grown):
            mesh = spec.mesh(name)
            mesh.scale = mesh.scale * value


@dataclass(frozen=True)
class BodyPlace(Entry):
    """One coordinate of a body in its parent's frame: where something that does not move freely was put up."""

    axis: int
    KIND: ClassVar = "body"
    UNIT: ClassVar = "m"
    LIMITS: ClassVar = (-1e3, 1e3)
    FIELDS: ClassVar = ("body_pos",)
    DERIVES: ClassVar = True
    ATTRIBUTE: ClassVar = "pos"

    @property
    def quantity(self) -> str:
        return "xyz"[self.axis]

    @property
    def columns(self) -> tuple[int, ...]:
        return (self.axis,)

    def lacks(self, model: MjModel) -> str:
        body = self.index(model)
        if body == 0:
            return "the world stays where it is"
        first = int(model.body_jntadr[body])
        free = first >= 0 and model.jnt_type[first] == FREE
        return f"the body {self.name!r} moves freely: use body.{self.name}.start_{self.quantity}" if free else ""

    def thing(self, spec: MjSpec) -> Any:
        return spec.body(self.name)


@dataclass(frozen=True)
class Gravity(Parameter):
    """Strength of gravity (m/s²), or its tilt from straight down about the world's x or y axis (rad), which keeps the
    strength: down = −Ry(tilt_y) Rx(tilt_x) ẑ."""

    quantity: str  # "magnitude", "tilt_x", "tilt_y"
    KIND: ClassVar = "gravity"
    FIELDS: ClassVar = ("opt.gravity",)

    @property
    def id(self) -> str:
        return f"gravity.{self.quantity}"

    @property
    def unit(self) -> str:
        return "m/s²" if self.quantity == "magnitude" else "rad"

    @property
    def limits(self) -> tuple[float, float]:
        return (1e-3, 100.0) if self.quantity == "magnitude" else (-1.5, 1.5)

    def lacks(self, model: MjModel) -> str:
        return "" if np.linalg.norm(model.opt.gravity) > 0 else "the model has no gravity"

    def read(self, model: MjModel) -> float:
        return float(_polar(np.array(model.opt.gravity)[None])[self.quantity][0])

    def write(self, spec: MjSpec, value: float) -> None:
        spec.option.gravity = self._changed(np.array(spec.option.gravity)[None], np.array([value]))[0]

    def poke(self, fields: Fields, value: np.ndarray) -> None:
        fields["opt.gravity"][:] = self._changed(fields["opt.gravity"], value)

    def _changed(self, gravity: np.ndarray, value: np.ndarray) -> np.ndarray:
        now = {**_polar(gravity), self.quantity: value}
        tilt_x, tilt_y = now["tilt_x"], now["tilt_y"]
        up = np.stack([np.sin(tilt_y) * np.cos(tilt_x), -np.sin(tilt_x), np.cos(tilt_y) * np.cos(tilt_x)], axis=-1)
        found: np.ndarray = -now["magnitude"][:, None] * up
        return found


def _polar(gravity: np.ndarray) -> dict[str, np.ndarray]:
    magnitude = np.linalg.norm(gravity, axis=-1)
    x, y, z = (-gravity / magnitude[:, None]).T
    return {"magnitude": magnitude, "tilt_x": -np.arcsin(y), "tilt_y": np.arctan2(x, z)}
