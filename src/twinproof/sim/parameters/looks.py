"""How a scene looks: cameras, lights, colours, materials."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from twinproof.sim.parameters.base import Named
from twinproof.sim.parameters.columns import Entry

if TYPE_CHECKING:
    from mujoco import MjModel, MjSpec

    from twinproof.sim.fields import Fields

FIXED = 0  # mjtCamLight


@dataclass(frozen=True)
class _Place(Entry):
    """One coordinate of a camera's or light's position in its body's frame."""

    axis: int
    UNIT: ClassVar = "m"
    LIMITS: ClassVar = (-1e3, 1e3)
    DERIVES: ClassVar = True
    ATTRIBUTE: ClassVar = "pos"

    @property
    def quantity(self) -> str:
        return "xyz"[self.axis]

    @property
    def columns(self) -> tuple[int, ...]:
        return (self.axis,)


@dataclass(frozen=True)
class CameraPlace(_Place):
    """One coordinate of a camera's position in its body's frame."""

    KIND: ClassVar = "camera"
    FIELDS: ClassVar = ("cam_pos",)

    def thing(self, spec: MjSpec) -> Any:
        return spec.camera(self.name)


@dataclass(frozen=True)
class CameraTurn(Named):
    """A turn of the camera from the nominal about its own axes: roll about the view, pitch about x (right), yaw about y
    (down). In a Theta with several, pitch comes first, then roll, then yaw."""

    turn: str  # "pitch", "roll", "yaw"
    KIND: ClassVar = "camera"
    UNIT: ClassVar = "rad"
    LIMITS: ClassVar = (-math.pi, math.pi)
    FIELDS: ClassVar = ("cam_quat",)
    DERIVES: ClassVar = True

    @property
    def quantity(self) -> str:
        return self.turn

    def lacks(self, model: MjModel) -> str:
        fixed = model.cam_mode[self.index(model)] == FIXED
        return "" if fixed else f"the camera {self.name!r} follows something and turns by itself"

    def read(self, model: MjModel) -> float:
        return 0.0

    def write(self, spec: MjSpec, value: float) -> None:
        camera = spec.camera(self.name)
        camera.quat = self._turned(np.array(camera.quat)[None], np.array([value]))[0]

    def poke(self, fields: Fields, value: np.ndarray) -> None:
        i = self.index(fields.nominal)
        fields["cam_quat"][:, i] = self._turned(fields["cam_quat"][:, i], value)

    def _turned(self, quat_wxyz: np.ndarray, angle: np.ndarray) -> np.ndarray:
        """q · turn. MuJoCo's camera looks along −z with y up, ours along +z with y down: two axes change sign."""
        axis = {"pitch": (1.0, 0.0, 0.0), "yaw": (0.0, -1.0, 0.0), "roll": (0.0, 0.0, -1.0)}[self.turn]
        c, s = np.cos(angle / 2), np.sin(angle / 2)[:, None] * np.array(axis)
        w, v = quat_wxyz[:, 0], quat_wxyz[:, 1:]
        vector = w[:, None] * s + c[:, None] * v + np.cross(v, s)
        return np.concatenate([(w * c - (v * s).sum(-1))[:, None], vector], axis=-1)


@dataclass(frozen=True)
class CameraFieldOfView(Entry):
    """The vertical field of view of a camera without a stated sensor."""

    KIND: ClassVar = "camera"
    QUANTITY: ClassVar = "fovy"
    UNIT: ClassVar = "rad"
    LIMITS: ClassVar = (0.01, 3.1)
    FIELDS: ClassVar = ("cam_fovy",)
    ATTRIBUTE: ClassVar = "fovy"
    FACTOR: ClassVar = 180 / math.pi

    def lacks(self, model: MjModel) -> str:
        stated = model.cam_sensorsize[self.index(model), 1] > 0
        return f"the camera {self.name!r} states its lens in pixels: use fx, fy, cx, cy" if stated else ""

    def thing(self, spec: MjSpec) -> Any:
        return spec.camera(self.name)


@dataclass(frozen=True)
class CameraLens(Named):
    """fx, fy, or the principal point cx, cy from the picture's middle, in pixels, of a camera with a stated sensor."""

    entry: str
    KIND: ClassVar = "camera"
    UNIT: ClassVar = "px"
    FIELDS: ClassVar = ("cam_intrinsic", "cam_fovy")

    @property
    def quantity(self) -> str:
        return self.entry

    @property
    def limits(self) -> tuple[float, float]:
        return (1.0, 1e5) if self.entry[0] == "f" else (-1e4, 1e4)

    @property
    def log(self) -> bool:
        return self.entry[0] == "f"

    @property
    def _column(self) -> int:
        return ("fx", "fy", "cx", "cy").index(self.entry)

    def lacks(self, model: MjModel) -> str:
        stated = model.cam_sensorsize[self.index(model), 1] > 0
        return "" if stated else f"the camera {self.name!r} states no sensor: use fovy"

    def read(self, model: MjModel) -> float:
        i, axis = self.index(model), self._column % 2
        pixel = float(model.cam_sensorsize[i, axis]) / int(model.cam_resolution[i, axis])
        return float(model.cam_intrinsic[i, self._column]) / pixel

    def write(self, spec: MjSpec, value: float) -> None:
        camera, axis = spec.camera(self.name), self._column % 2
        pixel = float(camera.sensor_size[axis]) / int(camera.resolution[axis])
        (camera.focal_length if self.entry[0] == "f" else camera.principal_length)[axis] = value * pixel

    def poke(self, fields: Fields, value: np.ndarray) -> None:
        model, axis = fields.nominal, self._column % 2
        i = self.index(model)
        pixel = float(model.cam_sensorsize[i, axis]) / int(model.cam_resolution[i, axis])
        column = fields["cam_intrinsic"][:, i, self._column]
        before = column.copy()
        column[:] = value * pixel
        if self.entry == "fy":  # the field of view follows, rounded as the compiler does; no renderer reads it then
            half = np.arctan2(float(model.cam_sensorsize[i, 1]) / 2, column.astype(np.float64)).astype(np.float32)
            views = fields["cam_fovy"]
            views[:, i] = np.where(column != before, half.astype(np.float64) * 360 / np.pi, views[:, i])


