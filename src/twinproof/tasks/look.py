"""Worlds as a judge sees them: what is the case at a tick, and since the tick before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from twinproof.tasks.backing import Backing
from twinproof.tasks.machine import joint_places
from twinproof.tasks.sensed import Array, Situation, distance
from twinproof.tasks.senses import Tracker
from twinproof.tasks.task import TaskSpec
from twinproof.tasks.tips import TipPosition


class Look:
    """Makes situations of worlds."""

    def __init__(self, backing: Backing, task: TaskSpec, tracker: Tracker) -> None:
        self._backing, self._task, self._tracker = backing, task, tracker
        joints = task.machine.joints
        at, dof = joint_places(backing.model, joints)
        self._at, self._dof = backing.array(at), backing.array(dof)
        self._tips = {
            arm.tip: TipPosition(task.machine.chain(arm), [joints.index(name) for name in arm.joints])
            for arm in task.machine.arms
        }

    def __call__(self, tick: Array, goal: Array, told: Array, before: Situation | None) -> Situation:
        """What is the case now; `before` is the tick before, None where an episode begins."""
        xp, task, view = self._backing.xp, self._task, self._backing.view
        position, objects = view("qpos")[:, self._at], self._tracker.true()
        touching, force_n = self._backing.touching() if task.touch else (None, None)
        old = objects if before is None else before.objects
        situation = Situation(
            xp,
            task.period_s,
            tick * task.period_s,
            position,
            view("qvel")[:, self._dof],
            goal,
            told,
            told if before is None else before.command,
            {name: tip(position, xp) for name, tip in self._tips.items()},
            objects,
            objects if before is None else before.first,
            {name: distance(pose[:, :3], old[name][:, :3]) / task.period_s for name, pose in objects.items()},
            dict.fromkeys(task.remembers, position[:, 0] * 0) if before is None else before.notes,
            touching,
            force_n,
        )
        return situation if before is None else replace(situation, notes=dict(task.notes(situation)))


def kept(mask: Array, fresh: Situation, old: Situation) -> Situation:
    """The situation after the worlds of a mask began anew: what the others remember stays."""
    xp = fresh.xp

    def one(new: Array, was: Array) -> Array:
        return xp.where(mask.reshape(-1, *[1] * (new.ndim - 1)), new, was)

    def each(new: Mapping[str, Array], was: Mapping[str, Array]) -> dict[str, Array]:
        return {name: one(rows, was[name]) for name, rows in new.items()}

    return replace(
        fresh,
        command=one(fresh.command, old.command),
        before=one(fresh.before, old.before),
        first=each(fresh.first, old.first),
        speed=each(fresh.speed, old.speed),
        notes=each(fresh.notes, old.notes),
    )
