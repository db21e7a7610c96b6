"""What an experiment that nobody has made yet would say: commands rolled out under draws, and the information in them.

commands (C) × draws (D) ──> motions ──> what they use of the limits
                                └──> windows ──finite differences──> information (D, C, G, G) on the unknowns
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.identify.beliefs import Belief
from twinproof.identify.excite_limits import MotionLimits
from twinproof.identify.problem import Problem, linearise
from twinproof.nouns.randomness import stream
from twinproof.nouns.theta import Theta
from twinproof.sim.experiment import Experiment, passage
from twinproof.sim.least_squares import Linear
from twinproof.sim.parameters.base import names
from twinproof.sim.readings import Reading
from twinproof.sim.rollout import Rollouts
from twinproof.sim.scene import Scene
from twinproof.sim.shooting import Variant
from twinproof.sim.windows import Commands, Start

if TYPE_CHECKING:
    from jaxtyping import Float

SETTLE_S = 1.0
SPARSE_S = 0.02  # readings denser than this say the same with less noise: they are thinned and their sd made smaller
BESIDE = (".delay", ".backlash", ".offset", ".delay_jitter")  # what acts on commands and readings, not on the model
# what a robot is taken to measure where no recording tells: rad, rad/s, m, m/s, and share of a motor's limit
ENCODER_RAD, VELOCITY_RAD, ENCODER_M, VELOCITY_M, TORQUE_SHARE, SENSOR_HZ = 5e-4, 0.02, 5e-5, 0.003, 0.02, 100.0


def sensors_of(readings: Sequence[Reading]) -> tuple[Reading, ...]:
    """The sensors of a recording that a motion in free air moves: joints, forces, inertial sensors."""
    return tuple(reading for reading in readings if reading.kind != "pose")


def usual_sensors(model: Any, limits: MotionLimits) -> tuple[Reading, ...]:
    """Encoders, velocities and motor torques of every driven joint, as robots usually have them."""
    slides = np.array([model.jnt_type[j] == 2 for j in model.actuator_trnid[:, 0]])
    force = np.where(np.isfinite(limits.torque), limits.torque, 10.0)
    kinds = (
        ("state", "position", limits.qpos, np.where(slides, ENCODER_M, ENCODER_RAD), ("m", "rad")),
        ("velocity", "velocity", limits.dof, np.where(slides, VELOCITY_M, VELOCITY_RAD), ("m/s", "rad/s")),
        ("torque", "torque", limits.dof, TORQUE_SHARE * force, ("N", "N m")),
    )
    time_s = np.arange(8) / SENSOR_HZ
    return tuple(
        Reading(
            name,
            kind,  # type: ignore[arg-type]
            time_s,
            np.zeros((8, len(place))),
            place,
            tuple(f"{name}.{joint}" for joint in limits.joints),
            tuple(units[0] if each else units[1] for each in slides),
            sd,
            np.full(len(place), 1e-9),
        )
        for name, kind, place, sd, units in kinds
    )


def _thinned(reading: Reading, seconds: float) -> Reading:
    """The same sensor over the new experiment. Values are of no matter: only how they would move counts."""
    step = float(np.median(np.diff(reading.time_s)))
    apart = max(1, int(SPARSE_S / step + 1e-6))
    time_s = np.arange(0.0, seconds - 1e-9, apart * step)
    value = np.zeros((len(time_s), reading.value.shape[1]))
    return replace(reading, time_s=time_s, value=value, sd=reading.sd / np.sqrt(apart))


@dataclass(frozen=True, eq=False)
class Motions:
    """What commands do under draws, at every sample: (draws, candidates, samples, …); encoder angles in `shown`."""

    qpos: np.ndarray
    qvel: np.ndarray
    force: np.ndarray
    shown: np.ndarray
    sample_s: float

    def of(self, candidates: np.ndarray) -> Motions:
        """Those of some candidates."""
        qpos, qvel, force, shown = (each[:, candidates] for each in (self.qpos, self.qvel, self.force, self.shown))
        return Motions(qpos, qvel, force, shown, self.sample_s)


@dataclass(frozen=True, eq=False)
class Told:
    """What experiments say: their information, and how commands that are late by chance scatter its gradient."""

    information: Float[np.ndarray, "C G G"]
    scatter: Float[np.ndarray, "C G G"]


class Rehearsal:
    """Rolls out commands that nobody has sent, from rest at home, and tells what the sensors would learn.

    scene       the robot in free air
    home        the whole qpos at rest, as encoders show it
    window_s    stretches over which a motion is predicted that keeps the memory of its start: each begins anew, and
                where is unknown. Servos forget a start within moments: theirs is followed from end to end
    jitter_s    how much a command is late or early by chance (sd): what no parameter explains, and no reading tells
    """

    def __init__(
        self,
        scene: Scene,
        beliefs: Sequence[Belief],
        sensors: Sequence[Reading],
        limits: MotionLimits,
        home: np.ndarray,
        rate_hz: float,
        count: int,
        window_s: float = 0.25,
        fixed: Mapping[str, float] | None = None,
        jitter_s: float = 0.0,
        jitters: int = 4,
    ) -> None:
        self.scene, self.beliefs, self.limits, self.home = scene, tuple(beliefs), limits, home
        self.rate_hz, self.count, self.window_s, self.fixed = rate_hz, count, window_s, dict(fixed or {})
        self.model: Any = scene.nominal()
        self.sensors = tuple(_thinned(each, count / rate_hz) for each in sensors)
        self.substeps = max(1, int(0.004 / self.model.opt.timestep + 1e-6))
        self._rollouts = Rollouts(scene, ("qpos", "qvel", "qfrc_actuator"), self.substeps)
        # the same chances for every candidate, so that none is lucky
        drawn = stream(0, "excite", "jitter").normal(size=(jitters if jitter_s > 0 else 0, count))
        self.late = jitter_s * drawn
        self._settled: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}

    @property
    def ids(self) -> tuple[str, ...]:
        """The parameters' ids, in the order of the unknowns."""
        return tuple(belief.id for belief in self.beliefs)

    def experiment(self, commands: np.ndarray, number: int = 0, late_s: np.ndarray | None = None) -> Experiment:
        """The experiment that these commands (T, nu) would be, sent in time or each a little late or early."""
        times = np.arange(len(commands)) / self.rate_hz
        if late_s is not None:
            times = np.maximum.accumulate(times + late_s) + 1e-9 * np.arange(len(commands))
        return Experiment(
            f"candidate {number}", self.scene, self.sensors, times, commands, 0.0, len(commands) / self.rate_hz
        )

    def _values(self, unknowns: np.ndarray) -> dict[str, float]:
        return self.fixed | {
            b.id: float(b.info.from_scale(np.asarray(x))) for b, x in zip(self.beliefs, unknowns, strict=True)
        }

    def motions(self, draws: np.ndarray, commands: np.ndarray) -> Motions:
        """Every draw (D, G) with every candidate's commands (C, T, nu), from rest at home."""
        starts = [self._rest(each) for each in draws]
        count = len(commands)
        qpos = np.repeat(np.stack([each[0] for each in starts]), count, axis=0)
        qvel = np.repeat(np.stack([each[1] for each in starts]), count, axis=0)
        outputs = self._roll(draws, commands, qpos, qvel)
        whole = {"qpos": qpos, "qvel": qvel}
        for name, value in outputs.items():
            first = whole.get(name, value[:, 0])[:, None]
            whole[name] = np.concatenate([first, value], axis=1).reshape(len(draws), count, -1, value.shape[-1])
        offset = np.stack([self._offset(each) for each in draws])[:, None, None, :]
        sample_s = float(self.substeps * self.model.opt.timestep)
        return Motions(whole["qpos"], whole["qvel"], whole["qfrc_actuator"], whole["qpos"] + offset, sample_s)

    def _roll(
        self, draws: np.ndarray, commands: np.ndarray, qpos: np.ndarray, qvel: np.ndarray
    ) -> dict[str, np.ndarray]:
        experiments = [self.experiment(each, c) for c, each in enumerate(commands)]
        thetas, sent = [], []
        for each in draws:
            values = self._values(each)
            thetas.append(Theta({id: value for id, value in values.items() if not _beside(id)}))
            way = passage(self.model, values)
            sent += [experiment.controls(way) for experiment in experiments]
        value = np.stack(sent)
        steps = value.shape[1] // self.substeps * self.substeps
        which = np.repeat(np.arange(len(draws)), len(commands))
        told = Commands(value, np.arange(len(value)), np.arange(steps))
        return dict(self._rollouts.roll_rows(thetas, which, Start(qpos, qvel), told).outputs)

    def _rest(self, unknowns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where a draw's robot stands when it holds its home: it sags under its servos, a motor's joint hangs."""
        key = unknowns.tobytes()
        if key not in self._settled:
            begin, still = self.home - self._offset(unknowns), np.zeros(self.model.nv)
            self._settled[key] = begin, still
            if self.limits.kind == "position":
                held = np.tile(self.limits.home, (1, round(SETTLE_S * self.rate_hz), 1))
                outputs = self._roll(unknowns[None], held, begin[None], still[None])
                self._settled[key] = outputs["qpos"][0, -1], outputs["qvel"][0, -1]
        return self._settled[key]

    def _offset(self, unknowns: np.ndarray) -> np.ndarray:
        """Encoder minus truth of each entry of qpos."""
        values, offset = self._values(unknowns), np.zeros(self.model.nq)
        for j, name in enumerate(names(self.model, "joint")):
            offset[self.model.jnt_qposadr[j]] = values.get(f"joint.{name}.offset", 0.0)
        return offset

    def information(self, unknowns: np.ndarray, commands: np.ndarray, motions: Motions, draw: int) -> Told:
        """What each candidate's readings would say of the unknowns, around one of the motions' draws."""
        problem = self._problem(commands, None)
        remembers = self.limits.kind == "torque"
        shooting = problem.shooting(self.window_s if remembers else np.inf)
        sample = np.round(shooting.begin_s / motions.sample_s).astype(np.int64)
        at = motions.shown[draw, shooting.episode, sample], motions.qvel[draw, shooting.episode, sample]
        starts = np.nan_to_num(at[0]), np.nan_to_num(at[1])
        free = np.ones(self.model.nv, dtype=bool) if remembers else None
        linear = linearise(problem, shooting, unknowns, starts, free=free)
        astray = np.zeros((0, len(linear.gap)))
        if self.late.size:
            rolled = []
            for late in self.late:
                other = self._problem(commands, late)
                same = other.shooting(self.window_s if remembers else np.inf)
                rolled.append(same.roll([Variant(other.values(unknowns), *starts)]).gap[0])
            astray = np.nan_to_num(np.array(rolled) - linear.gap)
        return told_by(linear, astray, self.model.nv)

    def _problem(self, commands: np.ndarray, late_s: np.ndarray | None) -> Problem:
        experiments = tuple(self.experiment(each, c, late_s) for c, each in enumerate(commands))
        return Problem(self.beliefs, experiments, self.fixed)


def told_by(linear: Linear, astray: np.ndarray, nv: int) -> Told:
    """Each experiment's information on the unknowns and its scatter, every window's start eliminated."""
    shooting = linear.shooting
    sd, _ = shooting.noise
    root = 1 / sd[shooting.entry][:, None]
    J, R = linear.by_parameter * root, astray.T * root
    X = np.zeros((len(J), 2 * nv)) if linear.by_start is None else linear.by_start * root
    faint = np.diag(np.r_[np.full(nv, 1.0), np.full(nv, 0.01)])
    width = J.shape[1]
    information = np.zeros((len(shooting.experiments), width, width))
    scatter = np.zeros_like(information)
    for w in range(shooting.windows):
        rows = slice(int(shooting.bounds[w]), int(shooting.bounds[w + 1]))
        back = np.linalg.solve(X[rows].T @ X[rows] + faint, X[rows].T @ J[rows])
        kept = J[rows] - X[rows] @ back
        own = kept.T @ J[rows]
        information[shooting.episode[w]] += (own + own.T) / 2
        pulls = kept.T @ R[rows]
        scatter[shooting.episode[w]] += pulls @ pulls.T / max(len(astray), 1)
    return Told(information, scatter)


def _beside(id: str) -> bool:
    return id.startswith("signal.") or id.endswith(BESIDE) or (id.startswith("sensor.") and id.endswith(".bias"))
