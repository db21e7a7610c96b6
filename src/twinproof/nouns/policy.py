"""A policy: what it sees, what it does, how fast, and its weights. It runs without the code that trained it.

policy.json           contract (channels with unit, order, limits; rate; delay), normaliser, architecture, parents, seed
weights.safetensors   the arrays, where the kind has any (an ONNX graph is one array of bytes)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from twinproof.nouns.artifact import Artifact
from twinproof.nouns.errors import PolicyError
from twinproof.nouns.frozen import Frozen, frozen_array, frozen_json, settle
from twinproof.nouns.hashing import Json, hash_array
from twinproof.nouns.ledger import LedgerHead

WEIGHTS = "weights.safetensors"


@dataclass(frozen=True)
class Channel:
    """One entry of an observation or action: a number, or an array such as a picture (240, 320, 3)."""

    name: str
    unit: str
    low: float | None = None
    high: float | None = None
    shape: tuple[int, ...] = ()
    frame: str = ""
    privileged: bool = False  # known in simulation only: for teachers and critics

    def __post_init__(self) -> None:
        if not self.name:
            raise PolicyError("a channel has no name. Name it as the rig does.")
        if (self.low is None) != (self.high is None):
            raise PolicyError(f"channel {self.name!r} has one limit: {self.low} to {self.high}. Give both or none.")
        if self.low is not None and self.high is not None and not -np.inf < self.low < self.high < np.inf:
            raise PolicyError(
                f"channel {self.name!r} has the limits {self.low} to {self.high}; low must be below high."
            )
        if any(size <= 0 for size in self.shape):
            raise PolicyError(f"channel {self.name!r} has the shape {self.shape}; every side is at least 1.")


@dataclass(frozen=True)
class Contract:
    """What goes in and what comes out, in this order, at this rate. Every action has limits."""

    observations: tuple[Channel, ...]
    actions: tuple[Channel, ...]
    rate_hz: float
    delay_s: float = 0.0  # from observation to action, as trained for
    history: int = 1  # observations seen at once, the newest last
    chunk: int = 1  # actions given at once

    def __post_init__(self) -> None:
        if not self.observations or not self.actions:
            raise PolicyError("a contract needs at least one observation and one action.")
        for side in ("observations", "actions"):
            names = [channel.name for channel in getattr(self, side)]
            if len(set(names)) != len(names):
                raise PolicyError(f"the {side} {', '.join(names)} name a channel twice. Each stands once.")
        for action in self.actions:
            if action.low is None:
                raise PolicyError(f"the action {action.name!r} has no limits. State what the robot may be told.")
        if not 0 < self.rate_hz < np.inf or not 0 <= self.delay_s < np.inf or self.history < 1 or self.chunk < 1:
            raise PolicyError(
                f"rate {self.rate_hz} Hz, delay {self.delay_s} s, history {self.history}, chunk {self.chunk}: the rate "
                "is above zero, the delay not below, the two counts at least 1."
            )

    @property
    def privileged(self) -> tuple[str, ...]:
        """The observations that no real robot can measure."""
        return tuple(channel.name for channel in self.observations if channel.privileged)


@dataclass(frozen=True)
class Scale:
    """A channel enters the network as (value - mean) / sd."""

    mean: float
    sd: float

    def __post_init__(self) -> None:
        if not np.isfinite(self.mean) or not 0 < self.sd < np.inf:
            raise PolicyError(f"a normaliser has mean {self.mean} and sd {self.sd}; both finite, sd above zero.")


@dataclass(frozen=True, eq=False)
class Policy(Artifact):
    """Contract, normaliser and weights. A deployable one needs nothing that the real robot cannot measure."""

    NAME: ClassVar = "policy"
    ERROR: ClassVar = PolicyError
    PARTS: ClassVar = ("weights",)

    kind: Literal["mlp", "recurrent", "scripted", "onnx", "served", "mpc", "other"]
    contract: Contract
    parents: Mapping[str, str]  # "twin", "randomization", "recording", … -> hash; empty for a scripted one
    architecture: Mapping[str, Json] = field(default_factory=dict)  # layers, or script name, or server address
    weights: Mapping[str, np.ndarray] = field(default_factory=dict)
    normaliser: Mapping[str, Scale] = field(default_factory=dict)  # observation or action -> scale
    deployable: bool = True
    seed: int = 0
    episodes: tuple[str, ...] = ()  # calibration episodes that were learned from or that fitted the normaliser
    training: Mapping[str, Json] = field(default_factory=dict)  # algorithm, settings, steps, final figures
    ledger: LedgerHead | None = None

    def __post_init__(self) -> None:
        if self.deployable and self.contract.privileged:
            raise PolicyError(
                f"a deployable policy observes {', '.join(self.contract.privileged)}, which the real robot cannot "
                "measure. Distil it into a student, or mark it deployable=False."
            )
        known = {channel.name for channel in (*self.contract.observations, *self.contract.actions)}
        unknown = sorted(set(self.normaliser) - known)
        if unknown:
            raise PolicyError(f"the normaliser scales {', '.join(unknown)}, which the contract does not have.")
        for name, array in self.weights.items():
            if np.asarray(array).dtype.kind not in "fiub":
                raise PolicyError(f"the weights {name!r} are of type {np.asarray(array).dtype}; numbers are needed.")
            if not np.isfinite(array).all():
                raise PolicyError(f"the weights {name!r} hold NaN or infinity: training diverged. Train again.")
        settle(
            self,
            parents=Frozen(self.parents),
            normaliser=Frozen(self.normaliser),
            weights=Frozen(
                {name: frozen_array(array, np.asarray(array).dtype) for name, array in self.weights.items()}
            ),
            architecture=frozen_json(self.architecture, "architecture", PolicyError),
            training=frozen_json(self.training, "training", PolicyError),
        )

    def part_hashes(self) -> dict[str, str]:
        return {name: hash_array(array) for name, array in self.weights.items()}

    def write_parts(self, folder: Path) -> None:
        from safetensors.numpy import save

        if self.weights:
            (folder / WEIGHTS).write_bytes(save(dict(self.weights)))

    @classmethod
    def read_parts(cls, folder: Path, head: Mapping[str, Json]) -> dict[str, Any]:
        return {"weights": read_weights(folder / WEIGHTS) if (folder / WEIGHTS).exists() else {}}


def read_weights(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file; its header is checked against its size before anything is allocated."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        weights: dict[str, np.ndarray] = load_file(path)
    except (SafetensorError, OSError, ValueError, KeyError) as problem:
        raise PolicyError(f"{path} is no readable safetensors file ({problem}). Restore it, or train again.") from None
    return weights


def require_same(wanted: Contract, found: Contract, where: str) -> None:
    """Refuses a policy, checkpoint or robot whose contract is another one, and shows the difference."""
    told = difference(wanted, found)
    if told:
        raise PolicyError(
            f"{where} has another contract than is needed here: {'; '.join(told)}. Train it for this one."
        )


def difference(wanted: Contract, found: Contract) -> tuple[str, ...]:
    """How the contract found differs from the one wanted, in sentences; empty when they are the same."""
    told: list[str] = []
    for side in ("observations", "actions"):
        told += _differing_channels(side[:-1], getattr(wanted, side), getattr(found, side))
    for name in ("rate_hz", "delay_s", "history", "chunk"):
        a, b = getattr(wanted, name), getattr(found, name)
        if a != b:
            told.append(f"{name} is {b}, wanted {a}")
    return tuple(told)


def _differing_channels(side: str, wanted: tuple[Channel, ...], found: tuple[Channel, ...]) -> Iterator[str]:
    names, have = [channel.name for channel in wanted], [channel.name for channel in found]
    yield from (f"{side} {name!r} is missing" for name in names if name not in have)
    yield from (f"{side} {name!r} is not wanted" for name in have if name not in names)
    common = [name for name in names if name in have]
    if common != [name for name in have if name in names]:
        yield f"{side}s are in the order {', '.join(have)}, wanted {', '.join(names)}"
    for name in common:
        a, b = wanted[names.index(name)], found[have.index(name)]
        for entry in fields(Channel):
            if getattr(a, entry.name) != getattr(b, entry.name):
                yield f"{side} {name!r} has {entry.name} {getattr(b, entry.name)!r}, wanted {getattr(a, entry.name)!r}"
