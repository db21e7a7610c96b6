"""Samples of a rollout, taken chunk by chunk so that memory stays bounded, with everything at one instant.

After a step MuJoCo's state is new, and all that derives from it (sensors, poses) still describes the state before. So
the value of a derived field at a sample is taken from the record of the step that follows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import mujoco
import numpy as np
from mujoco.batch import SimulationError

from twinproof.sim.divergence import Limits
from twinproof.sim.population import Population

_CHUNK_BYTES = 64 << 20
_NEW = frozenset(
    {"time", "qpos", "qvel", "act", "history", "ctrl", "qfrc_applied", "xfrc_applied", "mocap_pos", "mocap_quat"}
)
_STATE = int(mujoco.mjtState.mjSTATE_INTEGRATION)
_MOTION = int(mujoco.mjtState.mjSTATE_TIME | mujoco.mjtState.mjSTATE_QPOS | mujoco.mjtState.mjSTATE_QVEL)


class Recorder:
    """Advances a population and keeps `outputs` at its samples; `diverged_at` is each row's first bad sample or -1."""

    def __init__(
        self, population: Population, outputs: Sequence[str], samples: int, substeps: int, limits: Limits
    ) -> None:
        self._batch, model = population.batch, population.nominal
        self._samples, self._substeps, self._step_s = samples, substeps, float(model.opt.timestep)
        self._allowed = limits.row(model)
        self._outputs = tuple(outputs)
        late = tuple(name for name in outputs if name not in _NEW)
        # Runge–Kutta leaves poses of its intermediate stages behind: there they are computed again at each sample
        again = model.opt.integrator == mujoco.mjtIntegrator.mjINT_RK4 and any(name != "sensordata" for name in late)
        self._late: tuple[str, ...] = () if again else late
        self._again: tuple[str, ...] = late if again else ()
        rows, nq = self._batch.nsim, int(model.nq)
        self._motion = np.empty((rows, samples, 1 + nq + model.nv))  # time, qpos, qvel: what divergence shows in
        self._parts = {
            "time": self._motion[..., 0],
            "qpos": self._motion[..., 1 : 1 + nq],
            "qvel": self._motion[..., 1 + nq :],
        }
        self._templates = {name: np.asarray(getattr(mujoco.MjData(model), name)) for name in outputs}
        self._values = {
            name: np.empty((rows, samples, *template.shape))
            for name, template in self._templates.items()
            if name not in self._parts
        }
        self._widths: dict[Any, int] = {_MOTION: self._motion.shape[-1]} | (
            {_STATE: self._batch.nstate} if again else {}
        )
        self._record: list[Any] = [*self._widths, *(name for name in self._values if name not in self._again)]
        self.diverged_at = np.full(rows, -1)
        width = sum(self._widths.values()) + sum(value[0, 0].size for value in self._values.values()) + int(model.nu)
        self._chunk = max(1, _CHUNK_BYTES // (8 * rows * width))

    def chunks(self) -> Iterator[tuple[int, int]]:
        """Runs of physics steps, one more in all where derived fields are asked for."""
        total = self._samples * self._substeps + (1 if self._late else 0)
        for begin in range(0, total, self._chunk):
            yield begin, min(begin + self._chunk, total)

    def advance(self, live: np.ndarray, controls: np.ndarray, begin: int) -> None:
        """Steps the live rows with their `controls` (live, steps, nu) from physics step `begin`, and keeps samples."""
        steps = controls.shape[1]
        ids = None if len(live) == self._batch.nsim else live.astype(np.int32)
        buffers = {item: self._buffer(item, len(live), steps) for item in self._record}
        failed = np.empty(0, dtype=np.int64)
        try:
            self._batch.rollout(
                steps, controls if controls.shape[2] else None, record=self._record, ids=ids, out=buffers
            )
        except SimulationError as problem:
            failed = problem.ids
        samples, places = self._instants(begin, steps)
        block = np.ix_(live, samples)
        self._motion[block] = buffers[_MOTION][:, places]
        late_samples, late_places = self._instants(begin - 1, steps)
        late_block = np.ix_(live, late_samples)
        for name, value in self._values.items():
            if name in self._late:
                value[late_block] = buffers[name][:, late_places]
            elif name not in self._again:
                value[block] = buffers[name][:, places]
        if self._again:
            self._compute_again(live, samples, buffers[_STATE][:, places])
        self._watch(live, samples, failed, begin)

    def finish(self) -> dict[str, np.ndarray]:
        """The outputs (rows, samples, …), NaN from each row's divergence on."""
        gone = (self.diverged_at >= 0)[:, None] & (np.arange(self._samples) >= self.diverged_at[:, None])
        self._motion[gone] = np.nan
        for value in self._values.values():
            value[gone] = np.nan
        return {
            name: np.ascontiguousarray(self._parts[name]) if name in self._parts else self._values[name]
            for name in self._outputs
        }

    def _buffer(self, item: Any, rows: int, steps: int) -> np.ndarray:
        if item in self._widths:
            return np.empty((rows, steps, self._widths[item]))
        template = self._templates[item]
        return np.empty((rows, steps, *template.shape), np.int32 if template.dtype == np.int64 else template.dtype)

    def _instants(self, begin: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
        """The samples that fall after one of the steps, and after which one."""
        samples = np.arange(-(-(begin + 1) // self._substeps) - 1, (begin + steps) // self._substeps)
        samples = samples[(samples >= 0) & (samples < self._samples)]
        return samples, (samples + 1) * self._substeps - begin - 1

    def _compute_again(self, live: np.ndarray, samples: np.ndarray, states: np.ndarray) -> None:
        reached = self._batch.state.copy()
        bound = {name: self._batch.bind(name) for name in self._again}
        for k, sample in enumerate(samples):
            self._batch.state[live] = states[:, k]
            self._batch.forward(live.astype(np.int32))
            for name, value in bound.items():
                self._values[name][live, sample] = value[live]
        self._batch.state[...] = reached

    def _watch(self, live: np.ndarray, samples: np.ndarray, failed: np.ndarray, begin: int) -> None:
        """Notes the first sample that is out of bounds, or not reached: a row that MuJoCo warns of stops there."""
        if failed.size:
            self.diverged_at[failed] = begin // self._substeps
        if not samples.size:
            return
        motion = self._motion[np.ix_(live, samples)]
        bad = ~(np.abs(motion[..., 1:]) <= self._allowed).all(axis=-1)
        bad |= motion[..., 0] < ((samples + 1) * self._substeps - 0.5) * self._step_s
        hit = bad.any(axis=1) & (self.diverged_at[live] < 0)
        self.diverged_at[live[hit]] = samples[np.argmax(bad[hit], axis=1)]
