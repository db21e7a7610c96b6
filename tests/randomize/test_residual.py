"""Ranges from a posterior: they cover it, keep its correlations, and say why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.randomize.made import INFO, ROOM, family, made, posterior, room, twin_of
from tests.sim.motions import PENDULUM
from twinproof.nouns.errors import RandomizationError, SimError
from twinproof.nouns.randomization import Randomization
from twinproof.nouns.source import Declared, Inferred, Measured
from twinproof.nouns.theta import Theta
from twinproof.nouns.twin import Alignment, Twin
from twinproof.randomize.extra import Extra
from twinproof.randomize.geometry import holder
from twinproof.randomize.residual import Residuals, halves, residual, residuals
from twinproof.sim.instantiate import instantiate
from twinproof.sim.scene import Scene
from twinproof.sim.world import World

MASS, DAMPING = INFO


def test_ranges_cover_the_stated_share_of_the_posterior_jointly() -> None:
    known = posterior()
    found = residual(known, how=Residuals(share=0.9))
    inside = np.ones(800, dtype=bool)
    for k, id in enumerate(known.ids):
        entry = found.range(id)
        inside &= (known.draws[:, k] >= entry.low) & (known.draws[:, k] <= entry.high)
        assert entry.source == Inferred(known.hash, 0.9)
    assert 0.9 <= inside.mean() < 0.92
    assert found.covers(known)[MASS] >= 0.9
    assert found.discrepancy == known.discrepancy
    assert found.parents["posterior"] == known.hash


def test_draws_keep_the_posteriors_correlations() -> None:
    found = residual(posterior())
    assert found.joint == (MASS, DAMPING)
    assert np.corrcoef(found.draws.T)[0, 1] == pytest.approx(0.47, abs=0.08)


def test_a_new_instance_is_covered_and_not_only_those_measured() -> None:
    alone, new = residual(posterior()), residual(posterior(population=family()))
    width = [found.range(MASS).high - found.range(MASS).low for found in (alone, new)]
    assert width[1] > 3 * width[0]
    assert "a new object, after 3 were measured" in new.range(MASS).reason


def test_weighted_draws_become_rows_of_equal_weight() -> None:
    weights = np.where(posterior().draws[:, 0] > 0.6, 3.0, 1.0)
    found = residual(posterior(log_weights=np.log(weights / weights.sum())))
    assert np.mean(found.draws[:, 0] > 0.6) == pytest.approx(0.75, abs=0.04)


def test_an_unidentified_parameter_keeps_the_priors_source_and_says_so() -> None:
    even = np.random.default_rng(2).uniform(0.0, 0.5, size=800)
    draws = np.stack([posterior().draws[:, 0], even], axis=1)
    found = residual(posterior(draws=draws, unidentified=(DAMPING,)))
    entry = found.range(DAMPING)
    assert entry.source == Declared("a wide range")
    assert "8 calibration episodes do not determine it" in entry.reason
    assert entry.low < 0.03
    assert entry.high > 0.47


def test_the_strength_dial_goes_from_the_point_to_wider_than_the_posterior() -> None:
    usual = residual(posterior())
    point, wide = (residual(posterior(), how=Residuals(strength=s)) for s in (0.0, 2.0))
    assert point.range(MASS).low == point.range(MASS).high == usual.range(MASS).point
    assert wide.range(DAMPING).high - wide.range(DAMPING).low == pytest.approx(
        2 * (usual.range(DAMPING).high - usual.range(DAMPING).low)
    )
    assert wide.strength == 2.0


def test_reasons_name_the_real_variable_and_the_gap() -> None:
    found = residual(posterior())
    entry = found.range(MASS)
    assert entry.gap == "dynamics"
    assert entry.approximates == "mass of bob"
    assert entry.reason.startswith("mass of bob: 95% of what 8 calibration episodes leave open")
    assert "validation" in entry.check


def test_saving_and_loading_is_the_identity(tmp_path: Path) -> None:
    found = residual(posterior())
    found.save(tmp_path / "ranges")
    assert Randomization.load(tmp_path / "ranges") == found


# ---- what a recording shows


def test_noise_clocks_and_starts_are_measured_on_calibration() -> None:
    found = residual(posterior(), twin=made().twin, calibration=made().calibration)
    noise = found.range("joint.hinge.position_noise")
    assert noise.low < 1e-3 < noise.high
    assert noise.gap == "sensor"
    assert noise.source == Measured("what 8 calibration episodes show by themselves")
    assert found.range("proprioception.latency").high == pytest.approx(0.004)
    start = found.range("joint.hinge.start")
    assert start.gap == "initial"
    assert start.low < start.point < start.high


# ---- what a twin states


def test_cameras_are_drawn_together_from_their_covariance(tmp_path: Path) -> None:
    twin = room(tmp_path / "room")
    found = residual(posterior(parents={"twin": twin.hash, "split": made().split.hash}), twin=twin)
    pitch, x = (found.joint.index(f"camera.front.{name}") for name in ("pitch", "x"))
    assert np.corrcoef(found.draws[:, pitch], found.draws[:, x])[0, 1] == pytest.approx(0.8, abs=0.12)
    assert found.range("camera.front.pitch").gap == "camera"
    assert found.range("camera.front.pitch").source == Inferred(twin.hash, 0.95)
    view = found.range("camera.front.fovy")
    assert view.low < np.radians(45) < view.high
    lens = found.range("camera.side.fx")  # a camera that states its lens in pixels
    assert lens.low < 60 < lens.high
    assert lens.high / lens.low < 1.05
    assert "meshes and splats alike" in lens.reason


def test_a_camera_that_was_measured_with_a_ruler_is_not_called_inferred(tmp_path: Path) -> None:
    first = room(tmp_path / "first")
    ruler = replace(first.cameras["side"], source=Measured("ruler, 1 mm"))
    twin = room(tmp_path / "room", cameras={"side": ruler})
    found = residual(posterior(parents={"twin": twin.hash, "split": made().split.hash}), twin=twin)
    assert found.range("camera.side.yaw").source == Measured("ruler, 1 mm")


def test_looks_are_declared_and_say_which_renderer_draws_them(tmp_path: Path) -> None:
    twin = room(tmp_path / "room")
    known = posterior(parents={"twin": twin.hash, "split": made().split.hash})
    found = residual(known, twin=twin)
    assert "baked into splats" in found.range("light.lamp.diffuse").reason
    assert "baked into splats" in found.range("light.lamp.softness").reason
    assert "finished picture, of meshes and splats alike" in found.range("image.noise").reason
    assert {found.range(id).gap for id in ("image.brightness", "material.wood.red", "light.lamp.diffuse")} == {"visual"}
    assert found.range("image.noise").gap == "sensor"
    assert found.range("image.hue").source.kind == "declared"
    bare = residual(known, how=Residuals(looks=False), twin=twin)
    assert not [entry for entry in bare.ranges if entry.gap == "visual"]


def test_sizes_exposures_and_encoder_zeros_come_from_the_twin(tmp_path: Path) -> None:
    first = room(tmp_path / "first")
    gains = {"a": 0.8, "b": 1.0, "c": 1.3}
    cameras = {name: replace(camera, exposure=gains) for name, camera in first.cameras.items()}
    twin = room(
        tmp_path / "room",
        cameras=cameras,
        alignment=Alignment(Inferred("c" * 64), scale_sd=0.01),
        audits={"calibration": {"offset_sd_rad": {"hinge": 0.02}}},
        start=Theta({"joint.hinge.offset": 0.1}),
    )
    found = residual(posterior(parents={"twin": twin.hash, "split": made().split.hash}), twin=twin)
    size = found.range("body.box.scale")
    assert (size.gap, size.low) == ("geometry", pytest.approx(1 - 1.96 * 0.01, abs=1e-4))
    assert found.range("image.brightness").source == Inferred(twin.hash, 0.95)
    assert found.range("image.brightness").low < 0.8
    assert found.range("joint.hinge.offset").point == 0.1


def test_what_stands_fast_may_stand_a_little_elsewhere(tmp_path: Path) -> None:
    text = ROOM.replace('<freejoint name="box"/>', "")
    twin = twin_of(tmp_path / "room", text, alignment=Alignment(Inferred("c" * 64), position_sd_m=0.004))
    found = residual(posterior(parents={"twin": twin.hash, "split": made().split.hash}), twin=twin)
    place = found.range("body.box.x")
    assert (place.gap, place.point) == ("geometry", 0.2)
    assert place.high - place.point == pytest.approx(1.96 * 0.004 / np.sqrt(3), rel=1e-3)
    assert "body.bob.x" not in [entry.id for entry in found.ranges]  # the robot is not reconstructed


CABINET = """<body name="box" pos=".2 0 .1"><geom name="left" type="box" pos="0 .07 0" size=".05 .01 .05"/>
  <geom name="right" type="box" pos="0 -.07 0" size=".05 .01 .05"/>
  <body name="drawer"><joint name="drawer" type="slide" axis="1 0 0"/>
    <geom name="drawer" type="box" size=".05 .055 .04" mass=".2"/></body></body></worldbody>"""


def cabinet(folder: Path, text: str, **alignment: float) -> Twin:
    """A twin with a drawer, which has 5 mm to either side in its cabinet."""
    return twin_of(folder, text, alignment=Alignment(Inferred("c" * 64), **alignment))


def test_a_drawer_moves_with_the_cabinet_that_holds_it(tmp_path: Path) -> None:
    twin = cabinet(tmp_path / "room", PENDULUM.replace("</worldbody>", CABINET), position_sd_m=0.01)
    found = residuals(posterior(parents={"twin": twin.hash, "split": made().split.hash}), twin=twin)
    places = {entry.id for entry in found.randomization.ranges if entry.gap == "geometry"}
    assert places == {"body.box.x", "body.box.y", "body.box.z"}
    assert found.notes == ()
    for end in ("low", "high"):  # and never sticks in it
        values = Theta({id: getattr(found.randomization.range(id), end) for id in places})
        assert World(instantiate(Scene.of(twin), values)).contacts() == ()


def test_what_many_joints_hold_moves_with_what_holds_them_all() -> None:
    text = """<mujoco><worldbody>
      <body name="box"><freejoint/><geom size=".1"/>
        <body name="lid"><joint axis="0 1 0"/><geom size=".1"/></body></body>
      <body name="door"><joint/><geom size=".1"/>
        <body name="handle"><joint axis="0 1 0"/><geom size=".1"/></body></body>
      <body name="cabinet"><geom size=".1"/>
        <body name="drawer"><joint type="slide"/><geom size=".1"/>
          <body name="knob"><geom size=".1"/></body></body></body>
      <body name="base"><geom size=".1"/>
        <body name="flap"><joint/><geom size=".1"/></body></body></worldbody></mujoco>"""
    model = Scene(text).nominal()
    base = {int(model.body("base").id)}
    found = {name: holder(model, name, base) for name in ("lid", "box", "door", "handle", "drawer", "knob", "flap")}
    assert found == {
        **{"lid": "box", "box": "box", "door": "door", "handle": "door"},
        **{"drawer": "cabinet", "knob": "cabinet", "flap": "flap"},  # the robot stands on its base
    }
    assert holder(model, "cabinet", base) == "cabinet"


def test_what_stands_freely_may_be_larger_than_it_stood(tmp_path: Path) -> None:
    """It is put down anew in every episode: that it would grow into the floor where it stood says nothing."""
    twin = room(tmp_path / "room", alignment=Alignment(Inferred("c" * 64), scale_sd=0.03))
    found = residuals(posterior(parents={"twin": twin.hash, "split": made().split.hash}), twin=twin)
    assert found.randomization.range("body.box.scale").high == pytest.approx(1.0588, abs=1e-4)
    assert not [note for note in found.notes if "scale" in note]


def test_what_somebody_stated_is_not_called_left_out(tmp_path: Path) -> None:
    twin = cabinet(tmp_path / "big", PENDULUM.replace("</worldbody>", CABINET), scale_sd=0.1)
    extra = (Extra("body.drawer.scale", low=0.99, high=1.01, measured="calliper"),)
    found = residuals(
        posterior(parents={"twin": twin.hash, "split": made().split.hash}), how=Residuals(extra=extra), twin=twin
    )
    assert found.randomization.range("body.drawer.scale").source == Measured("calliper")
    assert [note.split(" ")[0] for note in found.notes] == ["body.box.scale"]


def test_what_would_stick_in_something_else_is_not_randomised_and_named(tmp_path: Path) -> None:
    text = PENDULUM.replace("</worldbody>", CABINET)
    beside = text.replace('<body name="drawer">', '</body><body name="drawer" pos=".2 0 .1">')  # held by the world
    beside = beside.replace("</body></body></worldbody>", "</body></worldbody>")
    wide = cabinet(tmp_path / "wide", beside, position_sd_m=0.01)
    found = residuals(posterior(parents={"twin": wide.hash, "split": made().split.hash}), twin=wide)
    places = {entry.id for entry in found.randomization.ranges if entry.gap == "geometry"}
    assert places == {f"body.{name}.{axis}" for name in ("box", "drawer") for axis in "xz"}
    assert found.notes == tuple(
        f"body.{name}.y is not randomised: at an end of its range 'box' and 'drawer' are 6.3 mm deep in one another"
        for name in ("box", "drawer")
    )
    big = cabinet(tmp_path / "big", text, scale_sd=0.1)
    found = residuals(posterior(parents={"twin": big.hash, "split": made().split.hash}), twin=big)
    assert [note.split(" ")[0] for note in found.notes] == ["body.box.scale", "body.drawer.scale"]


def test_a_camera_without_stated_error_or_place_is_named(tmp_path: Path) -> None:
    from twinproof.nouns.rig import Mount

    first = room(tmp_path / "first")
    sure = replace(first.cameras["front"], mount=Mount())
    twin = room(tmp_path / "room", cameras={"front": sure, "absent": sure}, audits={})
    found = residuals(posterior(parents={"twin": twin.hash, "split": made().split.hash}), twin=twin)
    assert found.notes == (
        "the twin's camera 'absent' is not in its scene: its pose is not randomised",
        "the twin states no error of the camera 'front': its pose is not randomised",
    )


# ---- what a person states


def test_stated_ranges_join_and_replace_where_they_say_so() -> None:
    push = Extra("body.bob.push", "people bump into it", 0.0, 2.0)
    mass = Extra("body.bob.mass", low=0.59, high=0.61, measured="kitchen scale, 1 g", replace=True)
    found = residual(posterior(), how=Residuals(extra=(push, mass)))
    assert found.range("body.bob.push").source == Declared("people bump into it")
    assert found.range(MASS).source == Measured("kitchen scale, 1 g")
    assert found.joint == (DAMPING,)


# ---- bad input


def test_a_posterior_worth_few_draws_is_refused() -> None:
    weights = np.r_[1.0, np.full(799, 1e-6)]
    with pytest.raises(RandomizationError, match="worth 1.0 equal draws; a range that covers 95% needs at least 20"):
        residual(posterior(log_weights=np.log(weights / weights.sum()), unidentified=()))


@pytest.mark.parametrize("share", [0.0, -1.0, 1.5])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(RandomizationError, match="Ask for more than 0, at most 1"):
        residual(posterior(), how=Residuals(share=share))


def test_another_split_or_twin_is_refused(tmp_path: Path) -> None:
    strange = posterior(parents={"twin": "a" * 64, "split": "b" * 64})
    with pytest.raises(RandomizationError, match=r"fitted on the split bbbbbbbbbbbbbbbb, and validation episodes of"):
        residual(strange, made().validation, twin=made().twin)
    with pytest.raises(RandomizationError, match="belongs to the twin aaaaaaaaaaaaaaaa"):
        residual(strange, twin=made().twin)


def test_validation_needs_a_twin() -> None:
    with pytest.raises(RandomizationError, match="compared with simulations of a twin, and none was given"):
        residual(posterior(), made().validation)


def test_a_range_of_something_that_the_scene_lacks_is_refused() -> None:
    push = Extra("joint.hinge.offset", "bumped", 0.0, 0.1)
    still = Extra("material.wood.red", "painted", 0.0, 0.1)
    assert residual(posterior(), how=Residuals(extra=(push,)), twin=made().twin).range("joint.hinge.offset").high == 0.1
    with pytest.raises(SimError, match="the model has no material 'wood'"):
        residual(posterior(), how=Residuals(extra=(still,)), twin=made().twin)
    other = posterior(parameters=(INFO[MASS], replace(INFO[DAMPING], id="actuator.hinge.velocity_gain")))
    with pytest.raises(
        RandomizationError, match="velocity_gain has a range, and the twin's scene cannot take it: .* no position"
    ):
        residual(other, twin=made().twin)


def test_one_episode_cannot_widen_and_judge() -> None:
    with pytest.raises(RandomizationError, match="widening needs two validation episodes at least"):
        halves((object(),), 0)  # type: ignore[arg-type]
