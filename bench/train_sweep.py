"""Settings of PPO at reach tried for both contenders alike, on seeds that are not scored.

`python -m bench.train_sweep OUT.jsonl [ours|sb3] [SEED ...]`: a line for each setting and seed, with the environment
steps and CPU-seconds until 95 % of the newest 400 episodes succeed. bench/train.py has what was chosen.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench import train, train_sb3

OWN = ("worlds", "kl")  # what Stable-Baselines3 has not, or has as its number of environments
# name -> what differs from the settings that both begin with
GRID: dict[str, dict[str, Any]] = {
    "as before": {},
    "spread 0.3": {"spread": 0.3},
    "batch 2048": {"batch": 2048},
    "epochs 10": {"epochs": 10},
    "discount 0.95": {"discount": 0.95},
    "rate 2e-3": {"learning_rate": 2e-3},
    "batch 2048, discount 0.95": {"batch": 2048, "discount": 0.95},
    "batch 2048, discount 0.95, epochs 10": {"batch": 2048, "discount": 0.95, "epochs": 10},
    "batch 2048, discount 0.95, spread 1": {"batch": 2048, "discount": 0.95, "spread": 1.0},
    "batch 2048, discount 0.95, rate 2e-3": {"batch": 2048, "discount": 0.95, "learning_rate": 2e-3},
    "batch 2048, discount 0.9": {"batch": 2048, "discount": 0.9},
    "batch 1024, discount 0.95, 2 minibatches": {"batch": 1024, "discount": 0.95, "minibatches": 2},
    "batch 2048, discount 0.95, trace 0.9": {"batch": 2048, "discount": 0.95, "trace": 0.9},
    "batch 2048, discount 0.95, kl 0.015": {"batch": 2048, "discount": 0.95, "kl": 0.015},
    "batch 2048, discount 0.95, kl 0.03": {"batch": 2048, "discount": 0.95, "kl": 0.03},
    "batch 2048, discount 0.95, 256 worlds": {"batch": 2048, "discount": 0.95, "worlds": 256},
}


def one(who: str, changes: dict[str, Any], seed: int) -> dict[str, Any]:
    """One run."""
    settings = replace(train_sb3.PLAIN, **{name: value for name, value in changes.items() if name not in OWN})
    if who == "sb3":
        return train.their_time("Dummy", 32, seed, settings)
    fields = {name: value for name, value in vars(settings).items() if name != "batch"}
    worlds = changes.get("worlds", train.WORLDS)
    ppo = replace(train.OURS, rollout=settings.batch // worlds, kl=changes.get("kl", 0.0), **fields)
    return train.our_time(seed, ppo, worlds, nthread=1)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("out", type=Path)
    asked.add_argument("who", choices=("ours", "sb3"))
    asked.add_argument("seeds", nargs="*", type=int, default=[10])
    asked.add_argument("--only", action="append")
    chosen = asked.parse_args()
    wanted = [name for name in GRID if chosen.who == "ours" or not set(OWN) & set(GRID[name])]
    for name in chosen.only or wanted:
        for seed in chosen.seeds:
            told = one(chosen.who, GRID[name], seed)
            line = json.dumps({"who": chosen.who, "name": name, "seed": seed, **told}, default=float)
            print(line, flush=True)
            with chosen.out.open("a") as file:
                file.write(line + "\n")


if __name__ == "__main__":
    main()
