"""The ray caster against closed forms, against MuJoCo's own rays and against OpenCV's lens; what it refuses."""

from __future__ import annotations

import itertools

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sim.rendering import LENS, MANY, looking, points, ready
from twinproof.nouns.errors import SimError
from twinproof.sim.render_camera import Camera, Lens, Named, distort, pixel_rays
from twinproof.sim.render_rays import Rays

SIZES = {
    "sphere": (0.3,),
    "capsule": (0.12, 0.25),
    "ellipsoid": (0.3, 0.15, 0.2),
    "cylinder": (0.2, 0.15),
    "box": (0.2, 0.1, 0.3),
}


def reference(model, data, camera: Camera) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Depth, geom and normal by mj_multiRay."""
    xy = pixel_rays(camera.lens)
    rays = np.concatenate([xy, np.ones((*xy.shape[:2], 1))], axis=-1) @ camera.T_world_camera[:3, :3].T
    n = xy.shape[0] * xy.shape[1]
    geom, dist, normal = np.full(n, -1, np.int32), np.zeros(n), np.zeros(3 * n)
    start = np.array(camera.T_world_camera[:3, 3])
    groups = np.array([1, 1, 1, 0, 0, 0], np.uint8)
    mujoco.mj_multiRay(model, data, start, rays.reshape(-1), groups, True, -1, geom, dist, normal, n, 1e10)
    shape = xy.shape[:2]
    return np.where(geom < 0, np.inf, dist).reshape(shape), geom.reshape(shape), normal.reshape(*shape, 3)


def surface_of(shape: str, size: tuple[float, ...], p: np.ndarray) -> np.ndarray:
    """A function that is 0 on the surface and grows outwards, in local coordinates."""
    x, y, z = p[..., 0], p[..., 1], p[..., 2]
    match shape:
        case "sphere":
            return np.linalg.norm(p, axis=-1) - size[0]
        case "capsule":
            return np.sqrt(x**2 + y**2 + (z - np.clip(z, -size[1], size[1])) ** 2) - size[0]
        case "ellipsoid":
            return np.linalg.norm(p / np.array(size), axis=-1) - 1
        case "cylinder":
            return np.maximum(np.hypot(x, y) - size[0], np.abs(z) - size[1])
        case _:
            return (np.abs(p) - np.array(size)).max(axis=-1)


@pytest.mark.parametrize("shape", sorted(SIZES))
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_every_hit_lies_on_the_surface_with_the_normal_of_the_surface(shape, seed):
    rng = np.random.default_rng(seed)
    quat = rng.normal(size=4)
    size = SIZES[shape]
    text = " ".join(map(str, size))
    model, data = ready(
        f'<mujoco><worldbody><geom type="{shape}" size="{text}" pos="0.1 -0.2 0.3" quat="{" ".join(map(str, quat))}"/>'
        "</worldbody></mujoco>"
    )
    start = rng.normal(size=3)
    camera = looking((0.1, -0.2, 0.3), tuple(np.array([0.1, -0.2, 0.3]) + 1.2 * start / np.linalg.norm(start)))
    image = Rays(threads=1).render(model, data, camera, ("depth", "segmentation", "normal"))
    hit = image.geom == 0
    assert 0.02 < hit.mean() < 0.9
    assert np.isinf(image.depth_m[~hit]).all()
    turn = data.geom_xmat[0].reshape(3, 3)
    local = (points(image, camera) - data.geom_xpos[0])[hit] @ turn
    assert np.abs(surface_of(shape, size, local)).max() < 1e-6
    h = 1e-6
    steps = np.eye(3) * h
    slope = np.stack([surface_of(shape, size, local + s) - surface_of(shape, size, local - s) for s in steps], axis=-1)
    slope = slope / np.linalg.norm(slope, axis=-1, keepdims=True) @ turn.T
    agree = (slope * image.normal[hit]).sum(axis=-1)
    # Where two sides of a box or a cylinder meet, the slope is that of either.
    assert np.quantile(agree, 0.03) > 1 - 1e-5


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_depth_ids_and_normals_are_those_of_mujocos_own_rays(seed):
    model, data = ready(MANY)
    rng = np.random.default_rng(seed)
    angle, height = rng.uniform(0, np.pi), rng.uniform(0.2, 2.5)
    camera = looking((0, 0, 0.4), (2 * np.cos(angle), -2 * np.sin(angle), height))
    image = Rays(threads=2).render(model, data, camera, ("depth", "segmentation", "normal"))
    depth, geom, normal = reference(model, data, camera)
    same = image.geom == geom
    assert same.mean() > 0.999  # a silhouette may fall either way in the last digit
    both = same & (geom >= 0)
    assert np.abs(image.depth_m[both] / depth[both] - 1).max() < 1e-6
    assert np.quantile((image.normal * normal)[both].sum(axis=-1), 0.01) > 1 - 1e-5
    assert (image.body[both] == model.geom_bodyid[geom[both]]).all()


def test_a_camera_of_the_model_has_the_frustum_that_mujoco_gives_it():
    model, data = ready(MANY)
    for name in ("front", "sensor"):
        camera = Named(name, 64, 48).at(model, data)
        scene, view = mujoco.MjvScene(model, 10), mujoco.MjvCamera()
        view.type, view.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, model.camera(name).id
        mujoco.mjv_updateScene(model, data, mujoco.MjvOption(), None, view, mujoco.mjtCatBit.mjCAT_ALL, scene)
        eye, lens = mujoco.mjv_averageCamera(scene.camera[0], scene.camera[1]), camera.lens
        assert eye.frustum_top == pytest.approx(eye.frustum_near * (lens.cy + 0.5) / lens.fy, rel=1e-5)
        bottom = eye.frustum_near * (lens.cy + 0.5 - lens.height) / lens.fy
        assert eye.frustum_bottom == pytest.approx(bottom, rel=1e-5)
        if eye.frustum_width:
            assert eye.frustum_width == pytest.approx(eye.frustum_near * lens.width / 2 / lens.fx, rel=1e-5)
            centre = eye.frustum_near * ((lens.width - 1) / 2 - lens.cx) / lens.fx
            assert eye.frustum_center == pytest.approx(centre, rel=1e-4)
        assert np.allclose(camera.T_world_camera[:3, 2], eye.forward, atol=1e-6)
        assert np.allclose(-camera.T_world_camera[:3, 1], eye.up, atol=1e-6)


def test_the_picture_does_not_depend_on_the_threads_nor_on_being_one_of_many():
    model, data = ready(MANY)
    views = [Named("front", 60, 45), looking((0, 0, 0.4), (1.5, -1.5, 1))]
    moved = np.array(data.qpos)
    moved[:3] += [0.1, 0.2, 0.1]
    one = [[Rays(threads=1).render(model, state, view) for view in views] for state in (data, moved)]
    for rays in (Rays(threads=2), Rays(threads=5)):
        many = rays.render_many(model, [data, moved], views)
        with rays.on(model) as studio:
            banded = [[studio.render(state, view) for view in views] for state in (data, moved)]
        for other in (many, banded):
            for a, b in zip(itertools.chain(*one), itertools.chain(*other), strict=True):
                for channel in ("rgb", "depth_m", "geom", "body", "normal"):
                    assert np.array_equal(getattr(a, channel), getattr(b, channel)), channel
    assert not np.array_equal(one[0][0].rgb, one[1][0].rgb)


def test_only_what_was_asked_for_is_drawn_and_the_state_is_left_as_it_was():
    model, data = ready(MANY)
    before = mujoco.MjData(model), np.array(data.qpos), np.array(data.geom_xpos)
    image = Rays().render(model, data, Named("front", 16, 12), ("depth",))
    assert image.depth_m.shape == (12, 16)
    assert image.depth_m.dtype == np.float32
    assert image.rgb is None
    assert image.geom is None
    assert image.normal is None
    assert np.array_equal(before[1], data.qpos)
    assert np.array_equal(before[2], data.geom_xpos)


def test_a_camera_inside_a_shape_looks_out_of_it():
    model, data = ready(
        '<mujoco><worldbody><geom size="1"/><geom type="box" size=".5 .5 .5" pos="4 0 0"/></worldbody></mujoco>'
    )
    image = Rays().render(model, data, looking((4, 0, 0), (0.2, 0, 0)), ("depth", "segmentation"))
    assert image.geom[25, 30] == 1
    assert image.depth_m[25, 30] == pytest.approx(3.3, abs=1e-5)
    assert 0 not in image.geom


def test_where_nothing_is_there_is_the_sky():
    model, data = ready('<mujoco><worldbody><geom size=".1" pos="-5 0 0"/></worldbody></mujoco>')
    image = Rays().render(model, data, looking((4, 0, 0), (0, 0, 0)))
    assert (image.geom == -1).all()
    assert (image.body == -1).all()
    assert np.isinf(image.depth_m).all()
    assert not image.normal.any()
    assert not image.rgb.any()
    sky = '<texture type="skybox" builtin="gradient" rgb1=".2 .4 .6" rgb2="0 .1 0" width="64" height="64"/>'
    model, data = ready(f'<mujoco><asset>{sky}</asset><worldbody><geom size=".1" pos="-5 0 0"/></worldbody></mujoco>')
    up = Rays().render(model, data, looking((0, 0, 4), (0, 0, 0)), ("rgb",)).rgb[24, 32]
    down = Rays().render(model, data, looking((0, 0, -4), (0, 0, 0)), ("rgb",)).rgb[24, 32]
    assert np.abs(up.astype(int) - [51, 102, 153]).max() <= 3
    assert np.abs(down.astype(int) - [0, 25, 0]).max() <= 3


def test_a_model_without_any_geom_or_light_can_be_drawn():
    model, data = ready('<mujoco><visual><headlight active="0"/></visual><worldbody/></mujoco>')
    assert not Rays().render(model, data, looking((1, 0, 0), (0, 0, 0))).rgb.any()
    model, data = ready(
        '<mujoco><visual><headlight active="0"/></visual><worldbody><geom size="1" rgba=".8 .8 .8 1"/></worldbody>'
        "</mujoco>"
    )
    dim = Rays().render(model, data, looking((0, 0, 0), (3, 0, 0)), ("rgb",)).rgb[25, 30]
    assert 60 < dim[0] < 160  # MuJoCo lights a scene without lights a little


BENT = (-0.28, 0.09, 0.002, -0.0015, 0.01)


def project(p: np.ndarray, lens: Lens) -> tuple[float, float]:
    """OpenCV's projectPoints, written out."""
    x, y = p[0] / p[2], p[1] / p[2]
    k1, k2, p1, p2, k3 = lens.distortion
    r2 = x * x + y * y
    radial = 1 + k1 * r2 + k2 * r2**2 + k3 * r2**3
    u = x * radial + 2 * p1 * x * y + p2 * (r2 + 2 * x * x)
    v = y * radial + p1 * (r2 + 2 * y * y) + 2 * p2 * x * y
    return lens.fx * u + lens.cx, lens.fy * v + lens.cy


