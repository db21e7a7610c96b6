"""Pictures for policies: what the cameras of a twin would see of N worlds, drawn from its splats.

eyes = SplatEyes(twin, ("front",), width=64)
task = with_pictures(push.of(twin, home=home), eyes, tracker=False)     # sees pictures and joints, no object pose
arena = Arena(twin, task, 16, eyes=eyes)

Pictures are bytes (N, height, width, 3) in channels image.CAMERA. On a robot they are the robot's own, brought to the
same size: `pictures_of`. What stands before a fixed camera is drawn once, what moves is laid over it by depth at every
tick. Where draws move cameras or change their lenses (viewpoints.py), each world has its own: on the CPU
(sim/splat/layered.py) each keeps its background until its camera moves; on a GPU, which draws all worlds at once
(sim/splat/worlds.py), it is drawn at every tick, in fewer splats. Through a camera on a hand the CPU draws everything.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from twinproof.nouns.errors import TaskError
from twinproof.nouns.policy import Channel, Contract
from twinproof.nouns.robot import Picture
from twinproof.nouns.splat_files import read_ply
from twinproof.nouns.splats import Splats
from twinproof.nouns.twin import Twin, TwinCamera
from twinproof.sim.parameters.base import names, nearest
from twinproof.sim.render_camera import Lens
from twinproof.sim.scene import Scene
from twinproof.sim.worlds import Worlds
from twinproof.tasks.sensed import Array, Fixed, Sensed
from twinproof.tasks.task import Channels, TaskSpec
from twinproof.tasks.viewpoints import Viewpoints

OF_TRACKER = (
    "object_position", "object_rotation", "tip_to_object", "object_to_goal", "handle", "tip_to_handle", "opening",
)  # fmt: skip
NOWHERE = Fixed([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
PREFIX = "image."


class Shown(Protocol):
    """Worlds as far as drawing needs them: a backing, or worlds as they were a while ago."""

    @property
    def xp(self) -> Any: ...

    @property
    def model(self) -> Any: ...

    @property
    def patient(self) -> bool: ...

    def view(self, name: str) -> Array: ...


class Eyes(Protocol):
    """What shows worlds in pictures, bytes (N, height, width, 3) each, by camera."""

    names: tuple[str, ...]
    cameras: tuple[str, ...]  # what each picture is seen through
    shape: tuple[int, int, int]

    def see(self, backing: Shown, drawn: Viewpoints | None = None) -> dict[str, Array]: ...


class SplatEyes:
    """The cameras of a twin, and its splats moved with the bodies that they belong to."""

    def __init__(self, twin: Twin, cameras: Sequence[str] = (), width: int = 64, detail: int = 25_000) -> None:
        if "splats.ply" not in twin.files:
            raise TaskError("the twin has no splats, so nothing can be seen of it. Reconstruct it with looks.")
        self.names = self.cameras = tuple(cameras) or tuple(twin.cameras)
        for name in self.names:
            if name not in twin.cameras:
                raise TaskError(f"the twin has no camera {name!r}. {nearest(name, twin.cameras)}")
        self._cameras = [twin.cameras[name] for name in self.names]
        sizes = {_scaled(camera, width)[:2] for camera in self._cameras}
        if len(sizes) != 1:
            raise TaskError(f"the cameras {', '.join(self.names)} have pictures of different shapes. Name alike ones.")
        (across, down), self._detail = next(iter(sizes)), detail
        self.shape = (down, across, 3)
        self._lenses = [Lens(*_scaled(camera, width)) for camera in self._cameras]
        self.splats = grouped(twin)
        scene = Scene.of(twin)
        model: Any = scene.nominal()
        known = names(model, "body")
        self._moving = [name for name in self.splats.groups if name in known and known.index(name) > 0]
        self._standing = [name for name in self._moving if _stands(model, known.index(name))]
        worlds = Worlds(scene, 1)
        rest = _poses(worlds.xpos, worlds.xquat, [known.index(name) for name in self._moving], np)[0]
        self._T_group_world = Fixed(np.linalg.inv(rest))  # at the scene's own positions
        self._mounts = [Fixed(camera.mount.T_parent_camera) for camera in self._cameras]
        parents = [camera.mount.parent for camera in self._cameras]
        self._still = [name == "world" or _stands(model, known.index(name)) for name in parents]
        self._places: tuple[Fixed, list[Fixed]] | None = None  # of the moving bodies, of the cameras' parents
        self._drawn: Any = None  # what draws on a GPU, by camera
        self._layers: Any = None  # what draws on the CPU

    def see(self, backing: Shown, drawn: Viewpoints | None = None) -> dict[str, Array]:
        """A picture of each camera, as the worlds stand now; with `drawn`, each world's cameras are off as it says."""
        if self._places is None:
            known = names(backing.model, "body")
            on = [camera.mount.parent for camera in self._cameras]
            carriers = [Fixed([0 if name == "world" else known.index(name)]) for name in on]
            moving_at = np.array([known.index(name) for name in self._moving], dtype=np.int64)
            self._places = Fixed(moving_at), carriers
        (moving, parents), xpos, xquat = self._places, backing.view("xpos"), backing.view("xquat")
        bodies = _poses(xpos, xquat, moving.like(xpos), backing.xp)
        moved = bodies @ self._T_group_world.like(bodies)
        found = {}
        for k, (name, camera) in enumerate(zip(self.names, self._cameras, strict=True)):
            mount = self._mounts[k].like(bodies)
            fixed = camera.mount.parent == "world"
            at = None if fixed else _poses(xpos, xquat, parents[k].like(xpos), backing.xp)[:, 0] @ mount
            lens = None
            if drawn is not None:
                at, lens = (mount if at is None else at) @ drawn.T_usual_drawn[:, k], drawn.lens[:, k]
            where = (mount, at, lens)
            found[name] = self._on_host(k, where, moved) if backing.patient else self._on_gpu(k, where, moved)
        return found

    def _on_host(self, k: int, where: Where, moved: Array) -> Array:
        from twinproof.sim.splat.layered import LayeredWorlds, Views

        if self._layers is None:
            self._layers = LayeredWorlds(self.splats, self._moving, self._standing)
        poses, (mount, at, changes) = np.asarray(moved), where
        places = np.broadcast_to(np.asarray(mount if at is None else at), (len(poses), 4, 4))
        views = Views(self._lenses[k], places, poses, None if changes is None else np.asarray(changes))
        pictures = self._layers.over(views) if self._still[k] else self._layers.together(views)
        if isinstance(moved, np.ndarray):
            return pictures
        import torch

        return torch.from_numpy(pictures)

    def _on_gpu(self, k: int, where: Where, moved: Array) -> Array:
        import torch

        from twinproof.sim.splat.worlds import SplatWorlds

        if self._drawn is None:
            device = str(moved.device)
            stages = [
                SplatWorlds(self.splats, self._moving, lens, detail=self._detail, device=device)
                for lens in self._lenses
            ]
            self._drawn = [[stage, None] for stage in stages]
        (stage, backdrop), (mount, at, changes) = self._drawn[k], where
        if at is not None:
            return _bytes(stage.moved(torch.linalg.inv(at.float()), moved, changes))
        if backdrop is None:
            backdrop = self._drawn[k][1] = stage.fixed(torch.linalg.inv(mount.float())[None])
        return _bytes(stage.over(backdrop, moved))


