"""Policies on a panel: their names, what acts, which pictures they see, and whether they fit what is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from twinproof.evaluate.cameras import TwinEyes, on_cameras, pictures_in, seeing, without_pictures
from twinproof.evaluate.closed_loop import WORLDS, Batch, Stage
from twinproof.evaluate.film import Filming
from twinproof.nouns.actor import Actor
from twinproof.nouns.drive import Drive
from twinproof.nouns.errors import PanelError
from twinproof.nouns.panel import Panel
from twinproof.nouns.policy import Channel, Contract, difference
from twinproof.nouns.rig import Rig
from twinproof.nouns.twin import Twin
from twinproof.policies.safety import Safety
from twinproof.sim.scene import Scene
from twinproof.tasks.task import TaskSpec

DRAWN = 16  # worlds at once for a policy that sees pictures: they take longer than all else


@dataclass(frozen=True, eq=False)
class Contender:
    """A policy on the panel: its name there, what acts, and the hash that names it."""

    name: str
    actor: Actor
    hash: str
    twin: str = ""  # the hash of the twin that it was made with, where it was made with one
    worlds: int = WORLDS  # at once, at most: a server with one memory takes one
    repeatable: bool = True  # the same seed gives the same trial; a server may draw luck of its own
    on_robot: Actor | None = None  # what acts where time does not wait, if it is not the same

    def pictures(self, panel: Panel, rig: Rig) -> tuple[Channel, ...]:
        """The pictures that it sees, each on one of the panel's cameras."""
        cameras = [channel.frame for channel in pictures_in(panel.task.contract)]
        return on_cameras(pictures_in(self.actor.contract), cameras, rig)

    def filmed(self, panel: Panel, rig: Rig) -> tuple[Channel, ...]:
        """The pictures that its trials are filmed in: those that it sees, or else those of the panel's cameras."""
        return self.pictures(panel, rig) or pictures_in(panel.task.contract)

    def stage(
        self,
        twin: Twin,
        task: TaskSpec,
        pictures: Sequence[Channel],
        safety: Safety | None = None,
        drive: Drive | None = None,
        film: tuple[Filming, Sequence[Channel]] | None = None,
    ) -> Stage:
        """Where it plays in a twin, moved by a drive where one was found; with `film`, filmed in these pictures."""
        drawn = pictures or (() if film is None else film[1])
        eyes = TwinEyes(twin, drawn) if drawn else None
        worlds = min(self.worlds, DRAWN) if drawn else self.worlds
        how = Batch(0, worlds, eyes, safety, filming=None if film is None else film[0])
        return Stage(Scene.of(twin, drive), seeing(task, pictures), self.actor, how)


def shown(contract: Contract) -> Contract:
    """What two contracts have to agree in: a policy's own history and chunks are its business, pictures are looked at
    by their cameras."""
    return replace(without_pictures(contract), history=1, chunk=1, delay_s=0.0)


def check_fits(panel: Panel, task: TaskSpec, contenders: Sequence[Contender]) -> None:
    """The task is the panel's, every policy fits it and has a name of its own; else an error says what does not."""
    names = [each.name for each in contenders]
    if not names or len(set(names)) != len(names):
        raise PanelError(f"the policies are {', '.join(names) or 'none'}. Give at least one, each with its own name.")
    told = difference(shown(panel.task.contract), shown(task.deployable))
    if task.name != panel.task.name or told:
        raise PanelError(
            f"the panel asks for the task {panel.task.name!r}; the twin gives {task.name!r} with another "
            f"contract: {'; '.join(told) or 'the same'}. Use the twin and the task that it was frozen with."
        )
    real = any(domain.kind == "real" for domain in panel.domains)
    for each in contenders:
        lacking = difference(shown(task.deployable if real else task.contract), shown(each.actor.contract))
        wrong = [text for text in lacking if not text.startswith("observation") or "is missing" not in text]
        if wrong:
            raise PanelError(f"the policy {each.name!r} does not fit the task: {'; '.join(wrong)}. Train it for it.")
        if pictures_in(each.actor.contract) and not pictures_in(panel.task.contract):
            seen = ", ".join(channel.name for channel in pictures_in(each.actor.contract))
            raise PanelError(
                f"the policy {each.name!r} sees {seen}, and the panel was frozen without cameras. Freeze one with "
                "--cameras."
            )
