"""The joint problem's normal equations: who moves what, what it costs, and what stays unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from twinproof.sim.handled import pose_of
from twinproof.sim.track_pose import move_between

if TYPE_CHECKING:
    from jaxtyping import Float

    from twinproof.reconstruct.couple import Coupling
    from twinproof.reconstruct.couple_look import Told
    from twinproof.reconstruct.couple_motion import Motion, Moved
    from twinproof.sim.track_pose import Track

Part = Literal["all", "places"]
AXES = ("x", "y", "z", "turn about x", "turn about y", "turn about z")
TAIL = 12.0  # squared jumps, in standard errors, from which on they count less
FARTHEST = 100.0  # … and by no more do they make all others loose
LITTLE = 0.7  # what keeps more than this share of its first error was hardly told


@dataclass(frozen=True)
class Layout:
    """Where each unknown lies: nodes (3 each), parameters, joint offsets, cameras (6 each), what each camera shows
    wrong (6 each, if sought), scale."""

    segments: int
    parameters: int
    joints: int
    cameras: int
    scale: bool
    shows: bool = False

    @property
    def first_shared(self) -> int:
        """Nodes come first."""
        return 3 * self.segments

    @property
    def cuts(self) -> np.ndarray:
        """Ends of the shared blocks: parameters, offsets, cameras, what they show wrong, scale."""
        shown = 6 * self.cameras * int(self.shows)
        return np.cumsum([self.parameters, self.joints, 6 * self.cameras, shown, int(self.scale)])

    @property
    def size(self) -> int:
        """Number of unknowns."""
        return int(self.first_shared + self.cuts[-1])

    def zero(self) -> np.ndarray:
        """Shared unknowns where they begin."""
        return np.zeros(int(self.cuts[-1]))

    def shared(self, step: np.ndarray) -> np.ndarray:
        """The shared unknowns' part of a step."""
        return step[self.first_shared :]

    def nodes(self, step: np.ndarray) -> Float[np.ndarray, "S 3"]:
        """The nodes' part of a step."""
        return step[: self.first_shared].reshape(-1, 3)

    def split(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, float]:
        """Parameters, offsets, cameras (C, 6), what they show wrong (C, 6), scale."""
        a, b, c, d, _ = self.cuts
        shown = values[c:d].reshape(-1, 6) if self.shows else np.zeros((self.cameras, 6))
        return values[:a], values[a:b], values[b:c].reshape(-1, 6), shown, float(values[d]) if self.scale else 0.0

    def sd(self, how: Coupling) -> np.ndarray:
        """What is believed of the shared unknowns beforehand."""
        cameras = np.tile(np.repeat([how.camera_sd_m, how.camera_sd_rad], 3), self.cameras)
        shown = np.tile(np.repeat([how.shows_sd_m, how.shows_sd_rad], 3), self.cameras * int(self.shows))
        tail = [how.scale_sd or 1.0] if self.scale else []
        physics = [np.full(self.parameters, how.parameter_sd), np.full(self.joints, how.offset_sd_rad)]
        return np.concatenate([*physics, cameras, shown, tail])

    def step(self, equations: Equations, damping: float, part: Part = "all") -> np.ndarray:
        """The damped step of all unknowns, or of places alone (nodes, cameras, scale)."""
        H = equations.hessian + damping * np.diag(np.diag(equations.hessian))
        free = np.ones(self.size, bool)
        physics = slice(self.first_shared, self.first_shared + self.parameters + self.joints)
        free[physics] = part == "all"
        step = np.zeros(self.size)
        step[free] = np.linalg.solve(H[np.ix_(free, free)], equations.gradient[free])
        return step

    def held(self, step: np.ndarray) -> np.ndarray:
        """A step cut where it would leave what slopes can tell."""
        cut = np.array(step)
        most = np.concatenate([np.tile([0.01, 0.01, 0.15], self.segments), np.full(self.parameters, 0.5),
                               np.full(int(self.cuts[-1]) - self.parameters, 0.02)])  # fmt: skip
        return cut * min(1.0, float((most / np.maximum(np.abs(cut), 1e-12)).min()))

    def row(self, moved: Moved, row: int) -> Float[np.ndarray, "6 N"]:
        """How a row's pose moves with all unknowns."""
        J = np.zeros((6, self.size))
        s = int(moved.segment[row])
        J[:, 3 * s : 3 * s + 3] = moved.by_node[row]
        first = self.first_shared
        J[:, first : first + self.parameters + self.joints] = moved.by_shared[row]
        return J


