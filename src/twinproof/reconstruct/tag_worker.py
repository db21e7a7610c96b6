"""Finds AprilTags in one picture and prints them: in a process of its own, as the detector now and then crashes.

python -m twinproof.reconstruct.tag_worker FAMILY < picture.npy      [[number, wrong bits, [[x, y] × 4]], …]
"""

from __future__ import annotations

import io
import json
import sys

import numpy as np


def main() -> None:
    """Reads the grey picture, writes JSON."""
    from pupil_apriltags import Detector

    picture = np.load(io.BytesIO(sys.stdin.buffer.read()), allow_pickle=False)
    found = Detector(families=sys.argv[1], nthreads=1, quad_decimate=1.0).detect(np.ascontiguousarray(picture))
    tags = [[int(tag.tag_id), int(tag.hamming), np.asarray(tag.corners, float).tolist()] for tag in found]
    sys.stdout.write(json.dumps(tags))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
