"""Whether MuJoCo Warp takes a scene: it knows most of MuJoCo, and says no to the rest when a model is put on it."""

from __future__ import annotations

import importlib.util
import logging

from twinproof.sim.scene import Scene


def warp_says(scene: Scene) -> str:
    """One line: that it loads, why it does not, or that nobody could be asked here."""
    if importlib.util.find_spec("mujoco_warp") is None:
        return "mujoco_warp was not asked: it is not installed here (extra gpu)"
    import warp

    # Before mujoco_warp is imported, which starts it: no greeting. Older versions look at the one, newer at the other.
    warp.config.quiet, warp.config.log_level = True, logging.WARNING
    import mujoco_warp

    try:
        mujoco_warp.put_model(scene.nominal())
    except (NotImplementedError, ValueError, RuntimeError) as problem:
        return f"mujoco_warp refuses it: {problem}"
    return f"mujoco_warp {getattr(mujoco_warp, '__version__', '')} takes it (put_model)"