Where = tuple[Array, Array | None, Array | None]  # a camera's mount; its pose and its lens's changes in each world


def _bytes(colour: Array) -> Array:
    """Colours from 0 to 1, in torch, as bytes."""
    import torch

    return (255 * colour.clamp(0, 1)).round().to(torch.uint8)


def with_pictures(task: TaskSpec, eyes: Eyes, tracker: bool = True) -> TaskSpec:
    """The same task for policies that see pictures image.CAMERA. Without `tracker` they see no object pose: what a
    tracker gives becomes privileged, for experts, teachers and critics."""
    pictures = tuple(Channel(f"{PREFIX}{name}", "1", 0.0, 255.0, eyes.shape, name) for name in eyes.names)
    hidden = () if tracker else OF_TRACKER
    channels = [replace(c, privileged=c.privileged or c.name in hidden) for c in task.contract.observations]
    plain = [channel for channel in channels if not channel.privileged]
    private = [channel for channel in channels if channel.privileged]

    def observe(sensed: Sensed) -> Channels:
        lacking = [name for name in task.tracked if name not in sensed.objects]
        nowhere = {name: NOWHERE.like(sensed.position) + 0 * sensed.position[:, :1] for name in lacking}
        whole = sensed if tracker else replace(sensed, objects={**nowhere, **sensed.objects})
        seen = {name: value for name, value in task.observe(whole).items() if not (lacking and name in hidden)}
        return {**seen, **{f"{PREFIX}{name}": sensed.images[name] for name in eyes.names}}

    contract = replace(task.contract, observations=(*plain, *pictures, *private))
    return replace(task, contract=contract, observe=observe)


