"""How much the tracking run's score depends on where windows begin: a few, near the upright, decide it.

python -m bench.double_pendulum_strides OUT.json    with what bench.double_pendulum wrote
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from bench.double_pendulum import BRISTLED, RULES, TRACKED_AT, best_published, gaps, scores
from bench.double_pendulum_data import TRACKING, XML, read

from twinproof.identify.actuator_fit import LAW, Matching
from twinproof.nouns.theta import Theta
from twinproof.sim.driven import Driven
from twinproof.sim.scene import Scene


def main(out: str) -> None:
    """Prints a row for each start rule and each distance between windows."""
    values = json.loads(Path(out).read_text())["ours"]["+ actuator law"]["values"]
    law = BRISTLED.having({name[len(LAW) :]: value for name, value in values.items() if name.startswith(LAW)})
    theta = Theta({name: value for name, value in values.items() if not name.startswith(LAW)})
    driven, log = Driven(Scene(XML).leaner(), ("qpos",)), read(TRACKING)
    for rule in RULES:
        for stride in (125, 50, 25, 10):
            method = Matching(length=250, stride=stride)
            gap = gaps(driven, log, rule, method, theta, law)
            mine = scores(gap, TRACKED_AT)[-1]
            best = min(best_published([log], name, rule, method, TRACKED_AT)["degrees"][-1] for name in ("1.0", "2.0"))
            each = np.degrees(np.sqrt((gap[:, -1] ** 2).mean(axis=1)))
            print(
                f"{rule:9} every {2 * stride:3} ms, {len(gap):3} windows: published {best:6.2f}, ours {mine:6.2f}, "
                f"ratio {mine / best:.2f}; ours' median {np.median(each):.2f}, worst {each.max():.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1])
