"""The viewer in the browser: a list of trials, a timeline, a ghost beside the robot, sliders over the posterior.

click a trial ──> its trace ──> links over time ──> the stage        beside it, paler: the same trial in another domain,
timeline ─────────────────────────────────────────> its moment       or what the twin does with the sliders' parameters
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twinproof.nouns.errors import TwinproofError
from twinproof.nouns.theta import Theta
from twinproof.nouns.trace import Trace
from twinproof.nouns.trial import Trial
from twinproof.view.look import Look
from twinproof.view.motion import Motion, Place, apart, motion_of
from twinproof.view.opened import Opened, line
from twinproof.view.panels import Layers, Sliders, Timeline, TrialList
from twinproof.view.stage import Stage

if TYPE_CHECKING:
    from viser import ViserServer

Simulate = Callable[[Trace, Theta], Trace]  # what the twin does under a trace's commands with these parameters
NONE, SLIDERS = "none", "sliders"
TICK_S = 0.04
MOST_SPLATS = 500_000  # what browsers draw fluently


@dataclass(frozen=True, eq=False)
class Handed:
    """What only the simulator knows, handed in by the command: how the scene looks, where links are, what would be."""

    look: Look
    place: Place
    simulate: Simulate | None = None


@dataclass(frozen=True, eq=False)
class Playing:
    """A trace and its motion."""

    trace: Trace
    motion: Motion


class Live:
    """One viewer on one server. `close` ends its thread; the server is its owner's."""

    def __init__(self, server: ViserServer, opened: Opened, handed: Handed) -> None:
        self.opened, self.handed = opened, handed
        self.stage = Stage(server, handed.look.thinned(MOST_SPLATS))
        self.played: Playing | None = None
        self.ghost: Playing | None = None
        self._trial: Trial | None = None
        self._lock = threading.RLock()
        self._wanted: Theta | None = None  # what the sliders ask for and nobody has simulated yet
        self._wake, self._ended = threading.Event(), threading.Event()
        server.gui.configure_theme(show_logo=False, show_share_button=False)
        server.gui.main_panel.dock_right()
        self.layers = Layers(server, self.stage)
        self.timeline = Timeline(server, self.seek) if opened.trials else None
        if opened.trials:
            ghosts = [NONE, *opened.domains, *([SLIDERS] if self._can_simulate else [])]
            self.list = TrialList(server, opened.trials, self.choose, ghosts, self.haunt)
        if self._can_simulate and opened.posterior is not None:
            self.sliders = Sliders(server, opened.posterior, self._ask)
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()
        if opened.trials:
            self.choose(opened.trials[0])

    @property
    def _can_simulate(self) -> bool:
        return self.handed.simulate is not None and self.opened.posterior is not None and bool(self.opened.trials)

    def choose(self, trial: Trial) -> None:
        """Shows a trial, with the ghost that the list asks for."""
        with self._lock:
            try:
                self.played = self._playing(self.opened.trace(trial), _told(trial))
            except TwinproofError as problem:
                self._say(str(problem))
                return
            self._trial, self.ghost = trial, None
            self.list.mark(trial)
        self.haunt(self.list.ghost)

    def haunt(self, which: str) -> None:
        """Shows the same trial of another domain as a ghost, or what the sliders' parameters do, or none."""
        with self._lock:
            simulated = self.ghost is not None and self.ghost.trace.domain == SLIDERS
            if self._trial is None or (which == SLIDERS and simulated):
                return
            self.ghost = None
            if which == SLIDERS:
                self._ask(self.sliders.theta)
            elif which not in (NONE, self._trial.domain):
                other = self.opened.partner(self._trial, which)
                if other is not None and other.trace is not None:
                    self.ghost = self._playing(self.opened.trace(other), line(other))
            self._refresh()

    def simulate(self, theta: Theta) -> None:
        """Makes the ghost what the twin does with these parameters under the trial's own commands."""
        played = self.played
        if played is None or self.handed.simulate is None:
            return
        try:
            ghost = self._playing(self.handed.simulate(played.trace, theta), "the twin with the sliders' parameters")
        except TwinproofError as problem:
            self._say(str(problem))
            return
        with self._lock:
            if self.played is played:  # else another trial was chosen meanwhile
                self.ghost = ghost
                self.list.ghost = SLIDERS
                self._refresh()

    def seek(self, time_s: float) -> None:
        """Moves everything to a moment."""
        with self._lock:
            if self.played is not None:
                self.stage.pose(self.played.motion.at(time_s))
            if self.ghost is not None:
                self.stage.pose(self.ghost.motion.at(time_s), ghost=True)
            if self.timeline is not None:
                self.timeline.point(time_s)

    def close(self) -> None:
        """Ends the thread that plays and simulates."""
        self._ended.set()
        self._wake.set()
        self._thread.join()

    def _playing(self, trace: Trace, label: str) -> Playing:
        return Playing(trace, motion_of(trace, self.handed.place, label))

    def _refresh(self) -> None:
        assert self.played is not None
        assert self.timeline is not None
        self.stage.haunt(self.ghost is not None)
        told = None
        if self.ghost is not None:
            one, two = ((each.trace, each.motion) for each in (self.played, self.ghost))
            told = apart(one, two, self.handed.look)
        self.timeline.load(self.played.motion, told, None if self.ghost is None else self.ghost.motion.label)
        self.seek(self.timeline.time_s)

    def _say(self, text: str) -> None:
        if self.timeline is not None:
            self.timeline.say(text)

    def _ask(self, theta: Theta) -> None:
        """Remembers what to simulate next; only the latest wish counts."""
        self._wanted = theta
        self._wake.set()

    def _work(self) -> None:
        """Simulates what sliders ask for, and moves time on while it plays."""
        before = time.monotonic()
        while not self._ended.is_set():
            playing = self.timeline is not None and self.timeline.playing
            self._wake.wait(TICK_S if playing else 0.2)
            self._wake.clear()
            now = time.monotonic()
            wanted, self._wanted = self._wanted, None
            if wanted is not None:
                self.simulate(wanted)
            if playing and self.timeline is not None:
                self.timeline.advance(now - before)
            before = now


def _told(trial: Trial) -> str:
    """A trial and what its trace shows."""
    return f"{line(trial)}: {trial.note}" if trial.note else line(trial)
