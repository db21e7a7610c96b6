"""The four benches by name."""

from __future__ import annotations

from twinproof.lab.bench import Bench
from twinproof.lab.drawer import Drawer
from twinproof.lab.handover import Handover
from twinproof.lab.pendulum import Pendulum
from twinproof.lab.push import Push
from twinproof.nouns.errors import ConfigError

BENCHES = ("pendulum", "push", "drawer", "handover")


def bench(name: str) -> Bench:
    """The bench of this name."""
    match name:
        case "pendulum":
            return Pendulum()
        case "push":
            return Push()
        case "drawer":
            return Drawer()
        case "handover":
            return Handover()
        case _:
            raise ConfigError(f"there is no bench {name!r}. Use one of {', '.join(BENCHES)}.")
