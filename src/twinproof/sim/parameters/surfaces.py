"""Colour, gloss and texture of materials and geoms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from twinproof.sim.parameters.base import Named
from twinproof.sim.parameters.columns import Entry

if TYPE_CHECKING:
    from mujoco import MjModel, MjSpec

    from twinproof.sim.fields import Fields

COLOURS = ("red", "green", "blue")
GLOSS = ("emission", "specular", "shininess", "reflectance", "metallic", "roughness")
RGB = 1  # mjtTextureRole


@dataclass(frozen=True)
class MaterialColour(Entry):
    """Red, green or blue of a material; where it has a texture, the texture is multiplied by it."""

    colour: str
    KIND: ClassVar = "material"
    FIELDS: ClassVar = ("mat_rgba",)
    ATTRIBUTE: ClassVar = "rgba"

    @property
    def quantity(self) -> str:
        return self.colour

    @property
    def columns(self) -> tuple[int, ...]:
        return (COLOURS.index(self.colour),)

    def thing(self, spec: MjSpec) -> Any:
        return spec.material(self.name)


@dataclass(frozen=True)
class GeomColour(Entry):
    """Red, green or blue of a geom without a material."""

    colour: str
    KIND: ClassVar = "geom"
    FIELDS: ClassVar = ("geom_rgba",)
    ATTRIBUTE: ClassVar = "rgba"

    @property
    def quantity(self) -> str:
        return self.colour

    @property
    def columns(self) -> tuple[int, ...]:
        return (COLOURS.index(self.colour),)

    def lacks(self, model: MjModel) -> str:
        material = int(model.geom_matid[self.index(model)])
        if material < 0:
            return ""
        return f"the geom {self.name!r} has a material: use material.{model.mat(material).name}.{self.colour}"

    def thing(self, spec: MjSpec) -> Any:
        return spec.geom(self.name)


@dataclass(frozen=True)
class MaterialGloss(Entry):
    """How a material answers light: emission, specular, shininess, reflectance, metallic, roughness."""

    property_name: str
    KIND: ClassVar = "material"

    @property
    def quantity(self) -> str:
        return self.property_name

    @property
    def fields(self) -> tuple[str, ...]:
        return (f"mat_{self.property_name}",)

    def lacks(self, model: MjModel) -> str:
        unset = self.read(model) < 0  # metallic and roughness: -1 says that the renderer chooses
        return f"the material {self.name!r} leaves its {self.property_name} to the renderer" if unset else ""

    def write(self, spec: MjSpec, value: float) -> None:
        setattr(spec.material(self.name), self.property_name, value)

    def thing(self, spec: MjSpec) -> Any:
        return spec.material(self.name)


@dataclass(frozen=True)
class TextureRepeat(Entry):
    """How often a material's texture repeats along its x or y."""

    axis: int
    KIND: ClassVar = "material"
    LIMITS: ClassVar = (1e-3, 1e4)
    LOG: ClassVar = True
    FIELDS: ClassVar = ("mat_texrepeat",)
    ATTRIBUTE: ClassVar = "texrepeat"

    @property
    def quantity(self) -> str:
        return f"texrepeat_{'xy'[self.axis]}"

    @property
    def columns(self) -> tuple[int, ...]:
        return (self.axis,)

    def lacks(self, model: MjModel) -> str:
        return _no_texture(self, model)

    def thing(self, spec: MjSpec) -> Any:
        return spec.material(self.name)


@dataclass(frozen=True)
class TextureChoice(Named):
    """Which of the model's textures a material wears, by number; fractions are rounded down."""

    KIND: ClassVar = "material"
    QUANTITY: ClassVar = "texture"
    UNIT: ClassVar = "number of a texture"
    LIMITS: ClassVar = (0.0, 1e4)
    FIELDS: ClassVar = ("mat_texid",)

    def lacks(self, model: MjModel) -> str:
        return _no_texture(self, model)

    def most(self, model: MjModel) -> float:
        return float(model.ntex - 1e-6)

    def above(self, model: MjModel) -> str:
        return f"the model has {model.ntex} textures, numbered from 0"

    def read(self, model: MjModel) -> float:
        return float(model.mat_texid[self.index(model), RGB])

    def write(self, spec: MjSpec, value: float) -> None:
        material = spec.material(self.name)
        material.textures[RGB] = spec.textures[int(value)].name

    def poke(self, fields: Fields, value: np.ndarray) -> None:
        fields["mat_texid"][:, self.index(fields.nominal), RGB] = value.astype(np.int32)


def _no_texture(parameter: Named, model: MjModel) -> str:
    has = model.mat_texid[parameter.index(model), RGB] >= 0
    return "" if has else f"the material {parameter.name!r} has no texture"
