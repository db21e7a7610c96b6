"""What every way to a posterior has in common: a problem with its point estimate in, weighted draws out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.identify.checkpoint import Checkpoint, packed, unpacked
from twinproof.identify.fit import Fit
from twinproof.identify.problem import Problem
from twinproof.nouns.hashing import Json
from twinproof.nouns.progress import Progress, quiet

if TYPE_CHECKING:
    from jaxtyping import Float


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws of the unknowns on their natural scale, inside the limits, with log weights that sum to one as weights."""

    unknowns: Float[np.ndarray, "N G"]
    log_weights: Float[np.ndarray, "N"]
    rollouts: int = 0  # windows simulated, beside those of the point estimate
    diagnostics: Mapping[str, Json] = field(default_factory=dict)

    def arrays(self) -> dict[str, np.ndarray]:
        """The same, to be kept."""
        told = packed({"rollouts": self.rollouts, "diagnostics": dict(self.diagnostics)})
        return {"unknowns": self.unknowns, "log_weights": self.log_weights, "told": told}

    @staticmethod
    def of_arrays(kept: Mapping[str, np.ndarray]) -> Draws:
        """What was kept."""
        told: Any = unpacked(kept["told"])
        return Draws(kept["unknowns"], kept["log_weights"], told["rollouts"], told["diagnostics"])


class Method(ABC):
    """A way to a posterior. All start from the Gauss–Newton fit; a user's own is as good as ours."""

    name: str

    @abstractmethod
    def infer(self, problem: Problem, fitted: Fit, rng: np.random.Generator, progress: Progress = quiet) -> Draws:
        """Draws of the unknowns."""

    def infer_kept(
        self, problem: Problem, fitted: Fit, rng: np.random.Generator, progress: Progress, keep: Checkpoint
    ) -> Draws:
        """The same; a method that simulates for long keeps what it has simulated, and goes on there."""
        return self.infer(problem, fitted, rng, progress)
