"""The robot that a command names: a practice one, or a driver in a user's Python file."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from twinproof.evaluate.deploy import Place, Sight
    from twinproof.lab.robot import LabRobot
    from twinproof.nouns.robot import Robot
    from twinproof.nouns.split import Split
    from twinproof.nouns.twin import Twin
    from twinproof.tasks.task import Setup, TaskSpec

BEHAVIOURS = {"drawer": "pull"}  # what the lab calls a task


def place_of(text: str | None, task: TaskSpec, stated: str, twin: Twin, split: Split) -> Place | None:
    """The robot that trials run on, where one was named, and what sees the task's object for it."""
    from twinproof.evaluate.deploy import NoSight, Place
    from twinproof.evaluate.sight import TwinSight, clock_offsets

    if text is None:
        return None
    sight: Sight = NoSight()
    if task.tracked:
        offsets = clock_offsets(twin, split.parts()[0].recording.rig)
        sight = TwinSight(twin, task.tracked[0], task.machine.joints, offsets)
    if text.startswith("lab:"):
        robot, bench = _lab_robot(text, sight)
        return Place(robot, f"lab bench '{bench}', simulated", sight, referee=partial(_lab_word, robot))
    return Place(_driver(Path(text)), stated or f"the robot of {Path(text).name}", sight)


def _lab_word(robot: LabRobot, task: TaskSpec, setup: Setup) -> bool | None:
    """The lab's referee on tasks that it has a rule for."""
    behaviour = BEHAVIOURS.get(task.name, task.name)
    if behaviour not in robot.bench.tasks:
        return None
    return robot.succeeded(behaviour, np.array(setup.goal) if robot.bench.goals.get(behaviour) else None)


def _lab_robot(text: str, sight: Sight) -> tuple[LabRobot, str]:
    """The practice robot of 'lab:BENCH?plant=0&effects=all', with the cameras that the sight looks through."""
    from urllib.parse import parse_qsl

    from twinproof.evaluate.sight import TwinSight
    from twinproof.lab.robot import LabRobot
    from twinproof.nouns.errors import ConfigError

    bench, _, query = text.removeprefix("lab:").partition("?")
    asked = dict(parse_qsl(query))
    if set(asked) - {"plant", "effects"} or not asked.get("plant", "0").isdigit():
        raise ConfigError(f"--robot {text!r} cannot be read. Write 'lab:push?plant=0&effects=all'.")
    plant, effects = int(asked.get("plant", "0")), asked.get("effects", "all")
    if not isinstance(sight, TwinSight):
        return LabRobot(bench, plant, effects=effects), bench
    lens = next(iter(sight.cameras.values())).lens
    cameras, size = tuple(sight.cameras), (lens.width, lens.height)
    return LabRobot(bench, plant, effects=effects, cameras=cameras, size=size), bench


def _driver(path: Path) -> Robot:
    """What the robot() of a user's Python file gives."""
    import runpy

    from twinproof.nouns.errors import ConfigError

    if not path.is_file():
        raise ConfigError(
            f"--robot {path} is no file. Name a Python file with a function robot(), or 'lab:push?plant=0'."
        )
    make = runpy.run_path(str(path)).get("robot")
    if not callable(make):
        raise ConfigError(f"{path} has no function robot(). Write one that gives a driver (docs/robot_interface.md).")
    made: Robot = make()
    return made
