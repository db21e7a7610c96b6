"""One labelled picture drawn from a randomised twin: what the camera sees, whose each pixel is, where things are.

meshes   colours, depth and masks by the ray caster: light, shadows, materials and textures are as drawn
splats   colours, depth and masks of the twin's Gaussians, whose light is baked; the robot and the objects are moved
On both, exposure, colours, blur, noise and holes are added to the finished picture (adjust.py).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from twinproof.nouns.errors import TwinError
from twinproof.nouns.randomization import Randomization
from twinproof.nouns.randomness import stream
from twinproof.nouns.splat_files import read_ply
from twinproof.nouns.splats import Splats
from twinproof.nouns.theta import Theta
from twinproof.nouns.twin import Twin
from twinproof.randomize.adjust import from_thetas
from twinproof.randomize.augment_reference import augmented, augmented_depth
from twinproof.sim.disturb import started
from twinproof.sim.instantiate import fast, instantiate, poke_model
from twinproof.sim.parameters.base import names
from twinproof.sim.render import posed
from twinproof.sim.render_camera import Camera, Lens, Named
from twinproof.sim.render_rays import Rays
from twinproof.sim.scene import Scene
from twinproof.sim.splat.render import render as render_splats

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, UInt8

HIDDEN = 5  # a geom group that nobody draws
LONGEST_DELAY_S = 1.0


@dataclass(frozen=True, eq=False)
class Seen:
    """One object in one picture."""

    name: str
    T_camera_object: Float[np.ndarray, "4 4"]
    visible: Bool[np.ndarray, "H W"]
    whole: Bool[np.ndarray, "H W"]  # as if nothing stood before it


@dataclass(frozen=True, eq=False)
class Shot:
    """A picture with its labels."""

    number: int
    camera: str
    lens: Lens
    T_world_camera: Float[np.ndarray, "4 4"]
    rgb: UInt8[np.ndarray, "H W 3"]
    depth_m: Float[np.ndarray, "H W"]  # 0 where there is no reading
    objects: tuple[Seen, ...]
    theta: Theta


@dataclass(frozen=True, eq=False)
class Set:
    """A twin ready to be photographed: which cameras, how large, and by meshes or by splats."""

    twin: Twin
    randomization: Randomization
    cameras: tuple[str, ...]
    width: int | None = None
    looks: Literal["meshes", "splats"] = "meshes"
    seed: int = 0

    def __post_init__(self) -> None:
        known = names(self.model, "camera")
        if not self.cameras:
            raise TwinError("the twin's scene has no camera, so nothing can be photographed. Give it one, or name it.")
        for name in self.cameras:
            if name not in known:
                raise TwinError(f"the twin's scene has no camera {name!r}; it has {', '.join(known) or 'none'}.")
        if not self.objects:
            raise TwinError("the twin has no body of the layer 'object', so there is nothing to label.")
        if self.looks == "splats" and "splats.ply" not in self.twin.files:
            raise TwinError("the twin has no splats. Draw its meshes: --looks meshes.")

    @cached_property
    def scene(self) -> Scene:
        """The scene, with room for delays that a draw may name."""
        return Scene.of(self.twin).reserving(LONGEST_DELAY_S, LONGEST_DELAY_S)

    @cached_property
    def model(self) -> Any:
        """The nominal model."""
        return self.scene.nominal()

    @cached_property
    def objects(self) -> tuple[str, ...]:
        """The bodies that are labelled, in the order of their category numbers from 1."""
        return tuple(body.name for body in self.twin.bodies if body.layer == "object")

    @cached_property
    def splats(self) -> Splats:
        """The twin's splats, in groups named like its bodies."""
        whole = read_ply(self.twin.path("splats.ply"))
        group = np.zeros(len(whole), dtype=np.int64)
        bodies = [body for body in self.twin.bodies if body.splats is not None]
        for k, body in enumerate(bodies):
            first, count = body.splats or (0, 0)
            group[first : first + count] = k
        return replace(whole, group=group, groups=tuple(body.name for body in bodies))

    @property
    def left_out(self) -> tuple[str, ...]:
        """Ids that are not drawn: a label's model has one size."""
        return tuple(entry.id for entry in self.randomization.ranges if entry.id.endswith(".scale"))

    def theta(self, number: int) -> Theta:
        """The draw of a picture, by its number alone."""
        drawn = self.randomization.draw(stream(self.seed, "synth", f"image{number}"))
        return Theta({id: value for id, value in drawn.items() if id not in self.left_out})

    def shot(self, number: int) -> Shot:
        """Picture number so and so, with its labels."""
        theta, name = self.theta(number), self.cameras[number % len(self.cameras)]
        model: Any = poke_model(self.model, theta) if fast(self.model, [theta]) else instantiate(self.scene, theta)
        home = np.array(model.key_qpos[0] if model.nkey else model.qpos0)
        data = posed(model, started(model, home[None], [theta])[0])
        camera = self._camera(model, data, name)
        match self.looks:
            case "meshes":
                rgb, depth_m, visible, whole = self._meshes(model, data, camera)
            case "splats":
                rgb, depth_m, visible, whole = self._splats(model, data, camera)
        how = from_thetas([theta], [number], self.seed)
        T_camera_world = np.linalg.inv(camera.T_world_camera)
        seen = [
            Seen(body, T_camera_world @ body_pose(model, data, body), visible[body], whole[body])
            for body in self.objects
        ]
        clean = np.where(np.isfinite(depth_m), depth_m, 0.0).astype(np.float32)
        return Shot(
            number, name, camera.lens, camera.T_world_camera, augmented(rgb[None], how)[0],
            augmented_depth(clean[None], how)[0], tuple(seen), theta,
        )  # fmt: skip

    def _camera(self, model: Any, data: Any, name: str) -> Camera:
        """Where the camera is, with the twin's own lens as the draw scales it; distortion is left out."""
        stated = self.twin.cameras.get(name)
        width, height = (stated.width, stated.height) if stated else (320, 240)
        scale = 1.0 if self.width is None else self.width / width
        size = round(width * scale), round(height * scale)
        drawn = Named(name, *size).at(model, data)
        if stated is None:
            return drawn
        usual = Named(name, *size).at(self.model, posed(self.model, np.array(self.model.qpos0)))
        k, fx, fy = stated.intrinsics, drawn.lens.fx / usual.lens.fx, drawn.lens.fy / usual.lens.fy
        middle = (k.cx + 0.5) * scale - 0.5, (k.cy + 0.5) * scale - 0.5
        return Camera(Lens(*size, k.fx * scale * fx, k.fy * scale * fy, *middle), drawn.T_world_camera)

    def _meshes(self, model: Any, data: Any, camera: Camera) -> tuple[np.ndarray, np.ndarray, _Masks, _Masks]:
        image = Rays().render(model, data, camera, ("rgb", "depth", "segmentation"))
        assert image.rgb is not None
        assert image.depth_m is not None
        assert image.body is not None
        visible, whole = _Masks(), _Masks()
        for body in self.objects:
            mine = subtree(model, body)
            visible[body] = np.isin(image.body, mine)
            alone = copy.copy(model)
            alone.geom_group[~np.isin(model.geom_bodyid, mine)] = HIDDEN
            shape = Rays().render(alone, data, camera, ("segmentation",)).body
            assert shape is not None
            whole[body] = shape >= 0
        return image.rgb, image.depth_m, visible, whole

    def _splats(self, model: Any, data: Any, camera: Camera) -> tuple[np.ndarray, np.ndarray, _Masks, _Masks]:
        nominal = posed(self.model, np.array(self.model.qpos0))
        bodies = names(self.model, "body")
        moved = {
            group: body_pose(model, data, group) @ np.linalg.inv(body_pose(self.model, nominal, group))
            for group in self.splats.groups
            if group in bodies
        }
        image = render_splats(self.splats, camera, moved=moved, what=("colour", "alpha", "median", "group"))
        assert image.median is not None
        assert image.group is not None
        visible, whole = _Masks(), _Masks()
        for body in self.objects:
            visible[body] = image.group == self.splats.groups.index(body)
            own = render_splats(self.splats.of(body), camera, moved={body: moved[body]})
            whole[body] = (own.alpha >= 0.5) | visible[body]
        rgb = np.round(255 * image.over()).astype(np.uint8)
        return rgb, image.median, visible, whole


_Masks = dict[str, np.ndarray]


def subtree(model: Any, body: str) -> list[int]:
    """A body and all that hang on it."""
    found = [names(model, "body").index(body)]
    for child in range(found[0] + 1, model.nbody):
        if int(model.body_parentid[child]) in found:
            found.append(child)
    return found


def body_pose(model: Any, data: Any, body: str) -> Float[np.ndarray, "4 4"]:
    """T_world_body."""
    i, T = names(model, "body").index(body), np.eye(4)
    T[:3, :3], T[:3, 3] = np.array(data.xmat[i]).reshape(3, 3), data.xpos[i]
    return T
