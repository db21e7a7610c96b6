"""Pictures in panels: which cameras a policy sees, drawn from the twin in its domains, the robot's own in reality.

image.front (H, W, 3) bytes ─ camera 'front' ─┬─ twin with splats    drawn from them, all worlds that ask at once
                                              ├─ twin without        rays on the scene's own shapes
                                              └─ robot               its newest picture, averaged to that size
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from twinproof.nouns.errors import PanelError
from twinproof.nouns.policy import Channel, Contract
from twinproof.nouns.rig import Rig
from twinproof.nouns.robot import Picture
from twinproof.nouns.twin import Twin, TwinCamera
from twinproof.sim.parameters.base import names, nearest
from twinproof.sim.render_camera import Lens, Named, Off, OnBody, View
from twinproof.sim.render_rays import Rays
from twinproof.sim.scene import Scene
from twinproof.tasks.eyes import PREFIX, Shown, SplatEyes, averaged
from twinproof.tasks.sensed import Array, Sensed
from twinproof.tasks.task import Channels, TaskSpec
from twinproof.tasks.viewpoints import Viewpoints

SPLATS = "splats.ply"


def pictures_in(contract: Contract) -> tuple[Channel, ...]:
    """The observations that are pictures: (height, width, 3)."""
    seen = (channel for channel in contract.observations if not channel.privileged)
    return tuple(channel for channel in seen if len(channel.shape) == 3 and channel.shape[2] == 3)


def without_pictures(contract: Contract) -> Contract:
    """The contract of all that is no picture."""
    pictures = pictures_in(contract)
    return replace(contract, observations=tuple(c for c in contract.observations if c not in pictures))


def cameras_in(twin: Twin) -> tuple[str, ...]:
    """The cameras through which a twin can be seen: its own, and those of its scene."""
    scene = tuple(name for name in names(Scene.of(twin).nominal(), "camera") if name not in twin.cameras)
    return (*twin.cameras, *scene)


def on_cameras(channels: Sequence[Channel], known: Sequence[str], rig: Rig | None = None) -> tuple[Channel, ...]:
    """The pictures, each with its camera as its frame: the one it names, 'image.front' or 'front', or the one that
    the rig reads from a source of that name (source = "observation.images.front")."""
    return tuple(replace(channel, frame=_camera(channel, known, rig)) for channel in channels)


def _camera(channel: Channel, known: Sequence[str], rig: Rig | None) -> str:
    name = channel.frame or channel.name.removeprefix(PREFIX)
    if name in known:
        return name
    for camera, rule in (rig.cameras if rig else {}).items():
        if camera in known and name in (rule.source, rule.source.replace("/", ".").rpartition(".")[2]):
            return camera
    raise PanelError(
        f"a policy sees the picture {channel.name!r}, and no camera {name!r} is known. {nearest(name, known)} Call the "
        f"channel '{PREFIX}CAMERA', or let a camera of rig.toml have it as its source."
    )


def camera_channels(twin: Twin, cameras: Sequence[str], rig: Rig | None = None) -> tuple[Channel, ...]:
    """What a panel states of its cameras: pictures as large as the cameras take them."""
    wanted = on_cameras([Channel(f"{PREFIX}{name}", "1", 0.0, 255.0) for name in cameras], cameras_in(twin), rig)
    found = []
    for channel in wanted:
        camera = twin.cameras.get(channel.frame)
        size = _scene_size(twin, channel.frame) if camera is None else (camera.height, camera.width)
        found.append(replace(channel, shape=(*size, 3)))
    return tuple(found)


def _scene_size(twin: Twin, name: str) -> tuple[int, int]:
    """Height and width of a scene's camera; 120 × 160 where its MJCF states no resolution."""
    model: Any = Scene.of(twin).nominal()
    width, height = (int(side) for side in model.cam_resolution[names(model, "camera").index(name)])
    return (height, width) if height > 1 and width > 1 else (120, 160)


def seeing(task: TaskSpec, channels: Sequence[Channel]) -> TaskSpec:
    """The same task for a policy that also sees these pictures, where somebody shows them."""
    if not channels:
        return task

    def observe(sensed: Sensed) -> Channels:
        shown = {channel.name: sensed.images[channel.name] for channel in channels if channel.name in sensed.images}
        return {**task.observe(sensed), **shown}

    contract = replace(task.contract, observations=(*task.contract.observations, *channels))
    return replace(task, contract=contract, observe=observe)


