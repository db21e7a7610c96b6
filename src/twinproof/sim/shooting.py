"""Multiple shooting: recorded episodes cut into windows, rolled out under many variants, compared with the readings.

variants (L) × windows (W) ──> one rollout ──> gaps (L, M): measured minus simulated, every reading of every window
                                          └──> seams (L, S, 2nv): where a window ends against where the next begins

A variant is a value for every parameter (for each group of objects its own) and a start for every window. Starts are
as encoders and trackers show them. What acts on readings alone (biases, clocks) costs no rollout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.nouns.theta import Theta
from twinproof.sim.comparison import compare
from twinproof.sim.experiment import Experiment, Passage, passage, touching
from twinproof.sim.parameters.base import names
from twinproof.sim.pieces import pieces
from twinproof.sim.readings import FORCES
from twinproof.sim.rollout import Rollouts
from twinproof.sim.shelf import empty, forget
from twinproof.sim.smooth import states_at
from twinproof.sim.tables import Gaps, block_counts, spans_of, tabulate
from twinproof.sim.tangent import differentiate_pos, integrate_pos
from twinproof.sim.windows import Commands, Start

if TYPE_CHECKING:
    from jaxtyping import Float, Int

SAMPLE_S = 0.004  # simulated motion is kept about this often and drawn straight between; forces at every step
AT_ONCE = 16 << 20  # bytes of outputs in one rollout: a longer recording takes longer, not more memory
SENT = 1 << 20  # bytes of commands as they arrive that are kept for the next rollout
STATE_STEP = 1e-6  # of finite differences by a window's start: rad, m, and per second
TOUCH_STEP = 2e-4  # the same where things touch: below, contacts chatter and slopes mean nothing


@dataclass(frozen=True, eq=False)
class Variant:
    """One hypothesis: values (groups, P) in SI units, and every window's start."""

    values: Float[np.ndarray, "groups P"]
    qpos: Float[np.ndarray, "W nq"]
    qvel: Float[np.ndarray, "W nv"]


@dataclass(frozen=True, eq=False)
class Rolled:
    """What variants give. A window that diverged has NaN gaps from there on."""

    gap: Float[np.ndarray, "L M"]
    seam: Float[np.ndarray, "L S 2nv"]
    diverged: np.ndarray  # L × W
    end_qpos: Float[np.ndarray, "L W nq"]
    end_qvel: Float[np.ndarray, "L W nv"]


