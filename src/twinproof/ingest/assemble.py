"""The rig applied to what a reader gives: names matched, columns put in order, units turned to SI, labels set."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from twinproof.ingest.raw import Feed, RawEpisode, RawSignal
from twinproof.ingest.units import to_joint, to_si
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import ConfigError, RecordingError, RigError
from twinproof.nouns.rig import Rig, SignalRule, selects
from twinproof.nouns.signal import Column, Signal
from twinproof.nouns.video import Video

OF_JOINTS = ("joint_position", "joint_velocity", "joint_torque", "joint_command", "gripper")


@dataclass(frozen=True)
class Tolerances:
    """What ingest accepts beyond the laws of a recording; each acceptance is written into the episode's notes."""

    nan_is_missing: bool = False  # NaN means "no reading"; otherwise NaN is an error
    max_gap_s: float = 1.0  # a longer silence inside a signal is taken for a clock jump

    def __post_init__(self) -> None:
        if not 0 < self.max_gap_s < np.inf:
            raise ConfigError(f"max_gap_s is {self.max_gap_s}; a time above 0 s is needed.")


def assemble(raw: RawEpisode, rig: Rig, workspace: Path, accept: Tolerances) -> Episode:
    """One episode under the rig. Pictures are written below `workspace`."""
    where = f"episode {raw.name}"
    notes = list(raw.notes)
    _check_sources(raw, rig, where)
    signals = {}
    for name, rule in rig.signals.items():
        found = [signal for signal in raw.signals if signal.source == rule.source]
        if not found:
            have = ", ".join(sorted(signal.source for signal in raw.signals)) or "no signals"
            raise RigError(
                f"{where}: the rig's signal {name!r} reads {rule.source!r}, which is not there; the source has {have}. "
                f"Mend signals.{name}.source, or remove the rule."
            )
        signals[name] = _signal(found[0], name, rule, rig, accept, notes, where)
    labels, outcome = labels_for(raw, rig)
    videos = {name: _video(raw, name, rig, workspace, where) for name in rig.cameras}
    _check_gaps({**signals, **videos}, rig, accept, where)
    return Episode.of(
        signals, videos, labels=labels, outcome=outcome, start_ns=raw.start_ns, source=raw.name, notes=tuple(notes)
    )


def _check_sources(raw: RawEpisode, rig: Rig, where: str) -> None:
    """Everything in the source is read by a rule or ignored on purpose: nothing is dropped in silence."""
    ruled = {rule.source for rule in rig.signals.values()} | {camera.source for camera in rig.cameras.values()}
    for kind, source in [("signals", s.source) for s in raw.signals] + [("cameras", f.source) for f in raw.feeds]:
        if source not in ruled and not rig.ignores(source):
            near = difflib.get_close_matches(source, ruled, n=1)
            hint = f" (the rig reads {near[0]!r})" if near else ""
            raise RigError(
                f"{where}: the source has {source!r}, which the rig neither reads nor ignores{hint}. "
                f"Add it under [{kind}], or to ignore = [...]."
            )


def _signal(
    raw: RawSignal, name: str, rule: SignalRule, rig: Rig, accept: Tolerances, notes: list[str], where: str
) -> Signal:
    place = f"{where}, signal {name!r}"
    order, names = _order(raw, name, rule, rig, place)
    if order != sorted(order):
        notes.append(f"{name}: columns were put into the rig's order by name")
    value = np.asarray(raw.value, dtype=np.float64)[:, order]
    missing = None if raw.missing is None else raw.missing[:, order]
    if accept.nan_is_missing and np.isnan(value).any():
        notes.append(f"{name}: {int(np.isnan(value).sum())} NaN values were marked missing, as asked")
        missing = np.isnan(value) | (False if missing is None else missing)
    fixed = tuple(raw.units[i] for i in order) if raw.units and rule.unit is None else ()
    units = rule.units or fixed or ((rule.unit or raw.unit,) * len(names))
    if len(units) != len(names):
        raise RigError(f"{place}: {len(names)} columns but {len(units)} units. Give one unit for each column.")
    kind = rule.kind if rule.kind != "other" else raw.kind or "other"
    joints = {joint.name: joint for joint in rig.joints} if kind in OF_JOINTS else {}
    columns, factors, shifts = [], [], []
    for column, unit in zip(names, units, strict=True):
        if unit is None:
            raise RigError(f"{place}: no unit. Add unit = '...' (or units = [...]) to [signals.{name}].")
        found = to_joint(unit, kind, joints[column], place) if column in joints else (*to_si(unit, place), 0.0)
        columns.append(Column(column, found[0], rule.frame or raw.frame))
        factors.append(found[1])
        shifts.append(found[2])
    if any(factor != 1.0 for factor in factors):
        value = value * np.array(factors)
    if any(shift != 0.0 for shift in shifts):
        value = value + np.array(shifts)
    try:
        signal = Signal(name, kind, tuple(columns), raw.time_s, value, missing, raw.log_time_s)
    except RecordingError as problem:
        raise RecordingError(f"{where}: {problem}") from None
    _check_ranges(signal, rig, where)
    return signal


