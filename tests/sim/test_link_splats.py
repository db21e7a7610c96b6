"""Links as surfels: they cover the link, no more and no less, and go where the joints take them."""

from __future__ import annotations

import numpy as np
import pytest

from twinproof.nouns.errors import SimError
from twinproof.sim.link_splats import LinkPoses, link_splats, moved, robot_bodies
from twinproof.sim.render_camera import Camera, Lens
from twinproof.sim.render_rays import Rays
from twinproof.sim.splat.render import render
from twinproof.sim.tessellate import geom_triangles, subdivided
from twinproof.sim.world import World, compile_text

ARM = """<mujoco><compiler angle="radian"/>
<asset><mesh name="wedge" vertex="0 0 0 .1 0 0 0 .1 0 0 0 .1"/></asset>
<worldbody>
  <body name="stand"><geom type="cylinder" size=".05 .05" pos="0 0 .05" rgba=".8 .2 .2 1"/>
    <body name="upper" pos="0 0 .1"><joint name="turn" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 .25 0 0" size=".03" rgba=".2 .8 .2 1" mass="1"/>
      <body name="lower" pos=".25 0 0"><joint name="bend" axis="0 1 0"/>
        <geom type="box" pos=".1 0 0" size=".1 .03 .02" rgba=".2 .2 .8 1" mass="1"/>
        <geom type="ellipsoid" pos=".2 0 0" size=".03 .03 .02" rgba=".8 .8 .2 1" mass="1"/>
        <body name="finger" pos=".2 0 0"><joint name="slide" type="slide" axis="0 1 0"/>
          <geom type="mesh" mesh="wedge" mass=".1"/></body>
        <body name="other" pos=".2 0 0"><joint name="mirror" type="slide" axis="0 -1 0"/>
          <geom type="sphere" size=".02" mass=".1"/></body>
      </body></body></body>
  <body name="thing" pos="1 0 0"><freejoint/><geom type="box" size=".02 .02 .02"/></body>
</worldbody>
<equality><joint joint1="mirror" joint2="slide" polycoef="0.01 2 0 0 0"/></equality>
<actuator><position joint="turn"/><position joint="bend"/><position joint="slide"/></actuator></mujoco>"""


@pytest.fixture(scope="module")
def model():
    return compile_text(ARM)


@pytest.mark.parametrize("geom", range(6))
def test_triangles_of_a_shape_are_small_and_enclose_it(model, geom) -> None:
    triangles = geom_triangles(model, geom, 0.02)
    edges = np.linalg.norm(triangles[:, [1, 2, 0]] - triangles, axis=2)
    assert edges.max() < 0.05
    a, b, c = triangles.transpose(1, 0, 2)
    volume = np.einsum("ij,ij->i", a, np.cross(b, c)).sum() / 6
    full = [np.pi * 0.05**2 * 0.1, np.pi * 0.03**2 * (0.25 + 0.04), 8 * 0.1 * 0.03 * 0.02]
    full += [4 / 3 * np.pi * 0.03 * 0.03 * 0.02, 1e-3 / 6, 4 / 3 * np.pi * 0.02**3]
    assert volume == pytest.approx(full[geom], rel=0.2)


def test_cutting_triangles_keeps_their_area() -> None:
    one = np.array([[[0, 0, 0], [1, 0, 0], [0, 0.3, 0.0]]])
    cut = subdivided(one, 0.1)
    area = 0.5 * np.linalg.norm(np.cross(cut[:, 1] - cut[:, 0], cut[:, 2] - cut[:, 0]), axis=1).sum()
    assert area == pytest.approx(0.15)
    assert np.linalg.norm(cut[:, [1, 2, 0]] - cut, axis=2).max() <= 0.1


def test_the_robot_is_what_is_driven_and_what_carries_it(model) -> None:
    assert robot_bodies(model) == ("stand", "upper", "lower", "finger", "other")


def test_links_drawn_as_surfels_cover_what_the_ray_caster_draws(model) -> None:
    bodies = robot_bodies(model)
    links = link_splats(model, bodies, 0.012)
    poses = LinkPoses(model, ("turn", "bend", "slide"), links.bodies)
    placed = poses.at(np.array([-0.6, 0.9, 0.01]))
    lens = Lens(160, 120, 150.0, 150.0, 79.5, 59.5)
    pose = np.array([[0, 0, -1.0, 0.9], [1, 0, 0, 0], [0, -1, 0, 0.15], [0, 0, 0, 1]])
    camera = Camera(lens, pose)
    splats = links.towards(np.full((len(links.geom), 3), 0.5), placed, camera)
    drawn = render(splats, camera, moved=moved(links, placed), what=("alpha",)).alpha > 0.5
    world = World(model)
    world.qpos[:] = poses.data.qpos
    world.forward()
    true = Rays().render(model, world.data, camera, ["segmentation"]).body
    assert true is not None
    seen = np.isin(true, links.bodies)
    assert (drawn & seen).sum() / (drawn | seen).sum() > 0.95
    assert drawn.sum() == pytest.approx(seen.sum(), rel=0.03)


def test_tied_joints_follow(model) -> None:
    poses = LinkPoses(model, ("slide",), [model.body("finger").id, model.body("other").id])
    finger, other = poses.at(np.array([0.03]))[:, :3, 3]
    assert finger[1] == pytest.approx(0.03)
    assert other[1] == pytest.approx(-0.07)
    assert poses.at_rest()[0, :3, 3] == pytest.approx([0.45, 0, 0.1])


def test_names_that_the_model_lacks_are_refused(model) -> None:
    with pytest.raises(SimError, match="has no body 'elbow'"):
        link_splats(model, ["elbow"])
    with pytest.raises(SimError, match="no hinge or slide 'elbow'"):
        LinkPoses(model, ["elbow"], [1])
    with pytest.raises(SimError, match="has no site 'tip'"):
        LinkPoses(model, ["turn"], [1]).site("tip")
    bare = compile_text(
        '<mujoco><worldbody><body name="a"><inertial mass="1" pos="0 0 0" diaginertia="1 1 1"/></body>'
        "</worldbody></mujoco>"
    )
    with pytest.raises(SimError, match="none of the bodies a has a shape"):
        link_splats(bare, ["a"])
