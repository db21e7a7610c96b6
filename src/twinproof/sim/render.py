"""Pictures of a MuJoCo state: colour, depth, segmentation, normals; by OpenGL or by a ray caster that needs none.

renderer, why = best()                                    # or Rays(), or GL(): the caller chooses and can say so
image = renderer.render(model, data, Named("front", 320, 240))
with renderer.on(model) as studio:                        # for many pictures
    image = studio.render(data, Named("front", 320, 240), ("rgb",))
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from twinproof.nouns.errors import SimError

if TYPE_CHECKING:
    from jaxtyping import Float, Int32, UInt8
    from mujoco import MjData, MjModel

    from twinproof.sim.render_camera import View

CHANNELS = ("rgb", "depth", "segmentation", "normal")


@dataclass(frozen=True, eq=False)
class Image:
    """What a camera sees. Channels that were not asked for are None."""

    rgb: UInt8[np.ndarray, "H W 3"] | None = None  # display-referred sRGB
    depth_m: Float[np.ndarray, "H W"] | None = None  # along the optical axis; inf where nothing is
    geom: Int32[np.ndarray, "H W"] | None = None  # ids; -1 where nothing is
    body: Int32[np.ndarray, "H W"] | None = None
    normal: Float[np.ndarray, "H W 3"] | None = None  # outward, in the world; 0 where nothing is


class Studio(Protocol):
    """A renderer made ready for one model."""

    def render(self, state: MjData | np.ndarray, camera: View, what: Sequence[str] = CHANNELS) -> Image:
        """One picture of one state: an MjData whose kinematics are current, or a qpos."""

    def render_many(
        self, states: Sequence[MjData | np.ndarray], cameras: Sequence[View], what: Sequence[str] = CHANNELS
    ) -> list[list[Image]]:
        """Every state through every camera: [state][camera]."""


class Renderer(ABC):
    """Whatever draws."""

    @abstractmethod
    def on(self, model: MjModel) -> AbstractContextManager[Studio]:
        """For many calls: what is costly is made once. Poses, sizes, colours and lights are still read at each call."""

    def render(self, model: MjModel, state: MjData | np.ndarray, camera: View, what: Sequence[str] = CHANNELS) -> Image:
        """One picture, from nothing. Making ready may cost more than drawing: for several use `on`."""
        with self.on(model) as studio:
            return studio.render(state, camera, what)

    def render_many(
        self,
        model: MjModel,
        states: Sequence[MjData | np.ndarray],
        cameras: Sequence[View],
        what: Sequence[str] = CHANNELS,
    ) -> list[list[Image]]:
        """Every state through every camera, from nothing: [state][camera]."""
        with self.on(model) as studio:
            return studio.render_many(states, cameras, what)


class Choice(NamedTuple):
    """A renderer, and the reason for it in words."""

    renderer: Renderer
    why: str


def best() -> Choice:
    """OpenGL where a graphics card answers, else the ray caster, which on a CPU is as fast as OpenGL and exact."""
    from twinproof.sim.render_gl import GL, gl_device, gl_problem
    from twinproof.sim.render_rays import Rays

    problem = gl_problem()
    if problem is not None:
        return Choice(Rays(), f"ray caster, because {problem}")
    device = gl_device()
    if device.in_software:
        return Choice(Rays(), f"ray caster, because OpenGL here is {device.name}, which draws on the CPU, too")
    return Choice(GL(), f"OpenGL on {device.name}")


def asked(what: Sequence[str]) -> frozenset[str]:
    """The channels asked for, known ones only."""
    unknown = sorted(set(what) - set(CHANNELS))
    if unknown or not what:
        raise SimError(f"cannot render {unknown or 'nothing'}. Ask for some of {', '.join(CHANNELS)}.")
    return frozenset(what)


def posed(model: MjModel, state: MjData | np.ndarray) -> MjData:
    """The state with its kinematics: an MjData as it is, a qpos in a new one."""
    import mujoco

    if isinstance(state, mujoco.MjData):
        return state
    qpos: Any = np.asarray(state, float)
    if qpos.shape != (model.nq,) or not np.isfinite(qpos).all():
        raise SimError(f"a state of shape {qpos.shape}; needed are {model.nq} finite numbers (qpos), or an MjData.")
    data = mujoco.MjData(model)
    data.qpos[:] = qpos
    for stage in (mujoco.mj_kinematics, mujoco.mj_comPos, mujoco.mj_camlight):
        stage(model, data)
    return data
