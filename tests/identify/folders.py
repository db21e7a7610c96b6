"""A small recording of a pendulum, split into three parts, with the scene a user would state."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.sim.motions import PENDULUM, swing
from twinproof.guard.make import Grouping, make
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import Rig
from twinproof.nouns.split import Split

TRUTH = {
    "joint.hinge.damping": 0.08,
    "joint.hinge.frictionloss": 0.04,
    "body.bob.mass": 0.6,
    "actuator.hinge.gain": 1.2,
}


def recorded(objects: Mapping[str, float] | None = None, count: int = 5, seconds: float = 0.9) -> Recording:
    """Swings on different days; with `objects`, of bobs of different mass."""
    made = []
    for k in range(count):
        name, kg = list((objects or {"bob": 0.6}).items())[k % len(objects or "1")]
        labels = {"session": f"day_{k}", "object": name} if objects is None else {"object": name}
        made.append(swing(PENDULUM, {**TRUTH, "body.bob.mass": kg}, k, seconds, labels=labels, size=0.4))
    return Recording(Rig("pendulum"), tuple(made), {"kind": "test", "name": "made here"})


def split_folder(folder: Path, key: str = "session", **more: object) -> Split:
    """The folder with a split of a recording and a scene.xml beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "scene.xml").write_text(PENDULUM)
    return make(recorded(**more), folder / "split", Grouping((key,)))  # type: ignore[arg-type]
