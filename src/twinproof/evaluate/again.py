"""Metrics of trials that were run before, measured again from traces, recording and twin: for an audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from twinproof.evaluate.beliefs import Beliefs
from twinproof.evaluate.examine import REPLAYED
from twinproof.evaluate.pairs import apart_rmse
from twinproof.evaluate.replay import Key, by_world, twin_tips, with_ranges
from twinproof.nouns.panel import Panel
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import Rig
from twinproof.nouns.theta import Theta
from twinproof.nouns.trace import Trace
from twinproof.nouns.trial import Trial
from twinproof.sim.scene import engine, engine_of
from twinproof.sim.scenes_by_label import ScenesByLabel

APART = ("apart_rmse",)
METRICS = (*APART, "replay_rmse", "replay_tip_m")


@dataclass(frozen=True)
class Again:
    """What was measured of each trial, by row and metric; which metrics that is about; what could not be, and why."""

    values: Mapping[int, Mapping[str, float]]
    names: tuple[str, ...] = METRICS
    left: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class _Traced:
    """Trials that kept their traces: row, trial, trace and the kind of their domain."""

    row: int
    trial: Trial
    trace: Trace
    kind: str

    @property
    def world(self) -> Key:
        return self.trial.condition, self.trial.domain, self.trial.repeat


def again(
    panel: Panel,
    trials: Sequence[Trial],
    traces: Mapping[str, Trace],
    recording: Recording,
    beliefs: Beliefs,
    recorded_in: ScenesByLabel | None = None,
) -> Again:
    """How far each trial is from its real partner, and how a condition's episode replays in the trial's own world.

    A world is the one that the trial's trace states. Holdout episodes are read: the trials have seen them already.
    """
    kinds = {domain.name: domain.kind for domain in panel.domains}
    kept = [
        _Traced(k, trial, traces[trial.trace], kinds[trial.domain])
        for k, trial in enumerate(trials)
        if trial.trace is not None and trial.trace in traces and trial.domain in kinds
    ]
    scene = beliefs.scene("twin")
    rig = with_ranges(recording.rig, scene)
    values = _apart(kept, rig)
    scenes = {name: beliefs.scene(kind) for name, kind in kinds.items()}
    here = {"", engine(), *(engine_of(each) for each in scenes.values())}
    others = sorted({each.trace.engine for each in kept} - here)
    if others:
        why = f"replays of single trials: they were simulated with {others[0]}, and here is {engine_of(scene)}."
        why += " Give the folder of the posterior." if ", drive " in others[0] else ""
        return Again(values, APART, (why,))
    worlds = _worlds(kept)
    episodes = {condition.name: recording.episode(condition.episode) for condition in panel.conditions}
    replays, _ = by_world(scenes, episodes, worlds, rig, twin_tips(rig, scene), recorded_in)
    for each in kept:
        told = replays.get(each.world)
        if told is not None:
            values[each.row]["replay_rmse"] = told.total_rmse
            if told.tip_m is not None:
                values[each.row]["replay_tip_m"] = told.tip_m
    return Again(values)


def _apart(kept: Sequence[_Traced], rig: Rig) -> dict[int, dict[str, float]]:
    """Every row, with its distance from the real trial of the same seed where there is one."""
    real = {
        (each.trial.policy, each.trial.condition, each.trial.repeat): each.trace for each in kept if each.kind == "real"
    }
    found: dict[int, dict[str, float]] = {each.row: {} for each in kept}
    for each in kept:
        partner = real.get((each.trial.policy, each.trial.condition, each.trial.repeat))
        apart = apart_rmse(partner, each.trace, rig) if partner is not None and each.kind != "real" else None
        if apart is not None:
            found[each.row]["apart_rmse"] = apart
    return found


def _worlds(kept: Sequence[_Traced]) -> dict[Key, Theta]:
    """The parameters of every world in which evaluate replays a condition's episode."""
    simulated = [each for each in kept if each.kind not in ("real", "rebuilt") and each.trial.repeat < REPLAYED]
    return {each.world: each.trace.theta for each in reversed(simulated)}  # the first policy's, as evaluate took it
