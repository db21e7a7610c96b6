"""What lights, textures and materials must do to the colours that the ray caster gives."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sim.rendering import FLAT_LIGHT, QUARTERS, looking, png, ready
from twinproof.sim.render_camera import Lens
from twinproof.sim.render_rays import Rays

SHADOW = """
<mujoco><visual><headlight ambient=".1 .1 .1" diffuse="0 0 0" specular="0 0 0"/></visual>
<worldbody><light {light} diffuse=".6 .6 .6" specular="0 0 0" dir="0 0 -1" bulbradius="{bulb}"/>
<geom type="plane" size="3 3 .1"/><geom {caster} pos="0 0 1"/></worldbody></mujoco>"""


def shadow_row(light: str, bulb: float, caster: str = 'size=".3"') -> np.ndarray:
    """Brightness along a line on the floor through the point below the caster; 2 cm a pixel."""
    model, data = ready(SHADOW.format(light=light, bulb=bulb, caster=caster))
    # From under the caster nothing is in the way of a camera that looks down.
    image = Rays(edge_samples=1).render(model, data, looking((0, 0, 0), (0, 0, 0.68), Lens(101, 3, 34, 34, 50, 1)))
    assert (image.geom == 0).all()
    return image.rgb[1, :, 0].astype(int)


@pytest.mark.parametrize("light", ['pos="0 0 4"', 'pos="0 0 4" type="directional"', 'pos="0 0 4" type="point"'])
def test_a_shadow_is_where_the_light_does_not_reach(light):
    row = shadow_row(light, 0.0)
    radius = 0.3 if "directional" in light else 0.3 * 4 / np.sqrt(9 - 0.09)
    x = 0.02 * (np.arange(101) - 50)
    assert np.ptp(row[np.abs(x) < radius - 0.03]) == 0
    assert row[50] < 0.6 * row[np.abs(x) > radius + 0.03].min()


def test_a_lamp_of_some_size_has_a_penumbra_that_grows_with_it():
    widths = []
    for bulb in (0.0, 0.1, 0.3):
        row = shadow_row('pos="0 0 4" cutoff="80"', bulb)[50:]
        between = (row > row[0] + 8) & (row < 0.85 * row.max())
        widths.append(int(between.sum()))
    assert widths[0] <= 1
    assert widths[0] < widths[1] < widths[2]


@pytest.mark.parametrize(
    "caster", ['type="box" size=".3 .3 .1"', 'type="capsule" size=".2 .1"', 'type="mesh" mesh="m"']
)
def test_every_kind_of_shape_throws_a_shadow_and_glass_does_not(caster):
    xml = SHADOW.replace(
        "<worldbody>", '<asset><mesh name="m" builtin="sphere" params="2" scale=".3 .3 .3"/></asset><worldbody>', 1
    )
    rows = []
    for extra in ("", ' rgba="1 1 1 .5"'):
        model, data = ready(xml.format(light='pos="0 0 4"', bulb=0.02, caster=caster + extra))
        camera = looking((0, 0, 0), (0, 0, 0.6), Lens(101, 3, 34, 34, 50, 1))
        rows.append(Rays().render(model, data, camera, ("rgb",)).rgb[1, :, 0].astype(int))
    assert rows[0][50] < 0.6 * rows[0][0]
    assert rows[1][50] > 0.9 * rows[1][0]


def test_corners_are_darker_when_asked_for():
    model, data = ready(
        f'<mujoco>{FLAT_LIGHT}<worldbody><geom type="plane" size="3 3 .1"/>'
        '<geom type="box" size=".5 .5 .5" pos="0 1 .5"/></worldbody></mujoco>'
    )
    camera = looking((0, 0.45, 0), (0, 0.2, 1.2))
    even = Rays().render(model, data, camera)
    dark = Rays(corner_rays=16).render(model, data, camera)
    floor = even.geom == 0
    assert np.ptp(even.rgb[floor]) <= 1
    assert dark.rgb[floor].min() < even.rgb[floor].min() - 15
    assert dark.rgb[floor].max() == even.rgb[floor].max()


@pytest.mark.parametrize(
    ("geom", "top"),
    [('type="plane" size=".5 .5 .1"', 0.0), ('type="box" size=".5 .5 .1"', 0.1), ('type="mesh" mesh="sheet"', 0.0)],
)
def test_a_picture_lies_upright_on_a_plane_a_box_and_a_mesh(geom, top):
    mesh = (
        '<mesh name="sheet" inertia="shell" vertex="-.5 -.5 0 .5 -.5 0 .5 .5 0 -.5 .5 0 0 0 -.3" '
        'face="0 1 2 0 2 3" texcoord="0 1 1 1 1 0 0 0 0 0"/>'
    )
    model, data = ready(
        f'<mujoco>{FLAT_LIGHT}<asset>{mesh}<texture name="t" type="2d" file="t.png"/><material name="m" texture="t"/>'
        f'</asset><worldbody><geom {geom} material="m"/></worldbody></mujoco>',
        {"t.png": png(QUARTERS)},
    )
    lens = Lens(100, 100, 100.0, 100.0, 49.5, 49.5)
    image = Rays().render(model, data, looking((0, 0, 0), (0, 0, 1 + top), lens))
    upright = image.rgb[::-1] if looking((0, 0, 0), (0, 0, 1), lens).T_world_camera[1, 1] > 0 else image.rgb
    assert (image.geom >= 0).all()
    for rows, cols, of in ((10, 10, (5, 5)), (10, 90, (5, 60)), (90, 10, (60, 5)), (90, 90, (60, 60))):
        assert np.abs(upright[rows, cols].astype(int) - QUARTERS[of]).max() <= 2


def test_a_checker_repeats_as_often_as_the_material_says():
    model, data = ready(
        f'<mujoco>{FLAT_LIGHT}<asset><texture name="t" type="2d" builtin="checker" rgb1=".1 .1 .1" rgb2=".7 .7 .7" '
        'width="64" height="64"/><material name="m" texture="t" texrepeat="4 2"/></asset>'
        '<worldbody><geom type="plane" size="1 1 .1" material="m"/></worldbody></mujoco>'
    )
    lens = Lens(400, 400, 200.0, 200.0, 199.5, 199.5)
    rgb = Rays().render(model, data, looking((0, 0, 0), (0, 0, 1), lens), ("rgb",)).rgb[..., 0]
    assert np.count_nonzero(np.abs(np.diff((rgb[25, 2:-2] > 100).astype(int)))) == 7
    assert np.count_nonzero(np.abs(np.diff((rgb[2:-2, 25] > 100).astype(int)))) == 3
    assert {20, 30} & set(range(rgb.min() - 3, rgb.min() + 8))
    far = (
        Rays().render(model, data, looking((0, 0, 0), (0, 0, 60), Lens(3, 3, 60.0, 60.0, 1, 1)), ("rgb",)).rgb[1, 1, 0]
    )
    assert 110 < far < 150  # from afar the mean of both, in light: not one of them by chance


def test_each_side_of_a_cube_map_comes_to_its_side_of_a_box():
    sides = {
        "right": (1, 0, 0),
        "left": (-1, 0, 0),
        "up": (0, 1, 0),
        "down": (0, -1, 0),
        "front": (0, 0, 1),
        "back": (0, 0, -1),
    }
    colours = {name: np.array([40 + 30 * k, 180 - 25 * k, 20 * k]) for k, name in enumerate(sides)}
    files = "".join(f' file{name}="{name}.png"' for name in sides)
    model, data = ready(
        f'<mujoco>{FLAT_LIGHT}<asset><texture name="t" type="cube"{files}/><material name="m" texture="t"/></asset>'
        '<worldbody><geom type="box" size=".2 .3 .4" material="m"/></worldbody></mujoco>',
        {f"{name}.png": png(np.broadcast_to(colour, (8, 8, 3))) for name, colour in colours.items()},
    )
    for name, side in sides.items():
        rgb = Rays().render(model, data, looking((0, 0, 0), tuple(2.0 * np.array(side))), ("rgb",)).rgb[25, 30]
        assert np.abs(rgb.astype(int) - colours[name]).max() <= 2, name


def test_colours_and_textures_changed_in_the_model_are_seen_at_once():
    model, data = ready(
        f'<mujoco>{FLAT_LIGHT}<asset><texture name="t" type="2d" file="t.png"/><material name="m" texture="t"/></asset>'
        '<worldbody><geom type="plane" size=".5 .5 .1" material="m"/><geom size=".1" pos="0 0 .1" rgba=".2 .2 .6 1"/>'
        "</worldbody></mujoco>",
        {"t.png": png(QUARTERS)},
    )
    camera = looking((0, 0, 0), (0, 0, 1))
    with Rays().on(model) as studio:
        before = studio.render(data, camera)
        model.tex_data[:] = 100
        model.geom_rgba[1, :3] = [0.6, 0.2, 0.2]
        after = studio.render(data, camera)
    assert np.abs(after.rgb[25, 30].astype(int) - [153, 51, 51]).max() <= 1
    assert np.abs(before.rgb[25, 30].astype(int) - [51, 51, 153]).max() <= 1
    assert np.abs(after.rgb[5, 5].astype(int) - 100).max() <= 1


def test_glass_shows_what_is_behind_it_and_a_mirror_what_is_before_it():
    model, data = ready(
        f'<mujoco>{FLAT_LIGHT}<asset><material name="mirror" reflectance="1" rgba="0 0 0 1"/></asset><worldbody>'
        '<geom type="box" size=".1 1 1" pos="3 0 0" rgba=".7 0 0 1"/>'
        '<geom type="box" size=".1 1 1" pos="2 0 0" rgba="0 0 .7 .5"/>'
        '<geom type="box" size=".1 1 1" pos="-2 0 0" material="mirror"/></worldbody></mujoco>'
    )
    glass = Rays().render(model, data, looking((1, 0, 0), (0, 0, 0)))
    assert glass.geom[25, 30] == 1
    assert glass.rgb[25, 30, 0] > 90
    assert glass.rgb[25, 30, 2] > 90
    model.geom_rgba[1, 3] = 0
    mirror = Rays().render(model, data, looking((-1, 0, 0), (0, 0, 0)), ("rgb",)).rgb[25, 30]
    assert np.abs(mirror.astype(int) - [178, 0, 0]).max() <= 3


def test_edges_are_smooth_in_colour_and_sharp_in_ids():
    model, data = ready(f'<mujoco>{FLAT_LIGHT}<worldbody><geom size=".3" rgba=".7 .7 .7 1"/></worldbody></mujoco>')
    camera = looking((0, 0, 0), (1, 0, 0))
    smooth, jagged = (Rays(edge_samples=n).render(model, data, camera) for n in (4, 1))
    assert set(np.unique(jagged.rgb)) == {0, jagged.rgb.max()}
    assert len(np.unique(smooth.rgb)) > 6
    assert np.array_equal(smooth.geom, jagged.geom)
