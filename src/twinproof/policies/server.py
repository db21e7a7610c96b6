"""A policy behind a server: what is sent under which key, what comes back, and how far it is trusted.

served.toml   rate, observations and actions as a contract has them, and [server]: address, framing, keys, instruction
policy.json   the same as a Policy of kind "served", its architecture is the server
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import numpy as np

from twinproof.nouns.errors import PolicyError
from twinproof.nouns.hashing import Json
from twinproof.nouns.policy import Channel, Contract, Policy
from twinproof.nouns.strict import build, plain

FORMAT = "twinproof/served/1"
Framing = Literal["openpi", "groot", "groot-flat"]
SCHEMES = {"openpi": ("ws", "wss"), "groot": ("tcp",), "groot-flat": ("tcp",)}


@dataclass(frozen=True)
class Sent:
    """One entry of a request: a channel of the contract under the server's key, value * scale + offset.

    A key is a path: ["images", "cam_high"] is a table in a table. Pictures may be resized with padding, and turned to
    channels first.
    """

    key: tuple[str, ...]
    channel: str
    columns: tuple[int, ...] = ()  # which numbers of the channel; all
    scale: float = 1.0
    offset: float = 0.0
    size: tuple[int, int] | None = None  # height and width of a picture
    layout: Literal["hwc", "chw"] = "hwc"


@dataclass(frozen=True)
class Received:
    """One entry of an answer, (steps, numbers): its columns, times scale plus offset, are the next actions in order."""

    key: tuple[str, ...]
    columns: tuple[int, ...] = ()
    scale: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True)
class Server:
    """Where a policy is served, and how it is asked."""

    address: str  # ws://host:8000, wss://…, tcp://host:5555
    framing: Framing
    send: tuple[Sent, ...]
    receive: tuple[Received, ...]
    instruction: str = ""
    instruction_key: tuple[str, ...] = ()  # () : "prompt" for openpi, language/task and annotation… for GR00T
    reset: bool = False  # openpi framing: whether the server understands {"endpoint": "reset"}
    timeout_s: float = 10.0  # for one answer; a first one that compiles may need more
    connect_s: float = 10.0
    largest_mib: int = 8  # of an answer
    wild: float = 0.5  # an action so many ranges beyond its limits is a mistake of units, not of control
    key_variable: str = ""  # the environment variable that holds the server's key; the key itself is never stored
    execute: int | None = None  # how many actions of a chunk are carried out before the next is asked for; all
    average: float | None = None  # asked at every tick, chunks averaged: how fast the weight of newer ones decays
    asynchronous: bool | None = None  # the robot goes on while the server thinks; the twin simulates how late it is
    latency_s: tuple[float, ...] | None = None  # of its answers, for the twin; as measured, where nothing is stated

    def __post_init__(self) -> None:
        parts = urlsplit(self.address)
        if parts.scheme not in SCHEMES[self.framing] or not parts.hostname:
            raise PolicyError(
                f"the server {self.address!r} cannot speak {self.framing}; its address begins with "
                f"{'://, '.join(SCHEMES[self.framing])}:// and names a host and a port."
            )
        if not (self.timeout_s > 0 and self.connect_s > 0 and self.largest_mib > 0 and self.wild >= 0):
            raise PolicyError(
                f"the server {self.address} has timeout_s {self.timeout_s}, connect_s {self.connect_s}, largest_mib "
                f"{self.largest_mib}, wild {self.wild}; all are above zero, wild may be zero."
            )
        if self.average is not None and (self.execute is not None or self.asynchronous or self.latency_s):
            raise PolicyError(
                f"the server {self.address} is to be asked at every tick (average) and less often (execute, "
                "asynchronous, latency_s). Keep one of the two."
            )
        if self.latency_s and not self.asynchronous:
            raise PolicyError(
                f"the server {self.address} states latency_s, and the robot waits for every answer. Say asynchronous = "
                "true, or leave it out."
            )
        if not self.send or not self.receive:
            raise PolicyError(f"the server {self.address} is sent or gives nothing. State send and receive.")
        for key in [sent.key for sent in self.send] + [received.key for received in self.receive]:
            if not key or not all(key):
                raise PolicyError(f"the server {self.address} has an empty key {list(key)}. Name it.")


@dataclass(frozen=True)
class ServedFile:
    """What a served.toml holds."""

    format: str
    rate_hz: float
    observations: tuple[Channel, ...]
    actions: tuple[Channel, ...]
    server: Server
    chunk: int = 1
    delay_s: float = 0.0


def read_served(path: Path) -> Policy:
    """The policy that a served.toml describes."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise PolicyError(f"{path} is no readable TOML file ({problem}). docs/policies.md shows one.") from None
    if data.get("format") != FORMAT:
        raise PolicyError(f"{path} says format {data.get('format')!r}; this version reads {FORMAT!r}.")
    file = build(ServedFile, data, str(path), PolicyError)
    contract = Contract(file.observations, file.actions, file.rate_hz, file.delay_s, chunk=file.chunk)
    return served_policy(file.server, contract)


def served_policy(server: Server, contract: Contract) -> Policy:
    """A server as a Policy, checked against its contract."""
    policy = Policy("served", contract, {}, plain(server))
    server_of(policy)
    return policy


def server_of(policy: Policy) -> Server:
    """The server of a policy; keys and channels fit the contract, or it is an error."""
    server = build(Server, policy.architecture, "architecture", PolicyError)
    channels = {channel.name: channel for channel in policy.contract.observations}
    for sent in server.send:
        channel = channels.get(sent.channel)
        if channel is None:
            raise PolicyError(
                f"{'/'.join(sent.key)!r} is to be filled from {sent.channel!r}, which the contract does not observe. "
                f"It observes {', '.join(channels)}."
            )
        picture = len(channel.shape) == 3
        if (sent.size or sent.layout == "chw") and not picture:
            raise PolicyError(f"{sent.channel!r} has the shape {channel.shape} and is no picture to resize or turn.")
        if sent.columns and (picture or max(sent.columns) >= int(np.prod(channel.shape)) or min(sent.columns) < 0):
            raise PolicyError(f"{sent.channel!r} of shape {channel.shape} lacks the columns {list(sent.columns)}.")
    unused = sorted(set(channels) - {sent.channel for sent in server.send})
    if unused:
        raise PolicyError(
            f"the contract observes {', '.join(unused)}, which are never sent. Send them, or leave them out."
        )
    if policy.contract.history != 1:
        raise PolicyError(f"a served policy has the history {policy.contract.history}; a server keeps its own. Use 1.")
    return server


def put(message: dict[str, Json], key: tuple[str, ...], value: Json) -> None:
    """Sets an entry of tables in tables."""
    for name in key[:-1]:
        message = message.setdefault(name, {})
    message[key[-1]] = value
