"""A twin whose scene the user states: nothing is measured, and every part says so."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Literal

from twinproof.nouns.ledger import LedgerHead
from twinproof.nouns.parts import Calibration
from twinproof.nouns.source import Declared
from twinproof.nouns.twin import Alignment, Body, Twin
from twinproof.sim.parameters.base import names
from twinproof.sim.references import files_of
from twinproof.sim.scene import Scene, engine

LACKS = {"mesh": "the scene's own geoms", "splats": "nothing was reconstructed"}


def declared(scene: Scene, name: str, calibration: Calibration, folder: Path, ledger: LedgerHead | None = None) -> Twin:
    """The twin of a scene called `name`, its files copied into an empty `folder`; save it elsewhere."""
    (folder / "scene.xml").write_text(scene.xml, encoding="utf-8")
    copy_files(scene, folder)
    model: Any = scene.nominal()
    source = Declared(f"the user's scene {name}")
    bodies = tuple(
        Body(body, source, layer=_layer(model, k), lacks=LACKS) for k, body in enumerate(names(model, "body")) if k
    )
    return Twin(
        root=folder,
        bodies=bodies,
        alignment=Alignment(source),
        engine=engine(),
        episodes=calibration.ids,
        parents={"split": calibration.split},
        notes=(f"the scene is {name}, as the user states it; no image was looked at",),
        ledger=ledger,
    )


def copy_files(scene: Scene, folder: Path) -> None:
    """The files that a scene names, copied to where it will name them in `folder`."""
    for file in files_of(scene.xml):
        assert scene.root is not None, "a scene that names files has a root"
        target = folder / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(scene.root / file, target)


def _layer(model: Any, body: int) -> Literal["object", "robot", "background"]:
    """Driven bodies are the robot's, what never moves is background, the rest are objects."""
    driven = {int(joint) for joint in model.actuator_trnid[:, 0]}
    chain = list[int]()
    while body:
        chain += range(int(model.body_jntadr[body]), int(model.body_jntadr[body]) + int(model.body_jntnum[body]))
        body = int(model.body_parentid[body])
    if not chain:
        return "background"
    return "robot" if any(joint in driven for joint in chain) else "object"
