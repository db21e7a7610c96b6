"""The robot that a command names: a practice one, or a driver in a user's Python file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from twinproof.evaluate.deploy import Place, Sight
    from twinproof.lab.robot import LabRobot
    from twinproof.nouns.policy import Channel
    from twinproof.nouns.robot import Observation, Robot
    from twinproof.nouns.split import Split
    from twinproof.nouns.twin import Twin
    from twinproof.tasks.task import Setup, TaskSpec

BEHAVIOURS = {"drawer": "pull"}  # what the lab calls a task


def place_of(
    text: str | None,
    task: TaskSpec,
    stated: str,
    twin: Twin,
    split: Split,
    pictures: Sequence[Channel] = (),
    own_task: bool = False,
) -> Place | None:
    """The robot that trials run on, where one was named, and what sees the task's object for it. `pictures` are those
    that policies see: a practice robot has their cameras switched on. A user's own task, whatever it is called, is
    judged by its own rule and by no referee of the lab's."""
    from twinproof.evaluate.deploy import Place

    if text is None:
        return None
    if not text.startswith("lab:"):
        robot, sight = _driver(Path(text))
        return Place(robot, stated or f"the robot of {Path(text).name}", sight or _sight(task, twin, split))
    practice, bench, sight = _lab_robot(text, task, twin, split, pictures)
    word = None if own_task else partial(_lab_word, practice)
    return Place(practice, f"lab bench '{bench}', simulated", sight, referee=word, patient=True)


def robot_hash(text: str | None) -> str:
    """Names a robot by what decides it: the content of its driver's file and of the modules beside it that it imports,
    or the practice robot's text."""
    from twinproof.nouns.hashing import content_hash, hash_file
    from twinproof.nouns.own_code import neighbours

    if text is None:
        return ""
    path = Path(text)
    if not path.is_file():
        return content_hash(text)
    beside = {each.relative_to(path.absolute().parent).as_posix(): hash_file(each) for each in neighbours(path)}
    return content_hash([hash_file(path), beside]) if beside else hash_file(path)


def _sight(task: TaskSpec, twin: Twin, split: Split) -> Sight:
    """The twin's splats followed in the robot's pictures, where the task has an object."""
    from twinproof.evaluate.deploy import NoSight
    from twinproof.tasks.sight import TwinSight, clock_offsets

    if not task.tracked:
        return NoSight()
    offsets = clock_offsets(twin, split.parts()[0].recording.rig)
    return TwinSight(twin, task.tracked[0], task.machine.joints, offsets)


def _lab_word(robot: LabRobot, task: TaskSpec, setup: Setup) -> bool | None:
    """The lab's referee on tasks that it has a rule for."""
    behaviour = BEHAVIOURS.get(task.name, task.name)
    if behaviour not in robot.bench.tasks:
        return None
    return robot.succeeded(behaviour, np.array(setup.goal) if robot.bench.goals.get(behaviour) else None)


class Markers:
    """A practice bench's own tracker (tag or mocap) as a sight: the newest pose it had, until it is lost for long."""

    def __init__(self, robot: LabRobot, body: str) -> None:
        self._robot, self._body = robot, body

    def begin(self, seen: Observation, setup: Setup) -> None:
        """A new episode: what was seen before does not count."""
        self._last: tuple[float, np.ndarray] | None = None

    def look(self, seen: Observation) -> Mapping[str, np.ndarray]:
        """The newest pose; nothing where the object was lost for longer than LOST_S."""
        from twinproof.tasks.sight import LOST_S

        found = self._robot.tracked()
        if found is not None:
            self._last = (seen.stamp_s, found)
        if self._last is None or seen.stamp_s - self._last[0] > LOST_S:
            return {}
        return {self._body: self._last[1]}


def _lab_robot(
    text: str, task: TaskSpec, twin: Twin, split: Split, pictures: Sequence[Channel]
) -> tuple[LabRobot, str, Sight]:
    """The practice robot of 'lab:BENCH?plant=0&effects=all&tracker=mocap', and what sees the task's object for it: that
    tracker, or else the twin's splats through the cameras that they are seen by."""
    from urllib.parse import parse_qsl

    from twinproof.evaluate.deploy import NoSight
    from twinproof.lab.robot import LabRobot
    from twinproof.nouns.errors import ConfigError
    from twinproof.tasks.sight import TwinSight

    bench, _, query = text.removeprefix("lab:").partition("?")
    asked = dict(parse_qsl(query))
    if set(asked) - {"plant", "effects", "tracker"} or not asked.get("plant", "0").isdigit():
        raise ConfigError(
            f"--robot {text!r} cannot be read. Write 'lab:push?plant=0&effects=all', and &tracker=mocap where nothing "
            "is to be seen in pictures."
        )
    plant, effects = int(asked.get("plant", "0")), asked.get("effects", "all")
    sizes = {channel.frame: (channel.shape[1], channel.shape[0]) for channel in pictures}
    tracker = asked.get("tracker", "") if task.tracked else ""
    sight = NoSight() if tracker else _sight(task, twin, split)
    if isinstance(sight, TwinSight):
        sizes |= {name: (camera.lens.width, camera.lens.height) for name, camera in sight.cameras.items()}
    if len(set(sizes.values())) > 1:
        raise ConfigError(f"a practice robot's cameras have one size, and {sizes} are needed. Use cameras of one size.")
    size = next(iter(sizes.values()), (160, 120))
    practice = LabRobot(bench, plant, effects=effects, cameras=tuple(sizes), size=size, tracker=tracker)
    return practice, bench, Markers(practice, task.tracked[0]) if tracker else sight


def _driver(path: Path) -> tuple[Robot, Sight | None]:
    """What the robot() of a user's Python file gives, and its sight() where it has one."""
    from twinproof.nouns.errors import ConfigError
    from twinproof.nouns.own_code import run_own

    if not path.is_file():
        raise ConfigError(
            f"--robot {path} is no file. Name a Python file with a function robot(), or 'lab:push?plant=0'."
        )
    told = run_own(path)
    make, look = told.get("robot"), told.get("sight")
    if not callable(make):
        raise ConfigError(f"{path} has no function robot(). Write one that gives a driver (docs/robot_interface.md).")
    return make(), look() if callable(look) else None