def test_rays_through_a_bent_lens_are_those_of_opencvs_model():
    lens = Lens(160, 120, 110.0, 115.0, 82.0, 57.0, BENT)
    rays = pixel_rays(lens)
    for row, col in ((0, 0), (119, 159), (60, 80), (10, 140)):
        assert project(np.array([*rays[row, col], 1.0]), lens) == pytest.approx((col, row), abs=1e-8)
    rational = Lens(160, 120, 110.0, 115.0, 82.0, 57.0, (0.3, -0.1, 0, 0, 0.02, 0.55, -0.03, 0.01, 0.001, 0, 0.002, 0))
    back = distort(pixel_rays(rational), rational.distortion)
    assert np.abs(back[7, 9] * [110, 115] + [82, 57] - [9, 7]).max() < 1e-8


def test_a_ball_seen_through_a_bent_lens_is_where_the_model_projects_it():
    model, data = ready('<mujoco><worldbody><geom size=".03" pos="2 .6 -.5"/></worldbody></mujoco>')
    camera = looking((2, 0, 0), (0, 0, 0), Lens(320, 240, 220.0, 225.0, 160.0, 118.0, BENT))
    image = Rays().render(model, data, camera, ("segmentation", "depth"))
    row, col = np.argwhere(image.geom == 0).mean(axis=0)
    local = camera.T_world_camera[:3, :3].T @ np.array([2, 0.6, -0.5])
    assert (col, row) == pytest.approx(project(local, camera.lens), abs=0.3)
    straight = Camera(Lens(320, 240, 220.0, 225.0, 160.0, 118.0), camera.T_world_camera)
    there = np.argwhere(Rays().render(model, data, straight, ("segmentation",)).geom == 0).mean(axis=0)
    assert np.abs(there - [row, col]).max() > 2


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda m, d: Lens(0, 10, 1, 1, 0, 0), "cannot be"),
        (lambda m, d: Lens(10, 10, 1, float("nan"), 0, 0), "cannot be"),
        (lambda m, d: Lens(10, 10, 1, 1, 0, 0, (0.1, 0.2, 0.3)), "3 distortion coefficients"),
        (lambda m, d: pixel_rays(Lens(64, 48, 20, 20, 32, 24, (-0.9, 0, 0, 0))), "folds the picture over"),
        (lambda m, d: Camera(LENS, np.diag([2.0, 1, 1, 1])), "not a rigid pose"),
        (lambda m, d: Camera(LENS, np.eye(3)), "not a rigid pose"),
        (lambda m, d: Camera(LENS, np.diag([-1.0, 1, 1, 1])), "a rotation, not a reflection"),
        (lambda m, d: Camera(LENS, np.eye(4) + 0.5 * (np.arange(16).reshape(4, 4) == 12)), "last row is 0 0 0 1"),
        (lambda m, d: Named("back").at(m, d), "no camera 'back'. Its cameras: front, sensor, straight"),
        (lambda m, d: Named("straight").at(m, d), "orthographic"),
        (lambda m, d: Rays(edge_samples=0), "1 or more"),
        (lambda m, d: Rays(shadow_samples=3), "shadow_samples 3 is 1 .hard., or 5 or more"),
        (lambda m, d: Rays().render(m, d, Named("front"), ("colour",)), "cannot render .'colour'"),
        (lambda m, d: Rays().render(m, d, Named("front"), ()), "cannot render nothing"),
        (lambda m, d: Rays().render(m, np.zeros(3), Named("front")), "needed are 7 finite numbers"),
        (lambda m, d: Rays().render(m, mujoco.MjData(m), looking((0, 0, 0), (1, 0, 0))), "has no poses yet"),
    ],
)
def test_what_cannot_be_rendered_is_refused_in_words(make, says):
    model, data = ready(MANY)
    with pytest.raises(SimError, match=says):
        make(model, data)


def test_shapes_that_the_ray_caster_does_not_know_are_named():
    model, data = ready(
        '<mujoco><asset><hfield name="h" nrow="4" ncol="4" size="1 1 1 .1"/></asset><worldbody>'
        '<geom name="hills" type="hfield" hfield="h"/></worldbody></mujoco>'
    )
    with pytest.raises(SimError, match="hills.*is none of these. Render with GL"):
        Rays().render(model, data, looking((0, 0, 0), (1, 0, 1)))
    image = Rays(groups=(1,)).render(model, data, looking((0, 0, 0), (1, 0, 1)))
    assert (image.geom == -1).all()
