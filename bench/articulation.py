"""Joints from tracked motion: a drawer opened by 10 cm and a door by 30°, tracked with 2 mm and 1° a component.

python -m bench.articulation
"""

from __future__ import annotations

import time

import numpy as np
from tests.reconstruct.test_articulation import CLOSED, SHIFT, TURN, off_axis, off_line, track

from twinproof.reconstruct.articulation import Kind, articulation

TRACKS = 20


def main() -> None:
    """Prints the table of bench/results/articulation.md."""
    print("| body, frames, outliers | right kind | axis ° (median, worst) | origin mm | stated sd °, mm | CPU-s |")
    print("|---|---|---|---|---|---|")
    for kind, span in ((Kind.SLIDE, 0.1), (Kind.HINGE, np.radians(30))):
        for frames, outliers in ((100, 0.0), (100, 0.1), (300, 0.0)):
            began, rows = time.process_time(), []
            for seed in range(TRACKS):
                found = articulation(track(kind, span, frames, 1000 + seed, outliers), TURN, SHIFT)
                if found.kind is kind:
                    assert found.origin is not None
                    place = (
                        off_line(found) if kind is Kind.HINGE else 1e3 * np.linalg.norm(found.origin - CLOSED[:3, 3])
                    )
                    rows.append((off_axis(found), place, found.axis_sd_deg, found.origin_sd_mm))
            mid, worst = np.median(rows, axis=0), np.max(rows, axis=0)
            cpu = (time.process_time() - began) / TRACKS
            print(
                f"| {kind}, {frames}, {100 * outliers:.0f} % | {len(rows)} of {TRACKS} | {mid[0]:.2f}, "
                f"{worst[0]:.2f} | {mid[1]:.1f}, {worst[1]:.1f} | {mid[2]:.2f}, {mid[3]:.1f} | {cpu:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
