"""The picture of a retargeted motion: the tip and the object from above, heights, fingers and the error over time."""

from __future__ import annotations

from pathlib import Path

from twinproof.tasks.machine import Machine
from twinproof.train.retarget import Motion

HAND, TIP, OBJECT, MUTED = "#c8553d", "#1b6ca8", "#3c8d5a", "#888888"


def draw_motion(motion: Motion, machine: Machine, title: str, path: Path) -> None:
    """Writes a PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 4.8), dpi=130, layout="constrained")
    above, heights, errors = figure.subplot_mosaic([["a", "b"], ["a", "c"]], width_ratios=(1, 1.2)).values()
    above.plot(*motion.wanted_m[:, :2].T, color=HAND, lw=3, alpha=0.4, label="hand, carried over")
    above.plot(*motion.tip_m[:, :2].T, color=TIP, lw=1.2, label="robot's tip")
    above.plot(*motion.object_pose[:, :2].T, color=OBJECT, lw=2, label="object")
    above.plot(*motion.object_pose[0, :2], "s", color=OBJECT, ms=7)
    above.plot(*motion.tip_m[0, :2], "o", color=TIP, ms=6)
    above.set(xlabel="x (m)", ylabel="y (m)", title=title)
    above.set_aspect("equal", adjustable="datalim")
    heights.plot(motion.time_s, motion.wanted_m[:, 2], color=HAND, lw=3, alpha=0.4)
    heights.plot(motion.time_s, motion.tip_m[:, 2], color=TIP, lw=1.2)
    heights.plot(motion.time_s, motion.object_pose[:, 2], color=OBJECT, lw=1.6)
    heights.set(ylabel="height (m)")
    heights.fill_between(
        motion.time_s, 0, 1, where=motion.holding, transform=heights.get_xaxis_transform(), color=MUTED, alpha=0.15,
        lw=0, label="fingers about the object",
    )  # fmt: skip
    errors.plot(motion.time_s, 1e3 * motion.error_m, color="#222222", lw=1.2)
    errors.axhline(20, color=MUTED, lw=0.8, ls=":")
    errors.set(xlabel="time (s)", ylabel="error (mm)", ylim=(0, max(25.0, 1.1e3 * float(motion.error_m.max()))))
    for axis in (above, heights, errors):
        axis.grid(color="#e5e5e5", lw=0.6)
        axis.spines[["top", "right"]].set_visible(False)
    above.legend(frameon=False, fontsize=8)
    if motion.holding.any():
        heights.legend(frameon=False, fontsize=8)
    figure.savefig(path)
