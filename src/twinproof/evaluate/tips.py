"""Where the arms' tips are: by the model that the rig names, by DH tables, or by both, and then how far they differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from twinproof.evaluate.dh import DhTable
from twinproof.evaluate.divergence import tip_gap
from twinproof.nouns.errors import RigError
from twinproof.nouns.files import inside
from twinproof.nouns.randomness import stream
from twinproof.nouns.rig import Rig

if TYPE_CHECKING:
    from jaxtyping import Float

POSTURES = 200  # random ones, at which model and table are compared


class Kinematics(Protocol):
    """What puts a tip in the world: a chain of a model, a DH table, or a user's own."""

    def poses(self, q: Float[np.ndarray, "T n"]) -> Float[np.ndarray, "T 4 4"]:
        """T_world_tip for every row of the arm's joints, in the order of the rig."""


@dataclass(frozen=True)
class Tips:
    """The kinematics of the arms that have one, where it comes from, and what was found out on the way."""

    arms: Mapping[str, Kinematics] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def tips_of(rig: Rig, folder: Path | None, tables: Mapping[str, DhTable] | None = None) -> Tips:
    """The tips of a rig whose model lies in `folder`. The model is believed where both are given; the gap is told."""
    tables = dict(tables or {})
    names = [arm.name for arm in rig.arms]
    for name in tables:
        if name not in names:
            raise RigError(f"a DH table is for the arm {name!r}; the rig has {', '.join(names) or 'none'}.")
    arms: dict[str, Kinematics] = dict(tables)
    notes = [f"{name}: tip by its DH table" for name in tables]
    if rig.model is not None and folder is not None and any(arm.tip for arm in rig.arms):
        from twinproof.sim.kinematics import chain_of
        from twinproof.sim.scene import Scene

        scene = Scene.read(inside(folder, rig.model.path, RigError))
        for arm in rig.arms:
            if arm.tip is None:
                continue
            chain = chain_of(scene, arm.joints, arm.tip)
            arms[arm.name] = chain
            if arm.name in tables:
                notes.append(_difference(rig, arm.name, chain, tables[arm.name]))
            else:
                notes.append(f"{arm.name}: tip {arm.tip!r} by the chain of {rig.model.path}")
    notes += [f"{name}: no tip error, as the rig names no model or no tip" for name in names if name not in arms]
    return Tips(arms, tuple(notes))


def _difference(rig: Rig, name: str, chain: Kinematics, table: DhTable) -> str:
    """How far model and table put the tip apart, over the joints' ranges."""
    arm = next(arm for arm in rig.arms if arm.name == name)
    ranges = {joint.name: joint.range or (-np.pi, np.pi) for joint in rig.joints}
    low, high = np.array([ranges[joint] for joint in arm.joints]).T
    q = stream(0, "evaluate", "postures").uniform(low, high, (POSTURES, len(low)))
    gap = tip_gap(name, np.arange(POSTURES), chain.poses(q), table.poses(q))
    return (
        f"{name}: tip by the model; its DH table is at most {1e3 * gap.position_m.max():.3g} mm and "
        f"{np.degrees(gap.orientation_rad.max()):.3g}° away over {POSTURES} postures"
    )
