"""Pictures of many worlds at once on a GPU: mujoco_warp's batch ray tracer, with torch tensors that share its memory.

cameras = GpuCameras(worlds, ["front", "wrist"], (128, 96), ("rgb", "depth"))
pictures = cameras.render()        # rgb (N, 2, 96, 128, 3), depth (N, 2, 96, 128); live: the next call rewrites them

poses in Data ─> bounds of all geoms ─> tree refitted ─> a ray for each pixel ─> bytes in RGB order, inf for nothing
└──────────────────────────────────────────── one CUDA graph ────────────────────────────────────────────────────┘

As in `render_rays`, the reference: pixel centres, depth along the optical axis in metres (inf: nothing), geom ids (-1:
nothing), geom groups 0 to 2, invisible where alpha is 0, no far plane, the sky or the fog colour behind all. Sizes,
colours, materials, lights and cameras are read from the worlds' Model at every call: they may differ between worlds.

Not as there: light is added up on display values, as OpenGL does it, not in linear light, so half-lit places are
darker; shadows are hard; edges are not smoothed; what is partly transparent looks solid; mirrors do not reflect; a cube
texture shows its first face on every side. Depth is in float32: some 1e-6 of the distance. There are no normals.

Importing this module needs torch, warp and mujoco_warp; nobody imports it who was not asked to.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import mujoco
import mujoco_warp as mjw
import numpy as np
import torch
import warp as wp

from twinproof.nouns.errors import SimError
from twinproof.sim.render import posed
from twinproof.sim.render_camera import Lens, Named, pixel_rays

GPU_CHANNELS = ("rgb", "depth", "segmentation")
# what a picture is made from and may have a row for each world
READ = (
    "geom_dataid", "geom_matid", "geom_size", "geom_rgba", "cam_fovy", "cam_intrinsic", "light_type",
    "light_castshadow", "light_active", "light_attenuation", "light_cutoff", "light_exponent", "light_ambient",
    "light_diffuse", "light_specular", "mat_texid", "mat_texuniform", "mat_texrepeat", "mat_emission", "mat_specular",
    "mat_shininess", "mat_rgba",
)  # fmt: skip


class OnDevice(Protocol):
    """Worlds that can be looked at: GpuWorlds, or mujoco_warp's own as `Bare`."""

    @property
    def host(self) -> Any:
        """The MjModel that the others were made from."""

    @property
    def model(self) -> Any:
        """mujoco_warp's Model."""

    @property
    def data(self) -> Any:
        """mujoco_warp's Data; its kinematics must be current when a picture is taken."""


class Bare(NamedTuple):
    """mujoco_warp's Model and Data without our worlds around them."""

    host: Any
    model: Any
    data: Any


class GpuCameras:
    """Cameras of the model, all of one size (width, height), that take pictures of all worlds.

    `lenses`, one for each camera, replace what the model says about their pictures: any pinhole with distortion, the
    same in all worlds. Without them field of view and intrinsics are the model's, and may differ between worlds.
    """

    def __init__(
        self,
        worlds: OnDevice,
        cameras: Sequence[str],
        size: tuple[int, int],
        what: Sequence[str] = GPU_CHANNELS,
        *,
        lenses: Sequence[Lens] | None = None,
        shadows: bool = True,
        textures: bool = True,
        groups: Sequence[int] = (0, 1, 2),
    ) -> None:
        self.worlds, self.cameras, self.size, self.what = worlds, tuple(cameras), size, tuple(what)
        host = worlds.host
        _check(host, self.cameras, self.what)
        views = _lenses(host, self.cameras, size, lenses)
        self.device = worlds.data.qpos.device
        with wp.ScopedDevice(self.device):
            self.context = mjw.create_render_context(
                _first_faces(host),
                nworld=self.count,
                cam_res=[size] * len(self.cameras),
                render_rgb="rgb" in what,
                render_depth="depth" in what,
                render_seg="segmentation" in what,
                use_textures=textures,
                use_shadows=shadows,
                shadow_light_fraction=0.0,  # what a lamp does not reach has none of its light
                enabled_geom_groups=list(groups),
                cam_active=list(self.cameras),
                background_color=(*(float(c) for c in host.vis.rgba.fog[:3]), 1.0),
                render_skybox=True,
                use_precomputed_rays=lenses is not None,
            )
            self.context.zfar = 0.0  # read when the kernel is built, at the first picture
            if lenses is not None:
                self.context.ray.assign(np.concatenate([_directions(lens) for lens in views]))
            self._rgb = wp.empty((self.count, self._pixels if "rgb" in what else 0, 3), dtype=wp.uint8)
        self._tensors = self._views()
        self._graph: Any = None
        self._arrays: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """How many worlds there are."""
        return int(self.worlds.data.nworld)

    @property
    def _pixels(self) -> int:
        return len(self.cameras) * self.size[0] * self.size[1]

    def render(self) -> dict[str, torch.Tensor]:
        """Pictures of the worlds as they are now; does not wait for the device.

        rgb (N, C, H, W, 3) uint8, depth (N, C, H, W) float32 in metres, segmentation (N, C, H, W) int32 geom ids (every
        second integer in memory). The same tensors come back each time: clone what is to be kept. May be called while
        torch or warp captures a graph, after it was called once.
        """
        with wp.ScopedDevice(self.device):
            if self.device.is_cuda:
                self._launch()
            else:
                self._draw()
        return dict(self._tensors)

    def _draw(self) -> None:
        model, data, context = self.worlds.model, self.worlds.data, self.context
        mjw.refit_bvh(model, data, context)
        mjw.render(model, data, context)
        dim = (self.count, self._pixels)
        if "rgb" in self.what:
            wp.launch(_unpack, dim, [context.rgb_data], [self._rgb])
        if "depth" in self.what:
            wp.launch(_open, dim, outputs=[context.depth_data])

    def _launch(self) -> None:
        # warp's own stream and torch's default one wait for each other; any other stream of torch's is used itself
        current = torch.cuda.current_stream(wp.device_to_torch(self.device))
        stream = wp.stream_from_torch(current) if current.cuda_stream else self.device.stream
        if stream.is_capturing:
            with wp.ScopedStream(stream, sync_enter=False):
                self._draw()
            return
        arrays = _addresses(self.worlds.model)
        if self._graph is not None and arrays == self._arrays:
            wp.capture_launch(self._graph, stream=stream)
            return
        # the first time, and after a field was given a row for each world, it runs as it is, which loads the kernels
        with wp.ScopedStream(stream):
            self._draw()
        with wp.ScopedCapture(device=self.device) as capture:
            self._draw()
        self._graph, self._arrays = capture.graph, arrays

    def _views(self) -> dict[str, torch.Tensor]:
        width, height = self.size
        shape = (len(self.cameras), height, width)
        make: dict[str, Callable[[], torch.Tensor]] = {
            "rgb": lambda: wp.to_torch(self._rgb).unflatten(1, shape),
            "depth": lambda: wp.to_torch(self.context.depth_data).unflatten(1, shape),
            "segmentation": lambda: wp.to_torch(self.context.seg_data)[..., 0].unflatten(1, shape),
        }
        return {name: make[name]() for name in self.what}