class TwinEyes:
    """Shows worlds of a twin in pictures (N, H, W, 3) of bytes, by channel. Each channel's frame is its camera.

    Only the worlds of `look_at` are drawn anew; the others keep the picture that they had.
    """

    def __init__(self, twin: Twin, channels: Sequence[Channel]) -> None:
        self.names, self.channels = tuple(channel.name for channel in channels), tuple(channels)
        self.twin, self.cameras = twin, tuple(channel.frame for channel in channels)
        height, width = channels[0].shape[:2]
        self.shape = (height, width, 3)
        self._model: Any = Scene.of(twin).nominal()
        self._by_splats: dict[str, SplatEyes] = {}
        self._by_rays: dict[str, View] = {}
        for channel in channels:
            camera = twin.cameras.get(channel.frame)
            if camera is not None:
                _check_shape(channel, camera)
            if camera is not None and SPLATS in twin.files:
                self._by_splats[channel.name] = SplatEyes(twin, (channel.frame,), width=channel.shape[1])
            else:
                self._by_rays[channel.name] = _view(channel, camera)
        self._rays = Rays(shadow_samples=5)
        self._wanted: np.ndarray | None = None
        self._held: dict[str, np.ndarray] = {}
        self.drawn = 0  # pictures

    def look_at(self, which: np.ndarray) -> None:
        """From now on, only the worlds of this mask (N,) are drawn."""
        self._wanted = np.array(which, dtype=bool)

    def see(self, backing: Shown, drawn: Viewpoints | None = None) -> dict[str, Array]:
        """A picture for each channel, as the worlds stand now; with `drawn`, each world's cameras are off."""
        count = len(backing.view("qpos"))
        every = self._wanted is None or len(self._wanted) != count
        rows = np.arange(count) if every or self._wanted is None else np.flatnonzero(self._wanted)
        if len(rows):
            fresh = self._splats(backing, rows, drawn) | self._traced(backing, rows, drawn)
            for channel in self.channels:
                old = self._held.get(channel.name)
                kept = np.zeros((count, *channel.shape), np.uint8) if old is None or len(old) != count else old.copy()
                kept[rows] = fresh[channel.name]
                self._held[channel.name] = kept
            self.drawn += len(rows) * len(self.channels)
        return dict(self._held)

    def _splats(self, backing: Shown, rows: np.ndarray, drawn: Viewpoints | None) -> dict[str, np.ndarray]:
        some, found = _Some(backing, rows), {}
        for name, eyes in self._by_splats.items():
            off = None if drawn is None else drawn.of(self.names.index(name), rows)
            found[name] = np.asarray(next(iter(eyes.see(some, off).values())))
        return found

    def _traced(self, backing: Shown, rows: np.ndarray, drawn: Viewpoints | None) -> dict[str, np.ndarray]:
        if not self._by_rays:
            return {}
        found, states = {}, list(np.asarray(backing.view("qpos"))[rows])
        with self._rays.on(self._model) as studio:
            for name, view in self._by_rays.items():
                if drawn is None:
                    shots = [row[0] for row in studio.render_many(states, [view], ("rgb",))]
                else:
                    off = drawn.of(self.names.index(name), rows)
                    places = zip(states, off.T_usual_drawn[:, 0], off.lens[:, 0], strict=True)
                    shots = [studio.render(state, Off(view, T, lens), ("rgb",)) for state, T, lens in places]
                found[name] = np.stack([shot.rgb for shot in shots if shot.rgb is not None])
        return found


class _Some:
    """Some worlds of a backing, for who draws."""

    def __init__(self, backing: Shown, rows: np.ndarray) -> None:
        self.xp, self.model, self.patient, self._backing, self._rows = np, backing.model, True, backing, rows

    def view(self, name: str) -> np.ndarray:
        """The rows of a field."""
        found: np.ndarray = np.asarray(self._backing.view(name))[self._rows]
        return found


def _check_shape(channel: Channel, camera: TwinCamera) -> None:
    height, width = channel.shape[:2]
    if round(camera.height * width / camera.width) != height:
        raise PanelError(
            f"the picture {channel.name!r} is {width} × {height}, and the camera {channel.frame!r} takes "
            f"{camera.width} × {camera.height}: another shape. Take the whole picture, smaller where you like."
        )


def _view(channel: Channel, camera: TwinCamera | None) -> View:
    height, width = channel.shape[:2]
    if camera is None:
        return Named(channel.frame, width, height)
    scale, k = width / camera.width, camera.intrinsics
    place = ((k.cx + 0.5) * scale - 0.5, (k.cy + 0.5) * scale - 0.5)
    lens = Lens(width, height, k.fx * scale, k.fy * scale, *place, k.distortion)
    return OnBody(lens, camera.mount.parent, camera.mount.T_parent_camera)


def taken(images: Mapping[str, Picture], channels: Sequence[Channel]) -> dict[str, np.ndarray]:
    """A robot's newest pictures (1, H, W, 3) by channel, averaged to the size that the policy sees."""
    found = {}
    for channel in channels:
        if channel.frame not in images:
            raise PanelError(
                f"a policy sees {channel.name!r}, and the robot gave no picture of camera {channel.frame!r}. It shows "
                f"{', '.join(images) or 'none'}: switch the camera on."
            )
        down, across = channel.shape[:2]
        found[channel.name] = averaged(images[channel.frame].rgb, channel.frame, down, across)[None]
    return found
