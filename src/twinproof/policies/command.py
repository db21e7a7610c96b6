"""`twinproof policy check` and `policy suggest`: from what a user names to what is asked and written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import PolicyError, SplitError
from twinproof.nouns.files import new_folder, write_json, write_whole
from twinproof.nouns.policy import Policy
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import Rig
from twinproof.nouns.split import Split
from twinproof.policies.check import Checked, check
from twinproof.policies.load import acting, read_policy
from twinproof.policies.logged import Logged, Sources, logged
from twinproof.policies.server import Server, read_served, served_policy, server_of

Look = Callable[[Policy, Episode], Logged]  # how a policy sees a logged episode
SCHEMES = ("ws://", "wss://", "tcp://")


@dataclass(frozen=True)
class Asked:
    """What `twinproof policy check` was told (cli_policy.py says what each means)."""

    target: str
    recording: Path
    out: Path
    episode: str | None = None
    served: Path | None = None
    map: tuple[str, ...] = ()
    set: tuple[str, ...] = ()
    actions: str = ""
    relative: bool = False
    every: int | None = None
    instruction: str | None = None


def run(asked: Asked, look: Look, progress: Progress = quiet) -> Checked:
    """Plays one logged episode, as `look` sees it, through the policy; check.json and check.png in a new folder."""
    from twinproof.policies.check_plot import draw

    policy = policy_of(asked.target, asked.served, asked.instruction)
    episode, _ = episode_of(asked.recording, asked.episode)
    log = look(policy, episode)
    remembers = policy.kind == "recurrent" or policy.contract.history > 1  # it has to see every tick
    every = 1 if asked.every is None and remembers else asked.every
    with new_folder(asked.out) as scratch, acting(policy) as actor:
        found = check(actor, log, every, progress)
        write_json(scratch / "check.json", {"format": "twinproof/check/1", "policy": policy.hash, **found.table()})
        if len(found.chunks):
            name = asked.target if asked.target.startswith(SCHEMES) else Path(asked.target).name
            draw(found, scratch / "check.png", f"{name}: what it would do in episode {episode.id[:12]}")
    return found


def by_name(asked: Asked) -> Look:
    """Channels are what the recording calls so, or what was mapped or set."""
    sources = Sources(_pairs(asked.map, "--map joints=state"), values_of(asked.set), asked.actions, asked.relative)
    return lambda policy, episode: logged(policy.contract, episode, sources)


def suggest(address: str, recording: Path, out: Path) -> None:
    """Writes a first served.toml for a server, from what it says of itself and from a recording."""
    from twinproof.policies.suggest import suggested

    if out.exists():
        raise PolicyError(f"{out} exists. Nothing is overwritten: name another file, or remove it.")
    episode, rig = episode_of(recording, None)
    write_whole(out, suggested(address, episode, rig).encode())


def policy_of(target: str, served: Path | None, instruction: str | None) -> Policy:
    """The policy that a user names: a path as `read_policy` takes it, or the address of a server with a served.toml."""
    if target.startswith(SCHEMES):
        if served is None:
            raise PolicyError(
                f"{target} is a server, and nothing says under which keys it is asked. Give --served served.toml; "
                f"twinproof policy suggest {target} --recording RECORDING --out served.toml writes a first one."
            )
        policy = read_served(served)
        policy = served_policy(replace(server_of(policy), address=target), policy.contract)
    else:
        policy = read_policy(Path(target))
    if instruction is None:
        return policy
    if policy.kind != "served":
        raise PolicyError(f"{target} is of kind {policy.kind!r} and takes no instruction. Leave it out.")
    server: Server = server_of(policy)
    return served_policy(replace(server, instruction=instruction), policy.contract)


def episode_of(folder: Path, id: str | None) -> tuple[Episode, Rig]:
    """One episode that may be looked at: of a split's calibration or validation, never of its holdout."""
    if not (folder / "split.json").is_file():
        recording = Recording.load(folder)
        return (recording.episode(id) if id else recording.episodes[0]), recording.rig
    calibration, validation, sealed = Split.load(folder).parts()
    if id is None:
        return calibration.recording.episodes[0], calibration.recording.rig
    if any(each.startswith(id) for each in sealed.ids):
        raise SplitError(f"episode {id!r} is held out and stays sealed. Take one of calibration or validation.")
    inside = [part for part in (calibration, validation) if any(each.startswith(id) for each in part.ids)]
    if len(inside) != 1:
        raise SplitError(
            f"{len(inside)} parts of {folder} have an episode whose id starts with {id!r}. Ids: twinproof inspect "
            f"{folder}/calibration."
        )
    return inside[0].recording.episode(id), inside[0].recording.rig


def values_of(given: tuple[str, ...]) -> dict[str, tuple[float, ...]]:
    """Values that were set as 'goal=0.3,0.1'."""
    return {name: _numbers(name, text) for name, text in _pairs(given, "--set goal=0.3,0.1").items()}


def _pairs(given: tuple[str, ...], example: str) -> dict[str, str]:
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise PolicyError(f"{text!r} does not say what is what. Write it as in {example}.")
        found[name] = value
    return found


def _numbers(name: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise PolicyError(f"--set {name}={text} is no row of numbers. Write it as in --set {name}=0.3,0.1.") from None
