"""The streaming tracker's error becomes a range: measured in a rehearsal, declared where nobody rehearsed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.tasks.test_sight import twin as box_twin  # noqa: F401
from twinproof.nouns.errors import ConfigError
from twinproof.nouns.randomization import Randomization, Range
from twinproof.nouns.source import Declared
from twinproof.randomize import command, rehearsed
from twinproof.randomize.rehearsed import followable, rehearse, tracker_ranges
from twinproof.sim.parameters.resolve import parameter


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(rehearsed, "PICTURES", 4)


@pytest.fixture(scope="module")
def twin(box_twin):  # noqa: F811
    """The box, with its cameras in the scene too, so that draws can move them."""
    scene = (box_twin.root / "scene.xml").read_text()
    placed = ""
    for name, camera in box_twin.cameras.items():
        T = camera.mount.T_parent_camera
        x, y = (" ".join(map(str, axis)) for axis in (T[:3, 0], -T[:3, 1]))
        placed += f'<camera name="{name}" pos="{" ".join(map(str, T[:3, 3]))}" xyaxes="{x} {y}"/>'
    (box_twin.root / "scene.xml").write_text(scene.replace("</worldbody>", f"{placed}</worldbody>"))
    return replace(box_twin)


def ranges_of(**ends):
    ends = {"image.noise": (0.01, 0.01), **ends}
    found = [
        Range(parameter(id).info, low, high, low, Declared("planted"), "camera", "it", "a look", "planted")
        for id, (low, high) in ends.items()
    ]
    return Randomization(tuple(found), {})


def test_a_rehearsal_tells_what_stays_from_what_varies(twin, short):
    assert followable(twin) == ("box",)
    (exact,) = rehearse(twin, ranges_of(), "box", 1)
    assert exact.lost == 0
    assert max(exact.sizes().values()) < 0.003  # mm and thousandths of a rad: nothing is wrong here
    moved = ranges_of(
        **{f"camera.cam{k}.x": (c.mount.position_m[0] + 0.01,) * 2 for k, c in enumerate(twin.cameras.values())}
    )
    (off,) = rehearse(twin, moved, "box", 1)
    # every camera stands 10 mm further than the tracker believes: so does, to it, the box the other way
    assert off.off[:, 0].mean() == pytest.approx(-0.01, abs=0.002)
    assert off.sizes()["position_noise"] < 0.002


def test_what_was_rehearsed_is_measured_and_what_was_not_is_declared(twin, short):
    found, (note,) = tracker_ranges(twin, ranges_of(**{"image.latency": (0.0, 0.04)}), 1)
    ids = {entry.id: entry for entry in found}
    assert {"tracker.position_bias", "tracker.rotation_noise", "tracker.latency"} <= set(ids)
    assert all(entry.source.kind == "measured" and entry.gap == "sensor" for entry in found)
    assert ids["tracker.latency"].high > 0.04
    assert "rehearsed on box" in note
    declared, (note,) = tracker_ranges(twin, ranges_of(), 0)
    assert {entry.source.kind for entry in declared} == {"declared"}
    assert "was not rehearsed (--rehearse N) on box: its error is declared, not measured" in note


def test_an_object_that_is_never_seen_is_said(twin, monkeypatch, short):
    monkeypatch.setattr(rehearsed._Stage, "episode", lambda *_: rehearsed.Followed(np.zeros((0, 6)), 1.0, np.zeros(4)))
    declared, (note,) = tracker_ranges(twin, ranges_of(), 1)
    assert "saw nothing of box" in note
    assert {entry.source.kind for entry in declared} == {"declared"}


def test_a_rehearsal_needs_a_twin(tmp_path):
    asked = command.Asked(tmp_path, tmp_path / "out", None, None, None, 0.95, 1.0, None, True, False, None, 0, 2)
    with pytest.raises(ConfigError, match="--rehearse 2: the tracker is rehearsed in a whole number of episodes"):
        command.run(asked, lambda *_: None)
