"""A model's shape enters a twin through the object's block; the command builds models from what it is told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.reconstruct.test_generate_fit import OUTLINES, TABLE, turned_input
from twinproof.cli_reconstruct import _generator, _segmenter
from twinproof.nouns.errors import ConfigError, TwinError
from twinproof.nouns.source import Declared, Inferred
from twinproof.nouns.views import PosedView, Views
from twinproof.reconstruct.assemble import Thing
from twinproof.reconstruct.generate import HttpGenerator, InProcess, Subprocess
from twinproof.reconstruct.generate_block import generated
from twinproof.reconstruct.segmenters import GroundingDino, HttpSegmenter, Sam2, Sam3
from twinproof.sim.grid import Plane


def views(mask: bool = True) -> Views:
    made = []
    for k, outline in enumerate(OUTLINES):
        rgb = np.full((*outline.mask.shape, 3), 90, np.uint8)
        shown = outline.mask.astype(int) if mask else np.zeros(outline.mask.shape, int)
        made.append(PosedView(f"v/{k}", rgb, outline.intrinsics, outline.T_world_camera, mask=shown))
    return Views(tuple(made), groups=("background", "box"))


def test_a_models_shape_is_fitted_admitted_and_declared() -> None:
    assert TABLE[3] == 0.0
    model = InProcess(lambda *_: turned_input(), "boxes")
    found = generated(views(), "box", "box", Plane(), model)
    assert found.mesh.volume_m3 == pytest.approx(0.16 * 0.08 * 0.04, rel=0.08)
    assert min(found.silhouette_iou.values()) > 0.85
    assert found.made_by.startswith("made by boxes")
    assert isinstance(Thing(found).source("5" * 64), Declared)
    assert isinstance(Thing(replace(found, made_by="")).source("5" * 64), Inferred)
    with pytest.raises(TwinError, match="box is in no view at rest"):
        generated(views(mask=False), "box", "box", Plane(), model)


def test_models_are_constructed_from_the_command_line() -> None:
    assert _segmenter("") is None
    assert isinstance(_segmenter("http://127.0.0.1:8000"), HttpSegmenter)
    assert _segmenter("sam2:large.pt") == Sam2("large.pt")
    assert _segmenter("sam3:three.pt") == Sam3("three.pt")
    assert _segmenter("dino:folder+sam2:large.pt") == GroundingDino("folder", Sam2("large.pt"))
    for wrong in ("sam2:", "dino:folder", "magic"):
        with pytest.raises(ConfigError, match="is none of http"):
            _segmenter(wrong)
    assert _generator("") is None
    assert isinstance(_generator("http://127.0.0.1:8000"), HttpGenerator)
    assert _generator("python3 make.py --fast") == Subprocess(("python3", "make.py", "--fast"))