@dataclass(frozen=True, eq=False)
class Equations:
    """hessian · step = gradient, and the cost of each block."""

    hessian: Float[np.ndarray, "N N"]
    gradient: Float[np.ndarray, "N"]
    cost: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class Shared:
    """What is known of joint offsets and cameras, in this order, as a Gaussian."""

    precision: Float[np.ndarray, "Z Z"]
    mean: Float[np.ndarray, "Z"]


@dataclass(frozen=True, eq=False)
class Believed:
    """What is believed of the shared unknowns beforehand, and how far they are from that now.

    `shared` replaces what `sd` says of offsets and cameras: other episodes may have told of them.
    """

    sd: np.ndarray
    values: np.ndarray
    shared: Shared | None = None

    def pull(self, layout: Layout) -> tuple[np.ndarray, np.ndarray]:
        """The precision of all shared unknowns, and how far they are from what is believed."""
        precision, off = np.diag(self.sd**-2), np.array(self.values)
        if self.shared is not None:
            block = slice(int(layout.cuts[0]), int(layout.cuts[2]))
            precision[block, block] = self.shared.precision
            off[block] -= self.shared.mean
        return precision, off


@dataclass(frozen=True, eq=False)
class Measured:
    """What was measured beside pictures: poses, whose rows begin at `first_row`, and torques over the segments."""

    tracks: Sequence[Track] = ()
    first_row: int = 0
    load: Float[np.ndarray, "S J"] | None = None  # NaN where none was measured
    load_sd: Float[np.ndarray, "J"] | None = None


def assemble(
    layout: Layout,
    moved: Moved,
    told: Told | None,
    believed: Believed,
    how: Coupling,
    measured: Measured,
    loose: float = 1.0,
) -> Equations:
    """Pixels, tracks, torques, seams and what is believed, in one system."""
    H, g = np.zeros((layout.size, layout.size)), np.zeros(layout.size)
    pixels = _add_pixels(layout, moved, told, how, H, g) if told else 0.0
    tracked = _add_tracks(layout, moved, measured.tracks, measured.first_row, H, g)
    torques = _add_torques(layout, moved, measured, H, g)
    seams = _add_seams(layout, moved, how, loose, H, g)
    first = layout.first_shared
    precision, off = believed.pull(layout)
    H[first:, first:] += precision
    g[first:] -= precision @ off
    prior = off * (precision @ off) / 2
    a, b, c, d, _ = layout.cuts
    cost = {"pixels": pixels, "tracks": tracked, "torques": torques, "seams": seams}
    cost |= {"parameters": float(prior[:a].sum())}
    cost |= {"offsets": float(prior[a:b].sum()), "cameras": float(prior[b:c].sum())}
    cost |= {"shows": float(prior[c:d].sum()), "scale": float(prior[d:].sum())}
    return Equations(H, g, cost)


