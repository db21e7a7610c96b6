"""A hand-held camera round a bench: posed pictures that can be fitted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from twinproof.ingest.posed_views import posed_views
from twinproof.lab.scan import scan
from twinproof.nouns.errors import ConfigError


def test_a_scan_is_read_as_posed_views_and_differs_by_seed(tmp_path: Path) -> None:
    for seed in (0, 1):
        scan("push", seed, tmp_path / str(seed), pictures=4, size=(48, 36))
    one, other = (posed_views(tmp_path / str(seed)) for seed in (0, 1))
    assert len(one) == 4
    assert one.views[0].rgb.shape == (36, 48, 3)
    assert one.views[0].intrinsics.cx == pytest.approx(23.5)
    assert not np.array_equal(one.views[0].rgb, other.views[0].rgb)
    for view in one.views:
        ahead = view.T_world_camera[:3, 2]
        assert ahead @ (np.array([0.32, 0, 0.06]) - view.T_world_camera[:3, 3]) > 0.3


def test_a_scan_that_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing to look at"):
        scan("pendulum", 0, tmp_path / "a")
    with pytest.raises(ConfigError, match="2 pictures cannot be a scan"):
        scan("push", 0, tmp_path / "b", pictures=2)
