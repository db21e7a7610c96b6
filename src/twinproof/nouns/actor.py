"""An actor: anything that turns observations into actions, for many worlds at once.

Networks, ONNX graphs, scripts, planners and servers all come behind this one interface; who drives a twin or a robot
with it does not know which.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from twinproof.nouns.policy import Contract


class Actor(Protocol):
    """Acts in N worlds at once, each world on its own: what one world sees never changes what another is told.

    `reset` forgets, in the worlds of the mask, whatever was remembered; with another count it begins anew. `act` takes
    each observation of the contract by name, (N, *shape), and gives (N, chunk, actions) in the contract's order and
    units: not clipped, not delayed; limits and delays belong to who drives.
    """

    contract: Contract

    def reset(self, count: int, seed: int, which: np.ndarray | None = None) -> None: ...

    def act(self, observations: Mapping[str, np.ndarray]) -> np.ndarray: ...
