"""Where work runs: this process, a pool, a Ray cluster, Slurm; the same numbers everywhere."""
