"""Pictures of one practice object, with poses as a reader of transforms.json understands them."""

import json

import numpy as np
import pytest

from twinproof.ingest.posed_views import posed_views
from twinproof.lab.population import instance
from twinproof.lab.turntable import turntable
from twinproof.nouns.errors import ConfigError


def test_every_picture_looks_at_the_object_and_the_truth_is_its_size(tmp_path):
    turntable("can_02", 0, tmp_path / "scan", 5, (48, 36))
    views = posed_views(tmp_path / "scan")
    assert len(views) == 5
    for view in views.views:
        ahead = view.T_world_camera[:3, 2]
        assert np.linalg.norm(view.T_world_camera[:3, 3] + 0.34 * ahead) < 0.003
        assert view.rgb[18, 24].max() > 60, "the object"
        assert np.median(view.rgb[0]) < 8, "the backdrop"
    told = json.loads((tmp_path / "scan" / "truth.json").read_bytes())
    assert tuple(told["half_m"]) == instance("can_02").half_m


@pytest.mark.parametrize(("name", "count"), [("drawer_00", 5), ("can_00", 2)])
def test_what_no_turntable_takes_is_refused(tmp_path, name, count):
    with pytest.raises(ConfigError, match="a turntable takes 3 or more"):
        turntable(name, 0, tmp_path / "scan", count)
