"""The real cube tosses: rows in SI units, parts, the scene, episodes for a fit, and how a model is scored on them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from twinproof.identify.cloud import States
from twinproof.nouns.episode import Episode
from twinproof.nouns.randomness import stream
from twinproof.nouns.signal import Column, Signal
from twinproof.nouns.theta import Theta
from twinproof.sim.rollout import Rollouts
from twinproof.sim.scene import Scene
from twinproof.sim.shooting import Shooting
from twinproof.sim.tangent import between_quaternions, turned
from twinproof.sim.windows import Start

FOLDER = Path(__file__).parents[1].parent / "shared/data/cube_tosses"
HALF_M = 0.0524
STEP_S = 1 / 148
SUBSTEPS = 2
WINDOW = 16  # samples: 108 ms
CALIBRATION, SCORED, VALIDATION = 60, 100, 60
COLUMNS = tuple(Column(name, "m" if name in "xyz" else "1") for name in ("x", "y", "z", "qw", "qx", "qy", "qz"))
STILL_M_S, STILL_RAD_S = 0.02, 0.3  # slower than this a cube rests
# The board has priority, so its friction and softness are the contact's. With a width of nothing the impedance is dmax.
XML = f"""
<mujoco model="cube toss">
  <option timestep="{STEP_S / SUBSTEPS!r}" cone="elliptic"/>
  <worldbody>
    <geom name="board" type="plane" size="0 0 1" priority="1" friction="0.2" solref="-10000 -200"
          solimp="0.8 0.8 1e-5"/>
    <body name="cube">
      <freejoint/>
      <inertial pos="0 0 0" mass="0.37" diaginertia="0.00081 0.00081 0.00081"/>
      <geom name="cube" type="box" size="{HALF_M} {HALF_M} {HALF_M}"/>
    </body>
  </worldbody>
</mujoco>"""

Roll = Callable[[np.ndarray, np.ndarray, int], np.ndarray]  # qpos (R, 7), qvel (R, 6), samples -> qpos (R, samples, 7)


@dataclass(frozen=True, eq=False)
class Toss:
    """One toss, sample by sample: qpos (T, 7) and qvel (T, 6) as MuJoCo has them for a free body."""

    id: int
    qpos: np.ndarray
    qvel: np.ndarray

    @property
    def samples(self) -> int:
        """Samples after the first."""
        return len(self.qpos) - 1

    def moving(self) -> Toss:
        """The toss until the cube rests, and three samples more."""
        speed, rate = np.linalg.norm(self.qvel[:, :3], axis=1), np.linalg.norm(self.qvel[:, 3:], axis=1)
        end = int(np.flatnonzero((speed > STILL_M_S) | (rate > STILL_RAD_S))[-1]) + 4
        return Toss(self.id, self.qpos[:end], self.qvel[:end])

    def flight(self) -> int:
        """Samples until the lowest corner is 3 mm above the board: those that no contact has touched."""
        w, x, y, z = self.qpos[:, 3:].T
        up = np.abs([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]).sum(axis=0)
        low = self.qpos[:, 2] - HALF_M * up < 0.003
        return int(np.argmax(low)) if low.any() else len(low)


def read() -> list[Toss]:
    """All tosses. The file's lengths are in half-widths of the cube."""
    with np.load(FOLDER / "tosses.npz") as file:
        rows, lengths = file["data"].astype(np.float64), file["lengths"]
    rows[:, :3] *= HALF_M
    rows[:, 7:10] *= HALF_M
    rows[:, 3:7] /= np.linalg.norm(rows[:, 3:7], axis=1, keepdims=True)
    parts = np.split(rows, np.cumsum(lengths)[:-1])
    return [Toss(k, part[:, :7], part[:, 7:]) for k, part in enumerate(parts)]


def published_friction() -> float:
    """The friction that the authors state."""
    return float(json.loads((FOLDER / "experiment.json").read_text())["mu"])


def split(tosses: Sequence[Toss], seed: int) -> tuple[list[Toss], list[Toss], list[Toss]]:
    """Calibration, scored and validation tosses, drawn without regard to what is in them."""
    order = [tosses[k] for k in np.random.default_rng(seed).permutation(len(tosses))]
    end = CALIBRATION + SCORED
    return order[:CALIBRATION], order[CALIBRATION:end], order[end : end + VALIDATION]


def episode(toss: Toss) -> Episode:
    """The pose track alone: velocities are not read, they are states that windows may begin with."""
    time_s = np.arange(len(toss.qpos)) * STEP_S
    return Episode.of({"cube": Signal("cube", "pose", COLUMNS, time_s, toss.qpos)}, {}, source=f"toss {toss.id}")


def measured_states(tosses: Sequence[Toss]) -> States:
    """Starts of windows as the file has them: pose and velocity, straight between samples."""

    def states(shooting: Shooting) -> tuple[np.ndarray, np.ndarray]:
        qpos, qvel = np.empty((shooting.windows, 7)), np.empty((shooting.windows, 6))
        for w, (e, begin_s) in enumerate(zip(shooting.episode, shooting.begin_s, strict=True)):
            toss, at = tosses[e], begin_s / STEP_S
            k = min(int(at + 1e-6), toss.samples - 1)
            share = at - k
            qpos[w] = (1 - share) * toss.qpos[k] + share * toss.qpos[k + 1]
            qvel[w] = (1 - share) * toss.qvel[k] + share * toss.qvel[k + 1]
        qpos[:, 3:] /= np.linalg.norm(qpos[:, 3:], axis=1, keepdims=True)
        return qpos, qvel

    return states


