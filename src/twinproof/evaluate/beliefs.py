"""Which world a trial of the twin runs in: nominal, at the point, or a draw; on objects never seen, of their family."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from twinproof.nouns.drive import Drive
from twinproof.nouns.errors import PanelError
from twinproof.nouns.panel import Cell, Condition
from twinproof.nouns.posterior import Posterior
from twinproof.nouns.randomization import Randomization
from twinproof.nouns.randomness import stream
from twinproof.nouns.theta import Theta
from twinproof.nouns.twin import Twin
from twinproof.sim.scene import Scene

OBJECT = "object"  # the label that names a condition's object


@dataclass(frozen=True, eq=False)
class Beliefs:
    """A twin, and what is known of its parameters: a posterior, ranges, or neither. Ranges are drawn from where both
    are given, as training draws from them; the point is the posterior's.

    `rebuilt` is a twin made again from the holdout: for comparison only.
    """

    twin: Twin
    posterior: Posterior | None = None
    randomization: Randomization | None = None
    rebuilt: Twin | None = None

    def theta(self, cell: Cell) -> Theta:
        """The parameters of a trial's world: one for a condition and repeat, whatever the policy.

        Where ranges also draw how an episode begins, that is left out: the panel says how a trial begins.
        """
        return _without_starts(self._theta(cell))

    @property
    def drawable(self) -> bool:
        """Whether there is anything to draw from."""
        return self.posterior is not None or self.randomization is not None

    def another(self, cell: Cell, number: int) -> Theta:
        """One of many draws for the same trial, whatever its domain."""
        seed = int(stream(cell.seed, "evaluate", "another", str(number)).integers(2**31))
        return _without_starts(self.draw(cell.condition, seed))

    def _theta(self, cell: Cell) -> Theta:
        match cell.domain.kind:
            case "nominal":
                return Theta()
            case "twin":
                return self.point(cell.condition)
            case "draws":
                return self.draw(cell.condition, cell.seed)
            case "rebuilt":
                if self.rebuilt is None:
                    raise PanelError(
                        f"the domain {cell.domain.name!r} is a twin rebuilt from the holdout, and none was given. Give "
                        "it with --rebuilt."
                    )
                return Theta(self.point(cell.condition) | self.rebuilt.start)
            case _:
                raise PanelError(f"the domain {cell.domain.name!r} is reality: its parameters are nobody's to choose.")

    @property
    def best(self) -> Theta:
        """The best single value of every parameter; of a family of objects, its centre."""
        if self.posterior is not None:
            return self.twin.start | self.posterior.point()
        return self.twin.start | (Theta() if self.randomization is None else self.randomization.point())

    def point(self, condition: Condition) -> Theta:
        """The same, for the condition's object where calibration saw it."""
        family = None if self.posterior is None else self.posterior.population
        if self.posterior is None or family is None or condition.labels.get(OBJECT) not in family.instances:
            return self.best
        values = family.values[:, family.instances.index(condition.labels[OBJECT])]
        return self.best | dict(zip(family.parameters, (self.posterior.weights @ values).tolist(), strict=True))

    def draw(self, condition: Condition, seed: int) -> Theta:
        """One draw. Of an object that calibration never saw, the family's parameters are those of a new instance."""
        rng = stream(seed, "evaluate", "draw")
        if self.randomization is not None:
            return self.twin.start | self.randomization.draw(rng)
        if self.posterior is None:
            raise PanelError(
                "the panel has a domain of draws, and neither a posterior nor ranges were given to draw from. Give "
                "--posterior or --randomization."
            )
        family = self.posterior.population
        if family is None or condition.labels.get(OBJECT) not in family.instances:
            return self.twin.start | self.posterior.draw_new(rng)
        row = int(rng.choice(len(self.posterior.draws), p=self.posterior.weights))
        drawn = dict(zip(self.posterior.ids, self.posterior.draws[row].tolist(), strict=True))
        own = family.values[row, family.instances.index(condition.labels[OBJECT])]
        return self.twin.start | drawn | dict(zip(family.parameters, own.tolist(), strict=True))

    @property
    def drive(self) -> Drive | None:
        """What moves the twin beside its parameters, as it was identified."""
        known = self.randomization if self.posterior is None else self.posterior
        return None if known is None else known.drive

    def drive_of(self, kind: str) -> Drive | None:
        """The drive in a kind of domain: a nominal one has none, as it has no identified parameter."""
        return None if kind == "nominal" else self.drive

    def scene(self, kind: str) -> Scene:
        """The twin's scene in a kind of domain."""
        return Scene.of(self.twin, self.drive_of(kind))

    def check_parents(self) -> None:
        """Posterior and ranges are of this twin, or an error says whose they are."""
        for name, thing in (("posterior", self.posterior), ("randomization", self.randomization)):
            stated = None if thing is None else thing.parents.get("twin")
            if stated is not None and stated != self.twin.hash:
                raise PanelError(
                    f"the {name} belongs to the twin {stated[:16]}, and this is {self.twin.hash[:16]}. Give what "
                    "was found for it."
                )

    @property
    def parents(self) -> dict[str, str]:
        """The hashes of all of these, by name."""
        named = {"twin": self.twin, "posterior": self.posterior, "randomization": self.randomization}
        found = {name: thing.hash for name, thing in named.items() if thing is not None}
        return found if self.rebuilt is None else {**found, "rebuilt": self.rebuilt.hash}


def _without_starts(theta: Theta) -> Theta:
    return Theta({id: value for id, value in theta.items() if not id.rpartition(".")[2].startswith("start")})


def blind_order(cells: Iterable[Cell], seed: int) -> tuple[list[Cell], list[str]]:
    """The cells in the order in which they are run, and the code that stands for each while they are.

    A code says nothing of the policy: whoever sits at the robot sees it and the condition alone.
    """
    listed = list(cells)
    rng = stream(seed, "evaluate", "order")
    order = [int(k) for k in rng.permutation(len(listed))]
    letters = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"  # none that are mistaken for another
    codes: list[str] = []
    while len(codes) < len(listed):
        code = "".join(letters[k] for k in rng.integers(0, len(letters), 5))
        if code not in codes[-4096:]:
            codes.append(code)
    return [listed[k] for k in order], codes


def place_of(cells: Iterable[Cell]) -> dict[tuple[str, str, str, int], int]:
    """Where each cell stands among all of a panel."""
    return {(c.policy, c.condition.name, c.domain.name, c.repeat): k for k, c in enumerate(cells)}


def spread(thetas: Iterable[Theta]) -> dict[str, tuple[float, float]]:
    """The range of every parameter over some worlds, for the summary."""
    rows: dict[str, list[float]] = {}
    for theta in thetas:
        for id, value in theta.items():
            rows.setdefault(id, []).append(value)
    return {id: (float(np.min(values)), float(np.max(values))) for id, values in sorted(rows.items())}
