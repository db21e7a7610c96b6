"""The simulated side of joint refinement: segments of the recording, rolled out with all their variants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.theta import Theta
from twinproof.sim.handled import Handling, Piece, Variant, pose_of, qpos_of, resting_height
from twinproof.sim.parameters.resolve import nominal_value, parameter
from twinproof.sim.track_pose import move_between, nudged, poses_at

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

    from twinproof.sim.track_pose import Track

PLANAR = (0, 1, 5)  # of a small move: x, y and the turn about the vertical
STEP_M, STEP_RAD, STEP_LOG, STEP_OFFSET = 3e-4, 5e-3, 0.03, 5e-4
STILL = 0.01  # m/s or rad/s
FELL_M, FELL_RAD = 0.012, 0.2  # a rollout this far from the track in height or tilt is put right at the next seam


@dataclass(frozen=True, eq=False)
class Moved:
    """A rollout of all segments. Rows are the times that were asked for; slopes are by the row's own segment.

    by_node (R, 6, 3), by_shared (R, 6, parameters + joints): moves of the pose. `jump` is each seam's (x, y, yaw).
    """

    nodes: Float[np.ndarray, "S 4 4"]
    qpos: Float[np.ndarray, "R 7"]
    segment: Int[np.ndarray, "R"]
    by_node: Float[np.ndarray, "R 6 3"]
    by_shared: Float[np.ndarray, "R 6 Q"]
    jump: Float[np.ndarray, "S-1 3"]
    jump_by_node: Float[np.ndarray, "S-1 3 3"]
    jump_by_shared: Float[np.ndarray, "S-1 3 Q"]
    touched: Bool[np.ndarray, "S"]
    load: Float[np.ndarray, "S J"]  # torque that touch puts on each joint, mean over the segment
    load_by_node: Float[np.ndarray, "S J 3"]
    load_by_shared: Float[np.ndarray, "S J Q"]


class Motion:
    """Segments of one handling, and the times at which the object is looked at."""

    def __init__(
        self, handling: Handling, track: Track, parameters: tuple[str, ...], segment_s: float, times_s: np.ndarray
    ) -> None:
        self.handling, self.track, self.parameters = handling, track, parameters
        self.replay = handling.replay()
        self._infos = [parameter(id).info for id in parameters]
        model = handling.scene.nominal()
        self._nominal = [nominal_value(model, parameter(id)) for id in parameters]
        count = max(1, round(self.replay.steps * self.replay.step_s / segment_s))
        self.edges = np.linspace(0, self.replay.steps, count + 1).astype(int)
        self.segments = count
        self.times_s = np.concatenate([times_s, track.time_s])
        self.step = self.replay.step_at(self.times_s)
        self.segment = np.clip(np.searchsorted(self.edges, self.step, side="right") - 1, 0, count - 1)
        self.track_rows = np.arange(len(times_s), len(self.times_s))
        self.nodes = self._first_nodes()

    def loads(self, time_s: Float[np.ndarray, "T"], torque: Float[np.ndarray, "T J"]) -> Float[np.ndarray, "S J"]:
        """Means of measured torques over the segments; NaN where a segment has none."""
        step = self.replay.step_at(time_s)
        inside = (time_s >= self.replay.begin_s) & (time_s <= self.replay.end_s)
        means = np.full((self.segments, torque.shape[1]), np.nan)
        for s in range(self.segments):
            mine = inside & (step >= self.edges[s]) & (step < self.edges[s + 1])
            if mine.any():
                means[s] = torque[mine].mean(axis=0)
        return means

    def theta(self, parameters: Float[np.ndarray, "P"]) -> Theta:
        """Values of the parameters, which move on their natural scales."""
        values = {}
        for info, began, move in zip(self._infos, self._nominal, parameters, strict=True):
            value = float(info.from_scale(info.to_scale(began) + move))
            values[info.id] = float(np.clip(value, info.low, info.high))
        return Theta(values)

    def _first_nodes(self) -> Float[np.ndarray, "S 4 4"]:
        """Where the track sees the object when each segment begins; at rest in height and tilt."""
        nodes = poses_at(self.track, self.replay.begin_s + self.edges[:-1] * self.replay.step_s)
        nodes[0] = resting_height(self.handling.scene, self.handling.body, upright(nodes[0]))
        return nodes

    def stepped(self, moved: Moved, step: Float[np.ndarray, "S 3"]) -> Float[np.ndarray, "S 4 4"]:
        """Nodes after a step in x, y and yaw."""
        move = np.zeros((len(step), 6))
        move[:, PLANAR] = step
        return nudged(moved.nodes, move)

    def roll(
        self,
        nodes: np.ndarray,
        parameters: Float[np.ndarray, "P"],
        offsets: Float[np.ndarray, "J"],
        wide: float = 1.0,
    ) -> Moved:
        """All segments in order. A segment begins at its node's x, y and yaw; height, tilt and speed are those with
        which the one before ended, unless it fell where the track did not. Slopes are differences over `wide` times the
        usual steps; 0 is none."""
        shared = len(self.parameters) + len(offsets)
        rows = len(self.times_s)
        made = _Room(self.segments, rows, shared, len(offsets))
        base = Variant(self.theta(parameters), offsets)
        variants = self._variants(parameters, offsets, wide) if wide else []
        T, qvel = np.array(nodes[0]), np.zeros(6)
        for s in range(self.segments):
            if s:
                T = joined(made.end, nodes[s])
                if self._fell(T, s):
                    T, qvel = joined(self.nodes[s], nodes[s]), np.zeros(6)
            made.nodes[s] = T
            mine = np.flatnonzero(self.segment == s)
            wanted = [int(k) for k in self.step[mine]]
            span = (int(self.edges[s]), int(self.edges[s + 1]))
            piece = self.replay.roll(base, *span, qpos_of(T), qvel, wanted)
            made.take(s, mine, piece)
            still = not piece.touched and bool(np.abs(np.r_[qvel, piece.end_qvel]).max() < STILL)
            if still:  # nothing moves it: it stays where it is put, whatever robot and parameters are
                made.rests(s, mine)
            for column, one in enumerate(wide * np.eye(3) * (STEP_M, STEP_M, STEP_RAD) if wide and not still else ()):
                ends = [
                    self.replay.roll(base, *span, qpos_of(_planar(T, sign * one)), qvel, wanted) for sign in (1, -1)
                ]
                made.by_node(s, mine, column, ends, 2 * float(one.sum()))
            for column, (above, below, width) in enumerate(variants if not still else ()):
                two = [self.replay.roll(each, *span, qpos_of(T), qvel, wanted) for each in (above, below)]
                made.by_shared(s, mine, column, two, width)
            made.end, qvel = pose_of(piece.end_qpos), piece.end_qvel
        return made.moved(self.segment)

    def _fell(self, T: np.ndarray, s: int) -> bool:
        """Whether the rollout tilts or lifts the object quite otherwise than the track saw it."""
        off = move_between(self.nodes[s], T)
        return bool(abs(off[2]) > FELL_M or np.linalg.norm(off[3:5]) > FELL_RAD)

    def _variants(
        self, parameters: np.ndarray, offsets: np.ndarray, wide: float
    ) -> list[tuple[Variant, Variant, float]]:
        base = self.theta(parameters)
        made = []
        for p, info in enumerate(self._infos):
            step = wide * STEP_LOG * (1.0 if info.log else max(abs(self._nominal[p]), 1e-3))
            two = [
                Variant(self.theta(parameters + sign * step * np.eye(len(parameters))[p]), offsets) for sign in (1, -1)
            ]
            made.append((two[0], two[1], 2 * step))
        for one in np.eye(len(offsets)) * wide * STEP_OFFSET:
            made.append((Variant(base, offsets + one), Variant(base, offsets - one), 2 * wide * STEP_OFFSET))
        return made


class _Room:
    """Arrays that a rollout fills."""

    def __init__(self, segments: int, rows: int, shared: int, joints: int) -> None:
        self.nodes = np.zeros((segments, 4, 4))
        self.qpos, self.touched = np.zeros((rows, 7)), np.zeros(segments, bool)
        self.node, self.shared = np.zeros((rows, 6, 3)), np.zeros((rows, 6, shared))
        self.end = np.eye(4)
        self.ends = np.zeros((segments, 4, 4))
        self.end_node, self.end_shared = np.zeros((segments, 6, 3)), np.zeros((segments, 6, shared))
        self.load = np.zeros((segments, joints))
        self.load_node, self.load_shared = np.zeros((segments, joints, 3)), np.zeros((segments, joints, shared))

    def take(self, s: int, mine: np.ndarray, piece: Piece) -> None:
        """The base rollout of a segment."""
        self.qpos[mine], self.touched[s], self.ends[s] = piece.qpos, piece.touched, pose_of(piece.end_qpos)
        self.load[s] = piece.load

    def rests(self, s: int, mine: np.ndarray) -> None:
        """A segment in which the object stays where it is put."""
        for column, axis in enumerate(PLANAR):
            self.node[mine, axis, column] = self.end_node[s, axis, column] = 1.0

    def by_node(self, s: int, mine: np.ndarray, column: int, two: list[Piece], width: float) -> None:
        """One column by where the segment begins; of two rollouts the first is the one above."""
        above, below = two
        self.node[mine, :, column] = move_between(pose_of(below.qpos), pose_of(above.qpos)) / width
        self.end_node[s, :, column] = move_between(pose_of(below.end_qpos), pose_of(above.end_qpos)) / width
        self.load_node[s, :, column] = (above.load - below.load) / width

    def by_shared(self, s: int, mine: np.ndarray, column: int, two: list[Piece], width: float) -> None:
        """One column by a parameter or an offset."""
        above, below = two
        self.shared[mine, :, column] = move_between(pose_of(below.qpos), pose_of(above.qpos)) / width
        self.end_shared[s, :, column] = move_between(pose_of(below.end_qpos), pose_of(above.end_qpos)) / width
        self.load_shared[s, :, column] = (above.load - below.load) / width

    def moved(self, segment: np.ndarray) -> Moved:
        """What was filled in. A slope beyond what a rigid push can do is a contact made or lost: it is cut."""
        flat = list(PLANAR)
        jump = move_between(self.ends[:-1], self.nodes[1:])[:, flat]
        limit = 3.0
        node, end_node = np.clip(self.node, -limit, limit), np.clip(self.end_node, -limit, limit)
        node[..., 3:, :2] = np.clip(self.node[..., 3:, :2], -100, 100)
        end_node[..., 3:, :2] = np.clip(self.end_node[..., 3:, :2], -100, 100)
        return Moved(
            self.nodes, self.qpos, segment, node, self.shared, jump, end_node[:-1][:, flat],
            self.end_shared[:-1][:, flat], self.touched, self.load, self.load_node, self.load_shared,
        )  # fmt: skip


def _planar(T: np.ndarray, step: np.ndarray) -> np.ndarray:
    move = np.zeros(6)
    move[list(PLANAR)] = step
    return nudged(T, move)


def joined(end: Float[np.ndarray, "4 4"], node: Float[np.ndarray, "4 4"]) -> Float[np.ndarray, "4 4"]:
    """The end of a segment, moved in x, y and yaw to where the next one begins."""
    return _planar(end, move_between(end, node)[list(PLANAR)])


def upright(T: Float[np.ndarray, "4 4"]) -> Float[np.ndarray, "4 4"]:
    """The pose with the body's axis that is nearest to the vertical made vertical."""
    nearest = int(np.argmax(np.abs(T[2, :3])))
    axis = T[:3, nearest] * np.sign(T[2, nearest])
    turn = np.cross(axis, [0.0, 0.0, 1.0])
    size = float(np.linalg.norm(turn))
    if size < 1e-9:
        return np.array(T)
    return nudged(T, np.r_[0.0, 0.0, 0.0, turn / size * np.arcsin(min(size, 1.0))])
