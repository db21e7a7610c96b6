"""Does the twin move as the robot did? Logged actions of an episode sent to the twin, against what was recorded.

episode: commands, first readings ──> twin under one Theta ──> an episode with the same signals at the same stamps
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from twinproof.evaluate.compare import Comparison, Protocol, compare
from twinproof.evaluate.divergence import course, gaps, tip_gap
from twinproof.evaluate.motion import motion_of, scale_of
from twinproof.evaluate.pairing import Pairing
from twinproof.evaluate.tips import Tips
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import TraceError
from twinproof.nouns.hashing import Json
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import Rig
from twinproof.nouns.signal import Column, Signal
from twinproof.nouns.theta import Theta
from twinproof.sim.experiment import experiment
from twinproof.sim.kinematics import chain_of
from twinproof.sim.parameters.resolve import parameter
from twinproof.sim.readings import POSE, Reading
from twinproof.sim.scene import Scene, engine_of
from twinproof.sim.scenes_by_label import ScenesByLabel, scene_for
from twinproof.sim.shooting import Shooting, Variant
from twinproof.sim.world import World

if TYPE_CHECKING:
    from jaxtyping import Float

Key = tuple[str, str, int]  # condition, domain, repeat
OF = "replay_of"  # the label of a replay: the id of the episode whose actions were sent
SEEN_ONLY = ("camera", "light", "material")  # nothing moves by these
FREELY = (-np.pi, np.pi)  # the range of a joint without limits
RESTART_S = 0.5  # how often a replay starts anew at the readings, where nothing else is stated
FEWEST = 4  # samples that are worth comparing
GAP_S = 0.2  # samples farther apart are not joined
WHOLE = 0.5  # a replay shorter than this share of its episode is no replay: the twin diverged


@dataclass(frozen=True, eq=False)
class Replay:
    """One episode replayed in one world: the error of its joints over time, and of its tips where there are chains."""

    episode: str
    time_s: Float[np.ndarray, "K"]
    rmse: Float[np.ndarray, "K"]
    total_rmse: float
    tip_m: float | None  # mean over time and arms
    diverged_s: float | None  # when the simulation broke down; the numbers are up to there


def replayed(scene: Scene, episode: Episode, theta: Theta, restart_s: float = np.inf, smooth: bool = True) -> Episode:
    """What the robot would have recorded in the twin, had it been sent the same: same signals, same stamps, no noise.

    It starts where the readings say the robot was, and again about every `restart_s`: a motion that magnifies small
    errors, as a double pendulum's does, says nothing of the twin after a while. Starts are smoothed over the readings
    around them; where commands jump at every tick and speeds are read well, `smooth=False` takes them as read. Where
    the twin diverges the signals end, and a note says so.
    """
    matched, theta = experiment(episode, scene), moving(theta)
    shooting = Shooting([matched], tuple(theta), restart_s)
    qpos, qvel = shooting.starts if smooth else as_read(shooting, matched.readings)
    variant = Variant(np.array([[theta[id] for id in theta]]), qpos, qvel)
    signals, broken = {}, np.inf
    begin, end = matched.begin_s, matched.begin_s + float(shooting.length.sum()) * shooting.step_s
    for reading in (each for each in matched.readings if each.kind in ("position", "pose")):
        time_s = reading.time_s[(reading.time_s >= begin - 1e-9) & (reading.time_s <= end + 1e-9)]
        shown = shooting.states(variant, np.zeros(len(time_s), dtype=np.int64), time_s)[0][:, reading.place]
        good = np.isfinite(shown).all(axis=1)
        stop = len(time_s) if good.all() else int(np.argmin(good))
        if stop < len(time_s):
            broken = min(broken, float(time_s[stop]))
        if stop >= FEWEST and reading.name in episode.signals:
            signals[reading.name] = _signal(episode.signals[reading.name], reading, time_s[:stop], shown[:stop])
    if not signals:
        raise TraceError(
            f"{episode.source or episode.id}: the twin diverges at once when it is sent the logged actions "
            f"({dict(theta) or 'nominal values'}). Look at its masses and gains."
        )
    notes = () if np.isinf(broken) else (f"the twin diverged at {broken:.3f} s",)
    return Episode.of(
        signals,
        {},
        labels={**episode.labels, OF: episode.id},
        source=f"replay of {episode.source or episode.id} ({engine_of(scene)})",
        notes=notes,
    )


def moving(theta: Theta) -> Theta:
    """What of a Theta can change a motion without noise: neither looks, nor noise, nor how an episode begins."""
    kept = {
        id: value
        for id, value in theta.items()
        if parameter(id).channel != "episode" and id.partition(".")[0] not in SEEN_ONLY
    }
    return Theta(kept)


def as_read(shooting: Shooting, readings: Sequence[Reading]) -> tuple[np.ndarray, np.ndarray]:
    """Where windows begin, as positions and speeds were read: cubics between samples, nothing smoothed."""
    qpos, qvel = (np.array(side) for side in shooting.starts)
    speeds = {
        int(v): (r.time_s, r.value[:, k]) for r in readings if r.kind == "velocity" for k, v in enumerate(r.place)
    }
    for reading in (each for each in readings if each.kind == "position"):
        for k, q in enumerate(reading.place):
            v = int(shooting.model.jnt_dofadr[list(shooting.model.jnt_qposadr).index(q)])
            time_s, value = reading.time_s, reading.value[:, k]
            slope = np.interp(time_s, *speeds[v]) if v in speeds else np.gradient(value, time_s)
            after = np.clip(np.searchsorted(time_s, shooting.begin_s, side="right"), 1, len(time_s) - 1)
            a, b = after - 1, after
            wide = time_s[b] - time_s[a]
            x = np.clip((shooting.begin_s - time_s[a]) / wide, 0.0, 1.0)
            qvel[:, v] = slope[a] + x * (slope[b] - slope[a])
            bend = (3 - 2 * x) * x**2
            qpos[:, q] = value[a] + bend * (value[b] - value[a])
            qpos[:, q] += wide * x * (1 - x) * ((1 - x) * slope[a] - x * slope[b])
    return qpos, qvel


def _signal(real: Signal, reading: Reading, time_s: np.ndarray, shown: np.ndarray) -> Signal:
    """The signal of a replay, with the columns that the model could be compared with."""
    if reading.kind == "pose":
        units = {column.name: column for column in real.columns}
        return Signal(real.name, real.kind, tuple(units[name] for name in POSE), time_s, shown)
    names = [entry.removeprefix(f"{reading.name}.") for entry in reading.entries]
    columns = tuple(Column(name, unit) for name, unit in zip(names, reading.units, strict=True))
    return Signal(real.name, real.kind if real.kind != "pose" else "joint_position", columns, time_s, shown)


def replay(
    scene: Scene,
    episode: Episode,
    theta: Theta,
    rig: Rig,
    tips: Tips | None = None,
    restart_s: float = RESTART_S,
    smooth: bool = True,
) -> Replay:
    """The error of one replay. Weights and ranges are the rig's; clocks are one and the same, so none is aligned."""
    shown, scale, tips = replayed(scene, episode, theta, restart_s, smooth), scale_of(rig), tips or Tips()
    real, sim = (motion_of(each, rig, scale.joints, side) for each, side in ((episode, "real"), (shown, "replayed")))
    (r0, r1), (_, s1) = real.span_s, sim.span_s
    broken = s1 if shown.notes else None
    if broken is not None and s1 - r0 < WHOLE * (r1 - r0):
        raise TraceError(
            f"{real.where}: {shown.notes[0]}, before half of the logged actions were sent. No error of such a replay "
            "means anything: look at the twin, or at this draw."
        )
    lined = course(real, sim, 0.0, GAP_S)
    _, overall = gaps(lined, scale, real.where)
    apart = []
    for arm in (arm for arm in scale.arms if arm.name in tips.arms):
        joints = [scale.joints.index(name) for name in arm.joints]
        told = lined.known[:, joints].all(axis=1)
        if told.any():
            poses = (tips.arms[arm.name].poses(side[told][:, joints]) for side in (lined.real, lined.sim))
            apart.append(float(tip_gap(arm.name, lined.time_s[told], *poses).position_m.mean()))
    tip = float(np.mean(apart)) if apart else None
    return Replay(episode.id, overall.time_s, overall.rmse, overall.total_rmse, tip, broken)


