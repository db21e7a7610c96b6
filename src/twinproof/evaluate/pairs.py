"""How far two traces of one trial, real and simulated, are apart."""

from __future__ import annotations

from twinproof.evaluate.divergence import course, gaps
from twinproof.evaluate.motion import motion_of, scale_of
from twinproof.nouns.episode import Episode
from twinproof.nouns.rig import Rig
from twinproof.nouns.trace import Trace

FEWEST = 4  # samples that both have, below which nothing is said
GAP_S = 0.5


def apart_rmse(real: Trace, sim: Trace, rig: Rig) -> float | None:
    """√ of the mean normalised MSE of the joints while both ran; None where that is too short to say."""
    if min(len(trace.signals["state"].time_s) for trace in (real, sim)) < FEWEST:
        return None
    scale = scale_of(rig)
    both = (Episode.of({"state": trace.signals["state"]}, {}) for trace in (real, sim))
    one, other = (
        motion_of(each, Rig(rig.robot), scale.joints, side)
        for each, side in zip(both, ("real", "simulated"), strict=True)
    )
    _, overall = gaps(course(one, other, 0.0, GAP_S), scale, one.where)
    return overall.total_rmse
