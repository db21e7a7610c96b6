"""The commands of policies: what one would do, before anything moves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from twinproof import settings


@dataclass(frozen=True)
class PolicyCheck:
    """Play one logged episode through a policy and show predicted against logged actions, before anything moves.

    examples:
      twinproof policy check policy --recording split --out check
      twinproof policy check policy --recording split --set goal=0.45,0.1 --relative --out check
      twinproof policy check ws://127.0.0.1:8000 --served served.toml --recording split --out check
      twinproof policy check served.toml --recording split --episode 3f2a --instruction "push the box" --out check

    Exit code 1 where the policy failed.
    """

    target: Positional[str]
    """A Policy folder, a served.toml, or the address of a policy server (ws://, wss://, tcp://)."""
    recording: Path
    """A Split folder (calibration and validation are looked at, the holdout never), or a Recording folder."""
    out: Path
    """The new folder: check.json and check.png."""
    episode: str | None = None
    """The episode whose id starts so; the first of calibration by default."""
    served: Path | None = None
    """With an address: which channel is sent under which key (docs/policies.md)."""
    map: tuple[str, ...] = ()
    """Where a channel comes from, if not from the signal or camera of its name: 'joints=state', 'grip=state/hand'."""
    set: tuple[str, ...] = ()
    """Channels that were not recorded: 'goal=0.45,0.1'."""
    actions: str = ""
    """The signal of the logged actions; the one of kind joint_command by default."""
    relative: bool = False
    """Actions are steps from one command to the next."""
    every: int | None = None
    """Ask at every so many ticks; once a chunk by default."""
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

    with bar("policy check") as progress:
        found = command.run(command.Asked(**vars(config)), progress)
    settings.save(settings.resolved(config, "policy check"), config.out)
    report.checked(found, config.out)
    return 1 if found.failed else 0


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
