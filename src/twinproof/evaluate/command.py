"""`twinproof panel` and `twinproof evaluate` from their texts: strings become objects here, and nowhere else."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from twinproof import __version__
from twinproof.evaluate.cameras import camera_channels
from twinproof.evaluate.contenders import DRAWN, Contender, shown
from twinproof.nouns.actor import Actor
from twinproof.nouns.errors import ConfigError, PanelError
from twinproof.nouns.files import check_files, file_hashes
from twinproof.nouns.hashing import content_hash, hash_file
from twinproof.nouns.own_code import neighbours
from twinproof.nouns.panel import Panel, Task
from twinproof.nouns.policy import Policy, difference
from twinproof.nouns.recording import Recording
from twinproof.nouns.split import Split
from twinproof.nouns.strict import plain
from twinproof.nouns.theta import Theta
from twinproof.nouns.twin import Twin
from twinproof.policies.background import Background
from twinproof.policies.chunks import Chunked, Delayed, Ensembled, Latency, Measured
from twinproof.policies.load import actor_of, read_policy
from twinproof.policies.served import ServedActor
from twinproof.tasks import home, named
from twinproof.tasks.mppi import Mppi, Planner
from twinproof.tasks.task import TaskSpec

EXPERT = "expert"  # a policy that is the task's own script
MPPI = "mppi"  # one that plans on the twin at every tick
PLANNED = 8  # worlds at once for it: each tries many futures
TASK = "task"  # where a panel keeps the file or the motion of a task of the user's own
MOTION = "recording.json"


def keep_task(name: str, panel: Path) -> dict[str, str] | None:
    """Copies the file or the motion behind a task's name below a panel's new folder: its files with their hashes, a
    task's own before the modules beside it that it imports. None for a task of ours."""
    source, kept = Path(name), panel / TASK
    if name in named.TASKS:
        return None
    if (source / MOTION).is_file():
        shutil.copytree(source, kept)
        return file_hashes(kept)
    found = {}
    for file in (source.absolute(), *neighbours(source)):
        target = kept / file.relative_to(source.absolute().parent)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
        found[target.relative_to(kept).as_posix()] = hash_file(target)
    return found


def task_name(panel: Panel, folder: Path) -> str:
    """What `task_named` knows the panel's task by: its name, or the file or motion that the panel keeps, unchanged."""
    if panel.task_files is None:
        return panel.task.name
    check_files(folder / TASK, panel.task_files, PanelError)
    return str(folder / TASK if MOTION in panel.task_files else folder / TASK / next(iter(panel.task_files)))


def task_of_panel(panel: Panel, name: str, twin: Twin, home: Mapping[str, float] | None) -> TaskSpec:
    """The task that a panel was frozen with, which goes by a name of `task_name`: its actions say whether they name
    commands or move them."""
    tasks = [named.task_named(name, twin, home=home, relative=relative) for relative in (False, True)]
    wanted = shown(panel.task.contract)
    for task in tasks:
        if not difference(wanted, shown(task.deployable)):
            return replace(task, horizon_s=panel.task.horizon_s)
    told = "; ".join(difference(wanted, shown(tasks[0].deployable)))
    raise PanelError(
        f"the panel's task {panel.task.name!r} does not fit this twin: {told}. Evaluate with the twin that it was "
        "frozen with, or freeze it anew."
    )


def home_of(texts: Sequence[str], task: str, twin: Twin, split: Split) -> dict[str, float] | None:
    """Where the robot's reset brings it: as stated, where a motion to be followed begins, as the twin's keyframe
    says, or as calibration episodes begin."""
    if texts:
        return home.home_of(texts, twin)
    if (Path(task) / MOTION).is_file():
        return home.recorded_home(Recording.load(Path(task)), home.driven(twin))
    return home.told_by(split, twin)


def contenders_of(
    texts: Sequence[str], task: TaskSpec, script: Actor | None, known: Theta | None = None
) -> tuple[Contender, ...]:
    """Policies from NAME=FOLDER (or a served.toml, or an ONNX graph), NAME=expert for the task's script, if any, or
    NAME=mppi for sampling MPC on the twin as far as it is known."""
    found = []
    for text in texts:
        name, sign, where = text.partition("=")
        if not sign or not name.strip() or not where.strip():
            raise ConfigError(f"--policy {text!r} cannot be read. Write NAME=FOLDER, NAME={EXPERT} or NAME={MPPI}.")
        if where == EXPERT:
            if script is None:
                raise ConfigError(f"--policy {text!r}: a task of your own has no script. Name the folder of a policy.")
            found.append(Contender(name, script, content_hash([EXPERT, task.name, __version__])))
            continue
        if where == MPPI:
            how, theta = Mppi(), known or Theta()
            made = content_hash([MPPI, task.name, plain(how), dict(theta), __version__])
            found.append(Contender(name, Planner(task, how, theta=theta), made, worlds=PLANNED))
            continue
        found.append(_contender(name, read_policy(Path(where))))
    return tuple(found)


def _contender(name: str, policy: Policy) -> Contender:
    """A policy from disk. A server is asked about one world after the other, only where a chunk is played out; one that
    remembers gets one world at a time, and none has to give the same answer twice."""
    actor, made_with = actor_of(policy), policy.parents.get("twin", "")
    if not isinstance(actor, ServedActor):
        acts = Chunked(actor) if actor.contract.chunk > 1 else actor
        return Contender(name, acts, policy.hash, made_with)
    acts, on_robot = _in_time(actor, policy)
    worlds = 1 if actor.server.reset else DRAWN
    return Contender(name, acts, policy.hash, made_with, worlds, repeatable=False, on_robot=on_robot)


def _in_time(actor: ServedActor, policy: Policy) -> tuple[Actor, Actor | None]:
    """When a server is asked, in the twin and (where that differs) on the robot. One that thinks while the robot moves
    has a connection of its own there; the twin simulates how late its answers come, as stated or as measured."""
    server = actor.server
    if server.average is not None:
        return Ensembled(actor, server.average), None
    if not server.asynchronous:
        return Chunked(actor, server.execute, ask=actor.act_in), None
    latency = Latency(server.latency_s) if server.latency_s else Measured(actor.latency_s)
    on_robot = Background(ServedActor(policy), server.execute)
    return Delayed(actor, latency, server.execute, ask=actor.act_in), on_robot


def with_cameras(task: Task, twin: Twin, cameras: Sequence[str], split: Split) -> Task:
    """The task as a panel states it, with the pictures of these cameras, by the rig's names or their sources."""
    if not cameras:
        return task
    pictures = camera_channels(twin, cameras, split.parts()[0].recording.rig)
    return replace(task, contract=replace(task.contract, observations=(*task.contract.observations, *pictures)))


def only_of(texts: Sequence[str]) -> dict[str, str]:
    """Labels from KEY=VALUE."""
    found = {}
    for text in texts:
        key, sign, value = text.partition("=")
        if not sign or not key.strip() or not value.strip():
            raise ConfigError(f"--only {text!r} cannot be read. Write KEY=VALUE, as in 'object=can_03'.")
        found[key.strip()] = value.strip()
    return found