def replay_report(
    scene: Scene, episodes: Sequence[Episode], theta: Theta, rig: Rig, tips: Tips | None = None
) -> Comparison:
    """The whole divergence protocol on replays of episodes: errors, onsets, events, arm by arm."""
    labelled = [replace(episode, labels={**episode.labels, OF: episode.id}) for episode in episodes]
    shown = [replayed(scene, episode, theta) for episode in episodes]
    real = Recording(rig, tuple(labelled), {"kind": "holdout", "name": "recorded"})
    sim = Recording(rig, tuple(shown), {"kind": "replay", "name": engine_of(scene)})
    return compare(real, sim, rig, tips, Protocol(Pairing(by=OF), alignment=None))


def with_ranges(rig: Rig, scene: Scene) -> Rig:
    """The rig with a range for every joint: its own, the twin's limits, or a full turn where a joint turns freely."""
    world = World(scene)
    joints = []
    for joint in rig.joints:
        span = world.joint_range(joint.name) if world.has("joint", joint.name) else FREELY
        joints.append(joint if joint.range else replace(joint, range=span if np.isfinite(span).all() else FREELY))
    return replace(rig, joints=tuple(joints))


def twin_tips(rig: Rig, scene: Scene) -> Tips:
    """The tips that the rig names, by the chains of the twin itself."""
    arms = {arm.name: chain_of(scene, arm.joints, arm.tip) for arm in rig.arms if arm.tip}
    return Tips(arms, tuple(f"{name}: tip by the twin's chain" for name in arms))