def eyes_for(contract: Contract, twin: Twin) -> SplatEyes | None:
    """The eyes that show what a contract asks to see; None where it asks for no picture."""
    pictures = [channel for channel in contract.observations if len(channel.shape) == 3]
    if not pictures:
        return None
    found = SplatEyes(twin, [c.name.removeprefix(PREFIX) for c in pictures], width=pictures[0].shape[1])
    strange = [channel for channel in pictures if channel.shape != found.shape]
    if strange:
        high, wide, _ = found.shape
        raise TaskError(
            f"the policy sees {strange[0].name!r} of the shape {strange[0].shape}; the twin's camera shows {wide} × "
            f"{high} bytes of three colours. Train it for pictures of that shape."
        )
    return found


def pictures_of(images: Mapping[str, Picture], eyes: Eyes) -> dict[str, np.ndarray]:
    """A robot's pictures (1, height, width, 3) as `eyes` show a twin: bytes, averaged to its size."""
    found = {}
    for name in eyes.names:
        if name not in images:
            raise TaskError(f"the robot gave no picture of camera {name!r}. {nearest(name, images)}")
        found[name] = averaged(images[name].rgb, name, eyes.shape[0], eyes.shape[1])[None]
    return found


def averaged(rgb: np.ndarray, camera: str, down: int, across: int) -> np.ndarray:
    """A camera's picture as bytes (down, across, 3): each pixel the mean of all that it covers, parts of pixels too."""
    high, wide = rgb.shape[:2]
    if round(high * across / wide) != down or across > wide:
        raise TaskError(
            f"the picture of camera {camera!r} is {wide} × {high}, and {across} × {down} is wanted. Take the whole "
            "picture, of the same shape and at least as large."
        )
    if (high, wide) == (down, across):
        return np.asarray(rgb, dtype=np.uint8)
    values = np.asarray(rgb, dtype=np.float64)
    mean = np.einsum("ah,hwc,bw->abc", _shares(high, down), values, _shares(wide, across), optimize=True)
    found: np.ndarray = np.round(mean).astype(np.uint8)
    return found


@functools.cache
def _shares(many: int, few: int) -> np.ndarray:
    """(few, many): how much of each fine pixel lies in each coarse one, as shares of the coarse one."""
    edges, ends = np.arange(many + 1) * few / many, np.arange(few + 1)
    inside = np.minimum(edges[1:], ends[1:, None]) - np.maximum(edges[:-1], ends[:-1, None])
    found: np.ndarray = np.maximum(inside, 0.0)
    return found


def _scaled(camera: TwinCamera, width: int) -> tuple[int, int, float, float, float, float]:
    """Size and pinhole of a camera's picture at another width."""
    scale, k = width / camera.width, camera.intrinsics
    return (
        width,
        round(camera.height * scale),
        k.fx * scale,
        k.fy * scale,
        (k.cx + 0.5) * scale - 0.5,
        (k.cy + 0.5) * scale - 0.5,
    )


def grouped(twin: Twin) -> Splats:
    """The twin's splats, in groups named like its bodies; the first is what belongs to none."""
    whole = read_ply(twin.path("splats.ply"))
    bodies = [body for body in twin.bodies if body.splats is not None]
    group = np.zeros(len(whole), dtype=np.int64)
    for k, body in enumerate(bodies):
        first, count = body.splats or (0, 0)
        group[first : first + count] = k + 1
    return replace(whole, group=group, groups=("of no body", *(body.name for body in bodies)))


def _stands(model: Any, body: int) -> bool:
    """Whether nothing moves a body within an episode."""
    return int(model.body_weldid[body]) == 0 and int(model.body_mocapid[body]) < 0


def _poses(xpos: Array, xquat: Array, bodies: Array, xp: Any) -> Array:
    """T_world_body (N, M, 4, 4)."""
    place, q = xpos[:, bodies], xquat[:, bodies]
    w, x, y, z = (q[..., k] for k in range(4))
    rows = (
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y), place[..., 0]),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x), place[..., 1]),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y), place[..., 2]),
        (0 * w, 0 * w, 0 * w, 0 * w + 1),
    )
    return xp.stack([xp.stack(row, -1) for row in rows], -2)
