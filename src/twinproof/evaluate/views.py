"""An episode as the rules of events look at it: openings, postures, heights, object tracks, forces, stated columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from twinproof.evaluate.events import ArmView, EventRules, View
from twinproof.evaluate.motion import Motion, Scale
from twinproof.evaluate.tips import Tips
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import RecordingError
from twinproof.nouns.rig import Arm, Rig
from twinproof.nouns.signal import Signal

if TYPE_CHECKING:
    from twinproof.evaluate.events import Track

FORCES = (("fx", "fy", "fz"), ("force_x", "force_y", "force_z"), ("x", "y", "z"))


def view_of(episode: Episode, motion: Motion, rig: Rig, scale: Scale, tips: Tips, rules: EventRules) -> View:
    """The view of one episode; `rig` is its recording's own, for the clocks. Lost samples are bridged."""
    start, end = motion.span_s
    time_s = start + motion.step_s * np.arange(max(2, int((end - start) / motion.step_s + 1e-9) + 1))
    value, _ = motion.at(time_s, np.inf)
    sent = {arm.name: _sent(episode, rig, arm, time_s) for arm in scale.arms}
    arms = {arm.name: _arm(arm, time_s, value, sent[arm.name], scale, tips, rules) for arm in scale.arms}
    stated = {}
    if rules.stated and rules.stated not in episode.signals:
        raise RecordingError(
            f"{motion.where} has no signal {rules.stated!r} that states events. It has "
            f"{', '.join(sorted(episode.signals))}."
        )
    for signal in (episode.signals[name] for name in (rules.stated,) if name):
        clock = signal.time_s + _offset(rig, signal)
        for k, column in enumerate(signal.columns):
            known = np.isfinite(signal.value[:, k])
            if known.any():
                stated[column.name] = (clock[known], signal.value[known, k])
    return View(
        arms,
        dict(_tracks(episode, rig, "pose", (("x", "y", "z"),))),
        dict(_tracks(episode, rig, "wrench", FORCES)),
        stated,
    )


def _arm(
    arm: Arm,
    time_s: np.ndarray,
    value: np.ndarray,
    sent: np.ndarray | None,
    scale: Scale,
    tips: Tips,
    rules: EventRules,
) -> ArmView:
    joints = [scale.joints.index(name) for name in arm.joints]
    first = np.median(value[time_s <= time_s[0] + 0.1][:, joints], axis=0)
    away = np.sqrt((((value[:, joints] - first) / scale.range[joints]) ** 2).mean(axis=1))
    opening = told = None
    if arm.gripper is not None:
        place = scale.joints.index(arm.gripper)

        def share(at: np.ndarray) -> np.ndarray:
            part: np.ndarray = (at - scale.low[place]) / scale.range[place]
            return part if rules.closed_at == "low" else 1 - part

        opening = share(value[:, place])
        told = None if sent is None else share(sent)
    height = tips.arms[arm.name].poses(value[:, joints])[:, 2, 3] if arm.name in tips.arms else None
    return ArmView(time_s, away, opening, told, height)


def _sent(episode: Episode, rig: Rig, arm: Arm, time_s: np.ndarray) -> np.ndarray | None:
    """What the gripper was told last, at every time; None where the recording holds no such command."""
    for signal in episode.of_kind("joint_command"):
        names = [column.name for column in signal.columns]
        if arm.gripper in names:
            column = signal.value[:, names.index(arm.gripper)]
            known = np.isfinite(column)
            if known.any() and signal.columns[names.index(arm.gripper)].unit in ("m", "rad"):
                stamp = (signal.time_s + _offset(rig, signal))[known]
                held: np.ndarray = column[known][np.maximum(np.searchsorted(stamp, time_s, side="right") - 1, 0)]
                return held
    return None


def _tracks(episode: Episode, rig: Rig, kind: str, triples: tuple[tuple[str, ...], ...]) -> Iterator[tuple[str, Track]]:
    """Signals of a kind that have three columns of a known triple, where all three are known."""
    for signal in episode.of_kind(kind):
        names = [column.name for column in signal.columns]
        triple = next((axes for axes in triples if set(axes) <= set(names)), None)
        if triple is None:
            continue
        rows = signal.value[:, [names.index(axis) for axis in triple]]
        known = np.isfinite(rows).all(axis=1)
        if known.sum() > 1:
            yield signal.name, ((signal.time_s + _offset(rig, signal))[known], rows[known])


def _offset(rig: Rig, signal: Signal) -> float:
    rule = rig.signals.get(signal.name)
    return rule.clock_offset_s if rule else 0.0
