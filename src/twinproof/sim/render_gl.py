"""MuJoCo's own OpenGL renderer, off screen, behind the same interface as the ray caster; and whether it works here."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.nouns.errors import SimError
from twinproof.sim.render import CHANNELS, Image, Renderer, asked, posed
from twinproof.sim.render_camera import Camera, View

if TYPE_CHECKING:
    from mujoco import MjData, MjModel, MjrContext, MjvScene

PLATFORMS = ("egl", "osmesa")  # in the order they are tried
SOFTWARE = ("llvmpipe", "softpipe", "swrast", "SWR")
PROBE_LIMIT_S = 60.0
SPARE_GEOMS = 100  # beside the model's own, for what MuJoCo adds


@dataclass(frozen=True)
class Device:
    """What draws: the platform that opened it and the driver's own name for it."""

    platform: str
    name: str

    @property
    def in_software(self) -> bool:
        """Whether it is the CPU that draws."""
        return any(word in self.name for word in SOFTWARE)


def gl_problem() -> str | None:
    """Why OpenGL cannot render on this machine, or None where it can. Tried once, in another process: drivers crash."""
    found = _probe()
    return None if isinstance(found, Device) else found


def gl_device() -> Device:
    """The device that OpenGL renders on; an error where there is none."""
    found = _probe()
    if isinstance(found, Device):
        return found
    raise SimError(f"OpenGL cannot render here: {found}. Render with Rays(), which needs no OpenGL.")


