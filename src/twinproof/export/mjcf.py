"""MJCF: the twin's own scene and its files, which is the truth of its physics, checked by loading it again."""

from __future__ import annotations

import shutil
from pathlib import Path

from twinproof.export.subject import Subject, Written
from twinproof.nouns.errors import TwinError
from twinproof.sim.references import files_of
from twinproof.sim.scene import Scene, engine
from twinproof.sim.warp_check import warp_says


def write_mjcf(subject: Subject, folder: Path) -> Written:
    """Writes mjcf/scene.xml with every file it names below mjcf/; what it leaves out."""
    target = folder / "mjcf"
    for name in ("scene.xml", *files_of(subject.scene.xml)):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(subject.twin.path(name), target / name)
    again = Scene.read(target / "scene.xml")
    if again.hash != subject.scene.hash:
        raise TwinError(
            f"{target}/scene.xml does not load as the scene of {subject.twin.root}. Its files changed meanwhile."
        )
    lost = (
        "splats, cameras' errors, sources and audits (they stay in the twin)",
        "colours of vertices in mesh files: MuJoCo shows materials and textures only",
    )
    return Written(lost, (f"{engine()} compiles and steps it", warp_says(again)))
