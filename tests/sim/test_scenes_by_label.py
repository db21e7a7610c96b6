"""Which scene an episode happened in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sim.motions import PENDULUM
from twinproof.nouns.errors import ConfigError
from twinproof.sim.scene import Scene
from twinproof.sim.scenes_by_label import scene_for, scenes_of


def test_scenes_are_found_for_the_labels_that_occur(tmp_path: Path) -> None:
    for name in ("box", "can", "unused"):
        (tmp_path / f"scene_{name}.xml").write_text(PENDULUM)
    found = scenes_of(f"{tmp_path}/scene_{{object}}.xml", [{"object": "box"}, {"object": "can"}, {"session": "day"}])
    assert set(found) == {"object"}
    assert set(found["object"]) == {"box", "can"}
    assert scenes_of(None, []) == {}
    with pytest.raises(ConfigError, match="names no label"):
        scenes_of("}{", [])


def test_a_label_chooses_the_scene_and_without_one_it_is_the_usual() -> None:
    usual, other = Scene(PENDULUM), Scene(PENDULUM.replace("bob", "weight"))
    scenes = {"object": {"weight": other}}
    assert scene_for({"object": "weight"}, scenes, usual) == other.leaner()
    assert scene_for({"object": "else"}, scenes, usual) is usual
    assert scene_for({}, {}, usual) is usual