@cache
def _probe() -> Device | str:
    troubles = []
    for platform in PLATFORMS:
        try:
            done = subprocess.run(
                [sys.executable, "-m", "twinproof.sim.render_gl", platform],
                capture_output=True, text=True, timeout=PROBE_LIMIT_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            troubles.append(f"{platform}: no answer within {PROBE_LIMIT_S:.0f} s")
            continue
        lines = done.stdout.strip().splitlines()
        if done.returncode == 0 and lines:
            return Device(platform, lines[-1])
        last = (done.stderr.strip().splitlines() or [f"ended with code {done.returncode}"])[-1]
        troubles.append(f"{platform}: {last}")
    return "; ".join(troubles)


@contextmanager
def _window(platform: str) -> Iterator[None]:
    """A current OpenGL context without a window."""
    if platform == "egl":
        from mujoco.egl import GLContext
    else:
        from mujoco.osmesa import GLContext
    before = os.environ.get("MUJOCO_GL")
    os.environ["MUJOCO_GL"] = platform  # by this the library, too, knows where to look for OpenGL's functions
    context = GLContext(64, 64)
    context.make_current()
    try:
        yield
    finally:
        context.free()
        if before is None:
            del os.environ["MUJOCO_GL"]
        else:
            os.environ["MUJOCO_GL"] = before


@dataclass(frozen=True)
class GL(Renderer):
    """MuJoCo's classic renderer. Normals have 8 bits; a bent lens is refused, since OpenGL casts straight rays."""

    shadows: bool = True
    groups: tuple[int, ...] = (0, 1, 2)

    def __post_init__(self) -> None:
        gl_device()

    @contextmanager
    def on(self, model: MjModel) -> Iterator[_Studio]:
        """A context with the model's meshes and textures, which belongs to the calling thread."""
        with _canvas(model) as canvas:
            yield _Studio(self, model, canvas)


@dataclass(frozen=True)
class _Studio:
    """GL, a model, and the canvas with its context."""

    gl: GL
    model: MjModel
    canvas: _Canvas

    def render(self, state: MjData | np.ndarray, camera: View, what: Sequence[str] = CHANNELS) -> Image:
        """One picture."""
        return self.render_many([state], [camera], what)[0][0]

    def render_many(
        self, states: Sequence[MjData | np.ndarray], cameras: Sequence[View], what: Sequence[str] = CHANNELS
    ) -> list[list[Image]]:
        """Every state through every camera, one after the other."""
        channels = asked(what)
        data = [posed(self.model, state) for state in states]
        return [[self._shot(state, camera.at(self.model, state), channels) for camera in cameras] for state in data]

    def _shot(self, data: MjData, camera: Camera, what: frozenset[str]) -> Image:
        if camera.lens.bent:
            raise SimError(
                f"OpenGL casts straight rays and cannot draw through the distortion {camera.lens.distortion}. "
                "Render with Rays(), or without distortion."
            )
        canvas = self.canvas
        canvas.aim(self.model, data, camera, self.gl.groups)
        # Ids first, depth from the same drawing, normals last: they change what the geoms are made of.
        ids = canvas.ids() if what != {"rgb"} else None
        depth = canvas.depth() if "depth" in what else None
        rgb = canvas.colours(self.gl.shadows) if "rgb" in what else None
        normal = canvas.normals() if "normal" in what else None
        if depth is not None:
            depth[ids == -1] = np.inf
        if normal is not None:
            normal[ids == -1] = 0.0
        if "segmentation" not in what:
            return Image(rgb=rgb, depth_m=depth, normal=normal)
        body = np.append(self.model.geom_bodyid, -1).astype(np.int32)[ids]
        return Image(rgb=rgb, depth_m=depth, geom=ids, body=body, normal=normal)


class _Canvas:
    """A scene, a context and the size of the picture, between `aim` and the next."""

    def __init__(self, scene: MjvScene, context: MjrContext) -> None:
        import mujoco

        self.scene, self.context, self.mujoco = scene, context, mujoco
        self.rect = mujoco.MjrRect(0, 0, 1, 1)

    def aim(self, model: MjModel, data: MjData, camera: Camera, groups: tuple[int, ...]) -> None:
        """Fills the scene from a state and sets the camera: geoms only, as the ray caster draws."""
        mujoco, lens, pose = self.mujoco, camera.lens, camera.T_world_camera
        if (lens.width, lens.height) != (self.rect.width, self.rect.height):
            mujoco.mjr_resizeOffscreen(lens.width, lens.height, self.context)
            self.rect = mujoco.MjrRect(0, 0, lens.width, lens.height)
        option = mujoco.MjvOption()
        option.geomgroup[:] = [group in groups for group in range(len(option.geomgroup))]
        option.sitegroup[:] = 0
        for flag in (mujoco.mjtVisFlag.mjVIS_RANGEFINDER, mujoco.mjtVisFlag.mjVIS_TENDON):
            option.flags[flag] = 0
        mujoco.mjv_updateScene(
            model, data, option, None, mujoco.MjvCamera(), mujoco.mjtCatBit.mjCAT_ALL, self.scene
        )  # fmt: skip
        near = model.vis.map.znear * model.stat.extent
        for eye in self.scene.camera:
            eye.pos, eye.forward, eye.up = pose[:3, 3], pose[:3, 2], -pose[:3, 1]
            eye.frustum_near, eye.frustum_far = near, model.vis.map.zfar * model.stat.extent
            eye.frustum_center = near * ((lens.width - 1) / 2 - lens.cx) / lens.fx
            eye.frustum_width = near * lens.width / 2 / lens.fx
            eye.frustum_top = near * (lens.cy + 0.5) / lens.fy
            eye.frustum_bottom = near * (lens.cy + 0.5 - lens.height) / lens.fy

    def colours(self, shadows: bool) -> Any:
        """As MuJoCo draws."""
        self.scene.flags[self.mujoco.mjtRndFlag.mjRND_SHADOW] = shadows
        return self._draw()

    def depth(self) -> Any:
        """Metres along the axis, from what the last drawing left. Call it after `ids`, which smooths nothing."""
        eye = self.scene.camera[0]
        near, far = float(eye.frustum_near), float(eye.frustum_far)
        buffer = np.empty((self.rect.height, self.rect.width), np.float32)
        self.mujoco.mjr_readPixels(None, buffer, self.rect, self.context)
        # The buffer holds 1 at the near plane and 0 at the far one (reversed, for precision), hyperbolic between.
        reversed_ = self.context.readDepthMap == self.mujoco.mjtDepthMap.mjDEPTH_ZEROFAR
        share = buffer.astype(np.float64) if reversed_ else 1.0 - buffer.astype(np.float64)
        return np.flipud(near * far / (near + share * (far - near))).astype(np.float32)

    def ids(self) -> Any:
        """Geom ids, by drawing every geom in the colour that its number is."""
        flags, rnd = self.scene.flags, self.mujoco.mjtRndFlag
        flags[rnd.mjRND_SEGMENT] = flags[rnd.mjRND_IDCOLOR] = 1
        code = self._draw().astype(np.int32)
        flags[rnd.mjRND_SEGMENT] = flags[rnd.mjRND_IDCOLOR] = 0
        index = code[..., 0] + (code[..., 1] << 8) + (code[..., 2] << 16)
        table = np.full(self.scene.ngeom + 1, -1, np.int32)
        for geom in self.scene.geoms[: self.scene.ngeom]:
            if geom.objtype == self.mujoco.mjtObj.mjOBJ_GEOM and geom.segid >= 0:
                table[geom.segid + 1] = geom.objid
        return table[index]

    def normals(self) -> Any:
        """By lighting white, dull geoms with a red, a green and a blue sun along the axes, from either side."""
        flags, rnd = self.scene.flags, self.mujoco.mjtRndFlag
        kept = np.array(flags)
        for flag in (rnd.mjRND_SHADOW, rnd.mjRND_REFLECTION, rnd.mjRND_SKYBOX, rnd.mjRND_FOG, rnd.mjRND_HAZE):
            flags[flag] = 0
        for geom in self.scene.geoms[: self.scene.ngeom]:
            geom.matid, geom.texid, geom.emission, geom.specular, geom.reflectance = -1, -1, 0, 0, 0
            geom.rgba = [1, 1, 1, 1]
        sides = []
        for sign in (1.0, -1.0):
            self.scene.nlight = 3
            for axis, light in enumerate(self.scene.lights[:3]):
                unit = np.eye(3)[axis]
                light.type, light.headlight, light.castshadow = self.mujoco.mjtLightType.mjLIGHT_DIRECTIONAL, 0, 0
                light.dir, light.diffuse, light.ambient, light.specular = -sign * unit, unit, np.zeros(3), np.zeros(3)
            sides.append(self._draw().astype(np.float32))
        flags[:] = kept
        normal = sides[0] - sides[1]
        return normal / np.maximum(np.linalg.norm(normal, axis=-1, keepdims=True), 1e-6)

    def _draw(self) -> Any:
        self.mujoco.mjr_render(self.rect, self.scene, self.context)
        pixels = np.empty((self.rect.height, self.rect.width, 3), np.uint8)
        self.mujoco.mjr_readPixels(pixels, None, self.rect, self.context)
        return np.flipud(pixels).copy()


@contextmanager
def _canvas(model: MjModel) -> Iterator[_Canvas]:
    import mujoco

    with _window(gl_device().platform):
        context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
        try:
            mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, context)
            context.readDepthMap = mujoco.mjtDepthMap.mjDEPTH_ZEROFAR
            yield _Canvas(mujoco.MjvScene(model, model.ngeom + SPARE_GEOMS), context)
        finally:
            context.free()


def _main(platform: str) -> None:
    """Draws one small picture and prints the driver's name: what `_probe` runs in a process of its own."""
    import mujoco

    model = mujoco.MjModel.from_xml_string("<mujoco><worldbody><geom size='1'/></worldbody></mujoco>")
    with _window(platform):
        context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
        from OpenGL.GL import GL_RENDERER, glGetString

        sys.stdout.write(glGetString(GL_RENDERER).decode() + "\n")
        sys.stdout.flush()
        context.free()


if __name__ == "__main__":
    _main(sys.argv[1])
