"""The commands of policies: what one would do, before anything moves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import Positional

from twinproof import settings

if TYPE_CHECKING:
    from twinproof.nouns.episode import Episode
    from twinproof.nouns.policy import Policy
    from twinproof.policies.command import Look
    from twinproof.policies.logged import Logged


@dataclass(frozen=True)
class PolicyCheck:
    """Play one logged episode through a policy and show predicted against logged actions, before anything moves.

    examples:
      twinproof policy check policy --recording split --out check
      twinproof policy check policy --recording split --twin twin --task push --set goal=0.45,0.1 --out check
      twinproof policy check ws://127.0.0.1:8000 --served served.toml --recording split --out check
      twinproof policy check served.toml --recording split --episode 3f2a --instruction "push the box" --out check

    Exit code 1 where the policy failed.
    """

    target: Positional[str]
    """A Policy folder, a served.toml, an ONNX graph of ours, or a policy server's address (ws://, wss://, tcp://)."""
    recording: Path
    """A Split folder (calibration and validation are looked at, the holdout never), or a Recording folder."""
    out: Path
    """The new folder: check.json and check.png."""
    episode: str | None = None
    """The episode whose id starts so; the first of calibration by default."""
    served: Path | None = None
    """With an address: which channel is sent under which key (docs/policies.md)."""
    twin: Path | None = None
    """With --task: the twin that a policy of twinproof train was trained in."""
    task: str | None = None
    """See the episode as this task does (reach, push, …, or your file.py); its goal is set: --set goal=0.45,0.1."""
    home: tuple[str, ...] = ()
    """With --task: where the robot begins, 'elbow=0.9', where the scene has no keyframe 'home'."""
    map: tuple[str, ...] = ()
    """Where a channel comes from, if not from the signal or camera of its name: 'joints=state', 'grip=state/hand'."""
    set: tuple[str, ...] = ()
    """Channels that were not recorded: 'goal=0.45,0.1'."""
    actions: str = ""
    """The signal of the logged actions; the one of kind joint_command by default."""
    relative: bool = False
    """Actions are steps from one command to the next. With --task the policy's contract decides."""
    every: int | None = None
    """Ask at every so many ticks. Default: once a chunk, or at every tick where the policy remembers."""
    instruction: str | None = None
    """What a served policy is told to do, instead of what served.toml says."""


@dataclass(frozen=True)
class PolicySuggest:
    """Write a first served.toml for a policy server, from what it says of itself and from a recording.

    examples:
      twinproof policy suggest ws://127.0.0.1:8000 --recording split --out served.toml
      twinproof policy suggest tcp://127.0.0.1:5555 --recording split --out served.toml
    """

    address: Positional[str]
    """The address of a policy server that runs: ws://, wss:// (openpi's framing) or tcp:// (GR00T's)."""
    recording: Path
    """A Split folder or a Recording folder."""
    out: Path
    """The new served.toml. Complete it before you use it."""


def check(config: PolicyCheck) -> int:
    """`twinproof policy check`."""
    from twinproof.nouns.progress import bar
    from twinproof.policies import command, report

    told = {name: value for name, value in vars(config).items() if name not in ("twin", "task", "home")}
    asked = command.Asked(**told)
    look = command.by_name(asked) if config.task is None else _by_task(config)
    with bar("policy check") as progress:
        found = command.run(asked, look, progress)
    settings.save(settings.resolved(config, "policy check"), config.out)
    report.checked(found, config.out)
    return 1 if found.failed else 0


def _by_task(config: PolicyCheck) -> Look:
    """The episode as a task sees it: its own observations of what the robot reported, its own meaning of an action."""
    import numpy as np

    from twinproof.nouns.errors import ConfigError
    from twinproof.nouns.policy import difference, require_same
    from twinproof.nouns.twin import Twin
    from twinproof.policies.command import values_of
    from twinproof.policies.logged import Logged
    from twinproof.tasks.home import home_of
    from twinproof.tasks.named import task_named
    from twinproof.train.lessons import at_ticks

    if config.task is None or config.twin is None or config.map or config.actions:
        raise ConfigError("--task needs --twin, and leaves nothing to --map or --actions. Give both, or none.")
    values = values_of(config.set)
    goal = values.pop("goal", ())
    if values:
        raise ConfigError(f"--task takes the goal alone from --set, and {', '.join(values)} was set. Leave it out.")
    twin = Twin.load(config.twin)
    home = home_of(config.home, twin)
    task = task_named(config.task, twin, home=home, relative=config.relative)
    other = task_named(config.task, twin, home=home, relative=not config.relative)
    needed = len(task.draw(np.random.default_rng(0)).goal)
    if len(goal) != needed:
        raise ConfigError(f"the goal of {task.name!r} has {needed} numbers, {len(goal)} were given. Use --set goal=….")

    def look(policy: Policy, episode: Episode) -> Logged:
        pictures = [channel.name for channel in policy.contract.observations if len(channel.shape) == 3]
        if pictures:
            raise ConfigError(
                f"the policy sees {', '.join(pictures)}, and --task shows no pictures. Try it in the twin instead: "
                "twinproof panel --cameras …, twinproof evaluate."
            )
        wanted = {each: replace(each.deployable, history=policy.contract.history) for each in (task, other)}
        mine = next((each for each in (task, other) if not difference(wanted[each], policy.contract)), task)
        require_same(wanted[mine], policy.contract, config.target)
        sensed, command = at_ticks(episode, mine)
        sensed = replace(sensed, goal=np.tile(goal, (len(sensed.time_s), 1)))
        actions = np.asarray(mine.action(sensed, command))
        told = (f"the task {task.name!r} in {config.twin}", f"goal: {', '.join(map(str, goal)) or 'none'}")
        return Logged(episode.id, sensed.time_s, actions, told, dict(mine.observe(sensed)))

    return look


def suggest(config: PolicySuggest) -> int:
    """`twinproof policy suggest`."""
    import sys

    from twinproof.policies import command

    command.suggest(config.address, config.recording, config.out)
    sys.stdout.write(
        f"{config.out} written: check every line, then\n"
        f"  twinproof policy check {config.address} --served {config.out} --recording {config.recording} --out check\n"
    )
    return 0
