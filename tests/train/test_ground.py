"""What a training run stands on."""

from tests.train.folders import ranges
from twinproof.nouns.theta import Theta
from twinproof.train.ground import _known


def test_an_expert_is_told_the_points_of_what_was_found_out():
    assert _known(None) == Theta()
    assert dict(_known(ranges())) == {"body.bob.mass": 0.5, "joint.hinge.damping": 0.05}
