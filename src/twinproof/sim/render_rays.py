"""The ray caster: pictures on any machine, without OpenGL. The same picture whatever the number of threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.nouns.errors import SimError
from twinproof.sim.render import CHANNELS, Image, Renderer, asked, posed
from twinproof.sim.render_camera import Camera, View, pixel_rays
from twinproof.sim.threads import threads_usable

if TYPE_CHECKING:
    from mujoco import MjData, MjModel

BAND = 16  # rows that one task draws: two tiles
GOLDEN = np.pi * (3 - np.sqrt(5))


@dataclass(frozen=True)
class Rays(Renderer):
    """Analytic ray casting on the CPU. Depth, ids and normals are exact at pixel centres; colours are smoothed.

    Geoms are drawn; sites and tendons are not.
    """

    threads: int = 0  # 0: as many as this process may use
    edge_samples: int = 2  # rays along each side of a pixel that an edge crosses; 1: edges stay jagged
    shadow_samples: int = 16  # points on each lamp, 5 or more; 1: hard shadows
    corner_rays: int = 0  # rays that find how dark corners are; 0: ambient light is even
    corner_reach_m: float = 0.15
    groups: tuple[int, ...] = (0, 1, 2)  # geom groups that are drawn: MuJoCo's own default

    def __post_init__(self) -> None:
        if (
            self.threads < 0
            or self.edge_samples < 1
            or (self.shadow_samples < 5 and self.shadow_samples != 1)
            or self.corner_rays < 0
        ):
            raise SimError(
                f"Rays: threads {self.threads} and corner_rays {self.corner_rays} are 0 or more, edge_samples "
                f"{self.edge_samples} is 1 or more, shadow_samples {self.shadow_samples} is 1 (hard), or 5 or more."
            )

    @contextmanager
    def on(self, model: MjModel) -> Iterator[_Studio]:
        """Threads that stay for many pictures."""
        usable = threads_usable()
        with ThreadPoolExecutor(self.threads or usable) as pool:
            yield _Studio(self, model, pool)


@dataclass(frozen=True)
class _Studio:
    """Rays, a model, and the threads that draw."""

    rays: Rays
    model: MjModel
    pool: ThreadPoolExecutor

    def render(self, state: MjData | np.ndarray, camera: View, what: Sequence[str] = CHANNELS) -> Image:
        """One picture; bands of rows are drawn side by side."""
        job = self._job(state, camera, asked(what))
        for stage in job.stages():
            list(self.pool.map(stage, job.bands()))
        return job.image()

    def render_many(
        self, states: Sequence[MjData | np.ndarray], cameras: Sequence[View], what: Sequence[str] = CHANNELS
    ) -> list[list[Image]]:
        """Every state through every camera; whole pictures are drawn side by side."""
        channels = asked(what)

        def draw(shot: tuple[Any, View]) -> Image:
            job = self._job(*shot, channels)
            for stage in job.stages():
                stage((0, job.height))
            return job.image()

        shots = [(data, camera) for data in (posed(self.model, state) for state in states) for camera in cameras]
        images = list(self.pool.map(draw, shots))
        return [images[k * len(cameras) : (k + 1) * len(cameras)] for k in range(len(states))]

    def _job(self, state: MjData | np.ndarray, camera: View, what: frozenset[str]) -> _Job:
        from twinproof.sim import ray_scene
        from twinproof.sim.ray_trace import Eye, Hits

        rays, model = self.rays, self.model
        data = posed(model, state)
        view: Camera = camera.at(model, data)
        pose, lens = view.T_world_camera, view.lens
        eye = Eye(np.array(pose[:3, 3]), np.array(pose[:3, :3]).reshape(9), pixel_rays(lens), 1 / lens.fx)
        ids = ray_scene.visible(model, rays.groups)
        lamp = (_disc(rays.shadow_samples), _dome(rays.corner_rays), rays.corner_reach_m)
        size = (lens.height, lens.width)
        hits = Hits(
            np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size), np.zeros((*size, 2)),
            np.empty((*size, 3), np.float32),
        )  # fmt: skip
        scene = ray_scene.scene(model, data, ids, eye.pos, lamp)
        return _Job(scene, eye, hits, ids, model.geom_bodyid[ids], what, rays.edge_samples)


class _Job:
    """One picture being drawn: first what every pixel meets, then, from all of that, the colours."""

    def __init__(self, scene: Any, eye: Any, hits: Any, ids: Any, bodies: Any, what: frozenset[str], edge: int) -> None:
        self.scene, self.eye, self.hits, self.ids, self.bodies, self.what = scene, eye, hits, ids, bodies, what
        self.edge = edge
        self.height = hits.depth.shape[0]
        self.rgb = np.empty((*hits.depth.shape, 3), np.uint8) if "rgb" in what else None

    def bands(self) -> list[tuple[int, int]]:
        """Rows by rows."""
        return [(row, min(row + BAND, self.height)) for row in range(0, self.height, BAND)]

    def stages(self) -> list[Any]:
        """What must be done to all rows, one after the other."""
        from twinproof.sim.ray_lights import Near
        from twinproof.sim.ray_shade import shade_rows
        from twinproof.sim.ray_trace import trace_rows

        n, lights = len(self.ids), self.scene.lights.kind.size

        def trace(rows: tuple[int, int]) -> None:
            trace_rows(self.scene.shapes, self.eye, self.hits, np.empty(n, np.int32), np.empty(n), *rows)

        def shade(rows: tuple[int, int]) -> None:
            near = Near(
                np.arange(n, dtype=np.int32), np.zeros(n), np.zeros(4),
                np.zeros((lights + 1, n), np.int32), np.zeros(lights + 1, np.int32), np.empty(n, np.int32),
            )  # fmt: skip
            shade_rows(
                self.scene, self.eye, self.hits, self.edge, _curve(), self.rgb, near,
                np.empty(n, np.int32), np.empty(n), *rows,
            )  # fmt: skip

        return [trace] if self.rgb is None else [trace, shade]

    def image(self) -> Image:
        """The channels that were asked for."""
        shape = self.hits.shape
        seen = "segmentation" in self.what
        return Image(
            rgb=self.rgb,
            depth_m=self.hits.depth.astype(np.float32) if "depth" in self.what else None,
            geom=_lookup(self.ids, shape) if seen else None,
            body=_lookup(self.bodies, shape) if seen else None,
            normal=self.hits.normal if "normal" in self.what else None,
        )


def _lookup(table: Any, index: Any) -> Any:
    return np.append(table, -1).astype(np.int32)[index]  # index -1 is the last: nothing


@cache
def _curve() -> Any:
    """Linear light in 0 … 1 to display-referred bytes."""
    light = np.linspace(0, 1, 1 << 14)
    shown = np.where(light <= 0.0031308, 12.92 * light, 1.055 * np.maximum(light, 1e-9) ** (1 / 2.4) - 0.055)
    return np.round(255 * shown).astype(np.uint8)


@cache
def _disc(samples: int) -> Any:
    """Points on a lamp: four on the rim that tell whether it is half hidden, the rest spread evenly."""
    if samples == 1:
        return np.zeros((1, 2))
    rim = 0.9 * np.array([[1, 1], [-1, -1], [1, -1], [-1, 1]]) / np.sqrt(2)
    k = np.arange(samples - 4)
    radius, angle = 0.9 * np.sqrt((k + 0.5) / (samples - 4)), GOLDEN * k
    return np.concatenate([rim, np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)])


@cache
def _dome(rays: int) -> Any:
    """Cosine-weighted directions over a surface."""
    k = np.arange(rays)
    radius, angle = np.sqrt((k + 0.5) / max(rays, 1)), GOLDEN * k
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), np.sqrt(1 - radius**2)], axis=1).reshape(-1, 3)