def windows(tosses: Sequence[Toss]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Starts (W, 7), (W, 6) and end poses (W, 7) of all 108 ms windows, one after another."""
    first = [(toss, k) for toss in tosses for k in range(0, toss.samples - WINDOW + 1, WINDOW)]
    qpos, qvel = np.array([t.qpos[k] for t, k in first]), np.array([t.qvel[k] for t, k in first])
    return qpos, qvel, np.array([t.qpos[k + WINDOW] for t, k in first])


def gaps(shown: np.ndarray, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distance in metres and angle in degrees between poses (…, 7)."""
    turn = between_quaternions(seen[..., 3:], shown[..., 3:])
    return np.linalg.norm(shown[..., :3] - seen[..., :3], axis=-1), np.degrees(np.linalg.norm(turn, axis=-1))


@dataclass(frozen=True)
class Score:
    """Errors: of whole tosses from the first measured state, and of the ends of 108 ms windows (root mean square)."""

    position_percent: float
    position_median: float
    rotation_deg: float
    rotation_median: float
    window_mm: float
    window_deg: float

    @property
    def row(self) -> tuple[float, ...]:
        """The six figures."""
        return tuple(float(value) for value in vars(self).values())


def score(roll: Roll, tosses: Sequence[Toss], starts: tuple[np.ndarray, np.ndarray] | None = None) -> Score:
    """One model on some tosses; `starts` replace the first measured states of whole tosses."""
    qpos, qvel = starts or (np.array([t.qpos[0] for t in tosses]), np.array([t.qvel[0] for t in tosses]))
    order = np.argsort([t.samples for t in tosses])
    position, rotation = np.empty(len(tosses)), np.empty(len(tosses))
    for some in np.array_split(order, max(1, len(tosses) // 12)):  # of about equal length
        shown = roll(qpos[some], qvel[some], tosses[some[-1]].samples)
        for row, k in enumerate(some):
            away, angle = gaps(shown[row, : tosses[k].samples], tosses[k].qpos[1:])
            position[k], rotation[k] = 100 * away.mean() / (2 * HALF_M), angle.mean()
    begin_q, begin_v, end = windows(tosses)
    away, angle = gaps(roll(begin_q, begin_v, WINDOW)[:, -1], end)
    return Score(
        float(position.mean()),
        float(np.median(position)),
        float(rotation.mean()),
        float(np.median(rotation)),
        1e3 * float(np.sqrt(np.mean(away**2))),
        float(np.sqrt(np.mean(angle**2))),
    )


def refined(roll: Roll, tosses: Sequence[Toss], steps: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """First states that explain the flight best under a model: least squares over the samples before any contact."""
    qpos, qvel = np.array([t.qpos[0] for t in tosses]), np.array([t.qvel[0] for t in tosses])
    nudge, count = 1e-5, len(tosses)
    samples = np.array([max(toss.flight() - 1, 0) for toss in tosses])
    longest = int(samples.max())
    seen = np.stack([t.qpos[1 + np.minimum(np.arange(longest), t.samples - 1)] for t in tosses])
    for _ in range(steps):
        moved_q, moved_v = np.repeat(qpos[None], 13, axis=0), np.repeat(qvel[None], 13, axis=0)
        for k in range(3):
            turn = np.zeros(3)
            turn[k] = nudge
            moved_q[1 + k, :, k] += nudge
            moved_q[4 + k, :, 3:] = turned(qpos[:, 3:], turn)
            moved_v[7 + k, :, k] += nudge
            moved_v[10 + k, :, 3 + k] += nudge
        shown = roll(moved_q.reshape(-1, 7), moved_v.reshape(-1, 6), longest).reshape(13, count, longest, 7)
        turns = between_quaternions(np.broadcast_to(seen[..., 3:], (13, *seen.shape[:-1], 4)), shown[..., 3:])
        gap = np.concatenate([shown[..., :3] - seen[..., :3], HALF_M * turns], axis=-1)  # metres, at a face's middle
        for k in range(count):
            if samples[k] < 5:
                continue
            rows = gap[:, k, : samples[k]].reshape(13, -1)
            step = -np.linalg.lstsq(((rows[1:] - rows[0]) / nudge).T, rows[0], rcond=1e-9)[0]
            qpos[k, :3] += step[:3]
            qpos[k, 3:] = turned(qpos[k, 3:], step[3:6])
            qvel[k] += step[6:]
    return qpos, qvel


def roller(scene: Scene, theta: Theta) -> Roll:
    """Rollouts of a scene under a Theta."""
    rollouts = Rollouts(scene, ("qpos",), SUBSTEPS)

    def roll(qpos: np.ndarray, qvel: np.ndarray, samples: int) -> np.ndarray:
        return rollouts.roll([theta], Start(qpos, qvel), np.zeros((len(qpos), samples, 0)))["qpos"][0]

    return roll


def rng(seed: int, *path: str) -> np.random.Generator:
    """Random numbers of this bench."""
    return stream(seed, "cube tosses", *path)
