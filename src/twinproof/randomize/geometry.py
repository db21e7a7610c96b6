"""Sizes and places that a twin leaves open, of what was reconstructed and does not move freely.

A drawer hangs in its cabinet: moved by itself it would stick in the walls. So what joints hold moves with what holds
them all, and a range at whose ends something sticks deeper in something else than before is left out, and said so. Each
range is looked at alone, with all joints where the model starts.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from twinproof.nouns.randomization import Range
from twinproof.nouns.source import Inferred
from twinproof.nouns.theta import Theta
from twinproof.nouns.twin import Twin
from twinproof.randomize.meaning import meant_range, sds_of
from twinproof.sim.instantiate import instantiate
from twinproof.sim.parameters.resolve import nominal_value, parameter
from twinproof.sim.scene import Scene
from twinproof.sim.world import World

Depths = Mapping[tuple[str, ...], float]  # two bodies -> how deep they are in one another

SMALLEST = 0.002  # a size known better than this is not randomised: every value of it needs a model compiled for it
DEEPER_M = 0.001  # things that rest on one another are a little inside one another, and no two solvers agree how much
WORLD = 0
FREE = 0  # mjtJoint


def geometry(twin: Twin, scene: Scene, share: float, known: Collection[str] = ()) -> tuple[list[Range], list[str]]:
    """Ranges of sizes and places but those `known` already, and sentences about those left out."""
    found, notes = list[Range](), list[str]()
    model: Any = scene.nominal()
    before = depths(model)
    asked = (entry for entry in (*sizes(twin, model, share), *places(twin, model, share)) if entry.id not in known)
    for entry in asked:
        if moves_freely(model, entry.id.removeprefix("body.").rpartition(".")[0]):  # put down anew, higher if larger
            found.append(entry)
            continue
        ends = (depths(instantiate(scene, Theta({entry.id: value}))) for value in (entry.low, entry.high))
        if stuck := next(filter(None, (_deeper(end, before) for end in ends)), ""):
            notes.append(f"{entry.id} is not randomised: at an end of its range {stuck}")
        else:
            found.append(entry)
    return found, notes


def sizes(twin: Twin, model: Any, share: float) -> tuple[Range, ...]:
    """The reconstructed objects, where their scale is in doubt."""
    sd = twin.alignment.scale_sd / twin.alignment.scale
    half = sds_of(share) * sd
    if half < SMALLEST:
        return ()
    found = []
    for body in twin.bodies:
        each = parameter(f"body.{body.name}.scale")
        if body.layer == "object" and not each.lacks(model):
            why = f"the reconstruction's scale is known to {sd:.2%}; every value needs a model compiled for it"
            found.append(meant_range(each, (1 - half, 1 + half, 1.0), Inferred(twin.hash, share), why))
    return tuple(found)


def places(twin: Twin, model: Any, share: float) -> tuple[Range, ...]:
    """Where reconstructed objects stand that do not move freely: a cabinet, a fixture."""
    sd = twin.alignment.position_sd_m / math.sqrt(3)
    half = sds_of(share) * sd
    robot = _under_robot(twin, model)
    standing = {holder(model, body.name, robot): None for body in twin.bodies if body.layer == "object" and half > 0}
    found = []
    for name in standing:
        for axis in "xyz":
            each = parameter(f"body.{name}.{axis}")
            if not each.lacks(model):
                at = nominal_value(model, each)
                why = f"the reconstruction is placed in the robot's frame to {1e3 * sd:.2g} mm along each axis"
                found.append(meant_range(each, (at - half, at + half, at), Inferred(twin.hash, share), why))
    return tuple(found)


def holder(model: Any, name: str, robot: Collection[int]) -> str:
    """What a body moves with: the body that holds the first of the joints above it, where that is neither the world nor
    the robot's; else the body of that joint; the body itself where no joint is above it."""
    body, first = int(model.body(name).id), -1
    while body != WORLD and body not in robot:
        first = body if model.body_jntnum[body] > 0 else first
        body = int(model.body_parentid[body])
    if first < 0:
        return name
    above = int(model.body_parentid[first])
    return str(model.body(first if above == WORLD or above in robot else above).name)


def moves_freely(model: Any, name: str) -> bool:
    """Whether nothing holds a body."""
    joint = int(model.body_jntadr[model.body(name).id])
    return joint >= 0 and int(model.jnt_type[joint]) == FREE


def depths(model: Any) -> Depths:
    """How deep bodies are in one another as the model starts, for each pair that touches."""
    found: dict[tuple[str, ...], float] = {}
    for contact in World(model).contacts():
        pair = tuple(sorted(contact.bodies))
        found[pair] = max(found.get(pair, 0.0), contact.depth_m)
    return found


def _deeper(now: Depths, before: Depths) -> str:
    grown = {pair: depth for pair, depth in now.items() if depth > before.get(pair, 0.0) + DEEPER_M}
    if not grown:
        return ""
    first, second = worst = max(grown, key=lambda pair: grown[pair])
    return f"{first!r} and {second!r} are {1e3 * grown[worst]:.1f} mm deep in one another"


def _under_robot(twin: Twin, model: Any) -> frozenset[int]:
    """The robot's bodies and what carries them: none of these can be moved without moving the robot's own frame."""
    found = set[int]()
    for body in twin.bodies:
        at = int(model.body(body.name).id) if body.layer == "robot" else WORLD
        while at != WORLD:
            found.add(at)
            at = int(model.body_parentid[at])
    return frozenset(found)
