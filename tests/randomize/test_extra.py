"""Ranges that a person states."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.randomize.made import ROOM
from tests.sim.models import EVERYTHING
from twinproof.nouns.errors import RandomizationError, SimError
from twinproof.nouns.source import Declared, Measured
from twinproof.randomize.extra import Extra, read_extra, stated
from twinproof.randomize.meaning import meaning
from twinproof.sim.parameters import vocabulary
from twinproof.sim.parameters.beside import AROUND
from twinproof.sim.scene import Scene

MODEL = Scene(ROOM).nominal()


def test_a_file_states_ids_patterns_factors_and_instruments(tmp_path: Path) -> None:
    path = tmp_path / "ranges.toml"
    path.write_text(
        """
        ["body.box.push"]
        low = 0.0
        high = 2.0
        reason = "people walk past"

        ["light.*.diffuse"]
        times = [0.5, 1.5]
        reason = "blinds"

        ["camera.front.x"]
        plus = [-0.01, 0.02]
        measured = "ruler, 1 mm"
        """
    )
    found, replaced = stated(read_extra(path), MODEL, ())
    push, light, camera = found
    assert (push.low, push.high, push.point) == (0.0, 2.0, 0.0)
    assert push.source == Declared("people walk past")
    assert (light.id, light.low, light.high) == ("light.lamp.diffuse", pytest.approx(0.35), pytest.approx(1.05))
    assert (camera.low, camera.high, camera.point) == (pytest.approx(-0.01), pytest.approx(0.02), 0.0)
    assert camera.source == Measured("ruler, 1 mm")
    assert replaced == frozenset()


def test_the_point_is_the_middle_where_the_nominal_lies_outside() -> None:
    (entry,) = Extra("image.brightness", "bright room", 2.0, 8.0).ranges(MODEL)
    assert entry.point == pytest.approx(4.0)  # on its logarithmic scale


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "'x' is no table"),
        ("[body.box.push]\nlow = 0", r"Put the whole id in quotes: \[\"body.box.push\"\]"),
        ('["body.box.push"]\nlow = 0.0\nreason = "r"', "low and high, or times, or plus: one of the three"),
        ('["body.box.push"]\nlow = 0.0\nhigh = 1.0\ntimes = [1.0, 2.0]\nreason = "r"', "one of the three"),
        ('["body.box.push"]\nlow = 0.0\nhigh = 1.0', "does not say where it comes from"),
        ('["body.box.push"]\nlow = 0.0\nhihg = 1.0\nreason = "r"', "unknown key 'hihg'. Did you mean 'high'?"),
        ("[[[", "is not readable TOML"),
    ],
)
def test_a_file_that_cannot_be_understood_says_where(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "ranges.toml"
    path.write_text(text)
    with pytest.raises(RandomizationError, match=message):
        read_extra(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(RandomizationError, match="ranges.toml does not exist. Write stated ranges there"):
        read_extra(tmp_path / "ranges.toml")


def test_multiples_of_nothing_and_more_than_a_model_has_are_refused() -> None:
    with pytest.raises(RandomizationError, match="is 0 in this model, and so is every multiple of it. Give plus"):
        Extra("image.noise", "twice nothing", times=(0.5, 2.0)).ranges(MODEL)
    with pytest.raises(RandomizationError, match=r"texture goes up to 40; this model takes .* at most. Lower it"):
        Extra("material.tiled.texture", "other tiles", 0.0, 40.0).ranges(Scene(EVERYTHING).nominal())


def test_a_range_outside_physical_limits_is_refused() -> None:
    with pytest.raises(RandomizationError, match="leaves the physical limits 0 to 1"):
        Extra("image.noise", "much", 0.0, 3.0).ranges(MODEL)
    with pytest.raises(RandomizationError, match="is out of order or leaves the physical limits"):
        Extra("image.blur", "backwards", 2.0, 1.0).ranges(MODEL)


def test_what_is_inferred_and_stated_needs_a_word() -> None:
    twice = (Extra("image.noise", "a", 0.0, 0.1), Extra("image.*", "b", 0.0, 0.1))
    with pytest.raises(RandomizationError, match="image.noise is stated twice"):
        stated((twice[0], twice[0]), MODEL, ())
    with pytest.raises(RandomizationError, match="was inferred, and is stated as well"):
        stated(twice[:1], MODEL, ("image.noise",))
    with pytest.raises(SimError, match="no parameter of the model fits 'light.sun"):
        stated((Extra("light.sun*.diffuse", "sun", times=(0.5, 1.0)),), MODEL, ())


def test_factors_and_patterns_need_a_scene() -> None:
    with pytest.raises(RandomizationError, match="relative to a scene, and none was given"):
        Extra("light.lamp.diffuse", "blinds", times=(0.5, 1.5)).ranges(None)
    (entry,) = Extra("image.noise", "dark", 0.0, 0.1).ranges(None)
    assert entry.id == "image.noise"


def test_every_parameter_of_the_vocabulary_has_a_meaning() -> None:
    ids = [each.id for each in vocabulary(Scene(EVERYTHING).reserving(0.1, 0.1).nominal())]
    ids += [f"{kind}.{name}" for kind, entries in AROUND.items() for name in entries]
    ids += ["signal.state.delay", "signal.cube.offset_x"]
    for id in ids:
        told = meaning(id)
        assert told.approximates
        assert "{}" not in told.approximates
    with pytest.raises(RandomizationError, match="nobody has said which gap this parameter covers"):
        meaning("weather.rain")