@dataclass(frozen=True)
class LightPlace(_Place):
    """One coordinate of a light's position in its body's frame."""

    KIND: ClassVar = "light"
    FIELDS: ClassVar = ("light_pos",)

    def thing(self, spec: MjSpec) -> Any:
        return spec.light(self.name)


@dataclass(frozen=True)
class LightDirection(Named):
    """Where a light shines: azimuth about z from x, elevation above the horizon, in its body's frame."""

    angle: str  # "azimuth" or "elevation"
    KIND: ClassVar = "light"
    UNIT: ClassVar = "rad"
    FIELDS: ClassVar = ("light_dir",)
    DERIVES: ClassVar = True

    @property
    def quantity(self) -> str:
        return self.angle

    @property
    def limits(self) -> tuple[float, float]:
        return (-math.pi, math.pi) if self.angle == "azimuth" else (-math.pi / 2, math.pi / 2)

    def read(self, model: MjModel) -> float:
        return float(_angles(model.light_dir[self.index(model)][None])[self.angle][0])

    def write(self, spec: MjSpec, value: float) -> None:
        light = spec.light(self.name)
        light.dir = self._changed(np.array(light.dir)[None], np.array([value]))[0]

    def poke(self, fields: Fields, value: np.ndarray) -> None:
        i = self.index(fields.nominal)
        fields["light_dir"][:, i] = self._changed(fields["light_dir"][:, i], value)

    def _changed(self, direction: np.ndarray, value: np.ndarray) -> np.ndarray:
        now = {**_angles(direction), self.angle: value}
        flat, azimuth = np.cos(now["elevation"]), now["azimuth"]
        return np.stack([flat * np.cos(azimuth), flat * np.sin(azimuth), np.sin(now["elevation"])], axis=-1)


def _angles(direction: np.ndarray) -> dict[str, np.ndarray]:
    x, y, z = direction.T
    return {"azimuth": np.arctan2(y, x), "elevation": np.arctan2(z, np.hypot(x, y))}


@dataclass(frozen=True)
class LightLevel(Named):
    """The mean of a light's diffuse, ambient or specular colour; its hue is kept."""

    part: str
    KIND: ClassVar = "light"
    LIMITS: ClassVar = (0.0, 10.0)

    @property
    def quantity(self) -> str:
        return self.part

    @property
    def fields(self) -> tuple[str, ...]:
        return (f"light_{self.part}",)

    def read(self, model: MjModel) -> float:
        return float(getattr(model, self.fields[0])[self.index(model)].astype(np.float64).mean())

    def write(self, spec: MjSpec, value: float) -> None:
        light = spec.light(self.name)
        setattr(light, self.part, self._changed(np.array(getattr(light, self.part))[None], np.array([value]))[0])

    def poke(self, fields: Fields, value: np.ndarray) -> None:
        i = self.index(fields.nominal)
        fields[self.fields[0]][:, i] = self._changed(fields[self.fields[0]][:, i], value)

    def _changed(self, colour: np.ndarray, value: np.ndarray) -> np.ndarray:
        mean = colour.astype(np.float64).mean(-1)
        black = mean == 0
        hue = np.where(black[:, None], 1.0, colour / np.where(black, 1.0, mean)[:, None])
        found: np.ndarray = hue * value[:, None]
        return found


@dataclass(frozen=True)
class LightIntensity(Entry):
    """Luminous intensity, for renderers that compute in physical units."""

    KIND: ClassVar = "light"
    QUANTITY: ClassVar = "intensity"
    UNIT: ClassVar = "cd"
    LIMITS: ClassVar = (0.0, 1e6)
    FIELDS: ClassVar = ("light_intensity",)
    ATTRIBUTE: ClassVar = "intensity"

    def thing(self, spec: MjSpec) -> Any:
        return spec.light(self.name)


@dataclass(frozen=True)
class LightSoftness(Entry):
    """The radius of the lamp (of a directional light the tangent of its half-angle): how soft shadows are."""

    KIND: ClassVar = "light"
    QUANTITY: ClassVar = "softness"
    UNIT: ClassVar = "m"
    LIMITS: ClassVar = (0.0, 10.0)
    FIELDS: ClassVar = ("light_bulbradius",)
    ATTRIBUTE: ClassVar = "bulbradius"

    def thing(self, spec: MjSpec) -> Any:
        return spec.light(self.name)
