"""Surfaces carry MuJoCo's colours and textures: drawn plainly they look as the ray caster draws them in even light."""

from __future__ import annotations

import numpy as np
import pytest

from twinproof.nouns.pictures import png_bytes
from twinproof.sim.anatomy import anatomy
from twinproof.sim.painted import surfaces
from twinproof.sim.render_camera import Camera, Lens
from twinproof.sim.render_rays import Rays
from twinproof.sim.scene import Scene
from twinproof.sim.surface import moved
from twinproof.sim.unlit import unlit

SCENE = """<mujoco><visual><headlight ambient="1 1 1" diffuse="0 0 0" specular="0 0 0"/></visual>
 <asset><texture name="t" type="{kind}" file="t.png"/>
 <material name="m" texture="t" specular="0" texrepeat="{repeat}" texuniform="{uniform}" rgba="{rgba}"/></asset>
 <worldbody><body name="thing" pos="0.1 0 0" euler="20 30 40">{geom}</body></worldbody></mujoco>"""
GEOMS = {
    "box": '<geom type="box" size="0.3 0.2 0.25" material="m"/>',
    "sphere": '<geom type="sphere" size="0.3" material="m"/>',
    "cylinder": '<geom type="cylinder" size="0.2 0.3" material="m"/>',
    "capsule": '<geom type="capsule" size="0.15 0.2" material="m"/>',
    "ellipsoid": '<geom type="ellipsoid" size="0.3 0.2 0.25" material="m"/>',
    "plane": '<geom type="plane" size="0.4 0.3 0.1" material="m"/>',
}


def camera() -> Camera:
    T = np.diag([1.0, -1.0, -1.0, 1.0])
    T[:3, 3] = 0.05, 0.1, 1.4
    return Camera(Lens(90, 70, 110, 110, 44.5, 34.5), T)


def textured(folder, geom: str, kind: str = "2d", repeat: str = "1 1", uniform: str = "false", rgba: str = "1 1 1 1"):
    rng = np.random.default_rng(0)
    flag = np.repeat(np.repeat(rng.integers(30, 255, (4, 4, 3), np.uint8), 16, axis=0), 16, axis=1)
    (folder / "t.png").write_bytes(png_bytes(flag))
    return Scene(SCENE.format(kind=kind, geom=GEOMS[geom], repeat=repeat, uniform=uniform, rgba=rgba), folder)


def off(scene: Scene) -> float:
    """Share of pixels that differ by more than a shade between the two ways to draw."""
    whole, model = anatomy(scene), scene.compile()
    truth = Rays(edge_samples=3).render(model, np.array(model.qpos0), camera(), ("rgb",)).rgb / 255
    shown = unlit([moved(s, whole.named[s.link].T_world_link) for s in surfaces(scene)], camera(), behind=(0, 0, 0))
    return float((np.abs(truth - shown).max(axis=2) > 0.1).mean())


@pytest.mark.parametrize("geom", GEOMS)
def test_a_flat_texture_lies_as_mujoco_lays_it(tmp_path, geom):
    assert off(textured(tmp_path, geom)) < 0.03  # facets of round shapes, edges of the texture's squares


def test_repeats_and_tints_are_kept(tmp_path):
    assert off(textured(tmp_path, "box", repeat="3 2", rgba="0.9 0.5 0.7 1")) < 0.04
    assert off(textured(tmp_path, "plane", repeat="5 4", uniform="true")) < 0.04


@pytest.mark.parametrize("geom", ["box", "ellipsoid"])
def test_a_cube_map_is_kept_exactly_on_a_box_and_by_vertices_elsewhere(tmp_path, geom):
    scene = textured(tmp_path, geom, kind="cube")
    (surface,) = surfaces(scene)
    assert (surface.texture is not None) == (geom == "box")
    assert (surface.simplified == "") == (geom == "box")
    assert off(scene) < (0.03 if geom == "box" else 0.15)


def test_an_endless_plane_is_cut_and_says_so():
    (floor,) = surfaces(Scene('<mujoco><worldbody><geom type="plane" size="0 0 1"/></worldbody></mujoco>'))
    assert np.ptp(floor.mesh.vertices[:, 0]) == 20
    assert floor.simplified == "an endless plane is cut to 20 × 20 m"


def test_what_is_hidden_is_not_drawn():
    hidden = '<geom type="sphere" size="1" group="3"/><geom type="sphere" size="1" rgba="1 1 1 0"/>'
    assert surfaces(Scene(f"<mujoco><worldbody>{hidden}</worldbody></mujoco>")) == ()
