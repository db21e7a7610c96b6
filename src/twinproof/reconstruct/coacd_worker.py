"""The process that runs CoACD: python -m twinproof.reconstruct.coacd_worker MESH PARTS THRESHOLD MOST SEED."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from twinproof.nouns.mesh_files import read_mesh


def main(source: str, target: str, threshold: str, most: str, seed: str) -> None:
    """Reads a mesh, cuts it, and writes the points of every part."""
    import coacd

    coacd.set_log_level("error")
    mesh = read_mesh(Path(source))
    parts = coacd.run_coacd(
        coacd.Mesh(mesh.vertices, mesh.faces),
        threshold=float(threshold),
        max_convex_hull=int(most),
        seed=int(seed),
    )
    arrays: dict[str, Any] = {f"points_{k}": np.asarray(found[0], np.float64) for k, found in enumerate(parts)}
    np.savez(target, count=np.array(len(parts)), **arrays)


if __name__ == "__main__":
    main(*sys.argv[1:])