def _check(host: Any, cameras: tuple[str, ...], what: tuple[str, ...]) -> None:
    unknown = sorted(set(what) - set(GPU_CHANNELS))
    if unknown or not what:
        raise SimError(
            f"the GPU cannot render {', '.join(unknown) or 'nothing'}. Ask for some of {', '.join(GPU_CHANNELS)}; "
            "normals are had from Rays() on the CPU."
        )
    if not cameras:
        raise SimError("no camera was named. Name one or more of the model's cameras.")
    if host.nskin or (host.nflex and "segmentation" in what):
        raise SimError(
            "the model has a skin, which the GPU does not draw, or a flex, which has no geom id. Leave out the skin, "
            "or ask for rgb and depth alone, or render with GL()."
        )


def _lenses(host: Any, cameras: Sequence[str], size: tuple[int, int], given: Sequence[Lens] | None) -> list[Lens]:
    """The lens of each camera; every camera is there, is a perspective one, and fits the size."""
    if given is not None and (
        len(given) != len(cameras) or any((lens.width, lens.height) != tuple(size) for lens in given)
    ):
        sizes = ", ".join(f"{lens.width} × {lens.height}" for lens in given) or "none"
        raise SimError(
            f"{len(cameras)} cameras of {size[0]} × {size[1]} pixels were given lenses of these sizes: {sizes}. Give "
            "one lens of that size for each camera."
        )
    data = posed(host, host.qpos0)
    views = [Named(name, *size).at(host, data).lens for name in cameras]
    if given is not None:
        return list(given)
    for name in cameras:
        sensor = host.cam_sensorsize[host.camera(name).id]
        if sensor[1] > 0 and abs(sensor[0] * size[1] - sensor[1] * size[0]) > 1e-3 * sensor[1] * size[0]:
            raise SimError(
                f"camera {name!r} has a sensor of {sensor[0]:g} × {sensor[1]:g} m, and a picture of {size[0]} × "
                f"{size[1]} pixels has another shape, so the GPU would cut it off. Ask for the sensor's shape, or "
                "give a lens."
            )
    return views


def _directions(lens: Lens) -> np.ndarray:
    """Unit vectors through the pixels, row by row, for a camera that looks along -z with y up."""
    xy = pixel_rays(lens).reshape(-1, 2)
    rays = np.stack([xy[:, 0], -xy[:, 1], -np.ones(len(xy))], axis=1)
    return np.asarray(rays / np.linalg.norm(rays, axis=1, keepdims=True), np.float32)


def _first_faces(host: Any) -> Any:
    """The model with cube textures cut to their first face: the tracer would spread all six over every side."""
    cubes = np.flatnonzero(host.tex_type == mujoco.mjtTexture.mjTEXTURE_CUBE)
    if not cubes.size:
        return host
    cut = copy.copy(host)
    cut.tex_height[cubes] = np.minimum(host.tex_height[cubes], host.tex_width[cubes])
    return cut


def _addresses(model: Any) -> tuple[int, ...]:
    """Where the arrays are that a picture is made from; a captured graph holds on to these addresses."""
    return tuple(getattr(model, name).ptr or 0 for name in READ)


def _unpack_pixel(packed: Any, rgb: Any) -> None:
    """0xAARRGGBB to three bytes."""
    world, pixel = wp.tid()
    colour = packed[world, pixel]
    rgb[world, pixel, 0] = wp.uint8((colour >> wp.uint32(16)) & wp.uint32(0xFF))
    rgb[world, pixel, 1] = wp.uint8((colour >> wp.uint32(8)) & wp.uint32(0xFF))
    rgb[world, pixel, 2] = wp.uint8(colour & wp.uint32(0xFF))


def _open_pixel(depth: Any) -> None:
    """The tracer's 0 where nothing is becomes infinity."""
    world, pixel = wp.tid()
    if depth[world, pixel] <= 0.0:
        depth[world, pixel] = wp.inf


def _kernel(function: Any, **types: Any) -> Any:
    function.__annotations__ = types  # warp reads them, and could not read strings
    return wp.kernel(function, enable_backward=False)


_unpack = _kernel(_unpack_pixel, packed=wp.array2d(dtype=wp.uint32), rgb=wp.array3d(dtype=wp.uint8))
_open = _kernel(_open_pixel, depth=wp.array2d(dtype=wp.float32))
