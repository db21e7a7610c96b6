"""How a lens darkens corners is told by a table that several pictures show, and taken out of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.reconstruct.test_robot_calibrate import looking
from twinproof.nouns.rig import Intrinsics
from twinproof.nouns.views import PosedView, Views
from twinproof.reconstruct.lens_shade import Shades, found_shades, on_plane, said
from twinproof.sim.grid import Plane

SIZE, TRUE = (96, 72), np.array([[-0.20, -0.18, -0.24], [0.02, 0.02, 0.02]])


def blank(name: str, eye, at=(0.0, 0.0, 0.0)) -> PosedView:
    k = Intrinsics(80.0, 80.0, 47.5, 35.5)
    rgb = np.zeros((SIZE[1], SIZE[0], 3), np.uint8)
    return PosedView(name, rgb, k, looking(eye, at), mask=np.zeros(rgb.shape[:2], int))


def taken(view: PosedView, shades: Shades, gain: float, rng) -> PosedView:
    """A table of soft waves as this camera shows it, with noise, and an arm that nobody masked in a corner."""
    places, _ = on_plane(view, Plane())
    waves = [np.sin(k * places[..., 0] + 1) * np.cos(k * places[..., 1]) for k in (9.0, 11.0, 13.0)]
    light = (0.5 + 0.15 * np.stack(waves, axis=-1)) * gain * shades.factor(view) + rng.normal(0, 0.01, view.rgb.shape)
    light[-12:, :12] = rng.uniform(0.1, 0.9)
    return replace(view, rgb=np.round(255 * light.clip(0, 1)).astype(np.uint8))


def flown(count: int, shades: Shades) -> Views:
    rng, views = np.random.default_rng(0), []
    for k in range(count):
        angle, aim = 2 * np.pi * k / count, rng.uniform(-0.12, 0.12, 2)
        view = blank(f"wrist/{k:06d}", (0.3 * np.cos(angle), 0.3 * np.sin(angle), 0.5), (*aim, 0.0))
        views.append(taken(view, shades, rng.uniform(0.8, 1.1), rng))
    views.append(taken(blank("front/000000", (0.5, 0.0, 0.6)), Shades({}), 1.0, rng))
    return Views(tuple(views), groups=("other",))


def test_the_shading_of_each_camera_is_found_and_taken_out() -> None:
    planted = Shades({"wrist": TRUE})
    views = flown(12, planted)
    found = found_shades(views, Plane())
    wrist, front = views.views[0], views.views[-1]
    assert planted.corner(wrist) < 0.8
    assert found.factor(wrist) == pytest.approx(planted.factor(wrist), abs=0.03)
    assert found.factor(front) == pytest.approx(1.0, abs=0.06)  # one picture, beside those of another camera
    flat = found.flat(wrist).rgb
    back = flat / 255 * found.factor(wrist)
    assert np.abs(back - wrist.rgb / 255)[flat < 255].max() < 0.01
    assert "corners of wrist show 7" in said(found, views.views)[-1]


def test_pictures_without_shading_stay_as_they_are() -> None:
    views = flown(12, Shades({}))
    found = found_shades(views, Plane())
    assert found.factor(views.views[0]) == pytest.approx(1.0, abs=0.02)


def test_cameras_that_see_no_place_together_tell_nothing() -> None:
    rng = np.random.default_rng(1)
    apart = [blank("a/0", (-0.8, 0, 0.2), (-0.9, 0, 0)), blank("b/0", (0.8, 0, 0.2), (0.9, 0, 0))]
    views = Views(tuple(taken(view, Shades({"a": TRUE}), 1.0, rng) for view in apart), groups=("other",))
    found = found_shades(views, Plane())
    assert found.factor(views.views[0]) == pytest.approx(1.0, abs=0.01)
    assert said(found, views.views) == ()
    assert np.array_equal(found.flat(views.views[0]).rgb, views.views[0].rgb)
