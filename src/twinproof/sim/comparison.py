"""Measured minus simulated, reading by reading: drawn between simulated samples, as the sensor would show it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from twinproof.sim.parameters.base import names
from twinproof.sim.readings import Reading

if TYPE_CHECKING:
    from jaxtyping import Float

    from twinproof.sim.shooting import Shooting, Variant
    from twinproof.sim.tables import Table

PLAIN = ("position", "velocity", "torque")  # kinds that are read as they are simulated


def compare(
    shooting: Shooting,
    variants: Sequence[Variant],
    of: np.ndarray,
    outputs: Mapping[str, np.ndarray],
    some: np.ndarray,
    gap: np.ndarray,
) -> None:
    """Fills in the gaps of some windows."""
    local = np.full(shooting.windows, -1)
    local[some] = np.arange(len(some))
    for table in shooting.tables:
        mine = np.flatnonzero(local[table.window] >= 0)
        if not mine.size:
            continue
        window, width = local[table.window[mine]], len(table.reading.entries)
        rows = np.flatnonzero(local[table.window[table.rows // width]] >= 0)
        place = np.searchsorted(mine, table.rows[rows] // width) * width + table.rows[rows] % width
        whole = outputs[table.reading.output]
        lag = shooting.step_s if table.reading.kind == "torque" else 0.0
        if table.reading.kind in PLAIN and f"signal.{table.reading.name}.delay" not in shooting.ids:
            found = _plain(shooting, table, mine, window, whole, lag + _fixed_clock(shooting, table.reading))
            gap[:, table.order[rows]] = (table.value[mine] - found).reshape(len(found), -1)[of][:, place]
            continue
        for k, variant in enumerate(variants):
            at = table.time_s[mine] - lag - _clock(shooting, table.reading, variant, table.window[mine])
            at, within = _neighbour(shooting, at, table.window[mine], local)
            u = at / (shooting.substeps * shooting.step_s)  # at an episode's ends drawn straight on
            low = np.clip(np.floor(u).astype(np.int64), 0, whole.shape[2] - 2)
            share = (u - low)[:, None]
            one, column = within[:, None], table.reading.place[None, :]
            shown = whole[of[k], one, low[:, None], column] * (1 - share)
            shown += whole[of[k], one, low[:, None] + 1, column] * share
            shown = _as_read(shooting, table.reading, shown, variant, table.window[mine])
            gap[k, table.order[rows]] = table.reading.gap(shown, table.value[mine]).reshape(-1)[place]


def _neighbour(
    shooting: Shooting, at: np.ndarray, window: np.ndarray, local: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Times since the start of the window that covers them, and where that stands among those rolled.

    A late signal shows what happened before its stamp: at a window's beginning, in the window before.
    """
    span = shooting.length * shooting.step_s
    for side, beyond in ((-1, at < 0), (1, at > span[window])):
        other = np.clip(window + side, 0, shooting.windows - 1)
        there = beyond & (shooting.episode[other] == shooting.episode[window]) & (other != window) & (local[other] >= 0)
        at = np.where(there, at + span[other] if side < 0 else at - span[window], at)
        window = np.where(there, other, window)
    return at, local[window]


def _plain(
    shooting: Shooting, table: Table, mine: np.ndarray, window: np.ndarray, whole: np.ndarray, lag: float
) -> Float[np.ndarray, "rolls n D"]:
    """What all rollouts show at some samples of a signal, where all of them read it at the same times."""
    u = (table.time_s[mine] - lag) / (shooting.substeps * shooting.step_s)
    near, last = np.rint(u), whole.shape[2] - 1
    # a sample that is met but for rounding needs no neighbour
    met = (np.abs(u - near) < 1e-6) & (near >= 0) & (near <= last)
    low = np.where(met, near, np.clip(np.floor(u), 0, last - 1)).astype(np.int64)
    share = np.where(met, 0.0, u - low)[:, None]
    flat = whole.reshape(len(whole), -1, whole.shape[-1])
    at = window * whole.shape[2] + low
    first: np.ndarray = flat[:, at][..., table.reading.place]
    if met.all():
        return first
    after = flat[:, np.where(met, at, at + 1)][..., table.reading.place]
    blend: np.ndarray = first * (1 - share) + after * share
    return blend


def _fixed_clock(shooting: Shooting, reading: Reading) -> float:
    return float(shooting.fixed.get(f"signal.{reading.name}.delay", 0.0))


def _value(shooting: Shooting, id: str, variant: Variant, window: np.ndarray) -> np.ndarray | float:
    if id in shooting.ids:
        value: np.ndarray = variant.values[shooting.group[window], shooting.ids.index(id)]
        return value
    return float(shooting.fixed.get(id, 0.0))


def _clock(shooting: Shooting, reading: Reading, variant: Variant, window: np.ndarray) -> np.ndarray | float:
    """How late the signal's stamps are."""
    return _value(shooting, f"signal.{reading.name}.delay", variant, window)


def _as_read(
    shooting: Shooting, reading: Reading, shown: np.ndarray, variant: Variant, window: np.ndarray
) -> np.ndarray:
    """Simulated values as the sensor would report them: with its biases, or in its own frame.

    States are in the frame of the tracker that gave their starts; another one of the same body has its own.
    """
    if reading.kind == "pose":
        quat = shown[:, 3:] / np.linalg.norm(shown[:, 3:], axis=1, keepdims=True)
        place = shown[:, :3].copy()
        for e in np.unique(shooting.episode[window]):
            mine, first = shooting.episode[window] == e, {at: id for id, at in shooting.experiments[e].frames}
            for k, axis in enumerate("xyz"):
                own, other = f"signal.{reading.name}.offset_{axis}", first[int(reading.place[k])]
                if own != other:
                    place[mine, k] += _value(shooting, own, variant, window[mine])
                    place[mine, k] -= _value(shooting, other, variant, window[mine])
        return np.concatenate([place, quat], axis=1)
    if reading.kind == "sensor":
        sensors = names(shooting.model, "sensor")
        for k, place in enumerate(reading.place):
            sensor = sensors[int(np.searchsorted(shooting.model.sensor_adr, place, side="right")) - 1]
            shown[:, k] += _value(shooting, f"sensor.{sensor}.bias", variant, window)
    return shown
