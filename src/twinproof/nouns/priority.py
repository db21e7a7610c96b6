"""A library that makes its caller's thread real-time is put back to where it found it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

THREADS = Path("/proc/self/task")


@contextlib.contextmanager
def kept_priority() -> Iterator[None]:
    """What runs inside may change how this thread is scheduled, or start threads that differ from it: all are put back.

    SVT-AV1, opened by root, makes the thread that opened it SCHED_FIFO with priority 99, for ever, and every process
    that it starts inherits that. Such a process takes a core away from everybody, its own helper threads included.
    """
    if not hasattr(os, "sched_setscheduler") or not THREADS.is_dir():
        yield  # only Linux lets a thread's scheduling be read and set
        return
    policy, parameters, before = os.sched_getscheduler(0), os.sched_getparam(0), set(THREADS.iterdir())
    try:
        yield
    finally:
        for thread in [0, *(int(each.name) for each in set(THREADS.iterdir()) - before)]:
            with contextlib.suppress(ProcessLookupError):  # it has ended
                if os.sched_getscheduler(thread) != policy:
                    os.sched_setscheduler(thread, policy, parameters)