def told_of_shared(layout: Layout, equations: Equations, believed: Believed) -> Shared:
    """What one episode's data alone say of offsets and cameras: all else eliminated, what was believed taken off."""
    first = layout.first_shared
    precision, off = believed.pull(layout)
    H, g = equations.hessian.copy(), equations.gradient.copy()
    H[first:, first:] -= precision
    g[first:] += precision @ off
    block = np.zeros(layout.size, bool)
    block[first + int(layout.cuts[0]) : first + int(layout.cuts[2])] = True
    own = H[np.ix_(~block, ~block)] + 1e-9 * np.diag(np.diag(H)[~block]) + np.diag(_faint(layout, believed)[~block])
    mixed = np.linalg.solve(own, np.column_stack([H[np.ix_(~block, block)], g[~block]]))
    across = H[np.ix_(block, ~block)]
    information = H[np.ix_(block, block)] - across @ mixed[:, :-1]
    pulled = g[block] - across @ mixed[:, -1]
    values, vectors = np.linalg.eigh((information + information.T) / 2)
    values = np.maximum(values, 0.0)
    here = believed.values[int(layout.cuts[0]) : int(layout.cuts[2])]
    known = values > 1e-9 * max(float(values.max()), 1e-300)
    inverse = (vectors[:, known] / values[known]) @ vectors[:, known].T
    return Shared((vectors * values) @ vectors.T, here + inverse @ pulled)


def _faint(layout: Layout, believed: Believed) -> np.ndarray:
    """What is believed of an episode's own parameters and scale stays with it."""
    return np.concatenate([np.zeros(layout.first_shared), believed.sd**-2])


def _add_pixels(layout: Layout, moved: Moved, told: Told, how: Coupling, H: np.ndarray, g: np.ndarray) -> float:
    """Every picture's pull, made less sure by neighbours in the picture and in time that err together."""
    cost, less = 0.0, told.less * max(1.0, how.alike_s * told.rate_hz)
    first, shown = (layout.first_shared + int(layout.cuts[k]) for k in (1, 2))
    for row, (pull, clip) in enumerate(zip(told.pulls, told.clip, strict=True)):
        if pull is None:
            continue
        J = layout.row(moved, row)
        J[:, first + 6 * clip : first + 6 * clip + 6] = told.by_camera[row]
        if layout.shows:
            J[:, shown + 6 * clip : shown + 6 * clip + 6] = np.eye(6)
        if layout.scale:
            J = np.concatenate([J, np.eye(1, layout.size, layout.size - 1)])
        H += J.T @ (pull.hessian / less) @ J
        g += J.T @ (pull.gradient / less)
        cost += pull.cost / less
    return cost


def _add_tracks(layout: Layout, moved: Moved, tracks: Sequence[Track], row: int, H: np.ndarray, g: np.ndarray) -> float:
    """Measured poses, whose rows come after the pictures'."""
    cost = 0.0
    for track in tracks:
        for k in range(len(track)):
            if not track.lost[k]:
                weight = np.linalg.inv(track.covariance[k])
                off = move_between(pose_of(moved.qpos[row]), track.T_world_object[k])
                J = layout.row(moved, row)
                H += J.T @ weight @ J
                g += J.T @ weight @ off
                cost += float(off @ weight @ off) / 2
            row += 1
    return cost


def _add_torques(layout: Layout, moved: Moved, measured: Measured, H: np.ndarray, g: np.ndarray) -> float:
    """What touch puts on the joints, against what they bore beyond moving themselves."""
    if measured.load is None or measured.load_sd is None:
        return 0.0
    cost, first = 0.0, layout.first_shared
    for s, load in enumerate(measured.load):
        known = np.isfinite(load) & (measured.load_sd > 0)
        if not known.any():
            continue
        J = np.zeros((int(known.sum()), layout.size))
        J[:, 3 * s : 3 * s + 3] = moved.load_by_node[s][known]
        J[:, first : first + layout.parameters + layout.joints] = moved.load_by_shared[s][known]
        off, sd = (load - moved.load[s])[known], measured.load_sd[known]
        far = np.square(off / sd) / TAIL
        weight = 1 / sd**2 / (1 + far)
        H += (J.T * weight) @ J
        g += (J.T * weight) @ off
        cost += float(TAIL / 2 * np.log1p(far).sum())
    return cost


