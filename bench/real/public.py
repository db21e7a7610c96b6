"""What the benchmarks on real recordings share: the data, the public commands, and where figures go.

The shared recordings are not part of the repository. A benchmark whose data is absent says so and ends well: there is
nothing to measure.
"""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "data"
RESULTS = ROOT / "bench" / "results"


def recordings(name: str) -> Path:
    """The folder of a shared recording; where it is absent, says so and ends without an error."""
    folder = SHARED / name
    if not folder.is_dir():
        print(f"skipped: {folder} is not there, and this benchmark needs these recordings.")
        raise SystemExit(0)
    return folder


def fresh(folder: Path) -> Path:
    """An empty work folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def twinproof(*arguments: object) -> float:
    """Runs a public command, as a user would; the CPU-seconds that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = [str(argument) for argument in arguments]
    print("$ twinproof", *words, flush=True)
    subprocess.run([sys.executable, "-m", "twinproof.cli", *words], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


def keep(name: str, result: Mapping[str, Any]) -> None:
    """Writes the figures where the README's tables are made from."""
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{path.relative_to(ROOT)} written")
