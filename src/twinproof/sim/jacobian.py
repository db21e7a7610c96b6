"""How a whole trajectory moves with parameters, with where it began and with what was commanded: finite differences.

All columns are rows of one rollout: (base) + 2 × (parameters + states + commands), times the windows, on all cores.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.nouns.errors import SimError
from twinproof.nouns.theta import Theta
from twinproof.sim.parameters.delays import History
from twinproof.sim.parameters.resolve import canonical, nominal_value, parameter
from twinproof.sim.rollout import Rolled, Rollouts
from twinproof.sim.tangent import differentiate_pos, integrate_pos
from twinproof.sim.windows import Commands, Start

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

    from twinproof.nouns.theta import ParameterInfo


@dataclass(frozen=True)
class Differences:
    """How far to step. A logarithmic parameter steps by a share of itself, another by a share of its size.

    `own` gives single parameters a step in their own unit. A step that would leave the limits is cut there. A delay
    steps by whole physics steps, one at least: between them nothing changes.
    """

    parameter: float = 1e-4
    state: float = 1e-6  # m, rad, m/s, rad/s
    control: float = 1e-6
    central: bool = True
    own: Mapping[str, float] = field(default_factory=dict)

    def around(self, info: ParameterInfo, value: float) -> tuple[float, float]:
        """The values below and above; one of them is the value itself where only one side is free or asked for."""
        size = max(abs(value), 0.01 * min(1.0, info.high - info.low))
        step = self._own(info.id, self.parameter * (value if info.log else size))
        return self._sides(value, max(value - step, info.low), min(value + step, info.high))

    def around_delay(self, info: ParameterInfo, value: float, step_s: float, most: float) -> tuple[float, float]:
        """The same in whole physics steps of `step_s`, for a delay that is a whole number of them, up to `most`."""
        step = step_s * max(1, round(self._own(info.id, 0.0) / step_s))
        return self._sides(value, max(value - step, info.low), min(value + step, most))

    def _own(self, id: str, otherwise: float) -> float:
        return {parameter(key).id: step for key, step in self.own.items()}.get(id, otherwise)

    def _sides(self, value: float, below: float, above: float) -> tuple[float, float]:
        if not self.central:
            below, above = (value, above) if above > value else (below, value)
        return below, above


@dataclass(frozen=True, eq=False)
class Jacobian:
    """Derivatives of each output (windows, samples, width, columns); `base` is the trajectory itself.

    The output "qpos" is nv wide: its rows are turns and shifts in tangent space. State columns are the start's qpos in
    tangent space (nv) and then qvel (nv); command columns are sample by sample, nu each. Parameters are in their SI
    unit. NaN where one of the two trajectories of a difference diverged.
    """

    base: Rolled
    parameters: Mapping[str, Float[np.ndarray, "windows samples width parameters"]]
    state: Mapping[str, Float[np.ndarray, "windows samples width 2nv"]]
    control: Mapping[str, Float[np.ndarray, "windows samples width columns"]]
    trusted: Bool[np.ndarray, "windows"]  # no trajectory that the window's columns are made of diverged


def jacobian(
    rollouts: Rollouts,
    theta: Theta,
    start: Start,
    controls: np.ndarray,
    parameters: Sequence[str] = (),
    *,
    state: bool = False,
    control: bool = False,
    differences: Differences | None = None,
) -> Jacobian:
    """The derivatives at `theta` of the windows that begin at `start` (W, …) and are sent `controls` (W, T, nu).

    A parameter that `theta` does not hold is varied around its nominal value.
    """
    how = differences or Differences()
    columns = _Columns(rollouts, theta, start, np.asarray(controls, dtype=np.float64), how)
    for id in parameters:
        columns.add_parameter(id)
    if state:
        columns.add_states()
    if control:
        columns.add_controls()
    rolled = columns.roll()
    cuts = np.cumsum([len(parameters), 2 * rollouts.model.nv if state else 0])
    parts: list[dict[str, np.ndarray]] = [{}, {}, {}]
    for name in rollouts.outputs:
        slopes = columns.slopes(name, rolled[name])
        for part, piece in zip(parts, np.split(slopes, cuts, axis=-1), strict=True):
            part[name] = piece
    base = Rolled(
        {name: rolled[name][:1] for name in rollouts.outputs}, rolled.diverged_at[:1], lambda p, w: rolled.explain(p, w)
    )
    return Jacobian(base, parts[0], parts[1], parts[2], ~np.atleast_1d(rolled.diverged.any(axis=0)))


class _Columns:
    """Variants of one problem, each differing from the base in one number: variant 0 is the base."""

    def __init__(self, rollouts: Rollouts, theta: Theta, start: Start, controls: np.ndarray, how: Differences) -> None:
        if controls.ndim != 3:
            raise SimError(f"controls have the shape {controls.shape}; a Jacobian needs (windows, samples, nu).")
        theta = canonical(theta)
        self.rollouts, self.theta, self.how, self.controls = rollouts, theta, how, controls
        self.windows = len(controls)
        self.start = start.rows(1, self.windows)
        self.thetas: list[Theta] = [theta]
        self.which: list[int] = [0]
        self.qpos: list[np.ndarray] = [self.start.qpos]
        self.qvel: list[np.ndarray] = [self.start.qvel]
        self.sequences: list[np.ndarray] = [controls]
        self.sent: list[int] = [0]
        self.pairs: list[tuple[int, int, float]] = []  # variants below and above, and how far apart they are

    def add_parameter(self, id: str) -> None:
        """One column for a parameter."""
        each, model = parameter(id), self.rollouts.model
        info, id = each.info, each.id
        value = self.theta[id] if id in self.theta else nominal_value(model, each)
        if isinstance(each, History):
            step_s = float(model.opt.timestep)
            value = step_s * math.ceil(value / step_s - 1e-9)  # what the physics makes of it
            below, above = self.how.around_delay(info, value, step_s, each.most(model))
        else:
            below, above = self.how.around(info, value)
        if not above > below:
            raise SimError(f"{id} is {value} with the limits {info.low} and {info.high}: there is no room for a step.")
        ends = [0 if end == value else self._variant(theta=self.theta | {id: end}) for end in (below, above)]
        self.pairs.append((ends[0], ends[1], above - below))

    def add_states(self) -> None:
        """One column for each direction in which the start can move, and one for each of its velocities."""
        step, model = self.how.state, self.rollouts.model
        for v in range(2 * model.nv):
            nudge = np.zeros(2 * model.nv)
            nudge[v] = step

            def moved(sign: int, nudge: np.ndarray = nudge) -> int:
                qpos = integrate_pos(model, self.start.qpos, sign * nudge[: model.nv])
                return self._variant(qpos=qpos, qvel=self.start.qvel + sign * nudge[model.nv :])

            self.pairs.append(self._both(moved, step))

    def add_controls(self) -> None:
        """One column for each command of each sample."""
        step = self.how.control
        for sample, actuator in np.ndindex(*self.controls.shape[1:]):

            def sent(sign: int, sample: int = sample, actuator: int = actuator) -> int:
                controls = self.controls.copy()
                controls[:, sample, actuator] += sign * step
                return self._variant(controls=controls)

            self.pairs.append(self._both(sent, step))

    def roll(self) -> Rolled:
        """All variants in one rollout, (variants, windows, samples, …)."""
        count, windows = len(self.which), self.windows
        start = replace(
            self.start,
            qpos=np.concatenate(self.qpos),
            qvel=np.concatenate(self.qvel),
            act=_tiled(self.start.act, count),
            past=_tiled(self.start.past, count),
        )
        samples, rows = self.controls.shape[1], np.arange(count * windows)
        commands = Commands(
            np.concatenate(self.sequences),
            (np.array(self.sent)[:, None] * windows + np.arange(windows)).reshape(-1),
            np.repeat(np.arange(samples), self.rollouts.substeps),
            # a variant of the commands has the base's past, not one that its own first command rewrites
            np.where(np.repeat(self.sent, windows) > 0, rows % windows, rows),
        )
        rolled = self.rollouts.roll_rows(self.thetas, np.repeat(self.which, windows), start, commands)
        outputs = {name: value.reshape(count, windows, *value.shape[1:]) for name, value in rolled.outputs.items()}
        at = rolled.diverged_at.reshape(count, windows)
        return Rolled(outputs, at, lambda p, w: rolled.explain(0, p * windows + w))

    def slopes(self, name: str, values: np.ndarray) -> np.ndarray:
        """The differences of an output over their steps (windows, samples, width, columns)."""
        below = values[[pair[0] for pair in self.pairs]]
        above = values[[pair[1] for pair in self.pairs]]
        if name == "qpos":
            change = differentiate_pos(self.rollouts.model, below, above)
        else:
            change = (above - below).reshape(*above.shape[:3], -1)
        width = np.array([pair[2] for pair in self.pairs])
        slopes: np.ndarray = np.moveaxis(change, 0, -1) / width
        return slopes

    def _both(self, variant: Any, step: float) -> tuple[int, int, float]:
        if self.how.central:
            return variant(-1), variant(1), 2 * step
        return 0, variant(1), step

    def _variant(
        self,
        theta: Theta | None = None,
        qpos: np.ndarray | None = None,
        qvel: np.ndarray | None = None,
        controls: np.ndarray | None = None,
    ) -> int:
        if theta is not None:
            self.thetas.append(theta)
        if controls is not None:
            self.sequences.append(controls)
        self.which.append(0 if theta is None else len(self.thetas) - 1)
        self.qpos.append(self.start.qpos if qpos is None else qpos)
        self.qvel.append(self.start.qvel if qvel is None else qvel)
        self.sent.append(0 if controls is None else len(self.sequences) - 1)
        return len(self.which) - 1


def _tiled(value: np.ndarray | None, count: int) -> np.ndarray | None:
    return None if value is None else np.tile(value, (count, *[1] * (value.ndim - 1)))
