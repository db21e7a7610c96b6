"""The viewer in the browser: trials, recorded episodes, a timeline, a ghost beside the robot, posterior sliders.

click a trial ──> its trace ──> links over time ──> the stage        beside it, paler: the same trial in another domain,
timeline ─────────────────────────────────────────> its moment       the twin's replay of a recorded episode's commands,
                                                                     or what the twin does with the sliders' parameters
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from twinproof.nouns.errors import TwinproofError
from twinproof.nouns.theta import Theta
from twinproof.view.motion import apart
from twinproof.view.opened import Opened, Recorded, Row
from twinproof.view.panels import Layers, RowList, Sliders, Timeline
from twinproof.view.playing import (
    NONE,
    SLIDERS,
    Handed,
    Playing,
    partner,
    played,
    replay_theta,
    replays,
    simulated,
)
from twinproof.view.stage import Stage

if TYPE_CHECKING:
    from viser import ViserServer

TICK_S = 0.04
MOST_SPLATS = 500_000  # what browsers draw fluently


class Live:
    """One viewer on one server. `close` ends its thread; the server is its owner's."""

    def __init__(self, server: ViserServer, opened: Opened, handed: Handed) -> None:
        self.opened, self.handed = opened, handed
        self.stage = Stage(server, handed.look.thinned(MOST_SPLATS))
        self.played: Playing | None = None
        self.ghost: Playing | None = None
        self._row: Row | None = None
        self._lock = threading.RLock()
        self._wanted: tuple[str, Theta] | None = None  # whose ghost is asked for and nobody has simulated yet
        self._wake, self._ended = threading.Event(), threading.Event()
        server.gui.configure_theme(show_logo=False, show_share_button=False)
        server.gui.main_panel.dock_right()
        self.layers = Layers(server, self.stage)
        self.lists = list[RowList]()
        rows: tuple[Row, ...] = (*opened.trials, *opened.recorded)
        self.timeline = None
        if rows:
            self.timeline = Timeline(server, self.seek, self._ghosts(), self.haunt)
        if opened.trials:
            self.lists.append(RowList(server, "trials", opened.trials, self.choose))
        if opened.recorded:
            self.lists.append(RowList(server, "recorded episodes", opened.recorded, self.choose))
        if rows and opened.posterior is not None:
            self.sliders = Sliders(server, opened.posterior, lambda theta: self._ask(SLIDERS, theta))
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()
        if rows:
            self.choose(rows[0])

    def _ghosts(self) -> tuple[str, ...]:
        """What may go along: other domains of trials, the twin's replays of episodes, what the sliders say."""
        found = dict.fromkeys((*self.opened.domains, *replays(self.opened)))
        return (NONE, *found, *(() if self.opened.posterior is None else (SLIDERS,)))

    def choose(self, row: Row) -> None:
        """Shows a trial or a recorded episode, with the ghost that is asked for."""
        assert self.timeline is not None
        with self._lock:
            try:
                self.played = played(row, self.opened, self.handed)
            except TwinproofError as problem:
                self._say(str(problem))
                return
            self._row, self.ghost = row, None
            self.timeline.name(row)
            for each in self.lists:
                each.mark(row)
        self.haunt(self.timeline.ghost)

    def haunt(self, which: str) -> None:
        """Shows a ghost: the same trial of another domain, a replay in the twin, the sliders' parameters, or none."""
        with self._lock:
            if self._row is None:
                return
            self.ghost = self._wanted = None
            if which == SLIDERS:
                self._ask(SLIDERS, self.sliders.theta)
            elif isinstance(self._row, Recorded) and which in replays(self.opened):
                self._ask(which, replay_theta(self.opened, which))
            else:
                self.ghost = partner(self._row, which, self.opened, self.handed)
            self._refresh()

    def simulate(self, theta: Theta, which: str = SLIDERS) -> None:
        """Makes the ghost what the twin does with these parameters under the commands of what is played."""
        shown, row = self.played, self._row
        if shown is None or row is None or self.timeline is None:
            return
        try:
            ghost = simulated(row, shown, which, theta, self.handed, self.timeline.restart_s)
        except TwinproofError as problem:
            self._say(str(problem))
            return
        with self._lock:
            if self.played is not shown or which not in (SLIDERS, self.timeline.ghost):
                return  # another one was chosen meanwhile
            self.ghost = ghost
            self.timeline.ghost = which
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

    def _refresh(self) -> None:
        assert self.played is not None
        assert self.timeline is not None
        self.stage.haunt(self.ghost is not None)
        told, lost = None, ""
        if self.ghost is not None:
            one, two = ((each.trace, each.motion) for each in (self.played, self.ghost))
            try:
                told = apart(one, two, self.handed.look)
            except TwinproofError as problem:
                lost = str(problem)
        self.timeline.load(self.played.motion, told, None if self.ghost is None else self.ghost.motion.label)
        if lost:
            self._say(lost)
        self.seek(self.timeline.time_s)

    def _say(self, text: str) -> None:
        if self.timeline is not None:
            self.timeline.say(text)

    def _ask(self, which: str, theta: Theta) -> None:
        """Remembers what to simulate next; only the latest wish counts."""
        self._wanted = (which, theta)
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
                self.simulate(wanted[1], wanted[0])
            if playing and self.timeline is not None:
                self.timeline.advance(now - before)
            before = now
