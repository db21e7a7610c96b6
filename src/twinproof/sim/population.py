"""Many simulations of one scene in a `mujoco.batch.Batch`, each with its own Theta, always applied to the nominal."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
from mujoco.batch import Batch

from twinproof.nouns.errors import SimError
from twinproof.nouns.theta import Theta
from twinproof.sim.fields import Fields, field
from twinproof.sim.instantiate import instantiate, poke_worlds
from twinproof.sim.parameters.base import names
from twinproof.sim.parameters.resolve import parameter

if TYPE_CHECKING:
    from twinproof.sim.scene import Scene


# what mj_setConst computes from other fields
DERIVED = (
    "body_subtreemass", "body_invweight0", "dof_invweight0", "tendon_length0", "tendon_invweight0", "actuator_acc0",
    "cam_pos0", "cam_poscom0", "cam_mat0", "light_pos0", "light_poscom0", "light_dir0", "geom_aabb", "geom_rbound",
    "eq_data",
)  # fmt: skip


class Population:
    """`count` simulations. Where a parameter cannot be poked (`compiled`), each runs on a model compiled for it."""

    def __init__(
        self, scene: Scene, count: int, nthread: int = 0, compiled: bool = False, sensors: bool = True
    ) -> None:
        self.scene = scene
        self.nominal: Any = _without_autoreset(scene.nominal())
        self.nominal.opt.disableflags |= idle(self.nominal, sensors)
        self.batch = Batch(self.nominal, count, nthread)
        self._poked: set[str] = set()
        self._derived = False
        self._kept: Fields | None = None
        self.compiled = compiled
        self._models: list[Any] | None = [self.nominal] * count if compiled else None

    def apply(self, thetas: Sequence[Theta], rows: np.ndarray | None = None, which: np.ndarray | None = None) -> None:
        """Gives the rows (all where None) these Thetas, starting from the nominal: one each, or numbers `which`."""
        if which is None:
            which = np.arange(len(thetas))
        if self._models is not None:
            self._compile(thetas, rows, which)
            return
        slow = unpokable(self.nominal, thetas)
        if slow:
            raise SimError(
                f"{', '.join(slow)} needs a model compiled for every value, and these worlds share one. Give the "
                "parameter a value in the Thetas that the worlds are made with."
            )
        self._write(poke_worlds(self.nominal, thetas), rows, which)

    def keep(self, thetas: Sequence[Theta]) -> None:
        """Takes Thetas in that `apply_kept` gives by number, as often as one likes and faster than `apply`."""
        self._kept = poke_worlds(self.nominal, thetas)

    def apply_kept(self, which: np.ndarray, rows: np.ndarray) -> None:
        """Gives the rows the Thetas of these numbers, starting from the nominal."""
        assert self._kept is not None
        self._write(self._kept, rows, which)

    def _write(self, fields: Fields, rows: np.ndarray | None, which: np.ndarray) -> None:
        where: Any = slice(None) if rows is None else rows
        self._poked |= set(fields)
        for name in sorted(self._poked):
            self.batch.expand(name)[where] = fields[name][which]
        self._derived |= fields.derives
        if self._derived:
            self.batch.set_const(rows)

    @property
    def changed(self) -> tuple[str, ...]:
        """The fields that may differ between the rows."""
        derived = {name for name in DERIVED if self._derived and field(self.nominal, name).size}
        return tuple(sorted(self._poked | derived))

    def model(self, row: int) -> Any:
        """A copy of one simulation's model."""
        return self.batch.get_model(row)

    def sensed_now(self, rows: np.ndarray | None) -> np.ndarray:
        """What the rows' sensors read at their present state, without any delay (rows, nsensordata)."""
        place: Any = slice(None) if rows is None else rows
        bound = self.batch.bind("sensordata")
        if self._models is None:
            delay = self.batch.expand("sensor_delay")
            kept = delay[place].copy()
            delay[place] = 0.0
            self.batch.forward(rows)
            delay[place] = kept
        else:
            self.batch.set_models([_prompt(model) for model in self._models])
            self.batch.forward(rows)
            self.batch.set_models(self._models)
        return np.array(bound[place])

    def _compile(self, thetas: Sequence[Theta], rows: np.ndarray | None, which: np.ndarray) -> None:
        assert self._models is not None
        compiled = [_without_autoreset(instantiate(self.scene, theta)) for theta in thetas]
        for model in compiled:
            model.opt.disableflags = self.nominal.opt.disableflags
        for row, number in zip(range(self.batch.nsim) if rows is None else rows, which, strict=True):
            self._models[row] = compiled[number]
        self.batch.set_models(self._models)


def control_names(model: Any) -> tuple[str, ...]:
    """The actuator's name for each number in `ctrl`."""
    found = [""] * model.nu
    for actuator, name in enumerate(names(model, "actuator")):
        first = int(model.actuator_ctrladr[actuator])
        for control in range(first, first + int(model.actuator_ctrlnum[actuator])):
            found[control] = name
    return tuple(found)


def unpokable(nominal: Any, thetas: Iterable[Theta]) -> list[str]:
    """The ids among the Thetas' whose values need a compile each."""
    return [id for id in sorted({id for theta in thetas for id in theta}) if not parameter(id).fast(nominal)]


def _without_autoreset(model: Any) -> Any:
    """A copy told to leave a diverged state as it is: we flag it, where MuJoCo would start afresh in silence."""
    model = copy.copy(model)
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
    return model


def idle(model: Any, sensors: bool) -> int:
    """Flags that switch off what cannot change the motion of this model: a step of a small arm takes a fifth less."""
    bit, found = mujoco.mjtDisableBit, 0
    if not sensors and not model.sensor_history[:, 0].any():
        found |= bit.mjDSBL_SENSOR
    if model.ntree <= 1 and not model.opt.enableflags & mujoco.mjtEnableBit.mjENBL_SLEEP:  # one tree is one island
        found |= bit.mjDSBL_ISLAND
    if not (model.geom_contype | model.geom_conaffinity).any() and not model.npair and not model.nflex:
        found |= bit.mjDSBL_CONTACT
    if not model.neq:
        found |= bit.mjDSBL_EQUALITY
    return int(found)


def _prompt(model: Any) -> Any:
    model = copy.copy(model)
    model.sensor_delay[:] = 0.0
    return model


def field_rows(scene: Scene, thetas: Sequence[Theta], at_once: int = 2048) -> dict[str, np.ndarray]:
    """Every model field that the Thetas change, derived ones too, with one row a Theta: the CPU's own numbers."""
    slow = unpokable(scene.nominal(), thetas)
    if slow:
        raise SimError(f"{', '.join(slow)} needs a model compiled for every value: only worlds on the CPU can have it.")
    if not thetas:
        return {}
    population = Population(scene, min(at_once, len(thetas)), 0)
    ids = {parameter(id).id: theta[id] for theta in thetas for id in theta}
    population.apply([Theta(ids)], which=np.zeros(population.batch.nsim, dtype=np.int64))  # now it knows all fields
    parts: list[dict[str, np.ndarray]] = []
    for begin in range(0, len(thetas), at_once):
        some = list(thetas[begin : begin + at_once])
        population.apply(some + [some[-1]] * (population.batch.nsim - len(some)))
        parts.append({name: population.batch.expand(name)[: len(some)].copy() for name in population.changed})
    return {name: np.concatenate([part[name] for part in parts]) for name in population.changed}
