"""Ranges that a twin states: cameras by their covariance, encoder zeros; and declared ones of its looks.

cameras   turn, place and focal length of each, drawn together from the 7 × 7 covariance of its calibration
encoders  zeros that pictures of the robot told
looks     light, colours and picture noise, declared: nothing in a recording says how tomorrow's light will be
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.nouns.randomization import Range
from twinproof.nouns.source import Declared, Inferred, Source
from twinproof.nouns.twin import Twin, TwinCamera
from twinproof.randomize.box import central
from twinproof.randomize.extra import Extra
from twinproof.randomize.inferred import Block, centre
from twinproof.randomize.meaning import meaning, meant_range, sds_of, sentence
from twinproof.sim.parameters.base import Parameter, names
from twinproof.sim.parameters.resolve import nominal_value, parameter

if TYPE_CHECKING:
    from jaxtyping import Float

SEVEN = ("pitch", "yaw", "roll", "x", "y", "z", "focal")  # as reconstruct keeps them: turn, shift, log focal length

USUAL = "declared for any camera: state what is known of yours with --extra"
LOOKS = (
    Extra("image.brightness", f"exposure and light differ by a third from day to day; {USUAL}", 0.7, 1.4, point=1.0),
    Extra("image.contrast", f"haze, glare and gamma; {USUAL}", 0.8, 1.25, point=1.0),
    Extra("image.saturation", f"colour processing of the camera; {USUAL}", 0.8, 1.2, point=1.0),
    Extra("image.hue", f"colour processing of the camera; {USUAL}", -0.06, 0.06, point=0.0),
    Extra("image.temperature", f"warm lamps to a clouded sky; {USUAL}", 4500.0, 9000.0, point=6500.0),
    Extra("image.noise", f"a dark room makes noise of 2 %; {USUAL}", 0.0, 0.02, point=0.0),
    Extra("image.blur", f"focus and motion; {USUAL}", 0.0, 0.8, point=0.0),
    Extra("image.dropout", f"lost blocks of a compressed stream; {USUAL}", 0.0, 0.005, point=0.0),
    Extra("image.latency", f"up to one frame at 25 Hz; {USUAL}", 0.0, 0.04, point=0.0),
)
LIGHTS = (
    Extra("light.*.diffuse", "blinds open and closed", times=(0.5, 1.5)),
    Extra("light.*.softness", "from a bare bulb to a window", 0.0, 0.3),
    Extra("light.*.x", "lamps are moved, blinds opened", plus=(-0.3, 0.3)),
    Extra("light.*.y", "lamps are moved, blinds opened", plus=(-0.3, 0.3)),
)
PAINT = 0.15  # share by which colours of materials may differ: paint, wear, dust


def cameras(
    twin: Twin, model: Any, share: float, count: int, rng: np.random.Generator
) -> tuple[list[Block], list[str]]:
    """One block for each camera of the twin that its scene has, and sentences about those left out."""
    found, notes = [], list[str]()
    known: Any = twin.audits.get("calibration", {})
    for name, camera in sorted(twin.cameras.items()):
        if name not in names(model, "camera"):
            notes.append(f"the twin's camera {name!r} is not in its scene: its pose is not randomised")
            continue
        audit = known.get("cameras", {}).get(name, {}) if isinstance(known, Mapping) else {}
        spread = covariance(camera, audit)
        if not spread.any():
            notes.append(f"the twin states no error of the camera {name!r}: its pose is not randomised")
            continue
        found.append(_camera(twin, name, model, spread, share, count, rng))
    return found, notes


def covariance(camera: TwinCamera, audit: Mapping[str, Any]) -> Float[np.ndarray, "7 7"]:
    """Of turn (about the camera's own axes), place and log focal length; from stated sds where there is no better."""
    stated = np.array(audit.get("covariance") or np.zeros((0, 0)), dtype=float)
    if stated.shape == (7, 7):
        return stated
    sd = np.zeros(7)
    sd[:3] = camera.mount.rotation_sd_rad / math.sqrt(3)  # a mount states the length of all three together
    sd[3:6] = camera.mount.position_sd_m / math.sqrt(3)
    sd[6] = float(audit.get("focal_sd", 0.0))
    return np.diag(sd**2)


def _camera(
    twin: Twin,
    name: str,
    model: Any,
    spread: np.ndarray,
    share: float,
    count: int,
    rng: np.random.Generator,
) -> Block:
    off = rng.multivariate_normal(np.zeros(7), spread, size=4 * count, method="eigh")
    off = off[np.flatnonzero(central(off, np.full(len(off), 1 / len(off)), share))[:count]]
    ranges, columns = list[Range](), list[np.ndarray]()
    for k, quantity in enumerate(SEVEN):
        if spread[k, k] <= 0:
            continue
        for each, values in _applied(name, quantity, off[:, k], model):
            ranges.append(_range_of(twin, each, values, share))
            columns.append(values)
    return Block(tuple(ranges), np.stack(columns, axis=1))


def _applied(name: str, quantity: str, off: np.ndarray, model: Any) -> Iterator[tuple[Parameter, np.ndarray]]:
    """The parameters that a deviation changes, with their values."""
    if quantity != "focal":
        each = parameter(f"camera.{name}.{quantity}")
        yield each, nominal_value(model, each) + off
        return
    view = parameter(f"camera.{name}.fovy")
    if not view.lacks(model):
        half = math.tan(nominal_value(model, view) / 2)
        yield view, 2 * np.arctan(half * np.exp(-off))
        return
    for entry in ("fx", "fy"):
        each = parameter(f"camera.{name}.{entry}")
        yield each, nominal_value(model, each) * np.exp(off)


def _range_of(twin: Twin, each: Parameter, values: np.ndarray, share: float) -> Range:
    about = meaning(each.id)
    why = sentence(f"{share:.0%} of what the calibration of this camera leaves open", each.id)
    ends = float(values.min()), float(values.max())
    known = twin.cameras[
        each.id.removeprefix("camera.").rpartition(".")[0]
    ].source  # a pose that was measured or declared stays so
    source: Source = Inferred(twin.hash, share) if isinstance(known, Inferred) else known
    return Range(each.info, *ends, centre(each.info, values), source, about.gap, about.approximates, about.check, why)


def encoders(twin: Twin, model: Any, share: float, known: frozenset[str]) -> tuple[Range, ...]:
    """Zeros of encoders that the pictures told, where no posterior has them."""
    audit: Any = twin.audits.get("calibration", {})
    sds = audit.get("offset_sd_rad", {}) if isinstance(audit, Mapping) else {}
    wide = sds_of(share)
    found = []
    for joint, sd in sorted(sds.items()):
        id = f"joint.{joint}.offset"
        if id not in known and id in twin.start and joint in names(model, "joint"):
            at = float(twin.start[id])
            why = f"{share:.0%} of what pictures of the robot leave open"
            found.append(
                meant_range(parameter(id), (at - wide * sd, at + wide * sd, at), Inferred(twin.hash, share), why)
            )
    return tuple(found)


def looks(twin: Twin, model: Any) -> tuple[Range, ...]:
    """Declared ranges of light, colours and picture noise, for a twin with cameras."""
    if not twin.cameras:
        return ()
    extras = [*LOOKS, *(LIGHTS if model.nlight else ())]
    return (*(entry for extra in extras for entry in extra.ranges(model)), *_colours(model))


def _colours(model: Any) -> Iterator[Range]:
    why = "paint, wear and dust"
    for name in names(model, "material"):
        for colour in ("red", "green", "blue"):
            each = parameter(f"material.{name}.{colour}")
            at = nominal_value(model, each)
            if at > 0:
                ends = ((1 - PAINT) * at, min((1 + PAINT) * at, 1.0), min(at, 1.0))
                yield meant_range(each, ends, Declared(why), why)


def exposures(twin: Twin, share: float) -> tuple[Range, ...]:
    """Brightness from the gains that episodes were seen with, where the twin has some."""
    gains = np.array([gain for camera in twin.cameras.values() for gain in camera.exposure.values()])
    if len(gains) < 3:
        return ()
    each = parameter("image.brightness")
    mean, sd = float(np.log(gains).mean()), float(np.log(gains).std(ddof=1))
    half = sds_of(share) * sd * math.sqrt(1 + 1 / len(gains))
    low, high = math.exp(-half), math.exp(half)
    why = f"exposure of {len(gains)} episodes and cameras about their mean {math.exp(mean):.3g}"
    return (meant_range(each, (low, high, 1.0), Inferred(twin.hash, share), why),)
