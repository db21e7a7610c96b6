"""The place that `--on` names: a text becomes an object here, and nowhere else."""

from __future__ import annotations

import os
from pathlib import Path

from twinproof.fleet.local import Here, Pool
from twinproof.fleet.spread import Where
from twinproof.nouns.errors import FleetError

PLACES = "here, pool, pool:N, ray, ray://HOST:PORT, slurm or slurm:PARTITION"


def place_of(text: str, folder: Path) -> Where:
    """Where work runs. Slurm writes its jobs and logs below `folder`, which all nodes see."""
    name, _, rest = text.partition(":")
    cores = os.cpu_count() or 1
    match name:
        case "" | "here" if not rest:
            return Here()
        case "pool" if not rest or (rest.isascii() and rest.isdigit()):
            return Pool(int(rest) if rest else cores)
        case "ray" if not rest or rest.startswith("//"):
            from twinproof.fleet.ray_cluster import RayCluster

            return RayCluster(text if rest else "", cpus=cores)
        case "slurm":
            from twinproof.fleet.slurm import Slurm

            return Slurm(folder / "slurm", partition=rest)
        case _:
            raise FleetError(f"--on {text!r} is no place for work. Use {PLACES}.")
