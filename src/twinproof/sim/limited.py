"""Limits for a process that opens what strangers made: from there on it can neither eat the machine nor write to it."""

from __future__ import annotations

import resource
from pathlib import Path


def limit(memory_bytes: int, cpu_s: int, file_bytes: int = 1 << 20) -> None:
    """From here on this process may use this much more memory and time, write files of this size, and leave no core."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    for kind, most in (
        (resource.RLIMIT_AS, used + memory_bytes),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_FSIZE, file_bytes),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, hard))