def _order(raw: RawSignal, name: str, rule: SignalRule, rig: Rig, place: str) -> tuple[list[int], list[str]]:
    """Which source columns are taken, in which order, under which names."""
    width = raw.value.shape[1]
    if twice := [column for column in dict.fromkeys(raw.columns) if raw.columns.count(column) > 1]:
        raise RecordingError(f"{place}: two columns of the source are called {twice[0]!r}. Rename one in the source.")
    kind = rule.kind if rule.kind != "other" else raw.kind
    joint_of = {j.source: j.name for j in rig.joints if j.source} if kind in OF_JOINTS else {}
    source_of = {joint: source for source, joint in joint_of.items() if source in raw.columns}
    wanted = [source_of.get(column, column) for column in rule.columns]
    if not wanted and kind in OF_JOINTS and kind != "gripper" and rig.joints:
        called = [source_of.get(joint, joint) for joint in rig.joint_names]
        wanted = [column for column in called if column in raw.columns] if raw.columns else called
    if not raw.columns:
        names = [joint_of.get(column, column) for column in wanted] or [str(i) for i in range(width)]
        if len(names) != width:
            raise RigError(
                f"{place}: the source has {width} unnamed columns, the rig names {len(names)}: {', '.join(names)}. "
                f"List all {width} in signals.{name}.columns, in the source's order."
            )
        return list(range(width)), names
    if not wanted:
        wanted = list(raw.columns)
    numbered = all(column.endswith(f"[{i}]") for i, column in enumerate(raw.columns))
    if numbered and len(wanted) == width and not set(wanted) & set(raw.columns):
        # an array without names in a message: the rig names its places
        return list(range(width)), [joint_of.get(column, column) for column in wanted]
    unknown = [column for column in wanted if column not in raw.columns]
    elsewhere = {column for other in rig.signals.values() if other.source == rule.source for column in other.columns}
    taken = {source_of.get(column, column) for column in elsewhere} | set(wanted)
    left = [c for c in raw.columns if c not in taken and not rig.ignores(f"{rule.source}/{c}")]
    if unknown or left:
        raise RigError(
            f"{place}: joint or column names do not match. Only in the rig: {', '.join(unknown) or 'none'}. "
            f"Only in the source: {', '.join(left) or 'none'}. Say what the source calls a joint with source = '...' "
            f"in its [[joints]], or use its names in signals.{name}.columns; leave one out with "
            f"ignore = ['{rule.source}/COLUMN']."
        )
    return [raw.columns.index(column) for column in wanted], [joint_of.get(column, column) for column in wanted]


def _check_ranges(signal: Signal, rig: Rig, where: str) -> None:
    if signal.kind != "joint_position":
        return
    ranges = {joint.name: joint.range for joint in rig.joints}
    for j, column in enumerate(signal.columns):
        low_high = ranges.get(column.name)
        if low_high is None or column.unit not in ("rad", "m"):
            continue
        low, high = float(np.nanmin(signal.value[:, j])), float(np.nanmax(signal.value[:, j]))
        slack = 0.1 * (low_high[1] - low_high[0])
        if low < low_high[0] - slack or high > low_high[1] + slack:
            degrees = max(abs(low), abs(high)) > 6.5
            cause = "Are these degrees? Then say unit = 'deg'." if degrees else "Is the joint order or the range wrong?"
            raise RecordingError(
                f"{where}: {signal.name}/{column.name} runs from {low:.4g} to {high:.4g} {column.unit}, the rig's "
                f"range is {low_high[0]:.4g} to {low_high[1]:.4g}. {cause}"
            )


def _video(raw: RawEpisode, name: str, rig: Rig, workspace: Path, where: str) -> Video:
    camera = rig.cameras[name]
    feeds: list[Feed] = [feed for feed in raw.feeds if feed.source == camera.source]
    if not feeds:
        have = ", ".join(sorted(feed.source for feed in raw.feeds)) or "no cameras"
        raise RigError(
            f"{where}: the rig's camera {name!r} reads {camera.source!r}, which is not there; the source has {have}. "
            f"Mend cameras.{name}.source, or remove the camera."
        )
    if camera.intrinsics is None and feeds[0].intrinsics is None and not camera.intrinsics_unknown:
        raise RigError(
            f"{where}: camera {name!r} has no intrinsics, in the rig or in the source. Add [cameras.{name}.intrinsics] "
            "with fx, fy, cx, cy, or say intrinsics_unknown = true to have them estimated."
        )
    return feeds[0].write(name, workspace / f"{raw.number:06d}" / f"{name}.mp4")


def _check_gaps(tracks: dict[str, Signal | Video], rig: Rig, accept: Tolerances, where: str) -> None:
    """No clock jumps. Events come when they come; a rule of the rig may allow its own signal longer silences."""
    for name, track in tracks.items():
        step = np.diff(track.time_s)
        if len(step) == 0 or (isinstance(track, Signal) and track.kind == "event"):
            continue
        rule = rig.signals[name] if name in rig.signals else rig.cameras[name]
        allowed = accept.max_gap_s if rule.max_gap_s is None else rule.max_gap_s
        limit = max(allowed, 20 * float(np.median(step)))
        if step.max() > limit:
            i = int(np.argmax(step))
            longest = np.floor(step[i] * 10 + 1) / 10
            raise RecordingError(
                f"{where}: {name} jumps {step[i]:.3f} s ahead after sample {i} ({track.time_s[i]:.3f} s); the usual "
                f"step is {np.median(step):.4f} s. If the clock is right and the recorder paused, allow it with "
                f"max_gap_s = {longest:.1f} in the rig's rule, or --max-gap-s {longest:.1f}; otherwise mend the stamps."
            )


def labels_for(raw: RawEpisode, rig: Rig) -> tuple[dict[str, str], str]:
    """Labels and outcome: what the source says, then the rig's rules in order, later ones winning."""
    labels, outcome = dict(raw.labels), raw.outcome
    for rule in rig.labels:
        if selects(rule.episodes, raw.number, raw.name):
            labels.update(rule.labels)
            outcome = rule.outcome or outcome
    return labels, outcome
