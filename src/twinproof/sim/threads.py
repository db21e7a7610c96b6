"""How many threads this process may use."""

from __future__ import annotations

import os


def threads_usable() -> int:
    """Cores that the process is allowed on; all of the machine where the system does not say."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
