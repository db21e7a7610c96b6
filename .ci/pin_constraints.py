"""Prints constraints.txt: every version that the extra `all` resolves to beside torch 2.13.0.

Run by `make constraints` inside the virtual environment; nothing is installed.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HEAD = "# Written by `make constraints` from the extra `all`; the Makefile installs under these pins."
TORCH = "torch==2.13.0"


def resolve() -> dict[str, str]:
    """Name -> version of everything that pip would install into an empty environment."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"]
        subprocess.run([*command, "--report", str(report), TORCH, "-e", ".[all]"], check=True)
        found = json.loads(report.read_text())["install"]
    pins = {entry["metadata"]["name"]: entry["metadata"]["version"].split("+")[0] for entry in found}
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in pins.items() if name != "twinproof"}


if __name__ == "__main__":
    lines = [HEAD, *(f"{name}=={version}" for name, version in sorted(resolve().items()))]
    sys.stdout.write("\n".join(lines) + "\n")
