"""MuJoCo without its stopwatches: a step reads the clock some thirty times, a tenth of a small model's time.

The Python package puts a clock into the engine and offers no way to take it out; the engine itself steps without one.
What is computed is the same to the last bit; `MjData.timer` counts calls but no seconds.
"""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path

CLOCK = "mjcb_time"  # the engine's own name for it
ENGINES = ("libmujoco.so*", "libmujoco*.dylib", "mujoco.dll")


@functools.cache
def stop_clocks() -> bool:
    """Takes the package's clock out of the engine, once; one that somebody else put in stays. Whether it did so."""
    import mujoco

    folder = Path(mujoco.__file__).parent
    if mujoco.get_mjcb_time() is not None:
        return False
    for engine in (path for pattern in ENGINES for path in sorted(folder.glob(pattern))):
        try:
            ctypes.c_void_p.in_dll(ctypes.CDLL(str(engine)), CLOCK).value = None
        except (OSError, ValueError):  # another build of the engine: it steps with its clock
            continue
        return True
    return False