def _add_seams(layout: Layout, moved: Moved, how: Coupling, loose: float, H: np.ndarray, g: np.ndarray) -> float:
    """Where one segment ends the next begins, within what the model does not know.

    Jumps far beyond that count little: a slip or a fall that the model has not bends no pose.
    """
    cost, first = 0.0, layout.first_shared
    shared = slice(first, first + layout.parameters + layout.joints)
    for s, jump in enumerate(moved.jump):
        sd = loose * seam_sd(bool(moved.touched[s]), how)
        J = np.zeros((3, layout.size))
        J[:, 3 * s : 3 * s + 3] = -moved.jump_by_node[s]
        J[:, 3 * s + 3 : 3 * s + 6] = np.eye(3)
        J[:, shared] = -moved.jump_by_shared[s]
        far = float(np.square(jump / sd).sum()) / TAIL
        weight = 1 / sd**2 / (1 + far)
        H += (J.T * weight) @ J
        g -= (J.T * weight) @ jump
        cost += TAIL / 2 * float(np.log1p(far))
    return cost


def surprise(moved: Moved, how: Coupling) -> float:
    """How many times farther seams jump while something touches than is believed: a model that does not hold here."""
    pushed = moved.touched[:-1]
    if not pushed.any():
        return 1.0
    far = np.square(moved.jump[pushed] / seam_sd(True, how)).sum(axis=1)
    return float(np.sqrt(np.minimum(far, FARTHEST).mean() / 3))


def seam_sd(touched: bool, how: Coupling) -> Float[np.ndarray, "3"]:
    """What x, y and yaw may jump by at a seam."""
    if touched:
        return np.array([how.pushed_sd_m, how.pushed_sd_m, how.pushed_sd_rad])
    return np.array([how.still_sd_m, how.still_sd_m, how.still_sd_rad])


def weak_sentences(
    layout: Layout, motion: Motion, moved: Moved, cameras: Sequence[str], covariance: np.ndarray, how: Coupling
) -> tuple[str, ...]:
    """What the recording hardly told, in words."""
    spread = np.sqrt(np.diag(covariance))[layout.first_shared :] / layout.sd(how)
    a, b, c, *_ = layout.cuts
    said = []
    for id, share in zip(motion.parameters, spread[:a], strict=True):
        if share > LITTLE:
            said.append(f"{id} stays weak: its error fell to {share:.0%} of what was believed before.")
    loose = [name for name, share in zip(motion.handling.joints, spread[a:b], strict=True) if share > LITTLE]
    if loose:
        said.append(f"The offsets of {', '.join(loose)} stay weak: no touch told of them.")
    for name, shares in zip(cameras, spread[b:c].reshape(-1, 6), strict=True):
        axes = [axis for axis, share in zip(AXES, shares, strict=True) if share > LITTLE]
        if axes:
            said.append(f"Camera {name}: {', '.join(axes)} stay as calibration left them.")
    broken = sum(
        bool(np.square(jump / seam_sd(bool(touched), how)).sum() > 4 * TAIL)
        for jump, touched in zip(moved.jump, moved.touched[:-1], strict=True)
    )
    if broken:
        said.append(f"At {broken} of {len(moved.jump)} seams the object moved as the model would not have it.")
    common = _common(layout, covariance)
    if common is not None:
        said.append(common)
    return tuple(said)


def _common(layout: Layout, covariance: np.ndarray) -> str | None:
    """The gauge: all cameras and the object moved together."""
    nodes = covariance[: layout.first_shared, : layout.first_shared].reshape(layout.segments, 3, layout.segments, 3)
    mean = nodes.mean(axis=(0, 2))
    if mean[0, 0] + mean[1, 1] <= 0:
        return None
    together_m = float(np.sqrt(mean[0, 0] + mean[1, 1]))
    each_m = float(np.sqrt(np.mean([np.trace(nodes[s, :2, s, :2]) for s in range(layout.segments)])))
    if together_m > 0.8 * each_m:
        return (
            f"Of the position's error of {1e3 * each_m:.2f} mm, {1e3 * together_m:.2f} mm is shared by all times: "
            "cameras and object could move together, and only touch and calibration hold them."
        )
    return None
