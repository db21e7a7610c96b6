"""What is played, a trial or a recorded episode, and the ghost that goes along with it.

row ──> Playing: trace, links over time        ghost of a trial: the same trial in another domain
                                               ghost of an episode: what the twin does when it is sent its commands
                                               of either: what it does with parameters that someone asks for
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from twinproof.nouns.theta import Theta
from twinproof.nouns.trace import Trace
from twinproof.view.look import Look
from twinproof.view.motion import Motion, Place, motion_of
from twinproof.view.opened import Opened, Recorded, Row, line

Simulate = Callable[[Trace, Theta], Trace]  # what the twin does under a trial's commands with these parameters
Replay = Callable[[Recorded, Theta, float], Trace]  # of a recorded episode, anew from its readings every so many s
RESTARTS_S = (0.5, 2.0, math.inf)  # the first is how the report replays: small errors grow, in some motions fast
NONE, TWIN, NOMINAL, SLIDERS = "none", "twin", "nominal", "sliders"
WHOSE = {
    TWIN: "the twin's replay of the logged commands",
    NOMINAL: "the replay of the twin with nominal values",
    SLIDERS: "the twin with the sliders' parameters",
}


@dataclass(frozen=True, eq=False)
class Handed:
    """What only the simulator knows, handed in by the command: how the scene looks, where links are, what would be."""

    look: Look
    place: Place
    simulate: Simulate
    replay: Replay
    told: Callable[[Recorded], Trace]  # a recorded episode as a trace, with its events


@dataclass(frozen=True, eq=False)
class Playing:
    """A trace and its motion."""

    trace: Trace
    motion: Motion


def played(row: Row, opened: Opened, handed: Handed) -> Playing:
    """A trial or a recorded episode."""
    trace = handed.told(row) if isinstance(row, Recorded) else opened.trace(row)
    return Playing(trace, motion_of(trace, handed.place, _told(row, trace)))


def partner(row: Row, which: str, opened: Opened, handed: Handed) -> Playing | None:
    """The same trial in another domain; None where there is none with a trace, and for an episode."""
    if isinstance(row, Recorded) or which in (NONE, row.domain):
        return None
    other = opened.partner(row, which)
    if other is None or other.trace is None:
        return None
    trace = opened.trace(other)
    return Playing(trace, motion_of(trace, handed.place, line(other)))


def simulated(
    row: Row, shown: Playing, which: str, theta: Theta, handed: Handed, restart_s: float = RESTARTS_S[0]
) -> Playing:
    """What the twin does with these parameters under the commands of what is shown."""
    words = [WHOSE[which]]
    if isinstance(row, Recorded):
        trace = handed.replay(row, theta, restart_s)
        words.append(restarts(restart_s))
    else:
        trace = handed.simulate(shown.trace, theta)
    trace, label = replace(trace, domain=which), "; ".join((*words, *trace.notes))
    return Playing(trace, motion_of(trace, handed.place, label, begin_s=shown.motion.begin_s))


def restarts(restart_s: float) -> str:
    """How often a replay starts anew, in words."""
    return f"anew every {restart_s:g} s" if math.isfinite(restart_s) else "never anew"


def replays(opened: Opened) -> tuple[str, ...]:
    """Whose replays of recorded episodes there are: without a posterior, the twin's values are the nominal ones."""
    if not opened.recorded:
        return ()
    return (TWIN,) if opened.posterior is None else (TWIN, NOMINAL)


def replay_theta(opened: Opened, which: str) -> Theta:
    """The parameters of a replay: the posterior's mean for the twin, none at all for nominal values."""
    return Theta() if opened.posterior is None or which == NOMINAL else opened.posterior.point()


def _told(row: Row, trace: Trace) -> str:
    """A trial and what its trace shows; an episode with its labels and what is to be said of it."""
    if not isinstance(row, Recorded):
        return f"{line(row)}: {row.note}" if row.note else line(row)
    labels = ", ".join(f"{name} {value}" for name, value in row.episode.labels.items())
    return f"{line(row)}: {'; '.join(each for each in (f'id {row.episode.id}', labels, *trace.notes) if each)}"
