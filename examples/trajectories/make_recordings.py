"""Stands in for your logger: a driven pendulum, integrated here without MuJoCo, written as CSV files in degrees."""

import csv
import math
import random
import sys
from pathlib import Path

MASS_KG, LENGTH_M, DAMPING, FRICTION_NM, STEP_S = 0.8, 0.35, 0.03, 0.04, 1e-4


def run(folder: Path, seed: int, seconds: float) -> None:
    """One episode: a torque of a few sines, and what the encoder saw."""
    rng = random.Random(seed)
    sines = [(rng.uniform(0.3, 0.9), rng.uniform(0.3, 1.6), rng.uniform(0, 6.28)) for _ in range(3)]
    angle, speed, rows = rng.uniform(-0.4, 0.4), 0.0, []
    for k in range(round(seconds / STEP_S)):
        time_s = k * STEP_S
        command = sum(size * math.sin(6.2832 * hertz * round(time_s, 2) + phase) for size, hertz, phase in sines)
        if k % 100 == 0:
            rows.append((time_s, math.degrees(angle + rng.gauss(0, 5e-4)), command))
        friction = FRICTION_NM * math.tanh(speed / 1e-3) + DAMPING * speed
        gravity = MASS_KG * 9.81 * LENGTH_M * math.sin(angle)
        speed += STEP_S * (command - friction - gravity) / (MASS_KG * LENGTH_M**2)
        angle += STEP_S * speed
    folder.mkdir(parents=True)
    for name, columns in (("state", (0, 1)), ("command", (0, 2))):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["time_s", "hinge"])
            table.writerows([[row[k] for k in columns] for row in rows])


if __name__ == "__main__":
    out, episodes, seconds = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    for k in range(episodes):
        run(out / f"run_{k}", k, seconds)