def by_world(
    scenes: Mapping[str, Scene],
    episodes: Mapping[str, Episode],
    worlds: Mapping[Key, Theta],
    rig: Rig,
    tips: Tips,
    recorded_in: ScenesByLabel | None = None,
) -> tuple[dict[Key, Replay], dict[Key, str]]:
    """The replay of every (condition, domain, repeat) in its own world, and why some have none: their twin diverged.

    `scenes` are those of the domains; an episode whose labels choose another in `recorded_in` is replayed there, moved
    by the domain's drive. Worlds that are the same are rolled once.
    """
    known: dict[tuple[str, Scene, Theta], Replay | str] = {}
    own = {
        (name, domain): scene_of(episode, scene, recorded_in)
        for name, episode in episodes.items()
        for domain, scene in scenes.items()
    }
    asked = {key: (key[0], own[key[:2]], moving(theta)) for key, theta in worlds.items()}
    for one in asked.values():
        condition, scene, theta = one
        if one not in known:
            try:
                known[one] = replay(scene, episodes[condition], theta, rig, tips)
            except TraceError as problem:
                known[one] = str(problem)
    each = {key: known[one] for key, one in asked.items()}
    found = {key: told for key, told in each.items() if isinstance(told, Replay)}
    return found, {key: told for key, told in each.items() if isinstance(told, str)}


def scene_of(episode: Episode, scene: Scene, recorded_in: ScenesByLabel | None) -> Scene:
    """The scene that an episode was recorded in: `scene`, or where its labels choose another, that one moved alike."""
    found = scene_for(episode.labels, recorded_in or {}, scene)
    return scene if found is scene else found.driven(scene.drive)


def told(
    replays: Mapping[Key, Replay], failed: Mapping[Key, str], recorded_in: ScenesByLabel | None = None
) -> dict[str, Json]:
    """Every replay, with its course in a hundred points at most; those whose twin diverged, with why; and the hashes of
    other scenes than the twin's, by label and its value, where there are such."""
    rows = []
    for (condition, domain, repeat), each in replays.items():
        step = max(1, len(each.time_s) // 100)
        rows.append(
            {
                "condition": condition,
                "domain": domain,
                "repeat": repeat,
                "rmse": each.total_rmse,
                "tip_m": each.tip_m,
                "time_s": [round(float(t), 4) for t in each.time_s[::step]] if repeat == 0 else None,
                "course": [float(f"{r:.4g}") for r in each.rmse[::step]] if repeat == 0 else None,
            }
        )
    lost = [{"condition": c, "domain": d, "repeat": r, "why": why} for (c, d, r), why in failed.items()]
    found: dict[str, Json] = {"worlds": rows, "diverged": lost}
    if recorded_in:
        found["recorded_in"] = {label: {v: s.hash for v, s in each.items()} for label, each in recorded_in.items()}
    return found
