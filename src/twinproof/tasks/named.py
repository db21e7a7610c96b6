"""Tasks by name, for commands: one of ours, or a file of functions of the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from twinproof.nouns.errors import TaskError
from twinproof.nouns.own_code import run_own
from twinproof.nouns.recording import Recording
from twinproof.nouns.twin import Twin
from twinproof.sim.parameters.base import nearest
from twinproof.sim.scene import Scene
from twinproof.tasks import drawer, handover, lift, push, reach, track
from twinproof.tasks.task import TaskSpec

TASKS = ("reach", "push", "lift", "drawer", "handover")


def task_named(
    name: str, scene: Scene | Twin, *, home: Mapping[str, float] | None = None, relative: bool = False
) -> TaskSpec:
    """The task of this name on a scene; a Recording folder is a motion to track (tasks/track.py), a name that ends in
    .py a file with a function `of` like ours."""
    match name:
        case "reach":
            return reach.of(scene, home=home, relative=relative)
        case "push":
            return push.of(scene, home=home, relative=relative)
        case "lift":
            return lift.of(scene, home=home, relative=relative)
        case "drawer":
            return drawer.of(scene, home=home, relative=relative)
        case "handover":
            return handover.of(scene, home=home, relative=relative)
        case _ if (Path(name) / "recording.json").is_file():
            return track.of(scene, Recording.load(Path(name)).episodes[0], home=home, relative=relative)
        case _ if name.endswith(".py"):
            return own_task(Path(name), scene, home=home, relative=relative)
        case _:
            raise TaskError(f"there is no task {name!r}. {nearest(name, TASKS)} A file of your own ends in .py.")


def own_task(
    path: Path, scene: Scene | Twin, *, home: Mapping[str, float] | None = None, relative: bool = False
) -> TaskSpec:
    """The task of a user's file, which is run: `of(scene, *, home, relative) -> TaskSpec`."""
    if not path.is_file():
        raise TaskError(f"there is no file {str(path)!r} with a task. Give the path of a Python file.")
    of = run_own(path, path.stem).get("of")
    if not callable(of):
        raise TaskError(f"{path} has no function of(scene, *, home, relative). Write one that gives a TaskSpec.")
    found = of(scene, home=home, relative=relative)
    if not isinstance(found, TaskSpec):
        raise TaskError(f"of(…) in {path} gave {type(found).__name__!r}. It must give a TaskSpec.")
    return found