class Shooting:
    """The windows of some experiments that share a model's layout, and the machinery to roll and compare them.

    parameters   ids of what varies; `fixed` are values of what does not
    horizon_s    about how long a window is, for all episodes or for each; infinite: a whole episode
    """

    def __init__(
        self,
        experiments: Sequence[Experiment],
        parameters: Sequence[str],
        horizon_s: float | Sequence[float],
        fixed: Mapping[str, float] | None = None,
        nthread: int = 0,
    ) -> None:
        self.experiments, self.ids = tuple(experiments), tuple(parameters)
        self.horizon_s = np.broadcast_to(np.asarray(horizon_s, dtype=np.float64), (len(experiments),))
        self.fixed = dict(fixed or {})
        self.model: Any = experiments[0].scene.nominal()
        self.step_s = experiments[0].step_s
        # Forces jump where a command arrives: drawn straight between samples they would be half a jump wrong.
        jumps = any(reading.kind in FORCES for each in experiments for reading in each.readings)
        self.substeps = 1 if jumps else max(1, int(SAMPLE_S / self.step_s + 1e-6))
        self._nthread = nthread
        self._cut()
        spans = spans_of(self.experiments)
        self.adopt(spans, tabulate(self, spans))
        self._rollouts: dict[int, Rollouts] = {}
        self._sent: dict[tuple[int, bytes], np.ndarray] = {}

    def _cut(self) -> None:
        tiles = [each.tiles(float(h), self.substeps) for each, h in zip(self.experiments, self.horizon_s, strict=True)]
        self.episode = np.repeat(np.arange(len(tiles)), [len(each) for each in tiles])  # of each window
        self.first, self.length = np.concatenate(tiles).T
        self.begin_s = np.array([self.experiments[e].begin_s for e in self.episode]) + self.first * self.step_s
        self.group = np.array([self.experiments[e].group for e in self.episode])
        self.groups = 1 + max(each.group for each in self.experiments)
        follows = self.episode[1:] == self.episode[:-1]
        self.seams = np.flatnonzero(follows)  # windows whose next one goes on in the same episode
        count = block_counts(self)
        self.blocks, self.last_block = int(count.sum()), np.cumsum(count) - 1
        self.block_episode = np.repeat(self.episode, count)

    def adopt(self, spans: tuple[slice, ...], gaps: Gaps) -> None:
        """Takes what every gap is, and the pieces that a long recording is gone through in."""
        self.spans, self.gaps = spans, gaps
        self.entries, self.units, self.tables = gaps.entries, gaps.units, gaps.tables
        self.window, self.entry, self.horizon, self.block = gaps.window, gaps.entry, gaps.horizon, gaps.block
        self.bounds = gaps.bounds

    @property
    def whole(self) -> bool:
        """Whether all of it is one piece."""
        return len(self.spans) == 1

    @property
    def windows(self) -> int:
        """How many windows there are."""
        return len(self.first)

    @cached_property
    def starts(self) -> tuple[np.ndarray, np.ndarray]:
        """Every window's start as the readings around it tell: qpos (W, nq), qvel (W, nv)."""
        qpos, qvel = np.empty((self.windows, self.model.nq)), np.empty((self.windows, self.model.nv))
        self.acceleration = np.zeros((self.windows, self.model.nv))
        self.measured = np.ones(self.model.nv, dtype=bool)
        for e, each in enumerate(self.experiments):
            mine = self.episode == e
            states = states_at(each.readings, each.scene.nominal(), self.begin_s[mine])
            qpos[mine], qvel[mine], self.acceleration[mine] = states.qpos, states.qvel, states.acceleration
            self.measured &= states.measured
        return qpos, qvel

    @cached_property
    def noise(self) -> tuple[np.ndarray, np.ndarray]:
        """For every entry the noise that its readings show by themselves, the median over episodes, and its floor."""
        sd, floor = np.zeros(len(self.entries)), np.zeros(len(self.entries))
        for i, entry in enumerate(self.entries):
            found = [
                (reading.sd[k], reading.floor[k])
                for each in self.experiments
                for reading in each.readings
                for k, name in enumerate(reading.entries)
                if name == entry
            ]
            sd[i], floor[i] = np.median([f[0] for f in found]), np.median([f[1] for f in found])
        return sd, floor

    def roll(self, variants: Sequence[Variant], windows: np.ndarray | None = None) -> Rolled:
        """Rolls out all variants (of some windows only, where given: the gaps of the others are NaN)."""
        if not self.whole:
            return self._roll_pieces(variants, windows)
        chosen = np.arange(self.windows) if windows is None else windows
        rolls, of = self._distinct(variants)
        gap = np.full((len(variants), len(self.window)), np.nan)
        ends = [np.full((len(rolls), self.windows, n), np.nan) for n in (self.model.nq, self.model.nv)]
        diverged = np.zeros((len(rolls), self.windows), dtype=bool)
        for some in self._batches(chosen, len(rolls)):
            outputs, gone = self._simulate([variants[k] for k in rolls], some)
            diverged[:, some] = gone
            last = self.length[some] // self.substeps
            for end, name in zip(ends, ("qpos", "qvel"), strict=True):
                end[:, some] = outputs[name][:, np.arange(len(some)), last]
            compare(self, variants, of, outputs, some, gap)
        return Rolled(gap, self._seams(variants, of, *ends), diverged[of], ends[0][of], ends[1][of])

    def _roll_pieces(self, variants: Sequence[Variant], windows: np.ndarray | None) -> Rolled:
        gap, parts = empty((len(variants), len(self.window))), list[Rolled]()
        for piece in pieces(self):
            rolled = piece.shooting.roll(piece.variants(variants), piece.chosen(windows))
            gap[:, piece.rows] = rolled.gap
            forget(gap)
            parts.append(replace(rolled, gap=np.empty((len(variants), 0))))
        rest = ("seam", "diverged", "end_qpos", "end_qvel")
        return Rolled(gap, *(np.concatenate([getattr(part, name) for part in parts], axis=1) for name in rest))

    def window_at(self, episode: np.ndarray, time_s: np.ndarray) -> Int[np.ndarray, "n"]:
        """The window that covers each time of an episode, or the last before it."""
        found = []
        for e, t in zip(episode, time_s, strict=True):
            mine = np.flatnonzero(self.episode == e)
            found.append(mine[max(int(np.searchsorted(self.begin_s[mine], t + 1e-9, side="right")) - 1, 0)])
        return np.array(found)

    def states(self, variant: Variant, episode: np.ndarray, time_s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where the variant's windows pass at some times of some episodes: qpos (n, nq), qvel (n, nv)."""
        qpos, qvel = np.empty((len(time_s), self.model.nq)), np.empty((len(time_s), self.model.nv))
        window = self.window_at(episode, time_s)
        for some in self._batches(np.unique(window), 1):
            outputs, _ = self._simulate([variant], some)
            mine = np.flatnonzero(np.isin(window, some))
            local = np.searchsorted(some, window[mine])
            sample = (time_s[mine] - self.begin_s[window[mine]]) / (self.substeps * self.step_s)
            low = np.clip(np.round(sample).astype(np.int64), 0, outputs["qpos"].shape[2] - 1)
            rest = ((sample - low) * self.substeps * self.step_s)[:, None]
            qvel[mine] = outputs["qvel"][0, local, low]
            qpos[mine] = integrate_pos(self.model, outputs["qpos"][0, local, low], qvel[mine] * rest)
        return qpos, qvel

    def _distinct(self, variants: Sequence[Variant]) -> tuple[list[int], np.ndarray]:
        """Variants that need a rollout of their own, and for each variant the one that serves it."""
        inside = np.array([not outside(id) for id in self.ids], dtype=bool)
        seen: dict[tuple[bytes, int, int], int] = {}
        rolls, of = list[int](), np.empty(len(variants), dtype=np.int64)
        for k, each in enumerate(variants):
            key = (np.ascontiguousarray(each.values[:, inside]).tobytes(), id(each.qpos), id(each.qvel))
            if key not in seen:
                seen[key] = len(rolls)
                rolls.append(k)
            of[k] = seen[key]
        return rolls, of

    def _batches(self, chosen: np.ndarray, variants: int) -> list[np.ndarray]:
        """Windows of one scene and of similar length together, few enough to fit into memory."""
        scene = np.array([id(self.experiments[e].scene) for e in self.episode[chosen]])
        found = []
        for each in np.unique(scene):
            mine = chosen[scene == each]
            mine = mine[np.argsort(self.length[mine], kind="stable")]
            begin = 0
            while begin < len(mine):
                longest = int(1.3 * self.length[mine[begin]]) + 1
                width = 8 * (
                    self.model.nq + 2 * self.model.nv + self.model.nsensordata + self.model.nu * self.substeps + 2
                )
                most = max(1, AT_ONCE // (width * variants * (longest // self.substeps + 2)))
                end = min(begin + most, int(np.searchsorted(self.length[mine], longest, side="right")))
                found.append(np.sort(mine[begin:end]))
                begin = end
        return found

    def _simulate(self, variants: Sequence[Variant], some: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Outputs (L, windows, 1 + samples, …), the start first, and which rows diverged."""
        scene, length = self.experiments[self.episode[some[0]]].scene, int(self.length[some].max())
        samples = -(-length // self.substeps)
        groups = np.unique(self.group[some])
        thetas, passages = [], []
        for each in variants:
            for g in groups:
                values = {**self.fixed, **dict(zip(self.ids, each.values[g].tolist(), strict=True))}
                thetas.append(Theta({id: value for id, value in values.items() if not beside(id)}))
                passages.append(passage(self.model, values))
        local = np.searchsorted(groups, self.group[some])
        which = (np.arange(len(variants))[:, None] * len(groups) + local).reshape(-1)
        commands = self._commands(passages, which, some, samples * self.substeps)
        offset = self._offsets(variants, some)
        start = Start(
            np.concatenate([each.qpos[some] for each in variants]) - offset,
            np.concatenate([each.qvel[some] for each in variants]),
        )
        unique, index = _unique(thetas)
        rolled = self._roller(scene).roll_rows(unique, index[which], start, commands)
        shape = (len(variants), len(some))
        first = {"qpos": start.qpos, "qvel": start.qvel}
        outputs = {}
        for name, value in rolled.outputs.items():
            begin = first.get(name, value[:, 0])[:, None]
            outputs[name] = np.concatenate([begin, value], axis=1).reshape(*shape, samples + 1, -1)
        outputs["qpos"] += offset.reshape(*shape, 1, -1)  # as encoders and trackers show it
        within = rolled.diverged_at * self.substeps <= np.tile(self.length[some], len(variants))
        return outputs, ((rolled.diverged_at >= 0) & within).reshape(shape)

    def _roller(self, scene: Any) -> Rollouts:
        if id(scene) not in self._rollouts:
            wanted = {table.reading.output for table in self.tables} | {"qpos", "qvel"}
            self._rollouts[id(scene)] = Rollouts(scene, tuple(sorted(wanted)), self.substeps, nthread=self._nthread)
        return self._rollouts[id(scene)]

    def _commands(self, passages: Sequence[Passage], which: np.ndarray, some: np.ndarray, steps: int) -> Commands:
        """One sequence for each window and each passage that differs: most variants share theirs."""
        keys: dict[bytes, int] = {}
        number = np.array([keys.setdefault(each.key, len(keys)) for each in passages])
        distinct = {number[i]: each for i, each in reversed(list(enumerate(passages)))}
        value = np.empty((len(keys), len(some), steps, self.model.nu))
        if sum(each.nbytes for each in self._sent.values()) > SENT:
            self._sent.clear()
        for k, each in distinct.items():
            for w, window in enumerate(some):
                episode = self.experiments[self.episode[window]]
                if (id(episode), each.key) not in self._sent:
                    self._sent[id(episode), each.key] = episode.controls(each)
                whole = self._sent[id(episode), each.key]
                part = whole[self.first[window] : self.first[window] + steps]
                value[k, w, : len(part)] = part
                value[k, w, len(part) :] = part[-1:] if len(part) else 0.0
        row = number[which] * len(some) + np.tile(np.arange(len(some)), len(which) // len(some))
        return Commands(value.reshape(len(keys) * len(some), steps, self.model.nu), row, np.arange(steps))

    def _offsets(self, variants: Sequence[Variant], some: np.ndarray) -> np.ndarray:
        """Encoder or tracker minus truth (L·windows, nq)."""
        offset = np.zeros((len(variants), len(some), self.model.nq))
        for e in np.unique(self.episode[some]):
            mine = np.flatnonzero(self.episode[some] == e)
            for id, place in (*self.offset_places, *self.experiments[e].frames):
                offset[:, mine, place] = self.fixed.get(id, 0.0)
                if id in self.ids:
                    p = self.ids.index(id)
                    offset[:, mine, place] = np.stack([each.values[self.group[some[mine]], p] for each in variants])
        return offset.reshape(-1, self.model.nq)

    @cached_property
    def offset_places(self) -> list[tuple[str, int]]:
        joints = names(self.model, "joint")
        return [(f"joint.{name}.offset", int(self.model.jnt_qposadr[j])) for j, name in enumerate(joints)]

    def _seams(self, variants: Sequence[Variant], of: np.ndarray, qpos: np.ndarray, qvel: np.ndarray) -> np.ndarray:
        before, after = self.seams, self.seams + 1
        begin_q, begin_v = (np.stack([getattr(each, n)[after] for each in variants]) for n in ("qpos", "qvel"))
        turn = differentiate_pos(self.model, begin_q, qpos[of][:, before])
        return np.concatenate([turn, qvel[of][:, before] - begin_v], axis=-1)

    @cached_property
    def touches(self) -> bool:
        """Whether contact decides how things move: some move freely, or touch where windows begin."""
        return bool((self.model.jnt_type == 0).any()) or touching(self.model, self.starts[0])

    @cached_property
    def usual_acceleration(self) -> Float[np.ndarray, "nv"]:
        """The root mean square of each degree of freedom's acceleration where windows begin."""
        _ = self.starts  # which finds it
        return np.asarray(np.sqrt(np.mean(np.square(self.acceleration), axis=0)))

    @cached_property
    def nudge(self) -> Float[np.ndarray, "2nv"]:
        """How far each degree of freedom and its velocity are moved for a slope."""
        each = (TOUCH_STEP, 50 * TOUCH_STEP) if self.touches else (STATE_STEP, STATE_STEP)
        return np.repeat(each, self.model.nv)

    def memory(self, variant: Variant, windows: np.ndarray) -> Float[np.ndarray, "W 2nv 2nv"]:
        """How the ends of some windows move with their starts: what the motion forgets, keeps or magnifies."""
        nv = self.model.nv
        variants = [variant]
        for k in range(2 * nv):
            nudge = np.zeros((self.windows, 2 * nv))
            nudge[:, k] = self.nudge[k]
            variants.append(Variant(variant.values, *self.moved(variant.qpos, variant.qvel, nudge)))
        rolled = self.roll(variants, windows)
        base = rolled.end_qpos[:1, windows], rolled.end_qvel[:1, windows]
        turn = differentiate_pos(self.model, *np.broadcast_arrays(base[0], rolled.end_qpos[1:, windows]))
        ends = np.concatenate([turn, rolled.end_qvel[1:, windows] - base[1]], axis=-1)
        return np.asarray(np.moveaxis(ends, 0, -1) / self.nudge)

    def moved(self, qpos: np.ndarray, qvel: np.ndarray, change: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Starts moved by `change` (W, 2nv): positions in tangent space, then velocities."""
        nv = self.model.nv
        return integrate_pos(self.model, qpos, change[:, :nv]), qvel + change[:, nv:]


def outside(id: str) -> bool:
    """Whether a parameter acts on readings alone: a tracker's offset also moves where bodies start."""
    return (id.startswith("signal.") and id.endswith(".delay")) or (id.startswith("sensor.") and id.endswith(".bias"))


def beside(id: str) -> bool:
    """Whether a parameter is applied here, to commands, starts and readings, and not by the model."""
    return outside(id) or id.startswith("signal.") or id.endswith((".delay", ".backlash", ".offset", ".delay_jitter"))


def _unique(thetas: Sequence[Theta]) -> tuple[list[Theta], np.ndarray]:
    seen: dict[Theta, int] = {}
    index = np.array([seen.setdefault(theta, len(seen)) for theta in thetas])
    return list(seen), index
