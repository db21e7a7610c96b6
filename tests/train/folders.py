"""A pendulum's twin and ranges in folders, small enough to be learned within a test."""

from __future__ import annotations

from pathlib import Path

from tests.sim.motions import PENDULUM
from twinproof.nouns.randomization import Randomization, Range
from twinproof.nouns.source import Declared
from twinproof.nouns.twin import Alignment, Body, Twin
from twinproof.sim.parameters.resolve import parameter
from twinproof.sim.scene import Scene, engine

# a motor that can hold the bob anywhere, and a step that ticks are whole numbers of
SCENE = PENDULUM.replace('timestep="0.004"', 'timestep="0.005"').replace(
    '<motor name="hinge"', '<motor ctrllimited="true" ctrlrange="-2 2" name="hinge"'
)
SOURCE = Declared("written for a test")


def scene() -> Scene:
    return Scene(SCENE)


def ranges() -> Randomization:
    """Masses and dampings of about the nominal ones."""
    return Randomization(
        tuple(
            Range(parameter(id).info, low, high, point, SOURCE, "dynamics", "the real one", "a fit", "it is a test")
            for id, low, high, point in (
                ("body.bob.mass", 0.4, 0.6, 0.5),
                ("joint.hinge.damping", 0.03, 0.08, 0.05),
            )
        ),
        {"posterior": "9" * 64},
    )


def folders(root: Path) -> tuple[Path, Path]:
    """A Twin folder and a Randomization folder."""
    (root / "scene").mkdir(parents=True)
    (root / "scene" / "scene.xml").write_text(SCENE)
    body = Body("bob", SOURCE, layer="robot", lacks={"mesh": "geoms", "splats": "no picture"})
    Twin(root / "scene", (body,), Alignment(SOURCE), engine(), (), {"split": "5" * 64}).save(root / "twin")
    ranges().save(root / "ranges")
    return root / "twin", root / "ranges"
