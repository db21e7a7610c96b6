"""Random numbers come from named streams: the same draw whatever the number or order of workers."""

import zlib

import numpy as np


def stream(seed: int, *path: str) -> np.random.Generator:
    """A generator that depends on the seed and the path of names alone."""
    return np.random.default_rng([seed, *(zlib.crc32(name.encode()) for name in path)])
