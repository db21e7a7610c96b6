"""One take: who does what with which object on which day, and playing it in the lab's reality."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twinproof.lab.bench import Bench
from twinproof.lab.hidden import Plant
from twinproof.lab.models.room import Look
from twinproof.lab.motion import OPERATORS, Planner, Style
from twinproof.lab.population import INSTANCES, Instance, instance
from twinproof.lab.reality import Reality
from twinproof.nouns.randomness import stream
from twinproof.nouns.trajectory import Trajectory
from twinproof.sim.world import World

SESSIONS = 4
PLAYED = "trajectory"  # the behaviour of a take that plays commands from a file
PLAYED_TASK = "play a given trajectory"


@dataclass(frozen=True)
class Take:
    """What an episode is to be. An object belongs to one session, so that no label ties all episodes together."""

    number: int
    behaviour: str
    object: str  # "" where the bench has none
    session: str
    operator: Style

    def labels(self, bench: Bench) -> dict[str, str]:
        """The labels that a user would give."""
        way = "scan" if self.behaviour == "scan" else "fixed"
        labels = {
            "session": self.session,
            "scene": f"{bench.name}_{self.session}",
            "operator": self.operator.name,
            "behaviour": self.behaviour,
            "task": PLAYED_TASK if self.behaviour == PLAYED else bench.tasks[self.behaviour],
        }
        if self.object:
            labels["object"] = self.object
        if bench.views:
            labels["camera_path"] = f"{way}_{self.session}"
        return labels


def takes(
    bench: Bench, episodes: int, seed: int, behaviours: tuple[str, ...] = (), scan: bool = True
) -> tuple[Take, ...]:
    """The plan of a recording. With cameras, every sixth episode is a scan of the scene, unless switched off."""
    cycle = behaviours or bench.behaviours
    rng = stream(seed, "lab", bench.name, "takes")
    order = {family: rng.permutation(INSTANCES) for family in bench.families}
    made, played = [], 0
    for number in range(episodes):
        scanned = scan and bool(bench.views) and not behaviours and number % 6 == 5
        family = bench.families[played % len(bench.families)] if bench.families else ""
        which = int(order[family][(played // len(bench.families)) % INSTANCES]) if family else number
        behaviour = "scan" if scanned else cycle[played % len(cycle)]
        name = f"{family}_{which:02d}" if family else ""
        made.append(
            Take(number, behaviour, name, f"day_{which % SESSIONS}", OPERATORS[int(rng.integers(len(OPERATORS)))])
        )
        played += 0 if scanned else 1
    return tuple(made)


@dataclass(frozen=True)
class Played:
    """A take that was played: the reality with its log, the phase of every command, and whether it succeeded."""

    take: Take
    thing: Instance | None
    reality: Reality
    phases: tuple[str, ...]
    success: bool


def play(
    bench: Bench, plant: Plant, take: Take, effects: frozenset[str], seed: int, trajectory: Trajectory | None = None
) -> Played:
    """Plays a take. It depends on the plant, the take's number, the seed, and the trajectory where one is given alone.

    A trajectory is what the robot is told, as it stands: no operator leads the joints.
    """
    thing = instance(take.object) if take.object else None
    reality = Reality(bench, plant, thing, Look.of(plant.seed, take.session), effects)
    path = ("lab", bench.name, f"episode{take.number}")
    scene, hand = stream(seed, *path, "scene"), stream(seed, *path, "operator")
    reality.reset(stream(seed, *path, "sensors"), scene, bench.start(take.behaviour, scene))
    steps = round(1 / (bench.rate_hz * reality.dt))
    if trajectory is not None:
        _obey(reality, trajectory.commands, steps)
        return Played(take, thing, reality, (PLAYED,) * len(trajectory.commands), True)
    view = World(reality.world.model)
    view.qpos[:] = reality.world.qpos
    view.kinematics()
    planner = Planner(bench, view, take.operator.speed, thing=thing)
    bench.plan(take.behaviour, planner, take.operator, hand)
    rows = np.stack(planner.rows)
    _obey(reality, rows if bench.torque_driven else reality.told(rows), steps)
    success = bench.succeeded(take.behaviour, reality.log.snaps, planner.goal_m)
    return Played(take, thing, reality, tuple(planner.phases), success)


def _obey(reality: Reality, rows: np.ndarray, steps: int) -> None:
    for target in rows:
        reality.command(target)
        reality.advance(steps)
