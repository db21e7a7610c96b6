"""OpenGL beside the ray caster: the same depth, the same ids, nearly the same colours; and what is said without it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sim.rendering import MANY, QUARTERS, looking, png, ready
from twinproof.nouns.errors import SimError
from twinproof.sim import render_gl
from twinproof.sim.render import best
from twinproof.sim.render_camera import Camera, Lens, Named
from twinproof.sim.render_gl import GL, Device, gl_device, gl_problem
from twinproof.sim.render_rays import Rays

needs_gl = pytest.mark.skipif(gl_problem() is not None, reason=f"OpenGL does not render here: {gl_problem()}")


@needs_gl
@pytest.mark.parametrize("view", [Named("front", 160, 120), Named("sensor", 160, 120), "off centre"])
def test_opengl_and_rays_see_the_same_things_at_the_same_depth(view):
    model, data = ready(MANY)
    if view == "off centre":
        view = Camera(Lens(160, 120, 150.0, 130.0, 60.0, 70.0), looking((0, 0, 0.4), (1, -1.5, 1)).T_world_camera)
    cast, drawn = Rays().render(model, data, view), GL().render(model, data, view)
    assert (cast.geom == drawn.geom).mean() > 0.99
    assert (cast.body == drawn.body).mean() > 0.99
    both = (cast.geom == drawn.geom) & (cast.geom >= 0) & (cast.depth_m < 10)
    # OpenGL draws balls and cylinders with facets, whose chords lie inside the true surface.
    assert np.quantile(np.abs(cast.depth_m[both] - drawn.depth_m[both]), 0.95) < 1e-3
    assert np.isinf(drawn.depth_m[drawn.geom == -1]).all()
    agree = (cast.normal * drawn.normal).sum(axis=-1)[both]
    assert np.quantile(agree, 0.1) > np.cos(np.radians(2))
    assert np.abs(cast.rgb.astype(float) - drawn.rgb).mean() < 40


FLAT = """
<mujoco><visual><headlight ambient="1 1 1" diffuse="0 0 0" specular="0 0 0"/></visual>
<asset><texture name="t" type="{kind}" file="t.png"/><material name="m" texture="t" texrepeat="3 2"
texuniform="{uniform}"/>
<mesh name="gem" vertex="0 0 .3  .3 0 0  0 .3 0  -.3 0 0  0 -.3 0  0 0 -.15"/>
<mesh name="uv" vertex="-.3 -.3 0 .3 -.3 0 .3 .3 0 -.3 .3 0 0 0 .3" texcoord="0 0 1 0 1 1 0 1 .5 .5"/></asset>
<worldbody><geom {geom} material="m" euler="20 10 30"/></worldbody></mujoco>"""


SOLIDS = [
    'type="box" size=".3 .2 .25"', 'type="sphere" size=".3"', 'type="cylinder" size=".2 .3"',
    'type="capsule" size=".15 .2"', 'type="ellipsoid" size=".3 .2 .25"', 'type="mesh" mesh="gem"',
    'type="plane" size=".4 .3 .1"',
]  # fmt: skip
FLAT_ONLY = ['type="mesh" mesh="uv"', 'type="plane" size="0 0 .1"']  # a cube map means nothing on these


@needs_gl
@pytest.mark.parametrize("uniform", ["true", "false"])
@pytest.mark.parametrize(
    ("geom", "kind"), [(geom, "2d") for geom in SOLIDS + FLAT_ONLY] + [(geom, "cube") for geom in SOLIDS]
)
def test_textures_lie_as_mujoco_lays_them(geom, kind, uniform):
    model, data = ready(FLAT.format(geom=geom, kind=kind, uniform=uniform), {"t.png": png(QUARTERS)})
    camera = looking((0, 0, 0), (0.5, -0.7, 1.0), Lens(160, 120, 150.0, 150.0, 80.0, 60.0))
    cast, drawn = Rays().render(model, data, camera), GL().render(model, data, camera)
    inside = (cast.geom == 0) & (drawn.geom == 0)
    off = np.abs(cast.rgb.astype(int) - drawn.rgb).max(axis=-1)[inside]
    assert (off < 40).mean() > 0.85  # where colours meet, either blurs in its own way


@needs_gl
def test_a_bent_lens_is_refused_by_opengl():
    model, data = ready(MANY)
    lens = Lens(32, 24, 30.0, 30.0, 16.0, 12.0, (0.1, 0, 0, 0))
    with pytest.raises(SimError, match="casts straight rays"):
        GL().render(model, data, looking((0, 0, 0), (1, 0, 1), lens))


@needs_gl
def test_one_context_serves_many_sizes_and_leaves_the_environment_alone(monkeypatch):
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    model, data = ready(MANY)
    with GL().on(model) as studio:
        small = studio.render(data, Named("front", 32, 24), ("depth",))
        large = studio.render(data, Named("front", 64, 48), ("rgb", "segmentation"))
        again = studio.render(data, Named("front", 32, 24), ("depth", "normal"))
    assert np.array_equal(small.depth_m, again.depth_m)
    assert small.rgb is None
    assert large.rgb.shape == (48, 64, 3)
    assert "MUJOCO_GL" not in render_gl.os.environ


def test_best_names_what_it_chose_and_why():
    choice = best()
    if gl_problem() is not None:
        assert isinstance(choice.renderer, Rays)
        assert gl_problem() in choice.why
    elif gl_device().in_software:
        assert isinstance(choice.renderer, Rays)
        assert gl_device().name in choice.why
    else:
        assert isinstance(choice.renderer, GL)
        assert gl_device().name in choice.why


def test_a_driver_is_known_to_be_software_by_its_name():
    assert Device("egl", "llvmpipe (LLVM 15.0.6, 256 bits)").in_software
    assert not Device("egl", "NVIDIA H200/PCIe/SSE2").in_software


def test_without_a_device_the_reason_is_told_and_opengl_refuses(monkeypatch):
    render_gl._probe.cache_clear()
    monkeypatch.setattr(render_gl, "PLATFORMS", ("egl",))
    monkeypatch.setenv("MUJOCO_EGL_DEVICE_ID", "99")
    try:
        assert gl_problem().startswith("egl: ")
        assert "ray caster, because egl: " in best().why
        with pytest.raises(SimError, match="OpenGL cannot render here: egl: .* Render with Rays"):
            GL()
    finally:
        render_gl._probe.cache_clear()


def test_a_driver_that_hangs_is_given_up(monkeypatch):
    render_gl._probe.cache_clear()
    monkeypatch.setattr(render_gl, "PROBE_LIMIT_S", 0.01)
    try:
        assert "no answer within" in gl_problem()
    finally:
        render_gl._probe.cache_clear()


@pytest.mark.gpu
@needs_gl
def test_a_graphics_card_is_preferred_where_there_is_one():
    if gl_device().in_software:
        pytest.skip(f"OpenGL here is {gl_device().name}")
    assert isinstance(best().renderer, GL)
    model, data = ready(MANY)
    assert GL().render(model, data, looking((0, 0, 0.4), (1, -1.5, 1))).rgb.any()
