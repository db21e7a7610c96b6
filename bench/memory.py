"""Peak memory of every stage of the pendulum demo, children included, and of a recording ten times as long.

    python -m bench.memory WORK OUT.json

Memory is the sum of what a command and all that it started hold (RSS), looked at every 0.1 s: pages that two of them
share count twice, so it is an upper bound. Bars: the demo below 3 GB; ten times the recording, less than 10 % more.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

STAGES = ("lab", "ingest", "split", "reconstruct", "identify", "randomize", "train", "panel", "evaluate", "view",
          "evidence")  # fmt: skip
EVERY_S = 0.1
SHORT, LONG = 8, 80  # episodes
DEMO_GB, MORE = 3.0, 0.10
JOB = """
[lab]
bench = "pendulum"
episodes = {episodes}
to = "mcap"
[ingest]
source = "{{lab}}/dataset"
rig = "{{lab}}/rig.toml"
[split]
group_by = "none"
[reconstruct]
scene = "{{lab}}/scene.xml"
[identify]
parameters = ["joint.*.damping", "joint.*.frictionloss", "actuator.*.delay"]
horizons = "0.15"
"""


def family(first: int) -> list[int]:
    """A process and all its descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue  # it ended while we looked
            children.setdefault(parent, []).append(int(entry.name))
    found = [first]
    for each in found:
        found += children.get(each, [])
    return found


def held_kb(process: int) -> int:
    """What a process holds, or nothing where it has ended."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


def watched(*arguments: object) -> dict[str, float]:
    """Runs a command of twinproof; its peak in MB, and how long it took."""
    began = time.monotonic()
    command = [sys.executable, "-m", "twinproof.cli", *map(str, arguments)]
    going = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peak = 0
    while going.poll() is None:
        peak = max(peak, sum(map(held_kb, family(going.pid))))
        time.sleep(EVERY_S)
    if going.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} ended with {going.returncode}")
    return {"peak_mb": round(peak / 1024, 1), "wall_s": round(time.monotonic() - began, 1)}


def demo(work: Path) -> dict[str, Any]:
    """Each stage on its own: those before it are reused."""
    found = {}
    for stage in STAGES:
        found[stage] = watched("demo", "pendulum", "--out", work / "demo", "--until", stage)
        print(f"{stage}: {found[stage]['peak_mb']:.0f} MB", flush=True)
    return found


def longer(work: Path) -> dict[str, Any]:
    """The same robot and question, with few and with ten times as many episodes."""
    found: dict[str, Any] = {}
    for episodes in (SHORT, LONG):
        job = work / f"{episodes}.toml"
        job.write_text(JOB.format(episodes=episodes))
        for stage in ("lab", "ingest", "split", "reconstruct", "identify"):
            told = watched("run", job, "--out", work / f"run_{episodes}", "--until", stage)
            found.setdefault(stage, {})[str(episodes)] = told
            print(f"{episodes} episodes, {stage}: {told['peak_mb']:.0f} MB", flush=True)
    # Among few episodes none may look alike enough to be compared closely; then scipy's optimiser, 37 MB whatever the
    # length, is not loaded. With another threshold it is.
    closely = ("split", work / f"run_{SHORT}" / "recording", "--group-by", "none", "--threshold", 30)
    found["split"][str(SHORT)] = watched(*closely, "--out", work / "closely")
    for told in found.values():
        told["more"] = round(told[str(LONG)]["peak_mb"] / told[str(SHORT)]["peak_mb"] - 1, 3)
    return found


def main() -> None:
    """Measures everything, prints it and writes JSON."""
    work = Path(sys.argv[1])
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    result: dict[str, Any] = {"command": "python -m bench.memory WORK OUT.json", "longer": longer(work)}
    result["demo"] = demo(work)
    most = max(each["peak_mb"] for each in result["demo"].values())
    result["bars"] = {
        "demo below 3 GB": most < 1024 * DEMO_GB,
        "ten times longer, less than 10 % more": all(
            result["longer"][stage]["more"] < MORE for stage in ("ingest", "split", "identify")
        ),
    }
    print(json.dumps(result["bars"], indent=1))
    Path(sys.argv[2]).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
