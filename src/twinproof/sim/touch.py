"""Who touches whom, read from contact sensors: one row of numbers a world, with no search through contact lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import quoteattr

import mujoco
import numpy as np

from twinproof.nouns.errors import SimError
from twinproof.sim.parameters.base import names, nearest

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

    from twinproof.sim.scene import Scene

_END = "</mujoco>"


@dataclass(frozen=True, eq=False)
class Contacts:
    """For every world and pair: whether they touch, and the size of the force between them over the last step."""

    pairs: tuple[tuple[str, str], ...]
    touching: Bool[np.ndarray, "N pairs"]
    force_n: Float[np.ndarray, "N pairs"]


class TouchSensors:
    """Where the pairs' sensors lie in sensordata."""

    def __init__(self, model: Any, pairs: Sequence[tuple[str, str]]) -> None:
        self.pairs = tuple((first, second) for first, second in pairs)
        found = [int(model.sensor(_name(*pair)).adr[0]) for pair in self.pairs]
        self.address = np.array(found, dtype=np.int64)

    def read(self, sensordata: np.ndarray) -> Contacts:
        """The contacts in the sensor readings (N, ns) of many worlds."""
        count = sensordata[:, self.address]
        force = sensordata[:, self.address[:, None] + np.arange(1, 4)]
        return Contacts(self.pairs, count > 0, np.linalg.norm(force, axis=-1))


def with_touch(scene: Scene, pairs: Sequence[tuple[str, str]]) -> Scene:
    """The scene with a contact sensor for each pair of geoms or bodies, after all its own sensors."""
    if not pairs:
        return scene
    for first, second in (pair for k, pair in enumerate(pairs) if pair in pairs[:k]):
        raise SimError(f"touch has the pair {(first, second)} twice. Name each pair once.")
    model = scene.nominal()
    sensors = "".join(
        f"<contact name={quoteattr(_name(first, second))} {_side(model, first)}1={quoteattr(first)} "
        f'{_side(model, second)}2={quoteattr(second)} data="found force" reduce="netforce" num="1"/>'
        for first, second in pairs
    )
    body, end, rest = scene.xml.rpartition(_END)
    if not end:
        raise SimError("contact sensors need a scene in MJCF; this one is not. Save it as MJCF first.")
    return replace(scene, xml=f"{body}<sensor>{sensors}</sensor>{end}{rest}")


def _name(first: str, second: str) -> str:
    return f"touch {first} {second}"


def _side(model: Any, name: str) -> str:
    for kind in ("geom", "body"):
        if mujoco.mj_name2id(model, getattr(mujoco.mjtObj, f"mjOBJ_{kind.upper()}"), name) >= 0:
            return kind
    known = (*names(model, "geom"), *names(model, "body"))
    raise SimError(f"the model has no geom or body {name!r} that could touch. {nearest(name, known)}")
