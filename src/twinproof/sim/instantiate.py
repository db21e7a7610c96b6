"""A model with a Theta's values: compiled anew (the reference), or poked into a copy of the nominal (fast).

Both apply the parameters in the order of their ids, each to what the ones before it left.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import SimError
from twinproof.sim.fields import Fields
from twinproof.sim.parameters.resolve import check_once, parameter
from twinproof.sim.scene import compiled

if TYPE_CHECKING:
    from mujoco import MjModel

    from twinproof.nouns.theta import Theta
    from twinproof.sim.parameters.base import Parameter
    from twinproof.sim.scene import Scene


STATISTICS = ("meaninertia", "meanmass", "meansize", "extent", "center")


def instantiate(scene: Scene, theta: Theta) -> MjModel:
    """The scene's model with these values, compiled from the nominal: everything that derives is recomputed."""
    check_once(theta)
    chosen = parameters_of(scene.nominal(), tuple(theta))
    values = np.array([list(theta.values())])
    check_limits(scene.nominal(), chosen, values)
    spec = scene.spec()
    for each, value in zip(chosen, values[0], strict=True):
        each.write(spec, float(value))
    model = compiled(spec)
    for name in STATISTICS:  # for the viewer alone; mj_setConst leaves them, and so do we
        setattr(model.stat, name, getattr(scene.nominal().stat, name))
    return model


def poke_model(nominal: MjModel, theta: Theta) -> MjModel:
    """A copy of the nominal model with these values: equal to what `instantiate` compiles, and faster."""
    import mujoco

    fields = poke_worlds(nominal, [theta])
    model = copy.copy(nominal)
    fields.into_model(model)
    if fields.derives:
        mujoco.mj_setConst(model, mujoco.MjData(model))
    return model


def poke_worlds(nominal: MjModel, thetas: Sequence[Theta]) -> Fields:
    """The fields of as many worlds as there are Thetas, each applied to the nominal. Thetas may have different ids.

    Where `derives` is set in the result, mj_setConst must follow in every world.
    """
    groups: dict[tuple[str, ...], list[int]] = {}
    for world, theta in enumerate(thetas):
        groups.setdefault(tuple(theta), []).append(world)
    fields = Fields(nominal, len(thetas))
    for ids, worlds in groups.items():
        values = np.array([[thetas[world][id] for id in ids] for world in worlds])
        part = _poked(nominal, ids, values.reshape(len(worlds), len(ids)))
        if len(groups) == 1:
            return part
        fields.put(np.array(worlds), part)
    return fields


def fast(nominal: MjModel, thetas: Sequence[Theta]) -> bool:
    """Whether all these Thetas can be poked; otherwise each needs a model of its own from `instantiate`."""
    ids = {id for theta in thetas for id in theta}
    return all(each.fast(nominal) for each in parameters_of(nominal, tuple(sorted(ids))))


def parameters_of(nominal: MjModel, ids: Sequence[str]) -> tuple[Parameter, ...]:
    """The parameters of these ids; an id that the model has not is an error that says why."""
    chosen = tuple(map(parameter, ids))
    for each in chosen:
        if missing := each.lacks(nominal):
            raise SimError(f"{each.id} is not in the model: {missing}.")
    return chosen


def check_limits(nominal: MjModel, chosen: Sequence[Parameter], values: np.ndarray) -> None:
    """Every value (worlds × parameters) is inside its physical limits, and inside what the model has room for."""
    for each, column in zip(chosen, values.T, strict=True):
        low, high = each.limits
        bad = ~((column >= low) & (column <= high))
        if bad.any():
            raise SimError(
                f"{each.id} is {column[bad][0]:.6g} {each.unit}; its limits are {low:g} to {high:g}. "
                "Give a value inside them."
            )
        most = each.most(nominal)
        over = column > most + 1e-9 * abs(most)
        if over.any():
            raise SimError(
                f"{each.id} is {column[over][0]:.6g} {each.unit}, this model takes {most:.6g} at most: "
                f"{each.above(nominal)}."
            )


def _poked(nominal: MjModel, ids: tuple[str, ...], values: np.ndarray) -> Fields:
    check_once(ids)
    chosen = parameters_of(nominal, ids)
    check_limits(nominal, chosen, values)
    slow = [each.id for each in chosen if not each.fast(nominal)]
    if slow:
        raise SimError(f"{slow[0]} needs a model compiled for every value. Use instantiate(scene, theta).")
    fields = Fields(nominal, len(values))
    for each, column in zip(chosen, values.T, strict=True):
        each.poke(fields, column)
        fields.derives |= each.derives
    return fields
