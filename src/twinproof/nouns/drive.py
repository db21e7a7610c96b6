"""What moves a twin beside its parameters, adopted on validation: a model of its motors, and of what is missed.

drive in posterior.json   numbers of the motors, the parameters that go with them, what the arrays mean
drive.npz                 arrays of a history network and of a residual model, where there are such
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from twinproof.nouns.artifact import read_arrays, write_arrays
from twinproof.nouns.errors import PosteriorError, TwinproofError
from twinproof.nouns.frozen import Frozen, frozen_array, frozen_json, settle
from twinproof.nouns.hashing import Json, content_hash, hash_array
from twinproof.nouns.strict import plain
from twinproof.nouns.theta import Theta

FILE = "drive.npz"
NETWORK, RESIDUAL = "network", "residual"
HEAD = ("motors", "parameters", NETWORK, RESIDUAL)


@dataclass(frozen=True, eq=False)
class Drive:
    """Numbers and arrays only; sim/drive.py makes a force law of them. It holds at least one of the three.

    Parameters are id -> (value without the drive, value with it): a Theta that has the id is moved by the difference.
    """

    motors: Mapping[str, Json] = field(default_factory=dict)  # actuator -> gain, delay_s, saturation, …, friction
    parameters: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    network: Mapping[str, Json] = field(default_factory=dict)  # of a history network; its arrays are network/…
    residual: Mapping[str, Json] = field(default_factory=dict)  # of a residual model; its arrays are residual/…
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        settle(
            self,
            motors=frozen_json(self.motors, "motors", PosteriorError),
            parameters=Frozen({id: (float(a), float(b)) for id, (a, b) in self.parameters.items()}),
            network=frozen_json(self.network, NETWORK, PosteriorError),
            residual=frozen_json(self.residual, RESIDUAL, PosteriorError),
            arrays=Frozen({name: frozen_array(value) for name, value in sorted(self.arrays.items())}),
        )
        if not (self.motors or self.network or self.residual):
            raise PosteriorError("a drive without motors, network and residual model moves nothing. Leave it out.")
        for name, told in ((NETWORK, self.network), (RESIDUAL, self.residual)):
            mine = [each for each in self.arrays if each.startswith(f"{name}/")]
            if bool(told) != bool(mine):
                raise PosteriorError(
                    f"the drive has {len(mine)} arrays of its {name}, and {'a' if told else 'no'} description of it. "
                    "Fit it again with twinproof identify."
                )

    @cached_property
    def hash(self) -> str:
        """Names the whole content."""
        return content_hash([self.head(), self.part_hashes()])

    def applied(self, theta: Theta) -> Theta:
        """The Theta that holds beside the drive. Damping and friction may end at zero, and not below."""
        moved = {
            id: max(theta[id] + after - before, 0.0) if id in theta else after
            for id, (before, after) in self.parameters.items()
        }
        return theta | moved

    def part(self, name: str) -> dict[str, np.ndarray]:
        """The arrays of the network, or of the residual model, by their own names."""
        return {key.partition("/")[2]: value for key, value in self.arrays.items() if key.startswith(f"{name}/")}

    @property
    def told(self) -> str:
        """What it is, in a few words."""
        parts = [f"actuator model of {', '.join(self.motors)}"] if self.motors else []
        parts += ["history network"] if self.network else []
        parts += ["residual dynamics"] if self.residual else []
        return " and ".join(parts)

    def head(self) -> dict[str, Json]:
        """All but the arrays, as plain data."""
        return {name: plain(getattr(self, name)) for name in HEAD}

    def part_hashes(self) -> dict[str, str]:
        """The hash of every array."""
        return {f"drive/{name}": hash_array(array) for name, array in self.arrays.items()}

    def write(self, folder: Path) -> None:
        """Writes the arrays, where there are some."""
        if self.arrays:
            write_arrays(folder / FILE, self.arrays)

    @classmethod
    def read(cls, folder: Path, head: Mapping[str, Any], error: type[TwinproofError]) -> Drive:
        """The drive of a folder, from what its JSON tells."""
        arrays = read_arrays(folder / FILE, error) if (folder / FILE).is_file() else {}
        if set(head) != set(HEAD):
            raise error(f"{folder}: its drive has {', '.join(sorted(head))}; needed are {', '.join(HEAD)}.")
        pairs = {id: (float(pair[0]), float(pair[1])) for id, pair in head["parameters"].items()}
        return cls(head["motors"], pairs, head["network"], head["residual"], arrays)
